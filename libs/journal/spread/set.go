package spread

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Database is one of the databases other than the first one.
type Database struct {
	Number int // from 2 on
	// Open opens it: a [journal.Backend], unless it is for [OpenReader].
	Open func(context.Context) (journal.Reader, error)
}

// set is the databases, as far as they are only read.
type set struct {
	members []*member // by pipeline: the first one is database 1
	note    atomic.Pointer[Note]
	life    context.Context // of the probes
	end     context.CancelFunc
	probes  sync.WaitGroup
	closing sync.Once
}

func newSet(first journal.Reader, others []Database) (*set, error) {
	s := &set{members: []*member{{number: First, handle: first, writing: make(chan struct{}, 1)}}}
	s.life, s.end = context.WithCancel(context.Background())
	for _, o := range others {
		if o.Number <= First || o.Number > MaxNumber || slices.Contains(s.numbers(), o.Number) {
			s.end()
			return nil, fmt.Errorf("%w: a database has number %d; give each of them another number, from %d to %d", journal.ErrConfig, o.Number, First+1, MaxNumber)
		}
		s.members = append(s.members, &member{number: o.Number, open: o.Open, writing: make(chan struct{}, 1)})
	}
	return s, nil
}

// numbers returns the numbers of all databases but the first one.
func (s *set) numbers() (numbers []int) {
	for _, m := range s.members[1:] {
		numbers = append(numbers, m.number)
	}
	return numbers
}

// readFirst reads the note of the first database and its generation.
func (s *set) readFirst(ctx context.Context) (Note, sharding.Generation, error) {
	first := s.members[0].handle
	f, err := first.Facts(ctx)
	if err != nil {
		return Note{}, 0, err
	}
	n, seq, err := readNote(ctx, first)
	if err != nil {
		return n, 0, err
	}
	if seq > 0 {
		err = n.check(First, 0)
	}
	return n, f.Generation, err
}

// pipeline returns the pipeline of a number. The number may belong to a database that was added after this process was
// started.
func (s *set) pipeline(number int) (int, error) {
	if i := slices.IndexFunc(s.members, func(m *member) bool { return m.number == number }); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("%w: it is in database %d of the journal, which is not in journal.databases of this process", journal.ErrConfig, number)
}

// of returns the database of a type. If the type is not known, another process may have declared it since the note
// was read.
func (s *set) of(ctx context.Context, t sharding.EntityType) (*member, error) {
	number, known := s.note.Load().DatabaseOf(t)
	if !known && len(s.members) > 1 {
		n, err := read(ctx, s, s.members[0], func(r journal.Reader) (Note, error) {
			n, _, err := readNote(ctx, r)
			return n, err
		})
		if err != nil {
			return nil, err
		}
		s.note.Store(&n)
		number, _ = n.DatabaseOf(t)
	}
	i, err := s.pipeline(number)
	return s.members[i], err
}

// Load implements [journal.Reader].
func (s *set) Load(ctx context.Context, req journal.LoadRequest) (journal.Loaded, error) {
	m, err := s.of(ctx, req.Entity.Type)
	if err != nil {
		return journal.Loaded{}, err
	}
	return read(ctx, s, m, func(r journal.Reader) (journal.Loaded, error) { return r.Load(ctx, req) })
}

// Raw implements [journal.RawReader].
func (s *set) Raw(ctx context.Context, entity sharding.Entity) (journal.RawEntity, error) {
	m, err := s.of(ctx, entity.Type)
	if err != nil {
		return journal.RawEntity{}, err
	}
	return read(ctx, s, m, func(r journal.Reader) (journal.RawEntity, error) {
		return r.(journal.RawReader).Raw(ctx, entity) // every handle is one, as the suite checks
	})
}

// Facts implements [journal.Reader]: it returns the facts of the first database.
func (s *set) Facts(ctx context.Context) (journal.Facts, error) {
	return read(ctx, s, s.members[0], func(r journal.Reader) (journal.Facts, error) { return r.Facts(ctx) })
}

// List implements [journal.Reader]. It leaves out the notes, and what a database has of types that are in
// another one: the audit lines of its repairs.
func (s *set) List(ctx context.Context, req journal.ListRequest) ([]sharding.Entity, error) {
	if req.Type != "" {
		m, err := s.of(ctx, req.Type)
		if err != nil {
			return nil, err
		}
		return read(ctx, s, m, func(r journal.Reader) ([]sharding.Entity, error) { return r.List(ctx, req) })
	}
	var all []sharding.Entity
	for _, m := range s.members {
		more := req
		more.Limit += len([...]sharding.Entity{noteEntity, journal.RepairsEntity}) // that are left out
		page, err := read(ctx, s, m, func(r journal.Reader) ([]sharding.Entity, error) { return r.List(ctx, more) })
		if err != nil {
			return nil, err
		}
		all = append(all, slices.DeleteFunc(page, func(e sharding.Entity) bool {
			return e == noteEntity || m.number != First && internal(e.Type)
		})...)
	}
	slices.SortFunc(all, sharding.Entity.Compare)
	return all[:min(len(all), req.Limit)], nil
}

