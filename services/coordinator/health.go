package coordinator

import (
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// The reports of a region about its journal are not stored as facts. A report is about the present, and it
// is repeated, so a new coordinator gets the next one. A stored report would be outdated when it is read.

// journalHealth is the newest report of a region about its journal.
type journalHealth struct {
	state  sharding.JournalState
	number uint64 // of the newest report
	at     time.Time
}

// cutOff reports whether the region has reported that its journal does not answer. Then the region gets no
// shards, and its journaled shards go to other regions.
func (r *region) cutOff() bool {
	return r.journal.state == sharding.JournalSilent && !mutant.On("journal-moves")
}

// recovering reports whether the journal of the region answers again, but only since recently. Then the
// region keeps its shards, and gets others only if no other region can take them.
func (r *region) recovering() bool { return r.journal.state == sharding.JournalRecovering }

func (m *Machine) journalReport(from sharding.NodeID, in control.JournalReport) {
	r := m.region(from)
	if r == nil || in.Number <= r.journal.number || in.State > sharding.JournalSilent {
		return
	}
	m.reviewDue = m.reviewDue || in.State != r.journal.state
	r.journal = journalHealth{state: in.State, number: in.Number, at: m.now}
	m.testJournal()
}

// tickJournal forgets reports that are not repeated. As long as a region is cut off from the journal, it tests
// whether this coordinator reaches the journal.
func (m *Machine) tickJournal() {
	for i := range m.regions {
		j := &m.regions[i].journal
		if j.state != sharding.JournalAnswers && m.now.Sub(j.at) >= m.cfg.JournalReport {
			j.state, m.reviewDue = sharding.JournalAnswers, true
		}
	}
	m.testJournal()
}

// testJournal tests whether this coordinator reaches the journal, if a region has reported that it is cut
// off. If the coordinator does not reach it either, nothing can be moved: the facts could not be stored, and
// the term would end.
func (m *Machine) testJournal() {
	pause := m.cfg.Resend
	if m.testUnanswered {
		pause = m.cfg.JournalReport // the answer may never come
	}
	if m.now.Sub(m.testedAt) < pause {
		return
	}
	for i := range m.regions {
		if m.regions[i].cutOff() {
			m.testedAt, m.testUnanswered = m.now, true
			m.emit(TestJournal{})
			return
		}
	}
}

func (m *Machine) journalTested(in JournalTested) {
	m.testUnanswered = false
	if !in.Verdict.Answered() {
		return
	}
	if !m.journalWorks() {
		m.reviewDue = true
	}
	m.answeredAt = m.now
}

// journalWorks reports whether the journal has answered this coordinator recently.
func (m *Machine) journalWorks() bool {
	return !m.answeredAt.IsZero() && m.now.Sub(m.answeredAt) < m.cfg.JournalFresh
}

// deprived reports whether the owner of a row is a member, but is cut off from the journal while this
// coordinator is not. Such an owner can serve no journaled shard, so the shard can go to another region at
// once: the fence lets only one of the two owners have effects.
func (m *Machine) deprived(t *typeTable, owner *region) bool {
	return owner.cutOff() && !t.desc.Volatile && m.journalWorks()
}
