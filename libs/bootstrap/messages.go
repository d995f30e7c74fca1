package bootstrap

import "github.com/roost-cluster/roost/libs/gossip"

// Answer is a contact point's answer, as JSON. UIDs are signed there.
type Answer struct {
	// SelfNode is the address that the node gives itself, SelfUID its incarnation, SelfRoles its roles.
	SelfNode  string   `json:"selfNode"`
	SelfUID   int64    `json:"selfUid"`
	SelfRoles []string `json:"selfRoles"`
	// Cluster is the name of the cluster that it belongs to, or wants to.
	Cluster string `json:"cluster"`
	// InCluster is true if it is a member itself.
	InCluster bool `json:"inCluster"`
	// SeedNodes are members that it can reach; empty while it is none itself, and
	// when all of them are about to leave.
	SeedNodes []SeedNode `json:"seedNodes"`
}

// SeedNode is a member to join through.
type SeedNode struct {
	Node    string   `json:"node"`
	NodeUID int64    `json:"nodeUid"`
	Status  string   `json:"status"` // Joining, WeaklyUp or Up
	Roles   []string `json:"roles"`
}

// AnswerOf returns the answer of the node with the given view.
func AnswerOf(v *gossip.View, cluster string, roles []string) Answer {
	a := Answer{SelfNode: v.Self.Addr, SelfUID: int64(v.Self.UID), SelfRoles: roles, Cluster: cluster, SeedNodes: []SeedNode{}}
	if a.InCluster = v.InCluster; !v.InCluster {
		return a
	}
	status := map[gossip.Status]string{gossip.Joining: "Joining", gossip.WeaklyUp: "WeaklyUp", gossip.Up: "Up"}
	for _, m := range v.Members { // in the order of their addresses
		if m.Reachable && status[m.Status] != "" && len(a.SeedNodes) < maxSeeds {
			a.SeedNodes = append(a.SeedNodes, SeedNode{
				Node: m.Node.Addr, NodeUID: int64(m.Node.UID), Status: status[m.Status], Roles: m.Roles,
			})
		}
	}
	return a
}

// Input is an input of [Machine.Step].
type Input interface{ input() }

type (
	// Start begins the search. It comes once, first.
	Start struct{}
	// Tick lets time pass, at least twice per QueryInterval.
	Tick struct{}
	// Discovered is the result of each successful lookup in discovery.
	Discovered struct{ Peers []Peer }
	// LookupFailed reports that a lookup in discovery failed, and why.
	LookupFailed struct{ Reason string }
	// Answered is the answer to a [Query].
	Answered struct {
		Addr   string
		Answer Answer
	}
	// QueryFailed reports that a [Query] got no answer, and why.
	QueryFailed struct{ Addr, Reason string }
	// Joined reports that this node is a member, however it became one.
	Joined struct{}
	// ExplicitJoin is an operator's request to join through these members. It takes
	// precedence over discovery.
	ExplicitJoin struct{ Seeds []string }
)

func (Start) input()        {}
func (Tick) input()         {}
func (Discovered) input()   {}
func (LookupFailed) input() {}
func (Answered) input()     {}
func (QueryFailed) input()  {}
func (Joined) input()       {}
func (ExplicitJoin) input() {}

// Output is an output of [Machine.Step].
type Output interface{ output() }

type (
	// Query asks the contact point at an address. Answered or QueryFailed
	// follows.
	Query struct{ Addr string }
	// JoinSeeds joins through the members at these addresses, which replace those
	// named before. No cluster is formed if they do not answer.
	JoinSeeds struct{ Seeds []string }
	// FormCluster forms a cluster of this node alone, unless it is in one or being
	// admitted to one.
	FormCluster struct{}
	// Waiting describes what the machine waits for, whenever that changes.
	Waiting struct{ Why string }
	// Warning reports an external problem that an operator should fix, whenever it
	// changes.
	Warning struct{ Problem string }
	// GaveUp reports that GiveUp is over, and what the machine was waiting for.
	GaveUp struct{ Why string }
	// Finished reports that this node is a member. The machine does nothing any more.
	Finished struct{}
)

func (Query) output()       {}
func (JoinSeeds) output()   {}
func (FormCluster) output() {}
func (Waiting) output()     {}
func (Warning) output()     {}
func (GaveUp) output()      {}
func (Finished) output()    {}
