// Command pair-region is a region that hosts lists for the history tests, and slips: a second type that is
// stored, so that the two can be in different databases.
//
// # What this does not do
//
// It is not an example.
package main

import (
	"github.com/roost-cluster/roost/e2e/cluster/lists"
	_ "github.com/roost-cluster/roost/libs/backends/all"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region/server"
)

// Slip counts.
type Slip struct{ N int64 }

// Counted is its event.
type Counted struct{}

// Count counts up.
func (s *Slip) Count(ctx *entity.Ctx, _ struct{}) (int64, error) {
	ctx.Persist(Counted{})
	return s.N, nil
}

// Get returns the count.
func (s *Slip) Get(*entity.Ctx, struct{}) (int64, error) { return s.N, nil }

var slips = entity.Define("Slip", func(string) *Slip { return &Slip{} },
	entity.On(entity.Command[struct{}, int64]("Slip", "Count"), (*Slip).Count),
	entity.On(entity.Command[struct{}, int64]("Slip", "Get", entity.ReadOnly()), (*Slip).Get),
	entity.Event("Counted", func(s *Slip, _ Counted) { s.N++ }),
	entity.With[Slip](entity.Shards(16)),
)

func main() {
	server.AppVersion = "1"
	server.Main(append(lists.Types(), slips)...)
}
