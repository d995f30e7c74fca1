package passivation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// strategies are one of each kind.
func strategies(limit int) []Strategy {
	plain := Composite(limit)
	plain.Admission.Optimizer, plain.Admission.Filter = nil, nil
	noWindow := Composite(limit)
	noWindow.Admission.Window, noWindow.Admission.Optimizer = Replacement{}, nil
	odd := Composite(limit)
	odd.Main, odd.Admission.Window = LFUDynamicAging(0).Main, MRU(0).Main
	odd.Admission.Filter.Depth, odd.Admission.Filter.CounterBits = 7, 16
	other := Composite(limit)
	other.Main, other.Admission.Window = MRU(0).Main, LFU(0).Main
	other.Admission.Proportion = 0.5
	other.Admission.Optimizer.InitialStep, other.Admission.Optimizer.AdjustMultiplier = 0.4, 1
	return []Strategy{
		None(), LRU(limit), SegmentedLRU(limit, 0.2, 0.8), SegmentedLRU(limit, 0.25, 0.25, 0.25, 0.25), MRU(limit), LFU(limit),
		LFUDynamicAging(limit), Composite(limit), plain, noWindow, odd, other,
	}
}

// TestRandom does random things to a policy of each kind: it stays in agreement with
// itself, evicts only what is active, and stays under the limit.
func TestRandom(t *testing.T) {
	for _, s := range strategies(40) {
		for _, idle := range []time.Duration{0, 50 * time.Millisecond} {
			s := s.OrIdle(idle)
			t.Run(s.String(), func(t *testing.T) { playRandom(t, s) })
		}
	}
}

func playRandom(t *testing.T, s Strategy) {
	rnd := rand.New(rand.NewPCG(7, 8))
	const shards = 6
	p := New(s, shards, &EntityTable{})
	active, open, limit, most := map[Entity]int{}, map[int]bool{}, s.Limit, 0
	now := start
	gone := func(list []Entity) {
		for _, e := range list {
			if _, ok := active[e]; !ok {
				t.Fatalf("%d is passivated, but is not active", e)
			}
			delete(active, e)
		}
	}
	for step := range 20_000 {
		now = now.Add(time.Duration(rnd.IntN(1000)) * time.Microsecond)
		e := Entity(1 + min(rnd.IntN(300), rnd.IntN(300)))
		shard := int(e) % shards
		switch rnd.IntN(200) {
		case 0:
			for _, e := range slices.Collect(func(yield func(Entity) bool) {
				for e, in := range active { // order-free: a set
					if in == shard && !yield(e) {
						return
					}
				}
			}) {
				p.Removed(e)
				delete(active, e)
			}
			p.Close(shard)
			delete(open, shard)
		case 1:
			limit = 1 + rnd.IntN(60)
			gone(p.SetLimit(limit, nil))
		case 10:
			most = max(0, rnd.IntN(60)-20)
			gone(p.Shrink(most, nil))
		case 11:
			p.entities = p.entities.Clone()
			p = p.Clone(p.entities)
		case 2, 3, 4, 5:
			p.Removed(e)
			delete(active, e)
		case 6, 7, 8, 9:
			next := p.NextExpiry()
			list := p.TakeExpired(now, nil)
			if due := !next.IsZero() && !next.After(now); due != (len(list) > 0) {
				t.Fatalf("NextExpiry was %s, now is %s, expired are %v", next, now, list)
			}
			gone(list)
		default:
			if !open[shard] {
				gone(p.Open(shard, nil))
				open[shard] = true
			}
			active[e] = shard
			gone(p.Touched(shard, e, uint32(e)*2654435761, nil))
			if rnd.IntN(10) > 0 {
				gone(p.MarkIdle(e, now, nil))
			}
		}
		if most > 0 && p.tracked > most && p.idle.front != 0 {
			t.Fatalf("step %d: %d entities are active and some are idle, at most %d may be", step, p.tracked, most)
		}
		if s.Limit > 0 && len(active) > max(limit, len(open)) {
			t.Fatalf("step %d: %d entities are active, the limit is %d", step, len(active), limit)
		}
		if step%50 == 0 {
			p.check(t)
		}
	}
	known := 0
	for e := range p.entities.tracked {
		if p.entities.tracked[e].shard != 0 {
			known++
		}
	}
	if known != len(active) && s.String() != "none" {
		t.Fatalf("%d entities are active, %d are tracked", len(active), known)
	}
}

