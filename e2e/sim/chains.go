package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/coordinator"
)

// The turn of a Forward asks another entity to add a number, or to forward on, and so on: a chain.
// What it asks is planned with the client's command, and is the same whenever the command runs
// again. By the plan the checks know who waits for whom, without the chains that commands carry.

// forward is a command that the turn of a Forward sends.
type forward struct {
	op
	asker   *op               // whose turn sends it
	chain   []sharding.Entity // who waits for the answer; the asker's entity is the last one
	waits   bool              // a turn waits for the answer now
	since   time.Time         // when it began to, by the clock of its process
	came    bool              // the command has come to the region of its entity
	ran     bool              // it has had a turn
	refused bool              // a turn was told that the command was refused
	// deadlocks are how often a turn was told that it waits in a circle.
	deadlocks int
	// firstAsked is when a turn asked for it whose ask was sent, the earliest one.
	firstAsked int64
}

// forwarderID is the client of commands between entities.
const forwarderID = -1

// planned is the number of the n-th command that is planned with a client's command.
func planned(x uint64, n int) uint64 { return x&(1<<50-1) | 1<<60 | uint64(n)<<50 }

// longestPlan is how long a chain is at most.
const longestPlan = 6

// asksOf returns what the turn of a Forward asks, in order.
func (w *World) asksOf(env *sharding.Envelope) []*forward {
	x := ofReminder(decodeNumber(env.Payload))
	if w.asks[x] == nil {
		w.plan(w.byID[x], nil)
	}
	return w.asks[x]
}

// plan draws what the turn of a Forward asks, for which others wait.
func (w *World) plan(asker *op, waiting []sharding.Entity) {
	d, chain := w.dice("chains"), append(slices.Clip(waiting), asker.entity)
	to := w.drawAsked(d, chain)
	switch {
	case !slices.Contains(chain, to) && len(chain) < longestPlan && d.chance(0.4):
		w.plan(&w.addForward(asker, chain, to, cmdForward).op, chain)
	case d.chance(0.2):
		w.addForward(asker, chain, to, cmdAdd)
		fallthrough
	default:
		w.addForward(asker, chain, to, cmdAdd)
	}
}

// drawAsked draws whom a turn asks: now and then somebody who waits for its answer, which must be
// refused, and often somebody in the same shard.
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

// addForward adds a command to the plan of a turn.
func (w *World) addForward(asker *op, chain []sharding.Entity, to sharding.Entity, cmd string) *forward {
	n := 1
	for w.forwards[planned(asker.x, n)] != nil {
		n++
	}
	x := planned(asker.x, n)
	f := &forward{op: op{id: int(x), client: forwarderID, entity: to, cmd: cmd, x: x, keyed: true, called: w.now}, asker: asker, chain: chain}
	w.forwards[x] = f
	w.asks[asker.x] = append(w.asks[asker.x], f)
	return f
}

// answerBy is when a turn that asks now must have the answer, or be told that there is none.
func (n *shardNode) answerBy(deadline time.Time) time.Time {
	now := n.p.now()
	if deadline.IsZero() {
		return now.Add(askTimeout)
	}
	return now.Add(time.Duration(float64(max(0, deadline.Sub(now))) * 0.8))
}

// askTimeout is how long a turn without a deadline waits.
const askTimeout = time.Second

// checkWaits checks that no turn waits longer than it may.
func (n *shardNode) checkWaits() {
	now := n.p.now()
	for _, b := range n.instances { // order-free: any is a violation
		if b.asks != nil && now.Sub(b.askUntil) > overdue {
			n.w.violate("no turn waits beyond its time", "%s: %v waits for %v, %v longer than it may", n.p.name, b.entity, &b.asks.op, now.Sub(b.askUntil))
		}
	}
}

