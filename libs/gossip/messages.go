package gossip

import "github.com/roost-cluster/roost/libs/sharding"

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
		Name  string
		Roles []string // sorted
	}
	// Welcome lets the joiner in and brings it up to date.
	Welcome struct{ State State }
	// GossipStatus says which state the sender holds, without the state.
	GossipStatus struct {
		Cluster ClusterID
		Version Clock
		Digest  uint64
		Seen    []sharding.NodeID // sorted
	}
	// Gossip is the sender's state.
	Gossip struct{ State State }
	// Heartbeat asks for a sign of life.
	Heartbeat struct{ Seq uint64 }
	// HeartbeatReply gives it, with the number that was asked with. Who
	// replies is the proof of which incarnation lives at its address.
	HeartbeatReply struct{ Seq uint64 }
	// ExitingConfirmed says that the sender saw itself exiting and may be
	// removed.
	ExitingConfirmed struct{}
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
	// Receive is a message from another node. To is whom the sender meant, as
	// in its [Send]: a message to another incarnation at this address is not
	// for this node, but tells it something. The zero To is taken for this node.
	Receive struct {
		From, To sharding.NodeID
		Msg      Msg
	}
	// Tick is the passing of time, every 50 to 100 ms, after the messages that
	// arrived before it.
	Tick struct{}
	// Leave leaves the cluster gracefully. [Left] follows.
	Leave struct{}
	// DownNode declares a member gone for good, this node included.
	DownNode struct{ Node sharding.NodeID }
	// Evidence reports that a connection to the node was reset and the next
	// dial refused: its process is gone. UID 0 means whoever is a member at
	// that address.
	Evidence struct{ Node sharding.NodeID }
)

func (Start) input()    {}
func (Receive) input()  {}
func (Tick) input()     {}
func (Leave) input()    {}
func (DownNode) input() {}
func (Evidence) input() {}

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
	// LeaderChanged: another node leads, as this node sees it. Zero: none.
	LeaderChanged struct{ Leader sharding.NodeID }
	// Refused: a message was dropped because it makes no sense.
	Refused struct {
		From   sharding.NodeID
		Reason string
	}
	// SelfDowned: this node is down. The machine does nothing any more; the
	// process should stop, and come back as a new incarnation if at all.
	SelfDowned struct{ Reason string }
	// Left: this node left gracefully. The machine does nothing any more.
	Left struct{}
)

func (MemberJoined) output()        {}
func (MemberUp) output()            {}
func (MemberLeaving) output()       {}
func (MemberExited) output()        {}
func (MemberDowned) output()        {}
func (MemberRemoved) output()       {}
func (ReachabilityChanged) output() {}
func (NodeGone) output()            {}
func (NewIncarnation) output()      {}
func (LeaderChanged) output()       {}
func (Refused) output()             {}
func (SelfDowned) output()          {}
func (Left) output()                {}
func (MemberJoined) event()         {}
func (MemberUp) event()             {}
func (MemberLeaving) event()        {}
func (MemberExited) event()         {}
func (MemberDowned) event()         {}
func (MemberRemoved) event()        {}
func (ReachabilityChanged) event()  {}
func (NodeGone) event()             {}
func (NewIncarnation) event()       {}
func (LeaderChanged) event()        {}
func (Refused) event()              {}
func (SelfDowned) event()           {}
func (Left) event()                 {}
