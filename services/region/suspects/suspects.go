// Package suspects decides when the turns of suspects run in a region, and which turns a new process reports as possible
// causes of the end of the process before it. A suspect is an entity that ran when a region ended.
//
// The turns of suspects run one at a time, each of them alone. So if the process ends during such a turn, no
// other suspect can have ended it. A turn that hangs must not hold up other suspects forever: after AloneWait
// they run concurrently with it, and then none of them runs alone.
//
// The driver of a region and the simulation share this package, so that they cannot differ. See
// services/coordinator/quarantine.go for what becomes of the reports.
//
// # What this does not do
//
// It starts no turn, and it stores nothing: [Notes] stores which turns run. It does not deal with the turns of other
// entities.
//
// # Duties of the driver
//
//  1. Calls do not overlap.
//  2. If [Queue.Begin] returns false for a turn, the turn begins when [Queue.End] or [Queue.Tick] returns it.
//  3. Tick is called when a turn has waited for [AloneWait].
//  4. End is called once for each turn that has begun, when it has ended or begins to wait for something.
//  5. CorePanicked or OtherCorePanicked is called before the process ends because a core has panicked.
package suspects

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

const (
	// AloneWait is the maximum time that a turn of a suspect waits for a turn of another suspect.
	AloneWait = time.Second

	// maxClean bounds the number of commands whose clean turns are counted: two for each suspect of a cluster.
	maxClean = 2000

	// A turn that had ended is reported too if it ended at most lingers before the process, and if the runtime has
	// written why the process ended: a goroutine that the turn has started may have panicked. maxEnded bounds these turns.
	lingers  = 20 * time.Millisecond
	maxEnded = 8
)

// Notes stores which turns run, for the process that is started after this one.
type Notes interface {
	// Begin notes that a turn begins, and returns the place of the note; -1: there is no room.
	Begin(t control.CrashedTurn) int
	// NotAlone notes that another suspect runs concurrently with a turn.
	NotAlone(at int)
	// End notes that a turn has ended.
	End(at int, now time.Time)
	// Only notes that the process ends because of this turn and no other one. Nothing is noted after that.
	Only(t control.CrashedTurn)
	// Nobody notes that the process ends, and because of no turn. Nothing is noted after that.
	Nobody()
}

// Turn is a turn of a suspect.
type Turn struct {
	Entity  sharding.Entity
	Command string // empty: the entity is brought to life

	noted   int
	alone   bool
	company bool      // it did not always run alone
	since   time.Time // when it began to wait
}

// work is a command of an entity.
type work struct {
	entity  sharding.Entity
	command string
}

// Queue decides when the turns of suspects run. Make one with [New].
type Queue struct {
	notes   Notes
	running []*Turn
	waiting []*Turn // oldest first
	clean   map[work]uint32
}

// New returns a queue of a process without turns.
func New(notes Notes) *Queue { return &Queue{notes: notes, clean: map[work]uint32{}} }

// Begin reports whether a turn begins now. If not, the turn waits until End or Tick returns it. A turn that has waited
// for something may begin again after its End, and continues.
func (q *Queue) Begin(now time.Time, t *Turn) bool {
	// Invariant: no two turns of suspects run at the same time. If a turn hangs, others begin after a
	// limited time, and then none of them counts as alone.
	// Guarded by: `suspects.Queue` (`services/region/suspects`).
	// Mutants: suspects-alone, suspects-company, suspects-wait
	if len(q.running) > 0 { //mutant:false suspects-alone
		t.since = now
		q.waiting = append(q.waiting, t)
		return false
	}
	q.start(t)
	return true
}

func (q *Queue) start(t *Turn) {
	t.alone = len(q.running) == 0 //mutant:true suspects-alone
	t.company = t.company || !t.alone
	t.noted = q.notes.Begin(control.CrashedTurn{Entity: t.Entity, Command: t.Command, Alone: t.alone, Clean: q.clean[work{t.Entity, t.Command}]})
	for _, other := range q.running {
		if other.alone { //mutant:false suspects-company
			other.alone, other.company = false, true
			q.notes.NotAlone(other.noted)
		}
	}
	q.running = append(q.running, t)
}

// End removes a turn that is over, or that waits for something. It returns a turn that begins now; nil: none does.
func (q *Queue) End(now time.Time, t *Turn, over bool) *Turn {
	q.notes.End(t.noted, now)
	q.running = slices.DeleteFunc(q.running, func(o *Turn) bool { return o == t })
	if over && !t.company {
		if len(q.clean) >= maxClean {
			clear(q.clean)
		}
		q.clean[work{t.Entity, t.Command}]++
	}
	if len(q.running) > 0 || len(q.waiting) == 0 {
		return nil
	}
	return q.next()
}

func (q *Queue) next() *Turn {
	t := q.waiting[0]
	q.waiting = slices.Delete(q.waiting, 0, 1)
	q.start(t)
	return t
}

// Tick returns the turns that begin now because they have waited for AloneWait.
func (q *Queue) Tick(now time.Time) (begin []*Turn) {
	for len(q.waiting) > 0 && now.Sub(q.waiting[0].since) >= AloneWait { //mutant:false suspects-wait
		begin = append(begin, q.next())
	}
	return begin
}

