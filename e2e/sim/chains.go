package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/coordinator"
)

// The turn of a Forward (cmdForward) asks other entities. Each ask is a command to add a number, or
// another Forward. So entities wait for one another in chains. The asks are planned with the client's
// command, and are the same whenever this command runs again. From the plan the checks know who waits
// for whom, without the chains that commands carry.

// ask is a command that the turn of a Forward sends to another entity.
type ask struct {
	op
	asker  *op               // the Forward whose turn sends it
	chain  []sharding.Entity // the entities that wait for the answer; the last one is the asker's
	waits  bool              // a turn waits for the answer now
	since  time.Time         // when that turn began to wait, by the clock of its process
	came   bool              // the command has come to the region of its entity, which has not refused it as not its own
	ran    bool              // the command has had a turn
	noRoom bool              // a turn was told that the command was refused for lack of room
	gaveUp []gaveUp          // each time a turn that sent it was told that it waits in a circle
	// firstAsked is the earliest time at which a turn began to wait for the answer, of those turns
	// whose ask was really sent.
	firstAsked int64
}

// forwarderID is the client of commands between entities.
const forwarderID = -1

// planned returns the number of the n-th command that is planned with a client's command.
func planned(x uint64, n int) uint64 { return x&(1<<50-1) | 1<<60 | uint64(n)<<50 }

// longestPlan is the maximum length of a chain.
const longestPlan = 6

// asksOf returns the commands that the turn of a Forward sends, in order.
func (w *World) asksOf(env *sharding.Envelope) []*ask {
	x := ofReminder(decodeNumber(env.Payload))
	if w.asksBy[x] == nil {
		w.plan(w.byID[x], nil)
	}
	return w.asksBy[x]
}

// plan draws the commands that the turn of a Forward sends. waiting are the entities that wait for
// the answer of this Forward.
func (w *World) plan(asker *op, waiting []sharding.Entity) {
	d, chain := w.dice("chains"), append(slices.Clip(waiting), asker.entity)
	to := w.drawAsked(d, chain)
	switch {
	case !slices.Contains(chain, to) && len(chain) < longestPlan && d.chance(0.4):
		w.plan(&w.addAsk(asker, chain, to, cmdForward).op, chain)
	case d.chance(0.2):
		w.addAsk(asker, chain, to, cmdAdd)
		fallthrough
	default:
		w.addAsk(asker, chain, to, cmdAdd)
	}
}

// drawAsked draws the entity that a turn asks. Sometimes it is an entity that waits for the
// turn's own answer, and then the ask must be refused. Often it is one in the same shard.
func (w *World) drawAsked(d dice, chain []sharding.Entity) sharding.Entity {
	if d.chance(0.06) {
		return chain[d.IntN(len(chain))]
	}
	var others, near []sharding.Entity
	for _, e := range w.entities {
		if slices.Contains(chain, e) {
			continue
		}
		others = append(others, e)
		if slices.ContainsFunc(chain, func(c sharding.Entity) bool { return w.shardOf(c) == w.shardOf(e) }) {
			near = append(near, e)
		}
	}
	if len(near) > 0 && d.chance(0.5) {
		return near[d.IntN(len(near))]
	}
	return others[d.IntN(len(others))]
}

// addAsk adds an ask to the plan of a turn.
func (w *World) addAsk(asker *op, chain []sharding.Entity, to sharding.Entity, cmd string) *ask {
	n := 1
	for w.asks[planned(asker.x, n)] != nil {
		n++
	}
	x := planned(asker.x, n)
	f := &ask{op: op{id: int(x), client: forwarderID, entity: to, cmd: cmd, x: x, keyed: true, called: w.now}, asker: asker, chain: chain}
	w.asks[x] = f
	w.asksBy[asker.x] = append(w.asksBy[asker.x], f)
	return f
}

// answerBy returns the latest time for the answer, or a failure, of a turn that asks now.
func (s *shardNode) answerBy(deadline time.Time) time.Time {
	now := s.p.now()
	if deadline.IsZero() {
		return now.Add(askTimeout)
	}
	return now.Add(time.Duration(float64(max(0, deadline.Sub(now))) * 0.8))
}

// askTimeout is the wait of a turn without a deadline.
const askTimeout = time.Second

// checkWaits checks that no turn waits longer than it may.
func (s *shardNode) checkWaits() {
	now := s.p.now()
	for _, b := range s.instances { // order-free: any is a violation
		if b.waitsFor != nil && now.Sub(b.askUntil) > overdue {
			s.w.violate("no turn waits beyond its time", "%s: %v waits for %v, %v longer than it may", s.p.name, b.entity, &b.waitsFor.op, now.Sub(b.askUntil))
		}
	}
}