// TestSmallLimit: if there are more open shards than the limit, each may have one
// entity.
func TestSmallLimit(t *testing.T) {
	for _, s := range strategies(3)[1:] {
		p := New(s, 10, &EntityTable{})
		var gone []Entity
		for i := range 10 {
			gone = p.Open(i, gone)
			gone = p.Touched(i, Entity(i+1), 0, gone)
		}
		if len(gone) != 0 {
			t.Errorf("%s: %v are passivated by the first touch of a shard", s, gone)
		}
		if gone = p.Touched(0, 11, 0, nil); len(gone) != 1 {
			t.Errorf("%s: %v are passivated for the second entity of a shard", s, gone)
		}
	}
}

// TestScan: entities that are touched once do not drive out the working set of a
// composite, as they do with LRU.
func TestScan(t *testing.T) {
	hits := func(s Strategy) (n int) {
		r := newRegion(s, 1)
		for i := range 50_000 {
			if id := fmt.Sprint("hot", i%160); i%2 == 0 {
				if _, ok := r.active[id]; ok {
					n++
				}
				r.touch(0, id)
			} else {
				r.touch(0, fmt.Sprint("once", i))
			}
		}
		return n
	}
	if lru, composite := hits(LRU(100)), hits(Composite(100)); lru > 1000 || composite < 20_000 {
		t.Errorf("of 25,000 touches of the working set LRU has %d active, the composite %d", lru, composite)
	}
}

// TestCloseGivesBack: the parts of the other shards grow when a shard closes.
func TestCloseGivesBack(t *testing.T) {
	p := New(LRU(10), 2, &EntityTable{})
	p.Open(0, nil)
	p.Open(1, nil)
	fill := func(from Entity) (gone []Entity) {
		for e := from; e < from+10; e++ {
			gone = p.Touched(0, e, 0, gone)
		}
		return gone
	}
	if gone := fill(1); len(gone) != 5 {
		t.Fatalf("%v are passivated at half of the limit", gone)
	}
	p.Close(1)
	if gone := fill(6); len(gone) != 0 {
		t.Fatalf("%v are passivated at the whole limit", gone)
	}
	p.Open(1, nil)
	p.Open(1, nil) // again: nothing changes
	if p.openShards != 2 || p.perShard != 5 {
		t.Fatalf("%d shards are open, with %d each", p.openShards, p.perShard)
	}
}

// TestAccessesSaturate: counting stops at the highest number.
func TestAccessesSaturate(t *testing.T) {
	r := newRegion(LFU(2), 1)
	r.touch(0, "a")
	r.policy.entities.tracked[1].accesses = 1<<32 - 2
	for range 2 {
		r.touch(0, "a")
	}
	r.touch(0, "b")
	if gone := r.touch(0, "c"); !slices.Equal(gone, []string{"b"}) {
		t.Fatalf("passivated %v", gone)
	}
	r.policy.check(t)
}

// TestBusyIsNotIdle: an entity is not idle before its command is done, however long that
// takes; then its idle time begins.
func TestBusyIsNotIdle(t *testing.T) {
	p := New(LRU(9).OrIdle(time.Minute), 1, &EntityTable{})
	p.Open(0, nil)
	p.Touched(0, 1, 0, nil)
	p.MarkIdle(1, start, nil)
	p.Touched(0, 1, 0, nil)
	later := start.Add(time.Hour)
	if next, idle := p.NextExpiry(), p.TakeExpired(later, nil); !next.IsZero() || idle != nil {
		t.Fatalf("a busy entity is idle at %s: %v", next, idle)
	}
	p.MarkIdle(1, later, nil)
	p.MarkIdle(2, later, nil) // not tracked
	if next := p.NextExpiry(); !next.Equal(later.Add(time.Minute)) || p.TakeExpired(next.Add(-1), nil) != nil {
		t.Fatalf("idle at %s", next)
	}
	if idle := p.TakeExpired(later.Add(time.Minute), nil); !slices.Equal(idle, []Entity{1}) || p.Tracks(1) {
		t.Fatalf("idle are %v", idle)
	}
}

