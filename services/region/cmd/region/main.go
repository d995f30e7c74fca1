// Command region is a region that hosts a counter: the entity to try a cluster
// with. Your own region binary is a main like this one with your types.
package main

import (
	_ "github.com/roost-cluster/roost/libs/backends/all"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region/server"
)

// Counter counts.
type Counter struct{ N int64 }

// Added is the event of a counter.
type Added struct{ Delta int64 }

// AddRequest is the input of Add.
type AddRequest struct {
	Delta int64 `json:"delta"`
}

// Value is the reply of Add and Get.
type Value struct {
	Value int64 `json:"value"`
}

// Add adds to the counter.
func (c *Counter) Add(ctx *entity.Ctx, in AddRequest) (Value, error) {
	if in.Delta == 0 {
		return Value{}, entity.Errorf(entity.InvalidArgument, "delta must not be 0")
	}
	ctx.Persist(Added(in))
	return Value{c.N}, nil
}

// Get reads the counter.
func (c *Counter) Get(*entity.Ctx, struct{}) (Value, error) { return Value{c.N}, nil }

var (
	add = entity.Command[AddRequest, Value]("Counter", "Add")
	get = entity.Command[struct{}, Value]("Counter", "Get", entity.ReadOnly())

	counters = entity.Define("Counter", func(string) *Counter { return &Counter{} },
		entity.On(add, (*Counter).Add),
		entity.On(get, (*Counter).Get),
		entity.Event("added", func(c *Counter, e Added) { c.N += e.Delta }), // alone changes state, live and in replay
		entity.With[Counter](entity.SnapshotEvery(100)),
	)
)

func main() { server.Main(counters) }
