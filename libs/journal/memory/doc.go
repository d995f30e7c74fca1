// Package memory is a journal in memory: [Ledger], a plain value that a
// simulation can drive and copy, and [Driver], the same behind a mutex.
//
// # What this does not do
//
// Nothing survives the process.
package memory
