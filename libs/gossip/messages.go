package gossip

import (
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Msg is what nodes say to each other.
type Msg interface{ msg() }

type (
	// InitJoin asks a seed whether it is in a cluster.
	InitJoin struct{}
	// InitJoinAck says that the sender is, and that one may join through it.
	// Members also send it, unasked, to seed addresses that are no members.
	InitJoinAck struct{ Claim Claim }
	// InitJoinNack says that the sender is in no cluster itself.
	InitJoinNack struct{}
	// Join asks a member to let the sender in. Repeated until welcomed.
	Join struct {
		Name    string
		Roles   []string // sorted
		Zone    string
		Version string
		// Settings are compared with those of the cluster; sorted by name.
		Settings []Setting
		// Era is the number of the era in which the sender first heard of the
		// cluster, before it asked anybody there to let it in.
		Era uint64
	}
	// JoinRefused tells a joiner why it is not let in. Final says that it would
	// be in vain to ask again.
	JoinRefused struct {
		Reason string
		Final  bool
	}
	// Welcome lets the joiner in and brings it up to date.
	Welcome struct{ State State }
	// GossipStatus says which state the sender holds, without the state.
	GossipStatus struct {
		Cluster ClusterID
		Era     Era
		Digest  uint64
		// Seen are the members known to have seen the state, by their places: it
		// means something only to whoever holds the same state.
		Seen Bits
		// Parts, if any, are hashes of the parts of the state. They answer
		// a status of another digest and ask for what differs; how many there are
		// is the division, a power of two.
		Parts []uint32
	}
	// Gossip is the sender's state, or what differs of it.
	Gossip struct {
		// State has the parts that Which names, of as many as Parts says. Seen is
		// that of the whole state, whose digest is Digest.
		State  State
		Digest uint64
		Parts  int
		Which  Bits
		// Answer marks the answer to another Gossip, which is not answered by
		// a third.
		Answer bool
	}
	// Heartbeat asks for a sign of life.
	Heartbeat struct{ Seq uint64 }
	// HeartbeatReply gives it, with the number that was asked with. Who
	// replies is the proof of which incarnation lives at its address.
	HeartbeatReply struct{ Seq uint64 }
	// ExitingConfirmed says that the sender saw itself exiting and may be
	// removed.
	ExitingConfirmed struct{}
	// LeaveRequest asks a member to leave gracefully.
	LeaveRequest struct{}
	// NotMember tells the receiver that the sender holds it for down or
	// removed, or for a member of another cluster.
	NotMember struct {
		Claim Claim
		// Answer marks the answer to another NotMember, which ends the matter.
		Answer bool
	}
)

func (InitJoin) msg()         {}
func (InitJoinAck) msg()      {}
func (InitJoinNack) msg()     {}
func (Join) msg()             {}
func (JoinRefused) msg()      {}
func (LeaveRequest) msg()     {}
func (Welcome) msg()          {}
func (GossipStatus) msg()     {}
func (Gossip) msg()           {}
func (Heartbeat) msg()        {}
func (HeartbeatReply) msg()   {}
func (ExitingConfirmed) msg() {}
func (NotMember) msg()        {}

// Input is what [Machine.Step] takes.
type Input interface{ input() }

type (
	// Start forms or joins a cluster. It comes once, first.
	Start struct{}
	// SetSeeds names the addresses to join through, and as a member those to
	// announce the cluster to, in place of the configured ones.
	SetSeeds struct{ Seeds []string }
	// Form makes a cluster of this node alone, unless it is in one, about to be
	// let into one, or heard of one within SeedTimeout: a refusal is a sign of
	// one, too. It is for nodes that wait.
	Form struct{}
	// Receive is a message from another node. To is whom the sender meant, as
	// in its [Send]: a message to another incarnation at this address is not
	// for this node, but tells it something. The zero To is taken for this node.
	// Waited is for how long the message had arrived already.
	Receive struct {
		From, To sharding.NodeID
		Msg      Msg
		Waited   time.Duration
	}
	// Tick is the passing of time, every 50 to 100 ms, after the messages that
	// arrived before it.
	Tick struct{}
	// Leave leaves the cluster gracefully. [Left] follows.
	Leave struct{}
	// JoinVia joins the cluster of the node at an address, whatever the seeds
	// say; one's own address forms one. It is for a node that is in none yet,
	// and replaces Start.
	JoinVia struct{ Addr string }
	// LeaveNode asks a member to leave gracefully. It may get lost: repeat it
	// until the member leaves. For this node [LeaveRequested] is all it causes.
	LeaveNode struct{ Node sharding.NodeID }
	// RemoveNode removes a member at once, without convergence: for nodes that
	// never come back and are in the way. One that lives after all stops as
	// soon as it talks to anybody. This node itself is only declared down.
	RemoveNode struct{ Node sharding.NodeID }
	// DownNode declares a member gone for good, this node included.
	DownNode struct{ Node sharding.NodeID }
	// Evidence reports that a connection to the node was reset and the next
	// dial refused: its process is gone. UID 0 means whoever is a member at
	// that address.
	Evidence struct{ Node sharding.NodeID }
	// Lease tells who holds the lease that a [Downing] may go by, as this node
	// knows it: Holder may act until Until, by this node's clock. The zero
	// Lease, or one that is over, says nothing about who holds it.
	Lease struct {
		Holder sharding.NodeID
		Until  time.Time
	}
)

func (Start) input()      {}
func (SetSeeds) input()   {}
func (Form) input()       {}
func (Receive) input()    {}
func (Tick) input()       {}
func (Leave) input()      {}
func (JoinVia) input()    {}
func (LeaveNode) input()  {}
func (RemoveNode) input() {}
func (DownNode) input()   {}
func (Evidence) input()   {}
func (Lease) input()      {}

// Output is what [Machine.Step] gives: a [Send] or an [Event].
type Output interface{ output() }

// Send is a message to a node. UID 0 in To means whoever is at that address.
// It may get lost, and come late, twice or out of order.
type Send struct {
	To  sharding.NodeID
	Msg Msg
}

func (Send) output() {}

// Event is what happened to the membership as this node sees it. States in
// between may be skipped: a member may be seen up that was never seen joining.
type Event interface {
	Output
	event()
}

type (
	// MemberJoined: a member is joining.
	MemberJoined struct{ Member Member }
	// MemberWeaklyUp: a member is weakly up.
	MemberWeaklyUp struct{ Member Member }
	// MemberUp: a member is up.
	MemberUp struct{ Member Member }
	// MemberLeaving: a member asked to leave.
	MemberLeaving struct{ Member Member }
	// MemberExited: a member is exiting.
	MemberExited struct{ Member Member }
	// MemberDowned: a member was declared gone.
	MemberDowned struct{ Member Member }
	// MemberRemoved: a member is no member any more. Member is as it was last.
	MemberRemoved struct{ Member Member }
	// ReachabilityChanged: another member became reachable or unreachable,
	// with ByMe to this node's own detector, without to the cluster.
	ReachabilityChanged struct {
		Node      sharding.NodeID
		Reachable bool
		ByMe      bool
	}
	// NodeGone: there is evidence that the process of a member is gone.
	NodeGone struct{ Node sharding.NodeID }
	// NewIncarnation: the address of member Old answered as New, so Old is
	// gone. It is down with this.
	NewIncarnation struct{ Old, New sharding.NodeID }
	// NameShared: several members that can be reached have one name. A process
	// was started twice, or two were given the same name. They are members all
	// the same; people and tools that go by names mean one of them. Told when one
	// of them comes up.
	NameShared struct {
		Name  string
		Nodes []sharding.NodeID
	}
	// DowningDecided: the [Downing] provider of this node declared members
	// down.
	DowningDecided struct {
		Down   []sharding.NodeID
		Reason string
	}
	// YieldLease: this node should give up the lease that it holds, says the
	// [Downing] provider, and stand behind others for it.
	YieldLease struct{ Reason string }
	// LeaderChanged: another node leads, as this node sees it. Zero: none.
	LeaderChanged struct{ Leader sharding.NodeID }
	// NotLetIn: By refuses to let this node in, for now at least. Told when the
	// reason changes.
	NotLetIn struct {
		By     sharding.NodeID
		Reason string
	}
	// JoinFailed: this node has stopped trying to join. The machine does nothing
	// any more.
	JoinFailed struct{ Reason string }
	// LeaveRequested: somebody wants this node to leave. The driver steps [Leave]
	// when the process is ready for that. Told once.
	LeaveRequested struct{ By sharding.NodeID }
	// Quarantined: an incarnation is refused from now on, see [Quarantine].
	Quarantined struct {
		Node   sharding.NodeID
		Reason string
	}
	// Refused: a message was dropped because it makes no sense.
	Refused struct {
		From   sharding.NodeID
		Reason string
	}
	// Expired: gossip was dropped because it had waited too long.
	Expired struct {
		From   sharding.NodeID
		Waited time.Duration
	}
	// SelfDowned: this node is down. The machine does nothing any more; the
	// process should stop, and come back as a new incarnation if at all.
	SelfDowned struct{ Reason string }
	// Left: this node left gracefully. The machine does nothing any more.
	Left struct{}
)

func (MemberJoined) output()        {}
func (MemberWeaklyUp) output()      {}
func (MemberUp) output()            {}
func (MemberLeaving) output()       {}
func (MemberExited) output()        {}
func (MemberDowned) output()        {}
func (MemberRemoved) output()       {}
func (ReachabilityChanged) output() {}
func (NodeGone) output()            {}
func (NewIncarnation) output()      {}
func (NameShared) output()          {}
func (DowningDecided) output()      {}
func (YieldLease) output()          {}
func (LeaderChanged) output()       {}
func (NotLetIn) output()            {}
func (JoinFailed) output()          {}
func (LeaveRequested) output()      {}
func (Quarantined) output()         {}
func (Refused) output()             {}
func (Expired) output()             {}
func (SelfDowned) output()          {}
func (Left) output()                {}
func (MemberJoined) event()         {}
func (MemberWeaklyUp) event()       {}
func (MemberUp) event()             {}
func (MemberLeaving) event()        {}
func (MemberExited) event()         {}
func (MemberDowned) event()         {}
func (MemberRemoved) event()        {}
func (ReachabilityChanged) event()  {}
func (NodeGone) event()             {}
func (NewIncarnation) event()       {}
func (NameShared) event()           {}
func (DowningDecided) event()       {}
func (YieldLease) event()           {}
func (LeaderChanged) event()        {}
func (NotLetIn) event()             {}
func (JoinFailed) event()           {}
func (LeaveRequested) event()       {}
func (Quarantined) event()          {}
func (Refused) event()              {}
func (Expired) event()              {}
func (SelfDowned) event()           {}
func (Left) event()                 {}
