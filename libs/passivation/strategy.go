package passivation

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Strategy defines how a policy chooses. The zero value is [None].
type Strategy struct {
	// Idle is the time that an entity may have nothing to do before it is passivated; 0: any time.
	Idle time.Duration
	// Limit is the number of entities of the type that may be active in a region. Each of the
	// open shards has an equal part of it. 0: any number.
	Limit int
	// Main chooses which entity is passivated when more than Limit are active.
	Main Replacement
	// Admission makes the strategy a composite: it decides which entities get into the main
	// area, where Main chooses. nil: all do.
	Admission *Admission
}

// Replacement chooses the entity that makes room for another one.
type Replacement struct {
	Order Order
	// Proportions makes LeastRecentlyUsed segmented. They are the parts of the limit that the
	// segments have, beginning with the segment for new entities. Their sum is 1. None: there
	// is one segment.
	Proportions []float64
	// DynamicAging makes LeastFrequentlyUsed forget what was used often, but long ago.
	DynamicAging bool
}

// Order says by what a [Replacement] chooses.
type Order uint8

// The zero Order belongs to a strategy without a limit, or to an admission without a window.
const (
	LeastRecentlyUsed Order = iota + 1
	MostRecentlyUsed
	LeastFrequentlyUsed
)

// Admission lets new entities into a window first. An entity that leaves the window is a
// candidate for the main area: it replaces an entity there if it was touched more often.
type Admission struct {
	// Window is the replacement in the window. Without an order there is no window: every
	// new entity is a candidate for the main area at once.
	Window Replacement
	// Proportion is the part of the limit that the window has at first. The optimizer
	// keeps it between MinProportion and MaxProportion. Defaults 0.01, 0.01 and 1.
	Proportion, MinProportion, MaxProportion float64
	// Optimizer changes the window's part while the policy is used. nil: it stays Proportion.
	Optimizer *HillClimbing
	// Filter estimates how often entities were touched, to compare a candidate with the entity
	// that it would replace. nil: all candidates are admitted.
	Filter *Filter
}

// HillClimbing changes the window's part of the limit in steps, in the direction in which the
// hit rate rises. The hit rate is the share of touches that find their entity active.
type HillClimbing struct {
	// AdjustMultiplier times the limit is the number of touches between two steps: enough
	// to see an effect. Default 10.
	AdjustMultiplier float64
	// InitialStep is by how much the part changes in the first step. Default 0.0625.
	InitialStep float64
	// RestartThreshold is the change of the hit rate since the last step that makes the next step
	// InitialStep again: then the load has changed. Default 0.05.
	RestartThreshold float64
	// StepDecay is the ratio of a step to the one before. Default 0.98.
	StepDecay float64
}

// Filter sets the size of the sketch that estimates how often entities are touched (see the package
// comment).
type Filter struct {
	// Depth is the number of rows, 1 to 16. More rows make better estimates. Default 4.
	Depth int
	// CounterBits is the number of bits of a counter: 2, 4, 8, 16, 32 or 64. Default 4.
	CounterBits int
	// WidthMultiplier times the limit, rounded up to a power of two, is the number of
	// counters in a row. It is a power of two itself. Default 4.
	WidthMultiplier int
	// ResetMultiplier times the limit is the number of touches after which the counters
	// are halved, so that the past fades. At least 1. Default 10.
	ResetMultiplier float64
}

// DefaultIdle is the time that entities may be idle where nothing else is configured: long enough
// for a conversation, short enough to free memory.
const DefaultIdle = 2 * time.Minute

// DefaultLimit is the limit of the default composite.
const DefaultLimit = 100_000

// None never passivates.
func None() Strategy { return Strategy{} }

// Idle passivates entities that have had nothing to do for so long.
func Idle(after time.Duration) Strategy { return Strategy{Idle: after} }

// LRU keeps the most recently used entities.
func LRU(limit int) Strategy {
	return Strategy{Limit: limit, Main: Replacement{Order: LeastRecentlyUsed}}
}

// SegmentedLRU is [LRU] with segments, see [Replacement]. Entities that were touched once
// go before those that were touched more often.
func SegmentedLRU(limit int, proportions ...float64) Strategy {
	return Strategy{Limit: limit, Main: Replacement{Order: LeastRecentlyUsed, Proportions: proportions}}
}

// MRU passivates the most recently used entity. It suits entities that are used in rounds, one
// after the other.
func MRU(limit int) Strategy {
	return Strategy{Limit: limit, Main: Replacement{Order: MostRecentlyUsed}}
}

// LFU keeps the most frequently used entities.
func LFU(limit int) Strategy {
	return Strategy{Limit: limit, Main: Replacement{Order: LeastFrequentlyUsed}}
}

// LFUDynamicAging is [LFU] that forgets what was used often, but long ago.
func LFUDynamicAging(limit int) Strategy {
	return Strategy{Limit: limit, Main: Replacement{Order: LeastFrequentlyUsed, DynamicAging: true}}
}

// Composite returns a strategy that adapts to the load: an LRU window whose size is found by
// hill climbing, a filter by frequency, and a segmented LRU as the main area.
func Composite(limit int) Strategy {
	s := SegmentedLRU(limit, 0.2, 0.8)
	s.Admission = &Admission{
		Window:     Replacement{Order: LeastRecentlyUsed},
		Proportion: 0.01, MinProportion: 0.01, MaxProportion: 1,
		Optimizer: new(DefaultHillClimbing()),
		Filter:    new(DefaultFilter()),
	}
	return s
}

