package commit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/sharding"
)

var (
	shard = sharding.ShardID{Type: "Account"}
	alice = sharding.Entity{Type: "Account", ID: "alice"}
)

// scripted is a backend whose commits take a second and fail as the script
// says.
type scripted struct {
	journal.Backend
	mu      sync.Mutex // of the fields below, while something is in progress
	script  []error
	guilty  map[sharding.EntityID]bool // their stored data is damaged
	batches []int                      // sizes
	loading int
	most    int           // loads at a time
	hang    chan struct{} // if there is one, loads and declarations end when it is closed
	closed  bool
}

func (s *scripted) Commit(ctx context.Context, ops []journal.Op) ([]journal.Result, error) {
	s.mu.Lock()
	s.batches = append(s.batches, len(ops))
	s.mu.Unlock()
	time.Sleep(time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.script) > 0 {
		err := s.script[0]
		s.script = s.script[1:]
		if err != nil {
			return nil, err
		}
	}
	for i := range ops {
		if a := ops[i].Append; a != nil && s.guilty[a.Entity.ID] {
			return nil, fmt.Errorf("page 7: %w", journal.ErrCorrupt)
		}
	}
	return s.Backend.Commit(ctx, ops)
}

// damage lists the entities with damaged data.
func (s *scripted) damage(ids ...sharding.EntityID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.guilty = map[sharding.EntityID]bool{}
	for _, id := range ids {
		s.guilty[id] = true
	}
}

// hangOn makes loads and declarations hang until the channel is closed; without one they do not.
func (s *scripted) hangOn(until chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hang = until
}

// say sets what the next commits do.
func (s *scripted) say(script ...error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = script
}

func (s *scripted) Load(ctx context.Context, req journal.LoadRequest) (journal.Loaded, error) {
	s.mu.Lock()
	s.loading++
	s.most = max(s.most, s.loading)
	hang := s.hang
	s.mu.Unlock()
	if hang != nil {
		<-hang // whatever the context says, as a disk would
	}
	time.Sleep(time.Second)
	s.mu.Lock()
	s.loading--
	s.mu.Unlock()
	return s.Backend.Load(ctx, req)
}

func (s *scripted) Declare(ctx context.Context, d journal.Declaration) (journal.Facts, error) {
	s.mu.Lock()
	hang := s.hang
	s.mu.Unlock()
	if hang != nil {
		<-hang
	}
	return s.Backend.Declare(ctx, d)
}

func (s *scripted) Close() error {
	s.closed = true
	return s.Backend.Close()
}

// bench is a journal on a scripted backend, inside a bubble.
type bench struct {
	*testing.T
	j       *commit.Journal
	b       *scripted
	mu      sync.Mutex
	results []string
}

func inBubble(t *testing.T, change func(*journal.Config), f func(*bench)) {
	synctest.Test(t, func(t *testing.T) {
		cfg := journal.DefaultConfig()
		if change != nil {
			change(&cfg)
		}
		b := &bench{T: t, b: &scripted{Backend: memory.New(cfg)}}
		var err error
		if b.j, err = commit.Open(t.Context(), b.b, journal.Declaration{Cluster: "blue"}, cfg, commit.Observer{}); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = b.j.Close()
			if !b.b.closed {
				t.Error("the backend was not closed")
			}
		}()
		b.submit("claim", journal.Op{Claim: &sharding.Claim{Shard: shard, Epoch: 1, Owner: 1}})
		b.want("claim durable")
		f(b)
	})
}

func (b *bench) submit(name string, op journal.Op) {
	b.j.Submit(op, func(r journal.Result) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.results = append(b.results, fmt.Sprint(name, " ", r.Verdict))
	})
}

func (b *bench) add(name string, seq uint64, size int) {
	r := sharding.Record{Seq: seq, Events: []sharding.Event{{Name: "E", Payload: make([]byte, size)}}}
	b.submit(name, journal.Op{Append: &sharding.Append{Shard: shard, Epoch: 1,
		Entity: sharding.Entity{Type: "Account", ID: sharding.EntityID(name)}, Records: []sharding.Record{r}}})
}

func (b *bench) fence(name string) {
	b.submit(name, journal.Op{Fence: &sharding.ReadFence{Shard: shard, Epoch: 1}})
}

// want waits until nothing moves any more and compares the results since the
// last call.
func (b *bench) want(results string) {
	b.Helper()
	time.Sleep(time.Minute)
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if got := strings.Join(b.results, ", "); got != results {
		b.Fatalf("got %q, want %q", got, results)
	}
	b.results = nil
}

