package sim

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// The checkers know nothing of the cores: they read the log of commits and the
// history of the clients.

// element is one number in the list of an entity, as committed.
type element struct {
	x uint64
	times
	epoch sharding.Epoch
	ids   int // of commands, committed to the entity so far
}

// past is everything that was committed to one entity.
type past struct {
	ids      int
	elements []element
	hashes   []list // state after that many elements
	// lives are the beginnings of each life in hashes, by its number; a number comes again when the
	// entity was purged. A delete counts as an element.
	lives map[uint64][]int
	// deletes are the times at which the entity was deleted.
	deletes []int64
	deleted bool // by the last record
}

type checker struct {
	w     *World
	pasts map[sharding.Entity]*past
	// where are the positions of a number in its entity's list.
	where map[uint64][]int
	// dealt are the commands of operators that have dealt with a dead letter.
	dealt map[letterName]*op
}

// violation is a broken promise.
type violation struct {
	property string
	text     string
}

func (w *World) violate(property, format string, args ...any) {
	if w.broken == nil {
		w.broken = &violation{property, fmt.Sprintf(format, args...)}
		w.trace(nil, "BROKEN", w.broken.property+": "+w.broken.text)
	}
}

// checkHistory compares what clients were told with what was committed: the log
// of commits.
func (w *World) checkHistory(log []commit) {
	c := &checker{w: w, pasts: map[sharding.Entity]*past{}, where: map[uint64][]int{}, dealt: map[letterName]*op{}}
	c.readLog(log)
	c.reminders(log)
	c.deletions(log)
	c.deadLetters(log)
	c.sends(log)
	c.remembered(log)
	for _, o := range w.ops {
		if w.volatile(o.entity) {
			continue
		}
		c.effects(o)
		for _, t := range o.tries {
			if t.returned > 0 && t.reply.Outcome == sharding.Executed {
				c.answer(o, t)
			}
		}
		c.sameReplies(o)
	}
	c.asks()
	c.reminderAsks(log)
	c.batches()
	c.succession()
}

// readLog checks that epochs never go back per shard and sequence numbers have
// no gaps per entity, and builds the lists.
func (c *checker) readLog(log []commit) {
	w := c.w
	epochs := map[sharding.ShardID]sharding.Epoch{}
	seqs := map[sharding.Entity]uint64{}
	for _, commit := range log {
		a := commit.Append
		if commit.Epoch < epochs[a.Shard] {
			w.violate("epochs grow", "%v: an effect of epoch %v after one of %v, at %s", a.Entity, commit.Epoch, epochs[a.Shard], at(commit.at))
		}
		epochs[a.Shard] = max(epochs[a.Shard], commit.Epoch)
		p := c.pasts[a.Entity]
		if p == nil {
			p = &past{hashes: []list{{}}, lives: map[uint64][]int{0: {0}}}
			c.pasts[a.Entity] = p
		}
		for _, r := range a.Records {
			if r.Seq == 1 && p.deleted && seqs[a.Entity] > 0 { // it was purged, and is made anew
				w.mark("delete: an entity comes after its purge")
				seqs[a.Entity] = 0
				p.begin(0, commit)
			}
			p.deleted = r.Delete
			if r.Seq != seqs[a.Entity]+1 {
				w.violate("sequence without gaps", "%v: record %d after %d, at %s", a.Entity, r.Seq, seqs[a.Entity], at(commit.at))
			}
			seqs[a.Entity] = r.Seq
			if ofCoordinators(a.Entity) {
				continue
			}
			if r.Command != "" {
				p.ids++
			}
			for _, e := range r.Events {
				l := p.hashes[len(p.hashes)-1]
				x := decodeNumber(e.Payload)
				l.add(x)
				p.elements = append(p.elements, element{x: x, times: commit.times, epoch: commit.Epoch, ids: p.ids})
				p.hashes = append(p.hashes, l)
				c.where[x] = append(c.where[x], len(p.elements))
			}
			if r.Delete {
				w.mark("delete: an entity ends")
				p.begin(r.Seq, commit)
				p.deletes = append(p.deletes, commit.at)
			}
		}
	}
}

