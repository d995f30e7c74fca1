package turn

import (
	"fmt"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// What a turn sends is part of its record. The machine only counts what is pending; package
// outbox delivers it, and brings answers back as firings of kind SendWake.

// refuseSends returns the refusal of a turn because of its sends; nil: they are allowed. If recount is
// true, this cannot be decided, because the count of pending sends may be too high: the entity must be
// loaded again, which counts them anew, and then the command must run again.
func (m *Machine) refuseSends(e *entity, c *command, sends []sharding.Send) (refusal *sharding.Reply, recount bool) {
	n, ends := len(sends), 0
	if c.wakeup != nil && c.wakeup.Answer != nil {
		ends = 1 // this turn takes the answer to a send, and so ends it
	}
	if c.builtin == nil { //mutant:false send-builtin
		for i := range sends {
			if name := sends[i].Input.Command; sharding.IsBuiltin(name) {
				r := sharding.Reject(sharding.InvalidArgument, "the command was undone: it sends "+name+", which is for operators")
				return &r, false
			}
			if age := sends[i].Options.MaxAge; m.cfg.KeyAge > 0 && age > m.cfg.KeyAge { //mutant:false send-age-refused
				r := sharding.Reject(sharding.FailedPrecondition, fmt.Sprintf("the command was undone: it sends %s with MaxAge %s, at most %s is allowed, because targets remember keys for region.dedupe_age; shorten MaxAge, or raise region.dedupe_age", sends[i].Input.Command, age, m.cfg.KeyAge))
				return &r, false
			}
		}
	}
	code, message := sharding.ResourceExhausted, ""
	switch {
	// Invariant: the number of commands that an entity sends in one turn is limited. The number of an entity's pending
	// sends is limited too.
	// Guarded by: `turn.refuseSends` checks both limits before the commit. `turn.sendsEnded` keeps an upper bound of
	// the number of pending sends. The bound begins with the sends that the load of the entity has found pending. If a
	// send was staged after the load, its end lowers the bound. The load counts only sends that are still pending, so
	// it is not known whether it has counted a send that was staged before it. So the end of such a send does not lower
	// the bound, which could become too low otherwise.
	// Mutants: send-limit, ended-twice
	case n == 0: //mutant:true send-limit
		return nil, false
	case n > m.cfg.TurnSends:
		code = sharding.FailedPrecondition
		// With the mutant: a repeat would send as many again
		//mutant:do send-limit-final code = sharding.ResourceExhausted
		message = fmt.Sprintf("the command was undone: it sends %d commands, at most %d are allowed; send fewer in one turn", n, m.cfg.TurnSends)
	case int(e.sends)+n-ends > m.cfg.PendingSends && e.sendsUncertain && !c.recounted:
		c.recounted = true
		return nil, true
	case int(e.sends)+n-ends > m.cfg.PendingSends:
		message = fmt.Sprintf("the command was undone: it sends %d commands, and %d of the entity are pending, at most %d may be; try again when their targets have answered", n, e.sends, m.cfg.PendingSends)
	default:
		return nil, false
	}
	r := sharding.Reject(code, message)
	return &r, false
}

// noteSends reports the sends of the unit in flight, which has become durable.
func (m *Machine) noteSends(e *entity, at time.Time) {
	if slices.ContainsFunc(e.inflight, func(r sharding.Record) bool { return len(r.Sends) > 0 }) {
		m.emitShardEvent(SendsStored{Shard: e.shard.id, Epoch: e.shard.epoch, Entity: e.address(), At: at, Records: e.inflight})
	}
}

// sendsEnded subtracts sends that have ended from the count of pending sends. A send of a record that the
// load has read is not subtracted: it may have ended before the load counted the pending sends, and then it
// was not counted. So the count may be too high until the next load.
func (m *Machine) sendsEnded(in SendsEnded) {
	s := m.shard(in.Shard)
	if s == nil || s.epoch != in.Epoch {
		return
	}
	e := m.lookUp(s.typ, in.Entity.ID)
	if e == nil || e.volatile() {
		return
	}
	for _, seq := range in.Seqs {
		if e.state == live && seq > e.loadedSeq { //mutant:true ended-twice seq > e.loadedSeq
			e.sends -= min(1, e.sends)
		} else {
			e.sendsUncertain = true
		}
	}
}

// deliveredRow returns what makes an append store that a send is done, because the command has taken its
// answer. The journal refuses the append if the send is done already.
func (c *command) deliveredRow() []sharding.Delivered {
	// Invariant: the sender takes the answer to a send once. It does so in the commit that ends the send.
	// Guarded by: `turn.appendFiring` uses `sharding.Delivered.Once`, which the journal checks.
	// Mutants: answer-once, deliver-once
	//mutant:false answer-once true
	return []sharding.Delivered{{
		Seq: c.wakeup.Seq, Sends: []uint16{uint16(c.wakeup.Number)}, As: sharding.SendDone, Once: true,
	}}
}
