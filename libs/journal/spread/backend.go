package spread

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Backend is a handle on a journal of several databases.
type Backend struct {
	*set
	types      map[sharding.EntityType]int // where new ones are wanted
	generation sharding.Generation         // of the first database when it was opened

	mu      sync.Mutex
	cluster string        // as declared
	upkeep  map[int]error // by number of the database
}

// Open combines a handle on the first database with the others. types says in which database a type is put that is not
// in one yet. A new database gets its number. One that was used before need not answer: it is down until it does. If
// Open returns no error, Close closes the first handle, too. Errors wrap [journal.ErrConfig], [journal.ErrIdentity],
// [journal.ErrUnreachable].
func Open(ctx context.Context, first journal.Backend, others []Database, types map[sharding.EntityType]int) (*Backend, error) {
	s, err := newSet(first, others)
	if err != nil {
		return nil, err
	}
	for _, t := range slices.Sorted(maps.Keys(types)) {
		if n := types[t]; n != First && !slices.Contains(s.numbers(), n) {
			s.end()
			return nil, fmt.Errorf("%w: journal.types puts %s into database %d, and journal.databases has none of that number", journal.ErrConfig, t, n)
		}
	}
	d := &Backend{set: s, types: types, upkeep: map[int]error{}}
	if err := d.open(ctx, first); err != nil {
		s.members[0].handle = nil // it stays the caller's
		return nil, errors.Join(err, s.Close())
	}
	return d, nil
}

func (d *Backend) open(ctx context.Context, first journal.Backend) error {
	n, generation, err := d.readFirst(ctx)
	if err != nil {
		return err
	}
	if err := n.checkAll(d.numbers()); err != nil {
		return err
	}
	d.generation = generation
	// The first one is marked as such before another one is read: the same database may be given twice.
	if n, err = changeNote(ctx, first, func(n Note) (Note, bool, error) {
		changed := n.Number != First
		n.Number = First
		return n, changed, nil
	}); err != nil {
		return err
	}
	for _, m := range d.members[1:] {
		used, open := slices.Contains(n.Databases, m.number), m.open
		m.open = func(ctx context.Context) (journal.Reader, error) {
			return d.openAs(ctx, m.number, generation, used, open)
		}
		handle, err := m.open(ctx)
		switch {
		case err == nil:
			m.handle = handle
		case used && errors.Is(err, journal.ErrUnreachable):
			m.down = err
			d.suspect(m)
		default:
			return m.name(err)
		}
	}
	n, err = changeNote(ctx, first, func(n Note) (Note, bool, error) {
		n, changed := n.with(d.numbers())
		return n, changed, nil
	})
	d.note.Store(&n)
	return err
}

// openAs opens a database as the one with a number. If it was not used before and nothing is stored in it, it gets its
// number.
func (d *Backend) openAs(ctx context.Context, number int, generation sharding.Generation, used bool, open func(context.Context) (journal.Reader, error)) (journal.Reader, error) {
	handle, err := open(ctx)
	if err != nil {
		return nil, err
	}
	if err = adopt(ctx, handle.(journal.Backend), number, generation, used); err == nil {
		err = d.declareCluster(ctx, handle.(journal.Backend))
	}
	if err != nil {
		return nil, errors.Join(err, handle.Close())
	}
	return handle, nil
}

func adopt(ctx context.Context, h journal.Backend, number int, generation sharding.Generation, used bool) error {
	n, err := changeNote(ctx, h, func(n Note) (Note, bool, error) {
		if n.Number != 0 {
			return n, false, nil
		}
		if used { //mutant:false spread-used
			return n, false, fmt.Errorf("%w: it does not say that it is database %d, which was used before: it is empty, or was replaced; give the URL of that database, or restore a backup of all of them (docs/running/backup.md)", journal.ErrIdentity, number)
		}
		stored, err := h.List(ctx, journal.ListRequest{Limit: 2})
		stored = slices.DeleteFunc(stored, func(e sharding.Entity) bool { return e == noteEntity }) // another process was faster
		//mutant:false spread-empty
		if err == nil && len(stored) > 0 {
			err = fmt.Errorf("%w: it has data, for example %s, and does not belong to this journal; give one that is empty as database %d", journal.ErrIdentity, stored[0], number)
		}
		return Note{Number: number, Of: generation}, true, err
	})
	if err != nil {
		return err
	}
	return n.check(number, generation)
}

// declareCluster declares the cluster in a database other than the first one.
func (d *Backend) declareCluster(ctx context.Context, h journal.Backend) error {
	d.mu.Lock()
	cluster := d.cluster
	d.mu.Unlock()
	if cluster == "" {
		return nil
	}
	_, err := h.Declare(ctx, journal.Declaration{Cluster: cluster})
	return err
}

// Pipelines implements [journal.Pipelines].
func (d *Backend) Pipelines() []int { return append([]int{First}, d.numbers()...) }

// Pipeline implements [journal.Pipelines].
func (d *Backend) Pipeline(t sharding.EntityType) int {
	number, _ := d.note.Load().DatabaseOf(t)
	i, _ := d.pipeline(number) // an operation on one that this process does not have fails later
	return i
}

// NotifyDown implements [journal.Pipelines].
func (d *Backend) NotifyDown(notify func(pipeline int, err error)) {
	for i, m := range d.members {
		m.mu.Lock()
		m.notify = func(err error) { notify(i, err) }
		if m.down != nil {
			m.notify(m.name(m.down))
		}
		m.mu.Unlock()
	}
}

