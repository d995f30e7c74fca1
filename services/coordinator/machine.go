package coordinator

import (
	"cmp"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Machine is one coordinator, active or standby. It is not safe for concurrent
// use. The membership is kept by standbys too; everything else belongs to one
// term.
type Machine struct {
	cfg Config
	now time.Time
	out []Output // of the Step under way

	active bool
	term   sharding.Term // the newest term held
	known  Active        // the coordinator that a standby believes to be active
	// cluster is whose the journal is, and so that of the regions; 0: not known.
	cluster sharding.ClusterID
	// generation is that of the journal that holds the facts; 0: not known.
	generation sharding.Generation
	since      time.Time // start of the term

	// recovered: the owners found in the facts had their chance to register.
	recovered bool
	awaited   []sharding.NodeID // owners and successors that have not, sorted
	// open: enough regions have registered to begin allocating.
	open bool

	regions []region     // members, sorted by node
	types   []*typeTable // sorted by type
	// hostsDue is when a type becomes unhosted unless a region registers with it; zero:
	// none will.
	hostsDue time.Time
	// drained are the regions that an operator wants empty, sorted.
	drained  []sharding.NodeID
	steering steering // what operators want besides
	// target is the version that a rollout leads to, and targetFact the number of its
	// newest fact in this term. rolloutStep is when a region last came or went, targetGone
	// since when no region has had the target; zero: one has it.
	target      TargetFact
	targetFact  uint64
	rolloutStep time.Time
	targetGone  time.Time
	unknown     []UnknownFact // of later releases, oldest first
	untold      bool          // some row is untold
	// persisted counts the facts given out in this term, stored those that are
	// durable.
	persisted, stored uint64
	allocated         int  // rows that were ever given out
	deferred          bool // a sweep left a row alone because its fact is not durable

	// counter is the last epoch of this term that was given out.
	counter  uint32
	budget   budget
	gateways gateways

	probedAt   time.Time // when this coordinator's journal was last probed
	probing    bool      // that probe is not answered
	answeredAt time.Time // when the journal last answered

	sweepDue bool // the membership has changed, or what a region or an operator wants
	short    bool // a sweep ran out of the budget
	// expected counts, for all types, the shards that a node has when what is under way has
	// ended.
	expected map[sharding.NodeID]int
	// loads are the sums of what is known of the loads of these shards.
	loads map[sharding.NodeID]sharding.Load

	rebalanced time.Time // when a plan was last due, or came back
	decisions  uint64    // how many were emitted in this term
	weighed    int       // for how many of this Step regions were listed
	plans      uint64    // the number of the last plan that was asked for, in any term
	planning   bool      // that plan was not answered

	// n counts changes of the table; log holds those after base.
	// told is the n that every waiting watch knows.
	n, base, told uint64
	log           []change
	waiting       []waiter // all at n between steps, oldest first
	parked        []parked // behind n, until facts are durable; oldest first

	scratch []allocation.Region
}

// New returns a standby. The config must be valid.
func New(cfg Config) *Machine { return &Machine{cfg: cfg} }

// Step applies one input at time now, and appends to out what the driver must
// do, in that order. It never fails: what makes no sense is ignored, what must be answered
// is refused by an output.
func (m *Machine) Step(now time.Time, in Input, out []Output) []Output {
	m.now, m.out, m.weighed = now, out, 0
	switch in := in.(type) {
	case Elected:
		m.elected(in)
	case Identified:
		m.cluster = in.Cluster
	case Deposed:
		m.deposed()
	case Active:
		m.known = in
	case Member:
		m.member(in)
	case MemberGone:
		m.memberGone(in.Node)
	case Received:
		m.receive(in)
	case CallEnded:
		m.watchEnded(in.Call)
	default:
		if m.active {
			m.stepActive(in)
		}
	}
	if m.sweepDue && m.recovered {
		m.sweep()
	}
	m.wake()
	out, m.out = m.out, nil
	return out
}

func (m *Machine) stepActive(in Input) {
	switch in := in.(type) {
	case Stored:
		m.factsStored(in.Facts)
	case DrainRegion:
		if r := m.region(in.Region); r != nil && r.draining == in.Resume {
			m.decideRequest(DrainFact(in))
			m.commit(DrainFact(in))
			m.sweepDue = true
		}
	case SetTarget:
		m.setTarget(in.Version, "asked for by "+cmp.Or(in.By, "an operator"))
	case Request:
		m.request(in)
	case LookAtShards:
		m.lookAtShards()
	case ShardFenced:
		m.shardFenced(in)
	case FormsRead:
		m.formsRead(in)
	case JournalProbed:
		m.journalProbed(in)
	case Planned:
		m.planned(in)
	case Tick:
		m.tick()
	}
}

// receive takes a message of a region or a gateway. A standby sends calls on to the
// active coordinator, and ignores everything else. It reports whether the message is
// one for a coordinator.
func (m *Machine) receive(in Received) bool {
	if !m.active {
		if in.Call != 0 {
			m.sendOn(in.Call)
		}
		return true
	}
	switch msg := in.Msg.(type) {
	case control.WatchTable:
		m.takeCard(in.From, msg.Card)
		m.watchTable(in.Call, msg.Version)
	case control.Register:
		m.register(in.From, in.Call, msg)
	case control.GracefulShutdown:
		m.gracefulShutdown(in.From, in.Call)
	case control.CountDue:
		m.countDue(in.From, in.Call)
	case control.ReportLoad:
		m.reportLoad(in.From, in.Call, msg)
	case control.GetShardHome:
		m.getShardHome(msg)
	case control.ShardStarted:
		m.shardStarted(in.From, msg)
	case control.HostRefused:
		m.hostRefused(in.From, msg)
	case control.ShardStopped:
		m.shardStopped(in.From, msg)
	case control.JournalReport:
		m.journalReport(in.From, msg)
	default:
		return false
	}
	return true
}

// sendOn answers a call at a standby with the active coordinator, as far as known.
func (m *Machine) sendOn(call control.Call) {
	m.reply(call, control.NotActive{Active: m.known.Node, Term: m.known.Term})
}

// askAgain answers a call that the active coordinator cannot do anything about yet.
func (m *Machine) askAgain(call control.Call) {
	m.reply(call, control.NotActive{Term: m.term})
}

// elected starts a term: fold the facts, repeat what was under way, and wait
// for the owners.
func (m *Machine) elected(in Elected) {
	if in.Term <= m.term {
		return // every acquisition has a higher one; this is an old message
	}
	m.deposed()
	m.active, m.term, m.since, m.rebalanced, m.rolloutStep = true, in.Term, m.now, m.now, m.now
	m.cluster, m.generation = in.Cluster, in.Generation
	m.known = Active{}
	for _, f := range in.Facts {
		m.apply(f)
	}
	m.log, m.base = nil, m.n // watchers come from another term: full table
	for _, t := range m.types {
		for _, h := range slices.Concat(t.owned, t.expected) {
			if i, found := slices.BinarySearchFunc(m.awaited, h.node, sharding.NodeID.Compare); !found {
				m.awaited = slices.Insert(m.awaited, i, h.node)
			}
		}
		for i := range t.rows {
			m.ask(&t.rows[i]) // also adopts handoffs: their owners are told the successor again
		}
	}
	m.endRecovery()
}

// deposed forgets the term and answers the watches that wait.
func (m *Machine) deposed() {
	for _, w := range m.waiting {
		m.sendOn(w.call)
	}
	for _, w := range m.parked {
		m.sendOn(w.call)
	}
	for i := range m.regions {
		r := &m.regions[i]
		*r = region{node: r.node, name: r.name, reachable: r.reachable, joining: r.joining, going: r.going}
	}
	*m = Machine{cfg: m.cfg, now: m.now, out: m.out, term: m.term, known: m.known, regions: m.regions, plans: m.plans, scratch: m.scratch}
}

// endRecovery ends the wait for the owners in the facts when none is awaited any more
// or the time is over.
func (m *Machine) endRecovery() {
	if !m.recovered && (len(m.awaited) == 0 || m.now.Sub(m.since) >= m.cfg.RecoveryWait || mutant.On("recovery-wait")) {
		m.recovered, m.awaited, m.sweepDue = true, nil, true
	}
}

// arrived strikes an owner off the list of those that are awaited, and reports whether
// it was on it.
func (m *Machine) arrived(node sharding.NodeID) bool {
	i, found := slices.BinarySearchFunc(m.awaited, node, sharding.NodeID.Compare)
	if found {
		m.awaited = slices.Delete(m.awaited, i, i+1)
		m.endRecovery()
	}
	return found
}

func (m *Machine) tick() {
	m.endRecovery()
	m.forgetDrained()
	m.endFreeze()
	m.checkTarget()
	m.expire()
	if !m.hostsDue.IsZero() && !m.now.Before(m.hostsDue) {
		m.checkHosts()
	}
	m.tickJournal()
	m.repeat()
	m.endWindow()
	if m.short && m.budget.freed {
		m.sweepDue = true
	}
	if m.now.Sub(m.rebalanced) >= m.cfg.RebalanceInterval {
		m.rebalanced = m.now
		m.sweepDue = true
		m.plan()
		m.tellUnreadable()
		m.tellStaying()
		m.tellUnmeasured()
	}
}

// factsStored resumes what waited for facts to become durable: rows that a sweep has
// passed over, and watches that are behind.
func (m *Machine) factsStored(n int) {
	m.stored = min(m.stored+uint64(max(n, 0)), m.persisted)
	m.sweepDue = m.sweepDue || m.deferred
	m.unpark()
}

// pending reports whether a fact of this term, by its number, is not durable yet. Until
// then its row or type is not changed again: nobody has heard of the fact, and nothing
// may pile up behind a journal that does not answer.
func (m *Machine) pending(fact uint64) bool { return fact > m.stored }

func (m *Machine) emit(o Output) { m.out = append(m.out, o) }

func (m *Machine) send(to sharding.NodeID, msg control.Message) { m.emit(Send{To: to, Msg: msg}) }

func (m *Machine) reply(call control.Call, msg control.Message) { m.emit(Reply{Call: call, Msg: msg}) }
