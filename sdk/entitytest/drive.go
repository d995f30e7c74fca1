package entitytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/libs/wakeup"
	"github.com/roost-cluster/roost/sdk/entity"
)

// step runs the core and performs its outputs until none are left.
func (k *Kit) step(in turn.Input) {
	k.core(in)
	k.run()
}

// core steps the entity core, and tells the cores of wake-ups what has happened.
func (k *Kit) core(in turn.Input) {
	k.queue = k.m.Step(k.now, in, k.queue)
	for _, e := range k.m.ShardEvents() {
		if d, ok := e.(turn.Drained); ok {
			k.keep(d)
			continue
		}
		k.wakeups.Observe(k.now, e)
		k.starter.Observe(k.now, e, &k.wanted)
		k.outbox.Observe(k.now, e, &k.sent)
	}
	k.wakeups.Step(k.now, wakeup.Tick{}, &k.wanted)
}

// run performs what the cores want until that is nothing.
func (k *Kit) run() {
	for {
		withdrawn := k.withdrawn()
		switch {
		case withdrawn != nil:
			k.core(withdrawn)
		case len(k.queue) > 0:
			o := k.queue[0]
			k.queue = k.queue[1:]
			if next := k.perform(o); k.crashed {
				k.restart(nil)
			} else if next != nil {
				k.core(next)
			}
		case len(k.wanted.Reads) > 0:
			r := k.wanted.Reads[0]
			k.wanted.Reads = k.wanted.Reads[1:]
			if r.Remembered {
				k.starter.Step(k.now, k.rememberedPage(r), &k.wanted)
			} else {
				k.wakeups.Step(k.now, k.page(r), &k.wanted)
			}
		case len(k.wanted.Fires) > 0:
			f := k.wanted.Fires[0]
			k.wanted.Fires = k.wanted.Fires[1:]
			k.lastFire = &f
			k.core(f)
		case len(k.wanted.Starts) > 0:
			a := k.wanted.Starts[0]
			k.wanted.Starts = k.wanted.Starts[1:]
			k.core(a)
		case !k.sent.Empty():
			k.performSends()
		default:
			if err := errors.Join(k.m.Check(), k.wakeups.Check(), k.starter.Check(), k.outbox.Check()); err != nil {
				k.t.Fatalf("entitytest: the execution core is broken: %v", err)
			}
			return
		}
	}
}

// performSends does one thing that the dispatcher of sends wants.
func (k *Kit) performSends() {
	switch o := &k.sent; {
	case len(o.Reads) > 0:
		r := o.Reads[0]
		o.Reads = o.Reads[1:]
		k.outbox.Step(k.now, k.sendPage(r), o)
	case len(o.Turn) > 0:
		in := o.Turn[0]
		o.Turn = o.Turn[1:]
		k.core(in)
	case len(o.Acks) > 0:
		a := o.Acks[0]
		o.Acks = o.Acks[1:]
		k.journal(a.Append.Entity).changeSends(&a.Append, k.now)
		k.outbox.Step(k.now, outbox.Acked{Number: a.Number, Verdict: sharding.Durable}, o)
	case len(o.Delivers) > 0:
		v := o.Delivers[0]
		o.Delivers = o.Delivers[1:]
		k.deliverSend(v)
	default:
		for _, l := range o.Dead {
			k.journal(l.From).died[sendName{l.Seq, l.Place}] = string(l.Code) + ": " + l.Message
		}
		o.Dead = nil
	}
}

