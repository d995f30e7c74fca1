package entitytest

import (
	"reflect"
	"time"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
)

// Entity is one entity of a kit: what a test gives it, and sees of it.
type Entity struct {
	kit  *Kit
	addr sharding.Entity
}

// Entity returns an entity of a type. It need not be alive.
func (k *Kit) Entity(of entity.Definition, id string) Entity {
	k.t.Helper()
	e := Entity{k, address(instance.TypeOf(of).Name, id)}
	if k.types[e.addr.Type] == nil {
		k.t.Fatalf("entitytest: no type %s in this kit", e.addr.Type)
	}
	return e
}

// State returns the state of a live entity, nil if it is not alive.
func State[E any](k *Kit, of entity.Type[E], id string) *E {
	k.t.Helper()
	if inst := k.insts[k.Entity(of, id).addr]; inst != nil {
		return inst.State().(*E)
	}
	return nil
}

// Active reports whether the entity is alive.
func (e Entity) Active() bool { return e.kit.insts[e.addr] != nil }

// notAlive fails the test if the entity is alive: then it would not see data that is stored now.
func (e Entity) notAlive(what string) {
	e.kit.t.Helper()
	if e.Active() {
		e.kit.t.Fatalf("entitytest: %s: %s is alive already; give its stored data before the first command", what, e.addr)
	}
}

// Given stores events of an entity that is not alive yet, as if commands had produced
// them.
func (e Entity) Given(events ...any) {
	e.kit.t.Helper()
	inst, err := instance.New(e.kit.types[e.addr.Type], e.addr.ID)
	if err != nil {
		e.kit.t.Fatal(err)
	}
	encoded, err := inst.Encode(events...)
	if err != nil {
		e.kit.t.Fatalf("entitytest: Given: %v", err)
	}
	e.given("Given", encoded...)
}

// GivenStored stores an event of an entity that is not alive yet, in the form in which some
// version of the program stored it: its name, its version and its payload in JSON.
func (e Entity) GivenStored(name string, version int, payload string) {
	e.kit.t.Helper()
	e.given("GivenStored", sharding.Event{Name: name, Version: uint16(version), ReadableBy: uint16(version), Payload: []byte(payload)})
}

func (e Entity) given(what string, events ...sharding.Event) {
	e.kit.t.Helper()
	e.notAlive(what)
	s := e.kit.journal(e.addr)
	s.records = append(s.records, sharding.Record{Seq: uint64(len(s.records) + 1), Events: events})
}

// GivenReminder stores a reminder of an entity that is not alive yet, as some version of the program
// has set it. It fires when its time has come.
func (e Entity) GivenReminder(name string, due time.Time, in StoredInput) {
	e.kit.t.Helper()
	e.notAlive("GivenReminder")
	e.kit.given(e.addr, sharding.Record{Wakes: []sharding.Wake{{Kind: sharding.ReminderWake, Name: name, Due: due.UnixMilli(), Input: in.encode()}}})
}

// GivenSend stores a command that an entity has sent which is not alive yet, as some version of
// the program has sent it. It is delivered at once. replyTo is the command of the sender that takes
// the answer; empty: none does.
func (e Entity) GivenSend(to Entity, in StoredInput, replyTo string) {
	e.kit.t.Helper()
	e.notAlive("GivenSend")
	e.kit.given(e.addr, sharding.Record{Sends: []sharding.Send{{To: to.addr, Input: in.encode(), ReplyTo: replyTo}}})
}

// Events returns the stored events of the entity, in order, only from its present life.
func (e Entity) Events() []any {
	e.kit.t.Helper()
	inst, err := instance.New(e.kit.types[e.addr.Type], e.addr.ID)
	if err != nil {
		e.kit.t.Fatal(err)
	}
	var out []any
	s := e.kit.journal(e.addr)
	for _, r := range s.records[s.life:] {
		events, err := inst.Decode(r.Events)
		if err != nil {
			e.kit.t.Fatal(err)
		}
		out = append(out, events...)
	}
	return out
}

// WantEvents fails the test unless the stored events of the entity are these.
func (e Entity) WantEvents(want ...any) {
	e.kit.t.Helper()
	got := e.Events()
	if len(got) == 0 && len(want) == 0 {
		return
	}
	if !reflect.DeepEqual(got, want) {
		e.kit.t.Errorf("events of %s:\n got %s\nwant %s", e.addr, list(got), list(want))
	}
}

// Delete deletes the entity as an operator does, and reports whether there was anything to
// delete.
func (e Entity) Delete() bool {
	e.kit.t.Helper()
	reply := e.kit.deliver(sharding.Envelope{Entity: e.addr, Command: sharding.DeleteCommand})
	if reply.Outcome != sharding.Executed && reply.Code != sharding.NotFound {
		e.kit.t.Fatalf("entitytest: delete of %s: %s: %s", e.addr, reply.Code, reply.Message)
	}
	return reply.Outcome == sharding.Executed
}
