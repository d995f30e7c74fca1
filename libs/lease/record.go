package lease

import (
	"context"
	"errors"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Record is what a store keeps under the name of a lease. The zero Record says
// that there is none yet.
type Record struct {
	// Version counts the Swaps of the record: 1, 2, 3, …; 0 means no record.
	Version uint64
	// Term is the term of the latest acquisition, kept over releases. A store
	// never lets it fall.
	Term sharding.Term
	// Holder is who holds the lease, and where its service listens. Zero: it
	// has been released and is free at once.
	Holder sharding.NodeID
	// TTL is how long the holder may act after a write without another one.
	TTL time.Duration
	// Nonce is the random name of the Swap that wrote the record.
	Nonce uint64
}

// Store keeps one record per name. It is all that a backend implements. Both
// methods may be called concurrently; reads and writes of one name are
// linearizable, and a write that was acknowledged survives a crash.
type Store interface {
	// Get reads the record; the zero Record if there is none.
	Get(ctx context.Context, name string) (Record, error)
	// Swap replaces the record by next, with Version old+1, iff the stored
	// version is old (0: there is none) and the stored term is not above
	// next.Term. It returns false if it is not. After an error the outcome is
	// unknown: the write may have happened, or may still happen.
	Swap(ctx context.Context, name string, old uint64, next Record) (bool, error)
}

// Sentinels, wrapped once with the details.
var (
	// ErrConfig: a Config, a name or a URL makes no sense.
	ErrConfig = errors.New("bad lease config")
	// ErrStore: the store could not be asked, or what it keeps cannot be read.
	ErrStore = errors.New("lease store")
)
