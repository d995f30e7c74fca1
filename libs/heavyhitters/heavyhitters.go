// Package heavyhitters finds the entities that take most of a region, in bounded memory and with a
// bounded part of a processor, however many entities there are.
//
// A [Sketch] is the Space-Saving algorithm (Metwally, Agrawal, El Abbadi: Efficient Computation of
// Frequent and Top-k Elements in Data Streams, 2005), with two additions. Counts decay: what was
// counted a half-life ago counts half (forward decay: Cormode, Shkapenyuk, Srivastava, Xu, 2009). And
// short turns are sampled, so that the cost per second is bounded.
//
// With n entries, an entity with more than one n-th of the total use is in the sketch. What
// [Sketch.Top] reports of an entity was counted for this entity only, since it is in the sketch, so
// it is never too much but for the error of sampling.
//
// # What this does not do
//
// It decides nothing. It does not know which shard an entity is in, or whether it is still here.
package heavyhitters

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sorted"
)

// Config bounds a [Sketch].
type Config struct {
	// Entries is the largest number of entities in the sketch. 0: nothing is counted. Default
	// 1,024: every entity with a thousandth of the use of a region is found.
	Entries int
	// Bytes bounds the memory of the entries with their ids. Default 512 KiB: 1,024 entities with
	// the longest names and ids.
	Bytes int
	// Samples is about how many short turns per second are counted one by one. If there are more,
	// a random part of them is counted, with a higher weight. Default 2,000: this takes at most
	// two thousandths of a processor, and of an entity with a hundredth of the turns, some 400
	// are counted within a half-life or two, which is right to a tenth or so.
	Samples int
	// Long is the shortest run of the handler of a turn that is always counted. Default 1 ms: such
	// turns are too few per second for their counting to matter.
	Long time.Duration
	// HalfLife is the age at which a turn counts half. Default 15 s, as for the loads of shards.
	HalfLife time.Duration
}

// DefaultConfig returns the defaults named at the fields.
func DefaultConfig() Config {
	return Config{Entries: 1024, Bytes: 512 << 10, Samples: 2000, Long: time.Millisecond, HalfLife: 15 * time.Second}
}

// Validate returns an error that names every field with an unusable value.
func (c *Config) Validate() error {
	var errs []error
	if c.Entries < 0 || c.Bytes < 0 {
		errs = append(errs, errors.New("heavyhitters: Entries and Bytes must not be negative; with Entries 0 nothing is counted"))
	}
	if c.Samples <= 0 || c.Long <= 0 || c.HalfLife <= 0 {
		errs = append(errs, fmt.Errorf("heavyhitters: Samples is %d, Long %s and HalfLife %s; all must be above 0", c.Samples, c.Long, c.HalfLife))
	}
	return errors.Join(errs...)
}

// Use is the consumption of an entity per second.
type Use struct {
	Commands float64
	Handlers float64 // seconds
}

// commandCost is the cost of a turn in addition to its handler, in seconds. It ranks entities with
// many short turns among those with few long turns. The strategy "load" counts as much by default.
const commandCost = 20e-6

// Weight returns by what entities are ranked: about the processor time, in seconds per second.
func (u Use) Weight() float64 { return u.Handlers + u.Commands*commandCost }

// Entry is an entity with what it takes.
type Entry struct {
	Entity sharding.Entity
	Use
}

// entryBytes is the memory of an entry in addition to the names: its place in entries, in the heap and
// in the map, the latter with free places.
const entryBytes = 160

// entry is an entity in the sketch. All sums are scaled as of Sketch.base.
type entry struct {
	entity sharding.Entity
	// bound is at least what the entity has used, and used what was counted since it is in the
	// sketch.
	bound float64
	used  Use
	place int32 // in the heap
}

// Sketch finds the heaviest entities. It is not safe for concurrent use.
type Sketch struct {
	cfg     Config
	random  uint64    // state of a xorshift generator
	began   time.Time // when counting began; zero: nothing is counted yet
	base    time.Time // sums are scaled so that a turn at this time has the weight 1
	entries []entry
	heap    []int32 // the entry with the lowest bound first
	index   map[sharding.Entity]int32
	bytes   int

	// Sampling: in the second that began at second, turns short turns have come. A turn is counted
	// with the probability 1/every.
	second time.Time
	turns  int
	every  uint64
}

// New returns an empty sketch. The configuration must be valid. The seed decides which turns are
// sampled.
func New(cfg Config, seed uint64) *Sketch {
	return &Sketch{cfg: cfg, random: seed*2 + 1, every: 1}
}

// Clone copies the sketch; both go on independently.
func (s *Sketch) Clone() *Sketch {
	c := *s
	c.entries, c.heap, c.index = slices.Clone(s.entries), slices.Clone(s.heap), maps.Clone(s.index)
	return &c
}

// Add counts a turn of an entity whose handler has run for a time.
func (s *Sketch) Add(now time.Time, e *sharding.Entity, handler time.Duration) {
	if s.cfg.Entries == 0 {
		return
	}
	weight := 1.0
	if handler < s.cfg.Long {
		if weight = s.sample(now); weight == 0 {
			return
		}
	}
	s.count(now, e, weight, max(0, handler).Seconds()*weight)
}

