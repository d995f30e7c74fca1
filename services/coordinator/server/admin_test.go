package server

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// TestFindRegion: what an operator does to a region is done to the one that was meant.
func TestFindRegion(t *testing.T) {
	regions := []coordinator.RegionView{
		{Name: "a", Node: sharding.NodeID{Addr: "h:1", UID: 1}},
		{Name: "b", Node: sharding.NodeID{Addr: "h:2", UID: 2}},
		{Name: "b", Node: sharding.NodeID{Addr: "h:3", UID: 3}},
	}
	for name, want := range map[string]string{
		"a": "h:1#1", "h:2": "h:2#2", "h:3#3": "h:3#3",
		"b": "choose one of h:2#2, h:3#3", "c": "no region c; see roost members",
	} {
		r, err := findRegion(regions, name)
		if got := r.Node.String(); err == nil && got != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s is %s, %v; want %s", name, got, err, want)
		}
	}
}

// TestUnreadable: shards of which the same is missing are shown together.
func TestUnreadable(t *testing.T) {
	closest := sharding.NodeID{Addr: "h:1", UID: 1}
	form := sharding.Form{Kind: sharding.FormOfEvent, Name: "added", Version: 2, Shape: 7}
	other := form
	other.Version = 3
	shard := func(typ sharding.EntityType, i uint32, closest sharding.NodeID, forms ...sharding.Form) coordinator.UnreadableShard {
		return coordinator.UnreadableShard{Shard: sharding.ShardID{Type: typ, Index: i}, Closest: closest, Forms: forms}
	}
	v := &coordinator.View{
		Regions:    []coordinator.RegionView{{Name: "region-1", Version: "v1", Node: closest}},
		Unreadable: []coordinator.UnreadableShard{shard("A", 1, closest, form), shard("A", 4, closest, form), shard("A", 5, closest, form, other), shard("B", 0, sharding.NodeID{})},
	}
	list := unreadable(v, "")
	if len(list) != 3 || len(list[0].Shards) != 2 || list[0].Region != "region-1" || list[0].Version != "v1" || len(list[1].Forms) != 2 || list[2].Region != "" {
		t.Errorf("%v", list)
	}
	if list[0].Forms[0] != "event added, version 2, shape 0000000000000007" {
		t.Errorf("the form is called %q", list[0].Forms[0])
	}
	if len(unreadable(v, "B")) != 1 {
		t.Error("other types are shown")
	}
}

// TestToRollout: what an operator sees of a rollout.
func TestToRollout(t *testing.T) {
	form := sharding.Form{Kind: sharding.FormOfEvent, Name: "added", Version: 2, Shape: 1}
	region := func(name, version string, uid sharding.NodeUID) coordinator.RegionView {
		return coordinator.RegionView{Name: name, Version: version, Node: sharding.NodeID{Addr: name, UID: uid}, Registered: version != "-"}
	}
	row := func(i uint32, owner coordinator.RegionView, phase sharding.Phase) sharding.Row {
		return sharding.Row{Shard: sharding.ShardID{Type: "T", Index: i}, Owner: owner.Node, Phase: phase}
	}
	old, a, b, stranger := region("old", "1", 1), region("a", "2", 2), region("b", "2", 3), region("stranger", "-", 4)
	v := coordinator.View{
		Regions: []coordinator.RegionView{old, a, b, stranger},
		Rows: []sharding.Row{row(0, old, sharding.HandingOff), row(1, a, sharding.Serving), row(2, b, sharding.Starting), row(3, stranger, sharding.Serving),
			{Shard: sharding.ShardID{Type: "T", Index: 4}, Phase: sharding.Starting, Reason: sharding.Unreadable}},
		Unreadable: []coordinator.UnreadableShard{
			{Shard: sharding.ShardID{Type: "T", Index: 4}, Forms: []sharding.Form{form}, Closest: old.Node}, {Shard: sharding.ShardID{Type: "T", Index: 5}},
		},
		Rollout: coordinator.RolloutView{
			Target: "2", Seen: []string{"1"}, On: true, FrozenFor: time.Minute,
			CannotRead: []coordinator.CannotRead{{Reader: "1", Writer: "2", Type: "T", Forms: []sharding.Form{form}}},
		},
	}
	want := &adminv1.RolloutResponse{
		Target: "2", On: true, FrozenMs: 60_000, Left: 3, Seen: []string{"1"},
		Versions: []*adminv1.RolloutVersion{
			{Version: "2", Target: true, Regions: []string{"a", "b"}, Shards: 2, Moving: 1}, {Version: "1", Regions: []string{"old"}, Shards: 1, Moving: 1},
		},
		CannotRead: []*adminv1.CannotRead{{Reader: "1", Writer: "2", Type: "T", Forms: []string{form.String()}}},
		Blocked: []*adminv1.BlockedShard{
			{Type: "T", Index: 4, Why: "no region reads all that is stored; old does not read " + form.String()},
			{Type: "T", Index: 5, Why: "no region that could be given the shard is here"},
		},
	}
	if got := toRollout(&v); !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}
