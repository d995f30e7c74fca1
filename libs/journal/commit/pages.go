package commit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Wakes reads a page of the wake-ups of shards, as it is at some moment after the call. It
// waits and ends as [Journal.Load] does. Shards whose entries cannot be read are in Page.Damaged,
// and the others have their entries.
func (j *Journal) Wakes(ctx context.Context, req journal.WakesRequest) (journal.WakesPage, error) {
	r := pageReader[journal.ShardPosition, journal.WakeEntry]{journal: j, of: "wakes", what: "read wake-ups", read: func(ctx context.Context, shards []journal.ShardPosition) (journal.WakesPage, error) {
		return j.backend.Wakes(ctx, journal.WakesRequest{Shards: shards, Until: req.Until, Limit: req.Limit})
	}}
	return r.pipelines(ctx, req.Shards)
}

// Sends is Wakes for records whose sends have not all ended.
func (j *Journal) Sends(ctx context.Context, req journal.SendsRequest) (journal.SendsPage, error) {
	r := pageReader[journal.SendPosition, journal.SendEntry]{journal: j, of: "sends", what: "read sends", read: func(ctx context.Context, shards []journal.SendPosition) (journal.SendsPage, error) {
		return j.backend.Sends(ctx, journal.SendsRequest{Shards: shards, Dead: req.Dead, Limit: req.Limit})
	}}
	return r.pipelines(ctx, req.Shards)
}

// pageReader reads pages of entries R of shards with positions P.
type pageReader[P journal.Position, R journal.PageEntry] struct {
	journal *Journal
	of      string
	what    string // is done, for errors
	read    func(context.Context, []P) (journal.Page[R], error)
}

// pipelines reads the shards of each pipeline as a page, concurrently. If a pipeline cannot be read and another one
// can, the shards of the former are damaged.
func (r *pageReader[P, R]) pipelines(ctx context.Context, shards []P) (journal.Page[R], error) {
	parts := map[*pipeline][]P{}
	var order []*pipeline
	for i := range shards {
		pl := r.journal.pipeline(shards[i].In().Type)
		if parts[pl] == nil {
			order = append(order, pl)
		}
		parts[pl] = append(parts[pl], shards[i])
	}
	readPipeline := func(pl *pipeline) (journal.Page[R], error) {
		asked := time.Now()
		p, err := read(ctx, r.journal, pl, r.what, func(ctx context.Context) (journal.Page[R], error) { return r.page(ctx, parts[pl]) })
		pl.clock.note(asked, p.Now)
		return p, err
	}
	if len(order) == 0 {
		order = r.journal.pipelines[:1]
	}
	if len(order) == 1 {
		return readPipeline(order[0])
	}
	pages, errs := make([]journal.Page[R], len(order)), make([]error, len(order))
	var reading sync.WaitGroup
	for i, pl := range order {
		reading.Go(func() { pages[i], errs[i] = readPipeline(pl) })
	}
	reading.Wait()
	if !slices.Contains(errs, nil) {
		return journal.Page[R]{}, errors.Join(errs...)
	}
	for i, pl := range order {
		if errs[i] != nil {
			for n := range parts[pl] {
				pages[i].Damaged = append(pages[i].Damaged, journal.Damaged{Shard: parts[pl][n].In(), Err: errs[i]})
			}
		}
	}
	ids := make([]sharding.ShardID, len(shards))
	for i := range shards {
		ids[i] = shards[i].In()
	}
	return journal.JoinPages(ids, pages), nil
}

// page reads a page. If that meets damage, it reads the shards in halves, until those with
// damage are alone.
func (r *pageReader[P, R]) page(ctx context.Context, shards []P) (journal.Page[R], error) {
	start := time.Now()
	p, err := r.read(ctx, shards)
	j := r.journal
	if j.obs.Page != nil {
		j.obs.Page(PageStats{Of: r.of, Shards: len(shards), Entries: len(p.Entries), Took: time.Since(start), Err: err})
	}
	switch half := len(shards) / 2; {
	case !errors.Is(err, journal.ErrCorrupt) || ctx.Err() != nil || len(shards) == 0:
		for i := range p.Entries {
			j.noteLoad(p.Entries[i].Damage())
		}
		return p, err
	case half == 0:
		shard := shards[0].In()
		j.reportDamage(subject{shard: shard}, shard, err)
		return journal.Page[R]{Damaged: []journal.Damaged{{Shard: shard, Err: err}}}, nil
	default:
		if p, err = r.page(ctx, shards[:half]); err != nil {
			return journal.Page[R]{}, err
		}
		rest, err := r.page(ctx, shards[half:])
		p.Add(&rest)
		return p, err
	}
}
