package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// tenureTest is a Tenure whose requests are answered by the test.
type tenureTest struct {
	t    *testing.T
	core *Tenure
	now  time.Time
	out  []Output
}

func newTenureTest(t *testing.T, cfg Config) *tenureTest {
	return &tenureTest{t: t, core: NewTenure(cfg, node(t, "c1")), now: time.Unix(1_000_000, 0)}
}

// step returns what an input causes.
func (w *tenureTest) step(in Input) []Output {
	w.t.Helper()
	w.out = w.core.Step(w.now, in, nil)
	if err := w.core.Check(); err != nil {
		w.t.Fatalf("after %T%+v: %v", in, in, err)
	}
	return w.out
}

// first finds the first output of a kind that the last input caused.
func first[O Output](w *tenureTest) (o O, ok bool) {
	for _, out := range w.out {
		if o, ok = out.(O); ok {
			return o, true
		}
	}
	return o, false
}

func want[O Output](w *tenureTest) O {
	w.t.Helper()
	o, ok := first[O](w)
	if !ok {
		w.t.Fatalf("no %T among %+v", o, w.out)
	}
	return o
}

func never[O Output](w *tenureTest, why string) {
	w.t.Helper()
	if o, ok := first[O](w); ok {
		w.t.Errorf("%s: %T%+v", why, o, o)
	}
}

// wantSent is want for a message that an output sends or answers with.
func wantSent[M control.Message](w *tenureTest) M {
	w.t.Helper()
	for _, o := range w.out {
		if m, ok := sent(o).(M); ok {
			return m
		}
	}
	var m M
	w.t.Fatalf("no %T among %+v", m, w.out)
	return m
}

func neverSent[M control.Message](w *tenureTest, why string) {
	w.t.Helper()
	for _, o := range w.out {
		if is[M](o) {
			w.t.Errorf("%s: %+v", why, o)
		}
	}
}

func (w *tenureTest) acquire(term sharding.Term) {
	w.step(Acquired{Term: term, Until: w.now.Add(10 * time.Second), Cluster: ours})
}

// active takes over with facts, in a journal whose highest epoch belongs to the
// term before.
func (w *tenureTest) active(term sharding.Term, facts ...Fact) {
	w.t.Helper()
	w.acquire(term)
	w.step(Surveyed{Number: want[Survey](w).Number, Highest: sharding.MakeEpoch(term-1, 7), Heartbeat: sharding.JournalHeartbeat{Cluster: ours, Term: term - 1}})
	w.step(Claimed{Number: want[Claim](w).Number, Verdict: sharding.Durable})
	w.step(JournalHeartbeatWritten{Number: want[WriteJournalHeartbeat](w).Number, Verdict: sharding.Durable})
	w.step(Loaded{Number: want[Load](w).Number, Facts: facts, FactsAfterMark: len(facts), LastSeq: uint64(len(facts))})
	if got := want[BecameActive](w); got.Term != term || w.core.ActiveTerm() != term {
		w.t.Fatalf("active in term %d, want %d", w.core.ActiveTerm(), term)
	}
}

func (w *tenureTest) register() {
	r1 := node(w.t, "r1")
	w.step(Member{Node: r1, Reachable: true})
	w.step(calls(r1, control.Register{Types: []sharding.TypeDesc{{Type: "T", Shards: 4}}}))
}

// TestTakesOver: what has to hold before a coordinator acts.
func TestTakesOver(t *testing.T) {
	w := newTenureTest(t, DefaultConfig())
	w.active(3)
	w.register()
	a := want[Append](w)
	neverSent[control.RegisterAck](w, "before the fact is durable")
	w.step(Appended{Number: a.Number, Verdict: sharding.Durable})
	if ack := wantSent[control.RegisterAck](w); ack.Term != 3 {
		t.Errorf("the registration is acknowledged with %+v", ack)
	}
}

