package coordinator

import (
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/budget"
	"github.com/roost-cluster/roost/services/coordinator/internal/fact"
)

// Input is an input of a [Tenure] or a [Machine]. Only this package defines inputs.
type Input interface{ input() }

// Output is an output of a [Tenure] or a [Machine]. The driver performs the outputs in their order. Only this
// package defines outputs.
type Output interface{ output() }

// Inputs to a [Tenure] from the lease. The driver takes them before all other inputs that wait, because the
// end of a term must not wait behind work.
type (
	// Acquired reports that this process has acquired the lease, and may use the term before Until. Cluster is the
	// cluster that the lease belongs to.
	Acquired struct {
		Term    sharding.Term
		Until   time.Time
		Cluster sharding.ClusterID
	}
	// Renewed reports that the term may be used before Until, which is later than before.
	Renewed struct {
		Term  sharding.Term
		Until time.Time
	}
	// Lost reports that the term must not be used any more.
	Lost struct{ Term sharding.Term }
	// Resign reports that the process stops. From now on it uses neither this term nor any other.
	Resign struct{}
)

// Inputs to a [Tenure] from the journal. Fence is the stored epoch that caused the refusal of an operation.
type (
	// Surveyed answers Survey. Highest is the highest epoch in the journal. Heartbeat is the last journal heartbeat;
	// zero: there is none. Damaged is true if not all epochs could be read.
	Surveyed struct {
		Number    uint64
		Highest   sharding.Epoch
		Damaged   bool
		Heartbeat sharding.JournalHeartbeat
		// Generation is the generation of the journal.
		Generation sharding.Generation
	}
	// Claimed answers Claim.
	Claimed struct {
		Number  uint64
		Verdict sharding.Verdict
		Fence   sharding.Epoch
	}
	// Loaded answers Load.
	Loaded struct {
		Number         uint64
		Facts          []Fact // the oldest first
		FactsAfterMark int    // how many of the Facts are in records after the mark
		LastSeq        uint64 // the sequence number of the last record
		// Stored has the first entities of the journal that have records, if LastSeq is 0: at least one that is
		// not Roost's own, if there is one.
		Stored []sharding.Entity
	}
	// ReadFailed answers Survey and Load if the journal could not be read. The Tenure
	// asks again.
	ReadFailed struct{ Number uint64 }
	// Appended answers Append.
	Appended struct {
		Number  uint64
		Verdict sharding.Verdict
		Fence   sharding.Epoch
	}
	// JournalHeartbeatWritten answers WriteJournalHeartbeat.
	JournalHeartbeatWritten struct {
		Number  uint64
		Verdict sharding.Verdict
		Fence   sharding.Epoch
	}
	// FactsChecked answers CheckFacts. LastSeq is the number of the last record of the fact stream; 0: there is
	// none. If it could not be read, there is no answer.
	FactsChecked struct {
		Number  uint64
		LastSeq uint64
	}
	// CheckpointWritten answers WriteCheckpoint.
	CheckpointWritten struct {
		Number  uint64
		Verdict sharding.Verdict
		Fence   sharding.Epoch
	}
)

// Inputs to a [Machine] from the [Tenure] around it.
type (
	// Elected begins a term: this process holds the lease in Term, has claimed the fact stream with Term, and
	// has read Facts from it, the oldest first.
	Elected struct {
		Term  sharding.Term
		Facts []Fact
		// Cluster is the cluster that the journal belongs to, by its last heartbeat; 0: it has no heartbeat with a
		// cluster.
		Cluster sharding.ClusterID
		// Generation is the generation of the journal; 0: it is not compared with the generation of regions'
		// journals.
		Generation sharding.Generation
		// FactsMissing is true if there are no facts although entities have records.
		FactsMissing bool
	}
	// Identified reports that the journal now has a heartbeat which names Cluster. When the term began, it had none.
	Identified struct{ Cluster sharding.ClusterID }
	// Deposed reports that the term is over. From now on the Machine answers every call with NotActive, which names
	// the active coordinator.
	Deposed struct{}
	// Stored reports that the next facts of this term are durable. Facts is their number. They follow the facts that
	// earlier Stored inputs have reported.
	Stored struct{ Facts int }
)

