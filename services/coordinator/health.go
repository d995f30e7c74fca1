package coordinator

import (
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// What a region says of its journal is no fact: it is about this moment, it is
// repeated, and a new coordinator learns it from the next repeat. Stored, it would
// be old when it is read.

// journalHealth is what a region said of its journal.
type journalHealth struct {
	state  sharding.JournalState
	number uint64 // of the newest report
	at     time.Time
}

// cutOff reports whether the region said that its journal does not answer: it is
// given nothing, and what it has and must be stored goes to others.
func (r *region) cutOff() bool {
	return r.journal.state == sharding.JournalSilent && !mutant.On("journal-moves")
}

// recovering reports whether its journal answers again, but not for long: it keeps
// what it has, and is given nothing unless there is nobody else.
func (r *region) recovering() bool { return r.journal.state == sharding.JournalRecovering }

func (m *Machine) journalReport(from sharding.NodeID, in control.JournalReport) {
	r := m.region(from)
	if r == nil || in.Number <= r.journal.number || in.State > sharding.JournalSilent {
		return
	}
	m.sweepDue = m.sweepDue || in.State != r.journal.state
	r.journal = journalHealth{state: in.State, number: in.Number, at: m.now}
	m.probeJournal()
}

// tickJournal forgets what is not repeated, and asks this coordinator's own journal
// as long as somebody is cut off from it.
func (m *Machine) tickJournal() {
	for i := range m.regions {
		j := &m.regions[i].journal
		if j.state != sharding.JournalAnswers && m.now.Sub(j.at) >= m.cfg.JournalReport {
			j.state, m.sweepDue = sharding.JournalAnswers, true
		}
	}
	m.probeJournal()
}

// probeJournal asks the own journal if a region says that it is cut off: if nobody
// reaches the journal, nothing can be moved, and to try would cost this coordinator
// its term.
func (m *Machine) probeJournal() {
	pause := m.cfg.Resend
	if m.probing {
		pause = m.cfg.JournalReport // the answer may never come
	}
	if m.now.Sub(m.probedAt) < pause {
		return
	}
	for i := range m.regions {
		if m.regions[i].cutOff() {
			m.probedAt, m.probing = m.now, true
			m.emit(ProbeJournal{})
			return
		}
	}
}

func (m *Machine) journalProbed(in JournalProbed) {
	m.probing = false
	if !in.Verdict.Answered() {
		return
	}
	if !m.journalWorks() {
		m.sweepDue = true
	}
	m.answeredAt = m.now
}

// journalWorks reports whether the own journal has answered a moment ago.
func (m *Machine) journalWorks() bool {
	return !m.answeredAt.IsZero() && m.now.Sub(m.answeredAt) < m.cfg.JournalFresh
}

// deprived reports whether a row's owner is there, but cut off from the journal while
// this coordinator is not. Such an owner can serve nothing that is stored, so the row
// can go to another region at once: the fence lets only one of two owners have effects.
func (m *Machine) deprived(t *typeTable, owner *region) bool {
	return owner.cutOff() && !t.desc.Volatile && m.journalWorks()
}