func (b *bench) wantBatches(sizes ...int) {
	b.Helper()
	if fmt.Sprint(b.b.batches) != fmt.Sprint(sizes) {
		b.Fatalf("batches of %v, want %v", b.b.batches, sizes)
	}
}

func TestGroupCommit(t *testing.T) {
	inBubble(t, func(c *journal.Config) { c.BatchOps = 4 }, func(b *bench) {
		b.b.batches = nil
		b.add("a", 1, 0)
		synctest.Wait() // the first one does not wait for others
		for _, name := range []string{"b", "c", "d", "e", "f"} {
			b.add(name, 1, 0)
		}
		b.fence("g")
		b.want("a durable, b durable, c durable, d durable, e durable, f durable, g durable")
		b.wantBatches(1, 4, 2)
	})
}

func TestBatchBytes(t *testing.T) {
	inBubble(t, func(c *journal.Config) { c.BatchBytes = 1000 }, func(b *bench) {
		b.b.batches = nil
		b.fence("first")
		synctest.Wait()
		for i, size := range []int{300, 300, 300, 5000, 10} {
			b.add(fmt.Sprint(i), 1, size)
		}
		b.want("first durable, 0 durable, 1 durable, 2 durable, 3 durable, 4 durable")
		b.wantBatches(1, 2, 1, 1, 1)
	})
}

func TestLimits(t *testing.T) {
	inBubble(t, func(c *journal.Config) { c.QueueOps, c.QueueBytes, c.OpBytes = 3, 5000, 4000 }, func(b *bench) {
		b.add("huge", 1, 4000)
		b.submit("nothing", journal.Op{})
		b.submit("empty", journal.Op{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: alice}})
		b.want("huge refused, too large, nothing refused, store full, empty refused, store full")
		b.fence("in progress")
		synctest.Wait()
		for i := range 5 {
			b.fence(fmt.Sprint(i))
		}
		b.want("3 refused, store full, 4 refused, store full, in progress durable, 0 durable, 1 durable, 2 durable")
		b.fence("in progress")
		synctest.Wait()
		for i := range 3 {
			b.add(fmt.Sprint("b", i), 1, 2000)
		}
		b.want("b2 refused, store full, in progress durable, b0 durable, b1 durable")
	})
}

func TestRepeatsWhatWasNotCommitted(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		busy := fmt.Errorf("%w: busy", journal.ErrNotCommitted)
		b.b.say(busy, busy, busy)
		b.add("a", 1, 0)
		b.want("a durable")
		b.b.say(slices.Repeat([]error{busy}, 20)...)
		start := len(b.b.batches)
		b.add("b", 1, 0)
		b.want("b refused, store full")
		if n := len(b.b.batches) - start; n < 5 || n > 7 {
			t.Errorf("tried %d times in five seconds of one second each", n)
		}
		b.b.say()
		b.add("b", 1, 0)
		b.want("b durable")
	})
}

// TestDamageIsBlamed puts operations that meet damage between others, in one
// batch: they alone are refused. Next time they are committed alone at once, until
// one of them is not damaged any more.
func TestDamageIsBlamed(t *testing.T) {
	inBubble(t, func(c *journal.Config) { c.RetryFor = time.Hour }, func(b *bench) {
		b.b.damage("c", "h")
		batch := func(seq uint64, want string) {
			t.Helper()
			b.b.batches = nil
			b.fence("first")
			synctest.Wait()
			for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
				b.add(name, seq, 0)
			}
			b.want("first durable, " + want)
		}
		batch(1, "a durable, b durable, c refused, damaged, d durable, e durable, f durable, g durable, h refused, damaged")
		b.wantBatches(1, 8, 4, 2, 2, 1, 1, 4, 2, 2, 1, 1)
		batch(2, "a durable, b durable, c refused, damaged, d durable, e durable, f durable, g durable, h refused, damaged")
		b.wantBatches(1, 6, 1, 1)
		b.b.damage("c")
		b.add("h", 1, 0)
		b.want("h durable")
		batch(3, "a durable, b durable, c refused, damaged, d durable, e durable, f durable, g durable, h refused by sequence")
		b.wantBatches(1, 7, 1)
	})
}

