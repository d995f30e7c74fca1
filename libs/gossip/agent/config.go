package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/roost-cluster/roost/libs/bounded"
	"github.com/roost-cluster/roost/libs/gossip"
)

// Config holds what an agent needs. Zero values of the limits stand for the defaults.
type Config struct {
	// Core configures the membership itself.
	Core gossip.Config
	// Cluster is the name of the cluster. Nodes of another name are refused.
	Cluster string
	// Client sends to other nodes. Default: a client without TLS that connects
	// within a second, follows no redirects and reads no response of more than
	// 64 KiB; responses to posts are a few bytes or an error.
	Client *http.Client
	// Dial connects to the node at an address for a stream, with TLS if Client uses TLS.
	// Default: TCP, within a second.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// URL is the base URL of the node at an address. Default: "http://" + addr.
	URL func(addr string) string
	// MaySpeakAs refuses a request if its sender speaks for, or joins as, a member that it is not. A sender that is
	// not a member has neither a name nor roles. Default: no sender is refused, because none shows a certificate.
	MaySpeakAs func(ctx context.Context, name string, roles []string) error
	// Log receives the events of the membership. Default: nothing is logged.
	Log *slog.Logger

	// OnLeave is called in the loop when this node receives a request to leave; it must not block.
	// Default: the node leaves at once. A process with something to hand over begins to stop here,
	// and calls [Agent.Leave] at the end.
	OnLeave func()

	// TickEvery is the shortest time between ticks of the core. It bounds the precision
	// of all its timers, and must be well below Core.LateTick. Default 50 ms.
	TickEvery time.Duration
	// SendTimeout bounds one post. It should be longer than a round trip, and short
	// enough that a hanging peer gets fresh heartbeats when it recovers. Default
	// 1 s.
	SendTimeout time.Duration
	// Queue is the largest number of messages that wait for one address. Default 64: about the
	// messages of ten seconds.
	Queue int
	// EventLog is the number of events that are kept for followers. Default 1024: enough for the
	// restart of a cluster of some hundred members.
	EventLog int
	// Inbox is the largest number of messages that wait for the loop. Default 4096.
	Inbox int
	// Streams is the number of streams that other nodes may have to this node at a time; nodes
	// whose streams are refused post. Default: twice Core.MaxMembers, as a node may open a stream
	// again before the end of the old one is noticed here.
	Streams int
	// MaxBody is the largest request accepted, in bytes, after expansion of a
	// compressed one. Default 4 MiB: a state with some ten thousand members. No
	// state in it may have more members than Core.MaxMembers.
	MaxBody int64
	// GzipFrom is the least length, in bytes, of messages that are posted, compressed. Default
	// 4 KiB: shorter ones fit into a few packets anyway.
	GzipFrom int64
}

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	if c.Client == nil {
		c.Client = defaultClient()
	}
	if c.Dial == nil {
		c.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr)
		}
	}
	if c.URL == nil {
		c.URL = func(addr string) string { return "http://" + addr }
	}
	if c.MaySpeakAs == nil {
		c.MaySpeakAs = func(context.Context, string, []string) error { return nil }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Core.Seed == 0 {
		c.Core.Seed = rand.Uint64()
	}
	if c.TickEvery == 0 {
		c.TickEvery = 50 * time.Millisecond
	}
	if c.SendTimeout == 0 {
		c.SendTimeout = time.Second
	}
	if c.Queue == 0 {
		c.Queue = 64
	}
	if c.EventLog == 0 {
		c.EventLog = 1024
	}
	if c.Inbox == 0 {
		c.Inbox = 4096
	}
	if c.Streams == 0 {
		c.Streams = 2 * c.Core.MaxMembers
	}
	if c.MaxBody == 0 {
		c.MaxBody = 4 << 20
	}
	if c.GzipFrom == 0 {
		c.GzipFrom = 4 << 10
	}
	return c
}

// Validate names every invalid field, and how to fix it.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if err := c.Core.Validate(); err != nil {
		errs = append(errs, err)
	}
	if c.Cluster == "" {
		errs = append(errs, errors.New("Cluster is empty: name the cluster"))
	}
	if c.TickEvery < 0 || c.TickEvery*2 > c.Core.LateTick {
		errs = append(errs, fmt.Errorf("TickEvery is %v: choose more than 0 and at most half of LateTick %v", c.TickEvery, c.Core.LateTick))
	}
	if c.SendTimeout < 0 {
		errs = append(errs, fmt.Errorf("SendTimeout is %v: choose more than 0", c.SendTimeout))
	}
	if c.Queue < 0 || c.Inbox < 0 || c.EventLog < 0 || c.Streams < 0 || c.MaxBody < 0 || c.GzipFrom < 0 {
		errs = append(errs, fmt.Errorf("Queue %d, Inbox %d, EventLog %d, Streams %d, MaxBody %d, GzipFrom %d: choose more than 0", c.Queue, c.Inbox, c.EventLog, c.Streams, c.MaxBody, c.GzipFrom))
	}
	return errors.Join(errs...)
}

const maxAnswer = 64 << 10

func defaultClient() *http.Client {
	dialer := &net.Dialer{Timeout: time.Second}
	return &http.Client{
		Transport: bounded.Limits{Body: maxAnswer}.Transport(&http.Transport{
			DialContext:         dialer.DialContext,
			MaxIdleConnsPerHost: 2,
			IdleConnTimeout:     90 * time.Second,
			DisableCompression:  true,
		}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
