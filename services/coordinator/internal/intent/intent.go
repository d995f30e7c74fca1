// Package intent keeps what operators want of placement: drains, cordons, a freeze, pins, moves in progress, and the
// target version of rollouts. Each is a fact, with its sender and its reason, so it remains in effect under later
// coordinators. A cordon and a pin name a region, so they also remain in effect when the region's process is replaced.
// A drain is about one process.
//
// An Intent decides nothing. The coordinator applies facts to it, and asks what is in effect.
package intent

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/fact"
)

// Kind is a kind of wish. Checkpoints store the kinds in this order; moves come after the rows, because a move
// is about a row that is handed off.
type Kind uint8

// The kinds.
const (
	Drains Kind = iota
	Targets
	Cordons
	Freezes
	Pins
	Moves
	kinds
)

// Key identifies a wish within its kind. At most one of its fields is set.
type Key struct {
	Node  sharding.NodeID
	Name  string // of regions
	Shard sharding.ShardID
}

func (k Key) compare(o Key) int {
	return cmp.Or(k.Node.Compare(o.Node), cmp.Compare(k.Name, o.Name), k.Shard.Compare(o.Shard))
}

// Intent has the newest fact about each wish that is in effect. The zero value has none.
type Intent struct {
	wishes [kinds]wishes
	// pinned has the pins of a type for views. It has no entry for a type whose pins have changed.
	pinned map[sharding.EntityType]map[sharding.ShardID]string
}

// wishes has all wishes of one kind. keys are sorted; nil: not made since a wish came or went.
type wishes struct {
	facts map[Key]fact.Fact
	keys  []Key
}

// apply keeps a fact in place of an earlier one about the same wish. If ended is true, the wish ends.
func (in *Intent) apply(kind Kind, k Key, f fact.Fact, ended bool) {
	w := &in.wishes[kind]
	_, found := w.facts[k]
	switch {
	case ended && !found:
		return
	case ended:
		delete(w.facts, k)
	case w.facts == nil:
		w.facts = map[Key]fact.Fact{k: f}
	default:
		w.facts[k] = f
	}
	if found == ended {
		w.keys = nil
	}
}

// Apply applies a fact that is well-formed.
func (in *Intent) Apply(f fact.Fact) {
	switch f := f.(type) {
	case fact.Drain:
		if !f.Region.IsZero() {
			in.apply(Drains, Key{Node: f.Region}, f, f.Resume)
		}
	case fact.Target:
		if f.Version != "" && len(f.Version) <= sharding.MaxTypeLen {
			in.apply(Targets, Key{}, f, false)
		}
	case fact.Cordon:
		if f.Region != "" {
			in.apply(Cordons, Key{Name: f.Region}, f, f.Lifted)
		}
	case fact.Freeze:
		in.apply(Freezes, Key{}, f, !f.Frozen)
	case fact.Pin:
		in.apply(Pins, Key{Shard: f.Shard}, f, f.Region == "")
		delete(in.pinned, f.Shard.Type)
	case fact.Move:
		in.apply(Moves, Key{Shard: f.Shard}, f, false)
	}
}

func get[F fact.Fact](in *Intent, kind Kind, k Key) (f F, found bool) {
	if len(in.wishes[kind].facts) == 0 {
		return f, false // the usual case
	}
	f, found = in.wishes[kind].facts[k].(F)
	return f, found
}

// Drain returns the drain of a region.
func (in *Intent) Drain(region sharding.NodeID) (fact.Drain, bool) {
	return get[fact.Drain](in, Drains, Key{Node: region})
}

// Cordon returns the cordon of the regions with a name.
func (in *Intent) Cordon(region string) (fact.Cordon, bool) {
	return get[fact.Cordon](in, Cordons, Key{Name: region})
}

// Cordoned reports whether an operator has cordoned the regions with this name.
func (in *Intent) Cordoned(region string) bool {
	_, found := in.Cordon(region)
	// Invariant: a cordoned region is given no shards while another region can take them. If a shard is pinned to a
	// region, and this region can take the shard, the shard is at this region.
	// Mutants: cordon, pin, successor-wanted
	return found //mutant:false cordon
}

// Freeze returns the freeze; without Frozen: there is none.
func (in *Intent) Freeze() fact.Freeze {
	f, _ := get[fact.Freeze](in, Freezes, Key{})
	return f
}

// Frozen reports whether an operator's freeze is in effect.
func (in *Intent) Frozen(now time.Time) bool {
	f := in.Freeze()
	return f.Frozen && (f.Until.IsZero() || now.Before(f.Until)) //mutant:false freeze
}