// TestBlameEnds: the search for damaged entities ends in time, with refusals
// that may be retried.
func TestBlameEnds(t *testing.T) {
	const limit = 20
	inBubble(t, func(c *journal.Config) { c.RetryFor = limit * time.Second }, func(b *bench) {
		b.fence("first")
		synctest.Wait()
		var ids []sharding.EntityID
		for i := range 64 {
			ids = append(ids, sharding.EntityID(fmt.Sprint("e", i)))
			b.add(string(ids[i]), 1, 0)
		}
		b.b.damage(ids...)
		b.b.mu.Lock()
		b.b.batches = nil
		b.b.mu.Unlock()
		time.Sleep(2 * limit * time.Second)
		synctest.Wait()
		verdicts := map[string]int{}
		for _, r := range b.results {
			_, verdict, _ := strings.Cut(r, " ")
			verdicts[verdict]++
		}
		if verdicts["refused, damaged"] < 4 || verdicts["refused, damaged"]+verdicts["refused, store full"] != len(ids) {
			t.Errorf("after %v: %v", limit, verdicts)
		}
		if n := len(b.b.batches); n > limit+8 { // of a second each, and one for each part that is still to be looked at
			t.Errorf("%d commits in %d s", n, limit)
		}
	})
}

// TestDamageIsReported: damage is reported with its entity and reason,
// and not again for each command.
func TestDamageIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := journal.DefaultConfig()
		s := &scripted{Backend: memory.New(cfg)}
		var mu sync.Mutex
		var seen []journal.Damaged
		j, err := commit.Open(t.Context(), s, journal.Declaration{Cluster: "blue"}, cfg, commit.Observer{
			Damage: func(d journal.Damaged) {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, d)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		s.damage("alice")
		for range 3 {
			j.Submit(journal.Op{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: alice, Records: []sharding.Record{{Seq: 1}}}}, func(journal.Result) {})
			time.Sleep(2 * time.Second)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(seen) != 1 || seen[0].Entity != alice || seen[0].Shard != shard || !strings.Contains(fmt.Sprint(seen[0].Err), "page 7") {
			t.Fatalf("reported: %+v", seen)
		}
		mu.Unlock()
		time.Sleep(time.Minute)
		j.Submit(journal.Op{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: alice, Records: []sharding.Record{{Seq: 1}}}}, func(journal.Result) {})
		time.Sleep(2 * time.Second)
		mu.Lock()
		if len(seen) != 2 {
			t.Errorf("after a minute: reported %d times", len(seen))
		}
	})
}

func TestUnknownOutcome(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.b.say(errors.New("connection reset"))
		b.add("a", 1, 0)
		synctest.Wait()
		b.add("b", 1, 0)
		b.want("a unknown, b durable") // b was in the next batch
		b.b.batches = nil
		b.add("a", 1, 0)
		b.want("a durable")
		b.wantBatches(1)
	})
}

func TestFull(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.fence("first")
		synctest.Wait()
		b.b.say(nil, fmt.Errorf("%w: no space left", journal.ErrFull))
		b.add("a", 1, 0)
		b.fence("read")
		b.add("b", 1, 0)
		b.want("first durable, a refused, store full, read durable, b refused, store full")
		b.add("a", 1, 0)
		b.want("a durable")
	})
}

func TestBroken(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.fence("first")
		synctest.Wait()
		b.b.say(nil, fmt.Errorf("%w: fsync failed", journal.ErrBroken))
		b.add("a", 1, 0)
		synctest.Wait()
		select {
		case <-b.j.Broken():
			t.Error("broken too early")
		default:
		}
		time.Sleep(1500 * time.Millisecond)
		b.add("b", 1, 0) // waits behind the batch that breaks
		b.want("first durable, a unknown, b refused, store full")
		<-b.j.Broken()
		if !errors.Is(b.j.Err(), journal.ErrBroken) {
			t.Errorf("the reason is %v", b.j.Err())
		}
		before := len(b.b.batches)
		b.fence("read")
		b.want("read refused, store full")
		if len(b.b.batches) != before {
			t.Error("a broken store is used again")
		}
	})
}

func TestCloseCommitsWhatWaits(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		for i := range 3 {
			b.add(fmt.Sprint(i), 1, 0)
			synctest.Wait()
		}
		if err := b.j.Close(); err != nil {
			t.Error(err)
		}
		b.add("late", 1, 0)
		b.want("0 durable, 1 durable, 2 durable, late refused, store full")
		if _, err := b.j.Load(b.Context(), journal.LoadRequest{Entity: alice}); !errors.Is(err, journal.ErrClosed) {
			t.Errorf("load of a closed journal: %v", err)
		}
		if _, err := b.j.Declare(b.Context(), journal.Declaration{}); !errors.Is(err, journal.ErrClosed) {
			b.Errorf("a declaration after Close: %v", err)
		}
	})
}

