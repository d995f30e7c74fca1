package coordinator

import (
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
	out []Output // of the Step in progress

	active      bool
	term        sharding.Term // the newest term held
	knownActive Active        // the coordinator that is active, as far as this standby knows
	// cluster is the cluster that the journal belongs to; 0: not known. The journals of the regions must belong to it
	// too.
	cluster sharding.ClusterID
	// generation is the generation of the journal that has the facts; 0: not known.
	generation sharding.Generation
	// lost is true if facts were lost in this term or in an earlier one, see [LossFact].
	lost  bool
	since time.Time // start of the term

	// recovered is true if the owners and successors in the facts have registered, or had the time to.
	recovered bool
	awaited   []sharding.NodeID // owners and successors in the facts that have not registered yet, sorted
	// open is true if enough regions have registered to begin allocating.
	open bool

	regions []region     // members, sorted by node
	types   []*typeTable // sorted by type
	// hostsDue is the time when the next type becomes unhosted, unless a region that hosts it registers; zero: no
	// type will.
	hostsDue time.Time
	// drained has the drains of operators, sorted by region.
	drained  []DrainFact
	steering steering // the other requests of operators that are in effect
	// target is the target version, and targetFact the number of its newest fact in this term. rolloutStep is the
	// time when a region last came or went. targetGone is the time when the last region with the target version went;
	// zero: some region has it.
	target      TargetFact
	targetFact  uint64
	rolloutStep time.Time
	targetGone  time.Time
	unknown     []UnknownFact // of later releases, oldest first
	untold      bool          // row.untold is set in some row
	// Facts are numbered in each term, from 1. lastFact is the number of the newest fact, and stored is the
	// number of the newest fact that is durable; 0: there is none.
	lastFact, stored uint64
	allocated        int  // rows that were ever allocated
	deferred         bool // a review left a row alone because its fact is not durable

	// counter is the last epoch of this term that was given out.
	counter  uint32
	budget   budget
	gateways gateways

	testedAt       time.Time // when this coordinator last tested its journal
	testUnanswered bool      // that test is not answered
	answeredAt     time.Time // when the journal last answered

	reviewDue bool // the rows must be reviewed: the membership has changed, or a region or an operator has sent a request
	short     bool // a review ran out of the budget
	// expectedShards counts, for all types, the shards that a node has when what is in progress has
	// ended.
	expectedShards map[sharding.NodeID]int
	// loads has the known loads of these shards, summed up by node.
	loads map[sharding.NodeID]sharding.Load

	rebalanced   time.Time // when a plan was last due, or came back
	explanations uint64    // how many explanations were emitted in this term
	weighed      int       // how many regions were weighed for explanations since the last tick, see Config.MaxWeighed
	plans        uint64    // the number of the last plan that was asked for, in any term
	planning     bool      // that plan was not answered
	broken       brokenConstraints

	// reports are the processes of regions with a known end, oldest first. waitingForReports is true if a review has
	// left shards alone because reports are missing.
	reports           []crashReport
	waitingForReports bool

	// n counts the changes of the table, and log has the changes after number base. told is the number of
	// the last change that every waiting watch knows.
	n, base, told uint64
	log           []change
	waiting       []waiter // watches that wait; between steps, all of them know change n; oldest first
	parked        []parked // watches that do not know change n, and wait until facts are durable; oldest first
	held          []held   // of a standby: watches that wait for the next active coordinator; oldest first
	// whole is the whole table as it was last sent, see method full.
	whole sharding.TableDelta

	scratch []allocation.Region
}

// New returns a standby. The config must be valid.
func New(cfg Config) *Machine { return &Machine{cfg: cfg} }

// Step applies one input at time now, and appends to out what the driver must
// do, in that order. Step never fails. An input that makes no sense is ignored. If it needs an answer, an
// output refuses it.
func (m *Machine) Step(now time.Time, in Input, out []Output) []Output {
	m.now, m.out = now, out
	switch in := in.(type) {
	case Elected:
		m.elected(in)
	case Identified:
		m.cluster = in.Cluster
	case Deposed:
		m.deposed()
	case Active:
		m.knownActive = in
		m.answerHeld()
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
		} else if _, tick := in.(Tick); tick {
			m.answerHeld()
		}
	}
	if _, tick := in.(Tick); m.reviewDue && m.recovered && (tick || m.declared() <= m.cfg.ReviewAtOnce) {
		m.reviewRows()
	}
	m.wake()
	out, m.out = m.out, nil
	return out
}

func (m *Machine) stepActive(in Input) {
	switch in := in.(type) {
	case Stored:
		m.factsStored(in.Facts)
	case Request:
		m.request(in)
	case LookAtShards:
		m.lookAtShards()
	case ShardFenced:
		m.shardFenced(in)
	case FormsRead:
		m.formsRead(in)
	case JournalTested:
		m.journalTested(in)
	case Planned:
		m.planned(in)
	case Tick:
		m.tick()
	}
}

