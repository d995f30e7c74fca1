package history

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// maxFindings is the most findings in an error.
const maxFindings = 10

// Check checks a history, given the values of every list in their order, read after the last
// operation had ended. It returns an error for every violation. If the search for an order
// takes longer than within, that is an error too.
func Check(ops []Op, final map[string][]int64, within time.Duration) error {
	c := &check{ops: ops, final: final, at: map[int64]place{}}
	c.readFinal()
	for i := range ops {
		c.op(&ops[i])
	}
	c.batches()
	if len(c.findings) > 0 {
		shown := c.findings[:min(maxFindings, len(c.findings))]
		return fmt.Errorf("%d findings: %w", len(c.findings), errors.Join(shown...))
	}
	return c.linearizable(within)
}

// place is the position of a value: its list, and its index from 1.
type place struct {
	list     string
	position int64
}

type check struct {
	ops      []Op
	final    map[string][]int64
	hashes   map[string][]uint64 // of each prefix, the empty one first
	at       map[int64]place
	findings []error
}

func (c *check) found(format string, args ...any) {
	c.findings = append(c.findings, fmt.Errorf(format, args...))
}

// readFinal records the place of every value and the hash of every prefix.
func (c *check) readFinal() {
	c.hashes = map[string][]uint64{}
	for _, list := range c.lists() {
		hashes := []uint64{0}
		for i, v := range c.final[list] {
			if p, twice := c.at[v]; twice {
				c.found("double: %d is at %s[%d] and at %s[%d]", v, p.list, p.position, list, i+1)
			}
			c.at[v] = place{list, int64(i + 1)}
			hashes = append(hashes, Hash(hashes[i], v))
		}
		c.hashes[list] = hashes
	}
	added := map[int64]bool{}
	for i := range c.ops {
		if o := &c.ops[i]; o.Kind == Add {
			if added[o.Value] {
				c.found("no history: %d is added by two operations", o.Value)
			}
			added[o.Value] = true
		}
	}
	for _, list := range c.lists() {
		for i, v := range c.final[list] {
			if !added[v] {
				c.found("invented: no client added %d at %s[%d]", v, list, i+1)
			}
		}
	}
}

// lists returns the names of the lists, in order.
func (c *check) lists() []string {
	var names []string
	for list := range c.final {
		names = append(names, list)
	}
	slices.Sort(names)
	return names
}

// op checks an operation against the final lists.
func (c *check) op(o *Op) {
	if _, read := c.final[o.List]; !read {
		c.found("no history: list %s was not read at the end", o.List)
		return
	}
	p, there := c.at[o.Value]
	there = there && o.Kind == Add
	switch {
	case there && p.list != o.List:
		c.found("astray: %v is at %s[%d]", o, p.list, p.position)
	case there && o.Outcome == NotApplied:
		c.found("refused and applied: %v is at [%d]", o, p.position)
	case o.Outcome != Executed:
	case o.Kind == Add && !there:
		c.found("lost: %v", o)
	case o.Kind == Add && p.position != o.Reply.Length:
		c.found("moved: %v is at [%d]", o, p.position)
	default:
		c.reply(o, o.Reply)
	}
	for _, again := range o.Repeats {
		switch {
		case o.Outcome == Executed && again != o.Reply:
			c.found("two answers: %v, and again %+v", o, again)
		case o.Kind == Add && (!there || p.position != again.Length):
			c.found("lost: %v, answered %+v when sent again", o, again)
		default:
			c.reply(o, again)
		}
	}
}

// reply checks that an answer is the state of a prefix of the final list.
func (c *check) reply(o *Op, r Reply) {
	hashes := c.hashes[o.List]
	if r.Length < 0 || r.Length >= int64(len(hashes)) {
		c.found("lost: %v has %d values, at the end there are %d", o, r.Length, len(hashes)-1)
	} else if hashes[r.Length] != r.Hash {
		c.found("another past: %v has the hash %d of values 1 to %d, at the end it is %d", o, r.Hash, r.Length, hashes[r.Length])
	}
}