// TestSameLimit: setting the limit that there is does not make a composite forget.
func TestSameLimit(t *testing.T) {
	p := New(Composite(100), 1, &EntityTable{})
	p.Open(0, nil)
	p.Touched(0, 1, 5, nil)
	before := p.shards[0].(*composite).sketch
	if p.SetLimit(100, nil); p.shards[0].(*composite).sketch != before || before.estimate(5) != 1 {
		t.Error("the same limit: the sketch began anew")
	}
	if p.SetLimit(99, nil); p.shards[0].(*composite).sketch != nil {
		t.Error("another limit: the sketch stayed")
	}
}

func TestNoAllocations(t *testing.T) {
	for _, s := range strategies(100) {
		s := s.OrIdle(time.Minute)
		p := New(s, 1, &EntityTable{})
		p.Open(0, nil)
		var out []Entity
		i := 0
		touch := func() {
			i++
			e := Entity(1 + i*i%300)
			out = p.Touched(0, e, uint32(i), out[:0])
			p.MarkIdle(e, start.Add(time.Duration(i)), nil)
		}
		for range 10_000 {
			touch()
		}
		if n := testing.AllocsPerRun(1000, touch); n > 0 {
			t.Errorf("%s: %v allocations per touch", s, n)
		}
	}
}

func TestText(t *testing.T) {
	for _, s := range append(strategies(5), Idle(time.Minute), LRU(7).OrIdle(time.Hour)) {
		text := s.String()
		parsed, err := Parse(text)
		if err != nil || parsed.String() != text || len(parsed.Main.Proportions) != len(s.Main.Proportions) {
			t.Errorf("%s is read as %s: %v", text, parsed, err)
		}
	}
	for text, want := range map[string]string{ // order-free: errors
		"none":                           "none",
		" idle=120s ":                    "idle=2m0s",
		"lru limit=10":                   "lru limit=10",
		"limit=10 lru":                   `"lru" is not a setting`,
		"slru limit=10":                  "slru limit=10",
		"slru limit=10 segments=0.5/0.5": "slru limit=10 segments=0.5/0.5",
		"slru limit=10 segments=1":       "lru limit=10",
		"lfu aging=on limit=10 idle=1m":  "lfu idle=1m0s limit=10 aging=on",
		"composite":                      "composite",
		"composite limit=9 climb=off filter.depth=2": "composite limit=9 climb=off filter.depth=2",
		"composite main=lfu window=none climb=off":   "composite main=lfu window=none climb=off",
		"":                                         "is empty",
		"lruu limit=10":                            `no strategy "lruu"`,
		"lru":                                      "limit is 0",
		"lru limit=-1":                             "limit is -1",
		"lru limit=ten":                            "limit=ten: must be a whole number",
		"lru limit=10 limit=11":                    "limit is given twice",
		"lru limit=10 limit":                       `"limit" is not a setting`,
		"lru limit=10 aging=on":                    "aging is on, is for lfu only",
		"lru limit=10 aging=yes":                   "must be on or off",
		"lru limit=10 window=lru":                  "window=lru: is for composite only",
		"lru limit=10 size=3":                      "there is no setting size",
		"limit=10":                                 "main is empty",
		"idle=-1s":                                 "idle is -1s",
		"idle=soon":                                "must be a duration",
		"slru limit=10 segments=0.5/0.4":           "segments is [0.5 0.4], must have the sum 1",
		"slru limit=10 segments=1.5/-.5":           "must be above 0 each",
		"slru limit=10 segments=a/b":               "must be parts",
		"mru limit=10 segments=0.5/0.5":            "segments is [0.5 0.5], is for lru only",
		"composite window.proportion=2":            "window.proportion is 2, must be 0 to 1",
		"composite window.min=0.5":                 "window.proportion is 0.01, must be between window.min 0.5 and window.max 1",
		"composite window.max=NaN":                 "window.max is NaN",
		"composite window=none":                    "window is empty",
		"composite main=none":                      "main is empty",
		"composite main=random":                    "must be none, lru, mru or lfu",
		"composite climb.every=0":                  "climb.every is 0, must be above 0",
		"composite climb.every=Inf":                "climb.every is +Inf",
		"composite climb.step=2":                   "climb.step is 2",
		"composite climb.restart=2":                "climb.restart is 2",
		"composite climb.decay=2":                  "climb.decay is 2",
		"composite climb=off climb.step=0.1":       "climb.step=0.1: is for composite with climb=on only",
		"composite filter=off filter.depth=4":      "is for composite with filter=on only",
		"composite filter.depth=0":                 "filter.depth is 0",
		"composite filter.bits=5":                  "filter.bits is 5",
		"composite filter.width=3":                 "filter.width is 3",
		"composite filter.reset=0.5":               "filter.reset is 0.5",
		"composite limit=536870913":                "limit is 536870913, must be at most 536870912 with filter.width 4",
		"composite limit=2147483648 filter=off":    "limit is 2147483648, must be 1 to 2147483647",
		"composite limit=10 window.segments=.3/.3": "window.segments is [0.3 0.3], must have the sum 1",
	} {
		s, err := Parse(text)
		if got := s.String(); err != nil && !strings.Contains(err.Error(), want) || err == nil && got != want {
			t.Errorf("%q is read as %s: %v; want %s", text, s, err, want)
		}
	}
	var s Strategy
	if err := s.UnmarshalText([]byte("mru limit=3")); err != nil {
		t.Fatal(err)
	}
	if text, err := s.MarshalText(); err != nil || string(text) != "mru limit=3" {
		t.Fatalf("%s: %v", text, err)
	}
}

