package coordinator

import (
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Input is one message to the coordinator. The set is closed.
type Input interface{ input() }

// Output is one thing the driver must do. The set is closed. Outputs are performed
// in order.
type Output interface{ output() }

// Inputs to a [Tenure] from the lease. The driver takes them before anything else
// that waits: a term that has ended must not wait behind work.
type (
	// Acquired: the term is ours and may be used before Until. Cluster is the cluster
	// that the lease belongs to.
	Acquired struct {
		Term    sharding.Term
		Until   time.Time
		Cluster sharding.ClusterID
	}
	// Renewed: the term may be used before Until.
	Renewed struct {
		Term  sharding.Term
		Until time.Time
	}
	// Lost: the term must not be used any more.
	Lost struct{ Term sharding.Term }
	// Resign: the process stops. Neither this term nor any other is used from now on.
	Resign struct{}
)

// Inputs to a [Tenure] from the journal. Fence is the stored epoch by which an
// operation was refused.
type (
	// Surveyed answers Survey: the highest epoch in the journal and the last
	// journal heartbeat, zero if there is none. Damaged: not all epochs could be read.
	Surveyed struct {
		Number    uint64
		Highest   sharding.Epoch
		Damaged   bool
		Heartbeat sharding.JournalHeartbeat
		// Generation is that of the journal.
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
		Number             uint64
		Facts              []Fact // the oldest first
		FactsAfterSnapshot int    // how many of the Facts are in records after the snapshot
		LastSeq            uint64 // the sequence number of the last record
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
	// SnapshotWritten answers WriteSnapshot.
	SnapshotWritten struct {
		Number  uint64
		Verdict sharding.Verdict
		Fence   sharding.Epoch
	}
)

// Inputs to a [Machine] from the [Tenure] around it.
type (
	// Elected: the lease is held in Term, the fact stream is claimed with it,
	// and Facts are what it holds, oldest first.
	Elected struct {
		Term  sharding.Term
		Facts []Fact
		// Cluster is the cluster to which the journal says that it belongs; 0: it says
		// nothing.
		Cluster sharding.ClusterID
		// Generation is that of the journal; 0: not compared with that of regions.
		Generation sharding.Generation
	}
	// Identified: the journal now says that it belongs to Cluster. When the term began
	// it said nothing.
	Identified struct{ Cluster sharding.ClusterID }
	// Deposed: the term is over. From now on the Machine answers every call with NotActive,
	// which names the active coordinator.
	Deposed struct{}
	// Stored: the next facts of this term are durable. Facts is their number; they follow
	// those that were reported durable before.
	Stored struct{ Facts int }
)

// Inputs from the driver: lease, membership, time.
type (
	// Active tells a standby which coordinator holds the lease; the latest one counts.
	// A zero Node: none is known.
	Active struct {
		Node sharding.NodeID
		Term sharding.Term
	}
	// Member is what membership says of a region: sent at every change, and
	// for every member before the first Elected.
	Member struct {
		Node sharding.NodeID
		Name string
		// Reachable is the verdict of this node's own detector (fast profile)
		// together with evidence of a dead process.
		Reachable bool
		// Joining says that the member is not up yet, weakly up included: it is
		// given no shards, because others perhaps do not know of it.
		Joining bool
		// Leaving says that the member is on its way out.
		Leaving bool
	}
	// MemberGone: removed from the membership, downed, or replaced by a new
	// incarnation at the same address.
	MemberGone struct{ Node sharding.NodeID }
	// Tick lets time pass; the driver sends one every 50 ms or so.
	Tick struct{}
)

// Inputs from regions and gateways, from the journal and from operators.
type (
	// Received is a control message from a process. One with a Call is answered by a
	// Reply.
	Received struct {
		From sharding.NodeID
		Call control.Call
		Msg  control.Message
	}
	// CallEnded: nobody waits for the answer to a call any more.
	CallEnded struct{ Call control.Call }
	// SetTarget is an operator's request to make a version of the application the target
	// of rollouts, see TargetFact. By says who asks, for the log.
	SetTarget struct{ Version, By string }
	// LookAtShards is an operator's request to find out what is stored in the shards that no
	// region reads.
	LookAtShards struct{}
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
	// JournalProbed answers ProbeJournal.
	JournalProbed struct{ Verdict sharding.Verdict }
	// Planned answers Plan; see [Plan.Compute].
	Planned struct {
		Number uint64
		Moves  []allocation.Move
	}
	// DrainRegion is an operator's request to hand off all shards of a region, although
	// it does not leave. Resume ends that. The request outlives the term.
	DrainRegion struct {
		Region sharding.NodeID
		Resume bool
	}
)

// Outputs of a [Tenure] to the lease and the journal. The facts are one entity
// stream, owned by one shard; operations carry the epoch (Term, 0).
type (
	// RaiseTerm asks the lease for a term above Above.
	RaiseTerm struct{ Above sharding.Term }
	// YieldLease gives the lease up. This process remains a candidate for it.
	YieldLease struct{}
	// Survey asks which cluster the journal belongs to and which epochs were claimed in
	// it; answered by Surveyed or ReadFailed.
	Survey struct{ Number uint64 }
	// Claim claims the shard of the facts; answered by Claimed.
	Claim struct {
		Number uint64
		Term   sharding.Term
	}
	// Load reads the facts; answered by Loaded or ReadFailed.
	Load struct{ Number uint64 }
	// Append stores facts as one record; answered by Appended. The first Decided of
	// them are new, the others repeat what the table holds.
	Append struct {
		Number  uint64
		Term    sharding.Term
		Seq     uint64
		Facts   []Fact
		Decided int
	}
	// WriteJournalHeartbeat stores a heartbeat, in the term that it names, in place of
	// the last one; answered by JournalHeartbeatWritten. Its N is 1 until the first one
	// is stored.
	WriteJournalHeartbeat struct {
		Number    uint64
		Heartbeat sharding.JournalHeartbeat
	}
	// WriteSnapshot says that the stream is read from after Seq; the snapshot is
	// empty. Answered by SnapshotWritten.
	WriteSnapshot struct {
		Number uint64
		Term   sharding.Term
		Seq    uint64
	}
)

// Outputs of a [Tenure] that report its progress.
type (
	// Waiting: the journal may belong to another cluster, which wrote By. Before this
	// coordinator claims the journal, it watches whether that cluster still writes
	// heartbeats.
	Waiting struct {
		Term sharding.Term
		By   sharding.JournalHeartbeat
	}
	// Adopted: the journal belonged to another cluster, which wrote From and writes no
	// heartbeats any more. The journal is claimed for this cluster.
	Adopted struct {
		Term    sharding.Term
		Cluster sharding.ClusterID
		From    sharding.JournalHeartbeat
	}
	// BecameActive: the facts are folded, and this coordinator acts from here on.
	BecameActive struct {
		Term  sharding.Term
		Facts int
	}
	// Contested: another cluster uses the journal, whose active coordinator wrote By.
	// This coordinator does not take over, and its process must stop.
	Contested struct {
		Cluster sharding.ClusterID // of this one
		By      sharding.JournalHeartbeat
	}
	// SteppedDown: this coordinator does not act any more. Calls that wait for an answer
	// have been answered NotActive.
	SteppedDown struct {
		Term sharding.Term
		Why  string
	}
)

// Outputs of a [Machine].
type (
	// Persist stores a fact. It is applied already. Every output after it, answers
	// to watches included, waits until the fact is durable, while Step goes on; a
	// Tenure does the waiting, and emits no Persist.
	Persist struct{ Fact Fact }
	// Send sends a control message to a region. It may get lost: it is repeated.
	Send struct {
		To  sharding.NodeID
		Msg control.Message
	}
	// Reply answers a Received with a Call.
	Reply struct {
		Call control.Call
		Msg  control.Message
	}
	// FenceShard claims a shard that belongs to no region, at the epoch of its row and for
	// nobody, so that every coordinator may repeat it. Answered by ShardFenced.
	FenceShard struct{ Claim sharding.Claim }
	// ReadForms asks which forms of events and inputs are stored in shards of a type, see [FormsFound].
	// What is read must have been stored when the output comes, or later. Answered by
	// FormsRead.
	ReadForms struct {
		Desc sharding.TypeDesc
		// At are the shards, sorted, and the forms that are looked for.
		At []FormsAt
		// Forms are those of the type, to which the sets have indexes.
		Forms []sharding.Form
	}
	// UnreadableNow says, for the log, that no region reads these shards from now on.
	UnreadableNow UnreadableShards
	// NoLoad says, for the log, that nothing moves because of load as long as a region reports
	// none. It comes once for each region, and only if a type has the strategy "load".
	NoLoad struct{ Region string }
	// DrainStays says, for the log, that a drain does not end: no other region can be given
	// these shards of the region.
	DrainStays struct {
		Region string
		Shards UnreadableShards
	}
	// BrakeChanged says, for the log, that voluntary moves are held back, or no longer,
	// or less.
	BrakeChanged BrakeView
	// NameTaken says, for the log, that a region is not registered as long as another one with
	// the same name is here.
	NameTaken struct {
		Name       string
		Region, By sharding.NodeID
	}
	// TargetSet says, for the log, that the target version of rollouts is another one.
	TargetSet struct{ Version, Before, Why string }
	// ProbeJournal asks the journal something that has no effect. Answered by
	// JournalProbed.
	ProbeJournal struct{}
	// Plan asks which shards shall move for balance, as the table and the regions are now.
	// Nothing in the Input is written to later. Answered by Planned, which [Plan.Compute]
	// returns; that takes long if there are many shards. There is no next Plan in this term
	// before the answer.
	Plan struct {
		Number uint64
		Input  allocation.PlanInput
	}
	// Decided says, for people, what was decided and why. It is not a part of what is decided:
	// it leaves at once, and may get lost.
	Decided struct{ Decision }
)

// Fact is one durable change of the table. State changes only in apply(fact),
// live and in replay.
type Fact interface{ fact() }

type (
	// RowFact: the shard's row is now Row. The sets have indexes into the forms of its type.
	RowFact struct {
		Row sharding.Row
		// Before are the forms that earlier owners may have stored, May those that this
		// owner may store.
		Before, May sharding.FormSet
		// Successor is the region that is to get the shard when its owner has released it; zero:
		// any.
		Successor sharding.NodeID
		// Next is the epoch that is reserved for the successor: it may claim the shard then
		// without another fact. NextMay are the forms that it may store. 0: none is reserved.
		Next    sharding.Epoch
		NextMay sharding.FormSet
		// Previous has kept the states of the shard's entities, for the owner of a row that
		// is not served yet; zero: nobody has.
		Previous control.Previous
		// Cause says why the shard is at its owner, or, while it is handed off, why it leaves.
		Cause sharding.Cause
	}
	// TypeFact: the type is declared with this descriptor; its number of
	// shards never changes. Forms are all that regions have ever registered to store; the
	// list only becomes longer.
	TypeFact struct {
		Desc  sharding.TypeDesc
		Forms []sharding.Form
		// By are the versions of the application that registered the forms first, in the
		// same order. Facts of earlier releases do not have them.
		By []string
	}
	// DrainFact: the operator wants the region empty; Resume: not any more. It
	// is about this incarnation only, and ends with it.
	DrainFact struct {
		Region sharding.NodeID
		Resume bool
	}
	// CordonFact: an operator wants no more shards at regions with this name; Lifted: not any
	// more. After is the last epoch that was given out before.
	CordonFact struct {
		Region string
		Lifted bool
		After  sharding.Epoch
		Note
	}
	// FreezeFact: an operator wants nothing to move that need not, until a moment or, if that
	// is zero, until the freeze is ended. Frozen is false: it has ended.
	FreezeFact struct {
		Frozen bool
		Until  time.Time
		Note
	}
	// PinFact: the shard is wanted at a region with this name; "": anywhere.
	PinFact struct {
		Shard  sharding.ShardID
		Region string
		Note
	}
	// MoveFact: an operator wants what the RowFact before it begins: the shard goes from its
	// owner at this epoch to a region.
	MoveFact struct {
		Shard  sharding.ShardID
		Region string
		Epoch  sharding.Epoch
		Note
	}
	// TargetFact: shards that need a place in a rollout go to regions with this version
	// of the application. Seen are versions that were seen before it, the newest last.
	TargetFact struct {
		Version string
		Seen    []string
	}
	// UnknownFact is a fact of a later release, as stored. It is kept, in the order of its
	// kind, and changes nothing.
	UnknownFact struct {
		Name     string
		Version  uint16
		Encoding sharding.Encoding
		Payload  string
	}
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
func (SnapshotWritten) input()         {}
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
func (JournalProbed) input()           {}
func (Planned) input()                 {}
func (DrainRegion) input()             {}
func (SetTarget) input()               {}
func (LookAtShards) input()            {}
func (CordonRegion) input()            {}
func (FreezeMoves) input()             {}
func (PinShards) input()               {}
func (MoveShard) input()               {}
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
func (WriteJournalHeartbeat) output() {}
func (Contested) output()             {}
func (WriteSnapshot) output()         {}
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
func (ProbeJournal) output()          {}
func (Plan) output()                  {}
func (Decided) output()               {}

func (RowFact) fact()     {}
func (TypeFact) fact()    {}
func (DrainFact) fact()   {}
func (TargetFact) fact()  {}
func (CordonFact) fact()  {}
func (FreezeFact) fact()  {}
func (PinFact) fact()     {}
func (MoveFact) fact()    {}
func (UnknownFact) fact() {}
