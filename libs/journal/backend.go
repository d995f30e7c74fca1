package journal

import (
	"context" // pure: every call of a store has an end

	"github.com/roost-cluster/roost/libs/sharding"
)

// Backend is one handle on a store. A Journal (package commit) does the rest for
// all of them. Several handles, in several processes, may share one store.
//
// The duties of a backend, including the duties of a [Reader]:
//
//  1. Commit decides all ops, in their order, in one transaction, exactly as
//     [Decide] does.
//  2. What Commit reports without an error is on disk: it survives a power cut.
//  3. An error of Commit is about all ops. ErrNotCommitted, ErrFull and ErrCorrupt mean that
//     nothing was written and never will be; ErrBroken that the process must stop; any other
//     error that the outcome is unknown: the transaction may have been committed, or may still
//     be.
//  4. Everything that Commit reads, it reads after it was called.
//  5. Load returns one entity as it is at one moment not before the call. An error
//     that wraps ErrCorrupt names entity and sequence number, and is never returned
//     for an entity that is intact.
//  6. Declare checks d against the stored facts with [Facts.Merge], stores what is
//     new, and returns all facts, in one transaction.
//  7. A handle is bound to one generation of the store: the one that it found when it was
//     opened. Commit and Declare compare it, and the lowest formats, with the stored facts in
//     their transaction, and return the error of [Facts.CheckOpened]; Load, Wakes, Sends and
//     History return the error of [Facts.CheckOpenedReader].
//  8. Every call returns soon after ctx ends. A commit that is in progress then may
//     still happen.
//  9. Close releases resources. Afterwards only Close may be called, and does nothing.
//  10. List returns the entities that have records, in the order of [sharding.Entity.Compare],
//     as [ListRequest] specifies. It costs as much as what it returns, however much is stored.
//     An entity that was stored before the first page was requested is in one of the pages, and
//     no entity is in two.
//  11. Facts returns the stored facts without MaxEpoch, and writes nothing. It wraps
//     ErrIdentity for another format.
//  12. Wakes and Sends return the entries that stand at one moment not before the call, as
//     [WakesRequest] and [SendsRequest] specify. They cost as much as what they return, however
//     much is stored. Of records they read about Config.PageBytes at most, and one in any case:
//     a page that is full for that reason has More like any other, and the entries that it has are
//     the first ones of their shard. A damaged record is an Err of its entries. An error that
//     wraps ErrCorrupt means that the entries of some shard cannot be read.
//  13. History returns records as [HistoryRequest] specifies. It reads little more than what it
//     returns, however much is stored. A damaged record is an Err of its entry.
//
// A backend must be safe for handles of other processes that commit, claim and declare
// concurrently, and for loads that run during a commit. It need not be safe for more: per
// handle, Commit and Declare are called by one caller at a time, and Close when nothing else is
// in progress.
//
// Package journaltest checks all of this but the power cut.
type Backend interface {
	Reader
	Commit(ctx context.Context, ops []Op) ([]Result, error)
	Declare(ctx context.Context, d Declaration) (Facts, error)
}

// Reader is the part of a handle that only reads. A backend also opens handles that are nothing
// else, for tools that run while a cluster is running: such a handle creates and changes
// nothing in the store, takes no lock that a writer waits for, and needs no right to write.
type Reader interface {
	Load(ctx context.Context, req LoadRequest) (Loaded, error)
	List(ctx context.Context, req ListRequest) ([]sharding.Entity, error)
	Wakes(ctx context.Context, req WakesRequest) (WakesPage, error)
	Sends(ctx context.Context, req SendsRequest) (SendsPage, error)
	History(ctx context.Context, req HistoryRequest) (History, error)
	Facts(ctx context.Context) (Facts, error)
	Close() error
}

// WriteLocker is implemented by backends whose handles write one after the other.
type WriteLocker interface {
	// LockWrites waits until no other handle writes, and blocks the other handles until the next Commit or
	// Declare of this handle ends, or UnlockWrites is called. If it returns an error, no handle is blocked. It
	// need not wait for a handle that makes no progress: Commit is safe without it. A Journal calls it
	// before it takes a batch, so that what is submitted during the wait is in the batch.
	LockWrites(ctx context.Context) error
	// UnlockWrites unblocks the other handles. A Journal calls it after each batch: a batch may
	// end without a Commit, because the journal is broken. It does nothing if nothing is locked.
	UnlockWrites()
}

// Upkeep is implemented by backends that do work in the background, for example copying a log.
// It may fail while every call succeeds.
type Upkeep interface {
	// NotifyUpkeep makes the backend call notify with the error of every attempt that
	// failed, and with nil when one has succeeded after that. It must not block.
	NotifyUpkeep(notify func(error))
}

// Pipelines is implemented by backends that combine several databases, each with the entities of some types. A
// Journal has one pipeline for each of them: operations of different pipelines are committed and read concurrently,
// and the limits of a [Config] hold for each pipeline. So operations that wait for one database do not delay the
// others. All operations of a commit belong to one pipeline. The backend accepts concurrent commits of different
// pipelines, and a declaration during commits of all pipelines but the first.
type Pipelines interface {
	// Pipelines returns the numbers of the databases, by pipeline, and Pipeline returns the pipeline of an entity
	// type. The first pipeline, 0, has the facts.
	Pipelines() []int
	Pipeline(sharding.EntityType) int
	// NotifyDown makes the backend call notify with the number of a pipeline and an error when its database does not
	// answer, and with nil when it answers again. It must not block.
	NotifyDown(notify func(pipeline int, err error))
}
