package gossip

import (
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Msg is a message from one node to another.
type Msg interface{ msg() }

type (
	// InitJoin asks a seed whether it is in a cluster.
	InitJoin struct{}
	// InitJoinAck reports that the sender is in a cluster, which the receiver may join through it. Members
	// also send it, unasked, to seed addresses that are not members.
	InitJoinAck struct{ Seniority Seniority }
	// InitJoinNack reports that the sender is in no cluster itself.
	InitJoinNack struct{}
	// Join asks a member to admit the sender. It is repeated until the Welcome.
	Join struct {
		Name    string
		Roles   []string // sorted
		Zone    string
		Version string
		// Settings are compared with the cluster's; sorted by name.
		Settings []Setting
		// HeardIn is the number of the era in which the sender first heard of the
		// cluster, before it asked any member to admit it.
		HeardIn uint64
	}
	// JoinRefused tells a joiner why it is not admitted. Final is true if asking again is useless.
	JoinRefused struct {
		Reason string
		Final  bool
	}
	// Welcome tells the joiner that it is a member, and brings it up to date.
	Welcome struct{ State State }
	// GossipStatus identifies the state that the sender holds, without the state.
	GossipStatus struct {
		Cluster Founding
		Era     Era
		Digest  uint64
		// Seen are the members known to have seen the state, by their places. Only
		// a node with the same state can make use of it.
		Seen Bits
		// Parts, if any, are hashes of the parts of the state. They answer a status with another digest and
		// ask for the parts that differ. Their number, a power of two, determines how finely the state is
		// divided.
		Parts []uint32
	}
	// Gossip is the sender's state, or the parts of it that differ.
	Gossip struct {
		// State has the parts that Which lists, of a state that is divided into Parts
		// parts. State.Seen and Digest belong to the whole state.
		State  State
		Digest uint64
		Parts  int
		Which  Bits
		// Answer marks an answer to another Gossip. It is not answered in turn.
		Answer bool
	}
	// Heartbeat asks for an answer, which proves which incarnation lives at the receiver's
	// address: a HeartbeatReply at once, or the Answer of a later Heartbeat.
	Heartbeat struct {
		Seq uint64
		// Patience is the interval in which the sender needs an answer. A receiver that sends heartbeats to
		// it at least that often answers with the next of them. 0: at once.
		Patience time.Duration
		// Answer is the Seq of the newest heartbeat of the receiver that is answered with this
		// one; 0: none is. It is repeated until there is a newer one.
		Answer uint64
	}
	// HeartbeatReply answers a Heartbeat and repeats its number. Its sender proves
	// which incarnation lives at its address.
	HeartbeatReply struct{ Seq uint64 }
	// ExitingConfirmed reports that the sender saw itself exiting and may be removed.
	ExitingConfirmed struct{}
	// LeaveRequest asks a member to leave gracefully.
	LeaveRequest struct{}
	// NotMember tells the receiver that the sender considers it down or removed, or
	// a member of another cluster.
	NotMember struct {
		Seniority Seniority
		// Answer marks an answer to another NotMember. It is not answered in turn.
		Answer bool
		// Outdated reports that the receiver is excluded only because its gossip was of Era, which ended
		// too long ago. If the receiver is in another era by now, that gossip was late.
		Outdated bool
		Era      Era
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

// Input is an input of [Machine.Step].
type Input interface{ input() }

type (
	// Start forms or joins a cluster. It comes once, first.
	Start struct{}
	// SetSeeds replaces the configured seed addresses. A node that is in no cluster joins
	// through them; a member announces the cluster to them.
	SetSeeds struct{ Seeds []string }
	// Form forms a cluster of this node alone, unless the node is in one, is being
	// admitted to one, or has heard of one within SeedTimeout. A refusal to admit the node
	// counts as having heard of one. Form is for nodes with Config.DriverDecides.
	Form struct{}
	// Receive is a message from another node. To is the intended receiver, as in the
	// [Send] of the sender. It may be another incarnation at this address: such a message
	// is not for this node, but shows what its sender believes. The zero To means this
	// node. Waited is the time since the message arrived.
	Receive struct {
		From, To sharding.NodeID
		Msg      Msg
		Waited   time.Duration
	}
	// Tick lets time pass. It comes every 50 to 100 ms, after all messages that
	// arrived before it.
	Tick struct{}
	// Leave leaves the cluster gracefully. [Left] follows.
	Leave struct{}
	// JoinVia joins the cluster of the node at an address, whatever the seeds
	// say; this node's own address forms one. It is for a node that is in no
	// cluster yet, and replaces Start.
	JoinVia struct{ Addr string }
	// LeaveNode asks a member to leave gracefully. It may get lost: repeat it
	// until the member leaves. For this node [LeaveRequested] is all it causes.
	LeaveNode struct{ Node sharding.NodeID }
	// RemoveNode removes a member at once, without convergence. It is for nodes
	// that never come back and prevent convergence. A node that is alive after all
	// stops as soon as it talks to a member. This node itself is only declared
	// down.
	RemoveNode struct{ Node sharding.NodeID }
	// DownNode declares a member gone permanently, this node included.
	DownNode struct{ Node sharding.NodeID }
	// Evidence reports that a connection to the node was reset and the next
	// dial refused: its process is gone. UID 0 means any member at that address.
	Evidence struct{ Node sharding.NodeID }
	// Lease names the holder of the lease that a [Downing] may rely on, as far as this node knows: Holder
	// may act until Until, by this node's clock. A Lease that is zero or has expired leaves the holder
	// unknown.
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

// Output is an output of [Machine.Step]: a [Send] or an [Event].
type Output interface{ output() }

// Send is a message to a node. UID 0 in To means any node at that address. The
// message may get lost, or arrive late, twice or out of order.
type Send struct {
	To  sharding.NodeID
	Msg Msg
}

func (Send) output() {}

// Event is a change of the membership as this node sees it. Intermediate states
// may be skipped: a member may be seen up that was never seen joining.
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
	// MemberRemoved: a node is not a member any more. Member is its last record.
	MemberRemoved struct{ Member Member }
	// ReachabilityChanged: another member became reachable or unreachable. With
	// ByMe this node's own detector says so, without it the cluster does.
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
	// NameShared: several reachable members have one name. A process was started
	// twice, or two were given the same name. The membership does not depend on
	// names, but people and tools that use them mean only one of these members.
	// Emitted when one of them comes up.
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
	// YieldLease: the [Downing] provider wants this node to give up the lease that
	// it holds, and to let others acquire it first.
	YieldLease struct{ Reason string }
	// LeaderChanged: this node sees another leader. Zero: none.
	LeaderChanged struct{ Leader sharding.NodeID }
	// JoinRejected: member By refuses to admit this node, at least for now. Emitted
	// when the reason changes.
	JoinRejected struct {
		By     sharding.NodeID
		Reason string
	}
	// JoinFailed: this node has stopped trying to join. The machine does nothing
	// any more.
	JoinFailed struct{ Reason string }
	// LeaveRequested: this node should leave. The driver steps [Leave] when the process is ready. Emitted
	// once.
	LeaveRequested struct{ By sharding.NodeID }
	// Banned: this node refuses an incarnation from now on, see [Ban].
	Banned struct {
		Node   sharding.NodeID
		Reason string
	}
	// Refused: a message was dropped because it is invalid.
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
	Left struct {
		// Alone: the other members have not agreed in time that this node leaves. They will
		// declare it down, as if it had crashed.
		Alone bool
	}
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
func (JoinRejected) output()        {}
func (JoinFailed) output()          {}
func (LeaveRequested) output()      {}
func (Banned) output()              {}
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
func (JoinRejected) event()         {}
func (JoinFailed) event()           {}
func (LeaveRequested) event()       {}
func (Banned) event()               {}
func (Refused) event()              {}
func (Expired) event()              {}
func (SelfDowned) event()           {}
func (Left) event()                 {}
