package coordinator

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Machine is one coordinator, active or standby. It is not safe for concurrent
// use. The membership is kept by standbys too; everything else belongs to one
// term.
//
// It is composed of nouns, each with its own state and methods: [term], [ledger], [liveness], [table], [intent.Intent],
// [quarantine.Quarantine], [budget.Budget]. None of them knows another one, or this type: a noun gets what it needs as
// parameters, and returns what is to be done, or appends outputs to the [step]. Three layers use them. Each embeds the
// one below and cannot reach the one above: [placement] reads the nouns, [transit] changes rows, and the Machine
// dispatches inputs to them.
type Machine struct {
	transit
	planner  planner
	unobeyed []unobeyed // operators who wait until regions know of a quarantine
}

// New returns a standby. The config must be valid.
func New(cfg Config) *Machine {
	m := &Machine{}
	m.cfg = cfg
	return m
}

// Step applies one input at time now, and appends to out what the driver must
// do, in that order. Step never fails. An input that makes no sense is ignored. If it needs an answer, an
// output refuses it.
func (m *Machine) Step(now time.Time, in Input, out []Output) []Output {
	m.now, m.out = now, out
	switch in := in.(type) {
	case Elected:
		m.elected(in)
	case Identified:
		m.term.cluster = in.Cluster
	case Deposed:
		m.deposed()
	case Active:
		m.term.known = in
		m.term.answerHeld(&m.step)
	case Member:
		m.member(in)
	case MemberGone:
		m.memberGone(in.Node)
	case Received:
		m.receive(in)
	case CallEnded:
		m.table.forget(in.Call)
		m.term.forget(in.Call)
	default:
		if m.term.active {
			m.stepActive(in)
		} else if _, tick := in.(Tick); tick {
			m.term.answerHeld(&m.step)
		}
	}
	if _, tick := in.(Tick); m.review.due && m.term.recovered && (tick || m.table.declared() <= m.cfg.ReviewAtOnce) {
		m.reviewRows()
	}
	m.answerObeyed()
	m.table.wake(&m.step)
	out, m.out = m.out, nil
	return out
}

func (m *Machine) stepActive(in Input) {
	switch in := in.(type) {
	case Stored:
		m.factsStored(in.Facts)
	case Request:
		m.request(in)
	case Ask:
		m.ask(in)
	case AskEnded:
		m.askEnded(in)
	case LookAtShards:
		m.lookAtShards()
	case ShardFenced:
		m.shardFenced(in)
	case FormsRead:
		m.formsRead(in)
	case JournalTested:
		m.review.due = m.live.journalTested(&m.step, in) || m.review.due
	case Planned:
		m.planned(in)
	case Tick:
		m.tick()
	}
}

// receive takes a message of a region or a gateway. A standby answers calls with the address of the active
// coordinator, and ignores everything else. receive reports whether coordinators take this kind of message.
func (m *Machine) receive(in Received) bool {
	if !m.term.active {
		if watch, is := in.Msg.(control.WatchTable); is {
			m.term.hold(&m.step, in.Call, watch.Version)
		} else if in.Call != 0 {
			m.term.sendOn(&m.step, in.Call)
		}
		return true
	}
	switch msg := in.Msg.(type) {
	case control.WatchTable:
		m.budget.TakeCard(m.now, &m.cfg.Config, in.From, msg.Card)
		if r := m.live.region(in.From); r != nil {
			r.table = msg.Version
		}
		m.table.watch(&m.step, !m.ledger.pending(m.ledger.lastFact), in.Call, msg.Version)
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
		m.review.due = m.live.journalReport(&m.step, in.From, msg) || m.review.due
	default:
		return false
	}
	return true
}

