package server

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/services/coordinator"
)

// TestRest: ticks come often until nothing has happened for a while, and then at the moments that all processes share.
func TestRest(t *testing.T) {
	start := time.Unix(1000, 0).Add(70 * time.Millisecond)
	r := rest{stirred: start}
	for _, c := range []struct {
		after, due time.Duration
	}{
		{0, -1},
		{restAfter - time.Millisecond, -1},
		{restAfter, 330 * time.Millisecond},
		{310 * time.Millisecond, 530 * time.Millisecond}, // not so soon again
		{330 * time.Millisecond, 530 * time.Millisecond},
	} {
		r.ticked = start.Add(c.after)
		got := r.due()
		if c.due < 0 && got.After(r.ticked) || c.due >= 0 && !got.Equal(start.Add(c.due)) {
			t.Errorf("a tick %v after the last news: the next one is due after %v, want %v", c.after, got.Sub(start), c.due)
		}
	}
}

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
		if got := stirs(c.in, c.out); got != c.want {
			t.Errorf("%+v puts %+v out: something happens: %v", c.in, c.out, got)
		}
	}
}
