package gossip

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

type phase uint8

const (
	idle    phase = iota // not started
	seeking              // looking for a cluster to join
	member               // in one
	stopped              // left or down, permanently
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
	formAt          time.Time       // when this node forms a cluster, if it is the first seed
	formAtIfNacked  time.Time       // when it does so if all other seeds are in nacks
	lastHeardAt     time.Time       // when this node last heard of any cluster
	nacks           []string        // seeds that said, after lastHeardAt, that they are in no cluster
	joinTarget      sharding.NodeID // the member that gets the request to admit this node; zero: the seeds get it
	heardIn         uint64          // the number of the era in which this node first heard of joinTarget's cluster
	joinTargetUntil time.Time       // when joinTarget is given up
	knownClusters   []knownCluster  // in the order in which this node first heard of them
	nextJoin        time.Time       // time of the next request to seeds or joinTarget; as member: of the next announcement
	viaAddr         string          // asked instead of the seeds, see JoinVia
	seekingSince    time.Time
	refusal         string // the last reason for not being admitted

	// As member.
	state                   State
	eraSince                time.Time         // when this node entered its era
	sums                    sums              // of the state
	digest                  uint64            // of the sums
	peers                   []peer            // the members that this node watches, sorted by node
	watchingFormerReceivers bool              // some peers are no longer receivers of its heartbeats; they are watched until they answer
	receiversEnd            uint64            // distance on the ring from this node to the last receiver; see ringEnd
	confirmedExits          []sharding.NodeID // members that have confirmed their exit
	seq                     uint64            // of the last heartbeat sent
	localHealth             int               // 0 is healthy, maxLocalHealth the worst
	drawCount               uint64            // random numbers drawn
	nextHeartbeat           time.Time
	nextGossip              time.Time
	relayAt                 time.Time     // the earliest time to pass on news from others
	nextDowning             time.Time     // time of the next call of the downing provider
	notConvergedSince       time.Time     // since when this leader waits for convergence
	banned                  []Ban         // oldest first
	disputes                []dispute     // oldest first
	leaveAsked              bool          // LeaveRequested was emitted
	leaveAt                 time.Time     // when a leaving node stops waiting for the others to agree
	exitAt                  time.Time     // when an exiting node stops waiting for its removal
	downing                 Downing       // nil: only operators down members
	hadUnreachable          bool          // a member was unreachable at the last look at downing
	lease                   Lease         // the last one reported by the driver
	paused                  time.Duration // total time that this process was found paused

	observed     tallies   // of the state
	suspects     []suspect // the members that some observation in the state calls unreachable
	sortedPlaces []int32   // indexes of the members in the state, sorted by node; nil until needed

	// What the events so far have announced.
	unpublished       bool // the state has changed since the last publish
	published         []*Member
	publishedSuspects []suspect // the suspects at the last publish, including those without an emitted event
	// unreachableSince has, for each of publishedSuspects, since when it is unreachable for the
	// cluster; zero: it is reachable for the cluster (suspect.forCluster).
	unreachableSince []time.Time
	publishedLeader  sharding.NodeID
}

// New returns a node that has not started yet. The configuration must be valid.
func New(cfg Config) *Machine {
	cfg.Seeds = slices.Clone(cfg.Seeds)
	m := &Machine{cfg: cfg, self: cfg.Self}
	if cfg.Downing != nil {
		m.downing = cfg.Downing.Clone()
	}
	return m
}

