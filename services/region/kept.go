package region

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// A volatile type may keep the states of its entities when a shard is handed off. The owner that
// hands the shard off keeps the states, and reports that in ShardStopped. HostShard names that
// owner to the next owner. The next owner claims the shard, fetches the states, and serves the
// shard with them. A state is given once and fetched once. An owner that does not get the states
// in time begins without them, permanently. If the coordinator does not learn that it has begun,
// HostShard offers the same states to the owner after it, which finds the claim in the journal,
// and begins without them, too. Therefore no state is ever alive twice, and none comes back.

// keptShard are the states of a shard's entities that this region keeps for the next owner.
type keptShard struct {
	epoch  sharding.Epoch // the epoch at which the region held the shard
	states []turn.Kept
	bytes  int
	until  time.Time // if no owner has fetched the states by then, they are dropped
	// unowned is true if the shard has no owner now that could fetch the states.
	unowned bool
}

// KeptStats counts states of entities that moved, or did not move, with their shards.
type KeptStats struct {
	Given   uint64 // given to the next owner
	Fetched uint64 // got from the previous owner
	// Unfetched counts states that were dropped: the next owner has not fetched them in time.
	Unfetched uint64
	// OverLimit counts states that were not kept: the region, or a shard, would have kept too
	// many states, or too many bytes of them.
	OverLimit uint64
	// TimedOut counts shards that were served without the states of their entities, because the
	// states had not come in time.
	TimedOut uint64
	// Late counts states that came too late for their shard, and were ignored.
	Late uint64
}

// Add adds the counts of another shard core.
func (s *KeptStats) Add(o KeptStats) {
	s.Given += o.Given
	s.Fetched += o.Fetched
	s.Unfetched += o.Unfetched
	s.OverLimit += o.OverLimit
	s.TimedOut += o.TimedOut
	s.Late += o.Late
}

// KeptStats returns the counts since the start.
func (m *ShardCore) KeptStats() KeptStats {
	st := m.keptStats
	st.OverLimit += m.turn.KeptStats().OverLimit
	return st
}

// beginShard serves a shard that was claimed, or first fetches the states of its entities. The
// parameter replaced is the epoch of the claim before. An owner that has claimed the shard after the
// states were kept has fetched them, or has begun without them. A claim that is repeated, because its
// answer was lost, finds itself: then it is unknown whether there was another claim in between.
func (m *ShardCore) beginShard(h *heldShard, replaced sharding.Epoch) {
	p := h.keptBy
	switch {
	//mutant:false kept-outlived replaced > p.Epoch
	case !m.typ(h.id.Type).keeps || p == (control.Previous{}) || replaced > p.Epoch:
		m.started(h, nil)
	case p.Owner == m.cfg.Self:
		m.started(h, m.takeKept(h.id, h.epoch, p.Epoch))
	default:
		h.phase, h.damaged, h.fetchBy = fetching, false, m.now.Add(m.cfg.KeptWait)
		m.mayFetch = true
		m.emit(FetchKept{Shard: h.id, Epoch: h.epoch, Previous: p, Within: m.cfg.KeptWait - m.cfg.KeptWait/8})
	}
}

// keptFetched takes the states that the previous owner has kept. It ignores them if they are late: the shard
// has been let go meanwhile, or is served without them, or KeptWait is over. After a pause of the process, an
// answer is handled before the next Tick, which would have ended the wait. Meanwhile another region may have
// claimed the shard and begun without the states.
func (m *ShardCore) keptFetched(in KeptFetched) {
	h := m.shard(in.Shard)
	if h == nil || h.phase != fetching || h.epoch != in.Epoch { //mutant:false fetched-epoch h.epoch != in.Epoch
		m.keptStats.Late += uint64(len(in.Kept))
		return
	}
	if !m.now.Before(h.fetchBy) { //mutant:false kept-late
		m.keptStats.Late += uint64(len(in.Kept))
		m.beginWithoutKept(h)
		return
	}
	m.keptStats.Fetched += uint64(len(in.Kept))
	m.started(h, in.Kept)
}

// beginWithoutKept serves a shard whose states have not come within KeptWait.
func (m *ShardCore) beginWithoutKept(h *heldShard) {
	m.keptStats.TimedOut++
	m.started(h, nil)
}

// giveKept gives the kept states of a shard to an owner with a higher epoch.
func (m *ShardCore) giveKept(in GiveKept) {
	o := Kept{Call: in.Call, States: m.takeKept(in.Shard, in.Epoch, in.Stopped)}
	for i := range o.States {
		o.Bytes += o.States[i].Size()
	}
	if len(o.States) > 0 {
		m.giving++
		m.givingBytes += o.Bytes
		m.keptStats.Given += uint64(len(o.States))
	}
	m.emit(o)
}

