package turn

import (
	"cmp"
	"encoding/binary"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Turns that wait for each other in a circle wait forever. A call that would close its own
// chain is refused at once, but commands of different chains can close a circle too: a asks b
// while b asks a, each on behalf of another client. Such circles are found by edge chasing
// (Chandy, Misra and Haas, 1983), which is simple here because each turn waits for one answer
// only. A turn that has waited for a while sends a probe to the entity that it has asked. If the turn that
// runs there waits for an answer too, the probe continues to the entity which that turn has asked, and so on.
// In a circle, the probe comes back.
//
// One turn of a circle must give up: the one that began to wait last. So a probe is dropped by
// turns that began later than its sender: if there is a circle, their own probes find it. Probes
// are sent again as long as the turn waits, so they may get lost, come late, or come twice. A
// probe that comes back ends only the wait that it was sent for.

// probe is the payload of a [sharding.ProbeCommand].
type probe struct {
	// of is the turn that has sent the probe: the entity, the command, and the number of the ask.
	of     sharding.Entity
	id     sharding.CommandID
	number uint64
	since  int64 // when that turn began to wait, in Unix nanoseconds by the clock of its region
	// edge is the command that the last turn on the probe's way waits for.
	edge sharding.CommandID
	hops byte
}

// maxProbeHops is the maximum number of turns that pass a probe on. A larger circle ends when the deadline of
// one of its turns passes.
const maxProbeHops = 64

// younger orders the turns of a circle. All regions find the same order, even if their clocks differ.
func (p *probe) younger(o *probe) bool {
	return cmp.Or(cmp.Compare(p.since, o.since), p.of.Compare(o.of), cmp.Compare(p.id, o.id)) > 0
}

// probeOf returns the probe that the waiting turn of an entity sends.
func (e *entity) probeOf() probe {
	return probe{of: e.address(), id: e.running.env.ID, number: e.ask.number, since: e.ask.since, edge: e.ask.env.ID}
}

// sendProbe sends the first probe of a turn, or repeats it.
func (m *Machine) sendProbe(e *entity) {
	p := e.probeOf()
	m.follow(e, &p)
	//mutant:do probe-again return
	m.scheduleProbe(e, min(2*e.ask.probePause, 8*m.cfg.ProbeAfter))
}

func (m *Machine) scheduleProbe(e *entity, pause time.Duration) {
	e.ask.probePause = pause
	m.schedule(alarm{at: m.now.Add(pause), kind: alarmProbe, entity: e, incarnation: e.inc, number: e.ask.number})
}

// follow sends a probe to the entity that the waiting turn has asked.
func (m *Machine) follow(e *entity, p *probe) {
	p.edge = e.ask.env.ID
	p.hops++
	// A probe is useful only if its target waits, too. The chain of the probe has that entity, so the probe
	// is admitted even if the shard drains. Otherwise the drain could not end before the circle ends.
	chain := []sharding.Entity{e.ask.env.Entity}
	//mutant:do probe-drain chain = e.ask.env.Chain
	m.emit(SendProbe{Env: sharding.Envelope{
		Entity: e.ask.env.Entity, Command: sharding.ProbeCommand, Tell: true, Payload: p.encode(),
		Deadline: m.now.Add(m.cfg.ProbeAfter), Chain: chain,
	}})
}

// probed handles a probe that arrives at an entity. The probe is answered at once, and does not wait in the
// mailbox, because the commands there wait for the circle to end.
func (m *Machine) probed(s *shard, in *Deliver) {
	m.emitAnswer(in.Request, &sharding.Reply{Outcome: sharding.Executed})
	p, ok := decodeProbe(in.Env.Payload)
	e := m.lookUp(s.typ, in.Env.Entity.ID)
	if !ok || e == nil || e.ask == nil || !e.ask.sent {
		return // no turn here waits for another entity
	}
	if c := e.find(p.edge); c == nil || c.done {
		return // the probe comes late: that wait is over, or about to be
	}
	own := e.probeOf()
	switch {
	//mutant:true probe-stale own.id == p.id && own.number == p.number && own.since == p.since
	case own.of == p.of && own.id == p.id && own.number == p.number && own.since == p.since:
		m.deadlock(e)
	case own.younger(&p), p.hops >= maxProbeHops: //mutant:false probe-youngest own.younger(&p)
	default:
		m.follow(e, &p)
	}
}

// deadlock ends the ask of a turn that waits in a circle, and gives up.
func (m *Machine) deadlock(e *entity) {
	m.stats.Deadlocks++
	m.giveUpAsk(e, sharding.Aborted, "deadlock: "+e.ask.env.Entity.String()+" waits for "+e.address().String()+" itself, perhaps by way of others; repeat the command")
}

func (p *probe) encode() []byte {
	b := []byte{1, p.hops}
	b = binary.BigEndian.AppendUint64(b, p.number)
	b = binary.BigEndian.AppendUint64(b, uint64(p.since))
	for _, s := range []string{string(p.of.Type), string(p.of.ID), string(p.id), string(p.edge)} {
		b = sharding.AppendString(b, s)
	}
	return b
}

// decodeProbe reads a probe. A later version of it may have more at the end.
func decodeProbe(b []byte) (p probe, ok bool) {
	if len(b) < 18 || b[0] != 1 {
		return p, false
	}
	p.hops, p.number, p.since = b[1], binary.BigEndian.Uint64(b[2:]), int64(binary.BigEndian.Uint64(b[10:]))
	b = b[18:]
	var list [4]string
	for i := range list {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return p, false
		}
		list[i], b = string(b[size:size+int(n)]), b[size+int(n):]
	}
	p.of = sharding.Entity{Type: sharding.EntityType(list[0]), ID: sharding.EntityID(list[1])}
	p.id, p.edge = sharding.CommandID(list[2]), sharding.CommandID(list[3])
	return p, true
}
