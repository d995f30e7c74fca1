package gossip

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Downing decides which members are gone for good. It is part of the machine:
// it may remember what it was shown, but reads no clock and shares nothing.
// Package splitbrain has those that bear partitions; one's own is plugged in
// with [Config].
type Downing interface {
	// Decide is asked on every node again and again while anybody is
	// unreachable, and once more when nobody is any more. It answers from its
	// arguments and its memory. It may name nodes that are down already or
	// unknown; naming this node stops it.
	Decide(now time.Time, v View) Decision
	// Clone is an independent copy.
	Clone() Downing
	// AppendState appends its memory in canonical form, with times relative to
	// now.
	AppendState(b []byte, now time.Time) []byte
}

// LeaderDowning is a [Downing] that decides nothing on nodes that do not lead,
// and remembers nothing there: it is not asked on them, which spares them a view.
type LeaderDowning interface {
	Downing
	OnLeaderOnly()
}

// Decision names members to declare down, and says why in a few words for the
// operator. The zero Decision does nothing.
type Decision struct {
	Down []sharding.NodeID
	// YieldLease says that this node should give up the lease that it holds.
	YieldLease bool
	Reason     string
}

// AutoDown downs whoever has been unreachable for a time, if asked on the
// leader. It bears crashes only. During a partition both sides do that to each
// other, and both go on; afterwards the nodes of the junior side stop (see
// [Claim]). A link cut between two nodes that others still reach costs both of
// them.
type AutoDown struct {
	// After is how long somebody must have been unreachable.
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
	if m.now.Before(m.nextDown) {
		return
	}
	was := m.troubled
	m.troubled = slices.ContainsFunc(m.toldSuspects, func(x suspect) bool { return x.verdict != Reachable })
	if _, ok := m.downing.(LeaderDowning); ok && m.leader() != m.self {
		return
	}
	if m.troubled || was {
		m.nextDown = m.now.Add(m.cfg.DowningInterval)
		d := m.downing.Decide(m.now, m.View())
		if d.YieldLease {
			m.emit(YieldLease{d.Reason})
		}
		m.down(d.Down, d.Reason)
	}
}
