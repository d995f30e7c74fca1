// Package kubernetes is discovery by the endpoints of Kubernetes services, read
// from the API server as EndpointSlices (discovery.k8s.io/v1):
//
//	kubernetes:///coordinator                    a service in my own namespace
//	kubernetes://prod/coordinator,region?port=service
//
// Parameters: port (name or number; default the only one a slice has), ready
// (only: endpoints that are ready, the default; any: the others too), family
// (any, ipv4 or ipv6), role (of peers whose slice has no label "roost-role"),
// cluster (that the label "roost-cluster", if there is one, must name; default
// that of the process), api (URL of the API server), token_file and ca. Without
// the last three a process in a pod uses what its service account gives it. Files
// are read again when they are needed.
//
// The service account needs a Role that allows list and watch of endpointslices
// in discovery.k8s.io. Labels of a Service are passed on to its slices. A service
// whose pods are to find each other before they are ready needs
// publishNotReadyAddresses: true.
//
// # What this does not do
//
// Nobody enters itself: Kubernetes knows who is there.
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

const (
	group = "discovery.k8s.io/v1"
	// pageSize is how many slices are asked for at once. Each has up to a
	// hundred endpoints by default.
	pageSize = 500
	// maxBody is the largest page that is read, in bytes.
	maxBody = 32 << 20
)

// Driver reads the endpoints of services.
type Driver struct {
	api      *kubeapi.Client
	selector string
	at       string // for errors
	cluster  string
	role     string
	port     string
	unready  bool
	family   string
}

// Open makes a Driver for a cluster of that name, any if it is empty. It asks
// nobody yet. Errors wrap discovery.ErrConfig.
func Open(u *backendurl.URL, cluster string) (*Driver, error) {
	d := &Driver{role: u.Text("role", ""), port: u.Text("port", ""), cluster: u.Text("cluster", cluster)}
	d.unready = u.OneOf("ready", "only", "any") == "any"
	d.family = u.OneOf("family", "any", "ipv4", "ipv6")
	var err error
	if d.api, err = kubeapi.New(u); err != nil {
		return nil, fmt.Errorf("%w: kubernetes: %w", discovery.ErrConfig, err)
	}
	services := strings.Split(u.Path, ",")
	for _, s := range services {
		if s == "" || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
			return nil, fmt.Errorf("%w: kubernetes: %.80q is no name of a service; write for example kubernetes://prod/coordinator", discovery.ErrConfig, s)
		}
	}
	d.selector = "kubernetes.io/service-name in (" + strings.Join(services, ",") + ")"
	d.at = fmt.Sprintf("%s service %s/%s", d.api.Where(), d.api.Namespace(), u.Path)
	return d, nil
}

// Peers lists the endpoints.
func (d *Driver) Peers(ctx context.Context) ([]discovery.Peer, error) {
	peers, _, err := d.Follow(ctx)
	return peers, err
}

// Follow lists the endpoints; what comes after them is watched.
func (d *Driver) Follow(ctx context.Context) ([]discovery.Peer, discovery.Changed, error) {
	var peers []discovery.Peer
	next, version := "", ""
	for restarts := 0; ; {
		page, err := d.page(ctx, next)
		if expired(err) && next != "" && restarts < 3 {
			// The list that the pages are of is gone; begin anew.
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

func (d *Driver) page(ctx context.Context, next string) (*sliceList, error) {
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
		return nil, fmt.Errorf("the answer is no list of slices: %w", err)
	}
	if page.Kind != "EndpointSliceList" {
		return nil, fmt.Errorf("the answer is of kind %.40q, not EndpointSliceList", page.Kind)
	}
	return &page, nil
}

// watch waits for an event after the version of a list.
func (d *Driver) watch(ctx context.Context, version string) error {
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
			return nil // it ended, as it does now and then: list again
		}
		if e.Type != "BOOKMARK" {
			return nil // a change, or an ERROR such as an expired version
		}
	}
}

// get asks the API server; the body of a good answer is to be closed.
func (d *Driver) get(ctx context.Context, q url.Values) (io.ReadCloser, error) {
	body, err := d.api.Stream(ctx, http.MethodGet, group, "endpointslices?"+q.Encode(), nil)
	if kubeapi.Is(err, http.StatusUnauthorized) || kubeapi.Is(err, http.StatusForbidden) {
		err = fmt.Errorf("%w: it takes a Role with list and watch of endpointslices: %w", discovery.ErrDenied, err)
	}
	return body, err
}

// expired reports whether a version or page is too old for the server.
func expired(err error) bool { return kubeapi.Is(err, http.StatusGone) }
