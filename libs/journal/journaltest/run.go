package journaltest

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Harness is one fresh, empty store.
type Harness struct {
	// Open opens one more handle on the store, as another process would. The suite
	// closes it.
	Open func() (journal.Backend, error)
	// OpenReader opens a handle that only reads.
	OpenReader func() (journal.Reader, error)
	// Damage changes a stored record behind the backend's back. It may be nil.
	Damage func(entity sharding.Entity, seq uint64) error
	// Lose removes a stored record behind the backend's back. It may be nil.
	Lose func(entity sharding.Entity, seq uint64) error
	// Renumber gives a stored record another sequence number, and SetSnapshot makes an entity
	// refer to a snapshot at a sequence number, although none is stored there. Both bypass the
	// backend, and may be nil.
	Renumber    func(entity sharding.Entity, seq uint64, to int64) error
	SetSnapshot func(entity sharding.Entity, seq int64) error
	// Replace gives the store another generation, as a restore does.
	Replace func(sharding.Generation) error
	// SetLowest sets the lowest formats that a program must know, as an activation does.
	SetLowest func(reader, writer int) error
	// Fill takes all room away from the store, or gives it back. It may be nil.
	Fill func(full bool) error
}

// Run runs the suite; fresh makes a store per test. The store's handles must honour
// the dedupe limits of cfg and take the time from the clock.
func Run(t *testing.T, fresh func(t *testing.T, cfg journal.Config, clock journal.Clock) Harness) {
	for _, test := range []struct {
		name string
		run  func(*env)
	}{
		{"Claims", testClaims},
		{"ClaimIsAFence", testClaimIsAFence},
		{"FenceReads", testFenceReads},
		{"AppendByEpoch", testAppendByEpoch},
		{"AppendBySequence", testAppendBySequence},
		{"AppendByCommand", testAppendByCommand},
		{"UnitIsAtomic", testUnitIsAtomic},
		{"NeighboursInABatch", testNeighbours},
		{"MalformedOperations", testMalformed},
		{"ReplayInOrder", testReplay},
		{"NamesAreApart", testNames},
		{"BigValues", testBigValues},
		{"RepliesAreApart", testReplies},
		{"WakesAndSends", testWakesAndSends},
		{"Wakes", testWakes},
		{"Remembered", testRemembered},
		{"Fired", testFired},
		{"FiredIsChecked", testFiredIsChecked},
		{"WakesAreFenced", testWakesAreFenced},
		{"Sends", testSends},
		{"DeliveredAgain", testDeliveredAgain},
		{"DeadLetters", testDeadLetters},
		{"DeliverOnce", testDeliverOnce},
		{"DeliverBeside", testDeliverBeside},
		{"WakePages", testWakePages},
		{"SendPages", testSendPages},
		{"PageBytes", testPageBytes},
		{"DamagedWakes", testDamagedWakes},
		{"Lookup", testLookup},
		{"DedupeKeeps", testDedupeKeeps},
		{"DedupeExpires", testDedupeExpires},
		{"KeysFromTheFuture", testFutureKeys},
		{"ClockSteps", testClockSteps},
		{"OnlySeenTimeCounts", testSeenTime},
		{"TimeCountsOnce", testTimeCountsOnce},
		{"Snapshots", testSnapshots},
		{"SnapshotsAreFenced", testSnapshotsFenced},
		{"DropSnapshots", testDropSnapshots},
		{"Trim", testTrim},
		{"TrimExpired", testTrimExpired},
		{"Delete", testDelete},
		{"DeleteWakes", testDeleteWakes},
		{"Purge", testPurge},
		{"PurgeLives", testPurgeLives},
		{"PurgeSeenTime", testPurgeSeenTime},
		{"PurgeReplaced", testPurgeReplaced},
		{"PurgeAgain", testPurgeAgain},
		{"PurgeIsBounded", testPurgeIsBounded},
		{"PurgedNumbers", testPurgedNumbers},
		{"RepairSkip", testRepairSkip},
		{"RepairGoBack", testRepairGoBack},
		{"RepairRefused", testRepairRefused},
		{"RepairSnapshot", testRepairSnapshot},
		{"RepairDelete", testRepairDelete},
		{"RepairRows", testRepairRows},
		{"RepairMissing", testRepairMissing},
		{"Identity", testIdentity},
		{"Generations", testGenerations},
		{"Activations", testActivations},
		{"ShardCounts", testShardCounts},
		{"Reopen", testReopen},
		{"Damage", testDamage},
		{"DamagedNumbers", testDamagedNumbers},
		{"Full", testFull},
		{"Lists", testLists},
		{"History", testHistory},
		{"ListsWhileOthersWrite", testListsWhileOthersWrite},
		{"Reader", testReader},
		{"CancelledContext", testCancelled},
		{"RacingClaims", testRacingClaims},
		{"RacingAppends", testRacingAppends},
		{"UnknownOutcomes", testUnknown},
		{"AgainstTheLedger", testAgainstLedger},
		{"ThroughTheJournal", testThroughJournal},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(newEnv(t, fresh))
		})
	}
}

