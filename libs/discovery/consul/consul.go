// Package consul is discovery by Consul, in which processes register themselves as
// instances of one service:
//
//	consul://127.0.0.1:8500/roost?ttl=10s
//
// The host is an agent, usually the one on this machine; the path is the name of the
// service. Instances are listed if all their checks pass. Each entry has a check that
// its process renews: without renewal it is no longer listed after the ttl, and is
// removed after another minute. The role and the cluster of a peer are in its metadata,
// under "role" and "cluster"; instances that other programs have registered need neither.
//
// Parameters: ttl (default 10s), cluster (of the instances that are accepted; default the process's own),
// token_file (default: the environment variable CONSUL_HTTP_TOKEN), datacenter (default the agent's), tls,
// ca, cert, key. Files are read again whenever they are needed.
//
// # What this does not do
//
// It does not guess: an instance that is invalid or belongs to another cluster fails the
// lookup, because a service belongs to one cluster. To a client that may not see the
// service, Consul returns an empty list instead of an error. With a token this can be
// detected while instances are being hidden; without one it cannot.
package consul

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/discovery"
)

func init() { discovery.Backends.Register(discovery.Parsed(Open), "consul") }

const (
	// removeAfter is the shortest time that Consul allows.
	removeAfter = time.Minute
	// answerWithin bounds the time that a blocking query may take beyond its wait time: Consul itself adds
	// up to a sixteenth.
	answerWithin = discovery.Recheck/16 + 3*time.Second
)

// Backend queries an agent for the instances of one service.
type Backend struct {
	client     *api.Client
	transport  *http.Transport
	at         string // for error messages
	service    string
	cluster    string
	datacenter string
	ttl        time.Duration
	token      string // path of the token file
}

// Open returns a Backend for the cluster with that name, or for any if it is empty. It
// sends no request yet. Errors wrap discovery.ErrConfig.
func Open(u *backendurl.URL, cluster string) (*Backend, error) {
	d := &Backend{service: u.Path, at: "consul " + u.Hosts + " service " + u.Path}
	d.ttl = u.Duration("ttl", 10*time.Second, 2*time.Second, time.Hour)
	d.cluster = u.Text("cluster", cluster)
	d.datacenter = u.Text("datacenter", "")
	d.token = u.Text("token_file", "")
	secure := u.TLS()
	if err := u.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", discovery.ErrConfig, err)
	}
	if _, err := discovery.ParsePeer(u.Hosts); err != nil {
		return nil, fmt.Errorf("%w: consul: agent %w; write for example consul://127.0.0.1:8500/roost", discovery.ErrConfig, err)
	}
	if u.Path == "" || strings.ContainsAny(u.Path, "/?# ") {
		return nil, fmt.Errorf("%w: consul: %.80q is not the name of a service; write for example consul://127.0.0.1:8500/roost", discovery.ErrConfig, u.Path)
	}
	scheme := "http"
	if secure != nil {
		scheme = "https"
	}
	// Not the library's transport, which would read TLS settings from the environment.
	d.transport = http.DefaultTransport.(*http.Transport).Clone()
	secure.Use(d.transport)
	var err error
	d.client, err = api.NewClient(&api.Config{Address: u.Hosts, Scheme: scheme, HttpClient: &http.Client{Transport: d.transport}})
	if err != nil {
		return nil, fmt.Errorf("%w: consul: %w", discovery.ErrConfig, err)
	}
	return d, nil
}

// Close closes the idle connections.
func (d *Backend) Close() error {
	d.transport.CloseIdleConnections()
	return nil
}

// Peers returns the instances.
func (d *Backend) Peers(ctx context.Context) ([]discovery.Peer, error) {
	peers, _, err := d.Follow(ctx)
	return peers, err
}

// Follow returns the instances, and a function that waits for a change with a blocking
// query.
func (d *Backend) Follow(ctx context.Context) ([]discovery.Peer, discovery.Changed, error) {
	found, index, err := d.query(ctx, 0)
	if err != nil {
		return nil, nil, err
	}
	peers := make([]discovery.Peer, len(found))
	for i, e := range found {
		if peers[i], err = d.read(e); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", d.at, err)
		}
	}
	return peers, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, discovery.Recheck+answerWithin)
		defer cancel()
		_, _, err := d.query(ctx, index)
		return err
	}, nil
}

