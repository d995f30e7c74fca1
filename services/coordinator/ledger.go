package coordinator

import (
	"slices"
)

// ledger numbers the facts of the term, and knows which of them are durable. It keeps the facts that are about no other
// noun.
type ledger struct {
	// Facts are numbered in each term, from 1. lastFact is the number of the newest fact, and stored is the
	// number of the newest fact that is durable; 0: there is none.
	lastFact, stored uint64
	// targetFact numbers the newest fact about the target version, and wishFact the newest fact about anything else that
	// operators want.
	targetFact, wishFact uint64
	// lost is true if facts were lost in this term or in an earlier one, see [LossFact].
	lost    bool
	unknown []UnknownFact // of later releases, oldest first
}

// pending reports whether the fact with a number is not durable yet. As long as the newest fact about a row or a type
// is not durable, no process has learned of it, and the row or type is not changed again. So facts do not pile up if
// the journal does not answer.
func (l *ledger) pending(fact uint64) bool { return fact > l.stored }

// keep keeps a fact for the release that knows it: checkpoints repeat it. At most so many are kept, the newest ones.
func (l *ledger) keep(f UnknownFact, most int) {
	// Invariant: if this release does not know the kind of a fact, the fact is kept for the release that does.
	// Guarded by: the ledger keeps such facts, and checkpoints repeat them.
	// Mutants: unknown-facts-kept
	//mutant:do unknown-facts-kept return
	if i := slices.Index(l.unknown, f); i >= 0 {
		l.unknown = slices.Delete(l.unknown, i, i+1)
	}
	if l.unknown = append(l.unknown, f); len(l.unknown) > most {
		l.unknown = slices.Delete(l.unknown, 0, 1)
	}
}
