package coordinator

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/backoff"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Tenure is one coordinator process: a [Machine], and the rules that say when the Machine
// may act. A Tenure takes over the facts when its process acquires the lease. It emits an
// output of the Machine only when every fact before it is durable and the lease is valid. An
// [Explained] and an [Asked] are emitted at once, because no fact and no other output depends on them.
//
// # Life of a term
//
//	             Acquired            Surveyed            Claimed           JournalHeartbeatWritten          Loaded
//	standing by ─────────▶ surveying ────────▶ claiming ────────▶ identifying ────────────▶ loading ───────▶ active
//	     ▲                                                                                                │
//	     └──── lease lost or past its time, term spent, fenced, outcome unknown, too much held back ──────┘
//
// Standing by, a Tenure has no term. Then it takes these steps:
//
//   - surveying: it reads from the journal whether the term is spent, and which cluster uses the journal;
//   - claiming: it claims the fact stream at the first epoch of the term;
//   - identifying: it writes the first journal heartbeat of the term;
//   - loading: it reads the fact stream.
//
// If a step fails, the take-over begins anew with the same term, at surveying.
//
// A term is *spent* if epochs of it, or of a higher term, were used before this tenure began. A spent
// term must not be used, because its epochs would not be higher than all earlier ones. A term can be
// spent from the start: if the record of the lease was lost, the new record knows nothing of earlier
// terms, and gives a low term. The survey detects a spent term by the highest epoch in the journal. The
// epoch of the Tenure's own claim does not count: if the take-over begins anew after the step claiming,
// this epoch is in the journal already. When a term has ended in this process, the process does not use
// it again.
//
// The claim of the fact stream fences every earlier coordinator. So the facts that are
// loaded after the claim are all that the earlier coordinators have stored and ever will.
//
// If the term is spent or fenced, or if it is unknown whether facts of it were stored, a higher term is
// requested with [RaiseTerm]. If more outputs are held back than the limits allow, the lease is
// given up with [YieldLease].
//
// The type takeover decides whether the fact stream may be claimed: only if the term is not
// spent, and if no other cluster uses the journal. After the claim, and before any decision,
// a journal heartbeat records which cluster the journal belongs to. A journal that is full
// or damaged may refuse that heartbeat; then the take-over continues without it.
//
// # What is held back
//
// The [Gate] holds back every output until the facts before it are durable. The lease is
// checked at the time of the Step. A driver that is paused after the Step may perform the
// outputs when the lease has expired. Such outputs do no harm: regions and watchers of the
// table refuse them by their term, and the journal by their epoch.
//
// A Tenure is not safe for concurrent use.
type Tenure struct {
	cfg  Config
	self sharding.NodeID
	now  time.Time
	out  []Output // of the Step in progress
	m    *Machine

	term  sharding.Term // the term that this process holds and may use; 0: none
	until time.Time     // the lease is valid only before this time
	phase phase
	// resigned is true if no further term is taken up.
	resigned bool

	// last is the number of the newest request to the journal. The requests that wait for an
	// answer are in asked, append, checkpoint and heartbeatWrite. Any other answer is late: its
	// request was of an earlier term, or was given up.
	last    uint64
	asked   uint64    // the request of the take-over that waits for an answer; 0: none
	askedAt time.Time // when that request was made
	retryAt time.Time // when the take-over begins anew; zero: no time is set, because a request waits for an answer
	// failures is the number of successive failures of the take-over in this term.
	failures int
	// deleted describes the last rows of the coordinators that were deleted while this process was active, and
	// deletedAt is the time when it noticed; zero: never.
	deleted   string
	deletedAt time.Time
	// missing is an entity with records, if the journal had no facts at the beginning of this term (see FactsMissing);
	// zero: the facts are not missing.
	missing sharding.Entity

	takeover        takeover
	waitingReported bool                      // Waiting was emitted in this term
	cluster         sharding.ClusterID        // the cluster of the lease
	generation      sharding.Generation       // of the journal
	heartbeat       sharding.JournalHeartbeat // the last one of this term

	gate           *Gate   // of the active term; nil: not active
	append         request // writes a record to the fact stream
	facts          []Fact  // the facts of that record
	newFacts       int     // how many facts of that record are new, see Append; the others belong to a checkpoint
	checkpoint     request // writes the mark of a checkpoint
	heartbeatWrite request // writes a journal heartbeat
	heartbeatAt    time.Time
	factsCheck     uint64   // number of the newest CheckFacts that has no answer; 0: none
	factsStored    uint64   // number of the last record of facts that was durable when that CheckFacts was emitted
	machineOut     []Output // memory for the outputs of a step of the Machine
}