func (k *Kit) perform(o turn.Output) turn.Input {
	switch o := o.(type) {
	case turn.Load:
		return k.load(o)
	case *turn.Run:
		if o.New {
			inst, err := instance.New(k.types[o.Entity.Type], o.Entity.ID)
			if err != nil {
				return turn.TurnDone{
					Incarnation: o.Incarnation, Request: o.Request, Spoiled: true,
					Reply: sharding.Reject(sharding.Internal, notAlive+err.Error()),
				}
			}
			k.insts[o.Entity] = inst
		}
		return k.beginTurn(o)
	case turn.SendAsk:
		return k.sendAsk(o)
	case turn.AskDone:
		return k.answerAsk(o.Incarnation, o.Reply)
	case turn.Append:
		return k.append(o)
	case turn.Lookup:
		in := turn.LookedUp{Incarnation: o.Incarnation, ID: o.ID}
		if r := k.journal(o.Entity).find(o.ID); r != nil {
			in.Found, in.Stored = true, sharding.Stored{Hash: r.Hash, Reply: r.Reply}
		}
		return in
	case turn.ReadFence:
		return turn.FenceRead{Shard: o.Shard, Epoch: o.Epoch, Number: o.Number, Verdict: sharding.Durable}
	case turn.Snapshot:
		form, b, err := k.insts[o.Entity].Snapshot()
		if errors.Is(err, instance.ErrPartlyRead) {
			return nil
		}
		if err != nil {
			k.t.Fatalf("entitytest: snapshot of %s: %v", o.Entity, err)
		}
		s := k.journal(o.Entity)
		s.snapSeq, s.form, s.snap = o.Seq, form, b
		for s.cut < o.Cut {
			s.records[s.cut].Events = nil
			s.cut++
		}
	case turn.Stop:
		in := k.stopped(o)
		k.checkOne(o.Entity)
		delete(k.insts, o.Entity)
		return in
	case turn.Drop:
		delete(k.insts, o.Entity)
	case *turn.UnwatchedDone:
		if o.Timer {
			k.timerDone(o)
		}
	case *turn.Answer:
		if number, ok := k.deliveries[o.Request]; ok {
			delete(k.deliveries, o.Request)
			k.sendAnswered(number, o.Reply)
			break
		}
		return k.answered(o)
	}
	return nil
}

func (k *Kit) append(o turn.Append) turn.Input {
	s := k.journal(o.Append.Entity)
	verdict := sharding.Durable
	for _, r := range o.Append.Records {
		if r.Command != "" && s.find(r.Command) != nil {
			verdict = sharding.RefusedCommand
		}
	}
	if !s.stands(o.Append.Fired) || !s.mayDeliver(o.Append.Delivered) {
		verdict = sharding.RefusedWake
	}
	var crash Crash
	if k.crashOf == (sharding.Entity{}) || k.crashOf == o.Append.Entity {
		crash = k.crash
		k.crash, k.crashed = 0, crash != 0
	}
	if verdict == sharding.Durable && crash != BeforeCommit {
		s.records = append(s.records, o.Append.Records...)
		s.change(&o.Append)
		s.changeSends(&o.Append, k.now)
	}
	var seq uint64
	if len(o.Append.Records) > 0 {
		seq = o.Append.Records[0].Seq
	}
	return turn.Appended{Incarnation: o.Incarnation, Seq: seq, Verdict: verdict, At: k.now}
}

func (s *stored) find(id sharding.CommandID) *sharding.Record {
	for i := range s.records {
		if s.records[i].Command == id {
			return &s.records[i]
		}
	}
	return nil
}

func (k *Kit) load(o turn.Load) turn.Input {
	out := turn.Loaded{Entity: o.Entity, Incarnation: o.Incarnation, Stored: map[sharding.CommandID]sharding.Stored{}}
	s := k.journal(o.Entity)
	for _, id := range o.Lookup {
		if r := s.find(id); r != nil {
			out.Stored[id] = sharding.Stored{Hash: r.Hash, Reply: r.Reply}
		}
	}
	inst, replayed, err := k.revive(o, &out)
	if err != nil {
		out.Err, out.Code = notAlive+err.Error(), sharding.Internal
		if errors.Is(err, instance.ErrStored) {
			out.Code = sharding.DataLoss
		}
		return out
	}
	if inst != nil {
		k.insts[o.Entity] = inst
	}
	out.Reminders = len(s.reminders)
	if s.remembered != nil {
		out.RememberedActivity = -s.remembered.Due
	}
	out.Trimmed = s.trimmed()
	out.LastSeq, out.Life, out.Pending = uint64(len(s.records)), s.life, s.pending()
	out.Fresh = s.snapSeq == 0 && !slices.ContainsFunc(replayed, func(r sharding.Record) bool { return r.Content() })
	for i := range replayed {
		out.Events += max(1, len(replayed[i].Events))
		out.Bytes += replayed[i].ReplaySize()
	}
	return out
}

const notAlive = "the entity cannot be brought to life: "