// Inputs from the driver: lease, membership, time.
type (
	// Active tells a standby which coordinator holds the lease; a later Active replaces an earlier one. If
	// none is known, Node is zero.
	Active struct {
		Node sharding.NodeID
		Term sharding.Term
		// Until is the time when another coordinator's lease ends if it is not renewed. It stays when this
		// coordinator acquires the lease. Zero: it is not known.
		Until time.Time
	}
	// Member is the state of a region in the membership. It comes at every change, and for every member before the
	// first Elected.
	Member struct {
		Node sharding.NodeID
		Name string
		// Reachable is true if this node reaches the member: its own failure detector (fast profile) does not suspect
		// the member, and there is no evidence that the process is dead.
		Reachable bool
		// Joining is true if the member is joining or weakly up. It gets no shards yet, because perhaps not all
		// members know it.
		Joining bool
		// Leaving is true if the member is on its way out.
		Leaving bool
	}
	// MemberGone reports that a region was removed from the membership, was declared down, or was replaced by a new
	// incarnation at the same address.
	MemberGone struct{ Node sharding.NodeID }
	// Tick lets time pass; the driver sends one every 50 ms or so.
	Tick struct{}
)

// Inputs from regions and gateways, from the journal and from operators.
type (
	// Received brings a control message from a process. A message with a Call is answered by a Reply.
	Received struct {
		From sharding.NodeID
		Call control.Call
		Msg  control.Message
	}
	// CallEnded reports that the caller no longer waits for the answer to a call.
	CallEnded struct{ Call control.Call }
	// LookAtShards is an operator's request to find out which forms are stored in the shards that no region reads.
	LookAtShards struct{}
	// Ask is a [Request] of an operator who waits. The Number is unique among the Asks of a process. It is answered by
	// Asked, and, if it is not refused, by Done.
	Ask struct {
		Number  uint64
		Request Request
	}
	// AskEnded reports that the operator no longer waits for Done.
	AskEnded struct{ Number uint64 }
	// ShardFenced answers FenceShard.
	ShardFenced struct {
		Shard   sharding.ShardID
		Epoch   sharding.Epoch
		Verdict sharding.Verdict
	}
	// FormsRead answers ReadForms: see [FormsFound].
	FormsRead struct {
		Type   sharding.EntityType
		At     []FormsAt
		Failed bool
	}
	// JournalTested answers TestJournal.
	JournalTested struct{ Verdict sharding.Verdict }
	// Planned answers Plan; see [Plan.Compute].
	Planned struct {
		Number uint64
		Moves  []allocation.Move
	}
)

// Outputs of a [Tenure] to the lease and the journal. The facts are one entity
// stream, owned by one shard; operations carry the epoch (Term, 0).
type (
	// RaiseTerm asks the lease for a term above Above.
	RaiseTerm struct{ Above sharding.Term }
	// YieldLease gives the lease up. This process remains a candidate for it.
	YieldLease struct{}
	// Survey reads two things from the journal: the last journal heartbeat, which names the cluster that owns the
	// journal, and the highest epoch that was claimed. Answered by Surveyed or ReadFailed.
	Survey struct{ Number uint64 }
	// Claim claims the shard of the facts; answered by Claimed.
	Claim struct {
		Number uint64
		Term   sharding.Term
	}
	// Load reads the facts; answered by Loaded or ReadFailed.
	Load struct{ Number uint64 }
	// Append stores facts as one record; answered by Appended. The first NewFacts facts are new. The others
	// belong to a checkpoint, and repeat what is in the table.
	Append struct {
		Number   uint64
		Term     sharding.Term
		Seq      uint64
		Facts    []Fact
		NewFacts int
	}
	// FactsMissing reports that the journal has no facts, although it has records of entities. Entities store records
	// only when a coordinator has stored facts, so the facts were lost. The coordinator becomes active all the same:
	// fences protect the stored records. Stored is one of the entities.
	FactsMissing struct {
		Term   sharding.Term
		Stored sharding.Entity
	}
	// WriteJournalHeartbeat stores a journal heartbeat in place of the last one; answered by
	// JournalHeartbeatWritten. Until a heartbeat of the term is stored, N is 1.
	WriteJournalHeartbeat struct {
		Number    uint64
		Heartbeat sharding.JournalHeartbeat
	}
	// CheckFacts reads the number of the last record of the fact stream. Answered by FactsChecked, or by nothing.
	CheckFacts struct{ Number uint64 }
	// WriteCheckpoint stores the mark of a checkpoint, an empty snapshot, at Seq, so that readers of the fact stream begin after Seq.
	// Answered by CheckpointWritten.
	WriteCheckpoint struct {
		Number uint64
		Term   sharding.Term
		Seq    uint64
	}
)

