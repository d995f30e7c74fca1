package lease

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

var start = time.Unix(1_000_000, 0)

// bench drives one Holder by hand against a record in memory.
type bench struct {
	t   *testing.T
	h   *Holder
	now time.Time
	rec Record
	// mute drops the answers of the store, deaf drops the requests too.
	mute, deaf bool
	swaps      []Swap
	log        []Output // everything but requests
}

func config(uid sharding.NodeUID) Config {
	c := DefaultConfig()
	c.Self = sharding.NodeID{Addr: "a:1", UID: uid}
	c.Jitter = 0
	return c
}

func newBench(t *testing.T, c Config) *bench {
	t.Helper()
	h, err := NewHolder(c)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t: t, h: h, now: start}
}

func (b *bench) step(in Input) {
	b.t.Helper()
	for _, o := range b.h.Step(b.now, in, nil) {
		switch o := o.(type) {
		case Get:
			if !b.mute && !b.deaf {
				b.step(Got{Request: o.Request, Record: b.rec})
			}
		case Swap:
			b.swaps = append(b.swaps, o)
			outcome := Conflict
			if !b.deaf && o.Old == b.rec {
				b.rec, outcome = o.New, Done
			}
			if !b.mute && !b.deaf {
				b.step(Swapped{Request: o.Request, Outcome: outcome})
			}
		default:
			b.log = append(b.log, o)
		}
	}
	if err := b.h.Check(); err != nil {
		b.t.Fatal(err)
	}
}

// run ticks every 10 ms.
func (b *bench) run(d time.Duration) {
	b.t.Helper()
	for end := b.now.Add(d); b.now.Before(end); {
		b.step(Tick{})
		b.now = b.now.Add(10 * time.Millisecond)
	}
}

// take returns the outputs since the last call.
func (b *bench) take() []Output {
	got := b.log
	b.log = nil
	return got
}

func (b *bench) want(outs ...Output) {
	b.t.Helper()
	if got := b.take(); !reflect.DeepEqual(got, outs) {
		b.t.Fatalf("at %v:\n got %+v\nwant %+v", b.now.Sub(start), got, outs)
	}
}

func find[T Output](outs []Output) (T, bool) {
	for _, o := range outs {
		if x, ok := o.(T); ok {
			return x, true
		}
	}
	var zero T
	return zero, false
}

func foreign(version uint64, term sharding.Term) Record {
	return Record{Version: version, Term: term, Holder: sharding.NodeID{Addr: "b:1", UID: 99}, TTL: 2 * time.Second, Nonce: 1000 + version}
}

func TestAcquiresFreeLeaseAndRenews(t *testing.T) {
	b := newBench(t, config(1))
	b.step(Tick{})
	until := start.Add(1800 * time.Millisecond)
	b.want(Observed{}, Observed{Holder: b.h.cfg.Self, Term: 1}, Acquired{Term: 1, Until: until, Cluster: b.h.cluster})
	b.run(490 * time.Millisecond)
	b.want()
	b.run(20 * time.Millisecond)
	b.want(Renewed{Term: 1, Until: until.Add(500 * time.Millisecond)})
	if term, ok := b.h.Valid(b.now); term != 1 || !ok {
		t.Errorf("Valid is %d, %v", term, ok)
	}
}

// The term ends TTL minus margin after the start of the last renewal that
// succeeded, however late its answer came.
func TestLostWithoutAnswers(t *testing.T) {
	b := newBench(t, config(1))
	b.step(Tick{})
	b.take()
	b.deaf = true
	b.run(1800 * time.Millisecond)
	b.want()
	if _, ok := b.h.Valid(start.Add(1800 * time.Millisecond)); ok {
		t.Error("valid at its end")
	}
	b.step(Tick{})
	b.want(Lost{Term: 1})
	if _, ok := b.h.Valid(b.now); ok {
		t.Error("valid after Lost")
	}
	b.deaf = false
	b.run(time.Second)
	got, ok := find[Acquired](b.take())
	if !ok || got.Term != 2 {
		t.Errorf("after its own lost term it got %+v, want a new term", got)
	}
}

func TestLateAnswerCountsFromStart(t *testing.T) {
	b := newBench(t, config(1))
	b.mute = true
	b.step(Tick{}) // Get 1 goes out
	b.now = b.now.Add(100 * time.Millisecond)
	b.step(Got{Request: 1}) // Swap 2 goes out and is done
	b.now = b.now.Add(400 * time.Millisecond)
	b.take()
	b.step(Swapped{Request: 2, Outcome: Done})
	b.want(Observed{Holder: b.h.cfg.Self, Term: 1}, Acquired{Term: 1, Until: start.Add(1900 * time.Millisecond), Cluster: b.h.cluster})
}

