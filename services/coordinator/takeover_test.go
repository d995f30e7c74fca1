package coordinator

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// journalOf is a journal with the coordinators of two clusters: what takes over in
// it, and when, if nothing else happens but heartbeats of the other one.
type journalOf struct {
	takeover takeover
	now      time.Time
	found    found
	other    sharding.JournalHeartbeat
	beats    bool          // the other one lives
	until    time.Duration // so long; 0: forever
}

const (
	ours   sharding.ClusterID = 11
	theirs sharding.ClusterID = 22
)

// decide surveys until the decision is made.
func (j *journalOf) decide(t *testing.T) (takeoverStep, time.Duration) {
	t.Helper()
	start := j.now
	for {
		took := j.now.Sub(start)
		if j.beats && (j.until == 0 || took < j.until) && took%time.Second == 0 {
			j.other.N++
			j.found.Heartbeat = j.other
		}
		step := j.takeover.decide(j.now, j.found)
		switch {
		case step == termSpent:
			j.found.Term = j.found.Highest.Term() + 1
		case step != surveyAgain:
			return step, took
		case took > time.Minute:
			t.Fatal("no decision within a minute")
		}
		j.now = j.now.Add(500 * time.Millisecond)
	}
}

func TestTakeover(t *testing.T) {
	const patience = 4 * time.Second
	heartbeat := func(c sharding.ClusterID) sharding.JournalHeartbeat {
		return sharding.JournalHeartbeat{Coordinator: sharding.NodeID{Addr: "b:1", UID: 2}, Cluster: c, Term: 5, N: 3}
	}
	for _, c := range []struct {
		name    string
		term    sharding.Term
		cluster sharding.ClusterID // of the heartbeat; 0: an earlier version
		beats   bool
		until   time.Duration
		fenced  bool
		want    takeoverStep
		least   time.Duration
		most    time.Duration
	}{
		{name: "the next term of the same cluster", term: 6, cluster: ours, want: mayClaim},
		{name: "the same, while the last heartbeat of the one before comes", term: 6, cluster: ours, beats: true, want: mayClaim},
		{name: "after an earlier version", term: 6, want: mayClaim},
		{name: "a lost record", term: 1, cluster: theirs, want: mayClaim, least: patience, most: patience + time.Second},
		{name: "a lost record, and its holder acts until its time is over", term: 1, cluster: theirs, beats: true, until: 2 * time.Second, want: mayClaim, least: patience, most: 2 * patience},
		{name: "a lost record that a candidate remembered", term: 6, cluster: ours, want: mayClaim},
		{name: "a record from a backup", term: 2, cluster: ours, want: mayClaim, least: patience, most: patience + time.Second},
		{name: "a copy of the store", term: 2, cluster: ours, beats: true, want: contested, least: patience, most: 2 * patience},
		{name: "another cluster that lives", term: 1, cluster: theirs, beats: true, want: contested, least: patience, most: 2 * patience},
		{name: "another cluster that lives, of lower terms", term: 99, cluster: theirs, beats: true, want: contested, least: patience, most: 2 * patience},
		{name: "another cluster that is gone, of lower terms", term: 99, cluster: theirs, want: mayClaim, least: patience, most: patience + time.Second},
		{name: "fenced by an earlier version", term: 6, beats: true, fenced: true, want: contested, least: patience, most: 2 * patience},
	} {
		j := journalOf{
			takeover: takeover{patience: patience}, now: time.Unix(1e6, 0), beats: c.beats, until: c.until,
			found: found{Term: c.term, Cluster: ours, Highest: sharding.MakeEpoch(5, 9)}, other: heartbeat(c.cluster),
		}
		j.found.Heartbeat = j.other
		for _, life := range []string{"at first", "hours later"} {
			if c.fenced {
				j.takeover.wasFenced()
			}
			if got, took := j.decide(t); got != c.want || took < c.least || took > c.most {
				t.Errorf("%s, %s: %v after %v, want %v between %v and %v", c.name, life, got, took, c.want, c.least, c.most)
			}
			if c.want == contested {
				break
			}
			// It acts, and is elected again much later.
			j.found.Heartbeat = sharding.JournalHeartbeat{Coordinator: sharding.NodeID{Addr: "a:1", UID: 1}, Cluster: ours, Term: j.found.Term, N: 7000}
			j.found.Highest = sharding.MakeEpoch(j.found.Term, 3)
			j.found.Term, j.now = j.found.Term+1, j.now.Add(3*time.Hour)
			c.least, c.most, j.beats, c.fenced = 0, 0, false, false
		}
	}
}