// TestTermAboveEveryEpoch: a lease whose record was lost counts from the beginning.
// Nothing is claimed in a term that is spent, in a journal that is unused now.
func TestTermAboveEveryEpoch(t *testing.T) {
	w := newTenureTest(t, DefaultConfig())
	w.acquire(3)
	w.surveyed(Surveyed{Highest: sharding.MakeEpoch(5, 1)})
	want[Waiting](w)
	for waited := time.Duration(0); waited < DefaultConfig().JournalHeartbeatPatience; waited += DefaultConfig().SurveyInterval {
		never[Claim](w, "in term 3, below an epoch of term 5")
		never[RaiseTerm](w, "while another cluster may live")
		w.surveyAgain(Surveyed{Highest: sharding.MakeEpoch(5, 1)})
		never[Waiting](w, "said once")
	}
	if raise := want[RaiseTerm](w); raise.Above != 5 {
		t.Errorf("the term is raised above %d", raise.Above)
	}
}

// surveyed answers the survey.
func (w *tenureTest) surveyed(in Surveyed) {
	w.t.Helper()
	in.Number = want[Survey](w).Number
	w.step(in)
}

// surveyAgain lets the next survey be due, and answers it.
func (w *tenureTest) surveyAgain(in Surveyed) {
	w.t.Helper()
	w.step(Tick{})
	never[Survey](w, "too early")
	w.now = w.now.Add(DefaultConfig().SurveyInterval)
	w.step(Renewed{Term: 3, Until: w.now.Add(10 * time.Second)})
	w.step(Tick{})
	w.surveyed(in)
}

// TestContested: another cluster that lives keeps its journal, also if it is found
// only when the claim is refused.
func TestContested(t *testing.T) {
	w := newTenureTest(t, DefaultConfig())
	w.acquire(2)
	w.surveyed(Surveyed{})
	w.step(Claimed{Number: want[Claim](w).Number, Verdict: sharding.RefusedEpoch, Fence: sharding.MakeEpoch(2, 7)})
	if raise := want[RaiseTerm](w); raise.Above != 2 {
		t.Errorf("the term is raised above %d", raise.Above)
	}
	w.acquire(3)
	heartbeat := sharding.JournalHeartbeat{Coordinator: node(t, "c9"), Cluster: theirs, Term: 2, N: 1}
	w.surveyed(Surveyed{Heartbeat: heartbeat})
	for range 100 {
		never[Claim](w, "while a region is alive")
		if c, ok := first[Contested](w); ok {
			if c.By != heartbeat || c.Cluster != ours {
				t.Errorf("contested: %+v", c)
			}
			return
		}
		heartbeat.N++
		w.surveyAgain(Surveyed{Heartbeat: heartbeat})
	}
	t.Error("never contested")
}

// TestJournalHeartbeats: the first one is stored before the facts are read, the others
// one at a time.
func TestJournalHeartbeats(t *testing.T) {
	cfg := DefaultConfig()
	w := newTenureTest(t, cfg)
	w.active(3)
	for n := range uint64(3) {
		w.now = w.now.Add(cfg.JournalHeartbeatInterval)
		w.step(Tick{})
		s := want[WriteJournalHeartbeat](w)
		if s.Heartbeat != (sharding.JournalHeartbeat{Coordinator: node(t, "c1"), Cluster: ours, Term: 3, N: n + 2}) {
			t.Errorf("heartbeat %d is %+v", n+2, s)
		}
		w.now = w.now.Add(cfg.JournalHeartbeatInterval)
		w.step(Tick{})
		never[WriteJournalHeartbeat](w, "one is in progress")
		w.step(JournalHeartbeatWritten{Number: s.Number, Verdict: sharding.RefusedFull})
	}
	w.now = w.now.Add(cfg.JournalHeartbeatInterval)
	w.step(Tick{})
	w.step(JournalHeartbeatWritten{Number: want[WriteJournalHeartbeat](w).Number, Verdict: sharding.RefusedEpoch, Fence: sharding.MakeEpoch(9, 0)})
	if raise := want[RaiseTerm](w); raise.Above != 9 || w.core.ActiveTerm() != 0 {
		t.Errorf("fenced: %+v, active in term %d", w.out, w.core.ActiveTerm())
	}
}

