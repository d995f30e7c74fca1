package memory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/clock"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Backend is a handle on a [Ledger] behind a mutex. Several journals may share
// one, and several handles a ledger.
type Backend struct {
	mu         *sync.Mutex
	ledger     *Ledger
	generation sharding.Generation // of the ledger when the handle was made
	clock      clock.Timekeeper
}

// New returns an empty journal.
func New(cfg journal.Config) *Backend {
	l := NewLedger(cfg)
	l.Replace(clock.NewGeneration())
	return &Backend{mu: &sync.Mutex{}, ledger: l, generation: l.Generation(), clock: clock.NewTimekeeper(clock.System())}
}

// NewHandle returns another handle on the same journal, like one in another process.
func (d *Backend) NewHandle() *Backend {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &Backend{mu: d.mu, ledger: d.ledger, generation: d.ledger.Generation(), clock: clock.NewTimekeeper(d.clock.Clock())}
}

// Commit implements [journal.Backend].
func (d *Backend) Commit(ctx context.Context, ops []journal.Op) ([]journal.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", journal.ErrNotCommitted, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.ledger.facts.CheckOpened(d.generation); err != nil {
		return nil, err
	}
	return d.ledger.Apply(d.clock.Now(), ops), nil
}

// Load implements [journal.Reader].
func (d *Backend) Load(ctx context.Context, req journal.LoadRequest) (journal.Loaded, error) {
	if err := ctx.Err(); err != nil {
		return journal.Loaded{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.ledger.facts.CheckOpenedReader(d.generation); err != nil {
		return journal.Loaded{}, err
	}
	return d.ledger.Load(req)
}

// List implements [journal.Reader].
func (d *Backend) List(ctx context.Context, req journal.ListRequest) ([]sharding.Entity, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ledger.List(req), nil
}

// Wakes implements [journal.Reader].
func (d *Backend) Wakes(ctx context.Context, req journal.WakesRequest) (journal.WakesPage, error) {
	return readPage(ctx, d, func(now time.Time) journal.WakesPage { return d.ledger.Wakes(now, req) })
}

// Sends implements [journal.Reader].
func (d *Backend) Sends(ctx context.Context, req journal.SendsRequest) (journal.SendsPage, error) {
	return readPage(ctx, d, func(now time.Time) journal.SendsPage { return d.ledger.Sends(now, req) })
}

func readPage[R any](ctx context.Context, d *Backend, read func(now time.Time) journal.Page[R]) (journal.Page[R], error) {
	if err := ctx.Err(); err != nil {
		return journal.Page[R]{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.ledger.facts.CheckOpenedReader(d.generation); err != nil {
		return journal.Page[R]{}, err
	}
	return read(d.clock.Now().Wall), nil
}

// History implements [journal.Reader].
func (d *Backend) History(ctx context.Context, req journal.HistoryRequest) (journal.History, error) {
	if err := ctx.Err(); err != nil {
		return journal.History{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.ledger.facts.CheckOpenedReader(d.generation); err != nil {
		return journal.History{}, err
	}
	return d.ledger.History(req), nil
}

// Raw implements [journal.RawReader].
func (d *Backend) Raw(ctx context.Context, entity sharding.Entity) (journal.RawEntity, error) {
	if err := ctx.Err(); err != nil {
		return journal.RawEntity{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.ledger.facts.CheckOpenedReader(d.generation); err != nil {
		return journal.RawEntity{}, err
	}
	return d.ledger.Raw(entity)
}

// Repair implements [journal.Repairer].
func (d *Backend) Repair(ctx context.Context, r *journal.Repair) (journal.RepairPlan, error) {
	if err := ctx.Err(); err != nil {
		return journal.RepairPlan{}, fmt.Errorf("%w: %w", journal.ErrNotCommitted, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.ledger.facts.CheckOpened(d.generation); err != nil {
		return journal.RepairPlan{}, err
	}
	return d.ledger.Repair(d.clock.Now(), r)
}

// Facts implements [journal.Reader].
func (d *Backend) Facts(ctx context.Context) (journal.Facts, error) {
	if err := ctx.Err(); err != nil {
		return journal.Facts{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ledger.Facts()
}

// Declare implements [journal.Backend].
func (d *Backend) Declare(ctx context.Context, decl journal.Declaration) (journal.Facts, error) {
	if err := ctx.Err(); err != nil {
		return journal.Facts{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.ledger.facts.CheckOpened(d.generation); err != nil {
		return journal.Facts{}, err
	}
	return d.ledger.Declare(decl)
}

// Close implements [journal.Backend]. The ledger stays: another journal may
// still use it.
func (d *Backend) Close() error { return nil }

// Inspect calls f with the ledger, under the mutex.
func (d *Backend) Inspect(f func(*Ledger)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(d.ledger)
}

// SetClock replaces the clock that dates records, for tests.
func (d *Backend) SetClock(c journal.Clock) { d.clock.SetClock(c) }
