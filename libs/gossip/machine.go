package gossip

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/phi"
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
	formAt   time.Time       // the first seed forms a cluster then
	nackedAt time.Time       // or then, if all other seeds know of none
	nacks    []string        // seeds that said so, since the last sign of a cluster
	target   sharding.NodeID // whom we ask to let us in, or zero
	targetBy time.Time       // until when
	nextJoin time.Time       // next question to seeds or target; as member: next announcement

	// As member.
	state      State
	digest     uint64
	peers      []peer // the other members, sorted by node
	confirmed  []sharding.NodeID
	seq        uint64 // of the last heartbeat sent
	nextBeat   time.Time
	nextGossip time.Time
	cursor     sharding.NodeID // whom we gossiped to last
	exitAt     time.Time       // when an exiting node goes anyway

	// What events told last.
	changed  bool
	told     []Member
	toldLead sharding.NodeID
}

// peer is what this node alone knows about another member.
type peer struct {
	node     sharding.NodeID
	detector phi.Detector
	// Numbers of heartbeats: the first one sent since the peer is known, the
	// last one answered, the last one before evidence that it is gone.
	firstSeq, lastSeq, goneSeq uint64
	gone                       bool // evidence, and no newer reply
	// As told by events.
	unreachable, unreachableByMe bool
	unreachableSince             time.Time
}

// New is a node that has not started yet. The configuration must be valid.
func New(cfg Config) *Machine {
	cfg.Seeds = slices.Clone(cfg.Seeds)
	return &Machine{cfg: cfg, self: cfg.Self}
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
	case Receive:
		m.receive(in)
	case Tick:
		m.tick()
	case Leave:
		m.leave()
	case DownNode:
		m.down([]sharding.NodeID{in.Node})
	case Evidence:
		m.evidence(in.Node)
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
	case Welcome:
		m.welcome(in.From, &msg.State)
	case NotMember:
		m.notMember(in.From, msg)
	case GossipStatus:
		m.gossipStatus(in.From, &msg)
	case Gossip:
		m.gossip(in.From, &msg.State)
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
		m.foundCluster(in.From)
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
		m.prune()
		m.beat()
		m.reap()
		m.autoDown()
		m.lead()
		m.round()
		m.announce()
		m.exit()
	}
}

// wasPaused makes up for a pause of this process: nobody else is to blame for
// what it did not hear in the meantime.
func (m *Machine) wasPaused(gap time.Duration) {
	for i := range m.peers {
		p := &m.peers[i]
		if !p.unreachableByMe {
			p.detector.Restart(m.now)
		}
		if p.unreachable {
			p.unreachableSince = p.unreachableSince.Add(gap)
		}
	}
	m.formAt, m.nackedAt, m.targetBy = m.formAt.Add(gap), m.nackedAt.Add(gap), m.targetBy.Add(gap)
}

// change makes a local change known: a new version that only this node has
// seen.
func (m *Machine) change(s State) {
	s.Version = s.Version.Tick(m.self.UID)
	s.Seen = []sharding.NodeID{m.self}
	m.setState(s)
	m.nextGossip = m.now
}

// setState takes over a state that this node has seen.
func (m *Machine) setState(s State) {
	m.state, m.digest, m.changed = s, s.digest(), true
	kept := m.peers[:0:0]
	for i := range s.Members {
		n := s.Members[i].Node
		if n == m.self {
			continue
		}
		if p := m.peer(n); p != nil {
			kept = append(kept, *p)
		} else {
			kept = append(kept, peer{node: n, detector: phi.New(m.cfg.Watch.Phi)})
		}
	}
	m.peers = kept
	m.confirmed = slices.DeleteFunc(m.confirmed, func(n sharding.NodeID) bool { return m.peer(n) == nil })
}

func (m *Machine) peer(n sharding.NodeID) *peer {
	i, ok := slices.BinarySearchFunc(m.peers, n, func(p peer, n sharding.NodeID) int { return p.node.Compare(n) })
	if !ok {
		return nil
	}
	return &m.peers[i]
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
	return m.state.IsRemoved(n) || ok && mem.Status == Down
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
	now := m.state.Members
	for old := m.told; len(old) > 0 || len(now) > 0; {
		switch {
		case len(now) == 0 || len(old) > 0 && memberOrder(old[0], now[0]) < 0:
			m.emit(MemberRemoved{old[0]})
			old = old[1:]
		case len(old) == 0 || memberOrder(now[0], old[0]) < 0:
			m.emit(memberEvent(now[0]))
			now = now[1:]
		default:
			if old[0].Status != now[0].Status {
				m.emit(memberEvent(now[0]))
			}
			old, now = old[1:], now[1:]
		}
	}
	m.told = m.state.Members
	for i := range m.peers {
		p := &m.peers[i]
		if byMe := m.state.Reach.Of(m.self, p.node) != Reachable; byMe != p.unreachableByMe {
			p.unreachableByMe = byMe
			m.emit(ReachabilityChanged{Node: p.node, Reachable: !byMe, ByMe: true})
		}
		if un := m.state.verdict(p.node) != Reachable; un != p.unreachable {
			p.unreachable, p.unreachableSince = un, m.now
			m.emit(ReachabilityChanged{Node: p.node, Reachable: !un})
		}
	}
	if l := m.state.leader(m.self); l != m.toldLead {
		m.toldLead = l
		m.emit(LeaderChanged{l})
	}
}

func memberEvent(mem Member) Event {
	switch mem.Status {
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
