package purge

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/due"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Purger decides when the remains of deleted entities of open shards are removed. It is not safe
// for concurrent use.
type Purger struct {
	cfg   Config
	sweep due.Sweeper[*shard, journal.WakeEntry]
	wakes []wake // wake-ups that were read, and whose purges have not begun
	// inFlight has the purges that are not answered, with the due times of their wake-ups.
	inFlight map[journal.Purge]int64
	// The next purge begins at nextAt at the earliest.
	nextAt time.Time
	pause  due.Pause // after purges that have failed: nothing begins before it is over
	stats  Stats
}

type shard struct {
	due.Shard
	// more is true if the last look has not seen all wake-ups that are due. If it has seen all, purged has
	// the wake-ups whose purges were accepted since then. If such a wake-up is still due at the next look,
	// unchanged, its life has more records than one purge removes.
	more   bool
	purged []wake
}

// wake is a wake-up of the kind PurgeWake: a life has ended, and something of it is left that a purge may remove.
type wake struct {
	shard  sharding.ShardID
	entity sharding.Entity
	life   uint64 // the sequence number of the record that has ended the life
	// due is as the journal says. If a purge could not remove all records that may be removed, it does not change due.
	due int64
}

// New returns a purger. The configuration must be valid.
func New(cfg Config) *Purger {
	limits := due.Limits{ReadShards: cfg.ReadShards, RetryMin: cfg.RetryMin, RetryMax: cfg.RetryMax, DamagedMax: cfg.RetryMax, Seed: cfg.Seed}
	shardOf := func(w *journal.WakeEntry) sharding.ShardID { return w.Shard }
	return &Purger{cfg: cfg, sweep: due.New[*shard](limits, shardOf), inFlight: map[journal.Purge]int64{}}
}

// Stats returns the current counts.
func (p *Purger) Stats() Stats {
	st := p.stats
	st.Failed += p.sweep.Failed + p.sweep.Unreadable
	for _, s := range p.sweep.Shards() {
		if s.Damaged > 0 {
			st.Failing++
		}
	}
	return st
}

// Step applies one input at time now, and appends to out what must be done.
func (p *Purger) Step(now time.Time, in Input, out *Outputs) {
	switch in := in.(type) {
	case Open:
		p.close(in.Shard)
		p.sweep.Open(&shard{Shard: due.Shard{ID: in.Shard, Epoch: in.Epoch, ReadAt: now.Add(p.cfg.Interval)}})
	case Close:
		p.close(in.Shard)
	case Page:
		p.page(now, &in)
	case Purged:
		p.purged(now, &in)
	case Tick:
	}
	p.advance(now, out)
}

func (p *Purger) close(id sharding.ShardID) {
	p.sweep.Close(id)
	p.wakes = slices.DeleteFunc(p.wakes, func(w wake) bool { return w.shard == id })
}

// page takes in the answer to a read.
func (p *Purger) page(now time.Time, in *Page) {
	for _, part := range p.sweep.Page(now, in.Number, &in.WakesPage, in.Err) {
		s := part.Shard
		if s.Reading = false; part.Failed {
			continue
		}
		for i := range part.Entries {
			w := &part.Entries[i]
			r := wake{shard: w.Shard, entity: w.Entity, life: w.Seq, due: w.Due}
			if len(s.purged) == 0 || slices.Contains(s.purged, r) {
				p.wakes = append(p.wakes, r)
			} // otherwise this look is only for the wake-ups in purged; others that have become due wait for the next look
		}
		at := now.Add(p.cfg.Interval)
		if s.more, s.purged = part.More, nil; s.more {
			at = now // the next page is read when the wake-ups of this page are done
		}
		p.sweep.ReadBy(s, at)
	}
}

func (p *Purger) purged(now time.Time, in *Purged) {
	at := p.inFlight[in.Purge]
	delete(p.inFlight, in.Purge)
	switch in.Verdict {
	case sharding.Durable:
		p.stats.Purges++
		p.pause.Times = 0
		if s := p.sweep.At(in.Purge.Shard, in.Purge.Epoch); s != nil && !s.more { //mutant:false purge-full
			s.purged = append(s.purged, wake{shard: in.Purge.Shard, entity: in.Purge.Entity, life: in.Purge.Life, due: at})
			p.sweep.ReadBy(s, now)
		}
	case sharding.RefusedWake: // the life was purged before, or the entity was deleted once more
	case sharding.RefusedEpoch: // the region is deposed, and will learn that from another answer
		p.stats.Failed++
	case sharding.RefusedDamaged: // the wake-up is still due, and its purge is tried again after the next look
		p.stats.Failed++
	default:
		p.stats.Failed++
		if !now.Before(p.pause.Until) { // otherwise the purge began before the pause
			p.pause.Fail(now, &p.sweep.Jitter, p.cfg.RetryMin, p.cfg.RetryMax)
		}
	}
}

