package region

import (
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// A region without a journal can serve nothing that is stored, and nobody else sees
// that: other members and the coordinator still hear it. So it judges its journal by
// the operations that succeed, and by questions of its own when none has for a while.
// So an idle region notices the beginning and the end of an outage too.

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

// evidence is what is known of one path.
type evidence struct {
	heard  time.Time // last success; zero: the core has just begun
	asking time.Time // since when a question has no success; zero: none has been asked since
	asked  time.Time // the newest question
	number uint64    // of that
	open   bool      // it is not answered
}

// health is what the region makes of its journal.
type health struct {
	paths  [journalPaths]evidence
	state  sharding.JournalState
	since  time.Time // of the state
	report uint64    // number of the newest report
	told   time.Time // when it was sent
	ticked time.Time
}

// Journal is what this region makes of its journal, since when, and since when
// nothing has succeeded there.
func (m *Machine) Journal() (state sharding.JournalState, since, heard time.Time) {
	h := &m.health
	heard = h.paths[Commits].heard
	if h.paths[Loads].heard.Before(heard) {
		heard = h.paths[Loads].heard
	}
	return h.state, h.since, heard
}

// heard notes that an operation succeeded: that the journal has answered it.
func (m *Machine) heard(p JournalPath, v sharding.Verdict) {
	if v.Answered() {
		m.answered(p)
	}
}

func (m *Machine) answered(p JournalPath) {
	e := &m.health.paths[p]
	e.heard, e.asking, e.open = m.now, time.Time{}, false
}

// hear takes what an answer of the driver to the entity core says of the journal.
func (m *Machine) hear(in turn.Input) {
	switch in := in.(type) {
	case turn.Appended:
		m.heard(Commits, in.Verdict)
	case turn.FenceRead:
		m.heard(Commits, in.Verdict)
	case turn.Loaded:
		m.hearLoaded(&in)
	}
}

// hearLoaded: a damaged entity is no sign of a silent journal, and a volatile one
// none of a journal that answers.
func (m *Machine) hearLoaded(in *turn.Loaded) {
	if (in.Err == "" || !in.Retry) && !m.volatile(in.Entity.Type) {
		m.answered(Loads)
	}
}

func (m *Machine) volatile(name sharding.EntityType) bool {
	t := m.typ(name)
	return t != nil && t.volatile
}

func (m *Machine) probed(in Probed) {
	if e := &m.health.paths[in.Path]; in.Number == e.number {
		e.open = false
	}
	m.heard(in.Path, in.Verdict)
}

// tickJournal asks the journal where nothing has succeeded for a while, judges it,
// and reports.
func (m *Machine) tickJournal() {
	if m.cfg.JournalPatience == 0 {
		return
	}
	h := &m.health
	paused := m.now.Sub(h.ticked) >= m.cfg.JournalPatience/2
	h.ticked = m.now
	silent, answers := false, true
	for p := range journalPaths {
		e := &h.paths[p]
		if e.heard.IsZero() {
			e.heard = m.now // it was opened just before
		}
		if paused && !e.asking.IsZero() {
			e.asking = m.now // one's own pause is not the journal's silence
		}
		m.probe(p, e)
		silent = silent || !e.asking.IsZero() && m.now.Sub(e.asking) >= m.cfg.JournalPatience
		answers = answers && e.heard.After(h.since)
	}
	switch {
	case silent:
		m.journalIs(sharding.JournalSilent)
	case h.state == sharding.JournalSilent && answers && !mutant.On("journal-recovers"):
		m.journalIs(sharding.JournalRecovering)
	case h.state == sharding.JournalRecovering && m.gap():
		h.since = m.now
	case h.state == sharding.JournalRecovering && m.now.Sub(h.since) >= m.cfg.JournalRecovery:
		m.journalIs(sharding.JournalAnswers)
	}
	if h.state != sharding.JournalAnswers && m.now.Sub(h.told) >= m.cfg.JournalProbe {
		m.reportJournal()
	}
}

// gap reports whether nothing has succeeded for longer than between two questions.
func (m *Machine) gap() bool {
	for p := range journalPaths {
		if m.now.Sub(m.health.paths[p].heard) >= 2*m.cfg.JournalProbe {
			return true
		}
	}
	return false
}

// probe asks the journal, if nothing has succeeded for Config.JournalProbe. A
// question that is not answered is asked again after Config.JournalPatience: the
// answer may never come.
func (m *Machine) probe(p JournalPath, e *evidence) {
	pause := m.cfg.JournalProbe
	if e.open {
		pause = m.cfg.JournalPatience
	}
	if m.now.Sub(e.heard) < m.cfg.JournalProbe || m.now.Sub(e.asked) < pause {
		return
	}
	if e.asking.IsZero() {
		e.asking = m.now
	}
	e.asked, e.open = m.now, true
	e.number++
	m.emit(ProbeJournal{Path: p, Number: e.number})
}

func (m *Machine) journalIs(s sharding.JournalState) {
	h := &m.health
	if h.state == s {
		return
	}
	h.state, h.since = s, m.now
	_, _, heard := m.Journal()
	m.emit(JournalChanged{State: s, Heard: heard})
	m.reportJournal()
}

// reportJournal tells the coordinator. What is told is no fact and not
// acknowledged: it is repeated while there is something to tell, and a new
// coordinator learns it from the next repeat.
func (m *Machine) reportJournal() {
	h := &m.health
	addr, _ := m.watcher.Active()
	if addr == "" || mutant.On("journal-reported") {
		return
	}
	h.report++
	h.told = m.now
	m.emit(Send{To: addr, Msg: control.JournalReport{Number: h.report, State: h.state}})
}
