package explore

import (
	"fmt"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// The parts of a tenureWorld. Parts 0 and 1 are the two processes, part 2 is the store of the
// lease record (recordPart).
const (
	streamPart  = 3 // the journal
	requestPart = 4 // how many requests may still come
)

// maxRequests is the most requests to the coordinators on a path.
const maxRequests = 2

// never is longer than any path lasts: a timeout of this length does not expire.
const never = 1000 * timeoutStep

// theRegion is the region that the requests are about. No process of that name runs.
var theRegion = sharding.NodeID{Addr: "r0", UID: 1}

// newerDesc is the type that the region registers. It has one command more than desc, which
// is the type in the earlier facts.
var newerDesc = sharding.TypeDesc{Type: desc.Type, Shards: desc.Shards, Commands: append(slices.Clone(desc.Commands), sharding.CommandDesc{Name: "Set"})}

// tenureWorld is two coordinator processes, the lease, and the journal with the
// facts. A move of a process does not use the lease or the journal: requests to them, and
// the answers, are messages. Nor can a move of a process look at the lease or the journal. What a
// process announces is therefore checked against the lease and the journal in a move of its own,
// which comes before any other (atOnce).
type tenureWorld struct {
	processes [2]*process
	*recordStore
	*stream
	*budget
	sent []*message // by the move that is being performed
	why  string     // which promise that move has broken; empty: none
	// outputs are the outputs of the stepping core that are not performed yet.
	// None are left between two moves.
	outputs    []coordinator.Output
	performing bool // step is performing outputs; a nested call of step only adds to them

	ticks   [2]*move
	crashes [2]*move
	passing []*move // time passes, for both processes alike
	loss    *move   // the lease record is lost
	// The moves of requests: the region registers, its shard is requested, a
	// drain of the region begins or ends.
	registers, asks, drains [2]*move
}

// process is a coordinator with its candidate for the lease.
type process struct {
	id     sharding.NodeID
	now    time.Time
	late   bool // time has passed since its last tick
	holder *lease.Holder
	asked  uint64 // number of the last request to the lease; only its answer is still waited for
	core   *coordinator.Tenure
	// surveyNumber is the number of the first request of the last take-over.
	// Answers to requests with lower numbers are not waited for any more.
	surveyNumber uint64
	// The lease as its holder has announced it.
	term  sharding.Term
	until time.Time
	// The part of the core's state on which the possible requests depend.
	active, registered, hosted, drained bool
}

func (p *process) clone() part {
	d := *p
	d.holder, d.core = p.holder.Clone(), p.core.Clone()
	return &d
}

func (p *process) appendState(b []byte) []byte {
	b = fmt.Appendf(b, "%v %t %d %d %d %v ", p.id, p.late, p.asked, p.surveyNumber, p.term, p.until.Sub(p.now))
	return p.core.AppendState(p.now, p.holder.AppendState(p.now, b))
}

// readCore brings the fields that are copies of the core's state up to date.
func (p *process) readCore() {
	v := p.core.View()
	p.active, p.hosted = p.core.ActiveTerm() != 0, len(v.Rows) > 0
	p.registered, p.drained = v.Regions[0].Registered, v.Regions[0].Draining
}

// stream is the part that holds the journal: the fact stream, the fences and the journal
// heartbeats.
type stream struct{ ledger *memory.Ledger }

func (s *stream) clone() part { return &stream{s.ledger.Clone()} }

func (s *stream) appendState(b []byte) []byte { return s.ledger.AppendState(b, start) }

// budget is the part that counts requests.
type budget struct{ requestsLeft int }

func (b *budget) clone() part { return &budget{b.requestsLeft} }

func (b *budget) appendState(buf []byte) []byte { return fmt.Append(buf, b.requestsLeft) }

// newTenureWorld returns the world at the moment when one process has acquired the lease
// and the other knows that. Before them, a third coordinator has stored facts and released
// the lease.
func newTenureWorld() *tenureWorld {
	w := &tenureWorld{recordStore: &recordStore{}, stream: &stream{memory.NewLedger(journal.DefaultConfig())}, budget: &budget{maxRequests}}
	for i := range w.processes {
		w.processes[i] = &process{now: start}
		w.begin(i, sharding.NodeUID(i+1))
		w.ticks[i] = &move{name: fmt.Sprintf("tick of c%d", i), uses: 1 << i, do: func() { w.tick(i) }}
		w.crashes[i] = &move{name: fmt.Sprintf("crash of c%d", i), fault: true, uses: 1 << i, do: func() { w.restart(i) }}
		w.requestMoves(i)
	}
	for _, d := range []time.Duration{time.Second, 3 * time.Second} {
		w.passing = append(w.passing, &move{name: "time passes: " + d.String(), timeout: true, uses: 1<<0 | 1<<1, do: func() {
			for _, p := range w.processes {
				p.now, p.late = p.now.Add(d), true
			}
		}})
	}
	w.loss = &move{name: "the record is lost", fault: true, uses: 1 << recordPart, do: func() {
		w.record, w.lost, w.terms = lease.Record{}, true, nil
	}}
	w.storeEarlierFacts()
	w.tick(0)
	for w.processes[0].term == 0 || w.sent[0].immediate {
		w.deliver()
	}
	surveyOfFirst := w.sent // the first process has the lease, and surveys the journal
	w.sent = nil
	for w.tick(1); len(w.sent) > 0; { // the second process learns who has the lease
		w.deliver()
	}
	w.sent = surveyOfFirst
	return w
}

// storeEarlierFacts stores three facts of an earlier coordinator. With the first new fact
// there are four, so that a checkpoint is due (CompactAfter is 4).
func (w *tenureWorld) storeEarlierFacts() {
	const first = 1
	gone := sharding.NodeID{Addr: "c9", UID: 99}
	w.record = lease.Record{Version: 1, Term: first, TTL: lease.DefaultConfig().TTL, Nonce: 1, Cluster: 1}
	epoch := sharding.MakeEpoch(first, 0)
	w.apply(journal.Op{Claim: &sharding.Claim{Shard: factShard, Epoch: epoch, Owner: gone.UID}})
	w.apply(journal.HeartbeatOps(sharding.JournalHeartbeat{Coordinator: gone, Cluster: 1, Term: first, N: 1})...)
	for i, f := range []coordinator.Fact{coordinator.TypeFact{Desc: desc}, coordinator.DrainFact{Region: theRegion}, coordinator.DrainFact{Region: theRegion, Resume: true}} {
		w.apply(recordOp(coordinator.Append{Term: first, Seq: uint64(i + 1), Facts: []coordinator.Fact{f}, NewFacts: 1}))
	}
}

// deliver lets the oldest message arrive, before the search begins.
func (w *tenureWorld) deliver() {
	m := w.sent[0]
	w.sent = w.sent[1:]
	m.moves[0].do()
}

// begin starts a new incarnation of a process.
func (w *tenureWorld) begin(i int, uid sharding.NodeUID) {
	id := sharding.NodeID{Addr: fmt.Sprintf("c%d", i), UID: uid}
	c := lease.DefaultConfig()
	c.Self, c.Seed, c.Rank, c.Jitter = id, uint64(uid), i, 0
	h, err := lease.NewHolder(c)
	if err != nil {
		panic(err)
	}
	cfg := coordinator.DefaultConfig()
	cfg.QuarantineCrashes = 0 // crashes are not counted here
	cfg.FactsPerRecord, cfg.CompactAfter = 1, 4
	cfg.TakeoverTimeout = timeoutStep
	// What a coordinator does about regions in the course of time is searched in the handoff
	// and append scopes.
	cfg.HostTimeout, cfg.RecoveryWait, cfg.RebalanceInterval, cfg.WatchHold, cfg.LeaseEnd = never, never, never, never, never
	cfg.JournalHeartbeatInterval = never // so only the first heartbeat of each term is written
	p := &process{id: id, now: w.processes[i].now, late: true, holder: h, core: coordinator.NewTenure(cfg, id)}
	w.processes[i] = p
	w.step(i, coordinator.Member{Node: theRegion, Reachable: true})
}

// restart replaces a process by a new incarnation. The uids of process 0 are odd and of
// process 1 even, so that no two incarnations have the same.
func (w *tenureWorld) restart(i int) { w.begin(i, w.processes[i].id.UID+2) }

// Numbers of calls to a coordinator.
const (
	watchCall    = 1
	registerCall = 2
)

// requestMoves makes the moves that bring requests to a process.
func (w *tenureWorld) requestMoves(i int) {
	request := func(name string, in func(*process) coordinator.Input) *move {
		return &move{name: fmt.Sprintf("%s at c%d", name, i), uses: 1<<i | 1<<requestPart, do: func() {
			w.requestsLeft--
			w.step(i, in(w.processes[i]))
		}}
	}
	w.registers[i] = request("the region registers", func(*process) coordinator.Input {
		return coordinator.Received{From: theRegion, Call: registerCall, Msg: control.Register{Types: []sharding.TypeDesc{newerDesc}}}
	})
	w.asks[i] = request("the shard is requested", func(*process) coordinator.Input {
		return coordinator.Received{Msg: control.GetShardHome{Shard: theShard}}
	})
	w.drains[i] = request("a drain begins or ends", func(p *process) coordinator.Input {
		return coordinator.DrainRegion{Region: theRegion.String(), Resume: p.drained}
	})
}

// load sets the parts that a move uses (see move.uses). The others are nil.
func (w *tenureWorld) load(_ int, all [maxParts]part) {
	w.sent, w.why = nil, ""
	for i := range w.processes {
		w.processes[i], _ = all[i].(*process)
	}
	w.recordStore, _ = all[recordPart].(*recordStore)
	w.stream, _ = all[streamPart].(*stream)
	w.budget, _ = all[requestPart].(*budget)
}

// unload returns the parts that load has set, and what the move has caused.
func (w *tenureWorld) unload() (all [maxParts]part, sent []*message, why string) {
	for i, p := range w.processes {
		if p != nil {
			p.readCore()
			all[i] = p
		}
	}
	if w.recordStore != nil {
		all[recordPart] = w.recordStore
	}
	if w.stream != nil {
		all[streamPart] = w.stream
	}
	if w.budget != nil {
		all[requestPart] = w.budget
	}
	return all, w.sent, w.why
}

func (w *tenureWorld) fail(format string, args ...any) {
	if w.why == "" {
		w.why = fmt.Sprintf(format, args...)
	}
}

// moves appends the moves that are possible in a state.
func (w *tenureWorld) moves(e *engine, s *state, list []*move) []*move {
	requestsLeft := e.parts[requestPart][s.parts[requestPart]].(*budget).requestsLeft
	for i := range w.processes {
		p := processIn(e, s, i)
		if p.late {
			list = append(list, w.ticks[i])
		}
		list = append(list, w.crashes[i])
		if requestsLeft == 0 || !p.active {
			continue
		}
		if !p.registered {
			list = append(list, w.registers[i])
			continue
		}
		if !p.hosted {
			list = append(list, w.asks[i])
		}
		list = append(list, w.drains[i])
	}
	list = append(list, w.passing...)
	if r := recordIn(e, s); !r.lost && r.record.Version > 0 {
		list = append(list, w.loss)
	}
	return list
}

// tick steps the candidate of a process, and then its core, with a tick.
func (w *tenureWorld) tick(i int) {
	w.processes[i].late = false
	w.lease(i, lease.Tick{})
	w.step(i, coordinator.Tick{})
}

// lease steps the candidate for the lease. What it announces is given to the core at once.
func (w *tenureWorld) lease(i int, in lease.Input) {
	p := w.processes[i]
	for _, o := range p.holder.Step(p.now, in, nil) {
		switch o := o.(type) {
		case lease.Get:
			p.asked = o.Request
			w.askLease(i, fmt.Sprintf("get %d", o.Request), o.Request, nil)
		case lease.Swap:
			p.asked = o.Request
			w.askLease(i, fmt.Sprintf("swap %+v", o), o.Request, &o)
		case lease.Acquired:
			p.term, p.until = o.Term, o.Until
			w.atOnce(fmt.Sprintf("c%d acquires term %d", i, o.Term), 1<<recordPart, func() { w.acquired(o.Term) })
			w.step(i, coordinator.Acquired{Term: o.Term, Until: o.Until, Cluster: o.Cluster})
		case lease.Renewed:
			p.until = o.Until
			w.step(i, coordinator.Renewed{Term: o.Term, Until: o.Until})
		case lease.Lost:
			p.until = time.Time{}
			w.step(i, coordinator.Lost{Term: o.Term})
		}
	}
	if err := p.holder.Check(); err != nil {
		w.fail("c%d: %v", i, err)
	}
}

// acquired checks that terms grow. After the loss of the record they need not; the
// lease scope checks that case.
func (w *tenureWorld) acquired(term sharding.Term) {
	if w.lost {
		return
	}
	if n := len(w.terms); n > 0 && term <= w.terms[n-1] {
		w.fail("term %d is acquired after term %d", term, w.terms[n-1])
	}
	w.terms = append(w.terms, term)
}

// step steps the core, and performs its outputs in order. Performing an output may call
// step again. That call adds the new outputs to the end of the list, and the first call
// performs them.
func (w *tenureWorld) step(i int, in coordinator.Input) {
	p := w.processes[i]
	out := p.core.Step(p.now, in, nil)
	if err := p.core.Check(); err != nil {
		w.fail("c%d: %v", i, err)
	}
	w.outputs = append(w.outputs, out...)
	if w.performing {
		return
	}
	for w.performing = true; len(w.outputs) > 0; {
		o := w.outputs[0]
		w.outputs = w.outputs[1:]
		w.perform(i, o)
	}
	w.performing = false
}

func (w *tenureWorld) perform(i int, o coordinator.Output) {
	p := w.processes[i]
	switch o := o.(type) {
	case coordinator.RaiseTerm:
		w.lease(i, lease.RaiseTerm{Above: o.Above})
	case coordinator.YieldLease:
		w.lease(i, lease.Yield{})
	case coordinator.Contested: // the process ends, and is started again
		w.restart(i)
	case coordinator.Survey:
		p.surveyNumber = o.Number
		w.read(i, o.Number, o, func() coordinator.Input {
			return coordinator.Surveyed{Number: o.Number, Highest: w.ledger.MaxEpoch(), Heartbeat: w.lastHeartbeat()}
		})
	case coordinator.Load:
		w.read(i, o.Number, o, func() coordinator.Input { return w.facts(o.Number) })
	case coordinator.Claim:
		op := journal.Op{Claim: &sharding.Claim{Shard: factShard, Epoch: sharding.MakeEpoch(o.Term, 0), Owner: p.id.UID}}
		w.commit(i, o.Number, o, func(r journal.Result) coordinator.Input {
			return coordinator.Claimed{Number: o.Number, Verdict: r.Verdict, Fence: r.Fence.Epoch}
		}, op)
	case coordinator.WriteJournalHeartbeat:
		w.commit(i, o.Number, o, func(r journal.Result) coordinator.Input {
			return coordinator.JournalHeartbeatWritten{Number: o.Number, Verdict: r.Verdict, Fence: r.Fence.Epoch}
		}, journal.HeartbeatOps(o.Heartbeat)...)
	case coordinator.Append:
		w.commit(i, o.Number, o, func(r journal.Result) coordinator.Input {
			return coordinator.Appended{Number: o.Number, Verdict: r.Verdict, Fence: r.Fence.Epoch}
		}, recordOp(o))
	case coordinator.WriteCheckpoint:
		op := journal.WriteSnapshot{Shard: factShard, Epoch: sharding.MakeEpoch(o.Term, 0), Entity: factEntity, Snapshot: journal.Snapshot{Seq: o.Seq}, Cut: o.Seq}
		w.commit(i, o.Number, o, func(r journal.Result) coordinator.Input {
			return coordinator.CheckpointWritten{Number: o.Number, Verdict: r.Verdict, Fence: r.Fence.Epoch}
		}, journal.Op{Snapshot: &op})
	case coordinator.BecameActive:
		w.checkLease(i, o.Term, o)
		w.becameActive(i, o.Term)
	case coordinator.Send:
		about := o.Msg.About()
		w.checkRevealed(i, o, o.Msg, nil, []sharding.Row{{Shard: about.Shard, Owner: o.To, Epoch: about.Epoch, Phase: about.Phase}})
		if about.Phase == sharding.Starting {
			w.atOnce(fmt.Sprintf("the region claims %v at %v", about.Shard, about.Epoch), 1<<streamPart, func() {
				w.apply(journal.Op{Claim: &sharding.Claim{Shard: about.Shard, Epoch: about.Epoch, Owner: theRegion.UID}})
			})
		}
	case coordinator.Reply:
		switch m := o.Msg.(type) {
		case control.RegisterAck:
			w.checkRevealed(i, o, m, []sharding.TypeDesc{newerDesc}, nil)
		case control.TableChanged:
			w.checkRevealed(i, o, m, m.Delta.Types, m.Delta.Rows)
			w.step(i, coordinator.Received{Call: o.Call, Msg: control.WatchTable{Version: m.Delta.Version}})
		case control.NotActive: // the answer of a standby has no term
		default:
			w.checkRevealed(i, o, m, nil, m.About().Rows)
		}
	case coordinator.SteppedDown, coordinator.Waiting, coordinator.Adopted, coordinator.TargetSet, coordinator.UnreadableNow, coordinator.DrainStays, coordinator.NameTaken, coordinator.NoLoad, coordinator.ConstraintBroken, coordinator.QuarantineChanged, coordinator.QuarantineFull, coordinator.Explained:
	default:
		w.fail("c%d: output %T is not known here", i, o)
	}
}

// becameActive compares the table that the coordinator has folded with the durable facts,
// unless the stream has been claimed in a later term since. In either case a watch
// of the table begins then, so that what the coordinator says about the table is checked, too.
func (w *tenureWorld) becameActive(i int, term sharding.Term) {
	v := w.processes[i].core.View()
	folded := table{types: v.Types, rows: v.Rows}
	for _, r := range v.Regions {
		if r.Draining {
			folded.drained = append(folded.drained, r.Node)
		}
	}
	w.atOnce(fmt.Sprintf("c%d becomes active in term %d with %+v", i, term, folded), 1<<streamPart, func() {
		stored := w.table()
		if w.ledger.Fence(factShard).Epoch == sharding.MakeEpoch(term, 0) && fmt.Sprint(folded) != fmt.Sprint(stored) {
			w.fail("c%d becomes active in term %d with %+v, durable is %+v", i, term, folded, stored)
		}
	})
	w.step(i, coordinator.Received{Call: watchCall, Msg: control.WatchTable{}})
}

// checkLease checks that a coordinator emits an output in a term only while it holds the
// lease in that term.
func (w *tenureWorld) checkLease(i int, term sharding.Term, o coordinator.Output) {
	if p := w.processes[i]; term != p.term || !p.now.Before(p.until) {
		w.fail("c%d emits %T%+v in term %d; it holds term %d, until %v from now", i, o, o, term, p.term, p.until.Sub(p.now))
	}
}

// checkRevealed checks a message that a coordinator sends: the types and rows in it must be
// durable facts, and no higher term may have been acquired yet.
func (w *tenureWorld) checkRevealed(i int, o coordinator.Output, m control.Message, types []sharding.TypeDesc, rows []sharding.Row) {
	term := m.About().Term
	w.checkLease(i, term, o)
	w.atOnce(fmt.Sprintf("c%d says in term %d: %T%+v", i, term, o, o), 1<<recordPart|1<<streamPart, func() {
		if n := len(w.terms); n > 0 && w.terms[n-1] > term {
			w.fail("c%d says %T%+v in term %d after term %d was acquired", i, o, o, term, w.terms[n-1])
		}
		for _, d := range types {
			if !w.isDurable(func(f coordinator.Fact) bool {
				t, ok := f.(coordinator.TypeFact)
				return ok && fmt.Sprint(t.Desc) == fmt.Sprint(d)
			}) {
				w.fail("c%d publishes %T%+v, and %+v is not a durable fact", i, o, o, d)
			}
		}
		for _, r := range rows {
			if !w.isDurable(func(f coordinator.Fact) bool {
				stored, ok := f.(coordinator.RowFact)
				return ok && stored.Row == r
			}) {
				w.fail("c%d publishes %T%+v, and %+v is not a durable fact", i, o, o, r)
			}
		}
	})
}
