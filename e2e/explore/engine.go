package explore

import (
	"crypto/sha256"
	"slices"
)

// maxParts is the most parts of a world.
const maxParts = 6

// part is a process, a store or a client: the unit whose states are numbered.
type part interface {
	clone() part
	// appendState appends a canonical encoding of everything that can influence the future.
	appendState(b []byte) []byte
}

// parts is a set of parts, by their indexes.
type parts uint8

func (p parts) has(i int) bool { return p&(1<<i) != 0 }

// world is the state that moves change. It has no memory of its own: load gives it the parts that a
// move uses, and nil for all others, so that a move which uses a part that it does not name
// fails. unload returns the parts, the messages that were sent, and which promise was
// broken, if any.
type world interface {
	load(passed int, all [maxParts]part)
	unload() (all [maxParts]part, sent []*message, why string)
	// moves appends the moves that are possible in s, except deliveries of messages.
	moves(e *engine, s *state, list []*move) []*move
}

// message is something in progress. Its text identifies it: two messages with the same text
// are the same message.
type message struct {
	text      string
	moves     []*move // what may become of it
	immediate bool    // it arrives before anything else happens
	// void reports whether the arrival of the message can change nothing, neither in s nor
	// later: then the message is dropped. Nil: its arrival can always change something.
	void   func(e *engine, s *state) bool
	number int32
}

// move is one thing that may happen.
type move struct {
	name           string
	uses           parts
	fault, timeout bool
	takes          *message // the message that the move takes out of the net
	do             func()   // performs the move in the world
	number         int32
}

// engine makes moves. Each distinct state of a part has a number, and so has each distinct
// message; a state of the world consists of such numbers. The effect of a move depends only
// on the parts that it uses and on how often time has passed. So each combination of these
// is computed once, and the effect is remembered.
type engine struct {
	world    world
	bound    Bound
	known    [maxParts]map[[16]byte]int32
	parts    [maxParts][]part
	texts    map[string]*message
	messages []*message
	made     []*move
	effects  map[cause]*effect
	buf      []byte
}

type cause struct {
	move   int32
	passed int8
	parts  [maxParts]int32 // -1: not used
}

type effect struct {
	parts [maxParts]int32
	sent  []int32
	why   string
}

// begin returns an engine, and the world as it is as the first state.
func begin(w world, b Bound) (e *engine, s *state, why string) {
	e = &engine{world: w, bound: b, texts: map[string]*message{}, effects: map[cause]*effect{}, made: []*move{nil}}
	for i := range e.known {
		e.known[i] = map[[16]byte]int32{}
	}
	all, sent, why := w.unload()
	s = &state{faults: b.Faults, timeouts: b.Timeouts}
	for i, p := range all {
		if p != nil {
			s.parts[i] = e.part(i, p)
		}
	}
	for _, m := range sent {
		s.net = append(s.net, e.message(m))
	}
	slices.Sort(s.net)
	return e, s, why
}

// part returns the number of the state that a part is in.
func (e *engine) part(i int, p part) int32 {
	e.buf = p.appendState(e.buf[:0])
	sum := sha256.Sum256(e.buf)
	n, ok := e.known[i][[16]byte(sum[:16])]
	if !ok {
		n = int32(len(e.parts[i]))
		e.known[i][[16]byte(sum[:16])] = n
		e.parts[i] = append(e.parts[i], p)
	}
	return n
}

func (e *engine) message(m *message) int32 {
	if old := e.texts[m.text]; old != nil {
		return old.number
	}
	m.number = int32(len(e.messages))
	e.texts[m.text] = m
	e.messages = append(e.messages, m)
	return m.number
}

// moves appends what may happen in s, in a fixed order.
func (e *engine) moves(s *state, list []*move) []*move {
	for i, n := range s.net {
		if i == 0 || s.net[i-1] != n {
			list = append(list, e.messages[n].moves...)
		}
	}
	list = e.world.moves(e, s, list)
	return slices.DeleteFunc(list, func(m *move) bool {
		return m.fault && s.faults == 0 || m.timeout && s.timeouts == 0
	})
}

// make performs the move m in s, then delivers the immediate messages, and fills n with the
// resulting state. It returns which promise was broken, if any.
func (e *engine) make(s *state, m *move, n *state) string {
	why := e.single(s, m, n)
	for why == "" {
		i := slices.IndexFunc(n.net, func(k int32) bool { return e.messages[k].immediate })
		if i < 0 {
			break
		}
		why = e.single(n, e.messages[n.net[i]].moves[0], n)
	}
	return why
}

// single lets one move happen in s; n may be s.
func (e *engine) single(s *state, m *move, n *state) string {
	n.faults, n.timeouts, n.parts = s.faults, s.timeouts, s.parts
	if m.fault {
		n.faults--
	}
	if m.timeout {
		n.timeouts--
	}
	f := e.effect(m, n)
	for i := range n.parts {
		if m.uses.has(i) {
			n.parts[i] = f.parts[i]
		}
	}
	n.net = append(append(n.net[:0], s.net...), f.sent...)
	if m.takes != nil {
		i := slices.Index(n.net, m.takes.number)
		n.net = slices.Delete(n.net, i, i+1)
	}
	n.net = slices.DeleteFunc(n.net, func(k int32) bool { return e.void(n, e.messages[k]) })
	slices.Sort(n.net)
	return f.why
}

func (e *engine) void(s *state, m *message) bool { return m.void != nil && m.void(e, s) }

// inert reports whether the arrival of m would change nothing in s now, but for
// messages that are void.
func (e *engine) inert(s *state, m *message) bool {
	arrives := m.moves[0]
	f := e.effect(arrives, s)
	for i := range s.parts {
		if arrives.uses.has(i) && f.parts[i] != s.parts[i] {
			return false
		}
	}
	return !slices.ContainsFunc(f.sent, func(n int32) bool { return !e.void(s, e.messages[n]) })
}

// effect looks up what the move does, or lets it happen in the world.
func (e *engine) effect(m *move, s *state) *effect {
	if m.number == 0 {
		m.number = int32(len(e.made))
		e.made = append(e.made, m)
	}
	c := cause{move: m.number, passed: int8(e.bound.Timeouts - s.timeouts), parts: s.parts}
	for i := range c.parts {
		if !m.uses.has(i) {
			c.parts[i] = -1
		}
	}
	f := e.effects[c]
	if f != nil {
		return f
	}
	var all [maxParts]part
	for i, n := range s.parts {
		if m.uses.has(i) {
			all[i] = e.parts[i][n].clone()
		}
	}
	e.world.load(int(c.passed), all)
	m.do()
	all, sent, why := e.world.unload()
	f = &effect{why: why}
	for i, p := range all {
		if m.uses.has(i) {
			f.parts[i] = e.part(i, p)
		}
	}
	for _, m := range sent {
		f.sent = append(f.sent, e.message(m))
	}
	e.effects[c] = f
	return f
}
