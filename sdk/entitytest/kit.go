// Package entitytest runs entity types in memory, with the entity core that regions
// use, in virtual time: no network, no disk, no waiting.
//
//	kit := entitytest.New(t, Accounts)
//	alice := kit.Entity(Accounts, "alice")
//	alice.Given(Deposited{100})
//	_, err := Withdraw.Call(ctx, kit, "alice", Money{150})
//	// … is FailedPrecondition
//	kit.Advance(time.Minute) // timers fire, idle entities are passivated
//	alice.WantEvents(Deposited{100}, Frozen{})
//
// # Replay
//
// After every test, at every [Kit.Restart], and when an entity is passivated, the live entity is compared with one
// that is rebuilt from its stored events, and from its snapshot: if they differ, the test fails. The stored part of
// the state is compared: the exported fields, or the result of Snapshot ([entity.Snapshotter]). Fields that are not
// exported are memory: a hook or handler may keep a connection or a cache there, which the next instance
// makes again. A state without exported fields and Snapshot is compared as a whole.
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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/instance"
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
	insts   map[sharding.Entity]*instance.Instance
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
	cut     uint64 // the events of records up to this one are gone, see [entity.KeepEvents]
	snapSeq uint64
	form    sharding.SnapshotForm
	snap    []byte
	// reminders are those that stand, by name.
	reminders map[string]journal.WakeEntry
	// remembered is the wake-up of a remembered entity; nil: it has none.
	remembered *journal.WakeEntry
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
		insts: map[sharding.Entity]*instance.Instance{}, store: map[sharding.Entity]*stored{},
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
		d := instance.Describe(def)
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
func (k *Kit) Call(ctx context.Context, c entity.Call) (entity.Reply, error) {
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
func (a as) Call(ctx context.Context, c entity.Call) (entity.Reply, error) {
	k, env := a.kit, sharding.Envelope{
		Principal: a.subject,
		Entity:    address(c.Type, c.ID), Command: c.Command, Keyed: c.Key != "", Tell: c.Tell,
		ID: sharding.CommandID(c.Key), Payload: c.Payload,
	}
	if c.Protobuf {
		env.Encoding = sharding.Protobuf
	}
	reply := k.refuse(&env)
	if err := env.Check(); reply == nil && err != nil {
		reply = new(sharding.Reject(sharding.InvalidArgument, err.Error()))
	}
	if err := ctx.Err(); reply == nil && err != nil {
		reply = new(sharding.Reject(sharding.DeadlineExceeded, "not sent: "+err.Error()))
	}
	if reply == nil {
		reply = new(k.deliver(env))
	}
	if reply.Outcome != sharding.Executed || reply.Code != "" {
		return entity.Reply{}, &entity.Error{Code: entity.Code(reply.Code), Message: reply.Message, Outcome: outcomes[reply.Outcome]}
	}
	return entity.Reply{Payload: reply.Payload, Protobuf: reply.Encoding == sharding.Protobuf}, nil
}

var outcomes = map[sharding.Outcome]entity.Outcome{sharding.Executed: entity.Executed, sharding.NotApplied: entity.NotApplied, sharding.Unknown: entity.Unknown}

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
		return sharding.Doubt(sharding.Unavailable, "the region has crashed")
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

// given stores a record of an entity that is not alive yet, as a turn does.
func (k *Kit) given(ent sharding.Entity, r sharding.Record) {
	k.t.Helper()
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
		s = &stored{reminders: map[string]journal.WakeEntry{}, sends: map[uint64][]sharding.SendState{}, sentAt: map[uint64]time.Time{}, died: map[sendName]string{}}
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