// A candidate that stands by looks for the next renewal when it is due, and then often, until it sees it or
// the lease is free. A process that is not a candidate has no hurry.
func TestStandbyLooksForRenewal(t *testing.T) {
	b := newBench(t, config(1))
	b.rec = foreign(1, 1)
	b.step(Tick{})
	for i, wait := range []time.Duration{500 * time.Millisecond, 100 * time.Millisecond, 100 * time.Millisecond} {
		if got := b.h.Due().Sub(b.now); got != wait {
			t.Errorf("it reads %v after read %d, want %v", got, i, wait)
		}
		b.now = b.h.Due()
		b.step(Tick{})
	}
	b.rec = foreign(2, 1)
	b.now = b.h.Due()
	b.step(Tick{})
	seen := b.now
	if got := b.h.Due().Sub(seen); got != 500*time.Millisecond {
		t.Errorf("it reads %v after a renewal", got)
	}
	b.take()
	b.step(SetRank{Rank: -1})
	for range 2 {
		b.now = b.h.Due()
		b.step(Tick{})
	}
	if got := b.now.Sub(seen); got != time.Second {
		t.Errorf("without a place in line it reads twice in %v", got)
	}
	b.step(SetRank{Rank: 0})
	for b.h.Due().Before(seen.Add(b.rec.TTL)) {
		b.now = b.h.Due()
		b.step(Tick{})
	}
	b.want()
	b.now = b.h.Due()
	b.step(Tick{})
	if got, ok := find[Acquired](b.take()); !ok || b.now.Sub(seen) != b.rec.TTL {
		t.Errorf("%v after the last renewal it has %+v", b.now.Sub(seen), got)
	}
}

// However the pauses between renewals and reads are drawn, a standby sees each renewal at most RetryEvery late.
func TestStandbySeesRenewalsSoon(t *testing.T) {
	c := config(1)
	c.Jitter = 0.2
	b := newBench(t, c)
	b.rec = foreign(1, 1)
	b.step(Tick{})
	renewed := b.now
	for v := uint64(2); v < 100; v++ {
		renewed = renewed.Add(400 * time.Millisecond) // the shortest pause
		for b.h.Due().Before(renewed) {
			b.now = b.h.Due()
			b.step(Tick{})
		}
		b.rec = foreign(v, 1)
		b.now = b.h.Due()
		b.step(Tick{})
		if late := b.now.Sub(renewed); b.h.record.Version != v || late > c.RetryEvery {
			t.Fatalf("renewal %d is seen %v late: %+v", v, late, b.h.record)
		}
	}
}

// An acquisition that becomes known after its time is over is not used; the
// next one, in a new term, need not wait for our own record to expire.
func TestAcquisitionKnownTooLate(t *testing.T) {
	b := newBench(t, config(1))
	b.mute = true
	b.step(Tick{})
	b.step(Got{Request: 1}) // Swap 2 is done, its answer is lost
	b.take()
	b.deaf = true
	b.run(3 * time.Second)
	b.want()
	b.mute, b.deaf = false, false
	b.run(600 * time.Millisecond)
	got := b.take()
	if a, ok := find[Acquired](got); !ok || a.Term != 2 || a.Until.Sub(b.now) < time.Second {
		t.Errorf("got %+v, want term 2 at once", got)
	}
}

func TestCurrentHolder(t *testing.T) {
	b := newBench(t, config(1))
	if who, _ := b.h.Current(); !who.IsZero() {
		t.Errorf("knows %v before it read the record", who)
	}
	b.step(Tick{})
	if who, until := b.h.Current(); who != b.h.cfg.Self || until != b.now.Add(b.h.cfg.TTL-b.h.cfg.Margin) {
		t.Errorf("holds the lease, and says %v until %v", who, until)
	}
	s := newBench(t, config(2))
	s.rec = b.rec
	s.step(Tick{})
	if who, until := s.h.Current(); who != b.h.cfg.Self || until != s.now.Add(b.rec.TTL) {
		t.Errorf("a standby says %v until %v", who, until)
	}
	b.step(Release{})
	s.rec, s.now = b.rec, s.now.Add(s.h.cfg.RenewEvery)
	s.step(SetRank{Rank: -1})
	if who, _ := s.h.Current(); !who.IsZero() {
		t.Errorf("the lease is free, and a standby says %v", who)
	}
	if who, _ := b.h.Current(); !who.IsZero() {
		t.Errorf("it was released, and the former holder says %v", who)
	}
}