type phase uint8

const (
	standingBy phase = iota
	surveying
	claiming
	identifying
	loading
	active
)

// request is one kind of request to the journal. At most one of each kind is in progress.
type request struct {
	number  uint64    // the number of the request that is in progress; 0: none is
	retryAt time.Time // when a failed request may be made again; zero: none has failed
}

// NewTenure returns a Tenure that is standing by. The process is self; the config must be
// valid.
func NewTenure(cfg Config, self sharding.NodeID) *Tenure {
	return &Tenure{cfg: cfg, self: self, m: New(cfg), takeover: takeover{patience: cfg.JournalHeartbeatPatience}}
}

// Step applies one input at time now, and appends to out what the driver must
// do, in that order. It never fails: what makes no sense is ignored.
func (t *Tenure) Step(now time.Time, in Input, out []Output) []Output {
	t.now, t.out = now, out
	// Inputs that begin, prolong or end the term come first, and so does the end of a call.
	switch in := in.(type) {
	case Acquired:
		t.acquired(in)
	case Renewed:
		t.renewed(in)
	case Lost:
		if in.Term == t.term {
			t.stepDown("the lease is lost")
		}
	case Resign:
		t.resigned = true
		t.stepDown("this process stops")
	case CallEnded:
		// The caller no longer waits for the answer, so the Gate must forget it now. The term may end later in this
		// Step, and then stepDown answers every call whose answer the Gate holds.
		if t.gate != nil {
			t.gate.Forget(in.Call)
		}
		t.step(in)
	}
	t.lapse(in)
	switch in := in.(type) {
	case Acquired, Renewed, Lost, Resign, CallEnded:
	case Surveyed:
		t.surveyed(in)
	case Claimed:
		t.claimed(in)
	case Loaded:
		t.loaded(in)
	case ReadFailed:
		if t.takeAnswer(in.Number) {
			t.restart()
		}
	case JournalHeartbeatWritten:
		t.journalHeartbeatWritten(in)
	case Appended:
		t.appended(in)
	case FactsChecked:
		t.factsChecked(in)
	case CheckpointWritten:
		t.checkpointWritten(in)
	case Elected, Deposed, Stored: // the Tenure gives these to the Machine; a driver must not
	case Tick:
		t.retry()
		t.writeNextHeartbeat()
		t.step(in)
	default:
		t.step(in)
	}
	t.pump()
	out, t.out = t.out, nil
	return out
}

func (t *Tenure) emit(o Output) { t.out = append(t.out, o) }

// step steps the Machine. Its outputs wait in the Gate, unless this process stands by.
func (t *Tenure) step(in Input) {
	t.machineOut = t.m.Step(t.now, in, t.machineOut[:0])
	held := t.machineOut[:0]
	for _, o := range t.machineOut {
		_, explained := o.(Explained)
		_, asked := o.(Asked)
		// Invariant: no fact and no message waits until an explanation is stored.
		// Guarded by: `Tenure.step`: an `Explained` leaves at once.
		// Mutants: explanation-held
		if t.gate == nil || asked || explained { //mutant:false explanation-held explained
			t.out = append(t.out, o)
		} else {
			held = append(held, o)
		}
	}
	if t.gate != nil {
		t.gate.Add(held)
	}
	clear(t.machineOut)
}

// acquired begins to take over.
func (t *Tenure) acquired(in Acquired) {
	t.stepDown("a new term has begun")
	if t.resigned {
		return
	}
	t.term, t.until, t.cluster, t.waitingReported = in.Term, in.Until, in.Cluster, false
	t.survey()
}

