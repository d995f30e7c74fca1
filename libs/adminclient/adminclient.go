// Package adminclient is a client of the admin API of coordinators. With it, programs see what a cluster
// does, and steer it. The command-line tool roost uses it. It uses the types of the protocol, which change with
// releases, so it is not a part of the SDK. This program decides where the shards of a
// type go:
//
//	c := adminclient.New("http://localhost:8558", "http://localhost:8559")
//	done, err := c.Assign(ctx, adminclient.Assignment{
//		Type: "Cart", Regions: map[uint32]string{0: "region-1", 1: "region-2"}, By: "placer",
//	})
//
// The URLs point to the management listeners of coordinators. A call tries one coordinator after the other
// until the active one has answered. Each attempt takes at most 2 s. While only standbys answer, the call
// waits for a coordinator to become active. A call takes at most 6 s in all. [Client.Plan], and calls whose
// requests set a time (TimeoutMs), take as long as they allow the coordinator, and a little longer.
//
// Requests with the fields Limit and After are answered page by page. Limit is the greatest number of entries of
// a page, at most 1,000; 0: 100. For the next page, put Next of the answer into After. If Next is empty, there is
// no next page. A page may have fewer entries than Limit, or none, although there is a next page.
//
// # Errors
//
// An error of the active coordinator is a twirp.Error. If no active coordinator has answered, the error
// wraps [ErrUnreachable]. If a request of an operator, such as [Client.Cordon], may take effect although no
// coordinator has confirmed it, the error wraps [ErrUnknownOutcome]. If a URL leads to something other than a
// coordinator, and no coordinator has answered, it wraps [ErrWrongAddress].
//
// # What this does not do
//
// It sends no commands to entities, except [Client.Command]: package client does. It does not discover
// coordinators. A call is not made again after it was answered, except by [Client.Command] and [Until].
package adminclient

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/roost-cluster/roost/libs/bounded"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// ErrUnreachable is wrapped when no process has answered that can: for the calls of [Client], no active
// coordinator.
var ErrUnreachable = errors.New("the cluster is unreachable")

// maxAnswer is the greatest length of an answer, in bytes: a few times the length of a whole route table.
const maxAnswer = 64 << 20

// Client is a client of the active coordinator. It is safe for concurrent use.
type Client struct {
	urls    []string
	options Options
	clients []adminv1.Admin // one for each URL
	// noTimeout is true if only the context limits a call. Otherwise an attempt at one coordinator takes at
	// most askTimeout, and a call takes at most electionTimeout.
	noTimeout bool
	// withoutTimeout is a client of the same coordinators in which noTimeout is set. It is for calls that
	// coordinators may work at for long. It is nil if noTimeout is set in this client.
	withoutTimeout *Client
}

// Options say how to reach management listeners. The zero value is for listeners that require no token,
// and that are reached by http, or by https with a certificate that the operating system trusts.
type Options struct {
	// Token is the management token, one of management.tokens of the services. Use a token only with
	// https URLs or on one machine: everybody who can read it on its way can use it.
	Token string
	// TLS has the certificate authorities that sign the certificates of the listeners. If the listeners
	// require a certificate of the client, TLS has this one too. Nil: the defaults of Go.
	TLS *tls.Config
}

// New makes a client of the coordinators with these management URLs, without a token.
func New(addresses ...string) *Client { return NewWith(Options{}, addresses...) }

// NewWith is [New] with options.
func NewWith(o Options, addresses ...string) *Client {
	a := &Client{urls: addresses, options: o, withoutTimeout: &Client{urls: addresses, options: o, noTimeout: true}}
	limited, unlimited := NewHTTP(o, askTimeout), newHTTPWithoutTimeout(o)
	for _, u := range addresses {
		a.clients = append(a.clients, adminv1.NewAdminProtobufClient(u, limited))
		a.withoutTimeout.clients = append(a.withoutTimeout.clients, adminv1.NewAdminProtobufClient(u, unlimited))
	}
	return a
}

// newHTTPWithoutTimeout makes a client in which only the context limits a call. Connecting takes at most
// askTimeout.
func newHTTPWithoutTimeout(o Options) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: askTimeout}).DialContext
	transport.DisableKeepAlives = true // it is used rarely, and no caller would close its idle connections
	return o.client(transport, 0)
}

// NewHTTP makes an HTTP client for the Twirp APIs of the services. A request takes at most the given time.
// An answer of more than 64 MiB is an error.
func NewHTTP(o Options, timeout time.Duration) *http.Client {
	transport := http.DefaultTransport
	if o.TLS != nil {
		transport = http.DefaultTransport.(*http.Transport).Clone()
	}
	return o.client(transport.(*http.Transport), timeout)
}

// client makes a client with a transport. If o.TLS is set, it becomes the TLS configuration of the
// transport. Otherwise the transport stays as it is, because others may use it too.
func (o Options) client(transport *http.Transport, timeout time.Duration) *http.Client {
	if o.TLS != nil {
		transport.TLSClientConfig = o.TLS
	}
	return &http.Client{Timeout: timeout, Transport: bearer{o.Token, bounded.Limits{Body: maxAnswer}.Transport(transport)}}
}

// bearer adds the management token to each request.
type bearer struct {
	token string
	next  http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.next.RoundTrip(r)
}
