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

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/lease/casstore"
)

const (
	// dialTimeout bounds one attempt to connect to a member. It is less than the TTL of
	// a lease.
	dialTimeout = time.Second
	// The client changes to another member after the sum of these without an answer:
	// about the TTL of a lease.
	keepAliveEvery, keepAliveTimeout = time.Second, time.Second
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
func Open(u *backendurl.URL) (*casstore.Driver, error) {
	r, err := newRegister(u)
	if err != nil {
		return nil, fmt.Errorf("%w: etcd: %w", lease.ErrConfig, err)
	}
	return casstore.New(r, r.close), nil
}

type register struct {
	prefix   string // ends with a slash
	config   clientv3.Config
	password string // path of the password file

	mu     sync.Mutex
	client *clientv3.Client // nil until it is needed
}

func newRegister(u *backendurl.URL) (*register, error) {
	r := &register{prefix: "/" + u.Path + "/", config: clientv3.Config{
		Username: u.Text("user", ""), TLS: u.TLS(), Logger: zap.NewNop(), DialTimeout: dialTimeout,
		DialKeepAliveTime: keepAliveEvery, DialKeepAliveTimeout: keepAliveTimeout, PermitWithoutStream: true,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(connecting)},
	}}
	r.password = u.Text("password_file", "")
	if err := u.Err(); err != nil {
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
	return r, err
}

// connect returns the client, and creates it if there is none. With a password that
// takes a round trip, which fails while etcd is down; the next request tries again.
func (r *register) connect() (*clientv3.Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client != nil {
		return r.client, nil
	}
	var err error
	if r.config.Password, err = backendurl.Secret(r.password); err != nil {
		return nil, fmt.Errorf("parameter password_file: %w", err)
	}
	r.client, err = clientv3.New(r.config)
	return r.client, err
}

func (r *register) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client == nil {
		return nil
	}
	return r.client.Close()
}

// Key implements [casstore.Register].
func (r *register) Key(name string) string {
	return "etcd " + strings.Join(r.config.Endpoints, ",") + " key " + r.prefix + name
}

// Read implements [casstore.Register].
func (r *register) Read(ctx context.Context, name string) ([]byte, string, error) {
	client, err := r.connect()
	if err != nil {
		return nil, "", err
	}
	res, err := client.Get(ctx, r.prefix+name)
	if err != nil {
		return nil, "", explained(client, err)
	}
	if len(res.Kvs) == 0 {
		return nil, "", nil
	}
	return res.Kvs[0].Value, strconv.FormatInt(res.Kvs[0].ModRevision, 10), nil
}

// Write implements [casstore.Register]. A missing key has the revision 0.
func (r *register) Write(ctx context.Context, name string, value []byte, revision string) (bool, error) {
	client, err := r.connect()
	if err != nil {
		return false, err
	}
	var known int64
	if revision != "" {
		if known, err = strconv.ParseInt(revision, 10, 64); err != nil {
			return false, err
		}
	}
	key := r.prefix + name
	res, err := client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", known)).
		Then(clientv3.OpPut(key, string(value))).
		Commit()
	if err != nil {
		return false, explained(client, err)
	}
	return res.Succeeded, nil
}

// explained adds to an error that no member could be reached: a client without a member
// tries to connect until the deadline, which alone would look like a slow etcd.
func explained(c *clientv3.Client, err error) error {
	if state := c.ActiveConnection().GetState(); errors.Is(err, context.DeadlineExceeded) && state != connectivity.Ready {
		return fmt.Errorf("no member can be connected to (%s): %w", strings.ToLower(state.String()), err)
	}
	return err
}
