package agent

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestLosses: who was declared down and has not come back is listed, with the reason if it is known. Who left, or is
// back under the same name, is not.
func TestLosses(t *testing.T) {
	member := func(name string, uid sharding.NodeUID, s gossip.Status) gossip.Member {
		return gossip.Member{Node: sharding.NodeID{Addr: name + ":1", UID: uid}, Name: name, Status: s}
	}
	a, b := member("a", 1, gossip.Down), member("b", 2, gossip.Down)
	var records []Record
	for i, e := range []gossip.Event{
		gossip.DowningDecided{Down: []sharding.NodeID{a.Node}, Reason: "it is in the smaller part"}, gossip.MemberDowned{Member: a}, gossip.MemberRemoved{Member: a},
		gossip.MemberRemoved{Member: b}, gossip.MemberRemoved{Member: member("left", 3, gossip.Exiting)}, gossip.MemberRemoved{Member: member("back", 4, gossip.Down)},
	} {
		records = append(records, Record{Seq: uint64(i), At: time.Unix(int64(i), 0), Event: e})
	}
	got := losses(records, []gossip.MemberView{{Member: member("back", 5, gossip.Up)}})
	if len(got) != 2 || got[0].Member.Name != "a" || got[0].Reason != "it is in the smaller part" || got[0].At.Unix() != 2 || got[1].Member.Name != "b" || got[1].Reason != "" {
		t.Errorf("lost are %+v", got)
	}
}