// renewed prolongs the term. If the term has ended here while the lease went on, the Tenure asks for a higher term.
func (t *Tenure) renewed(in Renewed) {
	switch t.term {
	case in.Term:
		t.until = in.Until
	case 0:
		if !t.resigned {
			t.emit(RaiseTerm{Above: in.Term})
		}
	}
}

// lapse ends the term if its lease has expired. From then on nothing leaves any more, not even
// an output whose facts became durable in time.
func (t *Tenure) lapse(in Input) {
	//mutant:do lapse return
	//mutant:do lapse-at-once if _, tick := in.(Tick); !tick { return }
	if t.term != 0 && !t.now.Before(t.until) {
		t.stepDown("the lease was not renewed in time")
	}
}

// stepDown ends the use of the term. Decisions that are not durable are forgotten; the
// next active coordinator folds the durable ones. If the coordinator was active, stepDown reports the
// reason, which is the parameter why. A take-over that ends is not reported.
func (t *Tenure) stepDown(why string) {
	term, gate := t.term, t.gate
	t.term, t.phase, t.asked, t.retryAt, t.failures = 0, standingBy, 0, time.Time{}, 0
	t.gate, t.append, t.facts, t.newFacts, t.checkpoint = nil, request{}, nil, 0, request{}
	t.heartbeatWrite, t.heartbeat, t.missing = request{}, sharding.JournalHeartbeat{}, sharding.Entity{}
	t.factsCheck = 0
	if gate == nil {
		return
	}
	t.step(Deposed{})
	for _, call := range gate.End() { // the facts behind these answers are not durable
		t.emit(Reply{Call: call, Msg: control.NotActive{Active: t.m.term.known.Node, Term: t.m.term.known.Term}})
	}
	t.emit(SteppedDown{Term: term, Why: why, Resigned: t.resigned})
}

// raise ends the term, and requests a term that is higher than both the ended term and the parameter
// above.
func (t *Tenure) raise(why string, above sharding.Term) {
	above = max(above, t.term)
	t.stepDown(why)
	t.emit(RaiseTerm{Above: above})
}

// newRequest enters a phase of the take-over, and returns the number of its request.
func (t *Tenure) newRequest(p phase) uint64 {
	t.last++
	t.phase, t.asked, t.askedAt, t.retryAt = p, t.last, t.now, time.Time{}
	return t.last
}

// takeAnswer reports whether the take-over waits for the answer to the request with this
// number. If so, it waits no longer.
func (t *Tenure) takeAnswer(number uint64) bool {
	if t.phase == standingBy || t.phase == active {
		return false
	}
	// Invariant: two coordinators never decide at the same time. A coordinator acts only under three conditions: it has
	// claimed the fact stream with its term, it has read the stream after that, and its lease has not expired.
	// Mutants: stale-fold, lapse, lapse-at-once
	if number != t.asked { //mutant:false stale-fold
		return false
	}
	t.asked = 0
	return true
}

// restart lets the take-over begin anew after a pause. The pause grows, because what fails again and again, such
// as reading damaged facts, may need an operator.
func (t *Tenure) restart() {
	t.failures++
	jitter := backoff.Jitter(t.self.UID) // its state is not kept: only this process takes over now
	pause := jitter.Pause(t.failures, t.cfg.RetryPause, t.cfg.RetryPauseMax)
	t.phase, t.asked, t.retryAt = surveying, 0, t.now.Add(pause)
}

func (t *Tenure) survey() { t.emit(Survey{Number: t.newRequest(surveying)}) }

