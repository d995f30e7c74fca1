package explore

import (
	"slices"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

func coordIn(e *engine, s *state, i int) *coord {
	return e.parts[coordPart+i][s.parts[coordPart+i]].(*coord)
}

func hostIn(e *engine, s *state, id sharding.NodeID) *host {
	i := hostPart + indexOf(id)
	return e.parts[i][s.parts[i]].(*host)
}

func storeIn(e *engine, s *state) *store { return e.parts[storePart][s.parts[storePart]].(*store) }

// gone: a message to a region incarnation that is no more.
func gone(id sharding.NodeID) func(*engine, *state) bool {
	return func(e *engine, s *state) bool { return hostIn(e, s, id).id != id }
}

// asleep: a message to a coordinator that is not active is lost.
func asleep(e *engine, s *state, i int) bool { return !coordIn(e, s, i).live }

// past reports whether the row of the shard has gone on beyond what a message is
// about, in the facts and in the table of the coordinator. Rows only go forward,
// and the next term folds the facts: so it stays.
func past(e *engine, s *state, i int, row sharding.Row) bool {
	facts := storeIn(e, s).facts
	return facts[len(facts)-1].Newer(row) && coordIn(e, s, i).row.Newer(row)
}

// pastForAll reports the same for every process that may answer the message.
func pastForAll(e *engine, s *state, row sharding.Row) bool {
	for i := range 2 {
		if !asleep(e, s, i) && !past(e, s, i, row) {
			return false
		}
	}
	facts := storeIn(e, s).facts
	return facts[len(facts)-1].Newer(row)
}

// after is the last row at an epoch.
func after(e sharding.Epoch) sharding.Row {
	return sharding.Row{Epoch: e, Phase: sharding.HandingOff}
}

// unknown: the incarnation is gone, and the coordinator has forgotten it.
func unknown(e *engine, s *state, i int, id sharding.NodeID) bool {
	return hostIn(e, s, id).id != id && !slices.Contains(coordIn(e, s, i).members, id)
}

// refusedForever: a higher epoch is claimed, or the sequence number is taken.
// Neither ever changes.
func refusedForever(op journal.Op) func(*engine, *state) bool {
	return func(e *engine, s *state) bool {
		if e.bound.Whole {
			return false
		}
		st := storeIn(e, s)
		switch {
		case op.Claim != nil: // or done already
			return st.ledger.Fence(op.Claim.Shard).Epoch >= op.Claim.Epoch
		case op.Append != nil && st.ledger.Fence(op.Append.Shard).Epoch > op.Append.Epoch:
			return true
		}
		return op.Append != nil && op.Append.Entity == theEntity && op.Append.Records[0].Seq <= st.last
	}
}

// unheard: the operation is refused forever, and so are its waiters.
func unheard(id sharding.NodeID, op journal.Op) func(*engine, *state) bool {
	refused := refusedForever(op)
	return func(e *engine, s *state) bool { return hostIn(e, s, id).id != id && refused(e, s) }
}
