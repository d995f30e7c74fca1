package turn

import (
	"fmt"

	"github.com/roost-cluster/roost/libs/sharding"
)

// A dead letter stays in the journal until an operator deals with it, by a built-in command of the
// entity that has sent it. One append stores the command's record and marks the dead letter as done.
// The journal refuses the append if the dead letter is done already. If the dead letter is to be sent
// again, the record has a copy of the send. The copy is a new send, after all earlier ones of the
// entity, and has a new key, because the target may have answered the old key or forgotten it.
//
// A pending send can be dropped in the same way. Once that is durable, SendDropped reports it to
// the dispatcher, which delivers sends.

// deadLetterTurn begins the turn of a command that deals with a dead letter. It asks the journal
// for the send, because the machine knows only how many sends are pending.
func deadLetterTurn(m *Machine, e *entity, c *command) {
	c.endedSend = nil
	in, err := c.deadLetter()
	if err != nil || in.Record == 0 {
		m.builtinDone(e, c, TurnDone{Reply: sharding.Reject(sharding.InvalidArgument, `the input of `+c.env.Command+` is the number of a record and the place of a send in it, such as {"record":7,"place":0}`+because(err))})
		return
	}
	m.emit(ReadSend{Entity: e.address(), Shard: e.shard.id, Incarnation: e.inc, Request: c.runID, Seq: in.Record, Place: in.Place})
}

// deadLetter returns the input of a command that deals with a dead letter.
func (c *command) deadLetter() (in sharding.DeadLetterInput, err error) {
	err = sharding.ReadBuiltin(c.env.Payload, &in)
	return in, err
}

// readSendDone continues the turn that waits for a send to be read from the journal.
func (m *Machine) readSendDone(in *ReadSendDone) {
	e := m.find(in.Incarnation)
	if e == nil || e.state != live || e.running == nil || e.running.builtin == nil || e.running.runID != in.Request {
		return
	}
	c := e.running
	of, _ := c.deadLetter()
	again := c.env.Command == sharding.SendAgainCommand
	if refused := refuseDeadLetter(&of, in, again); refused != nil {
		m.builtinDone(e, c, TurnDone{Reply: *refused})
		return
	}
	//mutant:false again-once true
	c.endedSend = &sharding.Delivered{Seq: of.Record, Sends: []uint16{of.Place}, As: sharding.SendDone, Once: true}
	done := TurnDone{Reply: sharding.Reply{Outcome: sharding.Executed}}
	if again {
		x := in.Send
		//mutant:false again-life
		if of.Record <= e.life {
			x.ReplyTo = "" // the life that would have taken the answer is over
		}
		done.Sends = []sharding.Send{x}
		done.Reply.Payload = fmt.Appendf(nil, `{"record":%d,"place":0}`, e.staged+1) // a sharding.SentAgain
	}
	m.builtinDone(e, c, done)
}

// reportSendDropped reports that an operator's command has given a send up. It is called when the
// command is answered. If the outcome of the command was unknown, or the shard has moved, nothing is
// reported at first; the operator repeats the command, and the repeat is answered with success.
func (m *Machine) reportSendDropped(e *entity, c *command, reply *sharding.Reply) {
	//mutant:true drop-told
	if c.builtin == nil || c.env.Command != sharding.SendDropCommand || reply.Outcome != sharding.Executed || reply.Code != "" {
		return
	}
	if of, err := c.deadLetter(); err == nil && of.Record > 0 {
		m.emitShardEvent(SendDropped{Shard: e.shard.id, Epoch: e.shard.epoch, Entity: e.address(), Seq: of.Record, Place: of.Place})
	}
}

// refuseDeadLetter returns why a command may not deal with a send, nil if it may.
func refuseDeadLetter(of *sharding.DeadLetterInput, in *ReadSendDone, again bool) *sharding.Reply {
	var r sharding.Reply
	name := fmt.Sprintf("send %d of record %d", of.Place, of.Record)
	switch {
	case in.Err != "":
		r = sharding.Reject(in.Code, name+" cannot be read: "+in.Err)
	case in.State == sharding.SendDone:
		r = sharding.Reject(sharding.NotFound, name+" is neither pending nor a dead letter of the entity: there is no such send, or it is done, or an operator has ended it already")
	case in.State == sharding.SendPending && again: //mutant:false again-pending
		r = sharding.Reject(sharding.FailedPrecondition, name+" is pending: it is delivered and retried automatically. Only dead letters can be sent again")
	// Invariant: a pending send is dropped only if an operator accepts that the target may have executed the send. A
	// dropped send is not tried again. Later sends continue.
	// Guarded by: `turn.refuseDeadLetter`, `reportSendDropped`. `outbox.dropped`: a page that was read before the drop
	// does not bring the send back. An attempt that began before the drop does not bring the send back either.
	// Mutants: drop-pending, drop-told, drop-forgets, drop-waits, drop-read
	case in.State == sharding.SendPending && !of.MayHaveRun: //mutant:false drop-pending
		r = sharding.Reject(sharding.FailedPrecondition, name+" is pending: it is delivered and retried automatically, and its target may have executed it already. Look at the target; to drop it all the same, accept that (may_have_run in the input; --may-have-run of roost entity sends drop)")
	case again && in.State == sharding.SendInDoubt && !of.MayRepeat: //mutant:false again-doubt
		r = sharding.Reject(sharding.FailedPrecondition, name+" is in doubt: its target may have executed it already, and would then execute it a second time. Look at the target; then drop the send, or send it again and accept that it may be repeated (may_repeat in the input; --may-repeat of roost entity sends again)")
	default:
		return nil
	}
	return &r
}

// endedRow returns the rows that make an append mark the send of the command as done.
func (c *command) endedRow() []sharding.Delivered {
	// Invariant: an operator can send a dead letter again at most once. An operator can also drop a dead letter. A dead
	// letter in doubt is sent again only if the operator accepts a second effect. If the life that sent the dead letter
	// is over, no later life takes the answer.
	// Guarded by: `turn.readSendDone`: one append contains the new send, and marks the dead letter as done. If the dead
	// letter is done already, the journal refuses this append.
	// Mutants: again-ends, again-once, again-life, again-pending, again-doubt
	//mutant:do again-ends return nil
	return []sharding.Delivered{*c.endedSend}
}