// Step applies one input at time now, and appends to out what the driver must
// do, in that order.
func (m *Machine) Step(now time.Time, in Input, out []Output) []Output {
	if now.After(m.now) { // time never goes back
		m.now = now
	}
	m.out = out
	m.notePause(in)
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
		m.heartbeat(in.From, msg)
	case HeartbeatReply:
		m.answered(in.From, msg.Seq)
	case InitJoin:
		m.initJoin(in.From)
	case InitJoinAck:
		m.initJoinAck(in.From, msg.Seniority)
	case InitJoinNack:
		m.initJoinNack(in.From)
	case Join:
		m.admit(in.From, msg)
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

// misdirected handles a message to an earlier incarnation at this address. A heartbeat is
// answered: the answer shows which incarnation lives here now. A heartbeat or gossip also
// shows that its sender is in a cluster.
func (m *Machine) misdirected(in Receive) {
	switch msg := in.Msg.(type) {
	case Heartbeat:
		m.send(in.From, HeartbeatReply{msg.Seq})
	case Gossip, GossipStatus:
	default:
		return
	}
	if m.phase == seeking {
		m.delayForming(m.now)
		if m.joinTarget.IsZero() && (m.viaAddr == "" || m.viaAddr == in.From.Addr) {
			m.send(in.From, InitJoin{})
		}
	}
}

func (m *Machine) tick() {
	m.lastTick = m.now
	switch m.phase {
	case seeking:
		m.seek()
	case member:
		m.expireBans()
		m.sendHeartbeats()
		m.updateReachability()
		m.askDowning()
		m.lead()
		m.round()
		m.announce()
		m.depart()
	}
}

// notePause notices that this process was paused. After a pause messages may come before the first tick: the pause is
// noticed with the first input, because the timers that a message sets must not be moved on.
func (m *Machine) notePause(in Input) {
	//mutant:do pause-first if _, isTick := in.(Tick); !isTick { return }
	gap := m.now.Sub(m.lastTick)
	// Invariant: a process that was paused does not suspect others because of its own pause.
	// Guarded by: `gossip.tick`: a late tick restarts the failure detectors.
	// Mutants: late-tick
	if !m.lastTick.IsZero() && gap >= m.cfg.LateTick { //mutant:false late-tick
		m.wasPaused(gap)
		m.lastTick = m.now
	}
}

// wasPaused moves timers on after a pause of this process: that it heard nothing meanwhile
// does not mean that other nodes were silent.
func (m *Machine) wasPaused(gap time.Duration) {
	mine := m.state.Reach.verdictsBy(m.self)
	for i := range m.peers {
		if p := &m.peers[i]; verdictIn(mine, p.node) == Reachable {
			p.detector.Restart(m.now)
		}
	}
	for i, t := range m.unreachableSince {
		if !t.IsZero() {
			m.unreachableSince[i] = t.Add(gap)
		}
	}
	m.paused += gap
	for _, t := range []*time.Time{&m.formAt, &m.formAtIfNacked, &m.lastHeardAt, &m.joinTargetUntil, &m.seekingSince, &m.notConvergedSince, &m.leaveAt} {
		if !t.IsZero() {
			*t = t.Add(gap)
		}
	}
}

// change applies a change made by this node: the result is a new version that
// only this node has seen.
func (m *Machine) change(s State) {
	s.Version = s.Version.Tick(m.self.UID)
	s.Seen = nil //mutant:skip seen-reset
	s.Seen = s.Seen.Union(s.seenBy(m.self))
	m.setState(s)
	m.nextGossip = m.now
}

// setState replaces the state by another one, and updates all that is derived
// from it.
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
		m.sortedPlaces = nil
	}
	m.state, m.unpublished = s, true
	m.confirmedExits = slices.DeleteFunc(m.confirmedExits, func(n sharding.NodeID) bool {
		_, ok := s.Member(n)
		return !ok
	})
}

func (m *Machine) send(to sharding.NodeID, msg Msg) { m.out = append(m.out, Send{to, msg}) }

func (m *Machine) emit(e Event) { m.out = append(m.out, e) }

// stop ends this machine. What happened before is published first.
func (m *Machine) stop(last Event) {
	if m.phase == stopped {
		return
	}
	m.publish()
	m.phase = stopped
	m.emit(last)
}

// isExcluded reports whether this node knows another one as down, removed or
// banned.
func (m *Machine) isExcluded(n sharding.NodeID) bool {
	if m.phase != member {
		return false
	}
	mem, ok := m.state.Member(n)
	return m.state.IsRemoved(n) || ok && mem.Status == Down || m.isBanned(n)
}

// rejectExcluded reports whether a node is excluded, and if so, notifies that node.
func (m *Machine) rejectExcluded(n sharding.NodeID) bool {
	if !m.isExcluded(n) {
		return false
	}
	m.send(n, NotMember{Seniority: m.state.seniority()})
	return true
}

