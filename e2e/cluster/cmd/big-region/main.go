// Command big-region is a region whose entities take much memory and little disk, for the
// test of a working set that is larger than the memory.
//
// # What this does not do
//
// It is not an example: no entity should be mostly padding.
package main

import (
	_ "github.com/roost-cluster/roost/libs/backends/all"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region/server"
)

// padding is the memory that an entity takes besides its count.
const padding = 64 << 10

// Big is a counter that takes much memory.
type Big struct {
	N       int64
	padding []byte
}

// Added is the event of a Big.
type Added struct{}

// Count is the reply of all commands.
type Count struct {
	N int64 `json:"n"`
}

// Add counts one more.
func (b *Big) Add(ctx *entity.Ctx, _ struct{}) (Count, error) {
	ctx.Persist(Added{})
	return Count{b.N}, nil
}

// Get returns the count.
func (b *Big) Get(*entity.Ctx, struct{}) (Count, error) { return Count{b.N}, nil }

func newBig(string) *Big {
	b := &Big{padding: make([]byte, padding)}
	for i := range b.padding {
		b.padding[i] = 1 // every page is used
	}
	return b
}

func main() {
	server.Main(entity.Define("Big", newBig,
		entity.On(entity.Command[struct{}, Count]("Big", "Add"), (*Big).Add),
		entity.On(entity.Command[struct{}, Count]("Big", "Get", entity.ReadOnly()), (*Big).Get),
		entity.Event("Added", func(b *Big, _ Added) { b.N++ }),
		entity.With[Big](entity.Shards(64)),
	))
}
