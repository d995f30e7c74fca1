// Package consul keeps lease records in Consul's key-value store:
//
//	consul://127.0.0.1:8500/roost/prod
//
// The record of a lease is the key "roost/prod/<name>". Reads are consistent and writes
// compare the index, so a majority of Consul's servers decides. Parameters: token_file
// (read at every request; default the environment variable CONSUL_HTTP_TOKEN),
// datacenter (default the agent's), tls, ca, cert, key.
//
// # What this does not do
//
// It does not use Consul's sessions and their lock delay (see [casstore]). It grants no
// permissions: with access control the token needs
//
//	key_prefix "roost/prod/" { policy = "write" }
package consul

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/lease/casstore"
)

func init() { lease.Backends.Register(lease.Server(Open), "consul") }

// requestTimeout bounds every request, so that requests to a paused agent do not
// accumulate.
const requestTimeout = 10 * time.Second

// Open returns a store; it connects at the first request. Errors wrap
// lease.ErrConfig.
func Open(u *backendurl.URL) (*casstore.Backend, error) {
	r, err := newRegister(u)
	if err != nil {
		return nil, fmt.Errorf("%w: consul: %w", lease.ErrConfig, err)
	}
	return casstore.New(r, r.close), nil
}

type register struct {
	kv        *api.KV
	transport *http.Transport
	host      string
	prefix    string // ends with a slash
	dc        string
	token     string // path of the token file
}

func newRegister(u *backendurl.URL) (*register, error) {
	r := &register{host: u.Hosts, prefix: u.Path + "/", dc: u.Text("datacenter", ""), token: u.Text("token_file", "")}
	secure := u.TLS()
	if err := u.Err(); err != nil {
		return nil, err
	}
	if u.Path == "" {
		return nil, errors.New("the path is missing; write for example consul://127.0.0.1:8500/roost/prod")
	}
	hosts, err := u.Endpoints(secure != nil)
	if err != nil {
		return nil, err
	}
	if len(hosts) != 1 {
		return nil, fmt.Errorf("there are %d hosts; give one, the agent on this machine", len(hosts))
	}
	if _, err := backendurl.Secret(r.token); err != nil {
		return nil, fmt.Errorf("parameter token_file: %w", err)
	}
	r.transport = &http.Transport{MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute}
	secure.Use(r.transport)
	client, err := api.NewClient(&api.Config{
		Address: hosts[0], Transport: r.transport,
		HttpClient: &http.Client{Transport: r.transport, Timeout: requestTimeout},
	})
	if err != nil {
		return nil, err
	}
	r.kv = client.KV()
	return r, nil
}

func (r *register) close() error {
	r.transport.CloseIdleConnections()
	return nil
}

// Key implements [casstore.Register].
func (r *register) Key(name string) string { return "consul " + r.host + " key " + r.prefix + name }

// Read implements [casstore.Register].
func (r *register) Read(ctx context.Context, name string) ([]byte, string, error) {
	token, err := backendurl.Secret(r.token)
	if err != nil {
		return nil, "", err
	}
	q := &api.QueryOptions{Datacenter: r.dc, Token: token, RequireConsistent: true}
	pair, _, err := r.kv.Get(r.prefix+name, q.WithContext(ctx))
	if err != nil || pair == nil {
		return nil, "", err
	}
	return pair.Value, strconv.FormatUint(pair.ModifyIndex, 10), nil
}

// Write implements [casstore.Register]. A missing key has the index 0.
func (r *register) Write(ctx context.Context, name string, value []byte, revision string) (bool, error) {
	token, err := backendurl.Secret(r.token)
	if err != nil {
		return false, err
	}
	pair := &api.KVPair{Key: r.prefix + name, Value: value}
	if revision != "" {
		if pair.ModifyIndex, err = strconv.ParseUint(revision, 10, 64); err != nil {
			return false, err
		}
	}
	ok, _, err := r.kv.CAS(pair, (&api.WriteOptions{Datacenter: r.dc, Token: token}).WithContext(ctx))
	return ok, err
}
