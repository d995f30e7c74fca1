package entitytest

import (
	"cmp"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// FailingTimer is a command of an entity's timers (Handle.After, Handle.Every) that has failed. A
// failed one of After is not run again, and one of Every runs at its next time.
type FailingTimer struct {
	Command string
	// Failures is the number of its failures in a row, and Error is the last error.
	Failures int
	Error    string
}

// FailingTimers returns what the timers of the entity have run without success, by command. A
// command that has succeeded since then is not in it. [Kit.Restart] forgets them.
func (e Entity) FailingTimers() []FailingTimer {
	return slices.SortedFunc(slices.Values(e.kit.timers[e.addr]), func(a, b FailingTimer) int { return cmp.Compare(a.Command, b.Command) })
}

// timerDone takes in how the command of a timer has ended.
func (k *Kit) timerDone(o *turn.UnwatchedDone) {
	list := slices.DeleteFunc(k.timers[o.Entity], func(f FailingTimer) bool {
		return f.Command == o.Command && o.Reply.Outcome == sharding.Executed && o.Reply.Code == ""
	})
	if o.Reply.Outcome != sharding.Executed || o.Reply.Code != "" {
		i := slices.IndexFunc(list, func(f FailingTimer) bool { return f.Command == o.Command })
		if i < 0 {
			i, list = len(list), append(list, FailingTimer{Command: o.Command})
		}
		list[i].Failures++
		list[i].Error = string(o.Reply.Code) + ": " + o.Reply.Message
	}
	k.timers[o.Entity] = list
}
