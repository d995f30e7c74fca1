package console

import (
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/diagnosis"
	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/agent"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// noMembers is an empty membership.
type noMembers struct{}

func (noMembers) Members() gossip.View { return gossip.View{} }
func (noMembers) Losses() []agent.Loss { return nil }

// TestExaminePlacement: what the coordinator knows of shards and of the rollout is judged too.
func TestExaminePlacement(t *testing.T) {
	ev := &diagnosis.Cluster{}
	v := &coordinator.View{
		Unreadable:  []coordinator.UnreadableShards{{Type: "T", Shards: []uint32{1, 2}, Closest: "r9", Version: "v1"}},
		HomelessAll: 7, Homeless: []coordinator.Homeless{{Shard: sharding.ShardID{Type: "T", Index: 5}, For: time.Hour}},
		Rollout: coordinator.RolloutView{On: true, Target: "v2", Still: 2 * time.Hour},
	}
	New(Config{Members: noMembers{}}).addPlacement(ev, v)
	said := map[string]string{}
	for _, a := range diagnosis.Examine(ev) {
		said[a.Name] = a.Text
	}
	for name, want := range map[string]string{"shard-unreadable": "2 shards of T", "shard-without-region": "7 shards are without a region, T/5 for", "rollout-unfinished": "v2"} { // order-free
		if !strings.Contains(said[name], want) {
			t.Errorf("%s: %q", name, said[name])
		}
	}
	if len(ev.Lost) != 0 {
		t.Errorf("lost are %v", ev.Lost)
	}
}

func TestClockOffset(t *testing.T) {
	from := time.UnixMilli(1_000_000)
	to := from.Add(30 * time.Millisecond)
	for _, c := range []struct{ read, want time.Duration }{
		{-2 * time.Second, -2 * time.Second}, {-time.Millisecond, 0}, {0, 0}, {30 * time.Millisecond, 0}, {40 * time.Millisecond, 10 * time.Millisecond},
	} {
		if got := clockOffset(from.Add(c.read), from, to); got != c.want {
			t.Errorf("read at %s: %s, want %s", c.read, got, c.want)
		}
	}
}

// TestDescribeOutOfReach: a gateway that cannot be queried is named with the reason, and no other is queried in its place.
func TestDescribeOutOfReach(t *testing.T) {
	a := New(Config{Self: sharding.NodeID{Addr: "10.0.0.1:25521"}, QueryTimeout: time.Second})
	gateway := coordinator.GatewayView{Node: sharding.NodeID{Addr: "10.0.0.2:8080"}, Management: "127.0.0.1:8558"}
	err := a.outOfReach(&gateway)
	if err == nil {
		t.Fatal("a gateway with loopback on another host can be queried")
	}
	ev := a.describeAll(t.Context(), []examined{{role: "gateway", name: "10.0.0.2:8080", outOfReach: err}})
	if len(ev.Processes) != 0 || len(ev.Silent) != 1 || !strings.Contains(ev.Silent[0].Reason, "only its own host reaches") {
		t.Errorf("%+v", ev)
	}
}
