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