func TestWaitsForTTLObservedByItself(t *testing.T) {
	b := newBench(t, config(1))
	b.rec = foreign(7, 3)
	b.run(1990 * time.Millisecond)
	b.want(Observed{Holder: b.rec.Holder, Term: 3})
	b.rec = foreign(8, 3) // renewed in the last moment
	b.run(2 * time.Second)
	b.want()
	b.run(500 * time.Millisecond) // seen late by up to one look
	got, ok := find[Acquired](b.take())
	if !ok || got.Term != 4 || b.rec.Version < 9 {
		t.Errorf("got %+v of record %+v", got, b.rec)
	}
}

func TestRankDelays(t *testing.T) {
	for rank, after := range map[int]time.Duration{0: 0, 1: 300 * time.Millisecond, 3: 900 * time.Millisecond} {
		c := config(1)
		c.Rank = rank
		b := newBench(t, c)
		b.step(Tick{})
		b.take()
		b.run(after)
		if rank > 0 {
			b.want()
		}
		b.step(Tick{})
		if _, ok := b.h.Valid(b.now); !ok {
			t.Errorf("rank %d has not acquired after %v", rank, after)
		}
	}
	c := config(1)
	c.Rank = -1
	b := newBench(t, c)
	b.run(10 * time.Second)
	b.want(Observed{})
	b.step(SetRank{Rank: 0})
	if _, ok := find[Acquired](b.take()); !ok {
		t.Error("not acquired after becoming a candidate")
	}
	b.step(SetRank{Rank: -1})
	b.run(5 * time.Second)
	if _, ok := b.h.Valid(b.now); !ok {
		t.Error("lost for its place in line")
	}
	b.step(SetRank{Rank: math.MaxInt}) // the delay does not overflow
	b.step(Tick{})
}

func TestRaiseTerm(t *testing.T) {
	b := newBench(t, config(1))
	b.step(Tick{})
	b.take()
	b.step(RaiseTerm{Above: 41})
	b.want(Observed{Holder: b.h.cfg.Self, Term: 42}, Acquired{Term: 42, Until: b.now.Add(1800 * time.Millisecond), Cluster: b.h.cluster})
	b.step(RaiseTerm{Above: 41})
	b.step(RaiseTerm{Above: 7})
	b.want()
	// Before the acquisition it counts too.
	b = newBench(t, config(1))
	b.step(RaiseTerm{Above: 9})
	if got, _ := find[Acquired](b.take()); got.Term != 10 {
		t.Errorf("acquired term %d, want 10", got.Term)
	}
	// Nothing is above the last term.
	b.step(RaiseTerm{Above: math.MaxUint32})
	b.run(5 * time.Second)
	b.want(Lost{Term: 10})
}

// A raise whose reply is lost must not go on in the spent term.
func TestRaiseTermWithLostReply(t *testing.T) {
	b := newBench(t, config(1))
	b.step(Tick{})
	b.take()
	b.mute = true
	b.step(RaiseTerm{Above: 5})
	b.mute = false
	b.run(600 * time.Millisecond)
	if got, ok := find[Acquired](b.take()); !ok || got.Term != 6 || !got.Until.Equal(start.Add(1800*time.Millisecond)) {
		t.Errorf("got %+v, want term 6 counted from the start of the raise", got)
	}
}

func TestLostReplyOfRenewalIsFoundByNonce(t *testing.T) {
	b := newBench(t, config(1))
	b.step(Tick{})
	b.run(490 * time.Millisecond)
	b.take()
	b.mute = true
	b.run(30 * time.Millisecond) // the renewal is done, its answer is lost
	b.mute = false
	b.run(600 * time.Millisecond)
	got := b.take()
	if len(got) == 0 || got[0] != (Renewed{Term: 1, Until: start.Add(2300 * time.Millisecond)}) {
		t.Errorf("got %+v, want the renewal credited with its own start", got)
	}
}

func TestForeignRecordEndsTerm(t *testing.T) {
	b := newBench(t, config(1))
	b.step(Tick{})
	b.take()
	b.rec = foreign(5, 8)
	b.run(700 * time.Millisecond)
	b.want(Lost{Term: 1}, Observed{Holder: b.rec.Holder, Term: 8})
}

