package sim

import (
	"errors"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/region/reads"
)

func nanos(n int64) time.Duration { return time.Duration(n) }

// performEntity does what the entity core asks of its driver.
func (n *shardNode) performEntity(o turn.Output) {
	switch o := o.(type) {
	case turn.Load:
		n.load(o)
	case turn.Lookup:
		n.lookup(o)
	case turn.ReadSend:
		n.readSend(o)
	case *turn.Run:
		n.run(o)
	case turn.Cancel:
		if b := n.instances[o.Incarnation]; b != nil && b.running && b.request == o.Request && b.cancel != nil {
			n.w.mark("turn cancelled")
			b.cancel()
		}
	case turn.Append:
		a := o.Append
		n.group.add(journal.Op{Append: &a}, func(r journal.Result) {
			var seq uint64
			if len(a.Records) > 0 {
				seq = a.Records[0].Seq
			}
			n.stepTurn(turn.Appended{
				Incarnation: o.Incarnation, Seq: seq,
				Verdict: r.Verdict, Fence: r.Fence, Reason: reason(r), At: r.At,
			})
		})
	case turn.ReadFence:
		f := sharding.ReadFence{Shard: o.Shard, Epoch: o.Epoch}
		n.group.add(journal.Op{Fence: &f}, func(r journal.Result) {
			n.stepTurn(turn.FenceRead{Shard: o.Shard, Epoch: o.Epoch, Number: o.Number, Verdict: r.Verdict, Fence: r.Fence, Reason: reason(r)})
		})
	case turn.Snapshot:
		n.snapshot(o)
	case turn.Stop:
		if b := n.instances[o.Incarnation]; b == nil || b.running {
			n.w.violate("one turn at a time", "%s: %v is stopped while it runs, or before it lives", n.p.name, o.Entity)
		} else if b.timerSet && !b.passivates && o.Reason == turn.Passivated {
			n.w.violate("a timer holds passivation off", "%s: %v is passivated before its timer has fired", n.p.name, o.Entity)
		}
		n.noteStop(o)
		in := turn.Stopped{Incarnation: o.Incarnation}
		if b := n.instances[o.Incarnation]; o.Keep && b != nil {
			in.Kept = n.write(o, b)
		}
		if b := n.instances[o.Incarnation]; b != nil {
			n.stopping[o.Incarnation] = b.size
		}
		delete(n.instances, o.Incarnation)
		n.w.after(n.w.dice("turn").exp(ms/5), n.p.ifAlive(func() {
			delete(n.stopping, o.Incarnation)
			n.stepTurn(in)
		}))
	case turn.Drop:
		delete(n.instances, o.Incarnation)
		delete(n.stopping, o.Incarnation)
	case turn.SendAsk:
		n.sendAsk(&o)
	case turn.SendProbe:
		n.sendProbe(o)
	case turn.AskDone:
		n.askDone(o)
	case *turn.Answer:
		n.reply(o)
	case turn.TellDone:
		n.w.mark("turn: told")
	default:
		n.w.violate("driver", "entity output %T is not known here", o)
	}
}