// NotifyUpkeep implements [journal.Upkeep].
func (d *Backend) NotifyUpkeep(notify func(error)) {
	for _, m := range d.members {
		m.mu.Lock()
		u, ok := m.handle.(journal.Upkeep)
		m.mu.Unlock()
		if !ok {
			continue
		}
		u.NotifyUpkeep(func(err error) {
			d.mu.Lock()
			d.upkeep[m.number] = m.name(err)
			var all []error
			for _, n := range slices.Sorted(maps.Keys(d.upkeep)) {
				all = append(all, d.upkeep[n])
			}
			d.mu.Unlock()
			notify(errors.Join(all...))
		})
	}
}

// Commit implements [journal.Backend], in one transaction for each database. A Journal of package commit gives it operations of
// one database only. If it gets operations of several, their results report the outcome in each database, unless the
// process must stop.
func (d *Backend) Commit(ctx context.Context, ops []journal.Op) ([]journal.Result, error) {
	parts := map[*member][]int{}
	var only *member
	for i := range ops {
		m, err := d.of(ctx, ops[i].Type())
		if err != nil {
			return nil, fmt.Errorf("%w: %w", journal.ErrNotCommitted, err)
		}
		parts[m] = append(parts[m], i)
		only = m
	}
	switch len(parts) {
	case 0:
		return nil, nil
	case 1:
		return d.commit(ctx, only, ops)
	}
	results := make([]journal.Result, len(ops))
	errs := make([]error, len(d.members))
	var committing sync.WaitGroup
	for n, m := range d.members {
		places := parts[m]
		if len(places) == 0 {
			continue
		}
		committing.Go(func() {
			own := make([]journal.Op, len(places))
			for i, p := range places {
				own[i] = ops[p]
			}
			var got []journal.Result
			got, errs[n] = d.commit(ctx, m, own)
			for i, p := range places {
				if errs[n] == nil {
					results[p] = got[i]
				} else {
					results[p] = journal.Result{Verdict: verdict(errs[n]), Err: errs[n]}
				}
			}
		})
	}
	committing.Wait()
	for _, err := range errs {
		if errors.Is(err, journal.ErrBroken) {
			return nil, err
		}
	}
	return results, nil
}

// verdict returns the verdict for the operations of a commit that has failed in one of several
// databases.
func verdict(err error) sharding.Verdict {
	switch {
	case errors.Is(err, journal.ErrCorrupt):
		return sharding.RefusedDamaged
	case errors.Is(err, journal.ErrNotCommitted), errors.Is(err, journal.ErrFull):
		return sharding.RefusedFull
	}
	return sharding.UnknownOutcome
}

func (d *Backend) commit(ctx context.Context, m *member, ops []journal.Op) ([]journal.Result, error) {
	return write(ctx, d.set, m, func(h journal.Backend) ([]journal.Result, error) { return h.Commit(ctx, ops) })
}

// Declare implements [journal.Backend]. The facts are in the first database; in the others, only the cluster is
// declared.
func (d *Backend) Declare(ctx context.Context, decl journal.Declaration) (journal.Facts, error) {
	first := d.members[0]
	if len(decl.Types) > 0 {
		if err := d.place(ctx, decl); err != nil {
			return journal.Facts{}, err
		}
	}
	f, err := write(ctx, d.set, first, func(h journal.Backend) (journal.Facts, error) { return h.Declare(ctx, decl) })
	if err != nil {
		return f, err
	}
	if decl.Cluster != "" {
		d.mu.Lock()
		d.cluster = decl.Cluster
		d.mu.Unlock()
	}
	for _, m := range d.members[1:] {
		other, err := d.declareOther(ctx, m, decl.Cluster)
		switch {
		case errors.Is(err, journal.ErrBroken), errors.Is(err, journal.ErrIdentity):
			return f, err
		case err == nil: //mutant:false spread-epoch
			f.MaxEpoch = max(f.MaxEpoch, other.MaxEpoch)
		}
	}
	return f, nil
}

// declareOther declares the cluster in a database other than the first one, if that database
// answers soon.
func (d *Backend) declareOther(ctx context.Context, m *member, cluster string) (journal.Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return write(ctx, d.set, m, func(h journal.Backend) (journal.Facts, error) {
		return h.Declare(ctx, journal.Declaration{Cluster: cluster})
	})
}

// place notes in which databases the types of a declaration are.
func (d *Backend) place(ctx context.Context, decl journal.Declaration) error {
	_, err := write(ctx, d.set, d.members[0], func(h journal.Backend) (none struct{}, err error) {
		// The note says already that there are databases, and the facts are read after that: see CheckAlone.
		f, err := h.Facts(ctx)
		if err == nil {
			err = f.CheckOpened(d.generation)
		}
		if err != nil {
			return none, err
		}
		if _, err := f.Merge(decl); err != nil {
			return none, err
		}
		n, err := Place(ctx, h, f.Types, decl.Types, d.types)
		if err == nil {
			d.note.Store(&n)
		}
		return none, err
	})
	return err
}

// Repair implements [journal.Repairer], in the database of the entity.
func (d *Backend) Repair(ctx context.Context, r *journal.Repair) (journal.RepairPlan, error) {
	m, err := d.of(ctx, r.Entity.Type)
	if err != nil {
		return journal.RepairPlan{}, err
	}
	return write(ctx, d.set, m, func(h journal.Backend) (journal.RepairPlan, error) {
		return h.(journal.Repairer).Repair(ctx, r) // every backend is one, as the suite checks
	})
}
