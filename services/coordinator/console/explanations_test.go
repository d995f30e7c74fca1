package console

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// TestDecisionIsReadBack: everything of an explanation is stored.
func TestDecisionIsReadBack(t *testing.T) {
	d := coordinator.Explanation{
		Term: 3, N: 9, At: time.UnixMilli(1_700_000_000_123), Kind: coordinator.HandedOff, Shard: sharding.ShardID{Type: "T", Index: 4},
		From: "r1", To: "r2", Epoch: sharding.MakeEpoch(3, 7), Cause: sharding.CauseMove, Strategy: "external", Request: "move", By: "ann", Reason: "near",
		Moves: 5, Begun: 4, Chosen: coordinator.Weighed{Region: "r2", Shards: 1, Total: 2}, Unlisted: 6, Unweighed: true,
		Loads: coordinator.WeighedLoads{
			Shard: coordinator.WeighedLoad{Cost: 0.5, Waiting: 0.125}, From: coordinator.WeighedLoad{Cost: 2, Waiting: 0.5, Of: 1.5}, To: coordinator.WeighedLoad{Cost: 0.25, Waiting: 0.0625, Of: 4},
		},
	}
	d.Others[0] = coordinator.Weighed{Region: "r3", Shards: 8, Total: 9, Against: coordinator.AgainstCordon}
	list := DecodeExplanations(nil, [][]byte{EncodeExplanation(&d), {0xff}, EncodeExplanation(&d)}, 10, func(*coordinatorv1.Decision) bool { return true })
	if len(list) != 1 {
		t.Fatalf("%d explanations are read back", len(list))
	}
	got := toDecision(list[0])
	want := &adminv1.Decision{
		Term: 3, N: 9, AtUnixMs: 1_700_000_000_123, Kind: "handed-off", Type: "T", Index: 4, From: "r1", To: "r2", Epoch: "3.7", Cause: "move",
		Strategy: "external", Request: "move", By: "ann", Reason: "near", Moves: 5, Begun: 4, Unlisted: 6, Unweighed: true,
		Chosen: &adminv1.WeighedRegion{Region: "r2", Shards: 1, Total: 2}, Others: []*adminv1.WeighedRegion{{Region: "r3", Shards: 8, Total: 9, Against: "cordon"}},
		Loads: &adminv1.DecisionLoads{
			Shard: 0.5, From: 2, To: 0.25, ShardWaiting: 0.125, FromWaiting: 0.5, ToWaiting: 0.0625, FromProcessors: 1.5, ToProcessors: 4,
		},
	}
	if !proto.Equal(got, want) {
		t.Error(fmt.Sprint(got), want)
	}
}