// Pin returns the pin of a shard.
func (in *Intent) Pin(s sharding.ShardID) (fact.Pin, bool) {
	return get[fact.Pin](in, Pins, Key{Shard: s})
}

// PinnedTo returns the name of the region that a shard is pinned to; "": the shard is not pinned.
func (in *Intent) PinnedTo(s sharding.ShardID) string { return in.Pinned(s.Type)[s] }

// Pinned returns the pins of a type, for a view. The map is never written to.
func (in *Intent) Pinned(t sharding.EntityType) map[sharding.ShardID]string {
	if len(in.wishes[Pins].facts) == 0 { //mutant:true pin
		return nil
	}
	pins, made := in.pinned[t]
	if !made {
		for k, f := range in.wishes[Pins].facts { // order-free: a map is made of them
			if k.Shard.Type != t {
				continue
			}
			if pins == nil {
				pins = map[sharding.ShardID]string{}
			}
			pins[k.Shard] = f.(fact.Pin).Region
		}
		if in.pinned == nil {
			in.pinned = map[sharding.EntityType]map[sharding.ShardID]string{}
		}
		in.pinned[t] = pins
	}
	return pins
}

// Move returns the move of a shard.
func (in *Intent) Move(s sharding.ShardID) (fact.Move, bool) {
	return get[fact.Move](in, Moves, Key{Shard: s})
}

// EndMove forgets the move of a shard when the shard has a later epoch.
func (in *Intent) EndMove(r sharding.Row) {
	if f, found := in.Move(r.Shard); found && f.Epoch < r.Epoch {
		in.apply(Moves, Key{Shard: r.Shard}, nil, true)
	}
}

// Target returns the target version and those seen before it; without a Version: there is none.
func (in *Intent) Target() fact.Target {
	f, _ := get[fact.Target](in, Targets, Key{})
	return f
}

// Len returns the number of wishes of a kind.
func (in *Intent) Len(kind Kind) int { return len(in.wishes[kind].facts) }

// All returns the wishes of a kind, sorted by key. F is the type of their facts.
func All[F fact.Fact](in *Intent, kind Kind) iter.Seq[F] {
	return func(yield func(F) bool) {
		for _, k := range in.sorted(kind) {
			if !yield(in.wishes[kind].facts[k].(F)) {
				return
			}
		}
	}
}

func (in *Intent) sorted(kind Kind) []Key {
	w := &in.wishes[kind]
	if w.keys == nil && len(w.facts) > 0 {
		w.keys = slices.SortedFunc(maps.Keys(w.facts), Key.compare)
	}
	return w.keys
}

// Cursor is a position among the facts of all kinds. The zero value is before the first one.
type Cursor struct {
	kind  Kind
	last  Key // the newest key of the kind that was given
	given bool
}

// Next returns the next fact of a kind up to the kind last, and moves the cursor on; nil: there is none. Facts before
// the cursor may have come or gone meanwhile.
func (in *Intent) Next(c *Cursor, last Kind) fact.Fact {
	for ; c.kind <= last; *c = (Cursor{kind: c.kind + 1}) {
		keys, i := in.sorted(c.kind), 0
		if c.given {
			at, found := slices.BinarySearchFunc(keys, c.last, Key.compare)
			if i = at; found {
				i++
			}
		}
		if i < len(keys) {
			c.last, c.given = keys[i], true
			return in.wishes[c.kind].facts[keys[i]]
		}
	}
	return nil
}

// Clone returns an independent copy.
func (in *Intent) Clone() Intent {
	c := *in
	for i := range c.wishes {
		c.wishes[i].facts = maps.Clone(in.wishes[i].facts)
	}
	c.pinned = maps.Clone(in.pinned) // its maps are never written to
	return c
}

// Check verifies what holds between any two steps: the order of the keys, and that all copies agree.
func (in *Intent) Check() error {
	for kind := range in.wishes {
		w := &in.wishes[kind]
		if w.keys != nil && (len(w.keys) != len(w.facts) || !slices.IsSortedFunc(w.keys, Key.compare)) {
			return fmt.Errorf("the %d wishes of kind %d have %d keys, or these are not sorted: %v", len(w.facts), kind, len(w.keys), w.keys)
		}
	}
	for f := range All[fact.Pin](in, Pins) {
		if f.Region == "" {
			return fmt.Errorf("%v is pinned to no region", f.Shard)
		}
		if pins, made := in.pinned[f.Shard.Type]; made && pins[f.Shard] != f.Region {
			return fmt.Errorf("%v is pinned to %q, a view has %q", f.Shard, f.Region, pins[f.Shard])
		}
	}
	return nil
}