// checkChain checks a command that a turn sends to another entity: its chain has all entities that
// wait for its answer, its own entity is not one of them, no other command has its key, and its
// deadline is not after the end of the turn's wait.
func (s *shardNode) checkChain(o *turn.SendAsk, b *instance, f *ask) {
	w := s.w
	if slices.Contains(f.chain, f.entity) {
		w.violate("a call cycle is refused", "%v asks %v, which waits for the answer: %v", b.entity, f.entity, f.chain)
	}
	if !slices.Equal(o.Env.Chain, f.chain) {
		w.violate("the chain goes along", "%v asks %v with chain %v, and %v wait for it", b.entity, f.entity, o.Env.Chain, f.chain)
	}
	if o.Env.Deadline.IsZero() || o.Env.Deadline.After(b.askUntil.Add(time.Millisecond)) {
		w.violate("no turn waits beyond its time", "%v may be answered until %v, and its turn must be over at %v", &f.op, o.Env.Deadline, b.deadline)
	}
	if other := w.askKeys[o.Env.ID]; other != nil && other != f {
		w.violate("each ask has a key of its own", "%v asks %v and %v with key %s", b.entity, &f.op, &other.op, o.Env.ID)
	}
	w.askKeys[o.Env.ID] = f
	switch {
	case len(f.chain) > 2:
		w.mark("ask: a chain of three or more")
	case len(f.chain) > 1:
		w.mark("ask: a chain of two")
	}
}

// checkAskDone notes how an ask has ended. If the entity that was asked waits for the turn's own
// answer, the ask must have been refused at once.
func (s *shardNode) checkAskDone(b *instance, f *ask, r *sharding.Reply) {
	w := s.w
	if f.noRoom = f.noRoom || r.Code == sharding.ResourceExhausted; isDeadlock(r) {
		w.mark("ask: a circle is found")
		f.gaveUp = append(f.gaveUp, w.gaveUpNow(f))
	}
	if !slices.Contains(f.chain, f.entity) {
		return
	}
	w.mark("ask: a call cycle is refused")
	if b.askedAt != w.now || r.Outcome != sharding.NotApplied || r.Code != sharding.FailedPrecondition && r.Code != sharding.Aborted {
		w.violate("a call cycle is refused", "%v asks %v, which waits for the answer, and gets %v %s %q after %v", b.entity, f.entity, r.Outcome, r.Code, r.Message, nanos(w.now-b.askedAt))
	}
}

// checkNotMine checks that a draining shard refuses no command whose answer one of its own entities
// waits for: otherwise the drain could not end.
func (s *shardNode) checkNotMine(id turn.RequestID) {
	c := s.callers[id]
	if c.env == nil || len(c.env.Chain) == 0 {
		return
	}
	shard := s.w.shardOf(c.entity)
	for _, b := range s.instances { // order-free: any is a violation
		if b.waitsFor != nil && b.askedAt < s.w.now && b.shard == shard && b.epoch == c.epoch && slices.Contains(c.env.Chain, b.entity) {
			s.w.violate("a draining shard takes what its entities wait for", "%s refuses %s of %v, and %v waits for it", s.p.name, c.key, c.entity, b.entity)
		}
	}
}

// checkReserve checks that commands from outside do not take the places of those that entities
// wait for.
func (s *shardNode) checkReserve(o *turn.Answer) {
	c := s.callers[o.Request]
	if o.Reply.Code != sharding.ResourceExhausted || o.Reply.Message != turn.FullText || len(c.env.Chain) == 0 || s.cfg.ShardCores > 1 {
		return
	}
	s.w.mark("ask: there is no room for a command that an entity waits for")
	type name struct {
		entity sharding.Entity
		key    sharding.CommandID
	}
	chained := map[name]bool{}
	for other, c := range s.callers { // order-free: counts
		if other != o.Request && len(c.env.Chain) > 0 {
			chained[name{c.entity, c.key}] = true
		}
	}
	if kept := s.cfg.Turn.TotalCommands / turn.ReservedShare; len(chained) < kept {
		s.w.violate("a part of the limits is for what entities wait for", "%s refuses %s of %v, and has %d such commands; %d find room", s.p.name, c.key, c.entity, len(chained), kept)
	}
}

// asks checks the commands between entities like clients' commands. It also checks every Forward that
// was answered with success: it must have had its effects on other entities.
func (c *checker) asks() {
	w := c.w
	for _, x := range sortedKeys(w.asks) {
		f := w.asks[x]
		c.neverNotApplied(f)
		if w.volatile(f.entity) {
			continue
		}
		c.effects(&f.op)
		for _, t := range f.tries {
			if t.returned > 0 && t.reply.Outcome == sharding.Executed {
				c.answer(&f.op, t)
			}
		}
		c.sameReplies(&f.op)
		if f.cmd != cmdAdd || f.asker.cmd == cmdRemindAsk {
			continue // a client that has set a reminder is not told what the reminder does
		}
		for _, t := range f.asker.tries {
			if t.returned == 0 || t.reply.Outcome != sharding.Executed || t.reply.Code != "" {
				continue
			}
			if at := c.where[f.x]; len(at) == 0 || c.pasts[f.entity].elements[at[0]-1].at > t.returned {
				w.violate("what is forwarded is done", "%v succeeded, and %v of it took effect at %v", f.asker, &f.op, at)
			}
		}
	}
}

