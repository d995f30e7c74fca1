package coordinator_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/services/coordinator"
)

// TestStirs: what a coordinator at rest does does not make ticks come often; anything else does.
func TestStirs(t *testing.T) {
	watch := coordinator.Received{Call: 1, Msg: control.WatchTable{}}
	for _, c := range []struct {
		in   coordinator.Input
		out  []coordinator.Output
		want bool
	}{
		{coordinator.Tick{}, nil, false},
		{coordinator.Tick{}, []coordinator.Output{coordinator.Reply{}, coordinator.WriteJournalHeartbeat{}}, false},
		{coordinator.Tick{}, []coordinator.Output{coordinator.Reply{}, coordinator.Send{}}, true},
		{watch, nil, false},
		{watch, []coordinator.Output{coordinator.Reply{}}, false},
		{watch, []coordinator.Output{coordinator.Persist{}}, true},
		{coordinator.Received{Msg: control.ShardStopped{}}, nil, true},
		{coordinator.Renewed{}, nil, false},
		{coordinator.Lost{}, nil, true},
	} {
		if got := coordinator.Stirs(c.in, c.out); got != c.want {
			t.Errorf("%+v puts %+v out: something happens: %v", c.in, c.out, got)
		}
	}
}
