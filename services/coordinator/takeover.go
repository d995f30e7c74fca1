package coordinator

import (
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// takeover decides whether a coordinator that holds the lease may claim the fact
// stream. Leases exclude each other only within one store. If another cluster was
// formed on the same journal, with a lease of its own, the claim would depose that
// cluster's coordinator, which would depose this one in turn.
//
// The journal belongs to this cluster if its last heartbeat names this cluster, and if no
// epoch in it shows that the term of the lease is spent (see [Tenure]). Otherwise either another
// cluster lives, or the record of the lease was lost. Heartbeats show which: if no new heartbeat comes
// for the time in field patience, no other cluster lives, and the journal belongs to this one from then
// on.
type takeover struct {
	// patience is longer than several heartbeat intervals, and longer than a lease lasts,
	// because the record of a lease may have been lost while its holder acts.
	patience time.Duration

	fenced     bool                      // another coordinator claimed the stream while the lease was ours
	watching   bool                      // new heartbeats are watched for
	since      time.Time                 // when watching began
	last       sharding.JournalHeartbeat // the newest one
	lastAt     time.Time                 // when the newest one was first seen
	surveyedAt time.Time                 // the latest survey
}

// found holds the result of a survey of the journal, and the lease at that time.
type found struct {
	Term      sharding.Term             // of the lease
	Cluster   sharding.ClusterID        // of the lease
	Highest   sharding.Epoch            // of the journal
	Heartbeat sharding.JournalHeartbeat // the last one in the journal; zero: none
}

// takeoverStep is the next step of a take-over.
type takeoverStep uint8

const (
	// mayClaim: the stream can be claimed.
	mayClaim takeoverStep = iota
	// surveyAgain: it is not known yet whether another cluster lives.
	surveyAgain
	// termSpent: the term must be raised above the term of the highest epoch.
	termSpent
	// contested: another cluster uses the journal.
	contested
)

// wasFenced notes that another coordinator has claimed the stream although this process held the lease.
// So the other coordinator has another lease.
func (t *takeover) wasFenced() { t.fenced, t.watching = true, false }

// decide returns what comes next, by what was found at the time now.
func (t *takeover) decide(now time.Time, f found) takeoverStep {
	// The epoch that this term claims the stream with does not count: an earlier attempt of this tenure has claimed
	// it.
	//
	// Invariant: a new term is higher than the terms of all epochs in the journal. No process acts on a term that was
	// not claimed in the journal.
	// Guarded by: `coordinator.takeover` asks for a higher term, and `lease.Holder` raises the term.
	// `routetable.Watcher` accepts a new term only from a table that the coordinator of that term has published. A
	// `NotActive` that names the term is not enough.
	// Mutants: term-above-epochs, term-raised
	//mutant:false term-above-epochs
	below := f.Highest.Term() >= f.Term && (f.Highest != sharding.MakeEpoch(f.Term, 0) || f.foreign())
	if !below && !t.fenced && !f.foreign() {
		t.watching = false
		return mayClaim
	}
	if !t.watching || now.Sub(t.surveyedAt) >= t.patience {
		t.watching, t.since, t.last, t.lastAt = true, now, f.Heartbeat, now
	}
	t.surveyedAt = now
	if f.Heartbeat != t.last {
		t.last, t.lastAt = f.Heartbeat, now
		if now.Sub(t.since) > t.patience {
			return contested
		}
	}
	switch {
	case now.Sub(t.lastAt) < t.patience: //mutant:false foreign-heartbeat
		return surveyAgain
	case below:
		t.fenced = false
		return termSpent
	}
	t.fenced, t.watching = false, false
	return mayClaim
}

// foreign reports whether the journal was last used by another cluster. Heartbeats of
// earlier versions do not say whose they are.
func (f found) foreign() bool {
	// Invariant: as long as the cluster of a journal lives, no other cluster uses that journal.
	// Guarded by: `coordinator.takeover` compares the identity of the lease record with the identity of the last
	// journal heartbeat. The coordinator decides nothing until the first heartbeat of its term is written, or until the
	// journal refuses this heartbeat because the journal is full or damaged.
	// Mutants: cluster-identity, foreign-heartbeat
	return f.Heartbeat.Cluster != 0 && f.Heartbeat.Cluster != f.Cluster //mutant:false cluster-identity
}