// receive takes a message of a region or a gateway. A standby answers calls with the address of the active
// coordinator, and ignores everything else. receive reports whether coordinators take this kind of message.
func (m *Machine) receive(in Received) bool {
	if !m.active {
		if watch, is := in.Msg.(control.WatchTable); is {
			m.watchStandby(in.Call, watch.Version)
		} else if in.Call != 0 {
			m.sendOn(in.Call)
		}
		return true
	}
	switch msg := in.Msg.(type) {
	case control.WatchTable:
		m.takeCard(in.From, msg.Card)
		if r := m.region(in.From); r != nil {
			r.table = msg.Version
		}
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

// sendOn answers a call at a standby with the address of the active coordinator, if it is known.
func (m *Machine) sendOn(call control.Call) {
	m.reply(call, control.NotActive{Active: m.knownActive.Node, Term: m.knownActive.Term})
}

// askAgain answers a call that the active coordinator cannot answer yet, so that the caller asks again.
func (m *Machine) askAgain(call control.Call) {
	m.reply(call, control.NotActive{Term: m.term})
}

// elected starts a term. It folds the facts, repeats the orders that were in progress, and begins to wait for
// the owners.
func (m *Machine) elected(in Elected) {
	if in.Term <= m.term {
		return // every acquisition of the lease has a higher term, so this input is old
	}
	m.deposed()
	m.active, m.term, m.since, m.rebalanced, m.rolloutStep = true, in.Term, m.now, m.now, m.now
	m.cluster, m.generation = in.Cluster, in.Generation
	m.knownActive = Active{}
	m.broken.countedAt = m.now // broken constraints are not counted before the first plan of the term, which may repair them
	for _, f := range in.Facts {
		m.apply(f)
	}
	if in.FactsMissing {
		m.lost = true
		if !mutant.On("loss-stored") {
			m.commit(LossFact{}) // before any other fact: if the next term finds anything, it finds this
		}
	}
	m.log, m.base = nil, m.n // watchers know the table of another term, so they get the full table
	for _, t := range m.types {
		for _, h := range slices.Concat(t.owned, t.expected) {
			if i, found := slices.BinarySearchFunc(m.awaited, h.node, sharding.NodeID.Compare); !found {
				m.awaited = slices.Insert(m.awaited, i, h.node)
			}
		}
		for i := range t.rows {
			if !mutant.On("order-repeated") {
				m.sendOrder(t, &t.rows[i]) // so a handoff continues: perhaps the owner learns of it for the first time
			}
		}
	}
	m.endRecovery()
	for _, w := range m.held {
		m.watchTable(w.call, w.from)
	}
	m.held = nil
}

// deposed ends the term, and answers the watches that wait.
func (m *Machine) deposed() {
	for _, w := range m.waiting {
		m.sendOn(w.call)
	}
	for _, w := range m.parked {
		m.sendOn(w.call)
	}
	for i := range m.regions {
		r := &m.regions[i]
		*r = region{node: r.node, name: r.name, reachable: r.reachable, joining: r.joining, departing: r.departing}
	}
	*m = Machine{cfg: m.cfg, now: m.now, out: m.out, term: m.term, knownActive: m.knownActive, held: m.held, regions: m.regions, plans: m.plans, scratch: m.scratch}
}

// endRecovery ends the wait for the owners and successors in the facts, when all have registered or the
// time is over.
func (m *Machine) endRecovery() {
	if !m.recovered && (len(m.awaited) == 0 || m.now.Sub(m.since) >= m.cfg.RecoveryWait || mutant.On("recovery-wait")) {
		m.recovered, m.awaited, m.reviewDue = true, nil, true
	}
}

// arrived removes a node from the list awaited, and reports whether the node was in it.
func (m *Machine) arrived(node sharding.NodeID) bool {
	i, found := slices.BinarySearchFunc(m.awaited, node, sharding.NodeID.Compare)
	if found {
		m.awaited = slices.Delete(m.awaited, i, i+1)
		m.endRecovery()
	}
	return found
}

func (m *Machine) tick() {
	m.weighed = 0
	m.whole = sharding.TableDelta{} // not needed any more, and as large as the table
	m.endRecovery()
	m.endOldDrains()
	m.endFreeze()
	m.checkTarget()
	m.expire()
	if !m.hostsDue.IsZero() && !m.now.Before(m.hostsDue) {
		m.checkHosts()
	}
	m.tickJournal()
	m.repeat()
	m.endWindow()
	if m.short && m.budget.freed || m.waitingForReports {
		m.reviewDue = true
	}
	if m.now.Sub(m.rebalanced) >= m.cfg.RebalanceInterval {
		m.rebalanced = m.now
		m.reviewDue = true
		m.plan()
		m.tellUnreadable()
		m.tellStaying()
		m.tellUnmeasured()
		m.forgetSuspects()
	}
	m.countBroken()
}

// factsStored continues with what has waited for facts to become durable: rows that a review has
// passed over, and parked watches.
func (m *Machine) factsStored(n int) {
	m.stored = min(m.stored+uint64(max(n, 0)), m.lastFact)
	m.reviewDue = m.reviewDue || m.deferred
	m.unpark()
}

// pending reports whether the fact with a number is not durable yet. As long as the newest fact about a row or a type
// is not durable, no process has learned of it, and the row or type is not changed again. So facts do not pile up if
// the journal does not answer.
func (m *Machine) pending(fact uint64) bool { return fact > m.stored }

func (m *Machine) emit(o Output) { m.out = append(m.out, o) }

func (m *Machine) send(to sharding.NodeID, msg control.Message) { m.emit(Send{To: to, Msg: msg}) }

func (m *Machine) reply(call control.Call, msg control.Message) { m.emit(Reply{Call: call, Msg: msg}) }