func (t *Tenure) surveyed(in Surveyed) {
	if !t.takeAnswer(in.Number) {
		return
	}
	t.generation = in.Generation
	f := found{Term: t.term, Cluster: t.cluster, Highest: in.Highest, Heartbeat: in.Heartbeat}
	if in.Damaged {
		// The highest epoch could not be read. The take-over continues without it, because the
		// fence of the stream protects as well. A coordinator claims the stream before it hands
		// out epochs of a term, so no epoch has a higher term than the fence. If the fence is
		// above this term, the Claim that follows is refused.
		f.Highest = 0
	}
	switch t.takeover.decide(t.now, f) {
	case mayClaim:
		if f.Heartbeat.Cluster != 0 && f.Heartbeat.Cluster != t.cluster { // another cluster has used the journal, but lives no more
			t.emit(Adopted{Term: t.term, Cluster: t.cluster, From: f.Heartbeat})
		}
		t.emit(Claim{Number: t.newRequest(claiming), Term: t.term})
	case surveyAgain:
		if !t.waitingReported {
			t.waitingReported = true
			t.emit(Waiting{Term: t.term, Other: f.Heartbeat})
		}
		t.retryAt = t.now.Add(t.cfg.SurveyInterval)
	case termSpent:
		t.raise("", f.Highest.Term()) // not active yet, so nothing to report
	case contested:
		t.emit(Contested{Cluster: t.cluster, By: f.Heartbeat})
		t.stepDown("")
	}
}

func (t *Tenure) claimed(in Claimed) {
	switch {
	case !t.takeAnswer(in.Number):
	case in.Verdict == sharding.Durable:
		t.heartbeat = sharding.JournalHeartbeat{Coordinator: t.self, Cluster: t.cluster, Term: t.term, N: 1}
		t.emit(WriteJournalHeartbeat{Number: t.newRequest(identifying), Heartbeat: t.heartbeat})
	case in.Verdict == sharding.RefusedEpoch:
		t.fenced(in.Fence)
	default:
		t.restart()
	}
}

// journalHeartbeatWritten handles the result of writing a heartbeat. The first heartbeat of
// a term records which cluster the journal belongs to, before anything is decided. If a full
// or damaged journal refuses it, the take-over continues: a coordinator that can store no
// facts can still tell gateways and regions where the placed shards are.
func (t *Tenure) journalHeartbeatWritten(in JournalHeartbeatWritten) {
	first := t.phase == identifying && t.takeAnswer(in.Number)
	if !first && (in.Number != t.heartbeatWrite.number || in.Number == 0) {
		return
	}
	t.heartbeatWrite = request{}
	switch {
	case in.Verdict == sharding.RefusedEpoch:
		t.fenced(in.Fence)
		return
	case in.Verdict == sharding.Durable:
		// If a full or damaged journal has refused the first heartbeat, the Machine was elected
		// without the identity of the cluster, and gets it when a later heartbeat is stored.
		if !first && t.m.term.cluster == 0 {
			t.step(Identified{Cluster: t.cluster})
		}
		if !first {
			t.checkFacts()
		}
	case !first && in.Verdict == sharding.RefusedSeq && t.heartbeat.N > 1: //mutant:false heartbeat-deleted
		// The record that holds the heartbeats existed in this term. Without it, another cluster could take
		// the journal, and no region could register.
		t.rowsDeleted("the journal heartbeat")
		return
	case !first:
		// N was counted up before the write, and usually a missing number does no harm. But the write of
		// heartbeat 1 of a term also creates the record that holds the heartbeats, if there is none
		// (journal.HeartbeatOps). So if heartbeat 1 was not written, the next heartbeat is number 1 again.
		if t.heartbeat.N == 1 {
			t.heartbeat.N = 0
		}
		return
	case in.Verdict == sharding.RefusedFull, in.Verdict == sharding.RefusedTooLarge, in.Verdict == sharding.RefusedDamaged:
		t.heartbeat.N = 0 // none of this term is stored
	default:
		t.restart()
		return
	}
	if first {
		t.emit(Load{Number: t.newRequest(loading)})
	}
}

// checkFacts looks whether the facts are still in the journal, after each journal heartbeat. A coordinator that
// stores nothing would not notice otherwise that they were deleted, and the next one would know less than this one has
// revealed.
func (t *Tenure) checkFacts() {
	t.last++
	t.factsCheck, t.factsStored = t.last, t.gate.Seq()-1
	t.emit(CheckFacts{Number: t.last})
}

