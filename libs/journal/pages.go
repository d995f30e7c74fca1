package journal

import (
	"context"
	"errors"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Wakes reads a page of the wake-ups of shards, as it is at some moment after the call. It
// waits and ends as [Journal.Load] does. Shards whose rows cannot be read are in Page.Damaged,
// and the others have their rows.
func (j *Journal) Wakes(ctx context.Context, req WakesRequest) (WakesPage, error) {
	r := pageReader[ShardPosition, WakeRow]{
		journal: j, of: "wakes",
		shard:  func(s *ShardPosition) sharding.ShardID { return s.Shard },
		damage: func(w *WakeRow) (sharding.Entity, error) { return w.Entity, w.Err },
		read: func(ctx context.Context, shards []ShardPosition) (WakesPage, error) {
			return j.driver.Wakes(ctx, WakesRequest{Shards: shards, Until: req.Until, Limit: req.Limit})
		},
	}
	return read(ctx, j, "read wake-ups", func(ctx context.Context) (WakesPage, error) { return r.page(ctx, req.Shards) })
}

// Sends is Wakes for records whose sends have not all ended.
func (j *Journal) Sends(ctx context.Context, req SendsRequest) (SendsPage, error) {
	r := pageReader[SendPosition, SendRow]{
		journal: j, of: "sends",
		shard:  func(s *SendPosition) sharding.ShardID { return s.Shard },
		damage: func(s *SendRow) (sharding.Entity, error) { return s.Entity, s.Err },
		read: func(ctx context.Context, shards []SendPosition) (SendsPage, error) {
			return j.driver.Sends(ctx, SendsRequest{Shards: shards, Dead: req.Dead, Limit: req.Limit})
		},
	}
	return read(ctx, j, "read sends", func(ctx context.Context) (SendsPage, error) { return r.page(ctx, req.Shards) })
}

// pageReader reads pages of rows R of shards with positions P.
type pageReader[P, R any] struct {
	journal *Journal
	of      string
	shard   func(*P) sharding.ShardID
	damage  func(*R) (sharding.Entity, error)
	read    func(context.Context, []P) (Page[R], error)
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
		if p.Now.IsZero() {
			p.Now = rest.Now
		}
		p.Rows, p.More, p.Damaged = append(p.Rows, rest.Rows...), append(p.More, rest.More...), append(p.Damaged, rest.Damaged...)
		return p, err
	}
}