// checkChain checks that who waits is told along with a command, that nobody is asked who waits for
// the answer, that each command has a key of its own, and that it must be answered before the turn
// that asks.
func (n *shardNode) checkChain(o *turn.SendAsk, b *instance, f *forward) {
	w := n.w
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

// isDeadlock reports whether a reply says that a turn waits in a circle.
func isDeadlock(r *sharding.Reply) bool {
	return r.Code == sharding.Aborted && strings.HasPrefix(r.Message, "deadlock")
}

// checkAskDone checks how the ask of a turn ends that would close its own chain: at once.
func (n *shardNode) checkAskDone(b *instance, f *forward, r *sharding.Reply) {
	w := n.w
	if f.refused = f.refused || r.Outcome == sharding.Rejected; isDeadlock(r) {
		w.mark("ask: a circle is found")
		f.deadlocks++
	}
	if !slices.Contains(f.chain, f.entity) {
		return
	}
	w.mark("ask: a call cycle is refused")
	if b.askedAt != w.now || r.Outcome != sharding.Rejected || r.Code != sharding.FailedPrecondition && r.Code != sharding.Aborted {
		w.violate("a call cycle is refused", "%v asks %v, which waits for the answer, and is told %v %s %q after %v", b.entity, f.entity, r.Outcome, r.Code, r.Message, nanos(w.now-b.askedAt))
	}
}

// checkNotMine checks that a shard which drains refuses no command for which one of its entities
// waits: it could not end otherwise.
func (n *shardNode) checkNotMine(id turn.RequestID) {
	c := n.callers[id]
	if c.env == nil || len(c.env.Chain) == 0 {
		return
	}
	shard := n.w.shardOf(c.entity)
	for _, b := range n.instances { // order-free: any is a violation
		if b.asks != nil && b.askedAt < n.w.now && b.shard == shard && b.epoch == c.epoch && slices.Contains(c.env.Chain, b.entity) {
			n.w.violate("a draining shard takes what its entities wait for", "%s refuses %s of %v, and %v waits for it", n.p.name, c.key, c.entity, b.entity)
		}
	}
}

// checkReserve checks that commands from outside do not take the places of those that entities
// wait for.
func (n *shardNode) checkReserve(o *turn.Answer) {
	c := n.callers[o.Request]
	if o.Reply.Code != sharding.ResourceExhausted || o.Reply.Message != turn.TooMuchWaits || len(c.env.Chain) == 0 || n.cfg.ShardCores > 1 {
		return
	}
	n.w.mark("ask: there is no room for a command that an entity waits for")
	type name struct {
		entity sharding.Entity
		key    sharding.CommandID
	}
	chained := map[name]bool{}
	for other, c := range n.callers { // order-free: counts
		if other != o.Request && len(c.env.Chain) > 0 {
			chained[name{c.entity, c.key}] = true
		}
	}
	if kept := n.cfg.Turn.TotalCommands / turn.ReservedShare; len(chained) < kept {
		n.w.violate("a part of the limits is for what entities wait for", "%s refuses %s of %v, and has %d such commands; %d find room", n.p.name, c.key, c.entity, len(chained), kept)
	}
}

// forwards checks the commands between entities like those of clients, and that who was told that
// a Forward has succeeded can rely on what it has done elsewhere.
func (c *checker) forwards() {
	w := c.w
	for _, x := range sortedKeys(w.forwards) {
		f := w.forwards[x]
		c.neverRejected(f)
		if w.volatile(f.entity) {
			continue
		}
		c.effects(&f.op)
		for _, t := range f.tries {
			if t.returned > 0 && t.reply.Outcome == sharding.OK {
				c.answer(&f.op, t)
			}
		}
		c.sameReplies(&f.op)
		if f.cmd != cmdAdd || f.asker.cmd == cmdRemindAsk {
			continue // who has set a reminder is not told what becomes of it
		}
		for _, t := range f.asker.tries {
			if t.returned == 0 || t.reply.Outcome != sharding.OK || t.reply.Code != "" {
				continue
			}
			if at := c.where[f.x]; len(at) == 0 || c.pasts[f.entity].elements[at[0]-1].at > t.returned {
				w.violate("what is forwarded is done", "%v succeeded, and %v of it took effect at %v", f.asker, &f.op, at)
			}
		}
	}
}

// neverRejected checks that nobody is told that nothing has happened if the command has changed
// another entity.
func (c *checker) neverRejected(f *forward) {
	if len(c.where[f.x]) == 0 {
		return
	}
	for asker := f.asker; asker != nil; {
		if asker.refused() {
			c.w.violate("who has asked is not undone", "%v was rejected (%s), and %v took effect", asker, asker.tries[len(asker.tries)-1].reply.Message, &f.op)
		}
		next := c.w.forwards[asker.x]
		if asker = nil; next != nil {
			asker = next.asker
		}
	}
}

// idleClient is a client that sends only what it is told to send.
func (w *World) idleClient(id int) *client { return &client{w: w, id: id, open: neverDone} }

// newForward makes a Forward of a client.
func (c *client) newForward(e sharding.Entity, hold int64) *op {
	o := &op{id: len(c.w.ops) + 1, client: c.id, entity: e, keyed: true, cmd: cmdForward, called: c.w.now, hold: hold}
	o.x = uint64(o.id)
	c.issue(o)
	o.key = sharding.CommandID(fmt.Sprintf("k%d", o.id)) // it has no time, so it is not too old
	return o
}

// circle makes Forwards that wait for each other in a circle of entities, if their turns run at the
// same time: each asks the next entity, or the first one asks along a chain and another one asks
// back.
func (c *client) circle(list []sharding.Entity, along bool, hold int64) (sent []*op, waits []*forward) {
	w, last := c.w, len(list)-1
	if !along {
		for i, e := range list {
			o := c.newForward(e, hold)
			sent, waits = append(sent, o), append(waits, w.addForward(o, []sharding.Entity{e}, list[(i+1)%len(list)], cmdAdd))
		}
		return sent, waits
	}
	back := c.newForward(list[last], hold)
	waits = append(waits, w.addForward(back, list[last:], list[0], cmdAdd))
	first := c.newForward(list[0], 0)
	asker := first
	for i := range last {
		cmd := cmdForward
		if i+1 == last {
			cmd = cmdAdd
		}
		f := w.addForward(asker, list[:i+1], list[i+1], cmd)
		asker, waits = &f.op, append(waits, f)
	}
	return []*op{back, first}, waits
}

// drawCircle draws two to five entities, of those that are not damaged.
func (w *World) drawCircle(d dice) []sharding.Entity {
	list := w.shuffled(d)
	return list[:min(len(list), 2+d.IntN(4))]
}

// shuffled are the entities that are not damaged, in any order.
func (w *World) shuffled(d dice) (list []sharding.Entity) {
	for _, i := range d.Perm(len(w.entities)) {
		if e := w.entities[i]; w.intact(e) {
			list = append(list, e)
		}
	}
	return list
}

// sendCircle sends commands that probably end up waiting for each other.
func (w *World) sendCircle() {
	d := w.dice("circles")
	list := w.drawCircle(d)
	if len(list) < 2 {
		return
	}
	c := w.idleClient(len(w.clients) + 2)
	sent, _ := c.circle(list, d.chance(0.5), d.between(0, 100*ms))
	for _, o := range sent {
		c.gateway = d.IntN(gateways)
		c.send(o, c.gateway, nanos(d.between(sec, 6*sec)))
	}
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
		c.p.post(func() { c.step(coordinator.DrainRegion{Region: id}) })
	}
}

