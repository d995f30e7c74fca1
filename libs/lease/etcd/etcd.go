// Package etcd keeps lease records in an etcd cluster, version 3.4 or newer:
//
//	etcd://10.0.0.2:2379,10.0.0.3:2379/roost/prod
//
// The record of a lease is the key "/roost/prod/<name>". Reads are linearizable and
// writes are transactions that compare the revision, so a majority of etcd's members
// decides. Parameters: user and password_file, tls, ca, cert, key.
//
// # What this does not do
//
// It does not use etcd's own leases (see [casstore]). It grants no permissions: with
// authentication, the user must be allowed to read and write below the path.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/lease/casstore"
)

func init() { lease.Backends.Register(lease.Server(Open), "etcd") }

const (
	// dialTimeout bounds one attempt to connect to a member. It is less than the TTL of
	// a lease.
	dialTimeout = time.Second
	// memberTimeout is the time after which later requests go to the next member: as long as a request to the store may
	// take by default (lease.Config.OpTimeout). The request itself continues, because a late write is better than one
	// that is aborted half-way.
	memberTimeout = 500 * time.Millisecond
	// After these without an answer, a connection is closed, so that the member is connected to again. gRPC allows no
	// shorter keepalive than 10 s, which is much longer than the TTL of a lease.
	keepAliveEvery, keepAliveTimeout = 10 * time.Second, time.Second
	// reconnectWithin bounds the pause between attempts to connect. The client's own
	// back-off grows to two minutes, and no coordinator is active meanwhile.
	reconnectWithin = time.Second
)

// connecting is the back-off for members that cannot be reached.
var connecting = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: reconnectWithin / 10, Multiplier: 1.6, Jitter: 0.2, MaxDelay: reconnectWithin},
	MinConnectTimeout: dialTimeout,
}

// Open returns a store; it connects at the first request. Errors wrap
// lease.ErrConfig.
func Open(u *backendurl.URL) (*casstore.Backend, error) {
	r, err := newRegister(u)
	if err != nil {
		return nil, fmt.Errorf("%w: etcd: %w", lease.ErrConfig, err)
	}
	return casstore.New(r, r.close), nil
}

// register has a client per member. A client with several members would send each request to the next one, and so
// every third to a member that does not answer, until gRPC's keepalive notices.
type register struct {
	prefix   string // ends with a slash
	config   clientv3.Config
	password string // path of the password file
	members  []*member

	mu      sync.Mutex
	current int // the member that receives requests
}

type member struct {
	mu     sync.Mutex
	client *clientv3.Client // nil until it is needed
}

func newRegister(u *backendurl.URL) (*register, error) {
	r := &register{prefix: "/" + u.Path + "/", config: clientv3.Config{
		Username: u.Text("user", ""), Logger: zap.NewNop(), DialTimeout: dialTimeout,
		DialKeepAliveTime: keepAliveEvery, DialKeepAliveTimeout: keepAliveTimeout, PermitWithoutStream: true,
		DialOptions:     []grpc.DialOption{grpc.WithConnectParams(connecting)},
		MaxUnaryRetries: 1, // the request for the lease is retried anyway, at the next member
	}}
	r.password = u.Text("password_file", "")
	secure := u.TLS()
	if err := u.Err(); err != nil {
		return nil, err
	}
	if err := useFiles(&r.config, secure); err != nil {
		return nil, err
	}
	if u.Hosts == "" || u.Path == "" {
		return nil, errors.New("the members or the path are missing; write for example etcd://10.0.0.2:2379/roost/prod")
	}
	if (r.config.Username == "") != (r.password == "") {
		return nil, errors.New("the parameters user and password_file belong together; give both or none")
	}
	var err error
	r.config.Endpoints, err = u.Endpoints(r.config.TLS != nil)
	for range r.config.Endpoints {
		r.members = append(r.members, &member{})
	}
	return r, err
}

// ask makes a request to the current member. If the member fails or takes long, later requests go to the next one. The
// request is not repeated: a write may have happened.
func (r *register) ask(request func(*clientv3.Client) error) error {
	r.mu.Lock()
	current := r.current
	r.mu.Unlock()
	next := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.current == current {
			r.current = (current + 1) % len(r.members)
		}
	}
	late := time.AfterFunc(memberTimeout, next)
	defer late.Stop()
	client, err := r.connect(current)
	if err == nil {
		if err = explained(client, request(client)); denied(err) {
			r.forget(current, client)
		}
	}
	if err != nil {
		next()
	}
	return err
}

// connect returns the client of a member, and creates it if there is none. With a password that
// takes a round trip, which fails while the member is down; the next request tries again.
func (r *register) connect(i int) (*clientv3.Client, error) {
	m := r.members[i]
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.client != nil {
		return m.client, nil
	}
	config := r.config
	config.Endpoints = config.Endpoints[i : i+1]
	var err error
	if config.Password, err = backendurl.Secret(r.password); err != nil {
		return nil, fmt.Errorf("parameter password_file: %w", err)
	}
	m.client, err = clientv3.New(config)
	return m.client, err
}

// denied reports whether the member refused the user. Then the password may have been changed, also while the client was connected.
func denied(err error) bool {
	for _, refusal := range []error{rpctypes.ErrAuthFailed, rpctypes.ErrPermissionDenied, rpctypes.ErrUserNotFound, rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// forget closes the client of a member. The next one reads the password again.
func (r *register) forget(i int, client *clientv3.Client) {
	m := r.members[i]
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.client == client {
		m.client = nil
		_ = client.Close()
	}
}

func (r *register) close() error {
	var errs []error
	for _, m := range r.members {
		m.mu.Lock()
		if m.client != nil {
			errs = append(errs, m.client.Close())
		}
		m.mu.Unlock()
	}
	return errors.Join(errs...)
}

// Key implements [casstore.Register].
func (r *register) Key(name string) string {
	return "etcd " + strings.Join(r.config.Endpoints, ",") + " key " + r.prefix + name
}

// Read implements [casstore.Register].
func (r *register) Read(ctx context.Context, name string) ([]byte, string, error) {
	var res *clientv3.GetResponse
	if err := r.ask(func(client *clientv3.Client) (err error) {
		res, err = client.Get(ctx, r.prefix+name)
		return err
	}); err != nil {
		return nil, "", err
	}
	if len(res.Kvs) == 0 {
		return nil, "", nil
	}
	return res.Kvs[0].Value, strconv.FormatInt(res.Kvs[0].ModRevision, 10), nil
}

// Write implements [casstore.Register]. A missing key has the revision 0.
func (r *register) Write(ctx context.Context, name string, value []byte, revision string) (bool, error) {
	var known int64
	if revision != "" {
		var err error
		if known, err = strconv.ParseInt(revision, 10, 64); err != nil {
			return false, err
		}
	}
	key, stored := r.prefix+name, false
	err := r.ask(func(client *clientv3.Client) error {
		res, err := client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(key), "=", known)).
			Then(clientv3.OpPut(key, string(value))).
			Commit()
		stored = err == nil && res.Succeeded
		return err
	})
	return stored, err
}

// explained adds to an error that the member could not be reached: a client without a connection
// tries to connect until the deadline, which alone would look like a slow etcd.
func explained(c *clientv3.Client, err error) error {
	if state := c.ActiveConnection().GetState(); err != nil && state != connectivity.Ready {
		return fmt.Errorf("member %s cannot be connected to (%s): %w", strings.Join(c.Endpoints(), ","), strings.ToLower(state.String()), err)
	}
	return err
}
