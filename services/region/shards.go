package region

import (
	"slices"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

func (m *Machine) hostShard(in HostShard) {
	to := m.coordinator(in.From)
	if !m.hosted(in.Shard) || m.leaving {
		m.emit(HostRefused{To: to, Shard: in.Shard, Epoch: in.Epoch, Above: in.Epoch})
		return
	}
	if floor := m.floors[in.Shard]; in.Epoch < floor && !mutant.On("floor-check") {
		m.emit(HostRefused{To: to, Shard: in.Shard, Epoch: in.Epoch, Above: floor})
		return
	}
	h := m.shards[in.Shard]
	switch {
	case h == nil:
		m.claim(in.Shard, in.Epoch, in.From)
	case in.Epoch < h.epoch:
		m.emit(HostRefused{To: to, Shard: in.Shard, Epoch: in.Epoch, Above: h.epoch})
	case in.Epoch > h.epoch:
		h.from = in.From
		h.next = max(h.next, in.Epoch)
		m.supersede(h)
	case h.phase == serving:
		m.emit(ShardStarted{To: to, Shard: h.id, Epoch: h.epoch})
	default: // claiming: ShardStarted follows; stopping: ShardStopped does
		h.from = in.From
	}
}

// hosted tells whether there is such a shard of a type that this region hosts.
func (m *Machine) hosted(id sharding.ShardID) bool {
	t := m.types[id.Type]
	return t != nil && id.Index < t.Desc.Shards
}

// claim takes the shard in the journal before anything is served: from then on
// nothing of a lower epoch can take effect.
func (m *Machine) claim(id sharding.ShardID, e sharding.Epoch, from string) {
	h := &held{id: id, epoch: e, phase: claiming, from: from}
	m.shards[id] = h
	if mutant.On("claim") {
		m.started(h)
		return
	}
	m.emit(Claim{Shard: id, Epoch: e})
}

func (m *Machine) claimed(in Claimed) {
	h := m.shards[in.Shard]
	if h == nil || h.epoch != in.Epoch || h.phase != claiming {
		return
	}
	switch in.Verdict {
	case sharding.Durable:
		m.started(h)
	case sharding.RefusedEpoch:
		m.raiseFloor(h.id, in.Fence.Epoch)
		m.letGo(h)
		m.emit(HostRefused{To: m.coordinator(h.from), Shard: h.id, Epoch: h.epoch, Above: in.Fence.Epoch})
	default: // an unanswered claim is repeated: a held one holds again
		h.claimAt = m.now.Add(m.cfg.Resend)
		m.unanswered = true
	}
}

func (m *Machine) started(h *held) {
	h.phase = serving
	m.step(turn.Open{Shard: h.id, Epoch: h.epoch})
	m.emit(ShardStarted{To: m.coordinator(h.from), Shard: h.id, Epoch: h.epoch})
	for _, c := range m.unbuffer(h) {
		m.deliver(&turn.Deliver{Request: c.Request, Shard: h.id, Env: c.Env})
	}
}

// letGo forgets a shard that is not open, turning away what waits for it.
func (m *Machine) letGo(h *held) {
	delete(m.shards, h.id)
	for _, c := range m.unbuffer(h) {
		m.notMine(c.Request, h.id, c.Epoch)
	}
}

// supersede stops a shard that was seen at a higher epoch.
func (m *Machine) supersede(h *held) {
	switch h.phase {
	case claiming:
		m.letGo(h)
		m.raiseFloor(h.id, h.epoch+1)
		if h.next > h.epoch {
			m.claim(h.id, h.next, h.from)
		}
	case serving:
		h.phase = stopping
		m.step(turn.Abort{Shard: h.id})
	case stopping:
	}
}

func (m *Machine) handOff(in HandOff) {
	h := m.shards[in.Shard]
	if h == nil || in.Epoch < h.epoch {
		if m.hosted(in.Shard) { // others are refused anyway
			m.raiseFloor(in.Shard, in.Epoch+1)
		}
		m.emit(ShardStopped{To: m.coordinator(in.From), Shard: in.Shard, Epoch: in.Epoch})
		return
	}
	h.from = in.From
	h.handOff = max(h.handOff, in.Epoch)
	switch h.phase {
	case claiming:
		m.letGo(h)
		m.raiseFloor(h.id, in.Epoch+1)
		m.emit(ShardStopped{To: m.coordinator(in.From), Shard: h.id, Epoch: in.Epoch})
	case serving:
		h.phase = stopping
		m.step(turn.Drain{Shard: h.id})
	case stopping:
	}
}

// drained: nothing of the shard is alive or unsettled. The floor keeps a late
// HostShard of the same epoch from reviving it.
func (m *Machine) drained(in turn.Drained) {
	h := m.shards[in.Shard]
	if h == nil || h.epoch != in.Epoch {
		return
	}
	delete(m.shards, h.id)
	if !mutant.On("floor-after-drain") {
		m.raiseFloor(h.id, max(h.epoch, h.handOff)+1)
	}
	if h.handOff > 0 {
		m.emit(ShardStopped{To: m.coordinator(h.from), Shard: h.id, Epoch: h.handOff})
	}
	if h.next >= m.floors[h.id] && h.next > h.epoch && !m.leaving {
		m.claim(h.id, h.next, h.from)
	}
}

func (m *Machine) raiseFloor(id sharding.ShardID, e sharding.Epoch) {
	m.floors[id] = max(m.floors[id], e)
}

// leave asks the coordinator to take all shards (SIGTERM).
func (m *Machine) leave() {
	if m.leaving {
		return
	}
	m.leaving = true
	m.leftBy = m.now.Add(m.cfg.LeaveTimeout)
	m.tickLeave()
}

func (m *Machine) shutdownAck(in ShutdownAck) {
	if !m.current(in.Term) || !m.leaving {
		return
	}
	m.released = in.Remaining == 0
	m.tickLeave()
}

// tickLeave repeats the request to leave and tells when it is fulfilled.
func (m *Machine) tickLeave() {
	if !m.leaving || m.left {
		return
	}
	late := !m.now.Before(m.leftBy)
	if m.released || late {
		m.drainAll()
	}
	stranger := m.registered == 0 // no coordinator ever gave us anything
	if (m.released || stranger) && len(m.shards) == 0 || late {
		m.left = true
		m.emit(Left{})
		return
	}
	if addr, _ := m.watcher.Active(); addr != "" && (m.leaveAt.IsZero() || m.now.Sub(m.leaveAt) >= m.cfg.Resend) {
		m.leaveAt = m.now
		m.emit(GracefulShutdown{To: addr})
	}
}

// drainAll lets go of shards that the coordinator does not count as ours.
func (m *Machine) drainAll() {
	var ids []sharding.ShardID
	for id := range m.shards { // sorted below
		ids = append(ids, id)
	}
	slices.SortFunc(ids, sharding.ShardID.Compare)
	for _, id := range ids {
		switch h := m.shards[id]; h.phase {
		case claiming:
			m.letGo(h)
		case serving:
			h.phase = stopping
			m.step(turn.Drain{Shard: id})
		case stopping:
		}
	}
}
