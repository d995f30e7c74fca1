package coordinator

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/pace"
)

// NewRest returns the pace of the [Tick] inputs to the core of a coordinator. It is at rest after nothing has
// happened for 200 ms: as long as it waits until it repeats an order. Then ticks come every 200 ms, with the
// heartbeats of the process as a member.
func NewRest() pace.Rest {
	return pace.Rest{Every: 200 * time.Millisecond, After: 200 * time.Millisecond}
}

// Stirs reports whether something happens: whether the core has an input or an output that a coordinator at rest does
// not have. At rest, a coordinator has its lease renewed, queries its journal, and holds the watches of the table.
func Stirs(in Input, out []Output) bool {
	switch in := in.(type) {
	case Tick, Renewed, Active, CallEnded, JournalHeartbeatWritten, FactsChecked, JournalTested, Planned:
	case Received:
		switch in.Msg.(type) {
		case control.WatchTable, control.ReportLoad:
		default:
			return true
		}
	default:
		return true
	}
	return slices.ContainsFunc(out, func(o Output) bool {
		switch o.(type) {
		case Reply, WriteJournalHeartbeat, CheckFacts, TestJournal, Plan:
			return false
		}
		return true
	})
}