// publish emits the difference between the membership now and as published last.
func (m *Machine) publish() {
	if !m.unpublished || m.phase == stopped {
		return
	}
	m.unpublished = false
	var changed nodeChanges
	var cameUp []string // the names of members that have come up
	differences(m.published, m.state.Members, memberOrder, nil, func(was, is *Member) {
		switch {
		case is == nil:
			m.emit(MemberRemoved{*was})
			changed.add(was.Node, m.affectsPeers(was.Node))
		case was == nil || was.Status != is.Status:
			m.emit(memberEvent(*is))
			changed.add(is.Node, was == nil && m.affectsPeers(is.Node))
			if (is.Status == Up || is.Status == WeaklyUp) && len(m.published) > 0 { // this node was a member already
				cameUp = append(cameUp, is.Name)
			}
		}
	})
	m.published = m.state.Members
	m.publishReachability(&changed)
	m.publishNames(cameUp)
	if l := m.nextLeader(changed.nodes); l != m.publishedLeader {
		m.publishedLeader = l
		m.emit(LeaderChanged{l})
	}
	if changed.peers {
		m.rewatch()
	}
}

// nodeChanges are the nodes whose status or reachability has changed. peers is true if this may change
// which members this node watches.
type nodeChanges struct {
	nodes []sharding.NodeID
	peers bool
}

func (c *nodeChanges) add(n sharding.NodeID, peers bool) {
	c.nodes, c.peers = append(c.nodes, n), c.peers || peers
}

// leader returns the current leader as this node sees it. publishedLeader is outdated if the
// state has changed since the last publish.
func (m *Machine) leader() sharding.NodeID {
	if m.unpublished {
		return m.state.leader(m.self, m.suspects)
	}
	return m.publishedLeader
}

// nextLeader returns the leader after some nodes changed. If the current leader did not
// change, only a changed node can replace it.
func (m *Machine) nextLeader(changed []sharding.NodeID) sharding.NodeID {
	best, ok := m.state.Member(m.publishedLeader)
	if !ok || slices.Contains(changed, m.publishedLeader) {
		return m.state.leader(m.self, m.suspects)
	}
	for _, n := range changed {
		if x, ok := m.state.Member(n); ok && byLeaderRank(x, best) < 0 && x.mayLead(m.self, m.suspects) {
			best = x
		}
	}
	return best.Node
}

// publishReachability emits which members became reachable or unreachable.
// Nothing is emitted about nodes that are not members any more.
func (m *Machine) publishReachability(changed *nodeChanges) {
	if slices.Equal(m.publishedSuspects, m.suspects) {
		return
	}
	old, since := m.publishedSuspects, m.unreachableSince
	m.publishedSuspects, m.unreachableSince = m.suspects, make([]time.Time, 0, len(m.suspects))
	compare := func(was, now suspect) {
		if was != now {
			changed.add(now.node, m.affectsPeers(now.node))
			m.emitReachability(was, now)
		}
	}
	for _, x := range m.suspects {
		for len(old) > 0 && byUID(old[0].node, x.node) < 0 {
			compare(old[0], suspect{node: old[0].node}) // reachable again for all
			old, since = old[1:], since[1:]
		}
		before, at := suspect{node: x.node}, time.Time{}
		if len(old) > 0 && old[0].node == x.node {
			before, at = old[0], since[0]
			old, since = old[1:], since[1:]
		}
		switch {
		case x.forCluster == Reachable:
			at = time.Time{}
		case before.forCluster == Reachable:
			at = m.now
		}
		m.unreachableSince = append(m.unreachableSince, at)
		compare(before, x)
	}
	for _, x := range old {
		compare(x, suspect{node: x.node})
	}
}

func (m *Machine) emitReachability(was, now suspect) {
	if _, ok := m.state.Member(now.node); !ok || now.node == m.self {
		return
	}
	if byMe := now.mine != Reachable; byMe != (was.mine != Reachable) {
		m.emit(ReachabilityChanged{Node: now.node, Reachable: !byMe, ByMe: true})
	}
	if un := now.forCluster != Reachable; un != (was.forCluster != Reachable) {
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