// env is one test with its store.
type env struct {
	*testing.T
	now     time.Time     // the wall-clock time
	elapsed time.Duration // the monotonic time that has passed
	cfg     journal.Config
	fresh   func(*testing.T, journal.Config, journal.Clock) Harness
	store   Harness
	b       journal.Backend // one open handle
}

func newEnv(t *testing.T, fresh func(*testing.T, journal.Config, journal.Clock) Harness) *env {
	e := &env{T: t, fresh: fresh, now: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC), cfg: journal.DefaultConfig()}
	e.cfg.DedupeAge, e.cfg.DedupeCount = time.Hour, 5
	e.store = fresh(t, e.cfg, e.clock)
	e.b = e.open()
	return e
}

func (e *env) clock() (time.Time, time.Duration) { return e.now, e.elapsed }

// pass lets time pass.
func (e *env) pass(d time.Duration) { e.now, e.elapsed = e.now.Add(d), e.elapsed+d }

// open gives a handle that is closed at the end of the test.
func (e *env) open() journal.Backend {
	e.Helper()
	b, err := e.store.Open()
	if err != nil {
		e.Fatalf("open: %v", err)
	}
	e.Cleanup(func() { _ = b.Close() })
	return b
}

func (e *env) commit(ops ...journal.Op) []journal.Result {
	e.Helper()
	r, err := e.b.Commit(context.Background(), ops)
	if err != nil {
		e.Fatalf("commit: %v", err)
	}
	if len(r) != len(ops) {
		e.Fatalf("%d results for %d operations", len(r), len(ops))
	}
	return r
}

// want commits ops as one batch and compares the verdicts.
func (e *env) want(verdicts []sharding.Verdict, ops ...journal.Op) []journal.Result {
	e.Helper()
	results := e.commit(ops...)
	for i, r := range results {
		if r.Verdict != verdicts[i] {
			e.Fatalf("operation %d (%s) is %v, want %v", i, describe(ops[i]), r.Verdict, verdicts[i])
		}
	}
	return results
}

// one commits one operation and compares its verdict.
func (e *env) one(v sharding.Verdict, op journal.Op) journal.Result {
	e.Helper()
	return e.want([]sharding.Verdict{v}, op)[0]
}

func (e *env) load(entity sharding.Entity, lookup ...sharding.CommandID) journal.Loaded {
	e.Helper()
	l, err := e.b.Load(context.Background(), journal.LoadRequest{Entity: entity, Lookup: lookup})
	if err != nil {
		e.Fatalf("load %s: %v", entity, err)
	}
	return l
}

// equal compares values of the journal; nil and empty count as the same.
func (e *env) equal(what string, got, want any) {
	e.Helper()
	if g, w := plain(got), plain(want); g != w {
		e.Fatalf("%s:\n got %s\nwant %s", what, clip(g), clip(w))
	}
}

func plain(v any) string {
	if l, ok := v.(journal.Loaded); ok {
		// maps are printed sorted by key
		return fmt.Sprintf("last %d life %d snapshot %v records %v stored %v", l.LastSeq, l.Life, l.Snapshot, plain(l.Records), l.Stored)
	}
	return fmt.Sprintf("%v", v)
}

func clip(s string) string {
	if len(s) > 2000 {
		return s[:2000] + "…"
	}
	return s
}

func describe(op journal.Op) string {
	for _, p := range []any{op.Claim, op.Append, op.Fence, op.Snapshot, op.Drop, op.Purge} {
		if v := reflect.ValueOf(p); !v.IsNil() {
			return clip(fmt.Sprintf("%T%+v", p, v.Elem()))
		}
	}
	return "nothing"
}
