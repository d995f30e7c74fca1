package region

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/pace"
)

// NewRest returns the schedule of a region's [Tick]s. The cores are at rest after nothing has happened for 60
// ms: that is longer than a turn counts as a possible cause of a crash after its end, and ticks note that the
// process lives. Then ticks come every 200 ms, with the heartbeats of the process as a member.
func NewRest() pace.Rest {
	return pace.Rest{Every: 200 * time.Millisecond, After: 60 * time.Millisecond}
}

// Stirs reports whether something happens: whether an input of the control core, or one of its outputs, is not
// a part of the routine of a region at rest, which watches the table, measures its load and asks its journal
// whether it answers. In a shard core, every input but a [Tick] is something.
func Stirs(in ControlInput, out []ControlOutput) bool {
	switch in := in.(type) {
	case Tick, NodeMeasured, JournalTested:
	case Replied:
		if _, watch := in.Asked.(control.WatchTable); !watch {
			return true
		}
	default:
		return true
	}
	return slices.ContainsFunc(out, func(o ControlOutput) bool {
		switch o := o.(type) {
		case TestJournal:
			return false
		case Send:
			_, watch := o.Msg.(control.WatchTable)
			return !watch
		}
		return true
	})
}
