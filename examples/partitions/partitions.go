// Package partitions has meters whose readings come from a log with 12 partitions, such as a topic of Kafka. The key
// of a record is the id of its meter. The shard rule hashes an id as Kafka's Java client hashes a key, so the
// meters whose records are in partition p are the entities of shard p. One consumer of partition p sends
// all its commands to one region, the owner of the shard (roost shard show Meter/p).
//
// # What this does not do
//
// It consumes no log: see [Consume] for the call that a consumer makes for each record.
package partitions

import (
	"context"
	"fmt"

	"github.com/roost-cluster/roost/sdk/entity"
)

// Partitions is the number of partitions of the log, and of shards. Neither can change.
const Partitions = 12

// Commands of a meter.
var (
	Add = entity.Command[Reading, Meter]("Meter", "Add")
	Get = entity.Command[struct{}, Meter]("Meter", "Get", entity.ReadOnly())
)

// Meters is the entity type, for the main of a region.
var Meters = entity.Define("Meter", func(string) *Meter { return &Meter{} },
	entity.On(Add, (*Meter).Add),
	entity.On(Get, (*Meter).Get),
	entity.Event("added", func(m *Meter, e Reading) { m.WattHours += e.WattHours }),
	entity.With[Meter](entity.Shards(Partitions), entity.ShardBy(entity.Murmur2(entity.ShardRule{}))),
)

// Reading is the value of a record, and the event that stores it.
type Reading struct{ WattHours int64 }

// Meter is the state of a meter.
type Meter struct{ WattHours int64 }

// Add adds a reading.
func (m *Meter) Add(ctx *entity.Ctx, in Reading) (Meter, error) {
	if in.WattHours < 0 {
		return Meter{}, entity.Errorf(entity.InvalidArgument, "a meter does not run backwards")
	}
	ctx.Persist(in)
	return *m, nil
}

// Get returns the sum of all readings.
func (m *Meter) Get(*entity.Ctx, struct{}) (Meter, error) { return *m, nil }

// Consume takes one record of the log. A consumer that has crashed consumes some records again: the idempotency key
// keeps a repeated record from being added twice.
func Consume(ctx context.Context, cluster entity.Caller, partition int, offset int64, key string, value Reading) error {
	_, err := Add.Call(ctx, cluster, key, value, entity.Key(fmt.Sprintf("readings-%d-%d", partition, offset)))
	return err
}