// sample returns the weight of a short turn; 0: it is not counted.
func (s *Sketch) sample(now time.Time) float64 {
	s.turns++
	if passed := now.Sub(s.second); passed >= time.Second || passed < 0 {
		s.every = uint64(max(1, s.turns/s.cfg.Samples))
		if passed >= 2*time.Second {
			s.every = 1
		}
		s.second, s.turns = now, 1
	} else if s.turns > s.cfg.Samples*int(2*s.every) {
		s.every *= 2
	}
	if s.every == 1 {
		return 1
	}
	s.random ^= s.random << 13
	s.random ^= s.random >> 7
	s.random ^= s.random << 17
	if (s.random>>11)%s.every != 0 {
		return 0
	}
	return float64(s.every)
}

// maxScale bounds the weight of a turn, so that sums stay exact.
const maxScale = 1 << 40

// scale returns the weight of a turn now. When it has become too large, all sums are scaled anew.
func (s *Sketch) scale(now time.Time) float64 {
	if s.began.IsZero() {
		s.began, s.base = now, now
	}
	scale := math.Exp2(now.Sub(s.base).Seconds() / s.cfg.HalfLife.Seconds())
	if scale < maxScale {
		return scale
	}
	for i := range s.entries {
		e := &s.entries[i]
		e.bound /= scale
		e.used.Commands /= scale
		e.used.Handlers /= scale
	}
	s.base = now
	return 1
}

func (s *Sketch) count(now time.Time, e *sharding.Entity, commands, handlers float64) {
	scale := s.scale(now)
	u := Use{commands * scale, handlers * scale}
	i, found := s.index[*e]
	if !found {
		if i = s.enter(e); i < 0 {
			return
		}
	}
	x := &s.entries[i]
	x.bound += u.Weight()
	x.used.Commands += u.Commands
	x.used.Handlers += u.Handlers
	s.down(int(x.place))
}

// enter adds an entity that is not in the sketch, and returns its index; -1: there is no room for its
// name. If the sketch is full, the entity takes the place of the one with the lowest bound, and
// its bound: it may have been in the sketch before.
func (s *Sketch) enter(e *sharding.Entity) int32 {
	size := sizeOf(e)
	if size > s.cfg.Bytes {
		return -1
	}
	bound := 0.0
	for len(s.entries) == s.cfg.Entries || s.bytes+size > s.cfg.Bytes {
		bound = s.entries[s.heap[0]].bound
		s.removeLowest()
	}
	if s.index == nil {
		s.index = map[sharding.Entity]int32{}
	}
	own := sharding.Entity{Type: e.Type, ID: sharding.EntityID(strings.Clone(string(e.ID)))}
	i := int32(len(s.entries))
	s.entries = append(s.entries, entry{entity: own, bound: bound, place: i})
	s.heap = append(s.heap, i)
	s.index[own] = i
	s.bytes += size
	s.up(int(i))
	return i
}

func sizeOf(e *sharding.Entity) int { return entryBytes + len(e.Type) + len(e.ID) }

// removeLowest removes the entry with the lowest bound. The last entry takes its index.
func (s *Sketch) removeLowest() {
	i, last := s.heap[0], int32(len(s.entries)-1)
	s.bytes -= sizeOf(&s.entries[i].entity)
	delete(s.index, s.entries[i].entity)
	s.swap(0, int(last))
	s.heap = s.heap[:last]
	if i != last {
		s.entries[i] = s.entries[last]
		s.index[s.entries[i].entity] = i
		s.heap[s.entries[i].place] = i
	}
	s.entries[last] = entry{}
	s.entries = s.entries[:last]
	if last > 0 {
		s.down(0)
	}
}

func (s *Sketch) swap(a, b int) {
	s.heap[a], s.heap[b] = s.heap[b], s.heap[a]
	s.entries[s.heap[a]].place, s.entries[s.heap[b]].place = int32(a), int32(b)
}

func (s *Sketch) bound(place int) float64 { return s.entries[s.heap[place]].bound }

func (s *Sketch) up(place int) {
	for place > 0 && s.bound(place) < s.bound((place-1)/2) {
		s.swap(place, (place-1)/2)
		place = (place - 1) / 2
	}
}

func (s *Sketch) down(place int) {
	for {
		least := place
		for child := 2*place + 1; child <= 2*place+2 && child < len(s.heap); child++ {
			if s.bound(child) < s.bound(least) {
				least = child
			}
		}
		if least == place {
			return
		}
		s.swap(place, least)
		place = least
	}
}

// idle is a rate of commands that is not reported: less than one in three minutes.
const idle = 0.005

// Top returns the heaviest entities, the heaviest first: at most n of those that are wanted.
func (s *Sketch) Top(now time.Time, n int, wanted func(sharding.Entity) bool) []Entry {
	if s.began.IsZero() || n <= 0 {
		return nil
	}
	halfLife := s.cfg.HalfLife.Seconds()
	// A constant rate r has the sum r·halfLife/ln 2 in the end. Until then, the part of it that has
	// been counted is known.
	counted := 1 - math.Exp2(-max(now.Sub(s.began).Seconds(), 1)/halfLife)
	rate := math.Ln2 / halfLife / counted / s.scale(now)
	var list []Entry
	for i := range s.entries {
		e := &s.entries[i]
		u := Use{e.used.Commands * rate, e.used.Handlers * rate}
		if u.Commands >= idle && wanted(e.entity) {
			list = append(list, Entry{e.entity, u})
		}
	}
	sorted.By(list, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(b.Weight(), a.Weight()), cmp.Compare(a.Entity.Type, b.Entity.Type), cmp.Compare(a.Entity.ID, b.Entity.ID))
	})
	return list[:min(n, len(list))]
}
