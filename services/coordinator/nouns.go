package coordinator

import (
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/intent"
	"github.com/roost-cluster/roost/services/coordinator/internal/quarantine"
)

type step struct {
	cfg Config
	now time.Time
	out []Output // of the Step in progress
}

type term struct {
	active bool
	number sharding.Term // the newest term held
	known  Active        // the coordinator that is active, as far as this standby knows
	// cluster is the cluster that the journal belongs to; 0: not known. The journals of the regions must belong to it
	// too.
	cluster sharding.ClusterID
	since   time.Time // start of the term
	// recovered is true if the owners and successors in the facts have registered, or had the time to.
	recovered bool
	awaited   []sharding.NodeID // owners and successors in the facts that have not registered yet, sorted
	// open is true if enough regions have registered to begin allocating.
	open bool
	// counter is the last epoch of this term that was given out.
	counter uint32
}

type ledger struct {
	// Facts are numbered in each term, from 1. lastFact is the number of the newest fact, and stored is the
	// number of the newest fact that is durable; 0: there is none.
	lastFact, stored uint64
	// targetFact is the number of the newest fact about the target version, and wishFact that of the newest fact about
	// anything else that operators want.
	targetFact, wishFact uint64
	// lost is true if facts were lost in this term or in an earlier one, see [LossFact].
	lost    bool
	unknown []UnknownFact // of later releases, oldest first
}

type liveness struct {
	regions        []region  // members, sorted by node
	testedAt       time.Time // when this coordinator last tested its journal
	testUnanswered bool      // that test is not answered
	answeredAt     time.Time // when the journal last answered
}

type table struct {
	types []*typeTable // sorted by type
	// generation is the generation of the journal that has the facts; 0: not known.
	generation sharding.Generation
	allocated  int  // rows that were ever allocated
	untold     bool // row.untold is set in some row
	// expectedShards counts, for all types, the shards that a node has when what is in progress has
	// ended.
	expectedShards map[sharding.NodeID]int
	// loads has the known loads of these shards, summed up by node.
	loads map[sharding.NodeID]sharding.Load
	// version is the term, and the number of changes in it. log has the changes after number base.
	version sharding.Version
	base    uint64
	log     []change
	// whole is the whole table as it was last sent, see method full.
	whole sharding.TableDelta
	watches
}

// rollout
type rollout struct {
	// stepAt is the time when a region last came or went. goneAt is the time when the last region with the target
	// version went; zero: some region has it.
	stepAt, goneAt time.Time
}

type planner struct {
	rebalanced time.Time // when a plan was last due, or came back
	plans      uint64    // the number of the last plan that was asked for, in any term
	planning   bool      // that plan was not answered
	broken     brokenConstraints
}

type review struct {
	due      bool // the rows must be reviewed: the membership has changed, or a region or an operator has sent a request
	short    bool // a review ran out of the budget
	deferred bool // a review left a row alone because its fact is not durable
	// waitingForReports is true if a review has left shards alone because reports are missing.
	waitingForReports bool
	// hostsDue is the time when the next type becomes unhosted, unless a region that hosts it registers; zero: no
	// type will.
	hostsDue time.Time
}

type why struct {
	explanations uint64 // how many explanations were emitted in this term
	weighed      int    // how many regions were weighed for explanations since the last tick, see Config.MaxWeighed
}

type placement struct {
	step
	term    term
	ledger  ledger
	live    liveness
	table   table
	intent  intent.Intent
	rollout rollout
	scratch []allocation.Region
}

type transit struct {
	placement
	why        why
	quarantine quarantine.Quarantine
	budget     budget
	gateways   gateways
	review     review
}
