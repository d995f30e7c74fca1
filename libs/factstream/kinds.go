package factstream

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/sharding"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
)

// RepairedName is the name of the fact [Repaired].
const RepairedName = "repaired"

// MaxRepairs is the number of facts [Repaired] that a repair keeps, the newest ones. A journal should never
// have so many.
const MaxRepairs = 16

// MaxDropped bounds the damaged facts that a fact [Repaired] names. It counts all of them.
const MaxDropped = 32

// Repaired: the facts were repaired.
type Repaired struct {
	By, Reason string
	At         time.Time
	// Record is the number of the last record that was left behind.
	Record uint64
	// All is true if everything that can be made anew was left behind.
	All bool
	// Damaged is the number of damaged records and facts, and Dropped names the first of them.
	Damaged int
	Dropped []string
}

// event returns the fact as it is stored.
func (r Repaired) event() sharding.Event {
	return event(RepairedName, &coordinatorv1.RepairedFact{
		Note: &coordinatorv1.Note{By: r.By, Reason: r.Reason, AtUnixMs: r.At.UnixMilli()}, Record: r.Record, All: r.All,
		Damaged: uint32(r.Damaged), Dropped: r.Dropped,
	})
}

func decodeRepaired(b []byte) (Repaired, error) {
	var f coordinatorv1.RepairedFact
	if err := proto.Unmarshal(b, &f); err != nil {
		return Repaired{}, err
	}
	return Repaired{
		By: f.GetNote().GetBy(), Reason: f.GetNote().GetReason(), At: time.UnixMilli(f.GetNote().GetAtUnixMs()).UTC(),
		Record: f.GetRecord(), All: f.GetAll(), Damaged: int(f.GetDamaged()), Dropped: f.GetDropped(),
	}, nil
}

func event(name string, m proto.Message) sharding.Event {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("a fact cannot be written: %v", err)) // names are checked UTF-8
	}
	return sharding.Event{Name: name, Encoding: sharding.Protobuf, Payload: b}
}

// released is the stored number of coordinator.Released: the entity is neither suspected nor quarantined.
const released = 0

// lossKey is the key of the fact that facts were lost.
const lossKey = "loss"

// asked is a fact that is neither a row nor a type.
type asked struct {
	event sharding.Event
	// key identifies the subject of the fact. Of the facts with one key, the newest counts. "": the fact comes
	// from a later release.
	key   string
	about string           // for people
	ended bool             // it ends what an earlier fact with its key has begun
	shard sharding.ShardID // of a pin or a move
	typ   sharding.EntityType
	epoch sharding.Epoch // of a move
}

// decodeAsked reads a fact that is neither a row nor a type.
func decodeAsked(e sharding.Event) (asked, error) {
	a := asked{event: e}
	read := func(m proto.Message) error { return proto.Unmarshal(e.Payload, m) }
	var err error
	switch e.Name {
	case wire.DrainFactName, wire.ResumeFactName:
		var m coordinatorv1.DrainFact
		err = read(&m)
		region := wire.FromNode(m.GetRegion())
		a.key, a.about, a.ended = fmt.Sprintf("drain %s %d", region.Addr, region.UID), region.Addr, e.Name == wire.ResumeFactName
	case wire.TargetFactName:
		var m coordinatorv1.TargetFact
		err = read(&m)
		a.key, a.about = "target", m.GetVersion()
	case wire.LossFactName:
		a.key = lossKey
	case wire.CordonFactName:
		var m coordinatorv1.CordonFact
		err = read(&m)
		a.key, a.about, a.ended = "cordon "+m.GetRegion(), m.GetRegion(), m.GetLifted()
	case wire.FreezeFactName:
		var m coordinatorv1.FreezeFact
		err = read(&m)
		a.key, a.ended = "freeze", !m.GetFrozen()
	case wire.PinFactName:
		var m coordinatorv1.PinFact
		err = read(&m)
		a.shard = wire.FromShard(m.GetShard())
		a.key, a.about, a.ended = "pin "+a.shard.String(), a.shard.String(), m.GetRegion() == ""
	case wire.MoveFactName:
		var m coordinatorv1.MoveFact
		err = read(&m)
		a.shard, a.epoch = wire.FromShard(m.GetShard()), sharding.Epoch(m.GetEpoch())
		a.key, a.about = "move "+a.shard.String(), a.shard.String()
	case wire.QuarantineFactName:
		var m coordinatorv1.QuarantineFact
		err = read(&m)
		entity := sharding.Entity{Type: sharding.EntityType(m.GetType()), ID: sharding.EntityID(m.GetId())}
		a.key, a.about, a.ended, a.typ = "quarantine "+entity.String(), entity.String(), m.GetState() == released, entity.Type
	}
	if a.shard.Type != "" {
		a.typ = a.shard.Type
	}
	return a, err
}