// neverNotApplied checks that no command that caused f is answered as not_applied if f
// has taken effect.
func (c *checker) neverNotApplied(f *ask) {
	if len(c.where[f.x]) == 0 {
		return
	}
	for asker := f.asker; asker != nil; {
		if asker.refused() {
			c.w.violate("who has asked is not undone", "%v was not applied (%s), and %v took effect", asker, asker.tries[len(asker.tries)-1].reply.Message, &f.op)
		}
		next := c.w.asks[asker.x]
		if asker = nil; next != nil {
			asker = next.asker
		}
	}
}

// idleClient is a client that sends only commands of the test.
func (w *World) idleClient(id int) *client { return &client{w: w, id: id, openCommands: neverDone} }

// newForward makes a Forward of a client.
func (c *client) newForward(e sharding.Entity, hold int64) *op {
	o := &op{id: len(c.w.ops) + 1, client: c.id, entity: e, keyed: true, cmd: cmdForward, called: c.w.now, hold: hold}
	o.x = uint64(o.id)
	c.issue(o)
	o.key = sharding.CommandID(fmt.Sprintf("k%d", o.id)) // a key without a time never expires
	return o
}

// shuffled returns the entities that are not damaged, in random order.
func (w *World) shuffled(d dice) (list []sharding.Entity) {
	for _, i := range d.Perm(len(w.entities)) {
		if e := w.entities[i]; w.intact(e) {
			list = append(list, e)
		}
	}
	return list
}

// crowd sends many commands at once.
func (w *World) crowd() {
	d, c := w.dice("crowds"), w.idleClient(len(w.clients)+5)
	for range 20 + d.IntN(20) {
		o := c.newForward(w.entities[d.IntN(len(w.entities))], d.between(0, 50*ms))
		if c.gateway = d.IntN(gateways); d.chance(0.5) {
			o.cmd = cmdAdd
		}
		c.send(o, c.gateway, nanos(d.between(sec, 6*sec)))
	}
}

// drain has an operator drain a region.
func (w *World) drain(id sharding.NodeID) {
	for _, c := range w.activeCoordinators() {
		c.p.post(func() { c.step(coordinator.DrainRegion{Region: id.String()}) })
	}
}

// all reports whether is holds for each element of a list.
func all[T any](list []T, is func(T) bool) bool {
	return !slices.ContainsFunc(list, func(x T) bool { return !is(x) })
}

// drainThrough is a check in calm weather. A shard is drained while one of its entities waits for
// another one, by way of an entity in another shard. The drain must wait until that is over.
func (w *World) drainThrough(stop func() bool) {
	d := w.dice("last drain")
	near, via := w.drawNear(d)
	if stop() || near == nil || d.chance(0.5) {
		return
	}
	c := w.idleClient(len(w.clients) + 4)
	o := c.newForward(near[0], 0)
	ask := w.addAsk(o, near[:1], via, cmdForward)
	ask.hold = 400 * ms
	last := w.addAsk(&ask.op, []sharding.Entity{near[0], via}, near[1], cmdAdd)
	c.send(o, d.IntN(gateways), nanos(10*sec))
	w.run(w.now+150*ms, stop)
	w.drain(w.ownerOf(near[0]))
	drains := false
	for end := w.now + 12*sec; w.now < end && o.pending > 0 && !stop(); {
		w.run(w.now+5*ms, stop)
		drains = drains || ask.waits && w.rowOf(near[0]).Phase == sharding.HandingOff
	}
	w.resumeRegions()
	// A chain that a reminder began may wait for these entities, too: a circle, in which the youngest gives up.
	// A region that is full refuses commands that entities wait for, whether or not a shard is drained (G6), and
	// probes, so that a circle ends by a deadline. Then the first turn fails, and the gateway sends the command again.
	late := w.crowded() && slices.ContainsFunc(last.tries, func(t *try) bool { return t.reply.Code == sharding.DeadlineExceeded })
	if stop() || !drains || len(o.tries) > 1 || len(last.gaveUp) > 0 || ask.noRoom || last.noRoom || late {
		return
	}
	w.mark("ask: a command comes into a shard that drains")
	if t := ask.tries[0]; len(ask.tries) > 1 && (t.returned == 0 || t.reply.Outcome != sharding.Executed) {
		w.violate("a draining shard takes what its entities wait for", "%v took %d turns, while its shard was drained; what the first one asked ended with %v %s %q", o, len(ask.tries), t.reply.Outcome, t.reply.Code, t.reply.Message)
	}
}

// drawNear draws two entities of one shard, and one of another shard. None of them is damaged.
func (w *World) drawNear(d dice) (near []sharding.Entity, via sharding.Entity) {
	list := w.shuffled(d)
	for i, a := range list {
		for _, b := range list[:i] {
			if w.shardOf(a) != w.shardOf(b) {
				continue
			}
			for _, v := range list {
				if w.shardOf(v) != w.shardOf(a) {
					return []sharding.Entity{a, b}, v
				}
			}
		}
	}
	return nil, via
}