// query returns the instances; if after is not 0, it waits until the index is higher.
func (d *Backend) query(ctx context.Context, after uint64) ([]*api.ServiceEntry, uint64, error) {
	token, err := backendurl.Secret(d.token)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: token_file: %w", d.at, err)
	}
	q := &api.QueryOptions{Token: token, Datacenter: d.datacenter, WaitIndex: after, WaitTime: discovery.Recheck}
	found, meta, err := d.client.Health().Service(d.service, "", true, q.WithContext(ctx))
	if err != nil {
		return nil, 0, d.wrap(err)
	}
	if meta.ResultsFilteredByACLs {
		return nil, 0, fmt.Errorf("%s: %w: instances are hidden from token_file %q; its policy needs service %q and node_prefix \"\" to be read",
			d.at, discovery.ErrDenied, d.token, d.service)
	}
	// An index of 0 would not wait.
	return found, max(meta.LastIndex, 1), nil
}

func (d *Backend) read(e *api.ServiceEntry) (discovery.Peer, error) {
	if e.Service == nil || e.Node == nil {
		return discovery.Peer{}, errors.New("an instance without service or node")
	}
	host := e.Service.Address
	if host == "" { // Consul's convention
		host = e.Node.Address
	}
	addr := net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(e.Service.Port))
	p, err := discovery.ParsePeer(discovery.Peer{Addr: addr, Role: e.Service.Meta["role"]}.String())
	if err != nil {
		return discovery.Peer{}, fmt.Errorf("instance %s at node %s: %w", e.Service.ID, e.Node.Node, err)
	}
	if other := e.Service.Meta["cluster"]; d.cluster != "" && other != "" && other != d.cluster {
		return discovery.Peer{}, fmt.Errorf("instance %s at node %s belongs to cluster %.80q, this process to %q; give each cluster a service of its own",
			e.Service.ID, e.Node.Node, other, d.cluster)
	}
	return p, nil
}

// TTL returns how long an entry is listed without renewal.
func (d *Backend) TTL() time.Duration { return d.ttl }

// instance returns the id of a peer's entry; it can be part of a URL path.
func (d *Backend) instance(p discovery.Peer) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(":[]%@", r) {
			return '-'
		}
		return r
	}, d.service+"-"+p.String())
}

// Enter renews the entry of self, or registers it if the agent does not know it.
func (d *Backend) Enter(ctx context.Context, self discovery.Peer) error {
	id := d.instance(self)
	token, err := backendurl.Secret(d.token)
	if err != nil {
		return fmt.Errorf("%s instance %s: token_file: %w", d.at, id, err)
	}
	q := (&api.QueryOptions{Token: token}).WithContext(ctx)
	err = d.client.Agent().UpdateTTLOpts("service:"+id, "", api.HealthPassing, q)
	if !absent(err) {
		return d.wrapAt(id, err)
	}
	host, port, err := net.SplitHostPort(self.Addr)
	if err != nil {
		return d.wrapAt(id, err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return d.wrapAt(id, err)
	}
	r := &api.AgentServiceRegistration{
		ID: id, Name: d.service, Address: host, Port: number, Meta: map[string]string{"role": self.Role, "cluster": d.cluster},
		Check: &api.AgentServiceCheck{
			TTL: d.ttl.String(), Status: api.HealthPassing, DeregisterCriticalServiceAfter: removeAfter.String(),
		},
	}
	if self.Role != "" {
		r.Tags = []string{self.Role}
	}
	opts := api.ServiceRegisterOpts{Token: token, ReplaceExistingChecks: true}.WithContext(ctx)
	return d.wrapAt(id, d.client.Agent().ServiceRegisterOpts(r, opts))
}

// Remove removes the entry of self.
func (d *Backend) Remove(ctx context.Context, self discovery.Peer) error {
	id := d.instance(self)
	token, err := backendurl.Secret(d.token)
	if err != nil {
		return fmt.Errorf("%s instance %s: token_file: %w", d.at, id, err)
	}
	err = d.client.Agent().ServiceDeregisterOpts(id, (&api.QueryOptions{Token: token}).WithContext(ctx))
	if absent(err) {
		return nil
	}
	return d.wrapAt(id, err)
}

// absent reports whether the agent does not know the instance.
func absent(err error) bool {
	var status api.StatusError
	return errors.As(err, &status) && status.Code == http.StatusNotFound
}

func (d *Backend) wrap(err error) error {
	var status api.StatusError
	if errors.As(err, &status) && (status.Code == http.StatusForbidden || status.Code == http.StatusUnauthorized) {
		err = fmt.Errorf("%w: token_file %q: %w", discovery.ErrDenied, d.token, err)
	}
	return fmt.Errorf("%s: %w", d.at, err)
}

func (d *Backend) wrapAt(id string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("instance %s: %w", id, d.wrap(err))
}