func (t *Tenure) factsChecked(in FactsChecked) {
	if in.Number != t.factsCheck || in.Number == 0 {
		return
	}
	t.factsCheck = 0
	// Facts that became durable after the CheckFacts may be missing in its answer.
	if in.LastSeq < t.factsStored { //mutant:false facts-deleted
		t.rowsDeleted("the facts of the coordinators")
	}
}

// rowsDeleted ends the term, because rows that this coordinator has stored are gone from the journal. The next
// take-over stores a new heartbeat, and begins with the facts that are there.
func (t *Tenure) rowsDeleted(what string) {
	t.deleted, t.deletedAt = what, t.now
	t.raise(fmt.Sprintf("%s: deleted from the journal, or an older state was restored", what), t.term)
}

// Deleted describes the last rows of the coordinators that were deleted from the journal while this process was active,
// and returns the time when it noticed; "": none were.
func (t *Tenure) Deleted() (what string, at time.Time) { return t.deleted, t.deletedAt }

func (t *Tenure) loaded(in Loaded) {
	if !t.takeAnswer(in.Number) || t.phase != loading {
		return
	}
	t.failures = 0
	t.phase, t.gate, t.heartbeatAt = active, NewGate(t.cfg, in.LastSeq, in.FactsAfterMark), t.now
	t.emit(BecameActive{Term: t.term, Facts: len(in.Facts)})
	if t.missing = in.missing(); t.missing != (sharding.Entity{}) {
		t.emit(FactsMissing{Term: t.term, Stored: t.missing})
	}
	elected := Elected{Term: t.term, Facts: in.Facts, Generation: t.generation, FactsMissing: t.missing != (sharding.Entity{})}
	if t.heartbeat.N > 0 { // it is stored
		elected.Cluster = t.cluster
	}
	t.step(elected)
}

// missing returns an entity that has records although there are no facts; zero: there is none.
func (in *Loaded) missing() sharding.Entity {
	if in.LastSeq > 0 {
		return sharding.Entity{}
	}
	for _, e := range in.Stored {
		if sharding.CheckEntityType("type", e.Type) == nil { // a journal heartbeat may be there before any facts
			return e
		}
	}
	return sharding.Entity{}
}

// FactsMissing returns an entity that had records when this term began without facts; zero: the facts were not
// missing.
func (t *Tenure) FactsMissing() sharding.Entity { return t.missing }

// retry makes failed requests again. A take-over begins anew if its request has failed, or
// has had no answer for too long.
func (t *Tenure) retry() {
	due := func(at time.Time) bool { return !at.IsZero() && !t.now.Before(at) }
	switch {
	case t.phase == standingBy:
	case t.phase == active:
		if due(t.append.retryAt) {
			t.appendRecord()
		}
		if due(t.checkpoint.retryAt) {
			t.checkpoint = request{}
			t.gate.CheckpointEnded(false) // pump writes the mark again
		}
	case due(t.retryAt), t.asked != 0 && t.now.Sub(t.askedAt) >= t.cfg.TakeoverTimeout:
		t.survey()
	}
}

// writeNextHeartbeat writes a journal heartbeat if it is time. A write that fails is not
// repeated: the next heartbeat replaces it.
func (t *Tenure) writeNextHeartbeat() {
	if t.phase != active || t.heartbeatWrite.number != 0 || t.now.Sub(t.heartbeatAt) < t.cfg.JournalHeartbeatInterval {
		return
	}
	t.last++
	t.heartbeat.N++
	t.heartbeatWrite, t.heartbeatAt = request{number: t.last}, t.now
	t.emit(WriteJournalHeartbeat{Number: t.last, Heartbeat: t.heartbeat})
}

// pump emits the outputs that may leave, and asks for facts to be stored. If more outputs
// are held back than the limits allow, the term ends: a coordinator whose journal does not
// answer is of no use.
func (t *Tenure) pump() {
	if t.gate == nil {
		return
	}
	t.out = t.gate.Release(t.out)
	if err := t.gate.OverLimit(); err != nil {
		t.stepDown(err.Error())
		t.emit(YieldLease{})
		return
	}
	if facts := t.gate.BeginRecord(t.m, nil); len(facts) > 0 { // the argument is nil, because t.facts keeps the list: BeginRecord must make a new one each time
		t.facts, t.newFacts = facts, t.gate.newFacts
		t.appendRecord()
	}
	if seq := t.gate.Checkpoint(); seq > 0 {
		t.last++
		t.checkpoint = request{number: t.last}
		t.emit(WriteCheckpoint{Number: t.last, Term: t.term, Seq: seq})
	}
}

