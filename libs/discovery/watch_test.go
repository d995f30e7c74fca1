package discovery

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/test/archtest"
)

// fake is a backend that a test changes.
type fake struct {
	mu    sync.Mutex
	peers []Peer
	err   error
	delay time.Duration
	calls int
	under int // lookups in progress
	most  int
}

func (f *fake) Peers(ctx context.Context) ([]Peer, error) {
	f.mu.Lock()
	f.calls++
	f.under++
	f.most = max(f.most, f.under)
	peers, err, delay := f.peers, f.err, f.delay
	f.mu.Unlock()
	defer f.set(func() { f.under-- })
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(delay):
	}
	return peers, err
}

func (f *fake) Close() error { return nil }

func (f *fake) set(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func watch(t *testing.T, b Backend, log *slog.Logger) *Watch {
	t.Helper()
	w, err := NewWatch(b, DefaultConfig(), log)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func peers(texts ...string) []Peer {
	var ps []Peer
	for _, s := range texts {
		p, err := ParsePeer(s)
		if err != nil {
			panic(err)
		}
		ps = append(ps, p)
	}
	return ps
}

func TestWatchTellsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{peers: peers("b:2", "a:10", "a:9", "b:2", "x@a:9")}
		w := watch(t, f, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var told []Answer
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.Run(ctx, func(a Answer) { told = append(told, a) })
		}()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(told) != 1 || !slices.Equal(told[0].Peers, peers("a:9", "x@a:9", "a:10", "b:2")) {
			t.Fatalf("told %v", told)
		}
		if f.calls < 9 || f.calls > 11 {
			t.Errorf("%d lookups in 10 s", f.calls)
		}
		f.set(func() { f.peers = peers("b:2", "x@a:9", "a:10", "a:9") }) // the same in another order
		time.Sleep(3 * time.Second)
		f.set(func() { f.peers = nil })
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if len(told) != 2 || !told[1].Known || len(told[1].Peers) != 0 {
			t.Fatalf("told %v", told)
		}
		cancel()
		<-done
	})
}

func TestWatchKeepsLastAnswerWithItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var buf bytes.Buffer
		f := &fake{err: errors.New("no such luck")}
		w := watch(t, f, slog.New(slog.NewTextHandler(&buf, nil)))
		if a := w.Peers(); a.Known || a.Err != nil || a.Age != 0 {
			t.Errorf("before any lookup: %+v", a)
		}
		if a := w.Lookup(t.Context()); a.Known || !errors.Is(a.Err, ErrLookup) {
			t.Errorf("after a failure: %+v", a)
		}
		f.set(func() { f.peers, f.err, f.delay = peers("a:1"), nil, time.Second })
		if a := w.Lookup(t.Context()); !a.Known || a.Err != nil || a.Age != time.Second {
			t.Errorf("the answer is as old as the question: %+v", a)
		}
		f.set(func() { f.err, f.delay = errors.New("again"), 0 })
		for range 3 {
			time.Sleep(time.Minute)
			w.Lookup(t.Context())
		}
		a := w.Peers()
		if !a.Known || !slices.Equal(a.Peers, peers("a:1")) || a.Age != time.Second+3*time.Minute || !errors.Is(a.Err, ErrLookup) {
			t.Errorf("three minutes later: %+v", a)
		}
		a.Peers[0] = Peer{}
		if !slices.Equal(w.Peers().Peers, peers("a:1")) {
			t.Error("an answer shares its peers with the cache")
		}
		if n := strings.Count(buf.String(), "\n"); n != 3 {
			t.Errorf("want three lines in the log, got\n%s", buf.String())
		}
	})
}

func TestWatchBacksOffAndTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{err: errors.New("no such luck")}
		w := watch(t, f, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.Run(ctx, nil) }()
		time.Sleep(10 * time.Minute)
		f.set(func() {
			if f.calls < 33 || f.calls > 45 {
				t.Errorf("%d lookups in 10 min of failures, want one per 15 to 18 s", f.calls)
			}
			f.err, f.delay = nil, time.Hour
		})
		time.Sleep(25 * time.Second) // the next lookup hangs
		if a := w.Peers(); !errors.Is(a.Err, context.DeadlineExceeded) {
			t.Errorf("a lookup that hangs gives %v", a.Err)
		}
		f.set(func() { f.delay = 0 })
		time.Sleep(25 * time.Second)
		if a := w.Peers(); a.Err != nil || !a.Known || a.Age > 1200*time.Millisecond {
			t.Errorf("recovered: %+v", a)
		}
		cancel()
		<-done
	})
}

// A caller that gives up says nothing about the backend.
func TestCancelledLookupIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{peers: peers("a:1")}
		w := watch(t, f, nil)
		w.Lookup(t.Context())
		f.set(func() { f.delay = 2 * time.Second })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go w.Lookup(t.Context()) // takes the turn
		synctest.Wait()
		if a := w.Lookup(ctx); a.Err != nil || !a.Known {
			t.Errorf("waiting for its turn: %+v", a)
		}
		time.Sleep(5 * time.Second)
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if a := w.Lookup(ctx); a.Err != nil || !a.Known {
			t.Errorf("waiting for the backend: %+v", a)
		}
		if f.most != 1 {
			t.Errorf("%d lookups at once", f.most)
		}
	})
}

