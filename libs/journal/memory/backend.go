package memory

import (
	"context"
	"fmt"
	"sync"

	"github.com/roost-cluster/roost/libs/journal"
)

// Backend is a handle on a [Ledger] behind a mutex. Several journals may share
// one, and several handles a ledger.
type Backend struct {
	mu     *sync.Mutex
	ledger *Ledger
	clock  journal.Timekeeper
}

// New returns an empty journal.
func New(cfg journal.Config) *Backend {
	return &Backend{mu: &sync.Mutex{}, ledger: NewLedger(cfg), clock: journal.NewTimekeeper(journal.SystemClock())}
}

// NewHandle returns another handle on the same journal, like that of another
// process.
func (b *Backend) NewHandle() *Backend {
	return &Backend{mu: b.mu, ledger: b.ledger, clock: journal.NewTimekeeper(b.clock.Clock())}
}

// Commit implements [journal.Backend].
func (b *Backend) Commit(ctx context.Context, ops []journal.Op) ([]journal.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", journal.ErrNotCommitted, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ledger.Apply(b.clock.Now(), ops), nil
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

// Inspect calls f with the ledger, under the mutex.
func (b *Backend) Inspect(f func(*Ledger)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b.ledger)
}

// SetClock replaces the clock that dates records, for tests.
func (b *Backend) SetClock(c journal.Clock) { b.clock.SetClock(c) }
