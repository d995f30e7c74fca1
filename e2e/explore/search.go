package explore

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bound limits a search.
type Bound struct {
	Faults   int // duplicates, crashes, unknown outcomes, elections on a path
	Timeouts int // how often time runs out on a path
	States   int // give up after that many; 0: never
	// Whole keeps messages in progress that cannot change anything any more. They
	// multiply the states and are left out otherwise.
	Whole bool
	// visit is shown every state, once.
	visit func(*engine, *state)
}

// Result holds the findings of a search.
type Result struct {
	States, Moves, Depth int
	Steps                int  // different moves of the parts: so often the cores were asked
	Complete             bool // every state within the bound was visited
	Broken               string
	Path                 []string // to the broken state
	Took                 time.Duration
}

func (r *Result) String() string {
	text := fmt.Sprintf("%d states, %d moves, %d steps of the cores, depth %d, complete %t, %v",
		r.States, r.Moves, r.Steps, r.Depth, r.Complete, r.Took.Round(time.Millisecond))
	if r.Broken != "" {
		text += "\nbroken: " + r.Broken + "\n\t" + strings.Join(r.Path, "\n\t")
	}
	return text
}

// search goes through all states that can be reached in the world, nearest
// first, and stops at a broken one. The states of a level are kept as bytes,
// those that were seen as 128 bits of their SHA-256.
func search(w world, b Bound) *Result {
	began := time.Now() // pure: reported, and nothing goes by it
	e, first, why := begin(w, b)
	r := &Result{Complete: why == "", Broken: why}
	if why != "" {
		return r
	}
	var steps []step
	defer func() {
		r.States, r.Steps = len(steps), len(e.effects)
		r.Took = time.Since(began) // pure: reported, and nothing goes by it
	}()
	seen := map[[16]byte]struct{}{}
	var next []byte
	var buf []byte
	add := func(s *state, from step) {
		buf = s.append(buf[:0])
		sum := sha256.Sum256(buf)
		if _, old := seen[[16]byte(sum[:16])]; old {
			return
		}
		seen[[16]byte(sum[:16])] = struct{}{}
		steps = append(steps, from)
		next = append(next, buf...)
		if b.visit != nil {
			b.visit(e, s)
		}
	}
	add(first, step{from: -1})
	var s, n state
	var moves []*move
	for at := 0; len(next) > 0; r.Depth++ {
		level := next
		next = make([]byte, 0, len(level))
		for ; len(level) > 0; at++ {
			level = s.read(level)
			moves = e.moves(&s, moves[:0])
			for _, m := range moves {
				why := e.make(&s, m, &n)
				r.Moves++
				if why != "" {
					r.Broken, r.Complete = why, false
					r.Path = append(e.path(steps, at), m.name)
					return r
				}
				add(&n, step{int32(at), m.number})
				if b.States > 0 && len(steps) >= b.States {
					r.Complete = false
					return r
				}
			}
		}
	}
	r.Depth--
	return r
}

// step remembers how a state was reached.
type step struct{ from, move int32 }

func (e *engine) path(steps []step, at int) []string {
	var names []string
	for ; steps[at].from >= 0; at = int(steps[at].from) {
		names = append(names, e.made[steps[at].move].name)
	}
	slices.Reverse(names)
	return names
}

// state is one state of a world: what its parts are, by number, and what is
// in progress, by number and sorted.
type state struct {
	faults, timeouts int
	parts            [maxParts]int32
	net              []int32
}

func (s *state) append(b []byte) []byte {
	b = append(b, byte(s.faults), byte(s.timeouts), byte(len(s.net)))
	for _, n := range s.parts {
		b = binary.AppendUvarint(b, uint64(n))
	}
	for _, n := range s.net {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

// read takes the state that b begins with, and returns what follows.
func (s *state) read(b []byte) []byte {
	s.faults, s.timeouts = int(b[0]), int(b[1])
	net := int(b[2])
	b = b[3:]
	take := func() int32 {
		v, n := binary.Uvarint(b)
		b = b[n:]
		return int32(v)
	}
	for i := range s.parts {
		s.parts[i] = take()
	}
	s.net = s.net[:0]
	for range net {
		s.net = append(s.net, take())
	}
	return b
}
