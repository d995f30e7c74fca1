package region_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/region"
)

// waitingTurns lets turns of all shards of a region wait for answers, and returns how many may.
func waitingTurns(t testing.TB, cores, limit int) (waiting int) {
	t.Helper()
	const shards = 6
	cfg := region.DefaultConfig(self, "region-1", turn.Type{Desc: sharding.TypeDesc{
		Type: "T", Shards: shards, Volatile: true, Commands: []sharding.CommandDesc{{Name: "Do", ReadOnly: true}},
	}})
	cfg.ShardCores, cfg.Turn.WaitingTurns = cores, limit
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	now, epoch := time.Unix(1, 0), sharding.MakeEpoch(1, 1)
	chain := []sharding.Entity{{Type: "Other", ID: "asks"}} // may use the part that is reserved, too
	for i := range cores {
		core := region.NewShardCore(cfg, i)
		step := func(in region.ShardInput) (out region.Outputs) {
			core.Step(now, in, &out)
			return out
		}
		for n := range 10 * limit {
			id := sharding.Entity{Type: "T", ID: sharding.EntityID(fmt.Sprint(n))}
			shard := sharding.ShardID{Type: "T", Index: shardingtest.ShardOf(id.ID, shards)}
			if cfg.CoreOf(shard) != i {
				continue
			}
			step(region.Host{Shard: shard, Epoch: epoch})
			step(region.Claimed{Shard: shard, Epoch: epoch, Verdict: sharding.Durable})
			out := step(region.Command{Request: turn.RequestID(n + 1), Epoch: epoch, Env: &sharding.Envelope{Entity: id, Command: "Do", ID: "k", Chain: chain}})
			load := out.Turn[len(out.Turn)-1].(turn.Load)
			run := step(turn.Loaded{Entity: id, Incarnation: load.Incarnation}).Turn[0].(*turn.Run)
			out = step(turn.Ask{
				Incarnation: run.Incarnation, Turn: run.Turn, Number: uint64(n), Target: sharding.Entity{Type: "Other", ID: "x"}, Command: "Get", ReadOnly: true,
			})
			switch o := out.Turn[0].(type) {
			case turn.SendAsk:
				waiting++
			case turn.AskDone:
				if o.Reply.Code != sharding.ResourceExhausted {
					t.Fatalf("%+v", o)
				}
			}
		}
	}
	return waiting
}

// TestWaitingTurnsOfARegion: the limit is the region's, however many shard cores it has.
func TestWaitingTurnsOfARegion(t *testing.T) {
	for cores, want := range map[int]int{1: 31, 3: 30, 6: 30} { // order-free: independent cases
		if n := waitingTurns(t, cores, 31); n != want {
			t.Errorf("with %d shard cores %d turns wait, want %d", cores, n, want)
		}
	}
}
