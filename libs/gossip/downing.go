package gossip

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Downing decides which members are gone permanently. It is part of the machine: it
// may remember what it was shown, but must not read a clock or share anything.
// Package splitbrain has strategies for partitions. Others can be plugged in with
// [Config].
type Downing interface {
	// Decide is called on every node, repeatedly while any member is unreachable,
	// and a last time when none is any more. Its decision depends on its arguments
	// and its memory alone. It may name nodes that are down already or unknown;
	// naming this node stops it.
	Decide(now time.Time, v View) Decision
	// Clone is an independent copy.
	Clone() Downing
	// AppendState appends its memory in canonical form, with times relative to
	// now.
	AppendState(b []byte, now time.Time) []byte
}

// LeaderDowning is a [Downing] that decides, and remembers anything, on the leader only. It
// is not called on other nodes, so they need not compute a view.
type LeaderDowning interface {
	Downing
	OnLeaderOnly()
}

// Decision names members to declare down, and gives the operator the reason in a few words. The zero
// Decision does nothing.
type Decision struct {
	Down []sharding.NodeID
	// YieldLease asks this node to give up the lease that it holds.
	YieldLease bool
	Reason     string
}

// AutoDown lets the leader down members that have been unreachable for a time. It
// is safe for crashes only. During a partition both sides down each other and
// both continue; afterwards the nodes of the junior side stop (see [Seniority]). If
// only the link between two nodes is cut, both of them are downed.
type AutoDown struct {
	// After is the time that a member must have been unreachable.
	After time.Duration
}

// Decide implements [Downing].
func (d AutoDown) Decide(now time.Time, v View) Decision {
	if v.Leader != v.Self {
		return Decision{}
	}
	var gone []sharding.NodeID
	for _, m := range v.Members {
		if !m.Reachable && m.Status != Down && now.Sub(m.UnreachableSince) >= d.After {
			gone = append(gone, m.Node)
		}
	}
	return Decision{Down: gone, Reason: "unreachable for " + d.After.String()}
}

// OnLeaderOnly implements [LeaderDowning].
func (d AutoDown) OnLeaderOnly() {}

// String names the strategy, for the comparison of settings.
func (d AutoDown) String() string { return "auto-down after " + d.After.String() }

// Clone implements [Downing].
func (d AutoDown) Clone() Downing { return d }

// AppendState implements [Downing]: there is nothing to remember.
func (d AutoDown) AppendState(b []byte, _ time.Time) []byte { return b }

// askDowning asks the provider while there is anything to decide.
func (m *Machine) askDowning() {
	if m.phase != member || m.downing == nil {
		return
	}
	if m.now.Before(m.nextDowning) {
		return
	}
	was := m.hadUnreachable
	m.hadUnreachable = slices.ContainsFunc(m.publishedSuspects, func(x suspect) bool { return x.forCluster != Reachable })
	if _, ok := m.downing.(LeaderDowning); ok && m.leader() != m.self {
		return
	}
	if m.hadUnreachable || was {
		m.nextDowning = m.now.Add(m.cfg.DowningInterval)
		d := m.downing.Decide(m.now, m.View())
		if d.YieldLease {
			m.emit(YieldLease{d.Reason})
		}
		m.down(d.Down, d.Reason)
	}
}