// History implements [journal.Reader]. It returns the audit lines of repairs from all databases, the newest first; each
// has the number that it has in its database.
func (s *set) History(ctx context.Context, req journal.HistoryRequest) (journal.History, error) {
	if req.Entity != journal.RepairsEntity {
		m, err := s.of(ctx, req.Entity.Type)
		if err != nil {
			return journal.History{}, err
		}
		return read(ctx, s, m, func(r journal.Reader) (journal.History, error) { return r.History(ctx, req) })
	}
	if req.Before != 0 {
		return journal.History{}, errors.New("the repairs of several databases can only be read from the newest one on")
	}
	var all journal.History
	for _, m := range s.members {
		h, err := read(ctx, s, m, func(r journal.Reader) (journal.History, error) { return r.History(ctx, req) })
		if err != nil {
			return all, err
		}
		all.LastSeq += h.LastSeq
		all.More = all.More || h.More
		all.Records = append(all.Records, h.Records...)
	}
	slices.SortStableFunc(all.Records, func(a, b journal.HistoryRecord) int { return b.At.Compare(a.At) })
	if len(all.Records) > req.Limit {
		all.More, all.Records = true, all.Records[:req.Limit]
	}
	return all, nil
}

// Wakes implements [journal.Reader].
func (s *set) Wakes(ctx context.Context, req journal.WakesRequest) (journal.WakesPage, error) {
	return pages(ctx, s, req.Shards, func(r journal.Reader, shards []journal.ShardPosition) (journal.WakesPage, error) {
		return r.Wakes(ctx, journal.WakesRequest{Shards: shards, Until: req.Until, Limit: req.Limit})
	})
}

// Sends implements [journal.Reader].
func (s *set) Sends(ctx context.Context, req journal.SendsRequest) (journal.SendsPage, error) {
	return pages(ctx, s, req.Shards, func(r journal.Reader, shards []journal.SendPosition) (journal.SendsPage, error) {
		return r.Sends(ctx, journal.SendsRequest{Shards: shards, Dead: req.Dead, Limit: req.Limit})
	})
}

// pages reads the rows R of shards at positions P from their databases.
func pages[P journal.Position, R journal.PageEntry](ctx context.Context, s *set, at []P, from func(journal.Reader, []P) (journal.Page[R], error)) (journal.Page[R], error) {
	parts := map[*member][]P{}
	ids := make([]sharding.ShardID, len(at))
	for i := range at {
		ids[i] = at[i].In()
		m, err := s.of(ctx, ids[i].Type)
		if err != nil {
			return journal.Page[R]{}, err
		}
		parts[m] = append(parts[m], at[i])
	}
	if len(at) == 0 {
		parts[s.members[0]] = nil
	}
	var all []journal.Page[R]
	for _, m := range s.members {
		part, asked := parts[m]
		if !asked {
			continue
		}
		p, err := read(ctx, s, m, func(r journal.Reader) (journal.Page[R], error) { return from(r, part) })
		if err != nil {
			return p, err
		}
		all = append(all, p)
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return journal.JoinPages(ids, all), nil
}

// Close implements [journal.Reader]. Closing again does nothing.
func (s *set) Close() error {
	var errs []error
	s.closing.Do(func() {
		s.end()
		s.probes.Wait()
		for _, m := range s.members {
			if m.handle != nil {
				errs = append(errs, m.name(m.handle.Close()))
			}
		}
	})
	return errors.Join(errs...)
}

// Reader is a handle that only reads all databases.
type Reader struct{ *set }

// OpenReader combines a handle that reads the first database with the others, which must all answer. If it returns no
// error, Close closes the first one, too.
func OpenReader(ctx context.Context, first journal.Reader, others []Database) (*Reader, error) {
	s, err := newSet(first, others)
	if err != nil {
		return nil, err
	}
	n, generation, err := s.readFirst(ctx)
	if err == nil {
		err = n.checkAll(s.numbers())
	}
	for _, m := range s.members[1:] {
		if err != nil {
			break
		}
		m.handle, err = m.open(ctx)
		if err != nil {
			err = m.name(err)
			break
		}
		var own Note
		if own, _, err = readNote(ctx, m.handle); err == nil {
			err = own.check(m.number, generation)
		}
	}
	if err != nil {
		s.members[0].handle = nil // it stays the caller's
		return nil, errors.Join(err, s.Close())
	}
	s.note.Store(&n)
	return &Reader{s}, nil
}
