package suspects

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// notes has the turns that are noted: in upper case those that run alone, a dot after those that have ended.
type notes struct {
	turns []control.CrashedTurn
	ended []bool
}

func (n *notes) Begin(t control.CrashedTurn) int {
	n.turns, n.ended = append(n.turns, t), append(n.ended, false)
	return len(n.turns) - 1
}
func (n *notes) NotAlone(at int)         { n.turns[at].Alone = false }
func (n *notes) End(at int, _ time.Time) { n.ended[at] = true }
func (n *notes) Only(t control.CrashedTurn) {
	n.turns, n.ended = nil, nil
	n.Begin(t)
}
func (n *notes) Nobody() { n.turns, n.ended = nil, nil }

func (n *notes) String() string {
	var list []string
	for i, t := range n.turns {
		s := string(t.Entity.ID)
		if t.Alone {
			s = strings.ToUpper(s)
		}
		if n.ended[i] {
			s += "."
		}
		list = append(list, s)
	}
	return strings.Join(list, " ")
}

func suspect(id string) *Turn {
	return &Turn{Entity: sharding.Entity{Type: "T", ID: sharding.EntityID(id)}, Command: "Do"}
}

// testQueue returns what is wrong with how the turns of suspects run.
func testQueue(t testing.TB) {
	var n notes
	q, now := New(&n), time.Unix(1000, 0)
	want := func(step, notes string) {
		t.Helper()
		if got := n.String(); got != notes {
			t.Errorf("%s: %q is noted, want %q", step, got, notes)
		}
	}
	a, b, c, d := suspect("a"), suspect("b"), suspect("c"), suspect("d")
	if !q.Begin(now, a) || q.Begin(now, b) || q.Begin(now.Add(AloneWait/2), c) {
		t.Error("turns of suspects do not run one at a time")
		return
	}
	want("one runs", "A")
	if q.End(now, a, true) != b {
		t.Error("the one that has waited longest does not begin")
	}
	want("the next one runs alone", "A. B")
	now = now.Add(AloneWait * 3 / 2)
	if begin := q.Tick(now); !slices.Equal(begin, []*Turn{c}) {
		t.Errorf("a turn that has waited long does not begin: %v", begin)
	}
	want("neither runs alone", "A. b c")
	if q.End(now, b, true) != nil || q.Begin(now, d) {
		t.Error("a turn begins while another one runs")
	}
	want("it is not alone again", "A. b. c")
	if q.End(now, c, true) != d {
		t.Error("no turn begins after the last one")
	}
	want("the last one runs alone", "A. b. c. D")
	if q.End(now, d, false) != nil || !q.Begin(now, d) || q.End(now, d, true) != nil {
		t.Error("a turn that waits does not go on")
	}
	for _, again := range []struct {
		turn  *Turn
		clean uint32
	}{{suspect("a"), 1}, {suspect("b"), 0}, {suspect("c"), 0}, {suspect("d"), 1}, {&Turn{Entity: a.Entity, Command: "Other"}, 0}} {
		q.Begin(now, again.turn)
		if got := n.turns[len(n.turns)-1]; got.Clean != again.clean || !got.Alone {
			t.Errorf("%+v: want %d turns that ran alone", got, again.clean)
		}
		q.End(now, again.turn, true)
	}
	q.Begin(now, a)
	q.CorePanicked(suspect("p").Entity, "Do")
	want("a core has panicked", "P")
	q.OtherCorePanicked()
	want("a core without entities has panicked", "")
}

func TestQueue(t *testing.T) { testQueue(t) }

// TestManySuspects: the counts of turns are bounded.
func TestManySuspects(t *testing.T) {
	q := New(&notes{})
	for i := range maxClean * 2 {
		s := suspect(string(rune('a'+i%26)) + strings.Repeat("x", i/26))
		q.Begin(time.Time{}, s)
		q.End(time.Time{}, s, true)
	}
	if len(q.clean) > maxClean {
		t.Errorf("the turns of %d are counted", len(q.clean))
	}
}

// TestReport: the turns that ran are reported, and those that had just ended if the runtime has written why the process
// ended.
func TestReport(t *testing.T) {
	alive := time.Unix(1000, 0)
	noted := []Noted{{CrashedTurn: control.CrashedTurn{Command: "runs"}, Running: true}}
	for range maxEnded + 1 {
		noted = append(noted, Noted{CrashedTurn: control.CrashedTurn{Command: "ended"}, End: alive.Add(2 * lingers)})
	}
	noted = append(noted, Noted{CrashedTurn: control.CrashedTurn{Command: "before"}, End: alive.Add(lingers / 2)})
	c, at := Report(7, alive, Evidence{}, noted)
	if c.Of != 7 || len(c.Turns) != 1 || c.Turns[0].Command != "runs" || !at.Equal(alive.Add(2*lingers)) {
		t.Errorf("without a cause: %+v at %v", c, at)
	}
	c, _ = Report(7, alive, Evidence{Runtime: "panic: x"}, noted)
	if len(c.Turns) != 1+maxEnded || c.Cause != "panic: x" {
		t.Errorf("with a cause: %+v", c)
	}
	for _, turn := range c.Turns[1:] {
		if turn.Command != "ended" || !turn.Ended {
			t.Errorf("%+v is reported", turn)
		}
	}
	if c, _ = Report(7, alive, Evidence{Runtime: "panic: x"}, noted[len(noted)-1:]); len(c.Turns) != 1 {
		t.Errorf("the turn that ended last is not reported: %+v", c)
	}
}

// TestEvidence: what shows that a process was not killed from outside, and whom a report names.
func TestEvidence(t *testing.T) { testEvidence(t) }

func testEvidence(t testing.TB) {
	noted := []Noted{{CrashedTurn: control.CrashedTurn{Entity: sharding.Entity{Type: "T", ID: "x"}, Command: "Do"}, Running: true}}
	for _, c := range []struct {
		runtime, exit           string
		used                    uint64
		cause, evidence, killed string
	}{
		{},
		{used: 90},
		{used: 91, evidence: "full"},
		{runtime: "panic: oh no", cause: "panic"},
		{runtime: "panic: oh no", exit: "exit status 2", cause: "panic"},
		{runtime: "SIGQUIT: quit", killed: "yes"},
		{exit: "exit status 3", evidence: "exit status 3"},
		{exit: "exited 3 exit-code", evidence: "exit status 3"},
		{exit: "exit status 0", evidence: "exit status 0"},
		{exit: "exit status 143", killed: "yes"},
		{exit: "signal: killed", killed: "yes"},
		{exit: "killed KILL signal", killed: "yes"},
		{exit: "signal: killed", used: 95, evidence: "full"},
		{exit: "killed KILL oom-kill", evidence: "memory"},
		{exit: "signal: segmentation fault (core dumped)", evidence: "segmentation"},
		{exit: "dumped SEGV core-dump", evidence: "SEGV"},
	} {
		exit, err := ParseExit(c.exit)
		if err != nil {
			t.Errorf("%q: %v", c.exit, err)
		}
		r, _ := Report(1, time.Unix(1, 0), Evidence{Runtime: c.runtime, Exit: exit, Used: c.used << 20, Limit: 100 << 20}, noted)
		if !strings.Contains(r.Cause, c.cause) || (r.Cause == "") != (c.cause == "") || !strings.Contains(r.Evidence, c.evidence) || (r.Evidence == "") != (c.evidence == "") || (len(r.Turns) == 0) != (c.killed != "") {
			t.Errorf("%+v: the report is %+v", c, r)
		}
	}
	if _, err := ParseExit("it broke"); err == nil {
		t.Error("a text that is none is taken")
	}
}
