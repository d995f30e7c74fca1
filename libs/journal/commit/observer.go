package commit

import (
	"time"

	"github.com/roost-cluster/roost/libs/journal"
)

// Observer receives what a [Journal] does, for metrics and traces. Every field may
// be nil. The functions are called from the journal's goroutines and must not
// block.
type Observer struct {
	// Batch is called after every attempt to commit.
	Batch func(BatchStats)
	// Op is called for every operation before its result is delivered.
	Op func(OpStats)
	// Load is called after every load.
	Load func(LoadStats)
	// Page is called after every read of a page of wake-ups or sends.
	Page func(PageStats)
	// Damage is called when a load, a page or a commit meets damage, at most once a minute
	// for the same entity or fence.
	Damage func(journal.Damaged)
	// Upkeep is called when background work of the backend has failed, which harms nothing yet
	// and is retried, and with nil when it succeeds again.
	Upkeep func(error)
	// Failing is called when the commits or the reads of a database begin to fail, when the reason changes, and now and
	// again while they fail. It is called with nil when they succeed again. Full and damaged data are not failures in
	// this sense, nor is a commit that has to be repeated because of a concurrent one.
	Failing func(database int, p Path, err error)
	// Down is called with the number of each database and nil when the journal is opened. With several, it is called again
	// with an error when one of them does not answer, and with nil when it answers again.
	Down func(database int, err error)
}

// BatchStats describes one attempt to commit.
type BatchStats struct {
	Ops   int
	Bytes int
	Took  time.Duration
	Err   error // nil: committed; refusals of single operations are no error
}

// OpStats describes one operation from beginning to end.
type OpStats struct {
	Op        journal.Op
	Submitted time.Time
	Started   time.Time // of its batch; until then it waited
	Ended     time.Time
	Result    journal.Result
}

// LoadStats describes one load, without the wait for its turn.
type LoadStats struct {
	Request journal.LoadRequest
	Records int // replayed after the snapshot
	Took    time.Duration
	Err     error
}

// PageStats describes one read of a page, without the wait for its turn.
type PageStats struct {
	Of      string // "wakes" or "sends"
	Shards  int    // that were asked for
	Entries int
	Took    time.Duration
	Err     error
}