// Outputs of a [Tenure] that report its progress.
type (
	// Waiting reports that the journal may belong to another cluster, which has written the heartbeat Other.
	// Before this coordinator claims the fact stream, it watches whether that cluster still writes
	// heartbeats.
	Waiting struct {
		Term  sharding.Term
		Other sharding.JournalHeartbeat
	}
	// Adopted reports that this cluster takes over the journal of another cluster. From is the last
	// journal heartbeat of that cluster, which has written none for JournalHeartbeatPatience.
	Adopted struct {
		Term    sharding.Term
		Cluster sharding.ClusterID
		From    sharding.JournalHeartbeat
	}
	// BecameActive reports that the facts are folded, and that this coordinator acts from now on.
	BecameActive struct {
		Term  sharding.Term
		Facts int
	}
	// Contested reports that another cluster uses the journal: its active coordinator has written the
	// heartbeat By. This coordinator does not take over, and its process must stop.
	Contested struct {
		Cluster sharding.ClusterID // the cluster of this coordinator
		By      sharding.JournalHeartbeat
	}
	// SteppedDown reports that this coordinator does not act any more. Calls that waited for an answer were answered
	// with NotActive. Resigned is true if the process stops; it holds the lease until it has ended.
	SteppedDown struct {
		Term     sharding.Term
		Why      string
		Resigned bool
	}
)

// Outputs of a [Machine].
type (
	// Persist stores a fact, which the Machine has applied already. Every output after it, answers to watches
	// included, waits until the fact is durable. Meanwhile Step is called as usual. The Gate of the Tenure
	// holds these outputs back, so a Tenure emits no Persist.
	Persist struct {
		Fact Fact
		// Joined is true if the fact is stored in one record with the fact before it: either both are stored, or
		// neither.
		Joined bool
	}
	// Send sends a control message to a region. The message may get lost: the Machine repeats it.
	Send struct {
		To  sharding.NodeID
		Msg control.Message
	}
	// Reply answers a Received with a Call.
	Reply struct {
		Call control.Call
		Msg  control.Message
	}
	// FenceShard claims a shard that belongs to no region, at the epoch of its row. The owner in the claim is
	// empty, so that every coordinator may repeat the claim. Answered by ShardFenced.
	FenceShard struct{ Claim sharding.Claim }
	// ReadForms asks which forms of events and inputs are stored in shards of a type, see [FormsFound].
	// The read must begin after this output. Answered by FormsRead.
	ReadForms struct {
		Desc sharding.TypeDesc
		// At has the shards, sorted, each with the forms that are looked for.
		At []FormsAt
		// Forms has the forms of the type. The sets in At have indexes into it.
		Forms []sharding.Form
	}
	// UnreadableNow says, for the log, that no region reads these shards from now on.
	UnreadableNow UnreadableShards
	// NoLoad says, for the log, that a region reports no load, and that nothing moves because of load until
	// it does. NoLoad comes once for each region, and only if a type has the strategy "load".
	NoLoad struct{ Region string }
	// ConstraintBroken says, for the log, that shards break a constraint from now on, or that no shard does
	// any more.
	ConstraintBroken struct {
		Constraint allocation.Broken
		Shards     int // how many shards break it
	}
	// DrainStays says, for the log, that a drain does not end, because no other region can take these shards
	// of the region.
	DrainStays struct {
		Region string
		Shards UnreadableShards
	}
	// BrakeChanged says, for the log, that the brake has stopped voluntary moves, lets some of them through,
	// or is released.
	BrakeChanged BrakeView
	// NameTaken says, for the log, that a region is given no shards, because another region holds the same
	// name.
	NameTaken struct {
		Name       string
		Region, By sharding.NodeID
	}
	// TargetSet says, for the log, that the target version has changed.
	TargetSet struct{ Version, Before, Why string }
	// TestJournal sends the journal a request that has no effect. Answered by JournalTested.
	TestJournal struct{}
	// Plan asks which shards shall move for balance. Input has the present table and regions, and is not
	// written to later. Answered by Planned, which [Plan.Compute] returns; this may take long if there are
	// many shards. Before the answer, there is no other Plan in this term.
	Plan struct {
		Number uint64
		Input  allocation.PlanInput
	}
	// Asked answers an Ask: the Effect, or the reason why the request is refused. The effect need not be durable yet, so
	// it leaves at once.
	Asked struct {
		Number uint64
		Effect Effect
		Err    error
	}
	// Done reports that the effect of an Ask is durable, and all that it depends on. A quarantine is done when the
	// regions that may run the entity know of it, too: the operator may rely on it that the entity does not run any
	// more. If the term ends before, there is no Done.
	Done struct{ Number uint64 }
	// Explained brings an explanation. No fact depends on it, so it leaves at once. It may get lost.
	Explained struct{ Explanation }
)

