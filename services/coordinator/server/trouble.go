package server

import (
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/services/coordinator/console"
)

const (
	// silentAfter bounds the time that a record may be in progress before the journal counts as silent.
	silentAfter = 5 * time.Second
	// troubleEvery is the time between two lines in the log about one trouble.
	troubleEvery = 10 * time.Second
)

// trouble is a problem of the journal, for the log. An operator must do different things for a journal that has no
// room, one that is damaged, one that refuses for another reason, and one that does not answer.
type trouble struct {
	since  time.Time // when the record in progress was handed over first; zero: none is
	logged time.Time // when it was last logged; zero: no trouble
	err    error     // the last refusal; nil: there is no answer
}

// lasts reports whether there is trouble: a refusal, or no answer for long.
func (t *trouble) lasts() bool {
	return !t.since.IsZero() && (t.err != nil || time.Since(t.since) >= silentAfter)
}

// begin notes that a record is in progress.
func (t *trouble) begin() {
	if t.since.IsZero() {
		t.since = time.Now()
	}
}

// why returns the trouble in words. failure is the error of failing commits or reads; nil: none fail.
func (t *trouble) why(failure error) string {
	switch {
	case errors.Is(t.err, journal.ErrFull):
		return "it has no room: " + t.err.Error()
	case errors.Is(t.err, journal.ErrCorrupt), errors.Is(t.err, journal.ErrTrimmed):
		return "what it holds is damaged: " + t.err.Error()
	case t.err != nil:
		return "it is locked or out of reach: " + t.err.Error()
	}
	if failure != nil {
		return "it does not answer: " + failure.Error()
	}
	return "it does not answer"
}

// remedy returns what an operator has to do about the trouble.
func (t *trouble) remedy() string {
	switch {
	case errors.Is(t.err, journal.ErrFull):
		return "free or add space where the journal is kept"
	case errors.Is(t.err, journal.ErrCorrupt):
		return "restore the journal from a copy"
	}
	return "check that this host reaches the store of journal.url, and that nothing else locks it"
}

// takeoverRemedy returns what an operator has to do about facts that cannot be read.
func takeoverRemedy(err error) string {
	if errors.Is(err, journal.ErrCorrupt) || errors.Is(err, journal.ErrTrimmed) {
		return `"roost journal check --facts" lists the damage, and "roost journal repair facts --dry-run" shows what a repair would do (docs/running/repair.md)`
	}
	return (&trouble{err: err}).remedy()
}

// cannotTakeOver notes why a take-over has failed. Take-overs are tried again all the time, so the log has a new
// reason at once, and a repeated one every troubleEvery.
func (s *Server) cannotTakeOver(err error) {
	now := time.Now()
	if s.unread == nil || s.unread.Error() != err.Error() || now.Sub(s.unreadLogged) >= troubleEvery {
		s.unreadLogged = now
		s.log.Warn("cannot take over yet, trying again and again", "error", err, "remedy", takeoverRemedy(err))
	}
	s.unread, s.unreadAt = err, now
}

// journalReadiness warns if facts cannot be stored, if a take-over fails, or of anything else that is wrong with
// the journal. It fails no check, because another coordinator would have the same journal. A take-over that fails
// is tried again at the latest after its time limit. So if none has failed for twice as long, another coordinator
// is active, and the failure does not matter any more.
func (s *Server) journalReadiness() error {
	if t := &s.trouble; t.lasts() {
		return node.Warning(fmt.Errorf("no fact has been stored since %s (%s), and nothing is decided until one is; %s: %s",
			t.since.UTC().Format(time.RFC3339), time.Since(t.since).Round(time.Second), t.remedy(), t.why(s.journal.Failure())))
	}
	if s.core.ActiveTerm() == 0 && s.unread != nil && time.Since(s.unreadAt) < 2*s.limits.TakeoverTimeout {
		t := trouble{err: s.unread}
		return node.Warning(fmt.Errorf("this coordinator cannot take over, because it cannot read its facts; %s: %s", takeoverRemedy(s.unread), t.why(nil)))
	}
	if err := errors.Join(s.journal.Warning(), s.journal.Failure()); err != nil {
		return node.Warning(err)
	}
	if what, ago := console.RowsDeleted(s.core); what != "" {
		return node.Warning(fmt.Errorf("rows that this coordinator had stored were deleted from the journal, or an older state of it was restored, as it noticed %s ago: %s. It stepped down and takes over again; find out what else writes to the database of the journal",
			ago.Round(time.Second), what))
	}
	return nil
}

// report logs the trouble, the first time and then now and again.
func (s *Server) report() {
	if t := &s.trouble; t.logged.IsZero() || time.Since(t.logged) >= troubleEvery {
		t.logged = time.Now()
		outputs, facts, bytes := s.core.Held()
		s.log.Error("cannot store facts", "hint", "the coordinator decides nothing until it can", "journal", t.why(s.journal.Failure()), "term", s.core.ActiveTerm(),
			"for", time.Since(t.since).Round(time.Second), "facts", facts, "outputs", outputs, "bytes", bytes)
	}
}

// watchJournal checks whether a record is in progress for long.
func (s *Server) watchJournal() {
	if s.trouble.lasts() {
		s.report()
	}
}

// journalRefuses notes why a record was not stored.
func (s *Server) journalRefuses(r journal.Result) {
	if s.trouble.err = r.Err; r.Err != nil {
		s.report()
	}
}

// journalAnswers ends the trouble, if there was any.
func (s *Server) journalAnswers() {
	if !s.trouble.logged.IsZero() {
		s.log.Info("facts are stored again", "term", s.core.ActiveTerm(), "after", time.Since(s.trouble.since).Round(time.Second))
	}
	s.trouble = trouble{}
}