// TestRowsDeleted: an active coordinator notices that rows which it has stored are gone from the journal, although it has
// nothing to store. It steps down, and asks for a term in which it takes over again.
func TestRowsDeleted(t *testing.T) {
	const facts = "the facts of the coordinators"
	for _, c := range []struct {
		what    string
		notices func(*tenureTest)
	}{
		{"the journal heartbeat", func(w *tenureTest) { w.beat(sharding.RefusedSeq) }},
		{facts, func(w *tenureTest) {
			w.beat(sharding.Durable)
			w.step(FactsChecked{Number: want[CheckFacts](w).Number})
		}},
		{facts, func(w *tenureTest) {
			w.register()
			w.step(Appended{Number: want[Append](w).Number, Verdict: sharding.RefusedSeq})
		}},
		{"the coordinators' claim of the facts", func(w *tenureTest) { w.beat(sharding.RefusedEpoch) }},
	} {
		what := c.what
		w := newTenureTest(t, DefaultConfig())
		w.active(3, TypeFact{Desc: sharding.TypeDesc{Type: "U", Shards: 1}})
		c.notices(w)
		if down := want[SteppedDown](w); w.core.ActiveTerm() != 0 || !strings.Contains(down.Why, what+": deleted from the journal") || want[RaiseTerm](w).Above != 3 {
			t.Errorf("%s: %+v", what, w.out)
		}
		if got, at := w.core.Deleted(); got != what || !at.Equal(w.now) {
			t.Errorf("%s: asked, it says %q at %v", what, got, at)
		}
	}
}

// TestFactsChecked: facts that became durable after they were counted are not missed, and neither is a late answer
// believed.
func TestFactsChecked(t *testing.T) {
	w := newTenureTest(t, DefaultConfig())
	w.active(3, TypeFact{Desc: sharding.TypeDesc{Type: "U", Shards: 1}})
	w.beat(sharding.Durable)
	first := want[CheckFacts](w)
	w.register()
	w.step(Appended{Number: want[Append](w).Number, Verdict: sharding.Durable})
	w.beat(sharding.Durable)
	second := want[CheckFacts](w)
	w.step(FactsChecked{Number: first.Number})
	w.step(FactsChecked{Number: second.Number, LastSeq: 2})
	w.step(FactsChecked{Number: second.Number})
	if w.core.ActiveTerm() != 3 {
		t.Errorf("it stepped down: %+v", w.out)
	}
}

// beat has the next journal heartbeat end with a verdict.
func (w *tenureTest) beat(v sharding.Verdict) {
	w.t.Helper()
	w.now = w.now.Add(DefaultConfig().JournalHeartbeatInterval)
	w.step(Tick{})
	w.step(JournalHeartbeatWritten{Number: want[WriteJournalHeartbeat](w).Number, Verdict: v})
}

// TestFirstJournalHeartbeat: a journal that has no room for it does not keep a coordinator from
// acting; the next one is a first one.
func TestFirstJournalHeartbeat(t *testing.T) {
	for v, acts := range map[sharding.Verdict]bool{sharding.RefusedFull: true, sharding.RefusedDamaged: true, sharding.RefusedEpoch: false, sharding.UnknownOutcome: false} {
		w := newTenureTest(t, DefaultConfig())
		w.acquire(3)
		w.surveyed(Surveyed{})
		w.step(Claimed{Number: want[Claim](w).Number, Verdict: sharding.Durable})
		s := want[WriteJournalHeartbeat](w)
		if s.Heartbeat.N != 1 {
			t.Errorf("the first heartbeat is %+v", s.Heartbeat)
		}
		w.step(JournalHeartbeatWritten{Number: s.Number, Verdict: v})
		load, ok := first[Load](w)
		if ok != acts {
			t.Errorf("after %v the facts are read: %t", v, ok)
		}
		if !acts {
			continue
		}
		w.step(Loaded{Number: load.Number})
		for _, n := range []uint64{1, 1, 2} { // the second time it is stored
			w.now = w.now.Add(DefaultConfig().JournalHeartbeatInterval)
			w.step(Tick{})
			s := want[WriteJournalHeartbeat](w)
			if s.Heartbeat.N != n {
				t.Errorf("the next heartbeat is %+v, want number %d", s.Heartbeat, n)
			}
			w.step(JournalHeartbeatWritten{Number: s.Number, Verdict: v})
			if stored := v == sharding.Durable; stored != (w.core.m.term.cluster == ours) {
				t.Errorf("heartbeat %d is stored: %t, and regions are compared with cluster %s", n, stored, w.core.m.term.cluster)
			}
			v = sharding.Durable
		}
	}
}

