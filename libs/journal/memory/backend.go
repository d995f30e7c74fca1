package memory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
)

// Backend is a [Ledger] behind a mutex. Several journals may share one.
type Backend struct {
	mu     sync.Mutex
	ledger *Ledger
	now    func() time.Time
}

// New is an empty journal for one process.
func New(cfg journal.Config) *Backend { return &Backend{ledger: NewLedger(cfg), now: time.Now} }

// Commit implements [journal.Backend].
func (b *Backend) Commit(ctx context.Context, ops []journal.Op) ([]journal.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", journal.ErrNotCommitted, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ledger.Apply(b.now(), ops), nil
}

// Load implements [journal.Backend].
func (b *Backend) Load(ctx context.Context, req journal.LoadRequest) (journal.Loaded, error) {
	if err := ctx.Err(); err != nil {
		return journal.Loaded{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ledger.Load(req)
}

// Declare implements [journal.Backend].
func (b *Backend) Declare(ctx context.Context, d journal.Declaration) (journal.Facts, error) {
	if err := ctx.Err(); err != nil {
		return journal.Facts{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ledger.Declare(d)
}

// Close implements [journal.Backend]. The ledger stays: another journal may
// still use it.
func (b *Backend) Close() error { return nil }

// Inspect calls f with the ledger while nobody else uses it.
func (b *Backend) Inspect(f func(*Ledger)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b.ledger)
}

// SetClock replaces the clock that dates records, for tests.
func (b *Backend) SetClock(now func() time.Time) { b.now = now }