// CorePanicked takes in that a shard core has panicked when it took in a command, so that the process ends. No turn
// of an entity has ended it then, but the command may do the same to the next region. So its entity is reported
// alone.
func (q *Queue) CorePanicked(e sharding.Entity, command string) {
	//mutant:do suspects-core return
	q.notes.Only(control.CrashedTurn{Entity: e, Command: command, Alone: true})
}

// OtherCorePanicked takes in that a core that runs no entities has panicked, such as the control core, so that the
// process ends. No turn has ended it, and no entity is reported.
func (q *Queue) OtherCorePanicked() {
	q.notes.Nobody() //mutant:skip suspects-other-core
}

// Noted is the note of a turn.
type Noted struct {
	control.CrashedTurn
	// Running is true if the turn had not ended. Otherwise it ended at End.
	Running bool
	End     time.Time
}

// Evidence holds the known facts about the end of a process, besides the turns.
type Evidence struct {
	// Runtime is the output of the Go runtime when it ended the process; "": nothing.
	Runtime string
	// Exit is the report of a parent that waits, see [ParseExit].
	Exit Exit
	// Used and Limit are the memory of the process and the most that it may have, in bytes, at the last sample; 0:
	// unknown.
	Used, Limit uint64
}

// nearlyFull is the part of a process's memory that must have been in use so that the kernel may have ended the process
// because it needed more. By default, the Go runtime keeps the process below it.
const nearlyFull = 0.9

func (e Evidence) memory() string {
	if e.Limit == 0 || float64(e.Used) <= nearlyFull*float64(e.Limit) {
		return ""
	}
	return fmt.Sprintf("its memory was full: %d of %d MiB", e.Used>>20, e.Limit>>20)
}

// Exit is how a process has ended, as its parent sees it. The zero value is unknown.
type Exit struct {
	Text string
	// Killed is true if another process, or the kernel, has ended it by a signal.
	Killed bool
}

// ParseExit reads what a parent says: "exit status 3" or "signal: killed" as Go writes them, or "exited 3 exit-code" and
// "killed KILL signal" as systemd's EXIT_CODE, EXIT_STATUS and SERVICE_RESULT are.
func ParseExit(text string) (Exit, error) {
	fields := strings.Fields(strings.TrimPrefix(text, "exit "))
	switch {
	case text == "":
		return Exit{}, nil
	case len(fields) >= 2 && (fields[0] == "status" || fields[0] == "exited"):
		// Shells and Roost itself (a second signal) add the number of the signal to 128.
		killed := slices.Contains([]string{"129", "130", "131", "137", "143"}, fields[1])
		return Exit{Text: "exit status " + fields[1], Killed: killed}, nil
	case len(fields) >= 2 && slices.Contains(fields[2:], "oom-kill"):
		return Exit{Text: "the kernel ended it because of its memory"}, nil
	case len(fields) >= 2 && (fields[0] == "signal:" || fields[0] == "killed" || fields[0] == "dumped"):
		switch signal := strings.ToLower(fields[1]); signal {
		case "killed", "kill", "terminated", "term", "interrupt", "int", "hangup", "hup":
			return Exit{Text: text, Killed: true}, nil
		}
		return Exit{Text: text}, nil
	}
	return Exit{}, fmt.Errorf("%q: write how the process has ended, such as exit status 3, or signal: killed", text)
}

// Report returns which turns may have ended a process, by its notes, and when the process ended. alive is the last time
// at which the process noted that it was alive.
func Report(process sharding.NodeUID, alive time.Time, e Evidence, noted []Noted) (c control.Crash, at time.Time) {
	// An exit status shows that the process was not killed from outside, but not which of the turns that ran
	// ended it. So it is not a cause: it counts, and convicts only an entity that ran alone.
	cause := e.Runtime
	c, at = control.Crash{Of: process, Cause: cause, Evidence: e.memory()}, alive
	if cause == "" && !e.Exit.Killed {
		c.Evidence = cmp.Or(e.Exit.Text, c.Evidence)
	}
	quit := strings.HasPrefix(e.Runtime, "SIGQUIT") // the runtime writes this if the signal requests its stacks
	if quit || e.Exit.Killed && e.Runtime == "" {   // by another process, unless the kernel needed memory
		c.Cause, cause = "", ""
		if c.Evidence == "" { //mutant:false suspects-killed
			noted = nil
		}
	}
	var ends []Noted
	for _, n := range noted {
		if n.Running {
			c.Turns = append(c.Turns, n.CrashedTurn)
			continue
		}
		ends = append(ends, n)
		if n.End.After(at) {
			at = n.End
		}
	}
	slices.SortStableFunc(ends, func(a, b Noted) int { return cmp.Compare(b.End.UnixNano(), a.End.UnixNano()) })
	for _, n := range ends[:min(len(ends), maxEnded)] {
		if at.Sub(n.End) <= lingers && cause != "" {
			n.Ended = true
			c.Turns = append(c.Turns, n.CrashedTurn)
		}
	}
	return c, at
}
