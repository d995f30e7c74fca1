package spread

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/sharding"
)

var journalTime = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)

// gated is a database that can be cut off, or hang.
type gated struct {
	journal.Backend
	off  atomic.Bool
	hang atomic.Pointer[chan struct{}] // commits wait for it
}

var errOff = fmt.Errorf("%w: connection refused", journal.ErrUnreachable)

func (g *gated) Facts(ctx context.Context) (journal.Facts, error) {
	if g.off.Load() {
		return journal.Facts{}, errOff
	}
	return g.Backend.Facts(ctx)
}

func (g *gated) Load(ctx context.Context, req journal.LoadRequest) (journal.Loaded, error) {
	if g.off.Load() {
		return journal.Loaded{}, errOff
	}
	return g.Backend.Load(ctx, req)
}

func (g *gated) Wakes(ctx context.Context, req journal.WakesRequest) (journal.WakesPage, error) {
	if g.off.Load() {
		return journal.WakesPage{}, errOff
	}
	return g.Backend.Wakes(ctx, req)
}

func (g *gated) Commit(ctx context.Context, ops []journal.Op) ([]journal.Result, error) {
	if c := g.hang.Load(); c != nil {
		<-*c
	}
	if g.off.Load() {
		return nil, fmt.Errorf("%w: %w", journal.ErrNotCommitted, errOff)
	}
	return g.Backend.Commit(ctx, ops)
}

// inMemory makes a journal of two databases in memory, with the type New in the second one.
func inMemory(t testing.TB) (d *Backend, first, second *gated) {
	t.Helper()
	cfg := journal.DefaultConfig()
	first, second = &gated{Backend: memory.New(cfg)}, &gated{Backend: memory.New(cfg)}
	d, err := Open(t.Context(), first, []Database{second.as(2)}, placement{"New": 2})
	if err != nil {
		t.Fatal(err)
	}
	return d, first, second
}

func (g *gated) as(number int) Database {
	return Database{Number: number, Open: func(context.Context) (journal.Reader, error) {
		if g.off.Load() {
			return nil, errOff
		}
		return g, nil
	}}
}

var both = journal.Declaration{Cluster: "blue", Types: types("New", "Other")}

// ask submits a claim of the shard 0 of a type, and returns its result.
func ask(j *commit.Journal, typ sharding.EntityType, epoch sharding.Epoch) journal.Result {
	done := make(chan journal.Result, 1)
	j.Submit(journal.Op{Claim: &sharding.Claim{Shard: sharding.ShardID{Type: typ}, Epoch: epoch, Owner: 7}}, func(r journal.Result) { done <- r })
	return <-done
}

// TestDown: a database that does not answer takes only its own types, and comes back.
func TestDown(t *testing.T) { synctest.Test(t, goesDown) }