// takeKept returns the kept states of a shard for its owner at an epoch, and keeps them no longer. The
// parameter stopped is the epoch at which this region has stopped the shard, as that owner says.
func (m *ShardCore) takeKept(id sharding.ShardID, epoch, stopped sharding.Epoch) []turn.Kept {
	t := m.typeOfShard(id)
	if t == nil {
		return nil
	}
	k := t.kept[id.Index]
	//mutant:false kept-epoch epoch <= k.epoch || stopped < k.epoch
	if k == nil || epoch <= k.epoch || stopped < k.epoch {
		return nil
	}
	// Invariant: a kept state is given to one owner only, and only to an owner at a higher epoch. The owner uses the
	// state only at the epoch that it was fetched for. If the state comes after the shard is served, the owner does not
	// use it.
	// Guarded by: `region.takeKept`, `keptFetched`. `coordinator.row.fact`: once a shard is served, its row no longer
	// names the region that kept the states.
	// Mutants: kept-given-once, kept-epoch, fetched-epoch, previous-served
	m.dropKept(t, id) //mutant:skip kept-given-once
	return k.states
}

func (m *ShardCore) dropKept(t *hostedType, id sharding.ShardID) {
	if k := t.kept[id.Index]; k != nil {
		m.keptShards--
		m.keptBytes -= k.bytes
		m.setUnowned(k, false)
		t.kept[id.Index] = nil
	}
}

// keep keeps the states of a shard that was handed off.
func (m *ShardCore) keep(h *heldShard, states []turn.Kept) {
	if len(states) == 0 || h.handOff == 0 { // without a HandOff no owner learns that states are kept
		return
	}
	k := &keptShard{epoch: h.epoch, states: states, until: m.now.Add(m.cfg.LeaveTimeout)}
	for i := range states {
		k.bytes += states[i].Size()
	}
	if m.keptBytes+m.givingBytes+k.bytes > int(m.cfg.KeptBytes)/m.cfg.ShardCores {
		m.keptStats.OverLimit += uint64(len(states))
		return
	}
	t := m.typ(h.id.Type)
	m.dropKept(t, h.id)
	t.kept[h.id.Index] = k
	m.keptShards++
	m.keptBytes += k.bytes
}

// keeps reports whether the region keeps states of the shard that were alive at the epoch or
// before it.
func (m *ShardCore) keeps(id sharding.ShardID, e sharding.Epoch) bool {
	k := m.typ(id.Type).kept[id.Index]
	return k != nil && k.epoch <= e
}

// keptRow notes what a row means for the kept states of its shard. An owner that serves the shard
// has fetched the states, or has begun without them.
func (m *ShardCore) keptRow(t *hostedType, row sharding.Row) {
	k := t.kept[row.Shard.Index]
	switch {
	case k == nil || row.Epoch <= k.epoch:
	case row.Phase == sharding.Serving:
		m.keptStats.Unfetched += uint64(len(k.states))
		m.dropKept(t, row.Shard)
	default:
		m.setUnowned(k, row.Owner.IsZero())
	}
}

func (m *ShardCore) setUnowned(k *keptShard, unowned bool) {
	switch {
	case unowned && !k.unowned:
		m.keptUnowned++
	case !unowned && k.unowned:
		m.keptUnowned--
	}
	k.unowned = unowned
}

// keptUnfetched counts the shards whose kept states a next owner may still fetch, and the [Kept] that are
// being sent.
func (m *ShardCore) keptUnfetched() int { return m.giving + m.keptShards - m.keptUnowned }

// tickKept ends waits that take too long. Shards that have waited too long for states are served without them,
// and states that no owner has fetched in time are dropped.
func (m *ShardCore) tickKept() {
	if m.mayFetch {
		m.mayFetch = false
		for h := range m.heldShards() {
			switch {
			case h.phase != fetching:
			case m.now.Before(h.fetchBy):
				m.mayFetch = true
			default:
				m.beginWithoutKept(h)
			}
		}
	}
	if m.keptShards == 0 {
		return
	}
	for _, t := range m.types {
		for i, k := range t.kept {
			if k != nil && !m.now.Before(k.until) {
				m.keptStats.Unfetched += uint64(len(k.states))
				m.dropKept(t, sharding.ShardID{Type: t.name, Index: uint32(i)})
			}
		}
	}
}

func (m *ShardCore) checkKept() error {
	shards, unowned, bytes := 0, 0, 0
	for _, t := range m.types {
		for i, k := range t.kept {
			if k == nil {
				continue
			}
			shards++
			bytes += k.bytes
			if k.unowned {
				unowned++
			}
			if h := t.shards[i]; h != nil && h.phase != claiming {
				return fmt.Errorf("region: %s keeps states of %s though it is held at %s", t.name, h.id, h.epoch)
			}
		}
	}
	if shards != m.keptShards || unowned != m.keptUnowned || bytes != m.keptBytes || bytes > int(m.cfg.KeptBytes) || m.giving < 0 {
		return fmt.Errorf("region: counted %d shards whose states are kept, %d of them unowned, %d bytes; there are %d, %d, %d; %d are being given",
			m.keptShards, m.keptUnowned, m.keptBytes, shards, unowned, bytes, m.giving)
	}
	return nil
}

// appendKept appends a canonical description of the kept states.
func (m *ShardCore) appendKept(now time.Time, b []byte) []byte {
	for _, t := range m.types {
		for i, k := range t.kept {
			if k != nil {
				b = fmt.Appendf(b, "kept %s/%d %s until %d unowned %t %v\n", t.name, i, k.epoch, relative(now, k.until), k.unowned, k.states)
			}
		}
	}
	return b
}