// TestTakeoverBacksOff: a take-over that fails is tried again after pauses that grow up to RetryPauseMax. A new
// term begins with a short pause again.
func TestTakeoverBacksOff(t *testing.T) {
	cfg := DefaultConfig()
	w := newTenureTest(t, cfg)
	// tries returns how often the take-over begins anew within a time, and the last pause before that.
	tries := func(term sharding.Term, within time.Duration) (n int, pause time.Duration) {
		t.Helper()
		asked := w.now
		for end := w.now.Add(within); w.now.Before(end); w.now = w.now.Add(10 * time.Millisecond) {
			w.step(Renewed{Term: term, Until: w.now.Add(10 * time.Second)})
			for _, o := range w.step(Tick{}) {
				if s, ok := o.(Survey); ok {
					n, pause, asked = n+1, w.now.Sub(asked), w.now
					number := s.Number
					w.step(ReadFailed{Number: number})
				}
			}
		}
		return n, pause
	}
	for term := sharding.Term(3); term < 5; term++ {
		w.acquire(term)
		w.step(ReadFailed{Number: want[Survey](w).Number})
		if n, pause := tries(term, cfg.RetryPause+10*time.Millisecond); n < 1 || pause > cfg.RetryPause {
			t.Errorf("term %d: %d tries in the first %v, pause %v", term, n, cfg.RetryPause, pause)
		}
		n, pause := tries(term, time.Minute)
		if least, most := cfg.RetryPauseMax/2, cfg.RetryPauseMax+10*time.Millisecond; pause < least || pause > most || n < 30 || n > 66 {
			t.Errorf("term %d: %d tries in a minute, and the last pause is %v, want %v to %v", term, n, pause, least, most)
		}
		w.step(Lost{Term: term})
	}
}

// TestFactsMissing: a coordinator says so if there are no facts although entities have records. A journal that has
// only what Roost itself stores before any fact is new.
func TestFactsMissing(t *testing.T) {
	own := []sharding.Entity{{Type: "roost.coordinator", ID: "decisions"}, {Type: "roost.heartbeat", ID: "h"}}
	anna := sharding.Entity{Type: "Cart", ID: "anna"}
	for name, c := range map[string]struct {
		last   uint64
		stored []sharding.Entity
		want   sharding.Entity
	}{
		"a new journal":                  {},
		"only Roost's own":               {stored: own},
		"an entity":                      {stored: []sharding.Entity{own[0], anna, {Type: "Cart", ID: "bob"}}, want: anna},
		"an entity, and there are facts": {last: 3, stored: []sharding.Entity{anna}},
	} { // order-free
		t.Run(name, func(t *testing.T) {
			w := newTenureTest(t, DefaultConfig())
			w.acquire(3)
			w.step(Surveyed{Number: want[Survey](w).Number})
			w.step(Claimed{Number: want[Claim](w).Number, Verdict: sharding.Durable})
			w.step(JournalHeartbeatWritten{Number: want[WriteJournalHeartbeat](w).Number, Verdict: sharding.Durable})
			w.step(Loaded{Number: want[Load](w).Number, LastSeq: c.last, Stored: c.stored})
			want[BecameActive](w)
			if c.want == (sharding.Entity{}) {
				never[FactsMissing](w, "the facts are not missing")
			} else if got := want[FactsMissing](w); got.Stored != c.want || got.Term != 3 {
				t.Errorf("missing: %+v", got)
			}
			if got := w.core.FactsMissing(); got != c.want {
				t.Errorf("asked, it says %v, want %v", got, c.want)
			}
			w.step(Lost{Term: 3})
			if got := w.core.FactsMissing(); got != (sharding.Entity{}) {
				t.Errorf("after the term, it says %v", got)
			}
		})
	}
}

