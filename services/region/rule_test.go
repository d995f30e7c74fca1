package region_test

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/region"
)

// TestShardRule: a region finds the shard of a command by the rule of the type. Ids with the same
// part are in the shard that it serves; others are refused, at whatever epoch they come.
func TestShardRule(t *testing.T) {
	c := cfg(1, 4)
	desc := &c.Turn.Types[0].Desc
	desc.Rule = sharding.ShardRule{Separator: "/"}
	core := region.NewShardCore(c, 0)
	now, epoch := time.Unix(1, 0), sharding.MakeEpoch(1, 1)
	step := func(in region.ShardInput) (out region.Outputs) {
		core.Step(now, in, &out)
		return out
	}
	shard := desc.ShardOf("a")
	step(region.Host{Shard: shard, Epoch: epoch})
	step(region.Claimed{Shard: shard, Epoch: epoch, Verdict: sharding.Durable})
	for n, id := range []sharding.EntityID{"a/1", "a/2", "a", "c/a"} {
		want := desc.ShardOf(id) == shard
		if !want != (id == "c/a") {
			t.Fatalf("%s is in %v", id, desc.ShardOf(id))
		}
		out := step(region.Command{Request: turn.RequestID(n + 1), Epoch: epoch, Env: &sharding.Envelope{Entity: sharding.Entity{Type: "T", ID: id}, Command: "Get", ID: "k"}})
		refused := false
		for _, o := range out.Shard {
			_, is := o.(region.NotMine)
			refused = refused || is
		}
		if refused == want {
			t.Errorf("%s: refused %t: %+v", id, refused, out)
		}
	}
}

// TestUnknownInput: an input of the control core, or one of a part that the driver never has, is a mistake of the driver.
func TestUnknownInput(t *testing.T) {
	for _, in := range []region.ShardInput{region.FeedRouter{}, outbox.Tick{}, nil} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%T is taken", in)
				}
			}()
			region.NewShardCore(cfg(1, 4), 0).Step(time.Unix(1, 0), in, &region.Outputs{})
		}()
	}
}
