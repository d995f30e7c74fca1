package journal

import "context" // pure: every call of a store has an end

// Backend is a store. Its methods may be called at the same time, Commit and
// Declare by one caller at a time per Backend value. Several values, in several
// processes, may share one store.
type Backend interface {
	// Commit decides all ops, in order, in one transaction, by [Decide], and
	// makes them durable before it returns one result per op. An error says
	// about all of them: ErrNotCommitted, ErrFull and ErrCorrupt that nothing was
	// written, ErrBroken that the process must stop, any other that nothing is known.
	// What is read begins after Commit was called.
	Commit(ctx context.Context, ops []Op) ([]Result, error)
	// Load reads one entity at one moment not before the call. An error that
	// wraps ErrCorrupt names entity and sequence number.
	Load(ctx context.Context, req LoadRequest) (Loaded, error)
	// Declare checks d against the stored facts with [Facts.Merge], stores
	// what is new, and returns all facts, in one transaction.
	Declare(ctx context.Context, d Declaration) (Facts, error)
	// Close releases resources. Afterwards only Close may be called, which then does
	// nothing.
	Close() error
}