// TestLateAnswers: what answers a request of an earlier term, or one that was given
// up, has no consequence.
func TestLateAnswers(t *testing.T) {
	w := newTenureTest(t, DefaultConfig())
	w.active(3)
	w.register()
	old := want[Append](w)
	w.step(Lost{Term: 3})
	want[SteppedDown](w)
	w.acquire(4)
	survey := want[Survey](w)
	w.now = w.now.Add(DefaultConfig().RetryPause)
	w.step(ReadFailed(survey))
	w.now = w.now.Add(DefaultConfig().RetryPause)
	w.step(Tick{})
	again := want[Survey](w)
	w.step(Surveyed{Number: survey.Number, Highest: sharding.MakeEpoch(3, 0)})
	never[Claim](w, "by an answer that came twice")
	w.step(Surveyed{Number: again.Number, Highest: sharding.MakeEpoch(3, 0)})
	claim := want[Claim](w)
	for _, v := range []sharding.Verdict{sharding.Durable, sharding.RefusedEpoch, sharding.RefusedFull, sharding.UnknownOutcome} {
		if out := w.step(Appended{Number: old.Number, Verdict: v}); len(out) > 0 {
			t.Errorf("a record of an earlier term, %v: %+v", v, out)
		}
	}
	w.step(Claimed{Number: claim.Number, Verdict: sharding.Durable})
	w.step(JournalHeartbeatWritten{Number: want[WriteJournalHeartbeat](w).Number, Verdict: sharding.Durable})
	load := want[Load](w)
	if out := w.step(Loaded{Number: load.Number - 1}); len(out) > 0 {
		t.Errorf("a late load: %+v", out)
	}
	w.step(Loaded{Number: load.Number, LastSeq: 4})
	want[BecameActive](w)
}

// TestNothingPastTheLease: whatever comes, and whatever was durable in time.
func TestNothingPastTheLease(t *testing.T) {
	for _, behind := range []Input{calls(sharding.NodeID{Addr: "r1:1", UID: 1}, control.Register{}), Tick{}, Appended{Number: 5, Verdict: sharding.Durable}} {
		w := newTenureTest(t, DefaultConfig())
		w.active(3)
		w.register()
		if a := want[Append](w); a.Number != 5 {
			t.Fatalf("the record has number %d", a.Number)
		}
		w.now = w.now.Add(10 * time.Second)
		w.step(behind)
		neverSent[control.RegisterAck](w, fmt.Sprintf("past the lease, at %T", behind))
		want[SteppedDown](w)
		// The lease went on, and its news come late: a higher term, not this one.
		w.step(Renewed{Term: 3, Until: w.now.Add(time.Second)})
		if raise := want[RaiseTerm](w); raise.Above != 3 {
			t.Errorf("raised above %d", raise.Above)
		}
	}
	// News of the lease that come with the work go first.
	w := newTenureTest(t, DefaultConfig())
	w.active(3)
	w.register()
	w.now = w.now.Add(10 * time.Second)
	w.step(Renewed{Term: 3, Until: w.now.Add(time.Second)})
	w.step(Appended{Number: 5, Verdict: sharding.Durable})
	wantSent[control.RegisterAck](w)
}

// TestCallEnded: a call without a waiting caller is not answered, neither when its
// fact is durable nor when the term ends, even if that is noticed at the same moment.
func TestCallEnded(t *testing.T) {
	for _, end := range []func(*tenureTest){
		func(w *tenureTest) { w.step(Appended{Number: 5, Verdict: sharding.Durable}) },
		func(w *tenureTest) { w.step(Resign{}) },
		nil, // past the lease
	} {
		w := newTenureTest(t, DefaultConfig())
		w.active(3)
		w.register()
		if end == nil {
			w.now = w.now.Add(10 * time.Second)
		}
		outs, _, _ := w.core.Held()
		w.step(CallEnded{Call: calls(sharding.NodeID{}, nil).Call})
		neverSent[control.NotActive](w, "at once")
		if end != nil {
			if left, _, _ := w.core.Held(); left != outs { // its place is only taken when it leaves
				t.Errorf("%d outputs wait, %d did before", left, outs)
			}
			end(w)
		}
		neverSent[control.RegisterAck](w, "no caller waits")
		neverSent[control.NotActive](w, "no caller waits")
	}
}

