package commit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// torn is a journal some of whose shards have entries that cannot be read.
type torn struct {
	journal.Backend
	bad   []uint32
	calls atomic.Int64
	err   error // of all reads
	hang  bool
}

func (d *torn) check(ctx context.Context, shards []sharding.ShardID) error {
	d.calls.Add(1)
	if d.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	for _, s := range shards {
		if slices.Contains(d.bad, s.Index) {
			return fmt.Errorf("%w: page 7", journal.ErrCorrupt)
		}
	}
	return d.err
}

func (d *torn) Wakes(ctx context.Context, req journal.WakesRequest) (journal.WakesPage, error) {
	var shards []sharding.ShardID
	for _, s := range req.Shards {
		shards = append(shards, s.Shard)
	}
	if err := d.check(ctx, shards); err != nil {
		return journal.WakesPage{}, err
	}
	return d.Backend.Wakes(ctx, req)
}

func (d *torn) Sends(ctx context.Context, req journal.SendsRequest) (journal.SendsPage, error) {
	var shards []sharding.ShardID
	for _, s := range req.Shards {
		shards = append(shards, s.Shard)
	}
	if err := d.check(ctx, shards); err != nil {
		return journal.SendsPage{}, err
	}
	return d.Backend.Sends(ctx, req)
}