func (t *Tenure) appendRecord() {
	t.last++
	t.append = request{number: t.last}
	t.emit(Append{Number: t.last, Term: t.term, Seq: t.gate.Seq(), Facts: t.facts, NewFacts: t.newFacts})
}

func (t *Tenure) appended(in Appended) {
	if in.Number != t.append.number || in.Number == 0 {
		return
	}
	verdict := in.Verdict
	//mutant:do fact-unknown if verdict == sharding.UnknownOutcome { verdict = sharding.Durable }
	//mutant:do fact-refused if verdict == sharding.RefusedFull { verdict = sharding.Durable }
	switch verdict {
	case sharding.Durable:
		t.append, t.facts, t.newFacts = request{}, nil, 0
		t.step(Stored{Facts: t.gate.Stored()})
	case sharding.RefusedFull, sharding.RefusedTooLarge, sharding.RefusedDamaged:
		t.append = request{retryAt: t.now.Add(t.cfg.RetryPause)}
	case sharding.RefusedSeq: // no other process writes the stream at this epoch, so records that were durable are gone
		t.rowsDeleted("the facts of the coordinators")
	case sharding.RefusedEpoch:
		t.fenced(in.Fence)
	default:
		// It is not known whether these facts are stored. The claim of the next term
		// settles that, and the facts that are loaded after it are the stored ones.
		t.raise(fmt.Sprintf("it is not known whether facts were stored (%s)", in.Verdict), t.term)
	}
}

func (t *Tenure) checkpointWritten(in CheckpointWritten) {
	if in.Number != t.checkpoint.number || in.Number == 0 {
		return
	}
	switch in.Verdict {
	case sharding.Durable:
		t.checkpoint = request{}
		t.gate.CheckpointEnded(true)
	case sharding.RefusedEpoch:
		t.fenced(in.Fence)
	default:
		t.checkpoint = request{retryAt: t.now.Add(t.cfg.RetryPause)}
	}
}

// fenced ends the term: the fact stream has been claimed in a higher term, although this
// process holds the lease.
func (t *Tenure) fenced(by sharding.Epoch) {
	if by.Term() < t.term && t.phase == active { // only a row that was deleted is behind a term that was claimed
		t.rowsDeleted("the coordinators' claim of the facts")
		return
	}
	t.takeover.wasFenced()
	t.raise(fmt.Sprintf("fenced: the facts were claimed in term %d", by.Term()), by.Term())
}

// ActiveTerm returns the term in which this coordinator acts; 0: it stands by.
func (t *Tenure) ActiveTerm() sharding.Term {
	if t.phase != active {
		return 0
	}
	return t.term
}

// Held returns how many outputs are held back, how many of them are facts, and their size
// in bytes.
func (t *Tenure) Held() (outputs, facts, bytes int) {
	if t.gate == nil {
		return 0, 0, 0
	}
	return t.gate.Held()
}

// View returns the state of the coordinator for operators.
func (t *Tenure) View() View { return t.m.View() }

// Steering returns what operators want of placement, see [Machine.Steering].
func (t *Tenure) Steering() SteeringView { return t.m.Steering() }

// Shard returns where a shard is, and why, see [Machine.Shard].
func (t *Tenure) Shard(id sharding.ShardID) (ShardView, sharding.TypeDesc) { return t.m.Shard(id) }

// Preview returns what a request of an operator would do, see [Machine.Preview]. Only the active coordinator knows.
func (t *Tenure) Preview(r Request) (Effect, error) { return t.m.Preview(r) }

// Propose returns the input that the driver computes the answer to a [PlanQuery] from, see [Machine.Propose]. Only
// the active coordinator knows this input.
func (t *Tenure) Propose(q PlanQuery) (Proposal, error) { return t.m.Propose(q) }
