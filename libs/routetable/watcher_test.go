package routetable

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

var start = time.Unix(1000, 0)

// watch drives one watcher through virtual time.
type watch struct {
	*Watcher
	t   *testing.T
	now time.Time
}

func newWatch(t *testing.T, coordinators, fallbacks []string) *watch {
	t.Helper()
	w := &watch{Watcher: NewWatcher(DefaultWatchConfig()), t: t, now: start}
	w.SetCandidates(coordinators, fallbacks)
	return w
}

// asks expects a poll to the address after d, and none before. To "" expects
// none at all.
func (w *watch) asks(d time.Duration, to string) {
	w.t.Helper()
	if d > 0 {
		if got, _, ask := w.Poll(w.now.Add(d - time.Millisecond)); ask {
			w.t.Fatalf("asked %s before %v", got, d)
		}
		w.now = w.now.Add(d)
	}
	if got, _, _ := w.Poll(w.now); got != to {
		w.t.Fatalf("asked %q, want %q", got, to)
	}
	if err := w.Check(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watch) active(want string, term sharding.Term) {
	w.t.Helper()
	if got, gotTerm := w.Active(); got != want || gotTerm != term {
		w.t.Fatalf("Active = %q in term %d, want %q in %d", got, gotTerm, want, term)
	}
}

func at(term sharding.Term, n uint64) sharding.TableDelta {
	return sharding.TableDelta{Version: version(term, n)}
}

func TestPollFollowsAnswer(t *testing.T) {
	w := newWatch(t, []string{"a", "b"}, nil)
	w.asks(0, "a")
	w.asks(0, "")
	if !w.Changed(w.now, "a", at(1, 4)) {
		t.Fatal("answer dropped")
	}
	w.active("a", 1)
	to, since, ask := w.Poll(w.now)
	if to != "a" || since != version(1, 4) || !ask {
		t.Fatalf("Poll = %q, %v, %v", to, since, ask)
	}
	if w.Changed(w.now, "a", at(1, 3)); w.version != version(1, 4) {
		t.Fatal("the version went back")
	}
}

func TestSilenceAsksTheNext(t *testing.T) {
	w := newWatch(t, []string{"a", "b"}, nil)
	w.asks(0, "a")
	w.Changed(w.now, "a", at(1, 1))
	w.asks(0, "a")
	w.asks(2*time.Second, "b")
	w.active("", 1)
	w.Changed(w.now, "a", at(1, 2)) // a late answer is still an answer
	w.active("a", 1)
	w.NotActive(w.now, "b", sharding.NodeID{}, 1)
	w.asks(100*time.Millisecond, "a")
}

func TestStandbyNamesTheActive(t *testing.T) {
	w := newWatch(t, []string{"a", "b"}, nil)
	w.asks(0, "a")
	w.NotActive(w.now, "a", node("c"), 3)
	w.asks(0, "c")
	w.NotActive(w.now, "c", node("a"), 3) // two that name each other are no reason to spin
	w.asks(100*time.Millisecond, "b")
	w.NotActive(w.now, "b", node("d"), 2) // perhaps: no table came from term 3
	w.asks(0, "d")
	w.NotActive(w.now, "d", node("a"), 4) // news, also from one who was named
	w.asks(0, "a")
	w.active("", 0)
	w.Changed(w.now, "a", at(4, 0))
	w.active("a", 4)
	w.asks(0, "a")
	w.Failed(w.now, "a")
	w.asks(100*time.Millisecond, "b")
	w.NotActive(w.now, "b", node("d"), 3) // of an older term
	w.asks(100*time.Millisecond, "a")
	w.Failed(w.now, "a")
	w.asks(100*time.Millisecond, "b")
	w.NotActive(w.now, "b", node("d"), 4)
	w.asks(0, "d")
}

// TestTermNobodyClaimed: a acquires term 4, says so, and is gone before it has
// claimed it. Then the record of the lease is lost, and b begins above the
// journal, which knows of term 2.
func TestTermNobodyClaimed(t *testing.T) {
	w := newWatch(t, []string{"a", "b"}, nil)
	w.asks(0, "a")
	w.Changed(w.now, "a", at(2, 1))
	w.asks(0, "a")
	w.NotActive(w.now, "a", node("a"), 4)
	w.active("", 2)
	w.asks(100*time.Millisecond, "b")
	if !w.Changed(w.now, "b", at(3, 1)) {
		t.Fatal("the active coordinator was dropped for an unclaimed term")
	}
	w.active("b", 3)
	w.NotActive(w.now, "a", node("a"), 3) // a late answer about the same term
	w.active("b", 3)
	w.asks(0, "b")
}

// TestStandbyCutOff: b cannot read the lease any more and keeps naming a, whose
// process is gone. That must not hide c, which comes after b.
func TestStandbyCutOff(t *testing.T) {
	w := newWatch(t, []string{"a", "b", "c"}, nil)
	w.asks(0, "a")
	w.Changed(w.now, "a", at(1, 1))
	w.asks(0, "a")
	w.Failed(w.now, "a")
	w.asks(100*time.Millisecond, "b")
	w.NotActive(w.now, "b", node("a"), 1)
	w.asks(0, "a")
	w.Failed(w.now, "a")
	w.asks(100*time.Millisecond, "c")
}

// TestSilentMachine: a coordinator's machine is gone, so that not even a refusal
// comes back, and the standbys still name it.
func TestSilentMachine(t *testing.T) {
	w := newWatch(t, []string{"a", "b", "c"}, nil)
	w.asks(0, "a")
	w.Changed(w.now, "a", at(1, 1))
	w.asks(0, "a")
	w.asks(2*time.Second, "b")
	for range 5 {
		w.NotActive(w.now, "b", node("a"), 1)
		w.asks(100*time.Millisecond, "c")
		w.NotActive(w.now, "c", node("a"), 1)
		w.asks(100*time.Millisecond, "b")
	}
	w.NotActive(w.now, "b", node("c"), 2) // news
	w.asks(0, "c")
	w.Changed(w.now, "c", at(2, 1))
	w.active("c", 2)
	// It is polled again in its turn when its time is over, or at once when it is
	// active in a later term.
	w.asks(0, "c")
	w.now = w.now.Add(900 * time.Millisecond)
	w.Failed(w.now, "c")
	w.asks(100*time.Millisecond, "a")
	w.Failed(w.now.Add(1990*time.Millisecond), "a")
	w.now = w.now.Add(1990 * time.Millisecond)
	w.asks(100*time.Millisecond, "b")
	w.NotActive(w.now, "b", node("a"), 3)
	w.asks(0, "a")
	w.Failed(w.now, "a") // a refusal costs nothing
	w.asks(100*time.Millisecond, "c")
	w.NotActive(w.now, "c", node("a"), 3)
	w.asks(0, "a")
}

// TestFallbackWaits: who has a table asks no region, which may hold the poll,
// while a new coordinator is about to appear.
func TestFallbackWaits(t *testing.T) {
	w := newWatch(t, []string{"a", "b"}, []string{"r"})
	w.asks(0, "a")
	w.Changed(w.now, "a", at(1, 1))
	gone := w.now
	w.asks(0, "a")
	w.Failed(w.now, "a")
	for to := "b"; w.now.Sub(gone) < 3900*time.Millisecond; {
		w.asks(100*time.Millisecond, to)
		w.NotActive(w.now, to, sharding.NodeID{}, 1)
		to = map[string]string{"a": "b", "b": "a"}[to]
	}
	w.asks(100*time.Millisecond, "r")
}

func TestAllSilent(t *testing.T) {
	w := newWatch(t, []string{"a", "b"}, []string{"r"})
	w.asks(0, "a")
	w.asks(2*time.Second, "b")
	w.asks(2*time.Second, "r")
	w.Failed(w.now, "r")
	w.asks(100*time.Millisecond, "a")
	w.asks(2*time.Second, "b")
}

func TestLowerTermIsDropped(t *testing.T) {
	w := newWatch(t, []string{"a", "b"}, nil)
	w.asks(0, "a")
	w.Changed(w.now, "a", at(5, 1))
	w.asks(0, "a")
	w.Failed(w.now, "a")
	w.active("", 5)
	w.asks(100*time.Millisecond, "b")
	if w.Changed(w.now, "b", at(4, 9)) {
		t.Fatal("a lower term was taken")
	}
	w.active("", 5)
	w.asks(100*time.Millisecond, "a")
}

func TestFallbackBetweenRounds(t *testing.T) {
	w := newWatch(t, []string{"a", "b"}, []string{"r1", "r2"})
	for _, spare := range []string{"r1", "r2", "r1"} {
		w.asks(0, "a")
		w.Failed(w.now, "a")
		w.asks(100*time.Millisecond, "b")
		w.Failed(w.now, "b")
		w.asks(100*time.Millisecond, spare)
		if !w.Changed(w.now, spare, at(7, 2)) {
			t.Fatal("answer of a fallback dropped")
		}
		w.active("", 7)
		w.now = w.now.Add(100 * time.Millisecond)
	}
	w.asks(0, "a")
	if w.Changed(w.now, "a", at(6, 1)) {
		t.Fatal("a coordinator below the term of the table was taken")
	}
}

// TestWhoIsAskedForACopy: only who is polled as a fallback may answer with a copy of the
// table, even if discovery lists it among the coordinators, too.
func TestWhoIsAskedForACopy(t *testing.T) {
	w := newWatch(t, []string{"a", "both"}, []string{"r", "both"})
	asks := func(d time.Duration, to string, fallback bool) {
		t.Helper()
		if w.asks(d, to); w.PollsCopy() != fallback {
			t.Errorf("%s is polled for a copy: %v", to, !fallback)
		}
	}
	pause := time.Duration(0)
	for _, fallback := range []string{"r", "both"} {
		for i, to := range []string{"a", "both", fallback} {
			asks(pause, to, i == 2)
			w.Failed(w.now, to)
			pause = 100 * time.Millisecond
		}
	}
	asks(pause, "a", false)
	w.NotActive(w.now, "a", node("r"), 9)
	asks(0, "r", false) // a standby reports itself as active
}

// TestFallbackWithOlderTerm: the term of a dead coordinator whose table is lost
// must not keep a gateway from starting.
func TestFallbackWithOlderTerm(t *testing.T) {
	w := newWatch(t, []string{"a"}, []string{"r"})
	w.asks(0, "a")
	w.NotActive(w.now, "a", node("b"), 9)
	w.asks(0, "b")
	w.Failed(w.now, "b")
	w.asks(100*time.Millisecond, "r")
	if !w.Changed(w.now, "r", at(8, 1)) {
		t.Fatal("answer of a fallback dropped")
	}
	w.active("", 8)
}

func TestNoCoordinatorsAtAll(t *testing.T) {
	w := newWatch(t, nil, nil)
	w.asks(0, "")
	w.SetCandidates([]string{"", ""}, []string{"r", "r"})
	w.asks(0, "r")
	w.Changed(w.now, "r", at(1, 1))
	w.asks(100*time.Millisecond, "r")
	w.SetCandidates([]string{"a"}, []string{"r"})
	w.Failed(w.now, "r")
	w.asks(100*time.Millisecond, "a")
}

// TestRandomWatch: whatever arrives, one poll is outstanding at most, terms
// never go back, equal states act equally, and once the answers are sane the
// active coordinator is found.
func TestRandomWatch(t *testing.T) {
	addrs := []string{"a", "b", "c", "r1", "r2"}
	for seed := uint64(0); seed < 300; seed++ {
		rng := rand.New(rand.NewPCG(seed, 2))
		w := newWatch(t, addrs[:1+rng.IntN(3)], addrs[3:])
		for range 300 {
			_, before := w.Active()
			from, term := addrs[rng.IntN(len(addrs))], sharding.Term(rng.IntN(6))
			switch rng.IntN(6) {
			case 0:
				w.Changed(w.now, from, at(term, uint64(rng.IntN(9))))
			case 1:
				w.NotActive(w.now, from, sharding.NodeID{Addr: append(addrs, "")[rng.IntN(6)]}, term)
			case 2:
				w.Failed(w.now, from)
			default:
				w.now = w.now.Add(time.Duration(rng.IntN(700)) * time.Millisecond)
			}
			if _, after := w.Active(); after < before {
				t.Fatalf("seed %d: term went from %d to %d", seed, before, after)
			}
			c := w.Clone()
			a1, v1, ok1 := c.Poll(w.now)
			a2, v2, ok2 := w.Poll(w.now)
			if a1 != a2 || v1 != v2 || ok1 != ok2 || !bytes.Equal(c.AppendState(nil, w.now), w.AppendState(nil, w.now)) {
				t.Fatalf("seed %d: a clone acts differently", seed)
			}
			if err := w.Check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if err := settles(w, sharding.Term(rng.IntN(10))); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// settles answers sanely: only "a" is active, in term 7; "c" still believes in
// "b" and its term, whatever it was.
func settles(w *watch, stale sharding.Term) error {
	w.SetCandidates([]string{"b", "c", "a"}, []string{"r1"})
	for range 1000 {
		switch to := w.outstanding.to; to {
		case "a":
			w.Changed(w.now, to, at(7, 1))
		case "b":
			w.NotActive(w.now, to, sharding.NodeID{}, 7)
		case "c":
			w.NotActive(w.now, to, node("b"), stale)
		case "":
		default:
			w.Failed(w.now, to)
		}
		if addr, _ := w.Active(); addr == "a" && w.term == 7 {
			return nil
		}
		w.now = w.now.Add(10 * time.Millisecond)
		w.Poll(w.now)
	}
	return fmt.Errorf("the active coordinator was not found")
}

func TestWatchConfigValidate(t *testing.T) {
	if err := DefaultWatchConfig().Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []WatchConfig{{}, {Timeout: time.Second}, {Timeout: 1, Retry: 2}} {
		if c.Validate() == nil {
			t.Errorf("%+v passed", c)
		}
	}
}