func TestLoadsAreBounded(t *testing.T) {
	inBubble(t, func(c *journal.Config) { c.Loads = 2 }, func(b *bench) {
		for range 7 {
			go func() {
				if _, err := b.j.Load(context.Background(), journal.LoadRequest{Entity: alice}); err != nil {
					t.Error(err)
				}
			}()
		}
		ctx, cancel := context.WithTimeout(b.Context(), 500*time.Millisecond)
		defer cancel()
		synctest.Wait()
		if _, err := b.j.Load(ctx, journal.LoadRequest{Entity: alice}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a load that waits too long: %v", err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if b.b.most != 2 {
			t.Errorf("%d loads at a time", b.b.most)
		}
	})
}

// TestBackgroundLoads: loads without a waiting caller leave half of the tokens to the
// others, even when the store does not answer.
func TestBackgroundLoads(t *testing.T) { backgroundLoads(t, t.Errorf) }

func backgroundLoads(t *testing.T, errorf func(string, ...any)) {
	inBubble(t, func(c *journal.Config) { c.Loads, c.LoadTimeout = 4, 3*time.Second }, func(b *bench) {
		hang := make(chan struct{})
		b.b.hangOn(hang)
		for range 10 {
			go func() {
				_, _ = b.j.Load(b.Context(), journal.LoadRequest{Entity: alice, Background: true})
			}()
		}
		time.Sleep(time.Minute) // all were given up
		synctest.Wait()
		b.b.hangOn(nil)
		began := time.Now()
		if _, err := b.j.Load(b.Context(), journal.LoadRequest{Entity: alice}); err != nil || time.Since(began) > 2*time.Second {
			errorf("during background loads that hang: %v after %v", err, time.Since(began))
		}
		if b.b.most > 3 {
			errorf("%d loads at a time, two of them in the background", b.b.most)
		}
		close(hang)
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, err := b.j.Load(b.Context(), journal.LoadRequest{Entity: alice, Background: true}); err != nil {
			errorf("the store answers again: %v", err)
		}
	})
}

// TestLoadsThatHang: a store which does not answer a load delays its caller by at
// most LoadTimeout, twice that if all loads hang, and other callers not at all;
// closing does not wait for it forever.
func TestLoadsThatHang(t *testing.T) {
	inBubble(t, func(c *journal.Config) { c.Loads, c.LoadTimeout = 2, 3*time.Second }, func(b *bench) {
		load := func() time.Duration {
			b.Helper()
			began := time.Now()
			if _, err := b.j.Load(b.Context(), journal.LoadRequest{Entity: alice}); !errors.Is(err, journal.ErrUnreachable) || errors.Is(err, journal.ErrCorrupt) {
				b.Errorf("a load that hangs: %v", err)
			}
			return time.Since(began)
		}
		hang := make(chan struct{})
		b.b.hangOn(hang)
		for range 3 { // the third has no turn
			if took := load(); took != 3*time.Second {
				b.Errorf("a load that hangs takes %v", took)
			}
		}
		b.fence("f")
		b.want("f durable")
		if b.b.most != 2 {
			b.Errorf("%d loads hang in the store, 2 may", b.b.most)
		}
		close(hang)
		b.b.hangOn(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if _, err := b.j.Load(b.Context(), journal.LoadRequest{Entity: alice}); err != nil {
			b.Errorf("the store answers again: %v", err)
		}
		hang = make(chan struct{})
		b.b.hangOn(hang)
		load()
		if err := b.j.Close(); !errors.Is(err, journal.ErrUnreachable) {
			b.Errorf("closed while a load hangs: %v", err)
		}
		close(hang)
		time.Sleep(time.Second)
		b.b.closed = true
	})
}

// TestDeclareEnds: neither a commit nor a declaration that hangs keeps Declare
// and MaxEpoch beyond their context. A declaration that hangs in the
// store keeps others out, and Close does not wait for it forever.
func TestDeclareEnds(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.fence("f")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(b.Context(), time.Millisecond)
		defer cancel()
		if _, err := b.j.Declare(ctx, journal.Declaration{}); !errors.Is(err, journal.ErrUnreachable) {
			b.Errorf("declared during a commit: %v", err)
		}
		b.want("f durable")
		hang := make(chan struct{})
		b.b.hangOn(hang)
		for range 2 {
			ctx, cancel := context.WithTimeout(b.Context(), time.Second)
			defer cancel()
			start := time.Now()
			if _, err := b.j.MaxEpoch(ctx); !errors.Is(err, journal.ErrUnreachable) {
				b.Errorf("asked while the store hangs: %v", err)
			}
			if took := time.Since(start); took != time.Second {
				b.Errorf("a question to a store that hangs takes %v", took)
			}
		}
		close(hang)
		b.b.hangOn(nil)
		synctest.Wait()
		if _, err := b.j.MaxEpoch(b.Context()); err != nil {
			b.Errorf("asked when the store answers again: %v", err)
		}
	})
}