// TestDamagedPages: shards whose entries cannot be read are named, and the others have theirs.
func TestDamagedPages(t *testing.T) {
	const shards = 64
	cfg := journal.DefaultConfig()
	d := &torn{Backend: memory.New(cfg), bad: []uint32{5, 6, 40}}
	var damaged []journal.Damaged
	pages := 0
	j, err := commit.Open(t.Context(), d, journal.Declaration{Cluster: "blue"}, cfg, commit.Observer{
		Damage: func(x journal.Damaged) { damaged = append(damaged, x) },
		Page:   func(commit.PageStats) { pages++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var wakes journal.WakesRequest
	var sends journal.SendsRequest
	for n := range uint32(shards) {
		s := sharding.ShardID{Type: "T", Index: n}
		r := sharding.Record{Seq: 1, Sends: make([]sharding.Send, 1), Wakes: []sharding.Wake{{Kind: sharding.ReminderWake, Name: "w", Due: 5}, {Kind: sharding.ReminderWake, Name: "x", Due: 6}}}
		_, err := d.Commit(t.Context(), []journal.Op{
			{Claim: &sharding.Claim{Shard: s, Epoch: 1, Owner: 1}},
			{Append: &sharding.Append{Shard: s, Epoch: 1, Entity: sharding.Entity{Type: "T", ID: sharding.EntityID(fmt.Sprint(n))}, Records: []sharding.Record{r}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		wakes.Shards, sends.Shards = append(wakes.Shards, journal.ShardPosition{Shard: s}), append(sends.Shards, journal.SendPosition{Shard: s})
	}
	wakes.Limit, sends.Limit = 1, 1
	good := shards - len(d.bad)
	w, err := j.Wakes(t.Context(), wakes)
	if err != nil || len(w.Entries) != good || len(w.More) != good || len(w.Damaged) != len(d.bad) {
		t.Errorf("%d wake-ups, more in %d shards, damaged %v, %v", len(w.Entries), len(w.More), w.Damaged, err)
	}
	if most := 2*6*len(d.bad) + 1; int(d.calls.Load()) > most || pages != int(d.calls.Load()) {
		t.Errorf("%d reads, %d were told to the observer, at most %d are enough", d.calls.Load(), pages, most)
	}
	s, err := j.Sends(t.Context(), sends)
	if err != nil || len(s.Entries) != good || len(s.More) != 0 || len(s.Damaged) != len(d.bad) {
		t.Errorf("%d sends, more in %d shards, damaged %v, %v", len(s.Entries), len(s.More), s.Damaged, err)
	}
	for i, x := range w.Damaged {
		if x.Shard.Index != d.bad[i] || x.Shard != s.Damaged[i].Shard || !errors.Is(x.Err, journal.ErrCorrupt) {
			t.Errorf("damaged are %+v and %+v", x, s.Damaged[i])
		}
	}
	if len(damaged) != len(d.bad) {
		t.Errorf("the observer was told of %+v", damaged)
	}
	// A record that is damaged is reported as well, and its entry is there.
	d.bad = nil
	d.Backend.(*memory.Backend).Inspect(func(l *memory.Ledger) { l.Damage(sharding.Entity{Type: "T", ID: "7"}, 1) })
	if w, err := j.Wakes(t.Context(), wakes); err != nil || len(w.Entries) != shards || !errors.Is(w.Entries[7].Err, journal.ErrCorrupt) {
		t.Errorf("%d wake-ups, %v", len(w.Entries), err)
	}
	if last := damaged[len(damaged)-1]; last.Entity.ID != "7" {
		t.Errorf("the observer was told of %+v last", last)
	}
	d.err = journal.ErrUnreachable
	if _, err := j.Wakes(t.Context(), wakes); !errors.Is(err, journal.ErrUnreachable) {
		t.Errorf("a store that does not answer: %v", err)
	}
	d.err = fmt.Errorf("%w: %w", journal.ErrBroken, journal.ErrReplaced)
	if _, err := j.Sends(t.Context(), sends); !errors.Is(err, journal.ErrReplaced) || !errors.Is(j.Err(), journal.ErrReplaced) {
		t.Errorf("another journal: %v, and the journal is %v", err, j.Err())
	}
}

// TestTimeOfDamagedPages: the store's clock decides which wake-ups are due, whichever shards
// are damaged.
func TestTimeOfDamagedPages(t *testing.T) {
	cfg := journal.DefaultConfig()
	store := memory.New(cfg)
	store.SetClock(func() (time.Time, time.Duration) { return time.UnixMilli(7), 0 })
	req := journal.WakesRequest{Limit: 1}
	for n := range uint32(4) {
		req.Shards = append(req.Shards, journal.ShardPosition{Shard: sharding.ShardID{Type: "T", Index: n}})
	}
	for _, bad := range [][]uint32{nil, {0}, {3}, {0, 1, 2}, {0, 1, 2, 3}} {
		j, err := commit.Open(t.Context(), &torn{Backend: store, bad: bad}, journal.Declaration{Cluster: "blue"}, cfg, commit.Observer{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := j.Wakes(t.Context(), req)
		if want := len(bad) < 4; err != nil || want && p.Now.UnixMilli() != 7 || !want && !p.Now.IsZero() {
			t.Errorf("damaged are %v: the time is %v, %v", bad, p.Now, err)
		}
		j.Close()
	}
}

// TestDeadLetterPages: a page of dead letters has no pending sends, and the other way round.
func TestDeadLetterPages(t *testing.T) {
	cfg := journal.DefaultConfig()
	d := memory.New(cfg)
	j, err := commit.Open(t.Context(), d, journal.Declaration{Cluster: "blue"}, cfg, commit.Observer{})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	s, e := sharding.ShardID{Type: "T"}, sharding.Entity{Type: "T", ID: "a"}
	add := func(seq uint64) journal.Op {
		return journal.Op{Append: &sharding.Append{Shard: s, Epoch: 1, Entity: e, Records: []sharding.Record{{Seq: seq, Sends: make([]sharding.Send, 1)}}}}
	}
	dies := journal.Op{Append: &sharding.Append{Shard: s, Epoch: 1, Entity: e, Delivered: []sharding.Delivered{{Seq: 2, Sends: []uint16{0}, As: sharding.SendRefused}}}}
	for _, op := range []journal.Op{{Claim: &sharding.Claim{Shard: s, Epoch: 1, Owner: 1}}, add(1), add(2), dies} {
		if r, err := d.Commit(t.Context(), []journal.Op{op}); err != nil || r[0].Verdict != sharding.Durable {
			t.Fatal(r, err)
		}
	}
	for dead, want := range map[bool]uint64{false: 1, true: 2} {
		p, err := j.Sends(t.Context(), journal.SendsRequest{Shards: []journal.SendPosition{{Shard: s}}, Dead: dead, Limit: 10})
		if err != nil || len(p.Entries) != 1 || p.Entries[0].Seq != want {
			t.Errorf("dead %t: %+v, %v", dead, p.Entries, err)
		}
	}
}

// stuck is a journal whose lists end on the test's order, whatever the context does.
type stuck struct {
	journal.Backend
	until chan struct{}
}

func (d *stuck) List(context.Context, journal.ListRequest) ([]sharding.Entity, error) {
	<-d.until
	return nil, nil
}

// TestHangingList: a list that is never read ends, like a load.
func TestHangingList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := journal.DefaultConfig()
		d := &stuck{Backend: memory.New(cfg), until: make(chan struct{})}
		j, err := commit.Open(t.Context(), d, journal.Declaration{Cluster: "blue"}, cfg, commit.Observer{})
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		defer close(d.until)
		if _, err := j.List(t.Context(), journal.ListRequest{Limit: 1}); !errors.Is(err, journal.ErrUnreachable) {
			t.Errorf("a list: %v", err)
		}
	})
}

// TestHangingPage: a page that is never read ends, like a load.
func TestHangingPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := journal.DefaultConfig()
		j, err := commit.Open(t.Context(), &torn{Backend: memory.New(cfg), hang: true}, journal.Declaration{Cluster: "blue"}, cfg, commit.Observer{})
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		if _, err := j.Wakes(t.Context(), journal.WakesRequest{Limit: 1}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wake-ups: %v", err)
		}
		if _, err := j.Sends(t.Context(), journal.SendsRequest{Limit: 1}); err == nil || strings.Contains(err.Error(), "load") {
			t.Errorf("sends: %v", err)
		}
	})
}

// late answers reads of wake-ups after a delay, as of the time at which it was asked.
type late struct {
	journal.Backend
	by time.Duration
}

func (d *late) Wakes(context.Context, journal.WakesRequest) (journal.WakesPage, error) {
	now := time.Now()
	time.Sleep(d.by)
	return journal.WakesPage{Now: now}, nil
}

// TestLatePage: a page that was late does not set the clock of the store back.
func TestLatePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &late{Backend: memory.New(journal.DefaultConfig())}
		j, err := commit.Open(t.Context(), d, journal.Declaration{Cluster: "blue"}, journal.DefaultConfig(), commit.Observer{})
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		for _, d.by = range []time.Duration{0, 5 * time.Second} {
			if err := j.ReadClock(t.Context()); err != nil {
				t.Fatal(err)
			}
			clock, now := j.StoreClock(), time.Now()
			if got := clock.Now(now); !got.Equal(now.Round(0)) {
				t.Errorf("after a page that took %s, the clock is %s behind", d.by, now.Sub(got))
			}
		}
	})
}
