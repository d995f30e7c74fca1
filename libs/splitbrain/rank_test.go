package splitbrain

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestLeaseRank: the oldest goes first, a minority last, none after nodes that cannot be reached or
// after the last holder, and a node in no cluster is not a candidate.
func TestLeaseRank(t *testing.T) {
	id := func(i int) sharding.NodeID {
		return sharding.NodeID{Addr: string(rune('a'+i)) + ":1", UID: sharding.NodeUID(i + 1)}
	}
	view := func(unreachable ...bool) gossip.View {
		v := gossip.View{Self: id(0), InCluster: true}
		for i, gone := range unreachable {
			m := gossip.Member{Node: id(i), Roles: []string{"seer"}, Status: gossip.Up, UpNumber: uint32(i + 1)}
			v.Members = append(v.Members, gossip.MemberView{Member: m, Reachable: !gone, ReachableByMe: !gone})
			if gone {
				v.Observations = append(v.Observations, gossip.Observation{Observer: id(0), Subject: id(i)})
			}
		}
		return v
	}
	const delay = 300 * time.Millisecond
	for _, c := range []struct {
		name   string
		view   gossip.View
		self   int
		want   int
		holder int // one more than its number; 0: none
	}{
		{"no cluster", gossip.View{Self: id(0)}, 0, -1, 0},
		{"oldest", view(false, false, false), 0, 0, 0},
		{"second", view(false, false, false), 1, 1, 0},
		{"not up yet", view(false, false), 2, 2, 0},
		{"majority", view(false, false, true), 1, 1, 0},
		{"the oldest is gone", view(true, false, false), 1, 0, 0},
		{"the oldest is gone, and this one is third", view(true, false, false), 2, 1, 0},
		{"the oldest is the last holder", view(false, false, false), 1, 0, 1},
		{"the oldest is the last holder, and this one is third", view(false, false, false), 2, 1, 1},
		{"the last holder itself", view(false, false, false), 1, 1, 2},
		{"a younger one is the last holder", view(false, false, false), 1, 1, 3},
		{"the last holder is gone", view(true, false, false), 1, 0, 1},
		{"minority", view(false, true, true), 0, 7, 0}, // 7 * 300 ms is more than MinorityDelay
	} {
		var holder sharding.NodeID
		if c.holder > 0 {
			holder = id(c.holder - 1)
		}
		if got := LeaseRank(c.view, "seer", id(c.self), holder, delay); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