// closeCircle is a check when nothing fails any more: turns that wait for each other in a circle
// find that out, even if a shard on the way drains, and the youngest of them gives up.
func (w *World) closeCircle(stop func() bool) {
	d := w.dice("last circle")
	list := w.drawCircle(d)
	if stop() || len(list) < 2 {
		return
	}
	c := w.idleClient(len(w.clients) + 3)
	sent, waits := c.circle(list, d.chance(0.5), 300*ms)
	for _, o := range sent {
		c.send(o, d.IntN(gateways), nanos(10*sec))
	}
	closed, youngest, drains := false, (*forward)(nil), d.chance(0.3)
	over := func(o *op) bool { return o.pending == 0 }
	for end := w.now + 12*sec; w.now < end && !stop() && !all(sent, over); {
		w.run(w.now+5*ms, stop)
		if !closed && all(waits, func(f *forward) bool { return f.waits && f.came && !f.ran }) {
			closed = true
			youngest = slices.MaxFunc(waits, func(a, b *forward) int {
				return cmp.Or(a.since.Compare(b.since), a.asker.entity.Compare(b.asker.entity))
			})
			if drains {
				w.drain(w.ownerOf(list[0]))
			}
		}
	}
	w.resumeRegions()
	if stop() || !closed {
		return
	}
	w.mark("ask: a circle in calm weather")
	found := 0
	for _, f := range waits {
		found += f.deadlocks
		if f.refused { // for lack of room, for example
			return
		}
	}
	crowded := slices.ContainsFunc(w.processes, func(p *process) bool { // there may be no room for probes
		n, ok := p.body.(*regionNode)
		return ok && (n.crowdedRouter || n.replyBudget != nil)
	})
	if found == 0 && !crowded || youngest.deadlocks != found { // it may run, and give up, again at once
		w.violate("a circle ends by its youngest turn", "%d turns of %v gave up, of which %d is that of %v, which began to wait last", found, list, youngest.deadlocks, youngest.asker.entity)
	}
}

// all reports whether something is true of all in a list.
func all[T any](list []T, is func(T) bool) bool {
	return !slices.ContainsFunc(list, func(x T) bool { return !is(x) })
}

// drainThrough is a check when nothing fails any more: a shard is drained while one of its entities
// waits for another one of its entities, by way of a third one. The drain waits for that.
func (w *World) drainThrough(stop func() bool) {
	d := w.dice("last drain")
	near, via := w.drawNear(d)
	if stop() || near == nil || d.chance(0.5) {
		return
	}
	c := w.idleClient(len(w.clients) + 4)
	o := c.newForward(near[0], 0)
	ask := w.addForward(o, near[:1], via, cmdForward)
	ask.hold = 400 * ms
	w.addForward(&ask.op, []sharding.Entity{near[0], via}, near[1], cmdAdd)
	c.send(o, d.IntN(gateways), nanos(10*sec))
	w.run(w.now+150*ms, stop)
	w.drain(w.ownerOf(near[0]))
	drains := false
	for end := w.now + 12*sec; w.now < end && o.pending > 0 && !stop(); {
		w.run(w.now+5*ms, stop)
		drains = drains || ask.waits && w.rowOf(near[0]).Phase == sharding.HandingOff
	}
	w.resumeRegions()
	if stop() || !drains || len(o.tries) > 1 {
		return
	}
	w.mark("ask: a command comes into a shard that drains")
	if t := ask.tries[0]; len(ask.tries) > 1 && (t.returned == 0 || t.reply.Outcome != sharding.OK) {
		w.violate("a draining shard takes what its entities wait for", "%v took %d turns, while its shard was drained; what the first one asked ended with %v %s %q", o, len(ask.tries), t.reply.Outcome, t.reply.Code, t.reply.Message)
	}
}

// drawNear draws two entities of one shard and one of another shard, of those that are not damaged.
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