// TestTakeoverOnce: what was waited for once is not waited for again when the term
// has been raised; a pause between two surveys proves nothing.
func TestTakeoverOnce(t *testing.T) {
	now := time.Unix(1e6, 0)
	f := found{Term: 1, Cluster: ours, Highest: sharding.MakeEpoch(5, 9), Heartbeat: sharding.JournalHeartbeat{Cluster: theirs, Term: 5, N: 1}}
	tk := takeover{patience: 4 * time.Second}
	for i, c := range []struct {
		after time.Duration
		want  takeoverStep
	}{
		{0, surveyAgain}, {time.Second, surveyAgain}, {10 * time.Second, surveyAgain}, // it slept
		{2 * time.Second, surveyAgain}, {time.Second, surveyAgain}, {time.Second, termSpent},
	} {
		now = now.Add(c.after)
		if got := tk.decide(now, f); got != c.want {
			t.Fatalf("survey %d: %v, want %v", i, got, c.want)
		}
	}
	f.Term = 6
	if got := (&takeover{patience: time.Second}).decide(now, found{Term: 6, Cluster: ours, Highest: sharding.MakeEpoch(6, 0), Heartbeat: sharding.JournalHeartbeat{Cluster: ours, Term: 5}}); got != mayClaim {
		t.Errorf("a claim that was tried before: %v", got)
	}
	tried, twin := f, tk
	tried.Highest = sharding.MakeEpoch(6, 0) // of the other cluster
	if got := twin.decide(now.Add(time.Second), tried); got != termSpent {
		t.Errorf("the claim of another cluster in the same term: %v", got)
	}
	if got := tk.decide(now.Add(time.Second), f); got != mayClaim {
		t.Errorf("in the raised term: %v", got)
	}
}

// registers lets a region register that says so of its journal, in a cluster that is
// so by its own, and returns the refusal.
func registers(t *testing.T, cluster sharding.ClusterID, journal *sharding.ClusterID) string {
	t.Helper()
	var owner control.JournalOwner
	if journal != nil {
		owner = control.JournalOwner{Known: true, Cluster: *journal}
	}
	return registersFrom(t, Elected{Term: 1, Cluster: cluster}, owner)
}

// registersFrom returns how a coordinator that was elected refuses a region with a
// journal, "" if it does not.
func registersFrom(t *testing.T, elected Elected, owner control.JournalOwner) string {
	t.Helper()
	r1, now := node(t, "r1"), time.Unix(1e6, 0)
	m := New(DefaultConfig())
	var out []Output
	for _, in := range []Input{
		Member{Node: r1, Reachable: true}, elected,
		calls(r1, control.Register{Types: []sharding.TypeDesc{{Type: "T", Shards: 1}}, Journal: owner}),
	} {
		out = m.Step(now, in, out)
	}
	refusal := "nothing"
	for _, o := range out {
		if ack, is := sent(o).(control.RegisterAck); is {
			refusal = ack.Refusal
		}
	}
	if m.live.region(r1).registered != (refusal == "") {
		t.Errorf("registered %t, refusal %q", m.live.region(r1).registered, refusal)
	}
	return refusal
}

