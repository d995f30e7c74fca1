package gossip

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

type phase uint8

const (
	idle    phase = iota // not started
	seeking              // looking for a cluster to join
	member               // in one
	stopped              // left or down, for good
)

// Machine is the membership of one node. Make one with [New]; it is not safe
// for concurrent use.
type Machine struct {
	cfg  Config
	self sharding.NodeID
	now  time.Time
	out  []Output // of the step that is running

	phase    phase
	lastTick time.Time

	// While seeking.
	formAt    time.Time       // the first seed forms a cluster then
	nackedAt  time.Time       // or then, if all other seeds know of none
	heardAt   time.Time       // the last sign of a cluster
	nacks     []string        // seeds that said so, since the last sign of a cluster
	target    sharding.NodeID // whom we ask to let us in, or zero
	targetEra uint64          // our era of admission in its cluster
	targetBy  time.Time       // until when we ask it
	heardOf   []heardOf       // clusters, in the order in which we heard of them first
	nextJoin  time.Time       // next question to seeds or target; as member: next announcement
	via       string          // asked instead of the seeds, on request
	sought    time.Time       // since when
	refusal   string          // why we were not let in last

	// As member.
	state      State
	eraSince   time.Time // when this node came into its era
	sums       sums      // of the state
	digest     uint64    // of the sums
	peers      []peer    // whom this node watches, sorted by node
	former     bool      // some of them only until they answer
	ringEnd    uint64    // how far on the ring the last one of those wanted is
	confirmed  []sharding.NodeID
	seq        uint64 // of the last heartbeat sent
	beatSeq    uint64 // of the last heartbeat sent to all peers
	illness    int    // of this node, from 0 to ill
	draws      uint64 // random numbers drawn
	nextBeat   time.Time
	nextGossip time.Time
	passOn     time.Time     // not before then for news from others
	nextDown   time.Time     // when the downing provider is asked again
	stuckAt    time.Time     // since when this leader waits for convergence
	outlaws    []Quarantine  // oldest first
	disputes   []dispute     // oldest first
	asked      bool          // to leave
	exitAt     time.Time     // when an exiting node goes anyway
	downing    Downing       // nil: only operators down members
	troubled   bool          // somebody was unreachable when downing was asked last
	lease      Lease         // as told last
	paused     time.Duration // how long this process was found paused in all

	observed tallies   // of the state
	suspects []suspect // of the state
	inOrder  []int32   // places of its members, sorted by node; nil until needed

	// What events told last.
	changed      bool
	told         []*Member
	toldSuspects []suspect
	since        []time.Time // when each of them became unreachable; zero if only some observe it
	toldLead     sharding.NodeID
}

// New is a node that has not started yet. The configuration must be valid.
func New(cfg Config) *Machine {
	cfg.Seeds = slices.Clone(cfg.Seeds)
	m := &Machine{cfg: cfg, self: cfg.Self}
	if cfg.Downing != nil {
		m.downing = cfg.Downing.Clone()
	}
	return m
}

// Step applies in at now and appends to out what the driver must do, in that
// order.
func (m *Machine) Step(now time.Time, in Input, out []Output) []Output {
	if now.After(m.now) { // time never goes back
		m.now = now
	}
	m.out = out
	switch in := in.(type) {
	case Start:
		m.start()
	case SetSeeds:
		m.setSeeds(in.Seeds)
	case Form:
		m.formWhenAlone()
	case Receive:
		m.receive(in)
	case Tick:
		m.tick()
	case JoinVia:
		m.joinVia(in.Addr)
	case Leave:
		m.leave()
	case LeaveNode:
		m.leaveNode(in.Node)
	case RemoveNode:
		m.remove(in.Node)
	case DownNode:
		m.down([]sharding.NodeID{in.Node}, "")
	case Evidence:
		m.evidence(in.Node)
	case Lease:
		m.lease = in
	}
	m.publish()
	out, m.out = m.out, nil
	return out
}