func goesDown(t *testing.T) {
	d, _, second := inMemory(t)
	var downs []string
	j, err := commit.Open(t.Context(), d, both, journal.DefaultConfig(), commit.Observer{
		Down: func(n int, err error) { downs = append(downs, fmt.Sprint(n, " ", err != nil)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range []sharding.EntityType{"New", "Other"} {
		if r := ask(j, typ, 1<<32); r.Verdict != sharding.Durable {
			t.Fatalf("%s: %+v", typ, r)
		}
	}
	second.off.Store(true)
	start := time.Now()
	refused := make(chan journal.Result, 1)
	j.Submit(journal.Op{Fence: &sharding.ReadFence{Shard: sharding.ShardID{Type: "New"}, Epoch: 1 << 32}}, func(r journal.Result) { refused <- r })
	if r := ask(j, "Other", 2<<32); r.Verdict != sharding.Durable || time.Since(start) > 0 {
		t.Errorf("the other database: %+v after %v", r, time.Since(start))
	}
	if r := <-refused; r.Verdict != sharding.RefusedFull || r.Err == nil || !strings.Contains(r.Err.Error(), "database 2 of the journal") {
		t.Errorf("the database that is off: %+v", r)
	}
	if err := j.Warning(); err == nil || !strings.Contains(err.Error(), "database 2") {
		t.Errorf("warning: %v", err)
	}
	if _, err := j.Load(t.Context(), journal.LoadRequest{Entity: sharding.Entity{Type: "New", ID: "x"}}); !errors.Is(err, journal.ErrUnreachable) {
		t.Errorf("a load: %v", err)
	}
	page, err := j.Wakes(t.Context(), journal.WakesRequest{Shards: []journal.ShardPosition{{Shard: sharding.ShardID{Type: "New"}}, {Shard: sharding.ShardID{Type: "Other"}}}, Limit: 1})
	if err != nil || len(page.Damaged) != 1 || page.Damaged[0].Shard.Type != "New" {
		t.Errorf("a page of both: %+v, %v", page, err)
	}
	if epoch, err := j.MaxEpoch(t.Context()); err != nil || epoch != 2<<32 {
		t.Errorf("the highest epoch is %v: %v", epoch, err)
	}
	second.off.Store(false)
	time.Sleep(2 * probePause)
	synctest.Wait()
	if r := ask(j, "New", 3<<32); r.Verdict != sharding.Durable {
		t.Errorf("afterwards: %+v", r)
	}
	if epoch, err := j.MaxEpoch(t.Context()); err != nil || epoch != 3<<32 {
		t.Errorf("the highest epoch is %v: %v", epoch, err)
	}
	if got := fmt.Sprint(downs); got != "[1 false 2 false 2 true 2 false]" || j.Warning() != nil {
		t.Errorf("notified: %s, %v", got, j.Warning())
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

// TestHangs: a commit that hangs in one database holds up nothing of another one.
func TestHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _, second := inMemory(t)
		j, err := commit.Open(t.Context(), d, both, journal.DefaultConfig(), commit.Observer{})
		if err != nil {
			t.Fatal(err)
		}
		hang := make(chan struct{})
		second.hang.Store(&hang)
		slow := make(chan journal.Result, 1)
		j.Submit(journal.Op{Claim: &sharding.Claim{Shard: sharding.ShardID{Type: "New"}, Epoch: 1 << 32, Owner: 7}}, func(r journal.Result) { slow <- r })
		synctest.Wait()
		for n := range sharding.Epoch(3) {
			if r := ask(j, "Other", (n+1)<<32); r.Verdict != sharding.Durable {
				t.Errorf("the other database: %+v", r)
			}
		}
		if len(slow) > 0 {
			t.Error("the one that hangs has answered")
		}
		close(hang)
		if r := <-slow; r.Verdict != sharding.Durable {
			t.Errorf("afterwards: %+v", r)
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestOpensWithoutOne: a process starts although a database does not answer, if that was used before.
func TestOpensWithoutOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := journal.DefaultConfig()
		first, second := &gated{Backend: memory.New(cfg)}, &gated{Backend: memory.New(cfg)}
		second.off.Store(true)
		if _, err := Open(t.Context(), first, []Database{second.as(2)}, nil); !errors.Is(err, journal.ErrUnreachable) {
			t.Fatalf("a new database that does not answer: %v", err)
		}
		second.off.Store(false)
		if _, err := Open(t.Context(), first, []Database{second.as(2)}, placement{"New": 2}); err != nil {
			t.Fatal(err)
		}
		second.off.Store(true)
		d, err := Open(t.Context(), first, []Database{second.as(2)}, placement{"New": 2})
		if err != nil {
			t.Fatal(err)
		}
		j, err := commit.Open(t.Context(), d, both, journal.DefaultConfig(), commit.Observer{})
		if err != nil {
			t.Fatal(err)
		}
		if r := ask(j, "Other", 1<<32); r.Verdict != sharding.Durable {
			t.Errorf("the other database: %+v", r)
		}
		if r := ask(j, "New", 1<<32); r.Verdict != sharding.RefusedFull {
			t.Errorf("the database that is off: %+v", r)
		}
		second.off.Store(false)
		time.Sleep(2 * probePause)
		synctest.Wait()
		if r := ask(j, "New", 1<<32); r.Verdict != sharding.Durable {
			t.Errorf("afterwards: %+v", r)
		}
		if f, err := second.Backend.Facts(t.Context()); err != nil || f.Cluster != "blue" {
			t.Errorf("the database was not told whose it is: %+v, %v", f, err)
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
}
