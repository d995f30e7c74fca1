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
	watch  journal.Watch
}

// New is an empty journal for one process.
func New(cfg journal.Config) *Backend {
	return &Backend{mu: &sync.Mutex{}, ledger: NewLedger(cfg), watch: journal.NewWatch(journal.SystemClock())}
}

// Another is a handle on the same journal, as another process would have it.
func (b *Backend) Another() *Backend {
	return &Backend{mu: b.mu, ledger: b.ledger, watch: journal.NewWatch(b.watch.Clock())}
}

// Commit implements [journal.Backend].
func (b *Backend) Commit(ctx context.Context, ops []journal.Op) ([]journal.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", journal.ErrNotCommitted, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ledger.Apply(b.watch.Now(), ops), nil
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
func (b *Backend) SetClock(c journal.Clock) { b.watch.SetClock(c) }
