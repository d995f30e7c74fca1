package backup

import (
	"errors"
	"fmt"
	"strings"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// ErrRefused: the journal must not be replaced, unless [Options] say so.
var ErrRefused = errors.New("the journal is not replaced")

// Options say what a restore may do.
type Options struct {
	// Replace lets it replace a journal in which something is stored.
	Replace bool
	// InUse lets it replace a journal that other processes have open. What they store afterwards is
	// refused, or lost.
	InUse bool
	// DryRun reads the whole file and looks at the journal, and changes nothing.
	DryRun bool
	// Highest is the highest epoch of other databases that are restored with this one, and of those that they replace.
	Highest sharding.Epoch
}

// Target is the journal whose place a restore is to take.
type Target struct {
	// Facts are the journal's facts, including MaxEpoch. Their format is 0 if there are none, or
	// if they cannot be read.
	Facts journal.Facts
	// Stored is true if the journal holds data, or if that cannot be determined.
	Stored bool
	// Damage is the reason why the journal cannot be read; nil: it can.
	Damage error
	// Users names the sessions or processes that have the journal open, as far as the store
	// knows them.
	Users []string
}

// Restored describes the effect of a restore, done or planned.
type Restored struct {
	Header Header
	// Facts are the facts of the restored journal.
	Facts journal.Facts
	// Replaced describes the journal that was there before.
	Replaced Target
}

// NextTerm is a term that the next coordinator is at or above.
func (r Restored) NextTerm() sharding.Term { return r.Facts.MaxEpoch.Term() + 1 }

// CheckStore returns an error, which wraps [ErrRefused], unless the backed-up journal was in this kind of store.
func (h Header) CheckStore(store string) error {
	if h.Store != store {
		return fmt.Errorf("%w: the backup has a journal in %s, and this one is in %s; name a journal in %s", ErrRefused, h.Store, store, h.Store)
	}
	return nil
}

// Plan checks whether a backup may take the place of a journal, and returns what comes of it. Errors
// wrap [ErrRefused], or [journal.ErrIdentity].
func Plan(h Header, t Target, o Options, drawn sharding.Generation) (Restored, sharding.Fence, error) {
	err := h.Facts.Check()
	switch {
	case err != nil:
		err = fmt.Errorf("the journal in the backup: %w", err)
	case t.Facts.Cluster != "" && t.Facts.Cluster != h.Facts.Cluster:
		err = fmt.Errorf("%w: the journal there belongs to cluster %q, and the backup to cluster %q; name another journal, or remove that one first", journal.ErrIdentity, t.Facts.Cluster, h.Facts.Cluster)
	case len(t.Users) > 0 && !o.InUse:
		err = fmt.Errorf("%w: it is in use (%s); stop all regions and coordinators, or give --in-use to shut out those that cannot be stopped", ErrRefused, strings.Join(t.Users, ", "))
	case t.Stored && !o.Replace && t.Damage != nil:
		err = fmt.Errorf("%w: it cannot be read (%w); give --replace to replace it all the same", ErrRefused, t.Damage)
	case t.Stored && !o.Replace:
		err = fmt.Errorf("%w: something is stored in it; give --replace to replace that", ErrRefused)
	}
	r := Restored{Header: h, Replaced: t}
	if err != nil {
		return r, sharding.Fence{}, err
	}
	var fence sharding.Fence
	r.Facts, fence, err = h.Facts.Restore(drawn, max(t.Facts.MaxEpoch, o.Highest))
	return r, fence, err
}