// begin begins a life of the entity.
func (p *past) begin(life uint64, commit commit) {
	p.elements = append(p.elements, element{times: commit.times, epoch: commit.Epoch, ids: p.ids})
	p.hashes = append(p.hashes, list{life: life})
	p.lives[life] = append(p.lives[life], len(p.elements))
}

// place returns where in hashes a state is that was told between two times, -1 if it never was
// committed. A life that has ended without elements may have been purged: then its state is
// answered as for an entity that never was. Of several places that one counts whose time fits.
func (p *past) place(l list, called, returned int64) int {
	found := -1
	at := func(base int) (fits bool) {
		n := base + int(l.n)
		if n >= len(p.hashes) || p.hashes[n] != l && l != (list{}) {
			return false
		}
		found = n
		return (n == 0 || p.elements[n-1].at <= returned) && (n == len(p.elements) || p.elements[n].at >= called)
	}
	for _, base := range p.lives[l.life] {
		if at(base) {
			return found
		}
	}
	if l != (list{}) {
		return found
	}
	for _, life := range sortedKeys(p.lives) {
		for _, base := range p.lives[life] {
			if life > 0 && p.elements[base-1].sent+smallAge <= returned && at(base) { // keys age from when they are handed over
				return found
			}
		}
	}
	return found
}

// effects checks how often a command took effect.
func (c *checker) effects(o *op) {
	w := c.w
	n := len(c.where[o.x])
	if n > 1 && !c.again(o) {
		w.violate("one effect", "%v took effect %d times, at positions %v", o, n, c.where[o.x])
	}
	if n > 0 && !adds(o.cmd) {
		w.violate("no effect of a failed turn", "%v took effect", o)
	}
	if n == 0 {
		return
	}
	if o.refused() {
		last := o.tries[len(o.tries)-1].reply
		w.violate("not applied has no effect", "%v was not applied (%s: %s) and took effect at position %v", o, last.Code, last.Message, c.where[o.x])
	}
	if p := c.pasts[o.entity]; p.elements[c.where[o.x][0]-1].at < o.called {
		w.violate("linearizable", "%v took effect before it was called", o)
	}
}

// answer checks one answer: it must show the state of the entity at a moment
// between call and return, with the command's own effect in it.
func (c *checker) answer(o *op, t *try) {
	w := c.w
	if isBuiltin(o.cmd) {
		return // see deletions
	}
	if o.tell {
		if o.keyed && t.reply.Code == "" && len(c.where[o.x]) == 0 {
			w.violate("acknowledged is durable", "%v was acknowledged and took effect %d times", o, len(c.where[o.x]))
		}
		return
	}
	if t.reply.Code != "" && o.cmd != cmdFail {
		return // panic or cancelled: no effect, no state
	}
	if !t.told {
		w.violate("linearizable", "%v was answered without a state: %+v", o, t.reply)
		return
	}
	p := c.pasts[o.entity]
	if p == nil {
		p = &past{hashes: []list{{}}, lives: map[uint64][]int{0: {0}}}
	}
	if adds(o.cmd) && len(c.where[o.x]) == 0 {
		w.violate("acknowledged is durable", "%v was acknowledged and took no effect", o)
		return
	}
	n := p.place(t.list, o.called, t.returned)
	if n < 0 {
		w.violate("linearizable", "%v was answered with a state of %d elements of life %d that never was committed", o, t.list.n, t.list.life)
		return
	}
	if n > 0 && p.elements[n-1].at > t.returned {
		w.violate("acknowledged is durable", "%v was answered at %s with %d elements, the last one committed at %s",
			o, at(t.returned), n, at(p.elements[n-1].at))
	}
	if adds(o.cmd) {
		first := n
		if o.cmd == cmdAdd2 {
			first--
		}
		if !slices.Contains(c.where[o.x], first) {
			w.violate("acknowledged is durable", "%v was answered with position %d, it is at %v", o, first, c.where[o.x])
		}
		return
	}
	if o.cmd == cmdPeek {
		return // it may be old, but it was true
	}
	// All attempts with one key are one command: the answer may be as old as the
	// first of them.
	if n < len(p.elements) && p.elements[n].at < o.called {
		w.violate("linearizable", "%v, called at %s, was answered with %d elements; the next was committed at %s before",
			o, at(o.called), n, at(p.elements[n].at))
	}
}

