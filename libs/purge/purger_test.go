package purge_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/purge"
	"github.com/roost-cluster/roost/libs/sharding"
)

// world drives a purger in virtual time: a journal with some entries in each shard.
type world struct {
	t    testing.TB
	p    *purge.Purger
	now  time.Time
	left map[sharding.ShardID]int
	// begun are the times at which purges began; hold keeps their answers back.
	begun   []time.Time
	held    []journal.Purge
	hold    bool
	verdict sharding.Verdict
	fails   bool // reads fail
	damaged map[sharding.ShardID]bool
	reads   int
	readsOf map[sharding.ShardID]int
	// more is the number of purges of a shard that leave records, early whether they return the next due time.
	more  map[sharding.ShardID]int
	early bool
	due   map[sharding.ShardID]int64
	known bool // a page has shown the clock of the store, which is ahead
}

const ahead = time.Hour

func newWorld(t testing.TB, change func(*purge.Config)) *world {
	cfg := purge.DefaultConfig()
	cfg.Rate, cfg.Interval, cfg.Page = 100, 10*time.Second, 20
	change(&cfg)
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	return &world{t: t, p: purge.New(cfg), now: time.Unix(1000, 0), left: map[sharding.ShardID]int{}, verdict: sharding.Durable, damaged: map[sharding.ShardID]bool{}, readsOf: map[sharding.ShardID]int{}, more: map[sharding.ShardID]int{}, due: map[sharding.ShardID]int64{}}
}

func shard(i uint32) sharding.ShardID { return sharding.ShardID{Type: "T", Index: i} }

func (w *world) open(i uint32, entries int) {
	w.left[shard(i)] = entries
	w.step(purge.Open{Shard: shard(i), Epoch: sharding.Epoch(i + 1)})
}

func (w *world) step(in purge.Input) {
	w.t.Helper()
	var out purge.Outputs
	w.p.Step(w.now, in, &out)
	if err := w.p.Check(); err != nil {
		w.t.Fatal(err)
	}
	if err := w.p.Clone().Check(); err != nil {
		w.t.Fatal(err)
	}
	for _, r := range out.Reads {
		w.reads++
		if until := journal.PurgeFrom + w.now.Add(ahead).UnixMilli(); w.known && r.Until != until {
			w.t.Errorf("entries that are due by %d are read, want %d by the clock of the store", r.Until, until)
		}
		page := purge.Page{Number: r.Number}
		if w.fails {
			page.Err = errors.New("silent")
		}
		for _, at := range r.Shards {
			s := at.Shard
			if at.After.Due != journal.PurgeFrom {
				w.t.Errorf("the read begins at %+v, and not with the deleted entities", at)
			}
			w.readsOf[s]++
			if w.damaged[s] {
				page.Damaged = append(page.Damaged, journal.Damaged{Shard: s})
				continue
			}
			page.Now = w.now.Add(ahead)
			w.known = w.known || page.Err == nil
			n := min(w.left[s], r.Limit)
			for k := range n {
				page.Entries = append(page.Entries, journal.WakeEntry{Shard: s, Entity: sharding.Entity{Type: s.Type, ID: sharding.EntityID(fmt.Sprint(w.left[s] - k))}, WakeRef: sharding.WakeRef{Kind: sharding.PurgeWake, Seq: 3}, Due: w.due[s]})
			}
			if n < w.left[s] {
				page.More = append(page.More, s)
			}
		}
		w.step(page)
	}
	for _, p := range out.Purges {
		if want := sharding.Epoch(p.Shard.Index + 1); p.Epoch != want || p.Life != 3 {
			w.t.Fatalf("purge %+v, want it at epoch %v", p, want)
		}
		w.begun = append(w.begun, w.now)
		if w.hold {
			w.held = append(w.held, p)
			continue
		}
		w.answer(p)
	}
}

func (w *world) answer(p journal.Purge) {
	switch {
	case w.verdict != sharding.Durable:
	case w.more[p.Shard] > 0:
		w.more[p.Shard]--
		if w.early {
			w.due[p.Shard]++
		}
	default:
		w.left[p.Shard]--
	}
	w.step(purge.Purged{Purge: p, Verdict: w.verdict})
}

// pass lets time pass in ticks.
func (w *world) pass(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(20 * time.Millisecond)
		w.step(purge.Tick{})
	}
}

// TestRate: purges begin at a constant rate, page after page, until nothing is left.
func TestRate(t *testing.T) { rate(t) }

func rate(t testing.TB) {
	w := newWorld(t, func(*purge.Config) {})
	w.open(0, 450)
	w.open(1, 50)
	w.pass(9 * time.Second)
	if w.reads > 0 {
		t.Fatal("shards are looked at as soon as they are opened")
	}
	w.pass(time.Minute)
	if w.left[shard(0)] != 0 || w.left[shard(1)] != 0 || len(w.begun) != 500 {
		t.Fatalf("left %v after %d purges", w.left, len(w.begun))
	}
	for i := range w.begun {
		if j := i + 110; j < len(w.begun) && w.begun[j].Sub(w.begun[i]) < time.Second {
			t.Fatalf("110 purges in %v, at most 100 may begin in a second, and 5 at once", w.begun[j].Sub(w.begun[i]))
		}
	}
	reads := w.reads
	w.pass(time.Minute)
	if n := w.reads - reads; n < 10 || n > 14 {
		t.Errorf("%d looks in a minute, each of two shards is looked at every 10 s", n)
	}
}

// TestLongLife: a life whose purge leaves records is purged again at once, at the rate.
func TestLongLife(t *testing.T) { longLife(t) }

