package sim

import (
	"errors"
	"maps"
	"slices"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// store is the journal behind connections that are slow, get lost, and forget
// to say what happened. What was reported durable is durable; a power cut
// before the sync is a batch whose outcome is unknown and that never applies.
type store struct {
	w        *World
	ledger   *memory.Ledger
	restores int // how often it was restored
	down     bool
	// times are the times of the appends of ledger.Log().
	times []times
	// rows are the rows of all facts that were committed.
	rows   map[sharding.Row]bool
	newest map[sharding.ShardID]sharding.Row
	begun  []int64 // when voluntary moves have begun
	// arrived is the time of each shard's last change of owner, by the facts.
	arrived map[sharding.ShardID]int64
	// drained are the regions that operators want empty, by the facts.
	drained map[sharding.NodeID]bool
	// handedOff are the newest facts that begin handoffs.
	handedOff map[sharding.ShardID]coordinator.RowFact
	steering  steering
	// target is the target version of rollouts, by the facts.
	target coordinator.TargetFact
	// stopped are the highest epochs whose ShardStopped reached a coordinator.
	stopped map[sharding.ShardID]sharding.Epoch
	// successors are the regions that shards shall go to, and plannedIn the terms in which that
	// was decided.
	successors map[sharding.ShardID]sharding.NodeID
	plannedIn  map[sharding.ShardID]sharding.Term
	// claims are those that held, newest the highest of each shard.
	claims    map[sharding.Claim]bool
	claimedAt map[sharding.ShardID]int64 // when the highest claim was made
	highest   map[sharding.ShardID]sharding.Claim
	fullUntil int64 // refuses everything until then
	hangs     []*hang
	unhang    []func() // answers what hangs, when the calm comes
	pages     []*page
	// forms are those in which events of living entities are stored in a shard, each with the first epoch
	// at which one was.
	forms map[sharding.ShardID]map[storedForm]sharding.Epoch
	// doubtful are all entities with an append that ever had an unknown outcome.
	doubtful map[sharding.Entity]bool
	// touched and unfenced are all entities and shards that were ever damaged.
	touched  map[sharding.Entity]bool
	unfenced map[sharding.ShardID]bool

	// quarantine has the suspects and the quarantined entities, by the facts. givenBy has the number of the fact
	// that gave an epoch of a shard to a region. factNumber counts the facts.
	quarantine map[sharding.Entity]quarantine
	givenBy    map[shardEpoch]int
	factNumber int
}

var errLost = errors.New("connection to the journal lost")

// lost is the error of a read that has got its answer, or not.
func lost(ok bool) error {
	if ok {
		return nil
	}
	return errLost
}

func newStore(w *World) *store {
	return &store{
		w: w, ledger: memory.NewLedger(w.journalConfig()),
		rows:       map[sharding.Row]bool{},
		newest:     map[sharding.ShardID]sharding.Row{},
		arrived:    map[sharding.ShardID]int64{},
		successors: map[sharding.ShardID]sharding.NodeID{}, plannedIn: map[sharding.ShardID]sharding.Term{},
		drained: map[sharding.NodeID]bool{}, handedOff: map[sharding.ShardID]coordinator.RowFact{},
		steering: steering{cordons: map[string]bool{}, pins: map[sharding.ShardID]string{}},
		stopped:  map[sharding.ShardID]sharding.Epoch{},
		claims:   map[sharding.Claim]bool{}, claimedAt: map[sharding.ShardID]int64{},
		highest:  map[sharding.ShardID]sharding.Claim{},
		forms:    map[sharding.ShardID]map[storedForm]sharding.Epoch{},
		doubtful: map[sharding.Entity]bool{}, touched: map[sharding.Entity]bool{}, unfenced: map[sharding.ShardID]bool{},
		quarantine: map[sharding.Entity]quarantine{}, givenBy: map[shardEpoch]int{},
	}
}

// apply runs a batch as one transaction, now.
func (s *store) apply(sent sending, ops []journal.Op) []journal.Result {
	results := s.decide(sent.Moment, ops)
	for i, r := range results {
		if sent.restores != s.restores && r.Verdict == sharding.Durable {
			s.w.violate("nothing old has an effect", "a %s of a process that has opened the journal before it was restored holds", ops[i].Kind())
		}
	}
	for len(s.times) < len(s.ledger.Log()) {
		s.factsOf(s.ledger.Log()[len(s.times)].Append)
		s.explanationsOf(s.ledger.Log()[len(s.times)].Append)
		s.noteForms(s.ledger.Log()[len(s.times)].Append)
		s.times = append(s.times, times{at: s.w.now, sent: sent.at})
	}
	for i, r := range results {
		s.law(&ops[i], r)
		s.w.mix(uint64(r.Verdict))
		if s.w.traceTo != nil {
			s.w.trace(nil, "JOURNAL", traceOp(&ops[i], r))
		}
		if r.Verdict != sharding.Durable {
			s.w.mark("journal: " + ops[i].Kind() + " " + r.Verdict.String())
		}
	}
	return results
}

// law checks the verdict on a claim or a snapshot; what appends may do is read
// from the log of commits.
func (s *store) law(op *journal.Op, r journal.Result) {
	holds := r.Verdict == sharding.Durable
	switch {
	case r.Verdict == sharding.RefusedDamaged:
	case op.Claim != nil:
		c := *op.Claim
		top := s.highest[c.Shard]
		switch {
		case holds && (c.Epoch < top.Epoch || c.Epoch == top.Epoch && c.Owner != top.Owner):
			s.w.violate("epochs grow", "claim %+v holds after %+v", c, top)
		case !holds && c == top:
			s.w.violate("a claim that holds holds again", "claim %+v is refused: %v %+v", c, r.Verdict, r.Fence)
		case holds:
			if c != top {
				s.claimedAt[c.Shard] = s.w.now
			}
			s.highest[c.Shard], s.claims[c] = c, true
		}
	case op.Purge != nil && holds && op.Purge.Epoch != s.highest[op.Purge.Shard].Epoch:
		s.w.violate("fenced", "%v is purged at epoch %v; the shard was claimed at %v", op.Purge.Entity, op.Purge.Epoch, s.highest[op.Purge.Shard].Epoch)
	case op.Snapshot != nil && holds:
		if op.Snapshot.Epoch != s.highest[op.Snapshot.Shard].Epoch {
			s.w.violate("epochs grow", "a snapshot of %v at epoch %v is stored, the shard is claimed at %v",
				op.Snapshot.Entity, op.Snapshot.Epoch, s.highest[op.Snapshot.Shard].Epoch)
		}
		s.noteTrim(op.Snapshot)
	}
}

// sending is the time at which a process hands a batch to the journal, by the world's time and
// by its own.
type sending struct {
	journal.Moment
	at       int64
	opened   sharding.Generation // of the journal, when the process opened it,
	restores int                 // and how often it had been restored then
}

// times are the times of one append that holds: when it was committed, and when it was
// sent. Its command id ages from then on.
type times struct{ at, sent int64 }

// commit is one append that holds.
type commit struct {
	memory.Committed
	times
}

func (s *store) commits() []commit {
	var list []commit
	for i, c := range s.ledger.Log() {
		list = append(list, commit{c, s.times[i]})
	}
	return list
}

func (s *store) factsOf(a sharding.Append) {
	if a.Entity != factEntity {
		return
	}
	for _, r := range a.Records {
		for _, e := range r.Events {
			fact := s.w.facts[decodeNumber(e.Payload)]
			s.steered(fact)
			s.quarantineOf(fact)
			if d, ok := fact.(coordinator.DrainFact); ok {
				s.drained[d.Region] = !d.Resume
			}
			if r, ok := fact.(coordinator.RowFact); ok && r.Row.Phase == sharding.HandingOff {
				s.handedOff[r.Row.Shard] = r
			}
			if g, ok := fact.(coordinator.TargetFact); ok {
				s.targetFact(g)
			}
			f, ok := fact.(coordinator.RowFact)
			if !ok {
				continue
			}
			s.rows[f.Row] = true
			if f.Next != 0 { // the successor may get the order to claim the shard then, without another fact
				s.rows[sharding.Row{Shard: f.Row.Shard, Owner: f.Successor, Epoch: f.Next, Phase: sharding.Starting}] = true
			}
			if f.Row.Reason == sharding.Unreadable {
				s.w.mark("no region reads a shard")
			}
			if c := (sharding.Claim{Shard: f.Row.Shard, Epoch: f.Row.Epoch, Owner: f.Row.Owner.UID}); f.Row.Phase == sharding.Serving && !s.claims[c] && !s.unfenced[c.Shard] { // where the fence is damaged all is refused
				s.w.violate("serving means claimed", "%+v becomes a fact and was never claimed", f.Row)
			}
			old := s.newest[f.Row.Shard]
			if f.Row.Epoch != old.Epoch {
				s.w.explanations.changes = append(s.w.explanations.changes, f.Row)
			}
			if voluntary(f) && f.Row != old {
				s.begun = append(s.begun, s.w.now)
			}
			s.newest[f.Row.Shard] = f.Row
			s.planned(f, a.Epoch.Term())
			switch {
			case f.Row.Phase == sharding.Serving && old.Phase == sharding.HandingOff:
				s.w.mark("shard moved: at the reserved epoch")
			case f.Row.Phase != sharding.Starting || old.Epoch == 0:
			case s.w.withoutJournal(old.Owner):
				s.w.mark("shard of a region without a journal moved")
			case old.Phase == sharding.Serving:
				s.w.mark("shard moved: owner lost")
			case old.Phase == sharding.Starting:
				s.w.mark("shard moved: claim did not come")
			case s.stopped[old.Shard] < old.Epoch:
				s.w.mark("shard moved: handoff timed out or owner lost")
			default:
				s.w.mark("shard moved: handoff in good order")
			}
		}
	}
}

// planned follows the shards whose destination a plan has chosen.
func (s *store) planned(f coordinator.RowFact, term sharding.Term) {
	shard := f.Row.Shard
	to := s.successors[shard]
	switch {
	case to.IsZero() || f.Row.Owner.IsZero() || f.Row.Phase == sharding.HandingOff || f.Successor == to:
	case to == f.Row.Owner:
		s.w.mark("shard moved: as planned")
		if s.plannedIn[shard] != term {
			s.w.mark("shard moved: as planned, by the next coordinator")
		}
	default:
		s.w.mark("shard moved: not as planned")
	}
	if f.Successor != to {
		s.successors[shard], s.plannedIn[shard] = f.Successor, term
	}
}

// targetFact looks whether a target forgets the ones before it: then a region of one of
// them that comes back would turn a rollout round.
func (s *store) targetFact(g coordinator.TargetFact) {
	if g.Version == s.target.Version {
		return // of a checkpoint
	}
	for _, v := range append(slices.Clone(s.target.Seen), s.target.Version) {
		if v != "" && v != g.Version && !slices.Contains(g.Seen, v) {
			s.w.violate("a target is not forgotten", "%+v comes after %+v", g, s.target)
		}
	}
	if s.target.Version != "" {
		s.w.mark("rollout: another target")
		if slices.Contains(s.target.Seen, g.Version) {
			s.w.mark("rollout: back to an earlier target")
		}
	}
	s.target = g
}

// commit sends a batch on behalf of a process and calls back with its results,
// or with nil when nothing is known. Once sent it may apply whatever becomes of
// the process; the callback is the caller's to guard.
func (s *store) commit(host int, ops []journal.Op, done func([]journal.Result)) {
	w, sent := s.w, sending{s.w.processes[host].moment(), s.w.now, s.w.processes[host].opened, s.w.processes[host].restores}
	d := w.dice("journal")
	there, back := s.way(), s.way()
	patience := d.between(100*ms, 2*sec)
	unknown, late, full := d.chance(w.weather.Unknown), d.chance(w.weather.LateApply), d.chance(w.weather.Full)
	if unknown && w.dice("full").chance(w.weather.FullAfter) {
		s.fullUntil = w.now + w.dice("full").between(0, 500*ms)
	}
	kind, lateness := d.IntN(3), d.between(0, 5*sec)
	answered, hung := false, false
	answer := func(r []journal.Result) {
		if !answered {
			answered = true
			done(r)
		}
	}
	arrive := func() {
		if s.replaced(host, sent.opened) {
			return
		}
		if hung = s.hang(host, kinds(ops), func() { answer(nil) }); hung {
			s.applyHung(sent, ops)
			return
		}
		if s.down || w.net.blocked(host, journalHost) {
			return
		}
		switch {
		case full || !unknown && w.now < s.fullUntil:
			r := make([]journal.Result, len(ops))
			for i := range r {
				r[i] = journal.Result{Verdict: sharding.RefusedFull, Err: journal.ErrFull}
			}
			w.mark("journal: full")
			w.after(back, func() { answer(r) })
			return
		case unknown && kind == 0: // rolled back
			w.mark("journal: unknown, not applied")
			w.after(back, func() { answer(nil) })
			return
		case unknown && late: // the server still works on it
			w.after(back, func() { answer(nil) })
			w.after(lateness, func() {
				w.mark("journal: unknown, applied later")
				if !s.replaced(host, sent.opened) {
					s.apply(sent, ops)
				}
			})
			return
		}
		results := s.apply(sent, ops)
		if p := w.processes[host]; d.chance(w.weather.Kill) {
			w.mark("process killed after its commit")
			p.exit("killed after its commit")
		}
		if unknown || w.net.blocked(journalHost, host) || s.down {
			w.mark("journal: unknown, applied")
			w.after(back, func() { answer(nil) })
			return
		}
		w.after(back, func() { answer(results) })
	}
	w.after(there, arrive)
	w.after(there+back+patience, func() {
		if !hung {
			answer(nil)
		}
	})
}

// replaced reports whether a process must not use the journal, because it has opened another
// generation of it. If the process still lives, it ends.
func (s *store) replaced(host int, opened sharding.Generation) bool {
	facts, err := s.ledger.Facts()
	if err != nil {
		s.w.violate("driver", "the facts of the journal: %v", err)
	}
	if facts.CheckOpened(opened) == nil {
		return false
	}
	s.w.mark("journal: another generation")
	if p := s.w.processes[host]; p.up && p.opened == opened {
		p.exit("the journal was restored")
	}
	return true
}

// backup is a copy of the journal, with what the facts in it say of placement.
type backup struct {
	ledger   *memory.Ledger
	steering steering
	drained  map[sharding.NodeID]bool
	target   coordinator.TargetFact
}

func (s *store) backUp() backup {
	b := backup{s.ledger.Clone(), s.steering, maps.Clone(s.drained), s.target}
	b.steering.cordons, b.steering.pins = maps.Clone(b.steering.cordons), maps.Clone(b.steering.pins)
	return b
}

// restoreFrom makes the journal a backup's. Nothing is known about lost data.
func (s *store) restoreFrom(b backup, drawn sharding.Generation) {
	if err := s.ledger.Restore(b.ledger, drawn, 0); err != nil {
		s.w.violate("driver", "restore: %v", err)
	}
	s.restores++
	s.times = s.times[:len(s.ledger.Log())]
	s.steering, s.drained, s.target = b.steering, b.drained, b.target
}

// read runs a query at the journal and calls back with true, or with false
// when there was no answer.
func (s *store) read(host int, query func(), done func(ok bool)) {
	w := s.w
	there, back := s.way(), s.way()
	opened := w.processes[host].opened
	lost := w.dice("journal").chance(w.weather.Unknown)
	patience := w.dice("journal").between(100*ms, 2*sec)
	w.after(there, func() {
		if s.replaced(host, opened) {
			return
		}
		if s.hang(host, []string{kindLoad}, func() { done(false) }) {
			return
		}
		if lost || s.down || w.net.blocked(host, journalHost) || w.net.blocked(journalHost, host) {
			w.mark("journal: no answer to a query")
			w.after(patience, func() { done(false) })
			return
		}
		query()
		w.after(back, func() { done(true) })
	})
}

func (s *store) way() int64 {
	d := s.w.dice("journal")
	t := 20_000 + d.exp(s.w.weather.JournalDelay)
	if d.chance(s.w.weather.Tail / 10) {
		t += d.between(0, sec)
	}
	return t
}

// group is the group commit of one process: one batch is in flight, and what
// comes meanwhile is the next one.
type group struct {
	s        *store
	p        *process
	ops      []journal.Op
	done     []func(journal.Result)
	inFlight bool
}

// add hands over an operation; done runs in the process's loop.
func (g *group) add(op journal.Op, done func(journal.Result)) {
	g.ops = append(g.ops, op)
	g.done = append(g.done, done)
	if len(g.ops) > maxGroup {
		g.s.w.violate("buffers are bounded", "%s has %d operations waiting for its journal", g.p.name, len(g.ops))
	}
}

// maxGroup is more than the entities, shards and questions of a region can have
// waiting at a time, each once or twice.
const maxGroup = 150

// kick starts the next batch if none is in flight.
func (g *group) kick() {
	if g.inFlight || len(g.ops) == 0 {
		return
	}
	ops, done := g.ops, g.done
	g.ops, g.done, g.inFlight = nil, nil, true
	incarnation := g.p.incarnation
	g.s.commit(g.p.host, ops, func(results []journal.Result) {
		if g.p.incarnation != incarnation {
			return // no process is there to receive it
		}
		g.p.post(func() {
			g.inFlight = false
			for i := range done {
				r := journal.Result{Verdict: sharding.UnknownOutcome, Err: errLost}
				if results != nil {
					r = results[i]
				} else if ops[i].Append != nil {
					g.s.doubtful[ops[i].Append.Entity] = true
				}
				done[i](r)
			}
			g.kick()
		})
	})
}

type opTrace struct {
	Op      any
	Verdict sharding.Verdict
	Fence   sharding.Fence
}

func traceOp(op *journal.Op, r journal.Result) opTrace {
	t := opTrace{Verdict: r.Verdict, Fence: r.Fence}
	switch {
	case op.Claim != nil:
		t.Op = *op.Claim
	case op.Append != nil:
		t.Op = *op.Append
	case op.Fence != nil:
		t.Op = *op.Fence
	case op.Snapshot != nil:
		t.Op = *op.Snapshot
	case op.Purge != nil:
		t.Op = *op.Purge
	}
	return t
}
