// Package etcd is discovery by an etcd cluster, version 3.4 or newer, in which
// processes register themselves:
//
//	etcd://10.0.0.2:2379,10.0.0.3:2379/roost/prod?ttl=10s
//
// Entries are keys below the path, "/roost/prod/<role>@<host:port>", with a JSON value, under a lease of
// the process: an entry that is not renewed for the ttl is removed. Parameters: ttl (default 10s), cluster
// (of the entries that are accepted; default the process's own), user and password_file, tls, ca, cert,
// key. Files are read again whenever they are needed.
//
// # What this does not do
//
// It does not guess: an entry that is invalid or belongs to another cluster fails the
// lookup, because a path belongs to one cluster; the error names the key. It grants no
// permissions: with authentication, the user must be allowed to read and write below the
// path.
package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/discovery"
)

func init() { discovery.Backends.Register(discovery.Parsed(Open), "etcd") }

// Backend reads and writes the entries below one path.
type Backend struct {
	prefix   string // ends with a slash
	cluster  string
	ttl      time.Duration
	config   clientv3.Config
	password string        // path of the password file
	dialing  chan struct{} // holds a token while a client is created

	mu     sync.Mutex
	client *clientv3.Client            // nil until it is needed
	leases map[string]clientv3.LeaseID // of the keys that this process has written
}

// entry is the value of a key.
type entry struct {
	Addr    string `json:"addr"`
	Role    string `json:"role,omitempty"`
	Cluster string `json:"cluster,omitempty"`
}

// Open returns a Backend for the cluster with that name, or for any if it is empty. It
// connects at the first request. Errors wrap discovery.ErrConfig.
func Open(u *backendurl.URL, cluster string) (*Backend, error) {
	d := &Backend{leases: map[string]clientv3.LeaseID{}, prefix: "/" + u.Path + "/", dialing: make(chan struct{}, 1)}
	d.ttl = u.Duration("ttl", 10*time.Second, 2*time.Second, time.Hour)
	d.cluster = u.Text("cluster", cluster)
	d.config = clientv3.Config{
		Username: u.Text("user", ""), Logger: zap.NewNop(),
		// Detects the silent failure of a member while a watch is open. gRPC allows no less.
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		DialTimeout: 3 * time.Second,
		// The client's own back-off grows to two minutes.
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 3 * time.Second,
		})},
	}
	d.password = u.Text("password_file", "")
	secure := u.TLS()
	err := u.Err()
	if err == nil {
		err = useFiles(&d.config, secure)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", discovery.ErrConfig, err)
	}
	bad := func(format string, args ...any) (*Backend, error) {
		return nil, fmt.Errorf("%w: etcd: %s", discovery.ErrConfig, fmt.Sprintf(format, args...))
	}
	if u.Hosts == "" || u.Path == "" {
		return bad("the members or the path are missing; write for example etcd://10.0.0.2:2379/roost/prod")
	}
	if (d.config.Username == "") != (d.password == "") {
		return bad("the parameters user and password_file belong together; give both or none")
	}
	scheme := "http://"
	if d.config.TLS != nil {
		scheme = "https://"
	}
	for _, h := range strings.Split(u.Hosts, ",") {
		if _, err := discovery.ParsePeer(h); err != nil {
			return bad("member %v", err)
		}
		d.config.Endpoints = append(d.config.Endpoints, scheme+h)
	}
	return d, nil
}

// Peers returns the entries.
func (d *Backend) Peers(ctx context.Context) ([]discovery.Peer, error) {
	peers, _, err := d.Follow(ctx)
	return peers, err
}

// Follow returns the entries, and a function that watches for changes after them.
func (d *Backend) Follow(ctx context.Context) ([]discovery.Peer, discovery.Changed, error) {
	c, err := d.connect(ctx)
	if err != nil {
		return nil, nil, d.wrap(d.prefix, err)
	}
	res, err := c.Get(ctx, d.prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, nil, d.wrap(d.prefix, err)
	}
	var peers []discovery.Peer
	for _, kv := range res.Kvs {
		p, err := d.read(strings.TrimPrefix(string(kv.Key), d.prefix), kv.Value)
		if err != nil {
			return nil, nil, d.wrap(string(kv.Key), err)
		}
		peers = append(peers, p)
	}
	return peers, func(ctx context.Context) error { return d.watch(ctx, c, res.Header.Revision+1) }, nil
}

func (d *Backend) read(name string, value []byte) (discovery.Peer, error) {
	var e entry
	if err := json.Unmarshal(value, &e); err != nil {
		return discovery.Peer{}, fmt.Errorf("the value is not an entry: %w", err)
	}
	p, err := discovery.ParsePeer(discovery.Peer{Addr: e.Addr, Role: e.Role}.String())
	switch {
	case err != nil:
		return discovery.Peer{}, err
	case d.cluster != "" && e.Cluster != d.cluster:
		return discovery.Peer{}, fmt.Errorf("the entry belongs to cluster %.80q, this process to %q; give each cluster a path of its own", e.Cluster, d.cluster)
	case name != p.String():
		return discovery.Peer{}, fmt.Errorf("the entry is for %s", p)
	}
	return p, nil
}