func longLife(t testing.TB) {
	w := newWorld(t, func(*purge.Config) {})
	w.open(0, 1)
	w.open(1, 30)
	w.more[shard(0)] = 300
	w.pass(10*time.Second + 4*time.Second)
	if w.left[shard(0)] != 0 || w.left[shard(1)] != 0 {
		t.Errorf("after %d purges %v are left, and %d purges of the long life", len(w.begun), w.left, w.more[shard(0)])
	}
	if n := len(w.begun); n != 331 {
		t.Errorf("%d purges, want 331", n)
	}
	for i := range w.begun {
		if j := i + 110; j < len(w.begun) && w.begun[j].Sub(w.begun[i]) < time.Second {
			t.Fatalf("110 purges in %v, at most 100 may begin in a second, and 5 at once", w.begun[j].Sub(w.begun[i]))
		}
	}
}

// TestNotAgain: what has got another time, or has become due meanwhile, waits for the next look.
func TestNotAgain(t *testing.T) {
	w := newWorld(t, func(*purge.Config) {})
	w.early = true
	w.open(0, 1)
	w.more[shard(0)] = 300
	w.pass(time.Minute)
	if n := len(w.begun); n < 5 || n > 6 {
		t.Errorf("%d purges in a minute, want one every 10 s", n)
	}
	if w.reads > 12 {
		t.Errorf("%d looks in a minute, want two every 10 s", w.reads)
	}
}

// TestUnderWay: a journal that does not answer gets a few purges, and a shard that was closed
// none.
func TestUnderWay(t *testing.T) {
	w := newWorld(t, func(c *purge.Config) { c.UnderWay = 3 })
	w.hold = true
	w.open(0, 10)
	w.open(1, 10)
	w.pass(20 * time.Second)
	if len(w.held) != 3 {
		t.Fatalf("%d purges are in progress, want 3", len(w.held))
	}
	w.step(purge.Close{Shard: shard(0)})
	w.hold = false
	for _, p := range w.held {
		w.answer(p)
	}
	before := w.left[shard(0)]
	w.pass(20 * time.Second)
	if w.left[shard(0)] != before || w.left[shard(1)] != 0 {
		t.Errorf("left %v; of the closed shard were %d left", w.left, before)
	}
}

// TestFailures: after a failure nothing begins for a while, and longer after each that follows.
func TestFailures(t *testing.T) {
	w := newWorld(t, func(c *purge.Config) { c.RetryMax = 20 * time.Second })
	w.fails = true
	w.open(0, 5)
	w.pass(10*time.Second + 55*time.Second)
	if w.reads < 4 || w.reads > 8 { // after 5, 15 and 35 s at the latest
		t.Errorf("%d reads failed in 55 s", w.reads)
	}
	w.reads = 0
	w.pass(2 * time.Minute)
	if w.reads < 5 || w.reads > 13 {
		t.Errorf("%d reads failed in 2 min, want one every 10 to 20 s", w.reads)
	}
	w.fails, w.verdict = false, sharding.UnknownOutcome
	w.begun = nil
	w.pass(2 * time.Minute)
	if n := len(w.begun); n < 5 || n > 70 { // up to 5 at once
		t.Errorf("%d purges failed in 2 min, want a few every 10 to 20 s", n)
	}
	w.verdict = sharding.Durable
	w.pass(40 * time.Second)
	if w.left[shard(0)] != 0 {
		t.Errorf("left %v", w.left)
	}
	if s := w.p.Stats(); s.Purges != 5 || s.Failed == 0 {
		t.Errorf("counted %+v", s)
	}
}

// TestFailedShard: a shard whose entries cannot be read is looked at more and more seldom, also if
// it is read alone, and holds back no other.
func TestFailedShard(t *testing.T) {
	w := newWorld(t, func(c *purge.Config) { c.RetryMax = time.Minute })
	w.damaged[shard(0)] = true
	w.open(0, 5)
	w.open(1, 500)
	w.pass(10*time.Second + 7*time.Second)
	if w.left[shard(1)] != 0 {
		t.Errorf("%d entries of the other shard are left", w.left[shard(1)])
	}
	w.pass(5 * time.Minute)
	if n := w.readsOf[shard(0)]; n < 7 || n > 15 { // after 5, 10, 20, 40 and then 60 s, or down to half of that
		t.Errorf("%d looks at the failed shard in 5 min", n)
	}
	if s := w.p.Stats(); s.Failing != 1 || s.Failed != uint64(w.readsOf[shard(0)]) {
		t.Errorf("counted %+v", s)
	}
	w.damaged[shard(0)] = false
	w.pass(90 * time.Second)
	if s := w.p.Stats(); w.left[shard(0)] != 0 || s.Failing != 0 {
		t.Errorf("%d entries of the shard that can be read again are left, %+v", w.left[shard(0)], s)
	}
}

// TestDamagedEntity: a life that cannot be removed holds back no other.
func TestDamagedEntity(t *testing.T) {
	w := newWorld(t, func(*purge.Config) {})
	w.hold = true
	w.open(0, 1)
	w.open(1, 300)
	w.pass(11 * time.Second)
	w.hold = false
	for _, p := range w.held {
		w.verdict = sharding.Durable
		if p.Shard == shard(0) {
			w.verdict = sharding.RefusedDamaged
		}
		w.answer(p)
	}
	w.verdict = sharding.Durable
	w.pass(4 * time.Second)
	if w.left[shard(1)] != 0 {
		t.Errorf("%d entries of the other shard are left", w.left[shard(1)])
	}
	w.pass(15 * time.Second)
	if w.left[shard(0)] != 0 {
		t.Error("what was damaged is not tried again")
	}
}
