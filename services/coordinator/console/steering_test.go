package console

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// TestToSteering: what an operator sees, of one type.
func TestToSteering(t *testing.T) {
	shard := func(typ sharding.EntityType) sharding.ShardID { return sharding.ShardID{Type: typ, Index: 1} }
	v := coordinator.SteeringView{
		Drains:  []coordinator.DrainView{{DrainFact: coordinator.DrainFact{Region: sharding.NodeID{Addr: "h:1", UID: 7}}, Shards: 3}},
		Cordons: []coordinator.CordonView{{CordonFact: coordinator.CordonFact{Region: "r"}, Here: true, Shards: 5, Since: 2}},
		Pins:    []coordinator.PinView{{PinFact: coordinator.PinFact{Shard: shard("A"), Region: "r"}, Name: "s"}, {PinFact: coordinator.PinFact{Shard: shard("B"), Region: "r"}, Owner: sharding.NodeID{Addr: "h:1"}}},
		Moves:   []coordinator.MoveFact{{Shard: shard("A"), Region: "r"}, {Shard: shard("B"), Region: "r"}},
	}
	got := toSteering(v, "B")
	want := &adminv1.SteeringResponse{
		Drains:  []*adminv1.Drain{{Region: "h:1", Node: "h:1#7", Shards: 3}},
		Cordons: []*adminv1.Cordon{{Region: "r", Here: true, Shards: 5, Given: 2}},
		Pins:    []*adminv1.PinnedShard{{Type: "B", Index: 1, Region: "r", Owner: "h:1"}},
		Moves:   []*adminv1.MovingShard{{Type: "B", Index: 1, Region: "r"}},
	}
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if all := toSteering(v, ""); len(all.Pins) != 2 || all.Pins[0].Owner != "s" || len(all.Moves) != 2 || all.Freeze != nil {
		t.Errorf("of all types: %v", all)
	}
}

// TestMemberIsCordoned: the list of members marks cordoned regions.
func TestMemberIsCordoned(t *testing.T) {
	w := coordinator.New(coordinator.DefaultConfig())
	n := sharding.NodeID{Addr: "h:1", UID: 1}
	for _, in := range []coordinator.Input{coordinator.Member{Node: n, Name: "r", Reachable: true}, coordinator.Elected{Term: 1}, coordinator.CordonRegion{Region: "r"}} {
		w.Step(time.Unix(1, 0), in, nil)
	}
	if !slices.ContainsFunc(w.View().Regions, func(r coordinator.RegionView) bool { return r.Cordoned }) {
		t.Error("the view does not say it")
	}
	e, err := w.Preview(coordinator.CordonRegion{Region: "r", By: strings.Repeat("x", 300)})
	if err == nil || !strings.Contains(err.Error(), "by") {
		t.Errorf("a name without end is taken: %v, %v", e, err)
	}
}