// revive makes the instance that a load asks for, and returns the records used; no instance for a
// load without one.
func (k *Kit) revive(o turn.Load, out *turn.Loaded) (inst *instance.Instance, replayed []sharding.Record, err error) {
	switch s := k.journal(o.Entity); {
	case o.Bare:
		return nil, s.records[s.life:], nil
	case o.Kept != nil:
		inst, err = k.resume(o)
	default:
		inst, replayed, err = k.replay(o.Entity, true)
	}
	if err == nil {
		out.Timers, err = inst.Start(context.Background(), k.now)
	}
	return inst, replayed, err
}

// trimmed reports whether events of the life that lasts are gone.
func (s *stored) trimmed() bool { return s.cut > s.life }

// replay rebuilds an entity from its stored snapshot and events, and returns the records
// used.
func (k *Kit) replay(ent sharding.Entity, snapshot bool) (*instance.Instance, []sharding.Record, error) {
	inst, err := instance.New(k.types[ent.Type], ent.ID)
	if err != nil {
		return nil, nil, err
	}
	s := k.journal(ent)
	from := s.life
	if snapshot && s.snapSeq > 0 && instance.ReadsSnapshot(k.types[ent.Type], s.form) {
		if err := inst.Restore(s.form, s.snap); err != nil {
			return nil, nil, err
		}
		from = s.snapSeq
	}
	if from < s.cut {
		return nil, nil, fmt.Errorf("%w: the snapshot has another form, and the events before it are gone (KeepEvents); give SnapshotV a step that reads it", instance.ErrStored)
	}
	for _, r := range s.records[from:] {
		err = errors.Join(err, inst.Replay(r.Events))
	}
	return inst, s.records[from:], err
}

// checkReplay compares every live entity with its replay.
func (k *Kit) checkReplay() {
	k.t.Helper()
	for ent := range k.insts { // order-free: reports only
		k.checkOne(ent)
	}
}

// checkOne compares a live entity with its replay from all events, and with that from its snapshot. The live state may
// have more in memory: only its stored part is compared. Reducers alone have made the two replays: they are compared as
// a whole, so that a snapshot does not lack what a reducer keeps in a field that is not exported.
func (k *Kit) checkOne(ent sharding.Entity) {
	k.t.Helper()
	d := k.descs[ent.Type]
	if d.Desc.Volatile {
		return
	}
	live, trimmed := k.insts[ent], k.journal(ent).trimmed()
	var whole *instance.Instance
	for _, snapshot := range []bool{false, true} {
		if !snapshot && trimmed {
			continue
		}
		inst, _, err := k.replay(ent, snapshot)
		if err != nil {
			k.t.Errorf("entitytest: replay of %s: %v", ent, err)
			return
		}
		if !sameStored(inst.State(), live.State()) {
			k.t.Errorf("entitytest: replay of %s (with snapshot: %t) differs from live: state changes only in reducers\n  live %+v\nreplay %+v",
				ent, snapshot, live.State(), inst.State())
			return
		}
		if snapshot && whole != nil && !reflect.DeepEqual(inst.State(), whole.State()) {
			k.t.Errorf("entitytest: replay of %s from its snapshot lacks what reducers have set in fields that are not exported\n  events %+v\nsnapshot %+v", ent, whole.State(), inst.State())
			return
		}
		whole = inst
		if snapshot && d.SnapshotEvery > 0 {
			if _, _, err := live.Snapshot(); err != nil && !errors.Is(err, instance.ErrPartlyRead) {
				k.t.Errorf("entitytest: %v", err)
				return
			}
		}
	}
}

// sameStored reports whether two states, pointers of one type, have the same stored part: their exported fields, or
// the result of Snapshot. A state that has neither is compared as a whole.
func sameStored(a, b any) bool {
	if x, ok := a.(entity.Snapshotter); ok {
		one, err := x.Snapshot()
		other, otherErr := b.(entity.Snapshotter).Snapshot()
		return err == nil && otherErr == nil && bytes.Equal(one, other) || reflect.DeepEqual(a, b)
	}
	x, y := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	if x.Kind() != reflect.Struct {
		return reflect.DeepEqual(a, b)
	}
	compared := false
	for i := range x.NumField() {
		if f := x.Type().Field(i); !f.IsExported() && !f.Anonymous {
			continue
		} else if f.IsExported() && !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			return false
		} else if !f.IsExported() { // an embedded struct, whose exported fields are stored
			return reflect.DeepEqual(a, b)
		}
		compared = true
	}
	return compared || reflect.DeepEqual(a, b)
}