// advance begins what may begin now.
func (p *Purger) advance(now time.Time, out *Outputs) {
	if now.Before(p.pause.Until) {
		return
	}
	if early := now.Add(-time.Second / 20); p.nextAt.Before(early) {
		p.nextAt = early // what was not used before that is not made up for
	}
	pace := time.Second / time.Duration(p.cfg.Rate)
	//mutant:true purge-rate !p.nextAt.After(now)
	for len(p.wakes) > 0 && len(p.inFlight) < p.cfg.UnderWay && !p.nextAt.After(now) {
		r := p.wakes[0]
		p.wakes = p.wakes[1:]
		p.nextAt = p.nextAt.Add(pace)
		purge := journal.Purge{Shard: r.shard, Epoch: p.sweep.Shard(r.shard).Epoch, Entity: r.entity, Life: r.life}
		p.inFlight[purge] = r.due
		out.Purges = append(out.Purges, purge)
	}
	if len(p.wakes) == 0 && len(p.inFlight) == 0 {
		p.look(now, out)
	}
}

// look reads the wake-ups of shards whose time has come.
func (p *Purger) look(now time.Time, out *Outputs) {
	number, shards := p.sweep.Begin(now, func(*shard) due.Want { return due.Take })
	if len(shards) == 0 {
		return
	}
	r := Read{Number: number, WakesRequest: journal.WakesRequest{Until: journal.PurgeFrom + p.sweep.Clock.Now(now).UnixMilli(), Limit: p.cfg.Page}}
	for _, s := range shards {
		r.Shards = append(r.Shards, journal.ShardPosition{Shard: s.ID, After: journal.WakePosition{Due: journal.PurgeFrom}})
	}
	out.Reads = append(out.Reads, r)
}

// Check verifies the invariants of the purger. An error means a bug.
func (p *Purger) Check() error {
	switch {
	case len(p.inFlight) > p.cfg.UnderWay:
		return fmt.Errorf("purge: %d purges are in progress, at most %d may be", len(p.inFlight), p.cfg.UnderWay)
	case len(p.wakes) > p.cfg.Page*p.cfg.ReadShards:
		return fmt.Errorf("purge: %d wake-ups are in memory, at most %d may be", len(p.wakes), p.cfg.Page*p.cfg.ReadShards)
	}
	for _, r := range p.wakes {
		if p.sweep.Shard(r.shard) == nil {
			return fmt.Errorf("purge: a wake-up of %s, which is not open", r.shard)
		}
	}
	return p.sweep.Check()
}

// Clone returns a copy of the purger that shares no mutable state with it.
func (p *Purger) Clone() *Purger {
	c := *p
	c.wakes, c.inFlight = slices.Clone(p.wakes), maps.Clone(p.inFlight)
	copies := map[*shard]*shard{}
	c.sweep = p.sweep.Clone(func(s *shard) *shard {
		if copies[s] == nil {
			x := *s
			x.purged = slices.Clone(s.purged)
			copies[s] = &x
		}
		return copies[s]
	})
	return &c
}

// AppendState appends a canonical description of the state, with times relative to now.
func (p *Purger) AppendState(now time.Time, b []byte) []byte {
	b = fmt.Appendf(b, "purge in progress %d next %d failures %d pause %d ", len(p.inFlight), max(0, p.nextAt.Sub(now)), p.pause.Times, due.Left(now, p.pause.Until))
	b = p.sweep.AppendState(now, b, func(b []byte, s *shard) []byte { return fmt.Appendf(b, " more %t purged %+v", s.more, s.purged) })
	for _, r := range p.wakes {
		b = fmt.Appendf(b, " %+v\n", r)
	}
	return fmt.Appendf(b, " in progress %v\n", p.inFlight) // printed in the order of the keys
}
