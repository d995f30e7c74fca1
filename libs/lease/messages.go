package lease

import (
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Input is one message to the Holder. The set is closed.
type Input interface{ input() }

// Output is one thing the driver must do, in order. The set is closed.
type Output interface{ output() }

// Inputs.
type (
	// Tick lets time pass. Send one at the time that [Holder.Due] returns: the Holder acts at the next
	// tick.
	Tick struct{}
	// Got answers a Get. Failed: the store could not be read.
	Got struct {
		Request uint64
		Record  Record
		Failed  bool
	}
	// Swapped answers a Swap.
	Swapped struct {
		Request uint64
		Outcome Outcome
	}
	// SetRank sets the rank among the candidates: 0 is first (the oldest member), and with a negative rank
	// this process is not a candidate. It does not affect a lease that is held.
	SetRank struct{ Rank int }
	// RaiseTerm: terms up to Above are spent (an epoch of the journal has it).
	// A term that is held and not above it is raised: Acquired comes again.
	RaiseTerm struct{ Above sharding.Term }
	// Yield gives the lease up, if it is held. This process remains a candidate, behind
	// those with a lower rank. See SetRank.
	Yield struct{}
	// Release gives the lease up permanently, held or not; answered by Released.
	Release struct{}
)

// Outcome is the result of a Swap.
type Outcome uint8

const (
	// Unknown: no answer, or an error. It may have happened, or still happen.
	Unknown Outcome = iota
	// Done: the record is the new one.
	Done
	// Conflict: the stored record was another one.
	Conflict
)

// Outputs to the store. At most one request is in progress; a request that is
// not answered within Config.OpTimeout is given up, and a late answer ignored.
type (
	// Get reads the record; answered by Got.
	Get struct{ Request uint64 }
	// Swap replaces the record if it is Old; answered by Swapped.
	Swap struct {
		Request uint64
		Old     Record
		New     Record
	}
)

// Outputs to the user of the lease.
type (
	// Acquired: this process holds the lease in Term, and may use it before Until. It comes again, with a
	// higher term, after RaiseTerm. Cluster is the cluster that the lease belongs to.
	Acquired struct {
		Term    sharding.Term
		Until   time.Time
		Cluster sharding.ClusterID
	}
	// Renewed: the term held may be used before Until.
	Renewed struct {
		Term  sharding.Term
		Until time.Time
	}
	// Lost: the term must not be used any more; it never comes back.
	Lost struct{ Term sharding.Term }
	// Observed: the record names another holder or term than before. A zero Holder: no process holds the
	// lease. It is news, not proof: the holder may have died.
	Observed struct {
		Holder sharding.NodeID
		Term   sharding.Term
	}
	// Released is the end: nothing comes after it.
	Released struct{}
)

func (Tick) input()      {}
func (Got) input()       {}
func (Swapped) input()   {}
func (SetRank) input()   {}
func (RaiseTerm) input() {}
func (Yield) input()     {}
func (Release) input()   {}

func (Get) output()      {}
func (Swap) output()     {}
func (Acquired) output() {}
func (Renewed) output()  {}
func (Lost) output()     {}
func (Observed) output() {}
func (Released) output() {}
