package wire_test

import (
	"reflect"
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/wire"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
)

func TestRoundTrip(t *testing.T) {
	n := sharding.NodeID{Addr: "127.0.0.1:25520", UID: 1<<63 + 7}
	if got := wire.FromNode(wire.ToNode(n)); got != n {
		t.Errorf("node: %v", got)
	}
	shard, epoch := sharding.ShardID{Type: "T", Index: 9}, sharding.MakeEpoch(1<<31, 1<<31)
	if s, e := wire.FromShardEpoch(wire.ToShardEpoch(shard, epoch)); s != shard || e != epoch {
		t.Errorf("shard at an epoch: %v %v", s, e)
	}
	d := sharding.TableDelta{
		Version: sharding.Version{Term: 3, N: 1 << 40}, Full: true,
		Rows: []sharding.Row{
			{Shard: shard, Owner: n, Epoch: epoch, Phase: sharding.Serving},
			{Shard: shard, Epoch: epoch + 1, Phase: sharding.Starting}, // nobody's yet
		},
		Types: []sharding.TypeDesc{{Type: "T", Shards: 16, Volatile: true, Commands: []sharding.CommandDesc{
			{Name: "Add"}, {Name: "Get", ReadOnly: true}, {Name: "Peek", ReadOnly: true, Stale: true},
		}}},
	}
	if got := wire.FromDelta(wire.ToDelta(d)); !reflect.DeepEqual(got, d) {
		t.Errorf("delta: %+v", got)
	}
}

// TestPhasesFromOutside: a phase that is none must not become one by wrapping.
func TestPhasesFromOutside(t *testing.T) {
	for p, want := range map[coordinatorv1.Phase]sharding.Phase{
		2: sharding.Serving, 3: sharding.HandingOff, 4: 0, 257: 0, -254: 0,
	} {
		if got := wire.FromRow(&coordinatorv1.Row{Phase: p}).Phase; got != want {
			t.Errorf("phase %d is read as %v", p, got)
		}
	}
}
