package gossip

import (
	"cmp"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Gossip is push-pull, status first. A node that receives the status of a state that differs
// from its own answers with the hashes of the parts of its own state. The sender of the
// status then sends its parts that differ, and gets back what these lack. Nodes that hold
// the same state only tell each other which members have seen it.

// round gossips with one member when it is time, and with a second one while a change spreads. Periodically
// it also tries an unreachable member and a seed: otherwise parts of the cluster that do not know each
// other any more would never meet (Akka Cluster specification 2.0, "Gossip protocol").
func (m *Machine) round() {
	if m.phase != member || m.now.Before(m.nextGossip) {
		return
	}
	m.relayAt = m.now.Add(m.cfg.BusyInterval / 2)
	m.nextGossip = m.now.Add(m.cfg.GossipInterval)
	more := 0
	if m.busy() {
		m.nextGossip = m.now.Add(m.cfg.BusyInterval)
		more = 1
	}
	if m.publishedLeader == m.self {
		// All others wait until the leader knows that they have seen the state,
		// and then for what it decides. Every member sends heartbeats to
		// MonitoredBy others, so as much gossip does not make the leader a hot spot.
		more = m.cfg.MonitoredBy
	}
	to, ok := m.nextTarget()
	if ok {
		m.sendStatus(to)
	}
	m.sendStatusToUnseen(more, to)
	all := len(m.state.Members)
	lost := m.unreachableMembers()
	if m.chance(float64(len(lost)) / float64(all-len(lost)+1)) {
		m.sendStatus(lost[m.draw(len(lost))])
	}
	if slices.Contains(m.cfg.Seeds, to.Addr) || !m.chance(float64(len(m.cfg.Seeds))/float64(all)) {
		return
	}
	if seeds := m.seeds(); len(seeds) > 0 {
		m.sendStatus(seeds[m.draw(len(seeds))])
	}
}

// sendStatusToUnseen sends the status to some members that have not seen the
// state, as far as this node knows.
func (m *Machine) sendStatusToUnseen(most int, told ...sharding.NodeID) {
	for range most {
		to, ok := m.drawMember(true)
		if !ok {
			return
		}
		if !slices.Contains(told, to) {
			m.sendStatus(to)
			told = append(told, to)
		}
	}
}

// unreachableMembers are the members that are not down and that this node cannot
// reach.
func (m *Machine) unreachableMembers() []sharding.NodeID {
	var out []sharding.NodeID
	for _, r := range m.state.Reach.verdictsBy(m.self) {
		if mem, ok := m.state.Member(r.Subject); ok && r.Subject != m.self && mem.Status != Down && r.Verdict == Unreachable {
			out = append(out, r.Subject)
		}
	}
	return out
}

// seeds are the members at seed addresses that this node can reach.
func (m *Machine) seeds() []sharding.NodeID {
	var out []sharding.NodeID
	mine := m.state.Reach.verdictsBy(m.self)
	for _, addr := range m.cfg.Seeds {
		for _, mem := range m.state.membersAt(addr) {
			if m.reaches(mem, mine) {
				out = append(out, mem.Node)
			}
		}
	}
	slices.SortFunc(out, sharding.NodeID.Compare)
	return slices.Compact(out)
}

// reaches reports whether another member, which is not down, can be reached as
// far as this node observes.
func (m *Machine) reaches(mem *Member, mine []SubjectVerdict) bool {
	return mem.Status != Down && mem.Node != m.self && verdictIn(mine, mem.Node) == Reachable
}

// busy reports whether rounds should follow each other faster, because a change
// spreads: a member is down, or fewer than half of the members have seen the
// state, as in Akka. The leader, and every node of a cluster so small that all
// watch each other, stays busy until all have seen it.
func (m *Machine) busy() bool {
	all, seen := len(m.state.Members), m.state.Seen.count()
	down := slices.ContainsFunc(m.state.Members, func(mem *Member) bool { return mem.Status == Down })
	return needsSpeedup(all, seen, down) || seen < all && (all <= m.cfg.MonitoredBy+1 || m.publishedLeader == m.self)
}

func needsSpeedup(members, seen int, anybodyDown bool) bool { return anybodyDown || seen < members/2 }

// nextTarget draws one of the members that this node can reach: with the
// probability of [preference] one that has not seen the state, if there is any.
func (m *Machine) nextTarget() (sharding.NodeID, bool) {
	all := len(m.state.Members)
	unseen := m.chance(preference(m.cfg.PreferUnseen, m.cfg.PreferUnseenUpTo, all))
	to, ok := m.drawMember(unseen)
	if !ok && unseen {
		to, ok = m.drawMember(false)
	}
	return to, ok
}

// drawMember draws one of the members that this node can reach; with unseen, only one that
// has not seen the state. At first it draws from all members and checks afterwards: mostly
// most members fit, and there may be thousands.
func (m *Machine) drawMember(unseen bool) (sharding.NodeID, bool) {
	mine := m.state.Reach.verdictsBy(m.self)
	fits := func(i int) bool {
		return !(unseen && m.state.Seen.Has(i)) && m.reaches(m.state.Members[i], mine)
	}
	for range min(4, len(m.state.Members)) {
		if i := m.draw(len(m.state.Members)); fits(i) {
			return m.state.Members[i].Node, true
		}
	}
	var places []int32
	for i := range m.state.Members {
		if fits(i) {
			places = append(places, int32(i))
		}
	}
	if len(places) == 0 {
		return sharding.NodeID{}, false
	}
	return m.state.Members[places[m.draw(len(places))]].Node, true
}

// preference returns the probability that a round goes to a member that has not seen the state. It is p in
// clusters of up to upTo members, and then falls to a tenth of p at three times that size: in large
// clusters too many nodes would otherwise choose the same few members that have not seen it (Akka Cluster,
// gossip-different-view-probability).
func preference(p float64, upTo, members int) float64 {
	beyond := float64(members-upTo) / float64(2*upTo)
	return p * (1 - 0.9*min(max(beyond, 0), 1))
}

// draw returns the next random number, below n.
func (m *Machine) draw(n int) int {
	m.drawCount++
	return int(sharding.Draw(m.cfg.Seed, m.self.UID, m.drawCount) >> 1 % uint64(n))
}

// chance draws whether something with probability p happens.
func (m *Machine) chance(p float64) bool {
	const fine = 1 << 30
	return p > 0 && (p >= 1 || m.draw(fine) < int(p*fine))
}

func (m *Machine) sendStatus(to sharding.NodeID) {
	m.send(to, GossipStatus{Cluster: m.state.Cluster, Era: m.state.Era, Digest: m.digest, Seen: m.state.Seen})
}

// sendParts sends what this node holds in some parts of a division.
func (m *Machine) sendParts(to sharding.NodeID, parts int, which Bits, answer bool) {
	s := m.state.fragment(parts, which)
	s.Seen = m.state.Seen
	m.send(to, Gossip{State: s, Digest: m.digest, Parts: parts, Which: which, Answer: answer})
}

// whole reports whether this gossip carries a whole state.
func (g *Gossip) whole() bool { return g.Parts == 1 && g.Which.Has(0) }

// whole returns gossip that carries the whole state.
func (s *State) whole() Gossip {
	return Gossip{State: *s, Digest: s.digest(), Parts: 1, Which: allBits(1)}
}

// sendPartOf sends, without being asked, the part of the state that contains subject.
func (m *Machine) sendPartOf(subject, to sharding.NodeID) {
	m.sendParts(to, maxParts, Bits(nil).With(partOf(subject.UID)), false)
}

// expired reports whether gossip has waited too long in this process, so that it must be dropped. A node
// that cannot keep up skips it, because newer gossip is queued after it.
func (m *Machine) expired(in Receive) bool {
	if in.Waited <= m.cfg.GossipTTL { //mutant:true gossip-ttl
		return false
	}
	m.emit(Expired{in.From, in.Waited})
	return true
}

// rejectOutsider reports whether gossip comes from outside the cluster: from an excluded node or another
// cluster. It notifies the sender.
func (m *Machine) rejectOutsider(from sharding.NodeID, cluster Founding) bool {
	if m.phase != member {
		return true
	}
	if cluster != m.state.Cluster {
		m.send(from, NotMember{Seniority: m.state.seniority()})
		return true
	}
	return m.rejectExcluded(from)
}

func (m *Machine) gossipStatus(from sharding.NodeID, msg *GossipStatus) {
	parts := len(msg.Parts)
	if parts > maxParts || parts&(parts-1) != 0 {
		m.emit(Refused{from, "gossip status: the number of parts is not a power of two, or is too high"})
		return
	}
	if m.rejectOutsider(from, msg.Cluster) || m.handleOtherEra(from, msg.Era) {
		return
	}
	switch {
	case msg.Digest == m.digest:
		m.sameState(from, msg.Seen)
	case parts == 0:
		parts = partsFor(len(m.state.Members))
		m.send(from, GossipStatus{Cluster: m.state.Cluster, Era: m.state.Era, Digest: m.digest, Parts: m.sums.partSums(parts)})
	default:
		var differ Bits
		for i, sum := range m.sums.partSums(parts) {
			if sum != msg.Parts[i] {
				differ = differ.With(i)
			}
		}
		if differ == nil {
			differ = allBits(parts) // short hashes may be equal by chance
		}
		m.sendParts(from, parts, differ, false)
	}
}

// sameState handles the seen set of a node that holds the same state: it unites the sets, and replies to
// the sender if the sender lacked something.
func (m *Machine) sameState(from sharding.NodeID, seen Bits) {
	if !seen.Below(len(m.state.Members)) {
		m.emit(Refused{from, "gossip: seen by more than there are members"})
		return
	}
	theirs := seen.Union(m.state.seenBy(from))
	if !m.state.Seen.Includes(theirs) {
		m.state.Seen = m.state.Seen.Union(theirs)
	}
	if !theirs.Includes(m.state.Seen) {
		m.sendStatus(from)
	}
}

func (m *Machine) gossip(from sharding.NodeID, msg *Gossip) {
	if why := msg.check(m.cfg.MaxMembers); why != "" {
		m.emit(Refused{from, "gossip: " + why})
		return
	}
	if m.rejectOutsider(from, msg.State.Cluster) {
		return
	}
	base := m.state
	if msg.State.Era.follows(base.Era) && msg.whole() {
		base = base.advancedTo(&msg.State)
	} else if m.handleOtherEra(from, msg.State.Era) {
		return
	}
	joined := base.merge(&msg.State)
	both := m.sums
	both.update(&m.state, &joined)
	digest := both.digest(joined.Cluster, joined.Era)
	seen := joined.seenBy(m.self)
	if digest == msg.Digest && msg.State.Seen.Below(len(joined.Members)) {
		seen = msg.State.Seen.Union(joined.seenBy(m.self, from))
	}
	taken := digest != m.digest
	if taken {
		m.adopt(joined, &both, seen)
	}
	if m.phase != member {
		return
	}
	lacking := lacks(&msg.State, &joined, msg)
	switch {
	case digest == msg.Digest && taken:
		m.sendStatus(from) // tells it that we have seen the state
	case digest == msg.Digest:
		m.sameState(from, msg.State.Seen)
	case lacking != nil && !msg.Answer:
		m.sendParts(from, msg.Parts, lacking, true)
	}
}

// lacks are the parts, among those sent, in which our state has more than theirs.
func lacks(theirs, ours *State, msg *Gossip) Bits {
	sent := ours.fragment(msg.Parts, msg.Which)
	out := make(Bits, (msg.Parts+7)/8)
	differ := func(u sharding.NodeUID) {
		i := partOf(u) / (maxParts / msg.Parts)
		out[i>>3] |= 1 << (i & 7)
	}
	differences(theirs.Members, sent.Members, memberOrder, (*Member).equal, func(was, is *Member) { differ(cmp.Or(was, is).Node.UID) })
	differences(theirs.Reach, sent.Reach, observerOrder, sameObserver, func(was, is *Observer) { differ(cmp.Or(was, is).Node.UID) })
	differences(theirs.Tombstones, sent.Tombstones, tombstoneOrder, nil, func(was, is Tombstone) { differ(cmp.Or(was, is).Node.UID) })
	differences(theirs.Version, sent.Version, clockOrder, nil, func(was, is clockEntry) { differ(cmp.Or(was, is).Node) })
	if out.count() == 0 {
		return nil
	}
	return out
}

// check describes the fault in gossip from another node, or returns "".
func (g *Gossip) check(maxMembers int) string {
	if g.Parts < 1 || g.Parts > maxParts || g.Parts&(g.Parts-1) != 0 || !g.Which.Below(g.Parts) {
		return "these are no parts of a state"
	}
	return g.State.check(maxMembers)
}

// adopt replaces the state by one that includes news from others. The machine
// stops if this node is not a member in it, or down.
func (m *Machine) adopt(s State, p *sums, seen Bits) {
	exiting := m.status() == Exiting
	s.Seen = seen
	m.setSummed(s, p)
	if m.relayAt.Before(m.nextGossip) {
		m.nextGossip = m.relayAt // what comes until then goes with it
	}
	self, ok := m.state.Member(m.self)
	switch {
	case !ok && exiting:
		m.stop(Left{})
	case !ok:
		m.stop(SelfDowned{"removed from the cluster"})
	case self.Status == Down:
		m.stop(SelfDowned{"declared down"})
	}
}

// status is this node's own, 0 if it is not a member.
func (m *Machine) status() Status {
	if self, ok := m.state.Member(m.self); ok {
		return self.Status
	}
	return 0
}