func (m *Machine) receive(in Receive) {
	if m.phase == idle || m.phase == stopped || in.From.Addr == m.self.Addr || in.From.UID == 0 {
		return
	}
	if in.To.UID != 0 && in.To.UID != m.self.UID {
		m.misdirected(in)
		return
	}
	switch msg := in.Msg.(type) {
	case Heartbeat:
		if !m.disown(in.From) {
			m.send(in.From, HeartbeatReply(msg))
		}
	case HeartbeatReply:
		m.heartbeatReply(in.From, msg.Seq)
	case InitJoin:
		m.initJoin(in.From)
	case InitJoinAck:
		m.initJoinAck(in.From, msg.Claim)
	case InitJoinNack:
		m.initJoinNack(in.From)
	case Join:
		m.letIn(in.From, msg)
	case JoinRefused:
		m.joinRefused(in.From, msg)
	case LeaveRequest:
		m.leaveRequest(in.From)
	case Welcome:
		m.welcome(in.From, &msg.State)
	case NotMember:
		m.notMember(in.From, msg)
	case GossipStatus:
		if !m.expired(in) {
			m.gossipStatus(in.From, &msg)
		}
	case Gossip:
		if !m.expired(in) {
			m.gossip(in.From, &msg)
		}
	case ExitingConfirmed:
		m.exitingConfirmed(in.From)
	}
}

// misdirected handles a message to an earlier incarnation at this address. Its
// sender is told who lives here now; and it is in a cluster.
func (m *Machine) misdirected(in Receive) {
	switch msg := in.Msg.(type) {
	case Heartbeat:
		m.send(in.From, HeartbeatReply(msg))
	case Gossip, GossipStatus:
	default:
		return
	}
	if m.phase == seeking {
		m.signOfCluster(m.now)
		if m.target.IsZero() && (m.via == "" || m.via == in.From.Addr) {
			m.send(in.From, InitJoin{})
		}
	}
}

func (m *Machine) tick() {
	gap := m.now.Sub(m.lastTick)
	if !m.lastTick.IsZero() && gap >= m.cfg.LateTick && !mutant.On("late-tick") {
		m.wasPaused(gap)
	}
	m.lastTick = m.now
	switch m.phase {
	case seeking:
		m.seek()
	case member:
		m.releaseOld()
		m.beat()
		m.reap()
		m.askDowning()
		m.lead()
		m.round()
		m.announce()
		m.exit()
	}
}

// wasPaused makes up for a pause of this process: nobody else is to blame for
// what it did not hear in the meantime.
func (m *Machine) wasPaused(gap time.Duration) {
	mine := m.state.Reach.row(m.self)
	for i := range m.peers {
		if p := &m.peers[i]; verdictIn(mine, p.node) == Reachable {
			p.detector.Restart(m.now)
		}
	}
	for i, t := range m.since {
		if !t.IsZero() {
			m.since[i] = t.Add(gap)
		}
	}
	m.paused += gap
	for _, t := range []*time.Time{&m.formAt, &m.nackedAt, &m.heardAt, &m.targetBy, &m.sought, &m.stuckAt} {
		if !t.IsZero() {
			*t = t.Add(gap)
		}
	}
}

// change makes a local change known: a new version that only this node has
// seen.
func (m *Machine) change(s State) {
	s.Version = s.Version.Tick(m.self.UID)
	if !mutant.On("seen-reset") {
		s.Seen = nil
	}
	s.Seen = s.Seen.Union(s.seenBy(m.self))
	m.setState(s)
	m.nextGossip = m.now
}

// setState takes over a state that this node has seen.
func (m *Machine) setState(s State) {
	p := m.sums
	p.update(&m.state, &s)
	m.setSummed(s, &p)
}

// setSummed is setState for a state whose sums are known.
func (m *Machine) setSummed(s State, p *sums) {
	m.sums, m.digest = *p, p.digest(s.Cluster, s.Era)
	if s.Era != m.state.Era {
		m.eraSince = m.now
	}
	m.observed.follow(&m.state, &s, m.self)
	m.suspects = m.observed.suspects()
	if !sameNodes(m.state.Members, s.Members) {
		m.inOrder = nil
	}
	m.state, m.changed = s, true
	m.confirmed = slices.DeleteFunc(m.confirmed, func(n sharding.NodeID) bool {
		_, ok := s.Member(n)
		return !ok
	})
}

func (m *Machine) send(to sharding.NodeID, msg Msg) { m.out = append(m.out, Send{to, msg}) }

func (m *Machine) emit(e Event) { m.out = append(m.out, e) }

// stop ends everything. The events of what happened before come first.
func (m *Machine) stop(last Event) {
	if m.phase == stopped {
		return
	}
	m.publish()
	m.phase = stopped
	m.emit(last)
}

// outcast tells whether a node is down or removed, as far as this node knows.
func (m *Machine) outcast(n sharding.NodeID) bool {
	if m.phase != member {
		return false
	}
	mem, ok := m.state.Member(n)
	return m.state.IsRemoved(n) || ok && mem.Status == Down || m.quarantined(n)
}