func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := journal.DefaultConfig()
		b := &scripted{Backend: memory.New(cfg), script: []error{journal.ErrNotCommitted}}
		var seen []string
		j, err := commit.Open(t.Context(), b, journal.Declaration{Cluster: "blue"}, cfg, commit.Observer{
			Batch: func(s commit.BatchStats) { seen = append(seen, fmt.Sprint(s.Ops, " ops ", s.Took, " ", s.Err)) },
			Op: func(s commit.OpStats) {
				seen = append(seen, fmt.Sprint(s.Op.Kind(), " ", s.Ended.Sub(s.Submitted) > s.Ended.Sub(s.Started)-1, " ", s.Result.Verdict))
			},
			Load: func(s commit.LoadStats) { seen = append(seen, fmt.Sprint("load ", s.Took, " ", s.Err)) },
		})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		j.Submit(journal.Op{Claim: &sharding.Claim{Shard: shard, Epoch: 1, Owner: 1}}, func(journal.Result) { close(done) })
		<-done
		if _, err := j.Load(t.Context(), journal.LoadRequest{Entity: alice}); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		want := "[1 ops 1s not committed 1 ops 1s <nil> claim true durable load 1s <nil>]"
		if got := fmt.Sprint(seen); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestOpenRefusesAnotherCluster(t *testing.T) {
	cfg := journal.DefaultConfig()
	b := memory.New(cfg)
	open := func(cluster string, shards uint32) error {
		j, err := commit.Open(t.Context(), b, journal.Declaration{Cluster: cluster, Types: []sharding.TypeDesc{{Type: "Cart", Shards: shards}}}, cfg, commit.Observer{})
		if err == nil {
			err = j.Close()
		}
		return err
	}
	if err := open("blue", 8); err != nil {
		t.Fatal(err)
	}
	if err := open("green", 8); !errors.Is(err, journal.ErrIdentity) {
		t.Errorf("another cluster: %v", err)
	}
	if err := open("", 8); !errors.Is(err, journal.ErrIdentity) {
		t.Errorf("no cluster: %v", err)
	}
	if err := open("blue", 9); !errors.Is(err, journal.ErrShardCount) {
		t.Errorf("another number of shards: %v", err)
	}
}

// TestReplaced: a journal that was replaced under a process is broken for it, whether a
// commit or a load finds out.
func TestReplaced(t *testing.T) {
	for _, by := range []string{"commit", "load"} {
		b := memory.New(journal.DefaultConfig())
		j, err := commit.Open(t.Context(), b, journal.Declaration{Cluster: "blue"}, journal.DefaultConfig(), commit.Observer{})
		if err != nil || j.Generation() == 0 {
			t.Fatalf("generation %v, %v", j.Generation(), err)
		}
		b.Inspect(func(l *memory.Ledger) { l.Replace(j.Generation() + 1) })
		if by == "load" {
			_, err = j.Load(t.Context(), journal.LoadRequest{Entity: alice})
		} else {
			got := make(chan journal.Result, 1)
			j.Submit(journal.Op{Fence: &sharding.ReadFence{}}, func(r journal.Result) { got <- r })
			err = (<-got).Err
		}
		<-j.Broken()
		if !errors.Is(err, journal.ErrReplaced) || !errors.Is(j.Err(), journal.ErrReplaced) {
			t.Errorf("%s: %v, and the journal is %v", by, err, j.Err())
		}
		_ = j.Close()
	}
}

// upkept is a backend with upkeep.
type upkept struct {
	journal.Backend
	notify func(error)
}

func (u *upkept) NotifyUpkeep(notify func(error)) { u.notify = notify }

// TestUpkeep: a failure of upkeep is reported, and remembered until upkeep succeeds.
func TestUpkeep(t *testing.T) {
	cfg := journal.DefaultConfig()
	u := &upkept{Backend: memory.New(cfg)}
	var told []error
	j, err := commit.Open(t.Context(), u, journal.Declaration{Cluster: "blue"}, cfg, commit.Observer{Upkeep: func(err error) { told = append(told, err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if j.Warning() != nil {
		t.Errorf("in the beginning there is a warning: %v", j.Warning())
	}
	failed := errors.New("the log cannot be copied")
	for _, err := range []error{failed, nil} {
		if u.notify(err); !errors.Is(j.Warning(), err) || told[len(told)-1] != err || j.Err() != nil {
			t.Errorf("after %v, the warning is %v, was told %v, and the journal is %v", err, j.Warning(), told, j.Err())
		}
	}
}
