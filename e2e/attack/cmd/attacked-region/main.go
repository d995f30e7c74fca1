// Command attacked-region is a region for attacks: its counter can be made to fail, to panic and to take time.
//
// # What this does not do
//
// It is not an example: such entities are useless.
package main

import (
	"errors"
	"time"

	_ "github.com/roost-cluster/roost/libs/backends/all"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region/server"
)

// Counter counts.
type Counter struct{ N int64 }

// Added is the event of a counter.
type Added struct {
	Delta int64 `json:"delta"`
}

// Add adds to the counter.
func (c *Counter) Add(ctx *entity.Ctx, in Added) (int64, error) {
	ctx.Persist(in)
	return c.N, nil
}

// Get reads the counter.
func (c *Counter) Get(*entity.Ctx, struct{}) (int64, error) { return c.N, nil }

// Text is the input of Fail and Panic.
type Text struct {
	Text string `json:"text"`
}

// Fail fails with an error of its own.
func (c *Counter) Fail(_ *entity.Ctx, in Text) (int64, error) { return 0, errors.New(in.Text) }

// Panic panics.
func (c *Counter) Panic(_ *entity.Ctx, in Text) (int64, error) { panic(in.Text) }

// Rest takes time, and no processor.
func (c *Counter) Rest(ctx *entity.Ctx, _ struct{}) (int64, error) {
	select {
	case <-ctx.Done():
	case <-time.After(5 * time.Millisecond):
	}
	return c.N, nil
}

func main() {
	server.Main(entity.Define("Counter", func(string) *Counter { return &Counter{} },
		entity.On(entity.Command[Added, int64]("Counter", "Add"), (*Counter).Add),
		entity.On(entity.Command[struct{}, int64]("Counter", "Get", entity.ReadOnly()), (*Counter).Get),
		entity.On(entity.Command[Text, int64]("Counter", "Fail"), (*Counter).Fail),
		entity.On(entity.Command[Text, int64]("Counter", "Panic"), (*Counter).Panic),
		entity.On(entity.Command[struct{}, int64]("Counter", "Rest"), (*Counter).Rest),
		entity.Event("Added", func(c *Counter, e Added) { c.N += e.Delta }),
	))
}
