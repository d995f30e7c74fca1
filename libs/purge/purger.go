package purge

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/backoff"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/storeclock"
)

// Purger decides when the remains of deleted entities of open shards are removed. It is not safe
// for concurrent use.
type Purger struct {
	cfg    Config
	shards []*shard // in the order in which they are looked at
	// reading has the shards of the read in progress, which is number lastRead; nil: none is.
	reading  []*shard
	asked    time.Time // when that read was
	lastRead uint64
	wakes    []wake // wake-ups that were read, and whose purges have not begun
	// inFlight has the purges that are not answered, with the due times of their wake-ups.
	inFlight map[journal.Purge]int64
	// The next purge begins at nextAt at the earliest.
	nextAt     time.Time
	failures   int       // how many reads and purges have failed since the last success
	pauseUntil time.Time // nothing begins before this time, because of the failures
	jitter     backoff.Jitter
	clock      storeclock.Clock
	stats      Stats
}

type shard struct {
	id       sharding.ShardID
	epoch    sharding.Epoch
	lookAt   time.Time
	closed   bool
	failures int // how many of the last looks in a row could not read the shard's wake-ups
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
	return &Purger{cfg: cfg, inFlight: map[journal.Purge]int64{}, jitter: backoff.Jitter(cfg.Seed)}
}

