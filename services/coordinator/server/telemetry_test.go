package server

import (
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// TestShardCounts: each shard counts once, except that a moving one is allocated as well.
func TestShardCounts(t *testing.T) {
	owner, paused, gone := sharding.NodeID{Addr: "r:1", UID: 1}, sharding.NodeID{Addr: "r:2", UID: 2}, sharding.NodeID{Addr: "r:3", UID: 3}
	v := &coordinator.View{
		Recovered: true,
		Regions:   []coordinator.RegionView{{Node: owner, Registered: true, Reachable: true}, {Node: paused, Registered: true}},
		Types:     []sharding.TypeDesc{{Type: "A", Shards: 8}, {Type: "B", Shards: 2}},
		Rows: []sharding.Row{
			{Owner: owner, Phase: sharding.Serving},
			{Owner: owner, Phase: sharding.Starting},
			{Owner: owner, Phase: sharding.HandingOff},
			{Phase: sharding.Starting},
			{Owner: paused, Phase: sharding.Serving},
			{Owner: gone, Phase: sharding.Starting},
			{Phase: sharding.Starting, Reason: sharding.Unreadable},
		},
	}
	if got, want := countShards(v), (shardCounts{allocated: 3, unallocated: 3, unreadable: 1, unused: 3, moving: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	v.Recovered = false // the other two may still register
	if got, want := countShards(v), (shardCounts{allocated: 5, unallocated: 1, unreadable: 1, unused: 3, moving: 3}); got != want {
		t.Errorf("before the end of the recovery: got %+v, want %+v", got, want)
	}
}

// TestRolloutLeft: the remaining shards of a rollout are counted only while one is on.
func TestRolloutLeft(t *testing.T) {
	v := &coordinator.View{
		Regions: []coordinator.RegionView{{Version: "v1"}, {Version: "v1"}, {Version: "v2"}},
		Rollout: coordinator.RolloutView{Target: "v2", On: true, Unread: 7},
	}
	if regions, shards := rolloutLeft(v); regions != 2 || shards != 7 {
		t.Errorf("%d regions and %d shards, want 2 and 7", regions, shards)
	}
	v.Rollout.On = false
	if regions, shards := rolloutLeft(v); regions != 0 || shards != 0 {
		t.Errorf("%d regions and %d shards without a rollout", regions, shards)
	}
}
