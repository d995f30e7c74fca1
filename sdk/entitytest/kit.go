// Package entitytest runs entity types in memory, with the entity core that regions
// use, in virtual time: no network, no disk, no waiting.
//
//	k := entitytest.New(t, Accounts)
//	k.Given("Account", "alice", Deposited{100})
//	_, err := Withdraw.Ask(ctx, k, "alice", Money{150})
//	// … is FailedPrecondition
//	k.Advance(time.Minute) // timers fire, idle entities are passivated
//	k.WantEvents("Account", "alice", Deposited{100}, Frozen{})
//
// After every test, and at every [Kit.Restart], each live entity is rebuilt from its
// stored events and compared with the live one: if they differ, the test fails.
//
// # What this does not do
//
// There is one process, which fails only on request ([Kit.Restart], [Kit.CrashAtCommit]). Of moves
// ([Kit.Move]) it shows what entities notice: fences are tested elsewhere. Calls run one after another.
package entitytest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/libs/wakeup"
	"github.com/roost-cluster/roost/sdk/entity"
)

// Kit runs entities. It implements [entity.Caller]. It is not safe for
// concurrent use.
type Kit struct {
	t       testing.TB
	now     time.Time
	m       *turn.Machine
	types   map[sharding.EntityType]entity.Definition
	descs   map[sharding.EntityType]turn.Type
	insts   map[sharding.Entity]*entity.Instance
	store   map[sharding.Entity]*stored
	queue   []turn.Output
	answers map[turn.RequestID]sharding.Reply
	last    turn.RequestID
	// restarts counts restarts and crashes: each gets a new epoch, as a claim would.
	restarts uint32
	wakeups  *wakeup.Keeper
	starter  *wakeup.Starter
	wanted   wakeup.Outputs // of these two, to be done
	crash    Crash          // at the next commit; 0: none
	crashed  bool           // since the last output was performed
	lastFire *turn.Fire
	crashOf  sharding.Entity // whose commit; the zero value: anybody's
	turns    map[turn.Incarnation]*running
	asked    map[turn.RequestID]waiting
	kept     map[sharding.ShardID][]turn.Kept // by a move, until the shard is opened
	// outbox delivers what entities send; deliveries are those without an answer, by request.
	outbox       *outbox.Dispatcher
	sent         outbox.Outputs // of outbox, to be done
	deliveries   map[turn.RequestID]uint64
	lastDelivery *sharding.Envelope
	timers       map[sharding.Entity][]FailingTimer
}

// stored is the journal of one entity.
type stored struct {
	records []sharding.Record
	life    uint64 // the number of the life: see [journal.Loaded]
	cut     uint64 // the events of records up to this one are gone, see [entity.Type.KeepEvents]
	snapSeq uint64
	form    sharding.SnapshotForm
	snap    []byte
	// reminders are those that stand, by name.
	reminders map[string]journal.WakeRow
	// remembered is the wake-up of a remembered entity; nil: it has none.
	remembered *journal.WakeRow
	// sends has the states of each record's sends, sentAt the time at which it was stored.
	sends  map[uint64][]sharding.SendState
	sentAt map[uint64]time.Time
	// died has the reasons why sends have become dead letters.
	died map[sendName]string
}

// New returns a kit for the types. Mistakes in their definitions fail the test.
func New(t testing.TB, types ...entity.Definition) *Kit {
	t.Helper()
	k := &Kit{
		t: t, now: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC),
		types: map[sharding.EntityType]entity.Definition{}, descs: map[sharding.EntityType]turn.Type{},
		insts: map[sharding.Entity]*entity.Instance{}, store: map[sharding.Entity]*stored{},
		answers: map[turn.RequestID]sharding.Reply{},
		turns:   map[turn.Incarnation]*running{}, asked: map[turn.RequestID]waiting{},
	}
	k.begin(types)
	t.Cleanup(k.checkReplay)
	return k
}

