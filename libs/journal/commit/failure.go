package commit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
)

// Path is a way to a database. Backends may use different connections for the paths, so each of them may fail alone.
type Path int

// The paths.
const (
	Commits Path = iota
	Reads
	paths
)

// String is "commits" or "reads".
func (p Path) String() string {
	if p == Reads {
		return "reads"
	}
	return "commits"
}

// Reasons of failed commits and reads, for metrics.
const (
	ReasonFull        = "full"        // ErrFull
	ReasonDamaged     = "damaged"     // ErrCorrupt, ErrTrimmed
	ReasonBroken      = "broken"      // ErrBroken
	ReasonContended   = "contended"   // ErrContended
	ReasonUnreachable = "unreachable" // ErrUnreachable, or no answer in time
	ReasonRefused     = "refused"     // ErrNotCommitted for any other reason
	ReasonUnknown     = "unknown"     // any other error: the outcome of a commit is unknown
)

// Reasons returns all reasons.
func Reasons() []string {
	return []string{ReasonFull, ReasonDamaged, ReasonBroken, ReasonContended, ReasonUnreachable, ReasonRefused, ReasonUnknown}
}

// Reason returns the reason of an error of a commit or a read.
func Reason(err error) string {
	switch {
	case errors.Is(err, journal.ErrFull):
		return ReasonFull
	case errors.Is(err, journal.ErrCorrupt), errors.Is(err, journal.ErrTrimmed):
		return ReasonDamaged
	case errors.Is(err, journal.ErrBroken):
		return ReasonBroken
	case errors.Is(err, journal.ErrContended):
		return ReasonContended
	case errors.Is(err, journal.ErrUnreachable), errors.Is(err, context.DeadlineExceeded):
		return ReasonUnreachable
	case errors.Is(err, journal.ErrNotCommitted):
		return ReasonRefused
	}
	return ReasonUnknown
}

// failingEvery is the time between two calls of Observer.Failing about one path that keeps failing for the same reason.
const failingEvery = 10 * time.Second

// failureLapses is the duration after which an unused path no longer counts as failing. A standby coordinator commits
// nothing, so it would never learn that the database has recovered. A path that is in use fails more often than that.
const failureLapses = time.Minute

// failure is the state of a path that has failed since its last success.
type failure struct {
	since time.Time
	last  time.Time // failure
	err   error     // the last one that has a reason
	told  time.Time // when Observer.Failing was called
}

// note notes how a commit or a read has ended. Failures that have an observer of their own (no room, damage) are
// answers of the database.
func (j *Journal) note(pl *pipeline, p Path, err error) {
	if err != nil {
		switch Reason(err) {
		case ReasonFull, ReasonDamaged:
			err = nil
		case ReasonContended, ReasonBroken:
			return
		}
	}
	j.failing.Lock()
	defer j.failing.Unlock()
	f := &pl.failures[p]
	if err == nil {
		if f.since.IsZero() {
			return
		}
		*f = failure{}
	} else {
		now := time.Now()
		if now.Sub(f.last) > failureLapses {
			*f = failure{}
		}
		if f.since.IsZero() {
			f.since = now
		}
		f.last = now
		before := f.err
		if before == nil || !errors.Is(err, context.DeadlineExceeded) { // "deadline exceeded" does not replace a reason
			f.err = err
		}
		if before != nil && Reason(before) == Reason(f.err) && now.Sub(f.told) < failingEvery {
			return
		}
		f.told = now
	}
	if j.obs.Failing != nil {
		j.obs.Failing(pl.number, p, f.err)
	}
}

// Failure returns why commits or reads fail, with the error of the last one. It returns nil if the last ones succeeded,
// or if there was no failure within [failureLapses].
func (j *Journal) Failure() error { return j.failure(time.Now().Add(-failureLapses), j.pipelines...) }

// failure is Failure for some pipelines, without paths that have not failed since a time.
func (j *Journal) failure(since time.Time, pipelines ...*pipeline) error {
	j.failing.Lock()
	defer j.failing.Unlock()
	var all error
	for _, pl := range pipelines {
		for p := range paths {
			f := &pl.failures[p]
			if f.since.IsZero() || f.last.Before(since) {
				continue
			}
			err := fmt.Errorf("%s fail since %s: %w", p, f.since.UTC().Format(time.RFC3339), f.err)
			if all != nil {
				err = fmt.Errorf("%w; %w", all, err) // in one line, for readiness
			}
			all = err
		}
	}
	return all
}
