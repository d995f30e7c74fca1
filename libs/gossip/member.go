package gossip

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Status is a stage in the life of a member. A higher status is a later one: when
// two nodes hold different ones, the higher is right.
type Status uint8

const (
	// Joining: admitted by some member, not yet known to all.
	Joining Status = iota + 1
	// WeaklyUp: admitted while a member is unreachable, so that not all members
	// can know of it yet. It does not count in any quorum and does not own
	// anything.
	WeaklyUp
	// Up: full member.
	Up
	// Leaving: asked to leave, still working.
	Leaving
	// Exiting: all members know that it leaves; it will be gone soon.
	Exiting
	// Down: declared gone permanently; it stops when it learns of it.
	Down
	// Removed: no member any more, and never again with this incarnation.
	Removed
)

// String is the status in lower case.
func (s Status) String() string {
	switch s {
	case Joining:
		return "joining"
	case WeaklyUp:
		return "weakly-up"
	case Up:
		return "up"
	case Leaving:
		return "leaving"
	case Exiting:
		return "exiting"
	case Down:
		return "down"
	case Removed:
		return "removed"
	}
	return "invalid"
}

// CanBecome reports whether a member may go from s to next in one step.
func (s Status) CanBecome(next Status) bool {
	switch next {
	case WeaklyUp:
		return s == Joining
	case Up:
		return s == Joining || s == WeaklyUp
	case Leaving:
		return s == Joining || s == WeaklyUp || s == Up
	case Exiting:
		return s == Leaving
	case Down, Removed:
		return s >= Joining && s < next
	}
	return false
}

// Limits for a member's description of itself.
const (
	maxNameLen = 128
	maxRoles   = 16
	maxRoleLen = 64
	maxZoneLen = 64
	maxVersion = 128
)

// Member is one node of the cluster.
type Member struct {
	Node sharding.NodeID
	// Name is the name that people use for the node: "region-2". It stays the same when the process is
	// started again.
	Name string
	// Roles say what the node is for: "coordinator", "region". Sorted.
	Roles []string
	// Zone is the data center or availability zone that the node runs in. Others learn it; it does not
	// affect the membership. May be empty.
	Zone string
	// Version is the version of the application that the node runs; may be empty.
	Version string
	Status  Status
	// UpNumber counts members in the order in which they came up: a lower one
	// is older. 0 until the member is up. Numbers may be used again after
	// removals.
	UpNumber uint32
	// HeardIn is the number of the [Era] in which the member first heard of the
	// cluster.
	HeardIn uint64
}

// String shows the fields. Members are shared between states, and an address in
// memory would differ from run to run.
func (m *Member) String() string {
	type fields Member
	return fmt.Sprintf("%+v", fields(*m))
}

// HasRole reports whether the member has a role. Every member has the role "".
func (m *Member) HasRole(role string) bool { return role == "" || slices.Contains(m.Roles, role) }

// OlderThan reports whether m came up before o. Members that never came up are
// younger than all others.
func (m *Member) OlderThan(o *Member) bool { return m.byAge(o) < 0 }

func (m *Member) byAge(o *Member) int {
	// Subtracting one turns "none" into the highest number.
	return cmp.Or(cmp.Compare(m.UpNumber-1, o.UpNumber-1), m.Node.Compare(o.Node))
}

// laterMember picks the right one of two entries of a member: the one with the higher
// status, then with the older up number. The other fields only make the order
// total, so that all nodes pick the same one, whatever they received.
func laterMember(a, b *Member) *Member {
	c := cmp.Or(
		cmp.Compare(a.Status, b.Status),
		cmp.Compare(b.UpNumber-1, a.UpNumber-1),
		cmp.Compare(b.Name, a.Name),
		slices.Compare(b.Roles, a.Roles),
		cmp.Compare(b.Zone, a.Zone),
		cmp.Compare(b.Version, a.Version),
		cmp.Compare(b.HeardIn, a.HeardIn),
	)
	// Invariant: all members come to the same view.
	// Guarded by: `gossip.laterMember`: one order decides between two entries of a member. `change`: after a local
	// change, no other member counts as having seen the state. `expired`: messages that waited too long are dropped.
	// Mutants: merge-precedence, seen-reset, gossip-ttl
	//mutant:do merge-precedence c = -c
	if c >= 0 {
		return a
	}
	return b
}

// equal reports whether two entries are the same.
func (m *Member) equal(o *Member) bool {
	return m.Node == o.Node && m.Status == o.Status && m.UpNumber == o.UpNumber && m.HeardIn == o.HeardIn && m.Name == o.Name &&
		m.Zone == o.Zone && m.Version == o.Version && slices.Equal(m.Roles, o.Roles)
}

// leaderRank orders members for the choice of a leader when none is up:
// weakly up before joining before exiting before down.
func (s Status) leaderRank() int {
	switch s {
	case WeaklyUp:
		return 1
	case Joining:
		return 2
	case Exiting:
		return 3
	case Down, Removed:
		return 4
	}
	return 0
}

func byLeaderRank(a, b *Member) int {
	return cmp.Or(cmp.Compare(a.Status.leaderRank(), b.Status.leaderRank()), a.Node.Compare(b.Node))
}

// mayLead reports whether a member can be the leader in the eyes of self: it is
// not down and reachable. A node always counts itself as reachable.
func (m *Member) mayLead(self sharding.NodeID, suspects []suspect) bool {
	return m.Status != Down && (m.Node == self || suspected(suspects, m.Node).worst == Reachable)
}

func (m *Member) check() string {
	switch {
	case m.Node.UID == 0:
		return "uid is 0"
	case m.Node.Addr == "" || len(m.Node.Addr) > sharding.MaxAddrLen:
		return "address is empty or too long"
	case len(m.Name) > maxNameLen:
		return "name is too long"
	case len(m.Roles) > maxRoles:
		return "too many roles"
	case !slices.IsSorted(m.Roles):
		return "roles are not sorted"
	case slices.ContainsFunc(m.Roles, func(r string) bool { return r == "" || len(r) > maxRoleLen }):
		return "a role is empty or too long"
	case len(m.Zone) > maxZoneLen:
		return "zone is too long"
	case len(m.Version) > maxVersion:
		return "version is too long"
	case m.Status < Joining || m.Status > Down:
		return "status is invalid"
	case m.Status < Up && m.UpNumber != 0 || m.Status == Up && m.UpNumber == 0:
		return "up number does not fit the status"
	}
	return ""
}
