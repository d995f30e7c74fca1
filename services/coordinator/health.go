package coordinator

import (
	"time"

	"github.com/roost-cluster/roost/libs/control"
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
	return r.journal.state == sharding.JournalSilent //mutant:false journal-moves
}

// recovering reports whether the journal of the region answers again, but only since recently. Then the
// region keeps its shards, and gets others only if no other region can take them.
func (r *region) recovering() bool { return r.journal.state == sharding.JournalRecovering }

// journalReport takes the report of a region about its journal, and reports whether its state has changed.
func (l *liveness) journalReport(s *step, from sharding.NodeID, in control.JournalReport) (changed bool) {
	r := l.region(from)
	if r == nil || in.Number <= r.journal.number || in.State > sharding.JournalSilent {
		return false
	}
	changed = in.State != r.journal.state
	r.journal = journalHealth{state: in.State, number: in.Number, at: s.now}
	l.testJournal(s)
	return changed
}

// tickJournal forgets reports that are not repeated. As long as a region is cut off from the journal, it tests
// whether this coordinator reaches the journal. It reports whether a report was forgotten.
func (l *liveness) tickJournal(s *step) (changed bool) {
	for i := range l.regions {
		j := &l.regions[i].journal
		if j.state != sharding.JournalAnswers && s.now.Sub(j.at) >= s.cfg.JournalReport {
			j.state, changed = sharding.JournalAnswers, true
		}
	}
	l.testJournal(s)
	return changed
}

// testJournal tests whether this coordinator reaches the journal, if a region has reported that it is cut
// off. If the coordinator does not reach it either, nothing can be moved: the facts could not be stored, and
// the term would end.
func (l *liveness) testJournal(s *step) {
	pause := s.cfg.Resend
	if l.testUnanswered {
		pause = s.cfg.JournalReport // the answer may never come
	}
	if s.now.Sub(l.testedAt) < pause {
		return
	}
	for i := range l.regions {
		if l.regions[i].cutOff() {
			l.testedAt, l.testUnanswered = s.now, true
			s.emit(TestJournal{})
			return
		}
	}
}

// journalTested takes the answer to a test, and reports whether the journal works again.
func (l *liveness) journalTested(s *step, in JournalTested) (again bool) {
	l.testUnanswered = false
	if !in.Verdict.Answered() {
		return false
	}
	again = !l.journalWorks(s)
	l.answeredAt = s.now
	return again
}

// journalWorks reports whether the journal has answered this coordinator recently.
func (l *liveness) journalWorks(s *step) bool {
	return !l.answeredAt.IsZero() && s.now.Sub(l.answeredAt) < s.cfg.JournalFresh
}

// deprived reports whether the owner of a row is a member, but is cut off from the journal while this
// coordinator is not. Such an owner can serve no journaled shard, so the shard can go to another region at
// once: the fence lets only one of the two owners have effects.
func (pl *placement) deprived(t *typeTable, owner *region) bool {
	return owner.cutOff() && !t.desc.Volatile && pl.live.journalWorks(&pl.step)
}
