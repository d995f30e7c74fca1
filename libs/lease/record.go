package lease

import (
	"errors"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Record is the content of a store under the name of a lease. The zero Record means that there is none yet.
type Record struct {
	// Version counts the Swaps of the record: 1, 2, 3, …; 0 means no record.
	Version uint64
	// Term is the term of the latest acquisition, kept over releases. A store
	// never lets it fall.
	Term sharding.Term
	// Holder identifies the holder of the lease, with the address of its service. Zero: it has been
	// released and is free at once.
	Holder sharding.NodeID
	// TTL is the time that the holder may act after a write without another one.
	TTL time.Duration
	// Nonce is the random name of the Swap that wrote the record.
	Nonce uint64
	// Cluster is the nonce of the Swap that made the record, kept ever since. It
	// tells two leases of the same name apart. Zero: an earlier version wrote it.
	Cluster sharding.ClusterID
}

// Replaceable reports whether next may replace the stored record r, if the caller has last
// read old. That holds only if r is still old. Equal versions alone do not show that: when a
// store has lost the record, versions start again.
func (r Record) Replaceable(old, next Record) bool {
	same := r.Version == old.Version && r.Nonce == old.Nonce //mutant:true lease-nonce r.Nonce == old.Nonce
	return same && r.Term <= next.Term
}

// Sentinels, wrapped once with the details.
var (
	// ErrConfig: a Config, a name or a URL makes no sense.
	ErrConfig = errors.New("bad lease config")
	// ErrStore: the store did not answer, or its content cannot be read.
	ErrStore = errors.New("lease store")
)
