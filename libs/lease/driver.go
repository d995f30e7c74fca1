package lease

import "context" // pure: every call of a store has an end

// Store keeps one record per name. It is all that a backend implements. Both
// methods may be called concurrently; reads and writes of one name are
// linearizable, and a write that was acknowledged survives a crash.
type Store interface {
	// Get reads the record; the zero Record if there is none.
	Get(ctx context.Context, name string) (Record, error)
	// Swap replaces the record by next, with Version old.Version+1, iff the
	// stored record [Record.Yields]: it is the very one that old was read from,
	// by version and nonce (the zero Record: there is none), and its term is not
	// above next.Term. It returns false if it does not. After an error the
	// outcome is unknown: the write may have happened, or may still happen.
	Swap(ctx context.Context, name string, old, next Record) (bool, error)
}