// DefaultHillClimbing returns the defaults that the fields' comments name.
func DefaultHillClimbing() HillClimbing {
	return HillClimbing{AdjustMultiplier: 10, InitialStep: 0.0625, RestartThreshold: 0.05, StepDecay: 0.98}
}

// DefaultFilter returns the defaults that the fields' comments name.
func DefaultFilter() Filter {
	return Filter{Depth: 4, CounterBits: 4, WidthMultiplier: 4, ResetMultiplier: 10}
}

// OrIdle returns the strategy with an idle time added: an entity also goes when it has
// had nothing to do for so long.
func (s Strategy) OrIdle(after time.Duration) Strategy {
	s.Idle = after
	return s
}

// MaxLimit is the highest limit. It is so low because the numbers of entities have 32 bits.
const MaxLimit = math.MaxInt32

// maxWidth is the number of counters that a row of a sketch may have.
const maxWidth = 1 << 31

// Validate returns an error that names every field with an unusable value, by the key that
// [Parse] has for it.
func (s Strategy) Validate() error {
	var c checks
	if s.Idle < 0 {
		c.fail("idle", s.Idle, "must not be negative; 0 is never")
	}
	if s.Limit < 0 || s.Limit > MaxLimit {
		c.fail("limit", s.Limit, fmt.Sprintf("must be 1 to %d; 0 is for strategies without a limit", MaxLimit))
	}
	switch hasOrder := s.Main.Order != 0; {
	case hasOrder && s.Limit == 0:
		c.fail("limit", s.Limit, fmt.Sprintf("must be above 0: %s chooses the entities that go at the limit", s.name()))
	case !hasOrder && s.Limit > 0:
		c.fail("main", "empty", "must say who goes at the limit: lru, mru or lfu")
	case !hasOrder && s.Admission != nil:
		c.fail("main", "empty", "must say who makes room for those who are admitted: lru, mru or lfu")
	}
	c.replacement("", "main", s.Main)
	if a := s.Admission; a != nil {
		c.admission(a, s.Limit)
	}
	return errors.Join(c...)
}

// checks are the errors found so far.
type checks []error

func (c *checks) fail(field string, value any, must string) {
	*c = append(*c, fmt.Errorf("passivation: %s is %v, %s", field, value, must))
}

// fraction requires a number from 0 to 1. NaN is none.
func (c *checks) fraction(field string, v float64) {
	if !(v >= 0 && v <= 1) {
		c.fail(field, v, "must be 0 to 1")
	}
}

func (c *checks) positive(field string, v float64) {
	if !(v > 0) || math.IsInf(v, 0) {
		c.fail(field, v, "must be above 0")
	}
}

func (c *checks) replacement(prefix, field string, r Replacement) {
	if r.Order > LeastFrequentlyUsed {
		c.fail(field, uint8(r.Order), "must be lru, mru or lfu")
	}
	if r.DynamicAging && r.Order != LeastFrequentlyUsed {
		c.fail(prefix+"aging", "on", "is for lfu only")
	}
	if len(r.Proportions) == 0 {
		return
	}
	if r.Order != LeastRecentlyUsed {
		c.fail(prefix+"segments", r.Proportions, "is for lru only")
	}
	sum := 0.0
	for _, p := range r.Proportions {
		if sum += p; !(p > 0) {
			c.fail(prefix+"segments", r.Proportions, "must be above 0 each")
			return
		}
	}
	if math.Abs(sum-1) > 1e-6 {
		c.fail(prefix+"segments", r.Proportions, "must have the sum 1")
	}
}

func (c *checks) admission(a *Admission, limit int) {
	c.replacement("window.", "window", a.Window)
	c.fraction("window.proportion", a.Proportion)
	c.fraction("window.min", a.MinProportion)
	c.fraction("window.max", a.MaxProportion)
	if a.Window.Order != 0 && !(a.MinProportion <= a.Proportion && a.Proportion <= a.MaxProportion) {
		c.fail("window.proportion", a.Proportion, fmt.Sprintf("must be between window.min %v and window.max %v", a.MinProportion, a.MaxProportion))
	}
	if h := a.Optimizer; h != nil {
		if a.Window.Order == 0 {
			c.fail("window", "empty", "must be lru, mru or lfu if hill climbing changes its size")
		}
		c.positive("climb.every", h.AdjustMultiplier)
		c.fraction("climb.step", h.InitialStep)
		c.fraction("climb.restart", h.RestartThreshold)
		c.fraction("climb.decay", h.StepDecay)
	}
	f := a.Filter
	if f == nil {
		return
	}
	if f.Depth < 1 || f.Depth > 16 {
		c.fail("filter.depth", f.Depth, "must be 1 to 16")
	}
	if f.CounterBits < 2 || f.CounterBits > 64 || bits.OnesCount(uint(f.CounterBits)) != 1 {
		c.fail("filter.bits", f.CounterBits, "must be 2, 4, 8, 16, 32 or 64")
	}
	if f.WidthMultiplier < 1 || f.WidthMultiplier > 1024 || bits.OnesCount(uint(f.WidthMultiplier)) != 1 {
		c.fail("filter.width", f.WidthMultiplier, "must be a power of two, at most 1024")
	} else if limit > maxWidth/f.WidthMultiplier {
		c.fail("limit", limit, fmt.Sprintf("must be at most %d with filter.width %d, or the filter does not fit into memory", maxWidth/f.WidthMultiplier, f.WidthMultiplier))
	}
	if !(f.ResetMultiplier >= 1 && f.ResetMultiplier <= 1e6) {
		c.fail("filter.reset", f.ResetMultiplier, "must be 1 to 1000000")
	}
}
