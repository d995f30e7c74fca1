// Package commit has [Journal], the type that services use: it wraps a [journal.Backend] of any backend.
//
// While one batch is being committed, a Journal gathers the operations of all entities into the next batch.
// So a slow disk makes larger batches, not a longer queue of small ones. Each database has a pipeline of its own
// ([journal.Pipelines]).
//
// A batch that meets damage is committed in halves until the operations that depend on damaged data are
// isolated. They are refused as damaged; the others are committed. See [journal.Damaged].
//
// # What this does not do
//
// It decides nothing about an operation: [journal.Decide] does, in the transaction of the backend. It does not
// settle unknown outcomes; it reports them.
package commit