// watch waits for a change at a revision or later.
func (d *Backend) watch(ctx context.Context, c *clientv3.Client, revision int64) error {
	ctx, cancel := context.WithTimeout(ctx, discovery.Recheck)
	defer cancel()
	// A member without a leader would not report changes.
	events := c.Watch(clientv3.WithRequireLeader(ctx), d.prefix, clientv3.WithPrefix(), clientv3.WithRev(revision))
	for {
		select {
		case e, ok := <-events:
			switch {
			case !ok:
				return nil // list again
			case errors.Is(e.Err(), rpctypes.ErrCompacted):
				return nil // the revision is gone, so there were changes
			case e.Err() != nil:
				return d.wrap(d.prefix, e.Err())
			case len(e.Events) > 0:
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// TTL returns how long an entry stays without renewal.
func (d *Backend) TTL() time.Duration { return d.ttl }

// Enter renews the lease of self. It also writes the entry if it is missing or different:
// it may have been deleted, have expired, or be an earlier process's.
func (d *Backend) Enter(ctx context.Context, self discovery.Peer) error {
	key := d.prefix + self.String()
	c, err := d.connect(ctx)
	if err != nil {
		return d.wrap(key, err)
	}
	lease, err := d.lease(ctx, c, key)
	if err != nil {
		return d.wrap(key, err)
	}
	value, err := json.Marshal(entry{Addr: self.Addr, Role: self.Role, Cluster: d.cluster})
	if err != nil {
		return d.wrap(key, err)
	}
	_, err = c.Txn(ctx).
		If(clientv3.Compare(clientv3.LeaseValue(key), "=", lease), clientv3.Compare(clientv3.Value(key), "=", string(value))).
		Else(clientv3.OpPut(key, string(value), clientv3.WithLease(lease))).
		Commit()
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		d.drop(key)
	}
	return d.wrap(key, err)
}

// lease renews the lease of a key, or requests a new one.
func (d *Backend) lease(ctx context.Context, c *clientv3.Client, key string) (clientv3.LeaseID, error) {
	d.mu.Lock()
	id, ok := d.leases[key]
	d.mu.Unlock()
	if ok {
		_, err := c.KeepAliveOnce(ctx, id)
		if err == nil {
			return id, nil
		}
		if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return 0, err
		}
	}
	res, err := c.Grant(ctx, int64(d.ttl/time.Second))
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leases[key] = res.ID
	return res.ID, nil
}

func (d *Backend) drop(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.leases, key)
}

// Remove revokes the lease of self, which removes its entry. An entry that a later
// process has written has a lease of its own, and stays.
func (d *Backend) Remove(ctx context.Context, self discovery.Peer) error {
	key := d.prefix + self.String()
	d.mu.Lock()
	id, ok := d.leases[key]
	d.mu.Unlock()
	if !ok {
		return nil
	}
	c, err := d.connect(ctx)
	if err == nil {
		_, err = c.Revoke(ctx, id)
	}
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return d.wrap(key, err)
	}
	d.drop(key)
	return nil
}

// Close closes the connections.
func (d *Backend) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.client == nil {
		return nil
	}
	c := d.client
	d.client = nil
	return c.Close()
}

// connect returns the client. It creates it at the first call; a user name then needs a member that
// answers.
func (d *Backend) connect(ctx context.Context) (*clientv3.Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case d.dialing <- struct{}{}:
		defer func() { <-d.dialing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c := d.current(); c != nil {
		return c, nil
	}
	config := d.config
	var err error
	if config.Password, err = backendurl.Secret(d.password); err != nil {
		return nil, fmt.Errorf("password_file: %w", err)
	}
	if deadline, ok := ctx.Deadline(); ok { // the client outlives ctx
		config.DialTimeout = min(config.DialTimeout, time.Until(deadline))
	}
	c, err := clientv3.New(config)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.client = c
	return c, nil
}

func (d *Backend) current() *clientv3.Client {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.client
}

// wrap adds the place to an error. If the user was refused, the client is dropped, so
// that the next one reads the password again.
func (d *Backend) wrap(key string, err error) error {
	if err == nil {
		return nil
	}
	at := fmt.Sprintf("etcd %s key %s", strings.Join(d.config.Endpoints, ","), key)
	if denied(err) {
		_ = d.Close()
		return fmt.Errorf("%s: %w: user %q: %w", at, discovery.ErrDenied, d.config.Username, err)
	}
	if c := d.current(); c != nil && errors.Is(err, context.DeadlineExceeded) {
		if state := c.ActiveConnection().GetState(); state != connectivity.Ready {
			return fmt.Errorf("%s: no member can be connected to (%s): %w", at, strings.ToLower(state.String()), err)
		}
	}
	return fmt.Errorf("%s: %w", at, err)
}

func denied(err error) bool {
	for _, refusal := range []error{
		rpctypes.ErrAuthFailed, rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound,
		rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthNotEnabled, rpctypes.ErrAuthOldRevision,
	} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	switch status.Code(err) {
	case codes.PermissionDenied, codes.Unauthenticated:
		return true
	}
	return false
}
