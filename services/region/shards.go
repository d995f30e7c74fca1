package region

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/purge"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/libs/wakeup"
)

func (m *ShardCore) hostShard(in Host) {
	from := in.From
	h := m.shard(in.Shard)
	// A leaving region does not refuse a shard that it holds already. If it did, the coordinator would
	// assume that nothing was stored at the epoch. But gateways may know from notMine that the shard is
	// here, and their commands may have stored something. So the region hands the shard off.
	held := h != nil && h.epoch == in.Epoch //mutant:false refused-while-held
	if m.leaving && !held {
		m.report(from, control.HostRefused{Shard: in.Shard, Epoch: in.Epoch, Above: in.Epoch})
		return
	}
	// Invariant: a late message does not revive a shard that was handed off.
	// Guarded by: `region.drained` raises the minimum epoch of the shard. `region.hostShard` refuses orders below the
	// minimum epoch.
	// Mutants: min-epoch-check, min-epoch-after-drain
	if minEpoch := m.minEpoch(in.Shard); in.Epoch < minEpoch { //mutant:false min-epoch-check
		m.report(from, control.HostRefused{Shard: in.Shard, Epoch: in.Epoch, Above: minEpoch})
		return
	}
	switch {
	case h == nil:
		m.claim(in.Shard, in.Epoch, from, in.Previous)
	case in.Epoch < h.epoch:
		m.report(from, control.HostRefused{Shard: in.Shard, Epoch: in.Epoch, Above: h.epoch})
	case in.Epoch > h.epoch:
		m.hear(h, in)
		if in.Epoch > h.nextEpoch {
			h.nextEpoch, h.nextKeptBy, h.nextFrom = in.Epoch, in.Previous, in.From
		} else if in.Epoch == h.nextEpoch && !in.Released {
			h.nextFrom = in.From
		}
		m.supersede(h)
	case h.phase == serving:
		m.report(from, control.ShardStarted{Shard: h.id, Epoch: h.epoch})
	default: // claiming or fetching: ShardStarted follows; stopping: ShardStopped does
		m.hear(h, in)
		if h.damaged {
			m.report(from, control.ShardStarted{Shard: h.id, Epoch: h.epoch})
		}
	}
}

// hear notes which coordinator gets the answer about the shard: the sender of the newest order. A region
// that has released the shard is not noted, because it repeats its order until it gets an answer.
func (m *ShardCore) hear(h *heldShard, in Host) {
	if !in.Released {
		h.from = in.From
	}
}

// claim claims the shard in the journal before it serves any command: once the claim is durable,
// nothing of a lower epoch can take effect.
func (m *ShardCore) claim(id sharding.ShardID, e sharding.Epoch, from string, keptBy control.Previous) {
	h := &heldShard{id: id, epoch: e, phase: claiming, from: from, keptBy: keptBy}
	t := m.typ(id.Type)
	t.shards[id.Index] = h
	if keptBy.Owner != m.cfg.Self {
		m.dropKept(t, id) // another region has had the shard since, so the states kept here are too old
	}
	m.heldCount++
	//mutant:do claim m.started(h, nil); return
	m.emit(Claim{Shard: id, Epoch: e})
}

func (m *ShardCore) claimed(in Claimed) {
	h := m.shard(in.Shard)
	if h == nil || h.epoch != in.Epoch || h.phase != claiming {
		return
	}
	switch in.Verdict {
	case sharding.Durable:
		m.beginShard(h, in.Fence.Epoch)
	case sharding.RefusedEpoch:
		m.raiseMinEpoch(h.id, in.Fence.Epoch)
		m.letGo(h)
		m.report(h.from, control.HostRefused{Shard: h.id, Epoch: h.epoch, Above: in.Fence.Epoch})
	default: // the claim is made again later; if it did succeed, it succeeds again
		h.claimAt = m.now.Add(m.cfg.Resend)
		m.claimsToRepeat = true
		was := h.damaged
		// Invariant: if the fence of a shard is damaged, the shard stays at its owner. The owner refuses every command
		// for the shard.
		// Mutants: damaged-claim
		h.damaged = in.Verdict == sharding.RefusedDamaged //mutant:false damaged-claim
		if h.damaged && !was {
			m.refuseAll(h)
		}
	}
}

