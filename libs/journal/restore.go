package journal

import (
	"fmt"
	"math"

	"github.com/roost-cluster/roost/libs/sharding"
)

// RestoreTerms is by how much a restore raises the term of a journal: by more terms than a cluster
// can have begun since the backup. With one take-over per second, as many take twelve days.
const RestoreTerms = 1 << 20

// Restore returns the facts of a journal that is restored from a backup with the facts f, and the
// fence that every shard has from then on. drawn is a new generation. highest is the highest known
// epoch, of the backup or of the journal that the restore replaces.
//
// After a backup the cluster continued, and its later writes are no longer stored. Nothing that
// remembers them may have an effect:
//
//   - The generation is another one, so a process that has the journal open stops at its next
//     transaction.
//   - No shard can be claimed, and nothing appended, at an epoch that was assigned before: the fence
//     is above all of them, and no region owns it.
//   - The next coordinator gets a term above the term of the fences ([Facts.MaxEpoch]). So its rows
//     and its table are newer than any that gateways and regions have, even if the record of the
//     lease is lost too.
//
// It fails if the terms are used up.
func (f Facts) Restore(drawn sharding.Generation, highest sharding.Epoch) (Facts, sharding.Fence, error) {
	term := max(f.MaxEpoch, highest).Term()
	if term > math.MaxUint32-2*RestoreTerms { // the cluster needs terms, too
		return f, sharding.Fence{}, fmt.Errorf("%w: the highest term is %d, and a restore would raise it by %d: no terms would be left for the cluster; start it with a new journal", ErrIdentity, term, RestoreTerms)
	}
	// Invariant: once a journal is restored, nothing from before the restore has an effect: no epoch, no table, and no
	// process that still has the old journal open.
	// Guarded by: `journal.Facts.Restore`: the journal gets another generation, the fence of every shard is above all
	// epochs that are known and has no owner, and the next term is at least 2²⁰ above the highest term that is known.
	// `sqlite.Backend.stillThere`: a process that was paused in a transaction does not report it as stored.
	// Mutants: restore-generation, restore-term
	f.Generation = drawn //mutant:skip restore-generation
	term += RestoreTerms //mutant:skip restore-term
	fence := sharding.Fence{Epoch: sharding.MakeEpoch(term, 0)}
	f.MaxEpoch = fence.Epoch
	return f, fence, nil
}
