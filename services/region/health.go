package region

import (
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// A region without a journal can serve nothing that is stored, and no other process sees
// that: other members and the coordinator still receive its messages. So it judges its
// journal by the operations that succeed, and tests it when none has for a while: an idle
// region notices the beginning and the end of an outage too.

// JournalPath is a way to the journal. Backends may use different connections for
// them, and each can die alone.
type JournalPath uint8

const (
	// Commits is the path of claims, appends and fence reads.
	Commits JournalPath = iota
	// Loads is the path of entities that are read back.
	Loads
	journalPaths
)

// String is "commits" or "loads".
func (p JournalPath) String() string {
	if p == Loads {
		return "loads"
	}
	return "commits"
}

// pathHealth records the tests and the last success of one path.
type pathHealth struct {
	heard  time.Time // last success; zero: the core has just begun
	asking time.Time // when the first test was sent that nothing has answered since; zero: none
	asked  time.Time // when the newest test was sent
	number uint64    // of the newest test
	open   bool      // the newest test is not answered
}

// health is the region's judgement of its journal.
type health struct {
	paths  [journalPaths]pathHealth
	state  sharding.JournalState
	since  time.Time // of the state
	report uint64    // number of the newest report
	told   time.Time // when it was sent
	ticked time.Time
}

// Journal returns this region's judgement of its journal, the time since which the judgement is the
// same, and the time at which something last succeeded there.
func (c *ControlCore) Journal() (state sharding.JournalState, since, heard time.Time) {
	h := &c.health
	heard = h.paths[Commits].heard
	if h.paths[Loads].heard.Before(heard) {
		heard = h.paths[Loads].heard
	}
	return h.state, h.since, heard
}

// answered notes that an operation has succeeded at a time: that the journal has
// answered it. A test that was sent after that is still open.
func (c *ControlCore) answered(p JournalPath, at time.Time) {
	e := &c.health.paths[p]
	if at.After(e.heard) {
		e.heard = at
	}
	if !at.Before(e.asking) {
		e.asking = time.Time{}
	}
	if !at.Before(e.asked) {
		e.open = false
	}
}

func (c *ControlCore) journalTested(in JournalTested) {
	if e := &c.health.paths[in.Path]; in.Number == e.number {
		e.open = false
	}
	if in.Verdict.Answered() {
		c.answered(in.Path, c.now)
	}
}

// tickJournal asks the journal where nothing has succeeded for a while, judges it,
// and reports.
func (c *ControlCore) tickJournal() {
	if c.cfg.JournalPatience == 0 {
		return
	}
	h := &c.health
	paused := c.now.Sub(h.ticked) >= c.cfg.JournalPatience/2
	h.ticked = c.now
	silent, answers := false, true
	for p := range journalPaths {
		e := &h.paths[p]
		if e.heard.IsZero() {
			e.heard = c.now // it was opened just before
		}
		if paused && !e.asking.IsZero() {
			e.asking = c.now // one's own pause is not the journal's silence
		}
		c.test(p, e)
		silent = silent || !e.asking.IsZero() && c.now.Sub(e.asking) >= c.cfg.JournalPatience
		answers = answers && e.heard.After(h.since)
	}
	switch {
	case silent:
		c.journalIs(sharding.JournalSilent)
	case h.state == sharding.JournalSilent && answers: //mutant:false journal-recovers
		c.journalIs(sharding.JournalRecovering)
	case h.state == sharding.JournalRecovering && c.gap():
		h.since = c.now
	case h.state == sharding.JournalRecovering && c.now.Sub(h.since) >= c.cfg.JournalRecovery:
		c.journalIs(sharding.JournalAnswers)
	}
	if h.state != sharding.JournalAnswers && c.now.Sub(h.told) >= c.cfg.journalTestAfter() {
		c.reportJournal()
	}
}

// gap reports whether nothing has succeeded for longer than the pause between two tests.
func (c *ControlCore) gap() bool {
	for p := range journalPaths {
		if c.now.Sub(c.health.paths[p].heard) >= 2*c.cfg.journalTestAfter() {
			return true
		}
	}
	return false
}

// test asks the journal, if nothing has succeeded for Config.JournalTestAfter. An
// unanswered test is sent again after Config.JournalPatience, since its answer may
// never come.
func (c *ControlCore) test(p JournalPath, e *pathHealth) {
	pause := c.cfg.journalTestAfter()
	if e.open {
		pause = c.cfg.JournalPatience
	}
	if c.now.Sub(e.heard) < c.cfg.journalTestAfter() || c.now.Sub(e.asked) < pause {
		return
	}
	if e.asking.IsZero() {
		e.asking = c.now
	}
	e.asked, e.open = c.now, true
	e.number++
	c.emit(TestJournal{Path: p, Number: e.number})
}

func (c *ControlCore) journalIs(s sharding.JournalState) {
	h := &c.health
	if h.state == s {
		return
	}
	h.state, h.since = s, c.now
	_, _, heard := c.Journal()
	c.emit(JournalChanged{State: s, Heard: heard})
	c.reportJournal()
}

// reportJournal tells the coordinator. The report is not acknowledged: it is repeated
// while there is something to report, and a new coordinator learns it from the next
// one.
func (c *ControlCore) reportJournal() {
	h := &c.health
	addr, _ := c.watcher.Active()
	// Invariant: if a region is cut off from the journal, other regions serve its shards. When the journal answers
	// again, the region gets shards again.
	// Mutants: journal-reported, journal-moves, journal-recovers
	if addr == "" { //mutant:true journal-reported
		return
	}
	h.report++
	h.told = c.now
	c.emit(Send{To: addr, Msg: control.JournalReport{Number: h.report, State: h.state}})
}