// FuzzText: no text makes Parse or String fail, and a valid strategy is read as it was
// written.
func FuzzText(f *testing.F) {
	for _, s := range strategies(5) {
		f.Add(s.String())
	}
	f.Add("composite main=none segments=1/0 filter.bits=63")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		again := s.String()
		if err != nil {
			return
		}
		if parsed, err := Parse(again); err != nil || parsed.String() != again {
			t.Fatalf("%q is written as %q, which is read as %q: %v", text, again, parsed, err)
		}
	})
}

func BenchmarkTouch(b *testing.B) {
	const limit = 100_000
	for _, s := range []Strategy{
		Idle(time.Minute), LRU(limit), LRU(limit).OrIdle(time.Minute), SegmentedLRU(limit, 0.2, 0.8), MRU(limit), LFU(limit), LFUDynamicAging(limit), Composite(limit),
	} {
		b.Run(strings.ReplaceAll(s.String(), " ", "_"), func(b *testing.B) {
			z := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.01, 10, 2*limit-1)
			ids := make([]Entity, 1<<20)
			for i := range ids {
				ids[i] = 1 + Entity(z.Uint64())
			}
			entities := &EntityTable{}
			p := New(s, 1, entities)
			p.Open(0, nil)
			var out []Entity
			for e := Entity(1); e <= limit; e++ {
				out = p.Touched(0, e, uint32(e), out[:0])
				p.MarkIdle(e, start, nil)
			}
			i, evicted, now := 0, 0, start
			b.ReportAllocs()
			for b.Loop() {
				e := ids[i&(len(ids)-1)]
				i++
				now = now.Add(time.Microsecond)
				out = p.Touched(0, e, uint32(e), out[:0])
				p.MarkIdle(e, now, nil)
				evicted += len(out)
			}
			b.ReportMetric(float64(evicted)/float64(i), "evicted/op")
		})
	}
}
