package server

import (
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// TestToldText: the log says whose command has failed. That of an answer is none of a reminder.
func TestToldText(t *testing.T) {
	wake := func(k sharding.WakeKind) sharding.WakeRef { return sharding.WakeRef{Kind: k, Name: "n"} }
	for _, c := range []struct {
		done       turn.UnwatchedDone
		want, then string
	}{
		{turn.UnwatchedDone{}, "tell", "failed"},
		{turn.UnwatchedDone{Timer: true}, "timer", "failed"},
		{turn.UnwatchedDone{Wakeup: wake(sharding.ReminderWake), Again: true}, "reminder", "again"},
		{turn.UnwatchedDone{Wakeup: wake(sharding.ReminderWake)}, "reminder", "refused"},
		{turn.UnwatchedDone{Wakeup: wake(sharding.SendWake), Again: true}, "answer to a send", "again"},
		{turn.UnwatchedDone{Wakeup: wake(sharding.SendWake)}, "answer to a send", "refused"},
	} {
		if got := unwatchedDoneText(&c.done); !strings.Contains(got, c.want) || !strings.Contains(got, c.then) {
			t.Errorf("%+v: %q", c.done, got)
		}
	}
}