// begin starts the execution core with the types that there are, and these.
func (k *Kit) begin(types []entity.Definition) {
	k.t.Helper()
	for _, def := range types {
		d, err := entity.Describe(def)
		if err != nil {
			k.t.Fatal(err)
		}
		k.types[d.Desc.Type], k.descs[d.Desc.Type] = def, d
	}
	descs := slices.SortedFunc(maps.Values(k.descs), func(a, b turn.Type) int { return cmp.Compare(a.Desc.Type, b.Desc.Type) })
	cfg := turn.DefaultConfig(descs...)
	if err := cfg.Validate(); err != nil {
		k.t.Fatal(err)
	}
	k.m, k.wakeups, k.wanted = turn.New(cfg), wakeup.New(wakeupConfig()), wakeup.Outputs{}
	k.starter = wakeup.NewStarter(wakeup.DefaultStartConfig())
	k.timers = map[sharding.Entity][]FailingTimer{}
	k.outbox, k.sent, k.deliveries = outbox.New(outboxConfig()), outbox.Outputs{}, map[turn.RequestID]uint64{}
}

// Now returns the virtual time.
func (k *Kit) Now() time.Time { return k.now }

// Call implements entity.Caller. The commands have no subject; see [Kit.As].
func (k *Kit) Call(ctx context.Context, c entity.Call) (sharding.Reply, error) {
	return as{k, ""}.Call(ctx, c)
}

// As returns a caller that sends commands to the kit with a subject (see [entity.Ctx.Subject]), such as
// "key:billing". Policies of gateways and regions are not part of the kit.
func (k *Kit) As(subject string) entity.Caller { return as{k, subject} }

// as is a caller with a subject.
type as struct {
	kit     *Kit
	subject string
}

// Call implements entity.Caller.
func (a as) Call(ctx context.Context, c entity.Call) (sharding.Reply, error) {
	k, env := a.kit, sharding.Envelope{
		Principal: a.subject,
		Entity:    c.Entity, Command: c.Command, Keyed: c.Key != "", Tell: c.Tell,
		ID: sharding.CommandID(c.Key), Encoding: c.Encoding, Payload: c.Payload,
	}
	if refusal := k.refuse(&env); refusal != nil {
		return *refusal, nil
	}
	if err := env.Check(); err != nil {
		return sharding.Reject(entity.InvalidArgument, err.Error()), nil
	}
	if c.Step != "" {
		return sharding.Reject(entity.InvalidArgument, "a StepKey belongs to the turn of an entity"), nil
	}
	if err := ctx.Err(); err != nil {
		return sharding.Reply{}, err
	}
	return k.deliver(env), nil
}

// deliver has a command run.
func (k *Kit) deliver(env sharding.Envelope) sharding.Reply {
	k.last++
	if env.ID == "" {
		env.ID = sharding.CommandID(fmt.Sprintf("unkeyed:%d", k.last))
	}
	k.open(env.Entity)
	req, restarts := k.last, k.restarts
	k.step(turn.Deliver{Request: req, Shard: k.shardOf(env.Entity), Env: &env})
	reply, ok := k.answers[req]
	if !ok && k.restarts > restarts {
		return sharding.Doubt(entity.Unavailable, "the region has crashed")
	}
	if !ok {
		k.t.Fatalf("entitytest: %s of %s got no answer", env.Command, env.Entity)
	}
	delete(k.answers, req)
	return reply
}

// Advance lets virtual time pass: timers and reminders fire and idle entities are passivated
// at their times.
func (k *Kit) Advance(d time.Duration) {
	end := k.now.Add(d)
	for {
		next := k.m.NextAlarm()
		for _, at := range []time.Time{k.wakeups.NextAlarm(), k.starter.NextAlarm(), k.outbox.NextAlarm()} {
			if next.IsZero() || !at.IsZero() && at.Before(next) {
				next = at
			}
		}
		if next.IsZero() || next.After(end) {
			break
		}
		if next.After(k.now) {
			k.now = next
		}
		k.tick()
	}
	k.now = end
	k.tick()
}