// load makes an instance from what the journal holds.
func (n *shardNode) load(o turn.Load) {
	n.checkStopped(o.Shard, o.Epoch)
	n.checkReads(o)
	b := &instance{entity: o.Entity, shard: o.Shard, epoch: o.Epoch}
	if !o.LookupOnly {
		n.instances[o.Incarnation] = b
	}
	if o.Volatile {
		n.readState(o, b)
		n.w.after(n.w.dice("turn").exp(ms/5), n.p.ifAlive(func() {
			n.stepTurn(turn.Loaded{Entity: o.Entity, Incarnation: o.Incarnation})
		}))
		return
	}
	n.newestLoad[o.Entity] = pendingLoad{o, n.p.now()}
	if n.loads[o.Entity]++; n.loads[o.Entity] > entityLoads {
		n.w.violate("loads are bounded", "%s: %d loads of %v are without an answer", n.p.name, n.loads[o.Entity], o.Entity)
	}
	var got journal.Loaded
	var err error
	gen := n.p.gen
	n.w.journal.read(n.p.host, func() {
		req := reads.Load(o)
		got, err = n.w.journal.load(req)
		if err == nil && !o.Bare && n.ignoresSnapshot(o.Entity, &got.Snapshot) {
			n.w.mark("a snapshot of another form is ignored")
			req.WithoutSnapshot = true
			got, err = n.w.journal.load(req)
		}
		switch {
		case !errors.Is(err, journal.ErrTrimmed):
		case o.Epoch < n.w.journal.highest[o.Shard].Epoch:
			n.w.mark("trim: an owner that is none any more cannot read what a later one has stored")
		default:
			n.w.violate("the state is not lost", "%s, version %d, cannot load %v: %v", n.p.name, n.version, o.Entity, err)
		}
	}, func(ok bool) {
		if n.p.gen != gen {
			return
		}
		n.p.post(func() {
			n.loads[o.Entity]--
			in := turn.Loaded{Entity: o.Entity, Incarnation: o.Incarnation}
			if n.newestLoad[o.Entity].Incarnation == o.Incarnation {
				delete(n.newestLoad, o.Entity)
			} else if ok {
				n.w.mark("load answered after it was given up")
			}
			if !ok {
				err = errLost
			}
			switch {
			case err != nil:
				delete(n.instances, o.Incarnation)
				reads.NotLoaded(&in, err)
			case n.startFails(&o):
				delete(n.instances, o.Incarnation)
				in.Err, in.Code = "the start hook fails", sharding.Internal
			default:
				b.alive = !o.Bare
				if o.Bare {
					n.w.mark("an operator's command runs without an instance")
				}
				if o.Background {
					n.w.mark("remembered: it is started")
				}
				b.list = replay(got)
				reads.Loaded(&in, &got)
				in.Size = n.w.told(b.list)
				b.size = in.Size
				if in.Trimmed {
					n.w.mark("trim: a trimmed entity is loaded")
				}
				if len(got.Stored) > 0 {
					n.w.mark("dedupe: a stored reply is found")
				}
				if o.LookupOnly {
					n.w.mark("outcome looked up after the shard was lost")
				}
				if got.Snapshot.Seq > 0 {
					n.w.mark("entity loaded from a snapshot")
				}
			}
			n.stepTurn(in)
		})
	})
}

// lookup asks the journal for one command of a living entity.
func (n *shardNode) lookup(o turn.Lookup) {
	in := turn.LookedUp{Incarnation: o.Incarnation, ID: o.ID}
	gen := n.p.gen
	n.w.journal.read(n.p.host, func() {
		got, err := n.w.journal.load(journal.LoadRequest{Entity: o.Entity, Lookup: []sharding.CommandID{o.ID}, LookupOnly: true})
		in.Failed = err != nil
		in.Stored, in.Found = got.Stored[o.ID]
	}, func(ok bool) {
		if n.p.gen != gen {
			return
		}
		in.Failed = in.Failed || !ok
		if in.Found {
			n.w.mark("dedupe: a repeat is looked up beside the living entity")
		}
		n.p.post(func() { n.stepTurn(in) })
	})
}

// run executes one turn: a while after now, which may be long.
func (n *shardNode) run(o *turn.Run) {
	w, d := n.w, n.w.dice("turn")
	n.checkStopped(o.Shard, o.Epoch)
	if c, ok := n.callers[o.Request]; ok && c.epoch != o.Epoch {
		w.violate("run where it was sent", "%s: a command for %v sent at epoch %v runs at %v", n.p.name, o.Entity, c.epoch, o.Epoch)
	}
	if c := (sharding.Claim{Shard: o.Shard, Epoch: o.Epoch, Owner: n.p.uid}); !w.journal.claims[c] {
		w.violate("a turn means claimed", "%s: %v runs in %v at %v, which was never claimed", n.p.name, o.Entity, o.Shard, o.Epoch)
	}
	b := n.instances[o.Incarnation]
	if b == nil || b.running {
		w.violate("one turn at a time", "%s: %v runs two turns at a time, or before it lives", n.p.name, o.Entity)
		return
	}
	if !b.alive && !n.w.volatile(o.Entity) {
		w.violate("a turn has an instance", "%s: a turn of %v runs, and the entity was loaded without an instance", n.p.name, o.Entity)
	}
	if n.w.volatile(o.Entity) {
		n.ranTurn(o, b)
	}
	b.running, b.request, b.turn, b.cancel = true, o.Request, o.Turn, nil
	if o.Timer {
		b.timerSet = false
		if n.p.w.now-b.idleSince > passivateAfter {
			w.mark("timer: it held passivation off")
		}
	}
	took := d.exp(ms / 4)
	over := false
	end := func(cancelled bool) func() {
		return n.p.ifAlive(func() {
			if over {
				return
			}
			over = true
			n.turnDone(o, b, took, cancelled)
		})
	}
	switch {
	case d.chance(w.weather.Hang):
		w.mark("turn hangs")
		took = d.between(sec, 20*sec)
		if d.chance(0.6) { // it listens to its context
			b.cancel = func() { w.after(d.exp(5*ms), end(true)) }
		}
	case d.chance(w.weather.Slow):
		took = d.between(10*ms, 600*ms)
	}
	if f := w.asks[decodeNumber(o.Env.Payload)]; f != nil {
		f.ran = true
	}
	if o.Env.Command == cmdForward {
		b.cancel, b.endAsking = func() { w.after(d.exp(5*ms), n.p.ifAlive(func() { n.withdraw(o.Incarnation, b) })) }, end(false)
		w.after(took+w.asksOf(o.Env)[0].asker.hold, n.p.ifAlive(func() { n.ask(o, b) }))
		return
	}
	w.after(took, end(false))
}