// TestRegionJournal: a region whose journal is not the journal of the facts is
// refused, with the remedy.
func TestRegionJournal(t *testing.T) {
	id := func(c sharding.ClusterID) *sharding.ClusterID { return &c }
	for _, c := range []struct {
		name    string
		cluster sharding.ClusterID
		journal *sharding.ClusterID
		want    []string
	}{
		{"the same", ours, id(ours), nil},
		{"an earlier version, or a journal that cannot be read", ours, nil, nil},
		{"a coordinator that could not store its own", 0, id(theirs), nil},
		{"another cluster's", ours, id(theirs), []string{ours.String(), theirs.String(), "journal.url", "discovery.url"}},
		{"nobody's", ours, id(0), []string{ours.String(), "journal.url"}},
	} {
		got := registers(t, c.cluster, c.journal)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q does not name %s", c.name, got, want)
			}
		}
		if (got == "") != (c.want == nil) {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

// TestRegionGeneration: a region whose journal has another generation is refused, and told
// what to do; the table of a coordinator names its own.
func TestRegionGeneration(t *testing.T) {
	for _, c := range []struct{ coordinator, region sharding.Generation }{{7, 7}, {7, 0}, {0, 7}, {7, 8}} {
		refusal := registersFrom(t, Elected{Term: 1, Generation: c.coordinator}, control.JournalOwner{Generation: c.region})
		other := c.coordinator != c.region && c.coordinator != 0 && c.region != 0
		if (refusal != "") != other || other && !(strings.Contains(refusal, c.region.String()) && strings.Contains(refusal, c.coordinator.String()) && strings.Contains(refusal, "restart the region")) {
			t.Errorf("%+v: %q", c, refusal)
		}
	}
	m := New(DefaultConfig())
	m.Step(time.Unix(1e6, 0), Elected{Term: 1, Generation: 7}, nil)
	for _, from := range []sharding.Version{{}, m.table.version} {
		if d := m.table.delta(from); d.Generation != 7 {
			t.Errorf("the table after %v is of generation %v", from, d.Generation)
		}
	}
}

// TestHeartbeatDeleted: a region that finds no heartbeat in the journal of this cluster asks again, because the
// heartbeat is stored again soon. A region on another journal is refused.
func TestHeartbeatDeleted(t *testing.T) {
	for _, c := range []struct {
		generation sharding.Generation
		asksAgain  bool
	}{{7, true}, {8, false}, {0, false}} {
		refusal := registersFrom(t, Elected{Term: 1, Cluster: ours, Generation: 7}, control.JournalOwner{Known: true, Generation: c.generation})
		if (refusal == "nothing") != c.asksAgain {
			t.Errorf("a region without a heartbeat in generation %v gets %q", c.generation, refusal)
		}
	}
}

// allocated counts the shards that are allocated when a region registers in a term that began without facts.
func allocated(t *testing.T, missing bool) (n int) {
	w := newWorld(t, DefaultConfig())
	r1 := node(t, "r1")
	w.step(Member{Node: r1, Reachable: true})
	w.step(Elected{Term: 2, FactsMissing: missing})
	w.step(calls(r1, control.Register{Types: []sharding.TypeDesc{{Type: "T", Shards: 4}, {Type: "V", Shards: 3, Volatile: true}}}))
	w.step(Tick{})
	for _, row := range w.m.View().Rows {
		n += toInt(row.Epoch != 0)
	}
	return n
}

// allocatedInNextTerm counts the shards that are allocated in the term after one that began without facts and stored
// only its first facts, so many. A region that hosts one more type registers.
func allocatedInNextTerm(t *testing.T, first int, missing bool) (n int) {
	w := newWorld(t, DefaultConfig())
	r1 := node(t, "r1")
	types := []sharding.TypeDesc{{Type: "T", Shards: 4}, {Type: "V", Shards: 3, Volatile: true}}
	register := func() {
		w.step(Member{Node: r1, Reachable: true})
		w.step(calls(r1, control.Register{Version: "1", Types: types}))
	}
	w.step(Elected{Term: 2, FactsMissing: missing})
	register()
	facts := slices.Clone(w.facts[:first])
	w.stored = map[sharding.ShardID]sharding.Row{}
	for _, f := range facts {
		if f, is := f.(RowFact); is {
			w.store(f)
		}
	}
	for term := sharding.Term(3); term <= 4; term++ {
		w.m = New(w.cfg)
		w.step(Elected{Term: term, Facts: facts})
		facts = w.m.Snapshot() // a checkpoint says the same
	}
	types = append(types, sharding.TypeDesc{Type: "U", Shards: 2})
	register()
	w.now = w.now.Add(w.cfg.RecoveryWait)
	w.step(Tick{})
	for _, row := range w.m.View().Rows {
		n += toInt(row.Epoch != 0 && !row.Owner.IsZero())
	}
	return n
}

// TestLossIsKept: whatever the first coordinator after a loss of the facts has stored before it died, the next one
// allocates the remaining shards, and shards of types which register only then.
func TestLossIsKept(t *testing.T) {
	for first := 1; first <= 4; first++ {
		if n := allocatedInNextTerm(t, first, true); n != 6 {
			t.Errorf("after %d facts, %d shards are allocated, want 6", first, n)
		}
	}
	if n := allocatedInNextTerm(t, 3, false); n != 0 {
		t.Errorf("in a new cluster, %d shards are allocated", n)
	}
}

// TestFactsMissingAllocates: if the facts are gone, the shards of journaled types are allocated without a command,
// because their entities may have reminders.
func TestFactsMissingAllocates(t *testing.T) {
	if n := allocated(t, true); n != 4 {
		t.Errorf("%d shards are allocated, want 4", n)
	}
	if n := allocated(t, false); n != 0 {
		t.Errorf("in a new cluster, %d shards are allocated", n)
	}
}