// TestUnknownOutcome: whether facts are true is settled by a higher term.
func TestUnknownOutcome(t *testing.T) {
	for _, v := range []sharding.Verdict{sharding.UnknownOutcome, sharding.RefusedSeq} {
		w := newTenureTest(t, DefaultConfig())
		w.active(3)
		w.register()
		w.step(Appended{Number: want[Append](w).Number, Verdict: v})
		neverSent[control.RegisterAck](w, "nothing is known")
		if raise := want[RaiseTerm](w); raise.Above != 3 || w.core.ActiveTerm() != 0 {
			t.Errorf("%v: raised above %d, active in term %d", v, raise.Above, w.core.ActiveTerm())
		}
	}
}

// TestRefusedForNow: the same record is stored again.
func TestRefusedForNow(t *testing.T) {
	w := newTenureTest(t, DefaultConfig())
	w.active(3)
	w.register()
	a := want[Append](w)
	w.step(Appended{Number: a.Number, Verdict: sharding.RefusedFull})
	w.step(Tick{})
	never[Append](w, "at once")
	w.now = w.now.Add(DefaultConfig().RetryPause)
	w.step(Tick{})
	again := want[Append](w)
	if again.Number == a.Number || again.Seq != a.Seq || fmt.Sprint(again.Facts) != fmt.Sprint(a.Facts) || again.NewFacts != a.NewFacts {
		t.Errorf("again: %+v, not %+v", again, a)
	}
	w.step(Appended{Number: again.Number, Verdict: sharding.Durable})
	wantSent[control.RegisterAck](w)
}

// TestResigned: a process that stops takes up no term.
func TestResigned(t *testing.T) {
	w := newTenureTest(t, DefaultConfig())
	w.active(3)
	w.step(Resign{})
	want[SteppedDown](w)
	for _, in := range []Input{Renewed{Term: 3, Until: w.now.Add(time.Minute)}, Acquired{Term: 4, Until: w.now.Add(time.Minute)}, Tick{}} {
		if out := w.step(in); slices.ContainsFunc(out, func(o Output) bool { return !is[control.NotActive](o) }) {
			t.Errorf("after %T: %+v", in, out)
		}
	}
}

// TestARequestIsOneRecord: the pins of one request are stored together, whatever waits before them: a
// coordinator that ends in between has stored all of them, or none. So are a move and who has asked for it.
func TestARequestIsOneRecord(t *testing.T) {
	if records := recordsOfPins(newTenureTest(t, smallRecords())); records != 1 {
		t.Errorf("the pins of one request are in %d records", records)
	}
}

// smallRecords has records of three facts.
func smallRecords() Config {
	cfg := DefaultConfig()
	cfg.FactsPerRecord = 3
	return cfg
}

// recordsOfPins returns in how many records the eight pins of one request are stored, while the journal
// stores other facts.
func recordsOfPins(w *tenureTest) (records int) {
	w.t.Helper()
	w.active(3, TypeFact{Desc: sharding.TypeDesc{Type: "T", Shards: 16}})
	pin := func(first, n uint32) PinShards {
		in := PinShards{Ahead: true, By: "placer"}
		for i := range n {
			in.Pins = append(in.Pins, Pin{Shard: sharding.ShardID{Type: "T", Index: first + i}, Region: "r1"})
		}
		return in
	}
	w.step(pin(0, 1))
	record := want[Append](w)
	for i := range uint32(2) { // two single facts wait before the eight
		w.step(pin(1+i, 1))
	}
	w.step(pin(4, 8))
	w.step(pin(12, 1))
	for pins := 0; pins < 8; {
		w.step(Appended{Number: record.Number, Verdict: sharding.Durable})
		record = want[Append](w)
		here := 0
		for _, f := range record.Facts {
			if p, ok := f.(PinFact); ok && p.Shard.Index >= 4 && p.Shard.Index < 12 {
				here++
			}
		}
		pins += here
		records += toInt(here > 0)
	}
	return records
}