// sameReplies checks that a key has one reply.
func (c *checker) sameReplies(o *op) {
	if !o.keyed || isBuiltin(o.cmd) || o.cmd == cmdGet || o.cmd == cmdPeek || o.tell {
		return
	}
	var first *try
	for _, t := range o.tries {
		if t.returned == 0 || t.reply.Outcome != sharding.Executed || !c.kept(o, t) {
			continue
		}
		if first == nil {
			first = t
			continue
		}
		if t.reply.Code != first.reply.Code || t.list != first.list {
			c.w.violate("one reply", "%v was answered with %q %v and with %q %v", o, first.reply.Code, first.list, t.reply.Code, t.list)
		}
	}
}

// refuses reports whether a command ended with r without an effect, although a later attempt may have one: the region
// rejected it, or did not execute it because its key may have expired.
func refuses(r *sharding.Reply) bool {
	return r.Outcome == sharding.NotApplied || r.Outcome == sharding.Unknown && r.Code == sharding.KeyExpired
}

// batches checks that items of a batch took effect in their order, per entity.
func (c *checker) batches() {
	type key struct {
		batch  int
		entity sharding.Entity
	}
	last := map[key]*op{}
	for _, o := range c.w.ops {
		if o.batch == 0 || len(c.where[o.x]) != 1 || c.w.volatile(o.entity) {
			continue
		}
		k := key{o.batch, o.entity}
		if len(o.tries) > 1 || c.w.refusedUnread[o.key] > 0 {
			// Another attempt of the client may have been first. And when a region
			// refused one item and took a later one, the gateway may have sent both
			// again before it could know: see the exception to G4.
			continue
		}
		if p := last[k]; p != nil && c.where[o.x][0] < c.where[p.x][0] {
			c.w.violate("order", "%v took effect at %v, before %v of the same batch at %v", o, c.where[o.x], p, c.where[p.x])
		}
		last[k] = o
	}
}

// succession checks that a command which was called after the end of another one
// through the same gateway takes effect after it, if both do, whatever the other one's
// client was told: what is unknown must not come behind what was sent after it.
func (c *checker) succession() {
	type through struct {
		entity               sharding.Entity
		gateway, incarnation int
	}
	newest := map[through]*op{} // called last of those that took effect so far
	w := c.w
	for _, o := range c.byEffect() {
		first := o.tries[0]
		k := through{o.entity, first.gateway, first.incarnation}
		ended := int64(0)
		for _, t := range o.tries {
			if t.gateway != k.gateway || t.incarnation != k.incarnation || t.returned == 0 {
				ended = -1
				break
			}
			ended = max(ended, t.returned)
		}
		if ended < 0 {
			continue // it may have been in progress elsewhere
		}
		n := newest[k]
		if n != nil && ended < n.called {
			w.violate("order", "%v, which ended at %s, took effect at %v, after %v at %v, which was called at %s through the same gateway",
				o, at(ended), c.where[o.x], n, c.where[n.x], at(n.called))
		}
		if n == nil || o.called > n.called {
			newest[k] = o
		}
	}
}

// byEffect are the commands that took effect once, in the order of that.
func (c *checker) byEffect() []*op {
	var list []*op
	for _, o := range c.w.ops {
		if len(c.where[o.x]) == 1 && len(o.tries) > 0 && !c.w.volatile(o.entity) {
			list = append(list, o)
		}
	}
	slices.SortStableFunc(list, func(a, b *op) int { return cmp.Compare(c.where[a.x][0], c.where[b.x][0]) })
	return list
}

func at(t int64) string { return fmt.Sprintf("%.6f", float64(t)/1e9) }