// Stats returns the current counts.
func (p *Purger) Stats() Stats {
	st := p.stats
	for _, s := range p.shards {
		if s.failures > 0 {
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
		p.shards = append(p.shards, &shard{id: in.Shard, epoch: in.Epoch, lookAt: now.Add(p.cfg.Interval)})
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

func (p *Purger) find(id sharding.ShardID) *shard {
	if i := slices.IndexFunc(p.shards, func(s *shard) bool { return s.id == id }); i >= 0 {
		return p.shards[i]
	}
	return nil
}

func (p *Purger) close(id sharding.ShardID) {
	s := p.find(id)
	if s == nil {
		return
	}
	s.closed = true
	p.shards = slices.DeleteFunc(p.shards, func(o *shard) bool { return o == s })
	p.wakes = slices.DeleteFunc(p.wakes, func(w wake) bool { return w.shard == id })
}

// page takes in the answer to a read.
func (p *Purger) page(now time.Time, in *Page) {
	if p.reading == nil || in.Number != p.lastRead {
		return
	}
	read := p.reading
	p.reading = nil
	if in.Err != nil {
		p.fail(now)
		return
	}
	if len(in.Rows) == 0 { // otherwise the purges will show whether the journal works again
		p.failures = 0
	}
	if !in.Now.IsZero() {
		p.clock.Read(p.asked, now, in.Now)
	}
	for i := range in.Rows {
		w := &in.Rows[i]
		r := wake{shard: w.Shard, entity: w.Entity, life: w.Seq, due: w.Due}
		s := p.find(r.shard)
		if s == nil || !slices.Contains(read, s) || len(s.purged) > 0 && !slices.Contains(s.purged, r) {
			continue // this look is only for the wake-ups in purged; others that have become due wait for the next look
		}
		p.wakes = append(p.wakes, r)
	}
	for _, s := range read {
		if in.Unreadable(s.id) {
			p.stats.Failed++
			s.failures++
			s.lookAt = now.Add(p.pause(s.failures))
			//mutant:do purge-failed-shard s.lookAt = now
			continue
		}
		s.failures = 0
		s.lookAt, s.purged = now.Add(p.cfg.Interval), nil
		if s.more = slices.Contains(in.More, s.id); s.more {
			s.lookAt = now // the next page is read when the wake-ups of this page are done
		}
	}
}

// fail notes that a read or a purge has failed. Nothing begins for a while then.
func (p *Purger) fail(now time.Time) {
	p.stats.Failed++
	if now.Before(p.pauseUntil) {
		return // the failed read or purge began before the pause
	}
	p.failures++
	p.pauseUntil = now.Add(p.pause(p.failures))
}

// pause returns how long to wait after a number of failures in a row.
func (p *Purger) pause(failures int) time.Duration {
	return p.jitter.Pause(failures, p.cfg.RetryMin, p.cfg.RetryMax)
}

func (p *Purger) purged(now time.Time, in *Purged) {
	due := p.inFlight[in.Purge]
	delete(p.inFlight, in.Purge)
	switch in.Verdict {
	case sharding.Durable:
		p.stats.Purges++
		p.failures = 0
		if s := p.find(in.Purge.Shard); s != nil && s.epoch == in.Purge.Epoch && !s.more { //mutant:false purge-full
			s.purged, s.lookAt = append(s.purged, wake{shard: in.Purge.Shard, entity: in.Purge.Entity, life: in.Purge.Life, due: due}), now
		}
	case sharding.RefusedWake: // the life was purged before, or the entity was deleted once more
	case sharding.RefusedEpoch: // the region is deposed, and will learn that from another answer
		p.stats.Failed++
	case sharding.RefusedDamaged: // the wake-up is still due, and its purge is tried again after the next look
		p.stats.Failed++
	default:
		p.fail(now)
	}
}

// advance begins what may begin now.
func (p *Purger) advance(now time.Time, out *Outputs) {
	if now.Before(p.pauseUntil) {
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
		s := p.find(r.shard)
		if s == nil {
			continue
		}
		p.nextAt = p.nextAt.Add(pace)
		purge := journal.Purge{Shard: r.shard, Epoch: s.epoch, Entity: r.entity, Life: r.life}
		p.inFlight[purge] = r.due
		out.Purges = append(out.Purges, purge)
	}
	if len(p.wakes) > 0 || len(p.inFlight) > 0 || p.reading != nil {
		return
	}
	p.look(now, out)
}

// look reads the wake-ups of shards whose time has come. Those that were looked at longest ago go
// first.
func (p *Purger) look(now time.Time, out *Outputs) {
	slices.SortStableFunc(p.shards, func(a, b *shard) int { return a.lookAt.Compare(b.lookAt) })
	n := 0
	for n < len(p.shards) && n < p.cfg.ReadShards && !p.shards[n].lookAt.After(now) {
		n++
	}
	if n == 0 {
		return
	}
	p.lastRead++
	p.reading, p.asked = slices.Clone(p.shards[:n]), now
	r := Read{Number: p.lastRead, WakesRequest: journal.WakesRequest{Until: journal.PurgeFrom + p.clock.Now(now).UnixMilli(), Limit: p.cfg.Page}}
	for _, s := range p.reading {
		r.Shards = append(r.Shards, journal.ShardPosition{Shard: s.id, After: journal.WakePosition{Due: journal.PurgeFrom}})
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
		if p.find(r.shard) == nil {
			return fmt.Errorf("purge: a wake-up of %s, which is not open", r.shard)
		}
	}
	return nil
}

// Clone returns a copy of the purger that shares no mutable state with it.
func (p *Purger) Clone() *Purger {
	c := *p
	c.shards, c.reading, c.wakes, c.inFlight = nil, nil, slices.Clone(p.wakes), maps.Clone(p.inFlight)
	copies := map[*shard]*shard{}
	clone := func(s *shard) *shard {
		if copies[s] == nil {
			x := *s
			x.purged = slices.Clone(s.purged)
			copies[s] = &x
		}
		return copies[s]
	}
	for _, s := range p.shards {
		c.shards = append(c.shards, clone(s))
	}
	for _, s := range p.reading {
		c.reading = append(c.reading, clone(s))
	}
	return &c
}

// AppendState appends a canonical description of the state, with times relative to now.
func (p *Purger) AppendState(now time.Time, b []byte) []byte {
	b = fmt.Appendf(b, "purge read %d %d in progress %d next %d failures %d pause %d random %x\n", p.lastRead, len(p.reading), len(p.inFlight),
		max(0, p.nextAt.Sub(now)), p.failures, max(0, p.pauseUntil.Sub(now)), p.jitter)
	for _, s := range p.shards {
		b = fmt.Appendf(b, " %s %s look %d failures %d more %t purged %+v\n", s.id, s.epoch, s.lookAt.Sub(now), s.failures, s.more, s.purged)
	}
	for _, r := range p.wakes {
		b = fmt.Appendf(b, " %+v\n", r)
	}
	return fmt.Appendf(b, " in progress %v\n", p.inFlight) // printed in the order of the keys
}
