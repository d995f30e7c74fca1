// Package casstore keeps lease records in servers that store bytes under a key and offer
// compare-and-swap: etcd, Consul, Kubernetes. Such a server is a [Register]; its package
// opens the [Backend].
//
// A record is a line of JSON that people can read. Reading and then writing
// takes two round trips; the write compares the revision that was read, so it is refused
// if the record changed in between.
//
// # What this does not do
//
// It does not use the servers' own leases, sessions or times to live: [lease.Holder] alone
// decides when a lease has expired, in the same way for all servers.
package casstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/sharding"
)

// maxValue is the largest size of a record, in bytes; they have about 200. A larger
// value was written by something else.
const maxValue = 4 << 10

// Register gives access to the values of a server, one per lease name.
type Register interface {
	// Read returns the value and its revision; nil and "" if there is none. It
	// sees every write that was acknowledged before it began.
	Read(ctx context.Context, name string) (value []byte, revision string, err error)
	// Write replaces the value if its revision is still the given one ("": there is
	// no value). The value must be on disk when it returns. After an error the write
	// may have happened, or may still happen.
	Write(ctx context.Context, name string, value []byte, revision string) (bool, error)
	// Key returns the server's name for the value, for error messages.
	Key(name string) string
}

// Backend is a [lease.Backend] on a register.
type Backend struct {
	register Register
	close    func() error
}

// New returns a Backend; close, if not nil, is called by Close.
func New(r Register, close func() error) *Backend { return &Backend{r, close} }

// Get implements [lease.Backend].
func (d *Backend) Get(ctx context.Context, name string) (lease.Record, error) {
	r, _, err := d.read(ctx, name)
	if err != nil {
		return lease.Record{}, fmt.Errorf("%w: get %s: %w", lease.ErrStore, d.register.Key(name), err)
	}
	return r, nil
}

// Swap implements [lease.Backend].
func (d *Backend) Swap(ctx context.Context, name string, old, next lease.Record) (bool, error) {
	ok, err := d.swap(ctx, name, old, next)
	if err != nil {
		return false, fmt.Errorf("%w: swap %s: %w", lease.ErrStore, d.register.Key(name), err)
	}
	return ok, nil
}

func (d *Backend) swap(ctx context.Context, name string, old, next lease.Record) (bool, error) {
	stored, revision, err := d.read(ctx, name)
	if err != nil || !stored.Replaceable(old, next) {
		return false, err
	}
	next.Version = old.Version + 1
	value, err := encode(next)
	if err != nil {
		return false, err
	}
	return d.register.Write(ctx, name, value, revision)
}

func (d *Backend) read(ctx context.Context, name string) (lease.Record, string, error) {
	value, revision, err := d.register.Read(ctx, name)
	if err != nil || revision == "" {
		return lease.Record{}, "", err
	}
	r, err := decode(value)
	if err != nil {
		return lease.Record{}, "", fmt.Errorf("the stored value is not a lease record: %w; delete it if it is not needed, or choose another path", err)
	}
	return r, revision, nil
}

// Close closes the connections; requests in progress may fail.
func (d *Backend) Close() error {
	if d.close == nil {
		return nil
	}
	return d.close()
}

// record is the stored form of a lease.Record. 64-bit numbers are strings, because other
// programs read JSON numbers as floating point.
type record struct {
	Version uint64           `json:"version,string"`
	Term    sharding.Term    `json:"term"`
	Addr    string           `json:"addr"`
	UID     sharding.NodeUID `json:"uid,string"`
	TTL     string           `json:"ttl"`
	Nonce   uint64           `json:"nonce,string"`
	// Cluster is missing in records of earlier versions.
	Cluster sharding.ClusterID `json:"cluster,string,omitempty"`
}

func encode(r lease.Record) ([]byte, error) {
	return json.Marshal(record{r.Version, r.Term, r.Holder.Addr, r.Holder.UID, r.TTL.String(), r.Nonce, r.Cluster})
}

func decode(value []byte) (lease.Record, error) {
	if len(value) > maxValue {
		return lease.Record{}, fmt.Errorf("it has %d bytes, a record has at most %d", len(value), maxValue)
	}
	var r record
	if err := json.Unmarshal(value, &r); err != nil {
		return lease.Record{}, err
	}
	if r.Version == 0 {
		return lease.Record{}, errors.New("it has no version")
	}
	ttl, err := time.ParseDuration(r.TTL)
	if err != nil {
		return lease.Record{}, err
	}
	return lease.Record{
		Version: r.Version, Term: r.Term, Holder: sharding.NodeID{Addr: r.Addr, UID: r.UID}, TTL: ttl, Nonce: r.Nonce, Cluster: r.Cluster,
	}, nil
}
