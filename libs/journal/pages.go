package journal

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Wakes reads a page of the wake-ups of shards, as it is at some moment after the call. It
// waits and ends as [Journal.Load] does. Shards whose rows cannot be read are in Page.Damaged,
// and the others have their rows.
func (j *Journal) Wakes(ctx context.Context, req WakesRequest) (WakesPage, error) {
	r := pageReader[ShardPosition, WakeRow]{
		journal: j, of: "wakes", what: "read wake-ups",
		shard:  func(s *ShardPosition) sharding.ShardID { return s.Shard },
		row:    func(w *WakeRow) sharding.ShardID { return w.Shard },
		damage: func(w *WakeRow) (sharding.Entity, error) { return w.Entity, w.Err },
		read: func(ctx context.Context, shards []ShardPosition) (WakesPage, error) {
			return j.driver.Wakes(ctx, WakesRequest{Shards: shards, Until: req.Until, Limit: req.Limit})
		},
	}
	return r.lanes(ctx, req.Shards)
}

// Sends is Wakes for records whose sends have not all ended.
func (j *Journal) Sends(ctx context.Context, req SendsRequest) (SendsPage, error) {
	r := pageReader[SendPosition, SendRow]{
		journal: j, of: "sends", what: "read sends",
		shard:  func(s *SendPosition) sharding.ShardID { return s.Shard },
		row:    func(s *SendRow) sharding.ShardID { return s.Shard },
		damage: func(s *SendRow) (sharding.Entity, error) { return s.Entity, s.Err },
		read: func(ctx context.Context, shards []SendPosition) (SendsPage, error) {
			return j.driver.Sends(ctx, SendsRequest{Shards: shards, Dead: req.Dead, Limit: req.Limit})
		},
	}
	return r.lanes(ctx, req.Shards)
}

// pageReader reads pages of rows R of shards with positions P.
type pageReader[P, R any] struct {
	journal *Journal
	of      string
	what    string // is done, for errors
	shard   func(*P) sharding.ShardID
	row     func(*R) sharding.ShardID
	damage  func(*R) (sharding.Entity, error)
	read    func(context.Context, []P) (Page[R], error)
}

// lanes reads the shards of each lane as a page, concurrently. If a lane cannot be read and another one can,
// the shards of the former are damaged.
func (r *pageReader[P, R]) lanes(ctx context.Context, shards []P) (Page[R], error) {
	parts := map[*lane][]P{}
	var order []*lane
	for i := range shards {
		l := r.journal.lane(r.shard(&shards[i]).Type)
		if parts[l] == nil {
			order = append(order, l)
		}
		parts[l] = append(parts[l], shards[i])
	}
	readLane := func(l *lane) (Page[R], error) {
		asked := time.Now()
		p, err := read(ctx, r.journal, l, r.what, func(ctx context.Context) (Page[R], error) { return r.page(ctx, parts[l]) })
		l.clock.note(asked, p.Now)
		return p, err
	}
	if len(order) == 0 {
		order = r.journal.lanes[:1]
	}
	if len(order) == 1 {
		return readLane(order[0])
	}
	pages, errs := make([]Page[R], len(order)), make([]error, len(order))
	var reading sync.WaitGroup
	for i, l := range order {
		reading.Go(func() { pages[i], errs[i] = readLane(l) })
	}
	reading.Wait()
	if !slices.Contains(errs, nil) {
		return Page[R]{}, errors.Join(errs...)
	}
	for i, l := range order {
		if errs[i] != nil {
			for n := range parts[l] {
				pages[i].Damaged = append(pages[i].Damaged, Damaged{Shard: r.shard(&parts[l][n]), Err: errs[i]})
			}
		}
	}
	ids := make([]sharding.ShardID, len(shards))
	for i := range shards {
		ids[i] = r.shard(&shards[i])
	}
	return JoinPages(ids, pages, r.row), nil
}

// JoinPages makes one page of pages of different shards, in the order of the shards. shard returns the shard of a
// row.
func JoinPages[R any](shards []sharding.ShardID, pages []Page[R], shard func(*R) sharding.ShardID) (all Page[R]) {
	for i := range pages {
		all.add(&pages[i])
	}
	place := make(map[sharding.ShardID]int, len(shards))
	for i, s := range shards {
		place[s] = i
	}
	slices.SortStableFunc(all.Rows, func(a, b R) int { return place[shard(&a)] - place[shard(&b)] })
	return all
}

// add adds a page of other shards.
func (p *Page[R]) add(other *Page[R]) {
	if p.Now.IsZero() {
		p.Now = other.Now
	}
	p.Rows, p.More, p.Damaged = append(p.Rows, other.Rows...), append(p.More, other.More...), append(p.Damaged, other.Damaged...)
}

// page reads a page. If that meets damage, it reads the shards in halves, until those with
// damage are alone.
func (r *pageReader[P, R]) page(ctx context.Context, shards []P) (Page[R], error) {
	start := time.Now()
	p, err := r.read(ctx, shards)
	j := r.journal
	if j.obs.Page != nil {
		j.obs.Page(PageStats{Of: r.of, Shards: len(shards), Rows: len(p.Rows), Took: time.Since(start), Err: err})
	}
	switch half := len(shards) / 2; {
	case !errors.Is(err, ErrCorrupt) || ctx.Err() != nil || len(shards) == 0:
		for i := range p.Rows {
			j.noteLoad(r.damage(&p.Rows[i]))
		}
		return p, err
	case half == 0:
		shard := r.shard(&shards[0])
		j.reportDamage(subject{shard: shard}, shard, err)
		return Page[R]{Damaged: []Damaged{{Shard: shard, Err: err}}}, nil
	default:
		if p, err = r.page(ctx, shards[:half]); err != nil {
			return Page[R]{}, err
		}
		rest, err := r.page(ctx, shards[half:])
		p.add(&rest)
		return p, err
	}
}