// refuseAll is for a shard whose fence is damaged. It reports the shard as started, and refuses
// its commands at once: the claim that they wait for may never succeed. If the fence can be read
// again later, the repeated claim decides.
func (m *ShardCore) refuseAll(h *heldShard) {
	m.report(h.from, control.ShardStarted{Shard: h.id, Epoch: h.epoch})
	for _, c := range m.unbuffer(h) {
		m.refuseDamaged(&c)
	}
}

func (m *ShardCore) refuseDamaged(c *Command) {
	m.refuse(c.Request, sharding.DataLoss, "who owns the shard cannot be read: its fence is damaged")
}

// started serves the shard, with the states of its entities that the previous owner has kept.
func (m *ShardCore) started(h *heldShard, kept []turn.Kept) {
	h.phase, h.damaged, h.meter = serving, false, meter{at: m.now}
	m.dropKept(m.typ(h.id.Type), h.id)
	m.stepTurn(turn.Open{Shard: h.id, Epoch: h.epoch, Kept: kept})
	if h.handOff > 0 { // a HandOff came while the shard waited for the states
		m.stop(h)
		for _, c := range m.unbuffer(h) {
			m.notMine(c.Request, h.id, c.Epoch)
		}
		m.stepTurn(turn.Drain{Shard: h.id})
		return
	}
	m.openWakeups(h)
	if !m.typ(h.id.Type).volatile {
		m.stepPurger(purge.Open{Shard: h.id, Epoch: h.epoch})
		m.sends.Step(m.now, outbox.Open{Shard: h.id, Epoch: h.epoch}, &m.sendOutputs)
	}
	m.report(h.from, control.ShardStarted{Shard: h.id, Epoch: h.epoch})
	for _, c := range m.unbuffer(h) {
		m.deliver(h.id, &c)
	}
}

// stop begins the end of a shard that is served: from now on none of its wake-ups fires, and none
// of its sends is delivered.
func (m *ShardCore) stop(h *heldShard) {
	h.phase = stopping
	m.stepWakeups(wakeup.Close{Shard: h.id})
	m.stepPurger(purge.Close{Shard: h.id})
	m.sends.Step(m.now, outbox.Close{Shard: h.id}, &m.sendOutputs)
}

// letGo gives up a shard that is not served yet, and refuses the commands that wait for it.
func (m *ShardCore) letGo(h *heldShard) {
	m.forget(h)
	for _, c := range m.unbuffer(h) {
		m.notMine(c.Request, h.id, c.Epoch)
	}
}

func (m *ShardCore) forget(h *heldShard) {
	m.typ(h.id.Type).shards[h.id.Index] = nil
	m.heldCount--
}

// supersede stops a held shard after its row, an order or a command has shown a higher epoch.
func (m *ShardCore) supersede(h *heldShard) {
	switch h.phase {
	case claiming, fetching:
		m.letGo(h)
		m.raiseMinEpoch(h.id, h.epoch+1)
		if h.nextEpoch > h.epoch && !m.leaving {
			m.claim(h.id, h.nextEpoch, h.nextFrom, h.nextKeptBy)
		}
	case serving:
		m.stop(h)
		m.stepTurn(turn.Abort{Shard: h.id})
	case stopping:
	}
}

func (m *ShardCore) handOff(in HandOff) {
	from := in.From
	h := m.shard(in.Shard)
	if h == nil || in.Epoch < h.epoch {
		m.raiseMinEpoch(in.Shard, in.Epoch+1)
		m.stopped(from, in.Shard, in.Epoch)
		return
	}
	h.from = from
	h.handOff = max(h.handOff, in.Epoch)
	switch h.phase {
	case claiming:
		m.letGo(h)
		m.raiseMinEpoch(h.id, in.Epoch+1)
		m.stopped(from, h.id, in.Epoch)
	case serving:
		m.stop(h)
		m.stepTurn(turn.Drain{Shard: h.id})
	case fetching: // the states may be on their way; when they have come, the shard is handed off with them
	case stopping:
	}
}

