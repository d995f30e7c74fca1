package coordinator

import (
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Takeover decides whether a coordinator that holds the lease may claim the fact
// stream. Leases exclude each other only within one store: another cluster that
// was formed on the same journal, with a lease of its own, would be deposed by the
// claim, and would depose this one in turn.
//
// The journal is this cluster's if the last sign of life in it is, and if no term
// there is above that of the lease. Otherwise another cluster lives, or the record of
// the lease was lost. Which of them it is, signs of life tell: a cluster that leaves
// none for [Takeover.Patience] is gone, and the journal is this one's from then on.
type Takeover struct {
	// Patience is longer than a lease, whose record may have been lost while its
	// holder acts, and than some signs of life.
	Patience time.Duration

	fenced bool          // another coordinator claimed the stream while the lease was ours
	looks  bool          // signs are watched
	since  time.Time     // since when
	last   sharding.Sign // the newest
	lastAt time.Time     // when it was first seen
	lookAt time.Time     // the latest look
}

// Found is what the journal says, and the lease for which it is asked.
type Found struct {
	Term    sharding.Term      // of the lease
	Cluster sharding.ClusterID // of the lease
	Highest sharding.Epoch     // of the journal
	Sign    sharding.Sign      // the last one in the journal; zero: none
}

// TakeoverStep is what comes next.
type TakeoverStep uint8

const (
	// Claim the stream.
	Claim TakeoverStep = iota
	// LookAgain in some time: it is not known yet whether another cluster lives.
	LookAgain
	// RaiseTerm above that of the highest epoch.
	RaiseTerm
	// Contested is the end: another cluster uses the journal.
	Contested
)

// Fenced says that another coordinator claimed the stream while the lease was
// this one's: its lease is another one.
func (t *Takeover) Fenced() { t.fenced, t.looks = true, false }

// Look takes what was found at now, and says what comes next.
func (t *Takeover) Look(now time.Time, f Found) TakeoverStep {
	// A claim of this very term is this lease's own, tried before.
	below := f.Highest.Term() >= f.Term && (f.Highest != sharding.MakeEpoch(f.Term, 0) || f.foreign())
	if !below && !t.fenced && !f.foreign() {
		t.looks = false
		return Claim
	}
	if !t.looks || now.Sub(t.lookAt) >= t.Patience {
		t.looks, t.since, t.last, t.lastAt = true, now, f.Sign, now
	}
	t.lookAt = now
	if f.Sign != t.last {
		t.last, t.lastAt = f.Sign, now
		if now.Sub(t.since) > t.Patience {
			return Contested
		}
	}
	switch {
	case now.Sub(t.lastAt) < t.Patience && !mutant.On("foreign-signs"):
		return LookAgain
	case below:
		t.fenced = false
		return RaiseTerm
	}
	t.fenced, t.looks = false, false
	return Claim
}

// foreign reports whether the journal was last used by another cluster. Signs of
// earlier versions do not say whose they are.
func (f Found) foreign() bool {
	return f.Sign.Cluster != 0 && f.Sign.Cluster != f.Cluster && !mutant.On("cluster-identity")
}