func TestTermStaysAboveALostRecord(t *testing.T) {
	b := newBench(t, config(1))
	b.rec = foreign(9, 30)
	b.run(time.Second)
	b.take()
	b.rec = Record{} // another process deleted it
	b.run(time.Second)
	if got, ok := find[Acquired](b.take()); ok {
		t.Errorf("acquired term %d while the holder of the lost record may go on", got.Term)
	}
	b.run(3 * time.Second)
	if got, _ := find[Acquired](b.take()); got.Term != 31 {
		t.Errorf("acquired term %d, want 31", got.Term)
	}
}

// TestCluster: the record keeps the identity that it was created with, under every
// holder, and a candidate that knows it recreates a lost record with the same identity. Two stores have
// two.
func TestCluster(t *testing.T) {
	a, other := newBench(t, config(1)), newBench(t, config(2))
	a.step(Tick{})
	other.step(Tick{})
	made := a.rec.Cluster
	if got, _ := find[Acquired](a.take()); made == 0 || got.Cluster != made || other.rec.Cluster == made {
		t.Fatalf("acquired as %v, the record has %v, the one in another store %v", got.Cluster, made, other.rec.Cluster)
	}
	a.run(time.Second)
	b := newBench(t, config(3))
	b.rec = a.rec
	b.run(3 * time.Second)
	if got, ok := find[Acquired](b.take()); !ok || got.Cluster != made || b.rec.Cluster != made {
		t.Errorf("the next holder acquires it as %v and writes %v, want %v", got.Cluster, b.rec.Cluster, made)
	}
	b.rec = Record{}
	b.run(5 * time.Second)
	if b.rec.Cluster != made {
		t.Errorf("a lost record is made again with %v, want %v", b.rec.Cluster, made)
	}
	b.step(Release{})
	if b.rec.Cluster != made || !b.rec.Holder.IsZero() {
		t.Errorf("a release leaves %+v", b.rec)
	}
	// A record of an earlier version gets one.
	b = newBench(t, config(4))
	b.rec = foreign(5, 8)
	b.run(3 * time.Second)
	if got, ok := find[Acquired](b.take()); !ok || got.Cluster == 0 || b.rec.Cluster != got.Cluster {
		t.Errorf("acquired as %v, the record has %v", got.Cluster, b.rec.Cluster)
	}
}

func TestRelease(t *testing.T) {
	b := newBench(t, config(1))
	b.step(Tick{})
	b.take()
	b.step(Release{})
	b.want(Lost{Term: 1}, Observed{Term: 1}, Released{})
	if !b.rec.Holder.IsZero() || b.rec.Term != 1 {
		t.Errorf("released record is %+v", b.rec)
	}
	b.step(Tick{})
	b.step(RaiseTerm{Above: 10})
	b.want()
	other := newBench(t, config(2))
	other.rec = b.rec
	other.step(Tick{})
	if got, _ := find[Acquired](other.take()); got.Term != 2 {
		t.Errorf("the next one acquired term %d at once, want 2", got.Term)
	}
}

func TestReleaseOfNothingAndInTrouble(t *testing.T) {
	b := newBench(t, config(1))
	b.rec = foreign(3, 3)
	b.run(100 * time.Millisecond)
	b.take()
	b.step(Release{})
	b.want(Released{})
	if b.rec != foreign(3, 3) {
		t.Errorf("the release of nothing wrote %+v", b.rec)
	}
	// The answer to the release is lost.
	b = newBench(t, config(1))
	b.step(Tick{})
	b.take()
	b.mute = true
	b.step(Release{})
	b.mute = false
	b.run(time.Second)
	b.want(Lost{Term: 1}, Observed{Term: 1}, Released{})
	// The store is gone permanently.
	b = newBench(t, config(1))
	b.step(Tick{})
	b.take()
	b.deaf = true
	b.step(Release{})
	b.run(2600 * time.Millisecond)
	b.want(Lost{Term: 1}, Released{})
}