func TestWatchRefusesNonsense(t *testing.T) {
	for _, bad := range []Peer{{}, {Addr: "a"}, {Addr: "a:0"}, {Addr: "a:1", Role: "b/c"}, {Addr: "x@a:1"}, {Addr: "a b:1"}} {
		w := watch(t, &fake{peers: append(peers("ok:1"), bad)}, nil)
		if a := w.Lookup(t.Context()); !errors.Is(a.Err, ErrLookup) || a.Known {
			t.Errorf("%+v gives %+v", bad, a)
		}
	}
	c := DefaultConfig()
	c.MaxPeers = 2
	f := &fake{peers: peers("a:1", "a:1", "b:1")}
	w, err := NewWatch(f, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a := w.Lookup(t.Context()); a.Err != nil {
		t.Errorf("two peers, one twice: %v", a.Err)
	}
	f.peers = peers("a:1", "b:1", "c:1")
	if a := w.Lookup(t.Context()); !errors.Is(a.Err, ErrLookup) || len(a.Peers) != 2 {
		t.Errorf("three peers: %+v", a)
	}
}

func TestParsePeer(t *testing.T) {
	for _, s := range []string{"a:1", "a.b-c_d.example:65535", "10.0.0.1:80", "[::1]:80", "[fe80::1%eth0]:80", "r@a:1", "müller:1"} {
		if p, err := ParsePeer(s); err != nil || p.String() != s {
			t.Errorf("%q gives %+v, %v", s, p, err)
		}
	}
	for _, s := range []string{"", ":", "a", ":1", "a:", "a:0", "a:65536", "a:-1", "a:http", "::1:80", "a:1:2", "[::1]", "@a:1", "r@", "r@r@a:1",
		"a\n:1", "a\x00:1", "http://a:1", strings.Repeat("a", 254) + ":1"} {
		if p, err := ParsePeer(s); err == nil {
			t.Errorf("%q gives %+v", s, p)
		}
	}
}

func FuzzParsePeer(f *testing.F) {
	f.Add("r@a:1")
	f.Add("[::1%x]:2")
	f.Fuzz(func(t *testing.T, s string) {
		archtest.Memory(t, archtest.MemoryFactor, len(s), func() { _, _ = ParsePeer(s) })
		p, err := ParsePeer(s)
		if err != nil {
			return
		}
		if q, err := ParsePeer(p.String()); err != nil || p != q || p.String() != s {
			t.Errorf("%q became %+v, then %+v, %v", s, p, q, err)
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	for name, f := range map[string]func(*Config){
		"interval": func(c *Config) { c.Interval = 0 },
		"timeout":  func(c *Config) { c.Timeout = math.MaxInt64 },
		"backoff":  func(c *Config) { c.MaxBackoff = time.Millisecond },
		"jitter":   func(c *Config) { c.Jitter = math.NaN() },
		"peers":    func(c *Config) { c.MaxPeers = 0 },
		"enough":   func(c *Config) { c.Enough = 0 },
		"gap":      func(c *Config) { c.Gap = 0 },
		"wait":     func(c *Config) { c.MaxWait = -1 },
	} {
		c := DefaultConfig()
		f(&c)
		if _, err := NewWatch(&fake{}, c, nil); !errors.Is(err, ErrConfig) {
			t.Errorf("%s gives %v", name, err)
		}
	}
}

func TestBackoffVectors(t *testing.T) {
	checked := 0
	for _, vector := range archtest.Vectors(t, "bootstrap.json") {
		if vector.Kind != "discovery_backoff" {
			continue // see testdata/deviations.md
		}
		var v struct {
			Failures int        `json:"consecutive_failures"`
			Interval int64      `json:"interval_ms"`
			Max      int64      `json:"exponential_backoff_max_ms"`
			Random   float64    `json:"random_factor"`
			Range    [2]float64 `json:"delay_ms_range"`
		}
		vector.Decode(t, &v)
		checked++
		c := Config{Interval: time.Duration(v.Interval) * time.Millisecond, MaxBackoff: time.Duration(v.Max) * time.Millisecond, Jitter: v.Random}
		low, high := c.delay(v.Failures, 0), c.delay(v.Failures, 1)
		if low.Seconds()*1000 != v.Range[0] || high.Seconds()*1000 != v.Range[1] {
			t.Errorf("%s: %v to %v, want %v ms", vector.Name, low, high, v.Range)
		}
	}
	if checked == 0 {
		t.Error("no vectors")
	}
	if d := DefaultConfig().delay(math.MaxInt, 1); d != 18*time.Second {
		t.Errorf("after very many failures: %v", d)
	}
}

// heldAnswer is a Backend whose answer lives long.
type heldAnswer struct {
	peers   []Peer
	lookups int
}

func (h *heldAnswer) Peers(context.Context) ([]Peer, error) { return h.peers, nil }
func (h *heldAnswer) Close() error                          { return nil }
func (h *heldAnswer) Follow(context.Context) ([]Peer, Changed, error) {
	h.lookups++
	return h.peers, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, nil
}

// TestTooFewPeersAreNotHeld: a process that knows fewer peers than it needs looks up at every interval, however long
// the answer may live.
func TestTooFewPeersAreNotHeld(t *testing.T) {
	peer := func(port string) Peer { return Peer{Addr: "10.0.0.1:" + port} }
	for _, test := range []struct {
		peers  []Peer
		enough int
		held   bool
	}{
		{nil, 1, false},
		{[]Peer{peer("1")}, 1, true},
		{[]Peer{peer("1")}, 2, false}, // the other coordinator has just been started
		{[]Peer{peer("1"), peer("2")}, 2, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			d, c := &heldAnswer{peers: test.peers}, DefaultConfig()
			c.Enough = test.enough
			w, err := NewWatch(d, c, nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			w.Run(ctx, nil)
			if held := d.lookups < 40; held != test.held {
				t.Errorf("%v, %d are enough: %d lookups in a minute", test.peers, test.enough, d.lookups)
			}
		})
	}
}
