package heavyhitters

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

func all(sharding.Entity) bool { return true }

func entity(i int) *sharding.Entity {
	return &sharding.Entity{Type: "T", ID: sharding.EntityID(fmt.Sprintf("e%d", i))}
}

// check verifies the heap, the index and the bounds of the memory.
func (s *Sketch) check(t *testing.T) {
	t.Helper()
	bytes := 0
	for i := range s.entries {
		e := &s.entries[i]
		bytes += sizeOf(&e.entity)
		if s.heap[e.place] != int32(i) || s.index[e.entity] != int32(i) {
			t.Fatalf("entry %d has the place %d, which has %d, and the index %d", i, e.place, s.heap[e.place], s.index[e.entity])
		}
		if used := e.used.Weight(); used > e.bound*(1+1e-9) {
			t.Fatalf("%v has used %v, and its bound is %v", e.entity, used, e.bound)
		}
	}
	for i := 1; i < len(s.heap); i++ {
		if s.bound(i) < s.bound((i-1)/2) {
			t.Fatalf("place %d of the heap is below its parent", i)
		}
	}
	if len(s.index) != len(s.entries) || len(s.heap) != len(s.entries) || bytes != s.bytes || bytes > s.cfg.Bytes || len(s.entries) > s.cfg.Entries {
		t.Fatalf("%d entries, %d in the index, %d in the heap, %d bytes counted, %d there", len(s.entries), len(s.index), len(s.heap), s.bytes, bytes)
	}
}

// TestTop: of very many entities, those that take most are found, and with the right rates.
func TestTop(t *testing.T) {
	const seed = 7
	for _, perSecond := range []int{1000, 50_000} { // all are counted, and a part is
		cfg := DefaultConfig()
		cfg.Entries = 128
		s, r, now := New(cfg, seed), rand.New(rand.NewPCG(seed, 1)), time.Unix(1e6, 0)
		for range 60 * perSecond {
			now = now.Add(time.Second / time.Duration(perSecond))
			e, handler := entity(100+r.IntN(100_000)), 10*time.Microsecond
			switch n := r.IntN(100); {
			case n < 20:
				e = entity(1) // a fifth of the commands
			case n < 25:
				e = entity(2)
			case n == 99 && r.IntN(100) == 0:
				e, handler = entity(3), 50*time.Millisecond // a ten-thousandth, but they take long
			}
			s.Add(now, e, handler)
		}
		s.check(t)
		top := s.Top(now, 3, all)
		want := map[sharding.EntityID]Use{
			"e1": {0.2 * float64(perSecond), 2e-6 * float64(perSecond)}, "e2": {0.05 * float64(perSecond), 5e-7 * float64(perSecond)},
			"e3": {1e-4 * float64(perSecond), 5e-6 * float64(perSecond)},
		}
		if len(top) != 3 {
			t.Fatalf("%d per second: %v", perSecond, top)
		}
		for _, e := range top {
			w := want[e.Entity.ID]
			tolerance := 0.2
			if e.Entity.ID == "e3" {
				tolerance = 4 / math.Sqrt(w.Commands*20) // so many were counted
			}
			if math.Abs(e.Commands/w.Commands-1) > tolerance || math.Abs(e.Handlers/w.Handlers-1) > tolerance {
				t.Errorf("seed %d, %d per second: %s takes %v, want %v", seed, perSecond, e.Entity.ID, e.Use, w)
			}
		}
		if only := s.Top(now, 9, func(e sharding.Entity) bool { return e.ID == "e2" }); len(only) != 1 {
			t.Errorf("only e2 is wanted: %v", only)
		}
	}
}

// TestRatesBegin: the rates are right from the beginning, and fall when nothing comes any more.
func TestRatesBegin(t *testing.T) {
	s, now := New(DefaultConfig(), 1), time.Unix(1e6, 0)
	if s.Top(now, 9, all) != nil {
		t.Error("something is hot before anything is counted")
	}
	for range 100 { // ten per second for ten seconds
		s.Add(now, entity(1), time.Millisecond)
		now = now.Add(100 * time.Millisecond)
	}
	near := func(want float64) {
		t.Helper()
		if top := s.Top(now, 1, all); len(top) != 1 || math.Abs(top[0].Commands/want-1) > 0.05 || math.Abs(top[0].Handlers/want*1000-1) > 0.05 {
			t.Errorf("%v, want about %v per second", top, want)
		}
	}
	near(10)
	now = now.Add(15 * time.Second)
	near(10 * (0.5 - math.Exp2(-25./15)) / (1 - math.Exp2(-25./15)))
	now = now.Add(time.Hour)
	if top := s.Top(now, 1, all); len(top) != 0 {
		t.Errorf("an hour later, hot is %v", top)
	}
	now = now.Add(10000 * time.Hour) // sums are scaled anew
	s.Add(now, entity(2), time.Millisecond)
	s.check(t)
	if top := s.Top(now, 9, all); len(top) != 1 || top[0].Entity.ID != "e2" {
		t.Errorf("much later, hot is %v", top)
	}
}

// TestBounds: the memory is bounded whatever comes, and a copy continues independently.
func TestBounds(t *testing.T) {
	const seed = 3
	cfg := DefaultConfig()
	cfg.Entries, cfg.Bytes = 50, 40*entryBytes
	s, r, now := New(cfg, seed), rand.New(rand.NewPCG(seed, 2)), time.Unix(1e6, 0)
	for i := range 20_000 {
		e := *entity(r.IntN(1000))
		e.ID += sharding.EntityID(make([]byte, r.IntN(300)))
		s.Add(now, &e, time.Duration(r.IntN(5))*time.Millisecond)
		if now = now.Add(time.Duration(r.IntN(10)) * time.Millisecond); i%100 == 0 {
			s.check(t)
		}
	}
	c := s.Clone()
	entries := len(s.entries)
	for i := range 100 {
		c.Add(now, entity(5000+i), time.Second)
	}
	c.check(t)
	s.check(t)
	if len(s.entries) != entries {
		t.Error("a copy changes its original")
	}
	s = New(Config{Samples: 1, Long: 1, HalfLife: 1}, 1)
	if s.Add(now, entity(1), 1); s.Top(now, 1, all) != nil {
		t.Error("it counts although it has no entries")
	}
	cfg.Bytes = 10
	s = New(cfg, 1)
	if s.Add(now, entity(1), 1); len(s.entries) > 0 {
		t.Error("an entity is in the sketch that has no room for it")
	}
}

func TestConfig(t *testing.T) {
	cfg := DefaultConfig()
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*Config){
		func(c *Config) { c.Entries = -1 }, func(c *Config) { c.Samples = 0 }, func(c *Config) { c.Long = 0 }, func(c *Config) { c.HalfLife = 0 }, func(c *Config) { c.Bytes = -1 },
	} {
		cfg := DefaultConfig()
		if change(&cfg); cfg.Validate() == nil {
			t.Errorf("%+v is valid", cfg)
		}
	}
}

// BenchmarkAdd: what a turn pays. At 100,000 turns per second, one of 50 is counted; at 1,000 all are.
func BenchmarkAdd(b *testing.B) {
	entities := make([]*sharding.Entity, 100_000)
	for i := range entities {
		entities[i] = entity(i)
	}
	for _, perSecond := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("per-second=%d", perSecond), func(b *testing.B) {
			s, now := New(DefaultConfig(), 1), time.Unix(1e6, 0)
			for i := range b.N {
				now = now.Add(time.Second / time.Duration(perSecond))
				s.Add(now, entities[i*7919%len(entities)], 5*time.Microsecond)
			}
		})
	}
}