func (k *Kit) tick() {
	k.wakeups.Step(k.now, wakeup.Tick{}, &k.wanted)
	k.starter.Step(k.now, wakeup.Tick{}, &k.wanted)
	k.outbox.Step(k.now, outbox.Tick{}, &k.sent)
	k.step(turn.Tick{})
}

// Given stores events of an entity that is not alive yet, as if commands had produced
// them.
func (k *Kit) Given(typ, id string, events ...any) {
	k.t.Helper()
	ent := address(typ, id)
	if k.insts[ent] != nil {
		k.t.Fatalf("entitytest: Given: %s is alive already; give its events before the first command", ent)
	}
	inst, err := entity.NewInstance(k.types[ent.Type], ent.ID)
	if err != nil {
		k.t.Fatal(err)
	}
	encoded, err := inst.Encode(events...)
	if err != nil {
		k.t.Fatalf("entitytest: Given: %v", err)
	}
	s := k.journal(ent)
	s.records = append(s.records, sharding.Record{Seq: uint64(len(s.records) + 1), Events: encoded})
}

// GivenStored stores an event of an entity that is not alive yet, in the form in which some
// version of the program stored it: its name, its version and its payload in JSON.
func (k *Kit) GivenStored(typ, id, name string, version int, payload string) {
	k.t.Helper()
	ent := address(typ, id)
	if k.insts[ent] != nil {
		k.t.Fatalf("entitytest: GivenStored: %s is alive already; give its events before the first command", ent)
	}
	s := k.journal(ent)
	ev := sharding.Event{Name: name, Version: uint16(version), ReadableBy: uint16(version), Payload: []byte(payload)}
	s.records = append(s.records, sharding.Record{Seq: uint64(len(s.records) + 1), Events: []sharding.Event{ev}})
}

// StoredInput is the input of a command in the form in which some version of the program stored it:
// under a name of the command, with the version of the input and its payload in JSON.
type StoredInput struct {
	Command string
	Version int
	Payload string
}

func (in StoredInput) encode() sharding.Input {
	return sharding.Input{Command: in.Command, Version: uint16(in.Version), ReadableBy: uint16(in.Version), Payload: []byte(in.Payload)}
}

// GivenReminder stores a reminder of an entity that is not alive yet, as some version of the program
// has set it. It fires when its time has come.
func (k *Kit) GivenReminder(typ, id, name string, due time.Time, in StoredInput) {
	k.t.Helper()
	k.given(address(typ, id), sharding.Record{Wakes: []sharding.Wake{{Kind: sharding.ReminderWake, Name: name, Due: due.UnixMilli(), Input: in.encode()}}})
}

// GivenSend stores a command that an entity has sent which is not alive yet, as some version of
// the program has sent it. It is delivered at once. replyTo is the command of the sender that takes
// the answer; empty: none does.
func (k *Kit) GivenSend(typ, id, toType, toID string, in StoredInput, replyTo string) {
	k.t.Helper()
	k.given(address(typ, id), sharding.Record{Sends: []sharding.Send{{To: address(toType, toID), Input: in.encode(), ReplyTo: replyTo}}})
}

