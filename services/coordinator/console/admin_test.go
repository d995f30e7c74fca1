package console

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// TestUnreadable: what an operator sees of shards that no region reads.
func TestUnreadable(t *testing.T) {
	form := sharding.Form{Kind: sharding.FormOfEvent, Name: "added", Version: 2, Shape: 7}
	v := &coordinator.View{Unreadable: []coordinator.UnreadableShards{
		{Type: "A", Shards: []uint32{1, 4}, Forms: []sharding.Form{form}, By: []string{"v2"}, Closest: "region-1", Version: "v1", Looked: true},
		{Type: "B", Shards: []uint32{0}},
	}}
	text := "event added, version 2, shape 0000000000000007"
	want := []*adminv1.Unreadable{
		{Type: "A", Shards: []uint32{1, 4}, Forms: []string{text}, By: []string{"v2"}, Region: "region-1", Version: "v1", Looked: true},
		{Type: "B", Shards: []uint32{0}},
	}
	if got := Unreadable(v.Unreadable, ""); len(got) != 2 || !proto.Equal(got[0], want[0]) || !proto.Equal(got[1], want[1]) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if got := Unreadable(v.Unreadable, "B"); len(got) != 1 || !proto.Equal(got[0], want[1]) {
		t.Errorf("of B: %v", got)
	}
	for i, text := range []string{
		"no region reads all that may be stored of them. region-1 (version v1) does not read " + text + ". Start a region of v2, or of another version that reads it; if the region that had them crashed, roost rollout look finds out which forms it stored",
		"no registered region can read their stored data; start a region of the version that stored it",
	} {
		if got := UnreadableNow(coordinator.UnreadableNow(v.Unreadable[i])); got != text {
			t.Errorf("got  %s\nwant %s", got, text)
		}
	}
	for i, text := range []string{
		"region-1 (version v1) does not read " + text + "; start a region of v2, or of another version that reads it",
		"there is no other region that could be given them; start one",
	} {
		if got := DrainStays(&v.Unreadable[i]); got != text {
			t.Errorf("got  %s\nwant %s", got, text)
		}
	}
	if got, want := readers([]string{"devel", "v2"}, "devel"), "another build of devel or v2, or of another version that reads it"; got != want {
		t.Errorf("two builds of one name: %s", got)
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
		Unreadable: []coordinator.UnreadableShards{{Type: "T", Shards: []uint32{4}, Forms: []sharding.Form{form}, Closest: "old"}},
		Rollout: coordinator.RolloutView{
			Target: "2", Seen: []string{"1"}, On: true, FrozenFor: time.Minute, Next: "3", NextIn: time.Second, Unread: 1,
			CannotRead: []coordinator.CannotRead{{Reader: "1", Writer: "2", Type: "T", Forms: []sharding.Form{form}}},
		},
	}
	want := &adminv1.RolloutResponse{
		Target: "2", On: true, FrozenMs: 60_000, Left: 3, Seen: []string{"1"}, NextTarget: "3", NextTargetMs: 1000, Unread: 1,
		Versions: []*adminv1.RolloutVersion{
			{Version: "2", Target: true, Regions: []string{"a", "b"}, Shards: 2, Moving: 1}, {Version: "1", Regions: []string{"old"}, Shards: 1, Moving: 1},
		},
		CannotRead: []*adminv1.CannotRead{{Reader: "1", Writer: "2", Type: "T", Forms: []string{form.String()}}},
		Unreadable: []*adminv1.Unreadable{{Type: "T", Shards: []uint32{4}, Forms: []string{form.String()}, Region: "old"}},
	}
	if got := toRollout(&v); !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}
