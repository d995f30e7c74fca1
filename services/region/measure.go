package region

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sorted"
	"github.com/roost-cluster/roost/libs/turn"
)

// What a shard takes of its region is measured from counts that the entity core keeps anyway.
// Every LoadInterval a shard core turns them into rates and smooths these. Of its shards it reports
// the heaviest by themselves and the sum of the others, so that the region's report stays small
// however many shards there are.

// meter smooths what a shard does: each rate is an average in which what lies LoadHalfLife
// back counts half.
type meter struct {
	at   time.Time      // of the last measurement, or when the shard was first served
	last turn.ShardWork // at that time
	// weight is the part of the averages that has been measured. It comes close to 1 after some half-lives;
	// until then the averages are divided by it.
	weight                            float64
	handlers, turns, mailbox, journal float64 // averages per second, times weight
}

// measure takes the counts of the shard now.
func (m *meter) measure(now time.Time, halfLife time.Duration, st *turn.ShardStats) sharding.Load {
	if passed := now.Sub(m.at).Seconds(); passed > 0 {
		keep := math.Exp2(-passed / halfLife.Seconds())
		add := (1 - keep) / passed
		m.weight = m.weight*keep + 1 - keep
		m.handlers = m.handlers*keep + (st.Handlers-m.last.Handlers).Seconds()*add
		m.turns = m.turns*keep + float64(st.Turns-m.last.Turns)*add
		m.mailbox = m.mailbox*keep + (st.Mailbox-m.last.Mailbox).Seconds()*add
		m.journal = m.journal*keep + float64(st.JournalBytes-m.last.JournalBytes)*add
		m.at, m.last = now, st.ShardWork
	}
	whole := func(rate, unit float64) uint64 {
		if m.weight == 0 {
			return 0
		}
		return uint64(math.Round(rate / m.weight * unit))
	}
	return sharding.Load{
		HandlerMicros: whole(m.handlers, 1e6), MilliCommands: whole(m.turns, 1000), MilliWaiting: whole(m.mailbox, 1000),
		JournalBytes: whole(m.journal, 1), Entities: uint64(st.Entities), Bytes: uint64(max(0, st.Bytes)),
	}
}

// tickMeasure measures the shards that are served, and tells the control core.
func (m *ShardCore) tickMeasure() {
	if m.cfg.LoadInterval == 0 || m.now.Sub(m.measuredAt) < m.cfg.LoadInterval {
		return
	}
	m.measuredAt = m.now
	list := heaviest{most: m.cfg.LoadShards}
	for st := range m.turn.ShardStats() {
		if h := m.shard(st.Shard); h != nil && h.phase == serving {
			list.add(control.ShardLoad{Shard: st.Shard, Load: h.meter.measure(m.now, m.cfg.LoadHalfLife, &st)})
		}
	}
	m.event(Measured{list.end()})
}

// heaviest collects the shards with the most load, and the sum of the others.
type heaviest struct {
	most   int
	shards []control.ShardLoad // the first ones are the heaviest so far, heaviest first
	sorted int                 // how many these are
	rest   sharding.Load
}

// ShardLoads holds the loads of some shards.
type ShardLoads struct {
	Shards []control.ShardLoad // by shard; none is zero
	Rest   sharding.Load       // of all others
}

func (h *heaviest) add(s control.ShardLoad) {
	switch {
	case s.Load == (sharding.Load{}):
		return
	case h.sorted == h.most && heavier(s, h.shards[h.most-1]) > 0:
		h.rest = h.rest.Plus(s.Load)
		return
	}
	if h.shards = append(h.shards, s); len(h.shards) == 2*h.most {
		h.sort()
	}
}

// sort keeps the heaviest.
func (h *heaviest) sort() {
	sorted.By(h.shards, heavier)
	if len(h.shards) > h.most {
		for _, s := range h.shards[h.most:] {
			h.rest = h.rest.Plus(s.Load)
		}
		h.shards = h.shards[:h.most]
	}
	h.sorted = len(h.shards)
}

func (h *heaviest) end() ShardLoads {
	h.sort()
	sorted.By(h.shards, func(a, b control.ShardLoad) int { return a.Shard.Compare(b.Shard) })
	return ShardLoads{Shards: slices.Clip(h.shards), Rest: h.rest}
}

// heavier orders the shards with the most load first.
func heavier(a, b control.ShardLoad) int {
	return cmp.Or(cmp.Compare(b.Load.Weight(), a.Load.Weight()), a.Shard.Compare(b.Shard))
}