// stopped reports that nothing of the shard is alive here any more, at this epoch and all lower epochs.
func (m *ShardCore) stopped(to string, id sharding.ShardID, e sharding.Epoch) {
	wrote := m.typ(id.Type).wrote[id.Index]
	//mutant:do wrote wrote = ""
	m.report(to, control.ShardStopped{Shard: id, Epoch: e, Wrote: wrote, Keeps: m.keeps(id, e)})
}

// drained is called when nothing of the shard is alive or has unsettled writes any more. It raises the
// minimum epoch, so that a late HostShard of the same epoch does not revive the shard.
func (m *ShardCore) drained(in turn.Drained) {
	h := m.shard(in.Shard)
	if h == nil || h.epoch != in.Epoch {
		return
	}
	m.forget(h)
	m.keep(h, in.Kept)
	wrote := &m.typ(h.id.Type).wrote[h.id.Index]
	*wrote = wrote.Union(in.Wrote)
	m.raiseMinEpoch(h.id, max(h.epoch, h.handOff)+1) //mutant:skip min-epoch-after-drain
	if h.handOff > 0 {
		m.stopped(h.from, h.id, h.handOff)
	}
	if h.nextEpoch >= m.minEpoch(h.id) && h.nextEpoch > h.epoch && !m.leaving {
		m.claim(h.id, h.nextEpoch, h.nextFrom, h.nextKeptBy)
		return
	}
	if h.fenced && h.handOff == 0 {
		m.fencedShards = append(m.fencedShards, fencedShard{id: h.id, epoch: h.epoch})
		m.tellFenced()
	}
}

// fencedShard is a shard that this region has stopped, because its fence has another epoch.
type fencedShard struct {
	id     sharding.ShardID
	epoch  sharding.Epoch // at which this region had it
	toldAt time.Time      // when the coordinator was last told
}

// tellFenced tells the coordinator about shards that were fenced: a repair may have claimed them, so the
// coordinator may not know that no region serves them. The core repeats the report until the row shows that the
// coordinator has given the shard away again, because there may have been no active coordinator to tell.
func (m *ShardCore) tellFenced() {
	m.fencedShards = slices.DeleteFunc(m.fencedShards, func(f fencedShard) bool {
		return m.shard(f.id) != nil || m.typ(f.id.Type).rows[f.id.Index].Epoch > f.epoch
	})
	for i := range m.fencedShards {
		f := &m.fencedShards[i]
		if f.toldAt.IsZero() || m.now.Sub(f.toldAt) >= m.cfg.Resend {
			f.toldAt = m.now
			m.report("", control.HostRefused{Shard: f.id, Epoch: f.epoch, Above: m.minEpoch(f.id)})
		}
	}
}

// minEpoch returns the epoch below which a shard of a hosted type is refused.
func (m *ShardCore) minEpoch(id sharding.ShardID) sharding.Epoch {
	return m.typ(id.Type).minEpochs[id.Index]
}

func (m *ShardCore) raiseMinEpoch(id sharding.ShardID, e sharding.Epoch) {
	minEpoch := &m.typ(id.Type).minEpochs[id.Index]
	*minEpoch = max(*minEpoch, e)
}

// drainAll lets go of all shards that are still held. The coordinator has released this region by
// then, or the time for leaving is over.
func (m *ShardCore) drainAll() {
	for h := range m.heldShards() {
		switch h.phase {
		case claiming, fetching:
			m.letGo(h)
		case serving:
			m.stop(h)
			m.stepTurn(turn.Drain{Shard: h.id})
		case stopping:
		}
	}
}