func (n *shardNode) turnDone(o *turn.Run, b *instance, took int64, cancelled bool) {
	state, env := b.list, o.Env
	if o.Wakeup != nil && o.Wakeup.Answer == nil {
		env = n.fires(o)
	}
	done := turnOf(&state, env, n.w.storeClock())
	switch {
	case o.Wakeup != nil && o.Wakeup.Answer != nil:
		done = takeAnswer(&state, o.Wakeup)
	case o.Env.Command == cmdSend, done.Deleted && n.w.weather.Harsh.Send > 0:
		done.Sends = n.w.sendsOf(decodeNumber(o.Env.Payload))
	}
	if n.w.volatile(o.Entity) {
		done.Wakes, done.Sends = nil, nil
	}
	if o.Env.Command == cmdForward {
		done = n.w.forwardDone(b.list, o.Env, &b.lastAnswer)
	}
	n.inForm(&done)
	if cancelled {
		done = turn.TurnDone{Reply: sharding.Reply{Outcome: sharding.OK, Code: sharding.Aborted, Message: "context cancelled"}}
		state = b.list
	}
	b.list, b.running, b.cancel, b.idleSince = state, false, nil, n.w.now
	b.endAsking, b.toAsk = nil, nil
	b.timerSet = b.timerSet || len(done.Timers) > 0
	b.passivates = b.passivates || done.Passivate
	done.Incarnation, done.Request, done.Handler = o.Incarnation, o.Request, nanos(took)
	if done.Size = n.w.told(b.list); done.Size > 0 && !done.Spoiled && !done.Deleted {
		b.size = done.Size
	}
	if done.Spoiled {
		n.w.mark("turn spoiled")
	}
	if n.instances[o.Incarnation] != b {
		n.w.mark("turn of an ended incarnation")
	}
	n.stepTurn(done)
}

func (n *shardNode) snapshot(o turn.Snapshot) {
	b := n.instances[o.Incarnation]
	if b == nil {
		n.w.violate("driver", "%s: snapshot of %v, which is not alive", n.p.name, o.Entity)
		return
	}
	n.w.mark("snapshot")
	s := journal.WriteSnapshot{
		Shard: o.Shard, Epoch: o.Epoch, Entity: o.Entity,
		Snapshot: journal.Snapshot{Seq: o.Seq, Form: n.formOfSnapshot(), Payload: b.list.encode()}, Cut: o.Cut,
	}
	n.group.add(journal.Op{Snapshot: &s}, func(journal.Result) {})
}

// reply sends the end of a command back along its link.
func (n *shardNode) reply(o *turn.Answer) {
	if o.Reply.Outcome == sharding.Rejected && o.Reply.Code == sharding.Unavailable {
		n.w.mark("command refused: too many loads without an answer")
	}
	n.checkReserve(o)
	if c := n.callers[o.Request]; o.Reply.Outcome == sharding.OK {
		n.w.answeredAt[commandName{c.entity, c.key}] = append(n.w.answeredAt[commandName{c.entity, c.key}], n.w.now)
	}
	n.answer(o.Request, func(a router.Attempt) router.Input {
		return router.Answer{Attempt: a, Reply: o.Reply}
	})
}

func reason(r journal.Result) string {
	if r.Err == nil {
		return ""
	}
	return r.Err.Error()
}