// batches checks the order of the values of each batch in the final lists.
func (c *check) batches() {
	type group struct {
		batch int
		list  string
	}
	groups := map[group][]*Op{}
	var order []group
	for i := range c.ops {
		o := &c.ops[i]
		if _, there := c.at[o.Value]; o.Batch == 0 || o.Kind != Add || !there {
			continue
		}
		g := group{o.Batch, o.List}
		if groups[g] == nil {
			order = append(order, g)
		}
		groups[g] = append(groups[g], o)
	}
	for _, g := range order {
		ops := groups[g]
		slices.SortFunc(ops, func(a, b *Op) int { return a.Index - b.Index })
		for i := 1; i < len(ops); i++ {
			if before, after := c.at[ops[i-1].Value], c.at[ops[i].Value]; before.position > after.position {
				c.found("out of order: batch %d has %v at [%d] and %v at [%d]", g.batch, ops[i-1], before.position, ops[i], after.position)
			}
		}
	}
}

// linearizable searches for an order of all operations on each list.
//
// The final list makes the search short. An Unknown Add that is in it took effect at its
// position, some time after its call; one that is not had no effect before the final read,
// which ends the history. In every order, all Gets of a length come before the Add that ends
// it, so the model allows no Add before them: otherwise the search explodes where many
// operations overlap. Neither weakens what an order has to explain.
func (c *check) linearizable(within time.Duration) error {
	var end time.Duration
	for i := range c.ops {
		end = max(end, c.ops[i].Call, c.ops[i].Return)
	}
	type state struct {
		list   string
		length int64
	}
	gets := map[state]int{}
	for i := range c.ops {
		if o := &c.ops[i]; o.Kind.ordered() && o.Outcome == Executed {
			gets[state{o.List, o.Reply.Length}]++
		}
	}
	var history []porcupine.Operation
	add := func(client int, call, ret int64, in input, out Reply) {
		if in.kind == Add {
			in.gets = gets[state{in.list, out.Length - 1}]
		}
		history = append(history, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: ret})
	}
	for i := range c.ops {
		o := &c.ops[i]
		p, there := c.at[o.Value]
		switch {
		case o.Kind == Peek: // only a prefix of the list is promised
		case o.Outcome == Executed && o.Kind.ordered():
			add(o.Client, int64(o.Call), int64(o.Return), input{list: o.List, kind: Get}, o.Reply)
		case o.Outcome == Executed:
			add(o.Client, int64(o.Call), int64(o.Return), input{list: o.List, kind: Add, value: o.Value}, o.Reply)
		case o.Kind == Add && there:
			add(o.Client, int64(o.Call), math.MaxInt64, input{list: o.List, kind: o.Kind, value: o.Value}, Reply{p.position, c.hashes[o.List][p.position]})
		}
	}
	for _, list := range c.lists() {
		n := len(c.final[list])
		add(0, int64(end)+1, int64(end)+2, input{list: list, kind: Get}, Reply{int64(n), c.hashes[list][n]})
	}
	switch porcupine.CheckOperationsTimeout(model, history, within) {
	case porcupine.Ok:
		return nil
	case porcupine.Illegal:
		return c.illegal(history, within)
	default:
		return fmt.Errorf("no order was found or excluded within %v", within)
	}
}

// illegal returns an error with the lists that have no order.
func (c *check) illegal(history []porcupine.Operation, within time.Duration) error {
	var bad []string
	for _, part := range model.Partition(history) {
		if porcupine.CheckOperationsTimeout(model, part, within) != porcupine.Ok {
			bad = append(bad, part[0].Input.(input).list)
		}
	}
	slices.Sort(bad)
	return fmt.Errorf("not linearizable: no order explains the answers of %v", bad)
}

// input is an operation as the model sees it.
type input struct {
	list  string
	kind  Kind
	value int64
	gets  int // of an Add: the Gets that saw the list just before it
}

// modelled is the state of a list: the Reply that describes it, and how many Gets have seen
// it so far.
type modelled struct {
	Reply
	gets int
}

// model is a list.
var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := map[string][]porcupine.Operation{}
		for _, o := range history {
			list := o.Input.(input).list
			parts[list] = append(parts[list], o)
		}
		var all [][]porcupine.Operation
		for _, part := range parts {
			all = append(all, part)
		}
		return all
	},
	Init: func() any { return modelled{} },
	Step: func(state, in, out any) (bool, any) {
		s, i := state.(modelled), in.(input)
		if i.kind == Get {
			return s.Reply == out.(Reply), modelled{s.Reply, s.gets + 1}
		}
		next := modelled{Reply: Reply{s.Length + 1, Hash(s.Hash, i.value)}}
		return s.gets == i.gets && next.Reply == out.(Reply), next
	},
}
