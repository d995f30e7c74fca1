package sim

import (
	"errors"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

func nanos(n int64) time.Duration { return time.Duration(n) }

// performEntity does what the entity core asks of its driver.
func (s *shardNode) performEntity(o turn.Output) {
	switch o := o.(type) {
	case turn.Load:
		s.load(o)
	case turn.Lookup:
		s.lookup(o)
	case turn.ReadSend:
		s.readSend(o)
	case *turn.Run:
		s.run(o)
	case turn.Cancel:
		if b := s.instances[o.Incarnation]; b != nil && b.running && b.request == o.Request && b.cancel != nil {
			s.w.mark("turn cancelled")
			b.cancel()
		}
	case turn.Append:
		a, b := o.Append, s.instances[o.Incarnation]
		if b != nil {
			b.appends++
		}
		s.group.add(journal.Op{Append: &a}, func(r journal.Result) {
			if b != nil {
				b.appends--
			}
			var seq uint64
			if len(a.Records) > 0 {
				seq = a.Records[0].Seq
			}
			s.stepTurn(turn.Appended{
				Incarnation: o.Incarnation, Seq: seq,
				Verdict: r.Verdict, Fence: r.Fence, Reason: reason(r), At: r.At,
			})
		})
	case turn.ReadFence:
		f := sharding.ReadFence{Shard: o.Shard, Epoch: o.Epoch}
		s.group.add(journal.Op{Fence: &f}, func(r journal.Result) {
			s.stepTurn(turn.FenceRead{Shard: o.Shard, Epoch: o.Epoch, Number: o.Number, Verdict: r.Verdict, Fence: r.Fence, Reason: reason(r)})
		})
	case turn.Snapshot:
		s.snapshot(o)
	case turn.Stop:
		if b := s.instances[o.Incarnation]; b == nil || b.running {
			s.w.violate("one turn at a time", "%s: %v is stopped while it runs, or before it lives", s.p.name, o.Entity)
		} else if b.timer != 0 && !b.passivates && o.Reason == turn.Passivated {
			s.w.violate("a timer holds passivation off", "%s: %v is passivated before its timer has fired", s.p.name, o.Entity)
		}
		s.noteStop(o)
		in := turn.Stopped{Incarnation: o.Incarnation}
		if b := s.instances[o.Incarnation]; o.Keep && b != nil {
			in.Kept = s.write(o, b)
		}
		if b := s.instances[o.Incarnation]; b != nil {
			s.stopping[o.Incarnation] = b.size
		}
		delete(s.instances, o.Incarnation)
		s.w.after(s.w.dice("turn").exp(ms/5), s.p.ifAlive(func() {
			delete(s.stopping, o.Incarnation)
			s.stepTurn(in)
		}))
	case turn.Drop:
		delete(s.instances, o.Incarnation)
		delete(s.stopping, o.Incarnation)
	case turn.SendAsk:
		s.sendAsk(&o)
	case turn.SendProbe:
		s.sendProbe(o)
	case turn.AskDone:
		s.askDone(o)
	case *turn.Answer:
		s.reply(o)
	case *turn.UnwatchedDone:
		s.w.mark("turn: told")
	case turn.Abandoned:
		s.w.mark("turn abandoned")
	default:
		s.w.violate("driver", "entity output %T is not known here", o)
	}
}

// load makes an instance from what the journal holds.
func (s *shardNode) load(o turn.Load) {
	s.checkStopped(o.Shard, o.Epoch)
	s.checkReads(o)
	b := &instance{entity: o.Entity, shard: o.Shard, epoch: o.Epoch}
	if !o.LookupOnly {
		s.instances[o.Incarnation] = b
	}
	if o.Volatile {
		s.readState(o.Kept, b)
		s.w.after(s.w.dice("turn").exp(ms/5), s.p.ifAlive(func() {
			s.stepTurn(turn.Loaded{Entity: o.Entity, Incarnation: o.Incarnation})
		}))
		return
	}
	s.newestLoad[o.Entity] = pendingLoad{o, s.p.now()}
	if s.loads[o.Entity]++; s.loads[o.Entity] > entityLoads {
		s.w.violate("loads are bounded", "%s: %d loads of %v are without an answer", s.p.name, s.loads[o.Entity], o.Entity)
	}
	var got journal.Loaded
	var err error
	incarnation := s.p.incarnation
	s.w.journal.read(s.p.host, func() {
		req := o.LoadRequest
		got, err = s.w.journal.load(req)
		if err == nil && !o.Bare && s.ignoresSnapshot(o.Entity, &got.Snapshot) {
			s.w.mark("a snapshot of another form is ignored")
			req.WithoutSnapshot = true
			got, err = s.w.journal.load(req)
		}
		switch {
		case !errors.Is(err, journal.ErrTrimmed):
		case o.Epoch < s.w.journal.highest[o.Shard].Epoch:
			s.w.mark("trim: an owner that is none any more cannot read what a later one has stored")
		default:
			s.w.violate("the state is not lost", "%s, version %d, cannot load %v: %v", s.p.name, s.version, o.Entity, err)
		}
	}, func(ok bool) {
		if s.p.incarnation != incarnation {
			return
		}
		s.p.post(func() {
			s.loads[o.Entity]--
			in := turn.Loaded{Entity: o.Entity, Incarnation: o.Incarnation}
			if s.newestLoad[o.Entity].Incarnation == o.Incarnation {
				delete(s.newestLoad, o.Entity)
			} else if ok {
				s.w.mark("load answered after it was given up")
			}
			if !ok {
				err = errLost
			}
			switch {
			case err != nil:
				delete(s.instances, o.Incarnation)
				in.NotFound(err)
			case s.startFails(&o):
				delete(s.instances, o.Incarnation)
				in.Err, in.Code = "the start hook fails", sharding.Internal
			default:
				b.alive = !o.Bare
				if o.Bare {
					s.w.mark("an operator's command runs without an instance")
				}
				if o.Background {
					s.w.mark("remembered: it is started")
				}
				b.list = replay(got)
				in.Found(&got)
				in.Size = s.w.told(b.list)
				b.size = in.Size
				if in.Trimmed {
					s.w.mark("trim: a trimmed entity is loaded")
				}
				if len(got.Stored) > 0 {
					s.w.mark("dedupe: a stored reply is found")
				}
				if o.LookupOnly {
					s.w.mark("outcome looked up after the shard was lost")
				}
				if got.Snapshot.Seq > 0 {
					s.w.mark("entity loaded from a snapshot")
				}
			}
			if !b.alive || in.Err != "" {
				s.stepTurn(in)
				return
			}
			s.gated(o.Entity, "", o.Suspect, func(ended func()) {
				ended()
				s.stepTurn(in)
			})
		})
	})
}

// lookup asks the journal for one command of a living entity.
func (s *shardNode) lookup(o turn.Lookup) {
	in := turn.LookedUp{Incarnation: o.Incarnation, ID: o.ID}
	incarnation := s.p.incarnation
	s.w.journal.read(s.p.host, func() {
		got, err := s.w.journal.load(journal.LoadRequest{Entity: o.Entity, Lookup: []sharding.CommandID{o.ID}, LookupOnly: true})
		in.Failed = err != nil
		in.Stored, in.Found = got.Stored[o.ID]
	}, func(ok bool) {
		if s.p.incarnation != incarnation {
			return
		}
		in.Failed = in.Failed || !ok
		if in.Found {
			s.w.mark("dedupe: a repeat is looked up while the entity lives")
		}
		s.p.post(func() { s.stepTurn(in) })
	})
}

// run executes one turn: a while after now, which may be long.
func (s *shardNode) run(o *turn.Run) {
	w := s.w
	s.checkStopped(o.Shard, o.Epoch)
	if c, ok := s.callers[o.Request]; ok && c.epoch != o.Epoch {
		w.violate("run where it was sent", "%s: a command for %v sent at epoch %v runs at %v", s.p.name, o.Entity, c.epoch, o.Epoch)
	}
	if c := (sharding.Claim{Shard: o.Shard, Epoch: o.Epoch, Owner: s.p.uid}); !w.journal.claims[c] {
		w.violate("a turn means claimed", "%s: %v runs in %v at %v, which was never claimed", s.p.name, o.Entity, o.Shard, o.Epoch)
	}
	if o.New {
		s.makeInstance(o)
	}
	b := s.instances[o.Incarnation]
	if b == nil || b.running {
		w.violate("one turn at a time", "%s: %v runs two turns at a time, or before it lives", s.p.name, o.Entity)
		return
	}
	if !b.alive && !s.w.volatile(o.Entity) {
		w.violate("a turn has an instance", "%s: a turn of %v runs, and the entity was loaded without an instance", s.p.name, o.Entity)
	}
	if s.w.volatile(o.Entity) {
		s.ranTurn(o, b)
	}
	b.running, b.request, b.turn, b.cancel = true, o.Request, o.Turn, nil
	if o.Timer {
		if b.timer == decodeNumber(o.Env.Payload) { // not an earlier one, whose command waited while this one was set
			b.timer = 0
		}
		if s.p.w.now-b.idleSince > passivateAfter {
			w.mark("timer: it held passivation off")
		}
	}
	s.checkObeys(o)
	if p := w.ends(o); p != nil && p.inCore {
		s.corePanics(p, work{o.Entity, o.Env.Command})
		return
	}
	s.gated(o.Entity, o.Env.Command, o.Suspect, func(ended func()) { s.execute(o, b, ended) })
}

// makeInstance makes the instance of a volatile entity for its first turn.
func (s *shardNode) makeInstance(o *turn.Run) {
	w := s.w
	switch {
	case s.instances[o.Incarnation] != nil:
		w.violate("an instance is made once", "%s: a turn of %v makes an instance, and there is one", s.p.name, o.Entity)
	case !w.volatile(o.Entity):
		w.violate("an instance is made once", "%s: %v is not volatile, and was not loaded", s.p.name, o.Entity)
	}
	w.mark("a turn makes an instance")
	b := &instance{entity: o.Entity, shard: o.Shard, epoch: o.Epoch}
	s.instances[o.Incarnation] = b
	s.readState(nil, b)
}

// execute runs the handler of a turn. The function ended is called when the turn has ended.
func (s *shardNode) execute(o *turn.Run, b *instance, ended func()) {
	w, d := s.w, s.w.dice("turn")
	took := d.exp(ms/4) + w.burden(s.p)
	over := false
	end := func(cancelled bool) func() {
		return s.p.ifAlive(func() {
			if over {
				return
			}
			over = true
			ended()
			s.turnDone(o, b, took, cancelled)
		})
	}
	hang := w.weather.Hang
	if o.Suspect {
		hang *= 8 // so that suspects wait for it
	}
	switch {
	case d.chance(hang):
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
		b.cancel, b.endAsking = func() { w.after(d.exp(5*ms), s.p.ifAlive(func() { s.withdraw(o.Incarnation, b) })) }, end(false)
		w.after(took+w.asksOf(o.Env)[0].asker.hold, s.p.ifAlive(func() { s.ask(o, b) }))
		return
	}
	if p := w.ends(o); p != nil {
		at, what := took, work{o.Entity, o.Env.Command}
		if p.late {
			at += w.dice("late poison").between(0, 15*ms)
		}
		w.after(at, s.p.ifAlive(func() { s.endRegion(p, what) }))
		if !p.late {
			return
		}
	}
	w.after(took, end(false))
}

func (s *shardNode) turnDone(o *turn.Run, b *instance, took int64, cancelled bool) {
	state, env := b.list, o.Env
	if o.Wakeup != nil && o.Wakeup.Answer == nil {
		env = s.fires(o)
	}
	done := turnOf(&state, env, s.w.storeClock())
	switch {
	case o.Wakeup != nil && o.Wakeup.Answer != nil:
		done = takeAnswer(&state, o.Wakeup)
	case o.Env.Command == cmdSend, done.Deleted && s.w.weather.Harsh.Send > 0:
		done.Sends = s.w.sendsOf(decodeNumber(o.Env.Payload))
	}
	if s.w.volatile(o.Entity) {
		done.Wakes, done.Sends = nil, nil
	}
	if o.Env.Command == cmdForward {
		done = s.w.forwardDone(b.list, o.Env, &b.lastAnswer)
	}
	s.inForm(&done)
	if cancelled {
		done = turn.TurnDone{Reply: sharding.Reply{Outcome: sharding.Executed, Code: sharding.Aborted, Message: "context cancelled"}}
		state = b.list
	}
	b.list, b.running, b.cancel, b.idleSince = state, false, nil, s.w.now
	b.endAsking, b.toAsk = nil, nil
	for i := range done.Timers { // they have one name
		b.timer = decodeNumber(done.Timers[i].Payload)
	}
	b.passivates = b.passivates || done.Passivate
	done.Incarnation, done.Request, done.Handler = o.Incarnation, o.Request, nanos(took)
	if done.Size = s.w.told(b.list); done.Size > 0 && !done.Spoiled && !done.Deleted {
		b.size = done.Size
	}
	if done.Spoiled {
		s.w.mark("turn spoiled")
	}
	if s.instances[o.Incarnation] != b {
		s.w.mark("turn of an ended incarnation")
	}
	s.stepTurn(done)
}

func (s *shardNode) snapshot(o turn.Snapshot) {
	b := s.instances[o.Incarnation]
	if b == nil {
		s.w.violate("driver", "%s: snapshot of %v, which is not alive", s.p.name, o.Entity)
		return
	}
	s.w.mark("snapshot")
	write := journal.WriteSnapshot{
		Shard: o.Shard, Epoch: o.Epoch, Entity: o.Entity,
		Snapshot: journal.Snapshot{Seq: o.Seq, Form: s.formOfSnapshot(), Payload: b.list.encode()}, Cut: o.Cut,
	}
	s.group.add(journal.Op{Snapshot: &write}, func(journal.Result) {})
}

// reply sends the end of a command back along its link.
func (s *shardNode) reply(o *turn.Answer) {
	if o.Reply.Outcome == sharding.NotApplied && o.Reply.Code == sharding.Unavailable {
		s.w.mark("command refused: too many loads without an answer")
	}
	s.checkReserve(o)
	if c := s.callers[o.Request]; o.Reply.Outcome == sharding.Executed {
		s.w.answeredAt[commandName{c.entity, c.key}] = append(s.w.answeredAt[commandName{c.entity, c.key}], s.w.now)
	}
	s.answer(o.Request, func(a router.Attempt) router.Input {
		return router.Answer{Attempt: a, Reply: o.Reply}
	})
}

func reason(r journal.Result) string {
	if r.Err == nil {
		return ""
	}
	return r.Err.Error()
}