// The views of the brake and of gateways, see package budget.
type (
	BrakeState  = budget.BrakeState
	BrakeView   = budget.BrakeView
	GatewayView = budget.GatewayView
)

// The states of the brake.
const (
	BrakeReleased = budget.BrakeReleased
	BrakeStopped  = budget.BrakeStopped
	BrakeTrying   = budget.BrakeTrying
)

// Fact is one durable change of the coordinator's state. The state changes only in method apply, when a fact is made
// and when it is folded. The facts are defined in package fact.
type Fact = fact.Fact

// The facts, and what they consist of.
type (
	RowFact        = fact.Row
	TypeFact       = fact.Type
	DrainFact      = fact.Drain
	CordonFact     = fact.Cordon
	FreezeFact     = fact.Freeze
	PinFact        = fact.Pin
	MoveFact       = fact.Move
	TargetFact     = fact.Target
	QuarantineFact = fact.Quarantine
	LossFact       = fact.Loss
	UnknownFact    = fact.Unknown

	Note            = fact.Note
	CountedCrash    = fact.CountedCrash
	QuarantineState = fact.QuarantineState
)

// The states of a [QuarantineFact].
const (
	Released    = fact.Released
	Suspected   = fact.Suspected
	Quarantined = fact.Quarantined
)

func (Acquired) input()                {}
func (Renewed) input()                 {}
func (Resign) input()                  {}
func (Lost) input()                    {}
func (Surveyed) input()                {}
func (Claimed) input()                 {}
func (Loaded) input()                  {}
func (ReadFailed) input()              {}
func (Appended) input()                {}
func (JournalHeartbeatWritten) input() {}
func (FactsChecked) input()            {}
func (CheckpointWritten) input()       {}
func (Elected) input()                 {}
func (Identified) input()              {}
func (Deposed) input()                 {}
func (Stored) input()                  {}
func (Active) input()                  {}
func (Member) input()                  {}
func (MemberGone) input()              {}
func (Tick) input()                    {}
func (Received) input()                {}
func (CallEnded) input()               {}
func (JournalTested) input()           {}
func (Planned) input()                 {}
func (LookAtShards) input()            {}
func (DrainRegion) input()             {}
func (SetTarget) input()               {}
func (CordonRegion) input()            {}
func (FreezeMoves) input()             {}
func (PinShards) input()               {}
func (MoveShard) input()               {}
func (Ask) input()                     {}
func (AskEnded) input()                {}
func (ShardFenced) input()             {}
func (FormsRead) input()               {}

func (RaiseTerm) output()             {}
func (YieldLease) output()            {}
func (Survey) output()                {}
func (Claim) output()                 {}
func (Load) output()                  {}
func (Append) output()                {}
func (Waiting) output()               {}
func (Adopted) output()               {}
func (FactsMissing) output()          {}
func (WriteJournalHeartbeat) output() {}
func (CheckFacts) output()            {}
func (Contested) output()             {}
func (WriteCheckpoint) output()       {}
func (BecameActive) output()          {}
func (SteppedDown) output()           {}
func (Persist) output()               {}
func (Send) output()                  {}
func (Reply) output()                 {}
func (TargetSet) output()             {}
func (FenceShard) output()            {}
func (ReadForms) output()             {}
func (UnreadableNow) output()         {}
func (DrainStays) output()            {}
func (NameTaken) output()             {}
func (BrakeChanged) output()          {}
func (NoLoad) output()                {}
func (ConstraintBroken) output()      {}
func (TestJournal) output()           {}
func (Plan) output()                  {}
func (Asked) output()                 {}
func (Done) output()                  {}
func (Explained) output()             {}