// A store that answers every Swap with an error is not hammered.
func TestFailingSwapsArePaced(t *testing.T) {
	b := newBench(t, config(1))
	swaps := 0
	for range 1000 {
		ins := []Input{Tick{}}
		for len(ins) > 0 {
			outs := b.h.Step(b.now, ins[0], nil)
			ins = ins[1:]
			for _, o := range outs {
				switch o := o.(type) {
				case Get:
					ins = append(ins, Got{Request: o.Request})
				case Swap:
					swaps++
					ins = append(ins, Swapped{Request: o.Request, Outcome: Unknown})
				}
			}
		}
		if err := b.h.Check(); err != nil {
			t.Fatal(err)
		}
		b.now = b.now.Add(10 * time.Millisecond)
	}
	if swaps < 50 || swaps > 101 {
		t.Errorf("%d swaps in 10 s, want about one per 100 ms", swaps)
	}
}

func TestAnswersToGivenUpRequestsAreIgnored(t *testing.T) {
	b := newBench(t, config(1))
	b.step(Tick{})
	b.run(1100 * time.Millisecond)
	b.take()
	old := b.h.Clone()
	b.step(Got{Request: 1, Record: foreign(99, 99)})
	b.step(Swapped{Request: 2, Outcome: Done})
	b.step(Got{Request: 77, Failed: true})
	b.want()
	if !reflect.DeepEqual(old, b.h) {
		t.Error("a late answer changed the state")
	}
	b.deaf = true
	b.run(time.Second) // a renewal, given up; then a Get
	b.take()
	if !b.h.pending || b.h.swapping {
		t.Fatal("no Get is in progress")
	}
	b.step(Got{Request: 1, Record: foreign(99, 99)})
	b.want()
}

func TestCloneGoesItsOwnWay(t *testing.T) {
	b := newBench(t, config(1))
	b.deaf = true
	b.step(Tick{})
	b.step(Got{Request: 1})
	before := string(b.h.AppendState(b.now, nil))
	c := b.h.Clone()
	if string(c.AppendState(b.now, nil)) != before {
		t.Fatal("the copy differs")
	}
	c.Step(b.now, Swapped{Request: 2, Outcome: Done}, nil)
	if string(b.h.AppendState(b.now, nil)) != before {
		t.Error("the copy changed the original")
	}
	// Times are relative to now.
	shifted := newBench(t, config(1))
	shifted.now = start.Add(time.Hour)
	shifted.deaf = true
	shifted.step(Tick{})
	shifted.step(Got{Request: 1})
	if string(shifted.h.AppendState(shifted.now, nil)) != before {
		t.Error("the same state an hour later looks different")
	}
}

func TestConfigIsChecked(t *testing.T) {
	bad := map[string]func(*Config){
		"no uid":       func(c *Config) { c.Self.UID = 0 },
		"no address":   func(c *Config) { c.Self.Addr = "" },
		"ttl":          func(c *Config) { c.TTL = 0 },
		"renew":        func(c *Config) { c.RenewEvery = -1 },
		"too slow":     func(c *Config) { c.RenewEvery = 1500 * time.Millisecond },
		"jitter":       func(c *Config) { c.Jitter = 2 },
		"jitter NaN":   func(c *Config) { c.Jitter = math.NaN() },
		"margin":       func(c *Config) { c.Margin = time.Millisecond },
		"huge":         func(c *Config) { c.TTL = math.MaxInt64 },
		"no retry":     func(c *Config) { c.RetryEvery = 0 },
		"no operation": func(c *Config) { c.OpTimeout = 0 },
		"no delay":     func(c *Config) { c.RankDelay = 0 },
	}
	for name, f := range bad {
		c := config(1)
		f(&c)
		if _, err := NewHolder(c); !errors.Is(err, ErrConfig) {
			t.Errorf("%s gives %v", name, err)
		}
	}
	for name, of := range map[string]func(*Config){
		"ttl is 700ms, must be above 700ms":                               func(c *Config) { c.TTL = 700 * time.Millisecond },
		"ttl is 20.001s, must be at most 20s":                             func(c *Config) { c.TTL = 20001 * time.Millisecond },
		"renew is 1.3s, must be shorter than ttl (2s) by more than 700ms": func(c *Config) { c.RenewEvery = 1300 * time.Millisecond },
	} {
		c := config(1)
		of(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("got %v, want %s", err, name)
		}
	}
	for name, of := range map[string]func(*Config){
		"defaults":     func(*Config) {},
		"longest":      func(c *Config) { c.TTL = 20 * time.Second },
		"slow renewal": func(c *Config) { c.RenewEvery = 1299 * time.Millisecond },
		"no Self yet":  func(c *Config) { c.Self = sharding.NodeID{} },
	} {
		c := config(1)
		of(&c)
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
