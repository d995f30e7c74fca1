package entitytest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// A turn has a goroutine of its own, so that it can wait for what it asks. Only one goroutine runs at a
// time: the test's goroutine waits until the turn asks for something or is over, and the turn waits while
// the test's goroutine steps the execution core.

// running is a turn. It implements instance.Asker.
type running struct {
	run     *turn.Run
	asks    uint64
	waits   context.Context // of the ask that it waits for; nil: it waits for none, or not any more
	events  chan event
	replies chan sharding.Reply
}

// event is an event of a turn: it asks, or it is over.
type event struct {
	ask    *turn.Ask
	ctx    context.Context // of ask
	done   turn.TurnDone
	exited bool // by runtime.Goexit
}

// waiting is an ask that was delivered to an entity.
type waiting struct {
	inc    turn.Incarnation
	number uint64
}

// Ask implements instance.Asker.
func (r *running) Ask(ctx context.Context, a turn.Ask) sharding.Reply {
	r.asks++
	a.Incarnation, a.Turn, a.Number = r.run.Incarnation, r.run.Turn, r.asks
	r.events <- event{ask: &a, ctx: ctx}
	return <-r.replies
}

// begin starts a turn.
func (k *Kit) beginTurn(o *turn.Run) turn.Input {
	r := &running{run: o, events: make(chan event), replies: make(chan sharding.Reply)}
	inst, now := k.insts[o.Entity], k.now
	k.turns[o.Incarnation] = r
	go func() {
		end := event{exited: true}
		defer func() { r.events <- end }()
		done, failed := inst.Run(context.Background(), now, o, r)
		if failed != nil && !strings.Contains(done.Reply.Message, reason(failed)) { // a region would log it
			done.Reply.Message += ": " + failed.Error()
		}
		done.Incarnation, done.Request = o.Incarnation, o.Request
		end = event{done: done}
	}()
	return k.next(r)
}

// reason is the text of an error without its code.
func reason(err error) string {
	if f := (*instance.Failure)(nil); errors.As(err, &f) {
		return f.Message
	}
	return err.Error()
}

// next waits until the turn asks for something or is over.
func (k *Kit) next(r *running) turn.Input {
	ev := <-r.events
	if ev.ask != nil {
		r.waits = ev.ctx
		if !ev.ask.Deadline.IsZero() { // by the clock of the machine, which contexts have
			ev.ask.Deadline = k.now.Add(time.Until(ev.ask.Deadline))
		}
		return *ev.ask
	}
	delete(k.turns, r.run.Incarnation)
	if ev.exited {
		k.t.FailNow()
	}
	return ev.done
}

// answerAsk lets a turn go on that has asked.
func (k *Kit) answerAsk(inc turn.Incarnation, reply sharding.Reply) turn.Input {
	r := k.turns[inc]
	if r == nil {
		return nil
	}
	r.waits = nil
	r.replies <- reply
	return k.next(r)
}

// withdrawn returns the withdrawal of an ask whose context has ended, nil if there is none.
func (k *Kit) withdrawn() turn.Input {
	for _, inc := range slices.Sorted(maps.Keys(k.turns)) {
		if r := k.turns[inc]; r.waits != nil && r.waits.Err() != nil {
			r.waits = nil
			return turn.WithdrawAsk{Incarnation: inc, Number: r.asks}
		}
	}
	return nil
}

// dropTurns ends the turns that wait while the region dies. No caller takes their results.
func (k *Kit) dropTurns() {
	for _, inc := range slices.Sorted(maps.Keys(k.turns)) {
		for k.turns[inc] != nil {
			k.answerAsk(inc, sharding.Doubt(sharding.Unavailable, "the region has crashed"))
		}
	}
	clear(k.asked)
}

// sendAsk delivers what a turn asks, as a region does that hosts all types of the kit.
func (k *Kit) sendAsk(o turn.SendAsk) turn.Input {
	if refusal := k.refuse(&o.Env); refusal != nil {
		return turn.AskAnswered{Incarnation: o.Incarnation, Number: o.Number, Reply: *refusal}
	}
	k.last++
	k.asked[k.last] = waiting{inc: o.Incarnation, number: o.Number}
	k.openShard(o.Env.Entity)
	return turn.Deliver{Request: k.last, Shard: k.shardOf(o.Env.Entity), Env: &o.Env}
}

// answered takes the answer to a command: of a caller, or of a turn that asks.
func (k *Kit) answered(o *turn.Answer) turn.Input {
	w, ok := k.asked[o.Request]
	if !ok {
		k.answers[o.Request] = o.Reply
		return nil
	}
	delete(k.asked, o.Request)
	return turn.AskAnswered{Incarnation: w.inc, Number: w.number, Reply: o.Reply}
}

// refuse returns the same refusal as a gateway for a command that no type of the kit has.
func (k *Kit) refuse(env *sharding.Envelope) *sharding.Reply {
	d, ok := k.descs[env.Entity.Type]
	if !ok {
		reply := sharding.Reject(sharding.NotFound, "no type "+string(env.Entity.Type)+" in this kit")
		return &reply
	}
	if _, ok := d.Desc.Command(env.Command); !ok {
		reply := sharding.Reject(sharding.Unimplemented, fmt.Sprintf("type %s has no command %s", env.Entity.Type, env.Command))
		return &reply
	}
	return nil
}

func (k *Kit) shardOf(ent sharding.Entity) sharding.ShardID {
	d := k.descs[ent.Type].Desc
	return d.ShardOf(ent.ID)
}
