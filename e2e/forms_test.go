package e2e_test

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/coordinator"
)

type cart struct{}

type (
	itemAdded     struct{ SKU string }
	itemAddedMore struct {
		SKU  string
		Gift bool
	}
)

// carts is the type with its event as a region registers it.
func carts(t *testing.T, event entity.Declaration[cart]) sharding.TypeDesc {
	t.Helper()
	noop := entity.Command[int, int]("Cart", "Noop")
	return instance.Describe(entity.Define("Cart", func(string) *cart { return &cart{} },
		entity.On(noop, func(*cart, *entity.Ctx, int) (int, error) { return 0, nil }), event, entity.With[cart](entity.Shards(1)))).Desc
}

// TestFormsInARollout: where a shard goes when its region leaves, and the only other one
// runs another version of the entity type.
func TestFormsInARollout(t *testing.T) {
	step := entity.From(1, func(old itemAdded) itemAddedMore { return itemAddedMore{SKU: old.SKU} })
	v1 := carts(t, entity.Event("item-added", func(*cart, itemAdded) {}))
	unversioned := carts(t, entity.Event("item-added", func(*cart, itemAddedMore) {}))
	v2 := carts(t, entity.Event("item-added", func(*cart, itemAddedMore) {}, entity.V(2, step)))
	readable := carts(t, entity.Event("item-added", func(*cart, itemAddedMore) {}, entity.V(2, step), entity.ReadableBy(1)))
	for name, c := range map[string]struct {
		from, to sharding.TypeDesc
		wrote    bool
		moves    bool
	}{
		"a field without a version":                  {v1, unversioned, true, false},
		"the same, back":                             {unversioned, v1, true, false},
		"the same, with nothing stored":              {v1, unversioned, false, true},
		"a version with its step":                    {v1, v2, true, true},
		"back from it":                               {v2, v1, true, false},
		"back from it, with nothing new stored":      {v2, v1, false, true},
		"back from one that older versions may read": {readable, v1, true, true},
		"the same program":                           {v1, v1, true, true},
	} { // order-free
		t.Run(name, func(t *testing.T) {
			m := coordinator.New(coordinator.DefaultConfig())
			now := time.Unix(1_000_000, 0)
			var goesTo sharding.NodeID // who was last asked to host the shard
			do := func(in coordinator.Input) {
				for facts := -1; facts != 0; in = (coordinator.Stored{Facts: facts}) {
					facts = 0
					for _, o := range m.Step(now, in, nil) {
						switch o := o.(type) {
						case coordinator.Persist:
							facts++
						case coordinator.Send:
							if _, ok := o.Msg.(control.HostShard); ok {
								goesTo = o.To
							}
						}
					}
				}
			}
			register := func(n sharding.NodeID, d sharding.TypeDesc) {
				do(coordinator.Member{Node: n, Reachable: true})
				do(coordinator.Received{From: n, Call: 1, Msg: control.Register{Types: []sharding.TypeDesc{d}}})
			}
			a, b := sharding.NodeID{Addr: "a:1", UID: 1}, sharding.NodeID{Addr: "b:1", UID: 2}
			shard := sharding.ShardID{Type: "Cart"}
			do(coordinator.Elected{Term: 1})
			register(a, c.from)
			do(coordinator.Received{Msg: control.GetShardHome{Shard: shard}})
			epoch := m.View().Rows[0].Epoch
			do(coordinator.Received{From: a, Msg: control.ShardStarted{Shard: shard, Epoch: epoch}})
			register(b, c.to)
			do(coordinator.Received{From: a, Call: 2, Msg: control.GracefulShutdown{}})
			var wrote sharding.FormSet
			if c.wrote {
				wrote = wrote.With(0)
			}
			do(coordinator.Received{From: a, Msg: control.ShardStopped{Shard: shard, Epoch: epoch, Wrote: wrote}})
			switch row := m.View().Rows[0]; {
			case c.moves && goesTo != b:
				t.Errorf("it does not move: %+v", row)
			case !c.moves && (!row.Owner.IsZero() || row.Reason != sharding.Unreadable || len(m.View().Unreadable) != 1):
				t.Errorf("it goes to a region that does not read it: %+v", row)
			}
		})
	}
}
