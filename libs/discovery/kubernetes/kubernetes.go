// Package kubernetes is discovery by the endpoints of Kubernetes services, read
// from the API server as EndpointSlices (discovery.k8s.io/v1):
//
//	kubernetes:///coordinator                    a service in my own namespace
//	kubernetes://prod/coordinator,region?port=service
//
// Parameters: port (name or number; default the only one of a slice), ready (only, the default: endpoints
// that are ready; any: all endpoints), family (any, ipv4 or ipv6), role (of peers whose slice has no label
// "roost-role"), cluster (the required value of the label "roost-cluster", if a slice has it; default the
// process's own), api (URL of the API server), token_file and ca. The defaults of the last three are from
// the pod's service account. Files are read again whenever they are needed.
//
// The service account needs a Role that allows list and watch of endpointslices in
// discovery.k8s.io. Slices have the labels of their Service. If the pods of a Service
// must find each other before they are ready, the Service needs publishNotReadyAddresses:
// true.
//
// # What this does not do
//
// Processes do not register themselves: Kubernetes knows the endpoints.
package kubernetes

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/discovery"
	"github.com/roost-cluster/roost/libs/kubeapi"
)

func init() { discovery.Backends.Register(discovery.Parsed(Open), "kubernetes") }

const (
	group = "discovery.k8s.io/v1"
	// pageSize is the number of slices per request. Each has up to a hundred
	// endpoints by default.
	pageSize = 500
	// maxBody is the largest page that is read, in bytes.
	maxBody = 32 << 20
)

// Backend reads the endpoints of services.
type Backend struct {
	api      *kubeapi.Client
	selector string
	at       string // for error messages
	cluster  string
	role     string
	port     string
	unready  bool
	family   string
}

// Open returns a Backend for the cluster with that name, or for any if it is empty. It
// sends no request yet. Errors wrap discovery.ErrConfig.
func Open(u *backendurl.URL, cluster string) (*Backend, error) {
	d := &Backend{role: u.Text("role", ""), port: u.Text("port", ""), cluster: u.Text("cluster", cluster)}
	d.unready = u.OneOf("ready", "only", "any") == "any"
	d.family = u.OneOf("family", "any", "ipv4", "ipv6")
	var err error
	if d.api, err = kubeapi.New(u); err != nil {
		return nil, fmt.Errorf("%w: kubernetes: %w", discovery.ErrConfig, err)
	}
	services := strings.Split(u.Path, ",")
	for _, s := range services {
		if s == "" || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
			return nil, fmt.Errorf("%w: kubernetes: %.80q is not the name of a service; write for example kubernetes://prod/coordinator", discovery.ErrConfig, s)
		}
	}
	d.selector = "kubernetes.io/service-name in (" + strings.Join(services, ",") + ")"
	d.at = fmt.Sprintf("%s service %s/%s", d.api.Where(), d.api.Namespace(), u.Path)
	return d, nil
}

// Close closes the idle connections.
func (d *Backend) Close() error { return d.api.Close() }

// Peers returns the endpoints.
func (d *Backend) Peers(ctx context.Context) ([]discovery.Peer, error) {
	peers, _, err := d.Follow(ctx)
	return peers, err
}

// Follow returns the endpoints, and a function that watches for changes after them.
func (d *Backend) Follow(ctx context.Context) ([]discovery.Peer, discovery.Changed, error) {
	var peers []discovery.Peer
	next, version := "", ""
	for restarts := 0; ; {
		page, err := d.page(ctx, next)
		if expired(err) && next != "" && restarts < 3 {
			// The version of the pages has expired; start again.
			peers, next = nil, ""
			restarts++
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", d.at, err)
		}
		for _, s := range page.Items {
			found, err := d.read(s)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: slice %s: %w", d.at, s.Metadata.Name, err)
			}
			peers = append(peers, found...)
		}
		if next, version = page.Metadata.Continue, page.Metadata.ResourceVersion; next == "" {
			break
		}
	}
	return peers, func(ctx context.Context) error { return d.watch(ctx, version) }, nil
}

func (d *Backend) page(ctx context.Context, next string) (*sliceList, error) {
	q := url.Values{"labelSelector": {d.selector}, "limit": {strconv.Itoa(pageSize)}}
	if next != "" {
		q.Set("continue", next)
	}
	body, err := d.get(ctx, q)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(io.LimitReader(body, maxBody+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxBody {
		return nil, fmt.Errorf("the answer has more than %d bytes", maxBody)
	}
	var page sliceList
	if err := json.Unmarshal(text, &page); err != nil {
		return nil, fmt.Errorf("the answer is not a list of slices: %w", err)
	}
	if page.Kind != "EndpointSliceList" {
		return nil, fmt.Errorf("the answer is of kind %.40q, not EndpointSliceList", page.Kind)
	}
	return &page, nil
}

// watch waits for an event after the version of a list.
func (d *Backend) watch(ctx context.Context, version string) error {
	ctx, cancel := context.WithTimeout(ctx, discovery.Recheck)
	defer cancel()
	body, err := d.get(ctx, url.Values{
		"labelSelector": {d.selector}, "watch": {"1"}, "resourceVersion": {version},
		"timeoutSeconds": {strconv.Itoa(int(discovery.Recheck / time.Second))},
	})
	if err != nil {
		if expired(err) || errors.Is(err, context.DeadlineExceeded) {
			return nil // list again
		}
		return fmt.Errorf("%s: watch: %w", d.at, err)
	}
	defer func() { _ = body.Close() }()
	events := json.NewDecoder(bufio.NewReader(io.LimitReader(body, maxBody)))
	for {
		var e struct{ Type string }
		if err := events.Decode(&e); err != nil {
			return nil // watches end regularly: list again
		}
		if e.Type != "BOOKMARK" {
			return nil // a change, or an ERROR such as an expired version
		}
	}
}

// get sends a request to the API server; the caller must close the body.
func (d *Backend) get(ctx context.Context, q url.Values) (io.ReadCloser, error) {
	body, err := d.api.Stream(ctx, http.MethodGet, group, "endpointslices?"+q.Encode(), nil)
	if kubeapi.Is(err, http.StatusUnauthorized) || kubeapi.Is(err, http.StatusForbidden) {
		err = fmt.Errorf("%w: a Role with list and watch of endpointslices is needed: %w", discovery.ErrDenied, err)
	}
	return body, err
}

// expired reports whether the server no longer has a version or page.
func expired(err error) bool { return kubeapi.Is(err, http.StatusGone) }
