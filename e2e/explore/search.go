package explore

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"
)

// Bound limits a search.
type Bound struct {
	Faults   int // losses, duplicates, crashes, unknown outcomes, elections on a path
	Timeouts int // how often time runs out on a path
	States   int // give up after that many; 0: never
}

// state is one state of a world.
type state interface {
	// moves are what may happen next, in a fixed order.
	moves() []move
	clone() state
	// appendState describes what decides about the future, canonically.
	appendState(b []byte) []byte
	// broken is the promise that was broken on the way here, or empty.
	broken() string
}

// move is one thing that may happen. do changes a clone of the state that
// offered it.
type move struct {
	name string
	do   func(state)
}

// Result is what a search found.
type Result struct {
	States, Moves, Depth int
	Complete             bool // every state within the bound was visited
	Broken               string
	Path                 []string // to the broken state
	Took                 time.Duration
}

func (r *Result) String() string {
	text := fmt.Sprintf("%d states, %d moves, depth %d, complete %t, %v", r.States, r.Moves, r.Depth, r.Complete, r.Took.Round(time.Millisecond))
	if r.Broken != "" {
		text += "\nbroken: " + r.Broken + "\n\t" + strings.Join(r.Path, "\n\t")
	}
	return text
}

// step remembers how a state was reached.
type step struct {
	from int
	name string
}

// search goes through all states that can be reached from first, nearest
// first, and stops at a broken one.
func search(first state, limit int) *Result {
	began := time.Now()
	type open struct {
		s  state
		at int
	}
	seen := map[[16]byte]struct{}{}
	var buf []byte
	isNew := func(s state) bool {
		buf = s.appendState(buf[:0])
		sum := sha256.Sum256(buf)
		key := [16]byte(sum[:16])
		_, old := seen[key]
		seen[key] = struct{}{}
		return !old
	}
	r := &Result{Complete: true}
	defer func() { r.Took = time.Since(began) }()
	isNew(first)
	steps := []step{{from: -1}}
	level := []open{{first, 0}}
	for len(level) > 0 {
		var next []open
		for i := range level {
			o := level[i]
			level[i].s = nil
			for _, m := range o.s.moves() {
				s := o.s.clone()
				m.do(s)
				r.Moves++
				if why := s.broken(); why != "" {
					r.Broken, r.States, r.Complete = why, len(steps), false
					r.Path = append(path(steps, o.at), m.name)
					return r
				}
				if !isNew(s) {
					continue
				}
				steps = append(steps, step{o.at, m.name})
				next = append(next, open{s, len(steps) - 1})
				if limit > 0 && len(steps) >= limit {
					r.States, r.Complete = len(steps), false
					return r
				}
			}
		}
		level = next
		if len(next) > 0 {
			r.Depth++
		}
	}
	r.States = len(steps)
	return r
}

func path(steps []step, at int) []string {
	if at <= 0 {
		return nil
	}
	return append(path(steps, steps[at].from), steps[at].name)
}