// elected starts a term. It folds the facts, repeats the orders that were in progress, and begins to wait for
// the owners.
func (m *Machine) elected(in Elected) {
	if in.Term <= m.term.number {
		return // every acquisition of the lease has a higher term, so this input is old
	}
	m.deposed()
	m.term.active, m.term.number, m.term.since, m.planner.rebalanced, m.rollout.stepAt = true, in.Term, m.now, m.now, m.now
	m.term.cluster, m.table.generation, m.table.version.Term = in.Cluster, in.Generation, in.Term
	m.term.known = Active{}
	m.planner.broken.countedAt = m.now // broken constraints are not counted before the first plan of the term, which may repair them
	for _, f := range in.Facts {
		m.apply(f)
	}
	if in.FactsMissing {
		m.ledger.lost = true
		//mutant:skip loss-stored
		m.commit(LossFact{}) // before any other fact: if the next term finds anything, it finds this
	}
	m.table.log, m.table.base = nil, m.table.version.N // watchers know the table of another term, so they get the full table
	for _, t := range m.table.types {
		for _, h := range slices.Concat(t.owned, t.expected) {
			if i, found := slices.BinarySearchFunc(m.term.awaited, h.node, sharding.NodeID.Compare); !found {
				m.term.awaited = slices.Insert(m.term.awaited, i, h.node)
			}
		}
		for i := range t.rows {
			//mutant:skip order-repeated
			m.sendOrder(t, &t.rows[i]) // so a handoff continues: perhaps the owner learns of it for the first time
		}
	}
	m.review.due = m.term.endRecovery(&m.step) || m.review.due
	for _, w := range m.term.held {
		m.table.watch(&m.step, !m.ledger.pending(m.ledger.lastFact), w.call, w.from)
	}
	m.term.held = nil
}

// deposed ends the term, and answers the watches that wait.
func (m *Machine) deposed() {
	for _, w := range m.table.waiting {
		m.term.sendOn(&m.step, w.call)
	}
	for _, w := range m.table.parked {
		m.term.sendOn(&m.step, w.call)
	}
	for i := range m.live.regions {
		r := &m.live.regions[i]
		*r = region{node: r.node, name: r.name, reachable: r.reachable, joining: r.joining, departing: r.departing}
	}
	*m = Machine{
		transit: transit{placement: placement{
			step: m.step, term: term{number: m.term.number, known: m.term.known, held: m.term.held}, live: liveness{regions: m.live.regions},
			table:   table{version: sharding.Version{Term: m.term.number}},
			scratch: m.scratch,
		}},
		planner: planner{plans: m.planner.plans},
	}
}

func (m *Machine) tick() {
	m.why.weighed = 0
	m.table.whole = sharding.TableDelta{} // not needed any more, and as large as the table
	m.review.due = m.term.endRecovery(&m.step) || m.review.due
	m.endOldDrains()
	m.endFreeze()
	m.checkTarget()
	m.table.expire(&m.step)
	if !m.review.hostsDue.IsZero() && !m.now.Before(m.review.hostsDue) {
		m.checkHosts()
	}
	m.review.due = m.live.tickJournal(&m.step) || m.review.due
	m.repeat()
	if m.budget.EndWindow(m.now, &m.cfg.Config) {
		m.emit(BrakeChanged(m.budget.Brake(&m.cfg.Config)))
	}
	if m.review.short && m.budget.Freed() || m.review.waitingForReports {
		m.review.due = true
	}
	if m.now.Sub(m.planner.rebalanced) >= m.cfg.RebalanceInterval {
		m.planner.rebalanced = m.now
		m.review.due = true
		m.plan()
		m.tellUnreadable()
		m.tellStaying()
		if m.term.recovered {
			m.live.tellUnmeasured(&m.step)
		}
		m.forgetSuspects()
	}
	m.countBroken()
}

// factsStored continues with what has waited for facts to become durable: rows that a review has
// passed over, and parked watches.
func (m *Machine) factsStored(n int) {
	m.ledger.stored = min(m.ledger.stored+uint64(max(n, 0)), m.ledger.lastFact)
	m.review.due = m.review.due || m.review.deferred
	m.table.unpark(&m.step)
}