// disown answers an outcast that it is one.
func (m *Machine) disown(n sharding.NodeID) bool {
	if !m.outcast(n) {
		return false
	}
	m.send(n, NotMember{Claim: m.state.claim()})
	return true
}

// publish tells the difference between the membership now and as told last.
func (m *Machine) publish() {
	if !m.changed || m.phase == stopped {
		return
	}
	m.changed = false
	var news touched
	var came []string // names
	differences(m.told, m.state.Members, memberOrder, nil, func(was, is *Member) {
		switch {
		case is == nil:
			m.emit(MemberRemoved{*was})
			news.add(was.Node, m.onRing(was.Node))
		case was == nil || was.Status != is.Status:
			m.emit(memberEvent(*is))
			news.add(is.Node, was == nil && m.onRing(is.Node))
			if (is.Status == Up || is.Status == WeaklyUp) && len(m.told) > 0 { // not before this node came
				came = append(came, is.Name)
			}
		}
	})
	m.told = m.state.Members
	m.publishReach(&news)
	m.publishNames(came)
	if l := m.nextLeader(news.nodes); l != m.toldLead {
		m.toldLead = l
		m.emit(LeaderChanged{l})
	}
	if news.ring {
		m.rewatch()
	}
}

// touched are nodes whose status or reachability is another, and whether that
// may change whom this node watches.
type touched struct {
	nodes []sharding.NodeID
	ring  bool
}

func (t *touched) add(n sharding.NodeID, ring bool) {
	t.nodes, t.ring = append(t.nodes, n), t.ring || ring
}

// leader is who leads as this node sees it.
func (m *Machine) leader() sharding.NodeID {
	if m.changed {
		return m.state.leader(m.self, m.suspects)
	}
	return m.toldLead
}

// nextLeader is who leads after some nodes changed: one of them, or who did,
// unless that one is among them.
func (m *Machine) nextLeader(touched []sharding.NodeID) sharding.NodeID {
	best, ok := m.state.Member(m.toldLead)
	if !ok || slices.Contains(touched, m.toldLead) {
		return m.state.leader(m.self, m.suspects)
	}
	for _, n := range touched {
		if x, ok := m.state.Member(n); ok && byLeaderRank(x, best) < 0 && x.mayLead(m.self, m.suspects) {
			best = x
		}
	}
	return best.Node
}

// publishReach tells who can be reached now and could not before, and the
// other way round. Members who are no more are not told about.
func (m *Machine) publishReach(news *touched) {
	if slices.Equal(m.toldSuspects, m.suspects) {
		return
	}
	old, since := m.toldSuspects, m.since
	m.toldSuspects, m.since = m.suspects, make([]time.Time, 0, len(m.suspects))
	tell := func(was, now suspect) {
		if was != now {
			news.add(now.node, m.onRing(now.node))
			m.tellReach(was, now)
		}
	}
	for _, x := range m.suspects {
		for len(old) > 0 && byUID(old[0].node, x.node) < 0 {
			tell(old[0], suspect{node: old[0].node})
			old, since = old[1:], since[1:]
		}
		before, at := suspect{node: x.node}, time.Time{}
		if len(old) > 0 && old[0].node == x.node {
			before, at = old[0], since[0]
			old, since = old[1:], since[1:]
		}
		switch {
		case x.verdict == Reachable:
			at = time.Time{}
		case before.verdict == Reachable:
			at = m.now
		}
		m.since = append(m.since, at)
		tell(before, x)
	}
	for _, x := range old {
		tell(x, suspect{node: x.node})
	}
}

func (m *Machine) tellReach(was, now suspect) {
	if _, ok := m.state.Member(now.node); !ok || now.node == m.self {
		return
	}
	if byMe := now.mine != Reachable; byMe != (was.mine != Reachable) {
		m.emit(ReachabilityChanged{Node: now.node, Reachable: !byMe, ByMe: true})
	}
	if un := now.verdict != Reachable; un != (was.verdict != Reachable) {
		m.emit(ReachabilityChanged{Node: now.node, Reachable: !un})
	}
}

func memberEvent(mem Member) Event {
	switch mem.Status {
	case WeaklyUp:
		return MemberWeaklyUp{mem}
	case Up:
		return MemberUp{mem}
	case Leaving:
		return MemberLeaving{mem}
	case Exiting:
		return MemberExited{mem}
	case Down:
		return MemberDowned{mem}
	}
	return MemberJoined{mem}
}
