package lease

import "context" // pure: every call of a store has an end

// Backend keeps one [Record] per name, in a store that all candidates share.
// Everything else is decided by [Holder].
//
// The duties of a backend:
//
//  1. Get returns the record; the zero Record if there is none. It sees every
//     Swap that was acknowledged before Get was called, from any process.
//  2. Swap replaces the record by next, with Version old.Version+1, if and only if
//     the stored record is [Record.Replaceable]: it has the version and the nonce of
//     old (for the zero Record: none is stored), and its term is not above next.Term.
//     Otherwise Swap returns false and changes nothing.
//  3. A Swap that returned true survives a crash of the store.
//  4. An error of Swap means that its outcome is unknown: the write may have happened, or may still happen.
//     Errors wrap ErrStore and hold no password.
//  5. It expires nothing: a record stays until it is replaced.
//  6. Every call returns soon after ctx ends.
//  7. Close releases resources; requests in progress may fail.
//
// The races it has to stand: Get and Swap are called concurrently, on one handle and on other processes'
// handles, and of several Swaps from the same record one succeeds; a Swap that was given up may arrive
// after others have succeeded, and must then change nothing.
//
// Package leasetest checks all of this but the crash.
type Backend interface {
	Get(ctx context.Context, name string) (Record, error)
	Swap(ctx context.Context, name string, old, next Record) (bool, error)
	Close() error
}