// given stores a record of an entity that is not alive yet, as a turn does.
func (k *Kit) given(ent sharding.Entity, r sharding.Record) {
	k.t.Helper()
	if k.insts[ent] != nil {
		k.t.Fatalf("entitytest: %s is alive already; give what is stored of it before the first command", ent)
	}
	s := k.journal(ent)
	k.open(ent)
	shard := k.shardOf(ent)
	r.Seq = uint64(len(s.records) + 1)
	a := sharding.Append{Shard: shard, Epoch: k.m.Epoch(shard), Entity: ent, Records: []sharding.Record{r}}
	s.records = append(s.records, r)
	s.change(&a)
	s.changeSends(&a, k.now)
	k.wakeups.Observe(k.now, turn.WakesChanged{Shard: shard, Epoch: a.Epoch, Entity: ent, Records: a.Records})
	k.wakeups.Step(k.now, wakeup.Tick{}, &k.wanted)
	if len(r.Sends) > 0 {
		k.outbox.Observe(k.now, turn.SendsStored{Shard: shard, Epoch: a.Epoch, Entity: ent, At: k.now, Records: a.Records}, &k.sent)
	}
	k.run()
}

// Events returns the stored events of an entity, in order, only from its present life.
func (k *Kit) Events(typ, id string) []any {
	k.t.Helper()
	ent := address(typ, id)
	inst, err := entity.NewInstance(k.types[ent.Type], ent.ID)
	if err != nil {
		k.t.Fatal(err)
	}
	var out []any
	s := k.journal(ent)
	for _, r := range s.records[s.life:] {
		evs, err := inst.Decode(r.Events)
		if err != nil {
			k.t.Fatal(err)
		}
		out = append(out, evs...)
	}
	return out
}

// WantEvents fails the test unless the stored events of the entity are these.
func (k *Kit) WantEvents(typ, id string, want ...any) {
	k.t.Helper()
	got := k.Events(typ, id)
	if len(got) == 0 && len(want) == 0 {
		return
	}
	if !reflect.DeepEqual(got, want) {
		k.t.Errorf("events of %s/%s:\n got %s\nwant %s", typ, id, list(got), list(want))
	}
}

// Delete deletes an entity as an operator does, and reports whether there was anything to
// delete.
func (k *Kit) Delete(typ, id string) bool {
	k.t.Helper()
	reply := k.deliver(sharding.Envelope{Entity: address(typ, id), Command: sharding.DeleteCommand})
	if reply.Outcome != sharding.OK && reply.Code != sharding.NotFound {
		k.t.Fatalf("entitytest: delete of %s/%s: %s: %s", typ, id, reply.Code, reply.Message)
	}
	return reply.Outcome == sharding.OK
}

// Active reports whether the entity is alive.
func (k *Kit) Active(typ, id string) bool { return k.insts[address(typ, id)] != nil }

// State returns the author's value of a live entity, nil if it is not alive.
func (k *Kit) State(typ, id string) any {
	if inst := k.insts[address(typ, id)]; inst != nil {
		return inst.State()
	}
	return nil
}

// Restart ends all live entities as a crash does, without their stop hooks, after comparing them with their
// replay. The next command activates an entity again from its stored events; those that are remembered are
// alive again at once. The given types replace the types with the same names, as when another version of
// the program is started.
func (k *Kit) Restart(types ...entity.Definition) {
	k.t.Helper()
	k.checkReplay()
	k.step(turn.Tick{})
	k.restart(types)
}

func (k *Kit) restart(types []entity.Definition) {
	k.dropTurns()
	k.begin(types)
	k.restarts++
	k.queue, k.crashed = nil, false
	clear(k.insts)
	k.openShards()
}

func address(typ, id string) sharding.Entity {
	return sharding.Entity{Type: sharding.EntityType(typ), ID: sharding.EntityID(id)}
}

func (k *Kit) journal(ent sharding.Entity) *stored {
	s := k.store[ent]
	if s == nil {
		if k.types[ent.Type] == nil {
			k.t.Fatalf("entitytest: no type %s in this kit", ent.Type)
		}
		s = &stored{reminders: map[string]journal.WakeRow{}, sends: map[uint64][]sharding.SendState{}, sentAt: map[uint64]time.Time{}, died: map[sendName]string{}}
		k.store[ent] = s
	}
	return s
}

func list(events []any) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, " %T%+v", e, e)
	}
	return "[" + strings.TrimSpace(b.String()) + "]"
}
