// Package memory is a journal in memory: [Ledger], a plain value that a
// simulation can drive and copy, and [Backend], the same behind a mutex.
//
// # What this does not do
//
// It keeps nothing on disk: everything is lost when the process ends.
package memory
