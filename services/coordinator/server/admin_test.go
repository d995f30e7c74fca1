package server

import (
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
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
