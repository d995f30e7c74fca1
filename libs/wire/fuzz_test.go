package wire_test

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/archtest"
	"github.com/roost-cluster/roost/libs/bounded"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/wire"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
)

// strict are the limits of every answer, but for the slack, which is what the
// house allows less 16 KiB for everything else.
var strict = bounded.Limits{Body: 1 << 20, Slack: archtest.MemoryBase - 16<<10}

// read reads a delta as it comes over the network.
func read(raw []byte) (sharding.TableDelta, error) {
	var w coordinatorv1.WatchTableResponse
	if err := strict.Check(raw, w.ProtoReflect().Descriptor()); err != nil {
		return sharding.TableDelta{}, err
	}
	if err := proto.Unmarshal(raw, &w); err != nil {
		return sharding.TableDelta{}, err
	}
	return wire.FromDelta(&w), nil
}

// FuzzDelta: no bytes panic, and whatever is accepted survives the way back.
func FuzzDelta(f *testing.F) {
	row := sharding.Row{
		Shard: sharding.ShardID{Type: "T", Index: 9}, Owner: sharding.NodeID{Addr: "127.0.0.1:25520", UID: 1<<63 + 7},
		Epoch: sharding.MakeEpoch(1<<31, 1<<31), Phase: sharding.Serving,
	}
	for _, d := range []sharding.TableDelta{
		{},
		{Version: sharding.Version{Term: 3, N: 1 << 40}, Full: true, Rows: []sharding.Row{row, {Shard: row.Shard, Phase: sharding.Starting}}},
		{Types: []sharding.TypeDesc{{Type: "T", Shards: 16, Volatile: true, Commands: []sharding.CommandDesc{
			{Name: "Add"}, {Name: "Get", ReadOnly: true}, {Name: "Peek", ReadOnly: true, Stale: true},
		}}}},
		{Rows: make([]sharding.Row, 3000)},
		{Types: make([]sharding.TypeDesc, 3000)},
	} {
		raw, err := proto.Marshal(wire.ToDelta(d))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		archtest.Memory(t, archtest.MemoryFactor, len(raw), func() { _, _ = read(raw) })
		d, err := read(raw)
		if err != nil {
			return
		}
		back, err := proto.Marshal(wire.ToDelta(d))
		if err != nil {
			t.Fatalf("%+v cannot be written: %v", d, err)
		}
		if again, err := read(back); err != nil || !reflect.DeepEqual(again, d) {
			t.Errorf("%+v comes back as %+v, error %v", d, again, err)
		}
	})
}
