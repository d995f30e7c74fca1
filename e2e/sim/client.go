package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
)

// op is one command as its client knows it, over all its attempts.
type op struct {
	id     int
	client int
	entity sharding.Entity
	cmd    string
	x      uint64 // the number in the payload, unique in the run
	key    sharding.CommandID
	keyed  bool
	tell   bool
	batch  int // items of one batch have the same number; 0: none
	// letter is the dead letter that an operator resolves; nil: none.
	letter  *sharding.DeadLetterInput
	hold    int64 // how much longer its turn takes before it asks
	called  int64
	tries   []*try
	pending int // attempts that have not ended, or are about to be made
}

// try is one attempt of the client: from call to return.
type try struct {
	called, returned int64 // returned 0: not yet
	gateway          int
	incarnation      int // see process.incarnation: of the gateway that took it; 0: none did
	reply            sharding.Reply
	list             list
	told             bool // list was in the reply
}

// acknowledged reports whether an attempt was answered with success.
func (o *op) acknowledged() bool {
	return slices.ContainsFunc(o.tries, func(t *try) bool { return t.returned > 0 && t.reply.Outcome == sharding.Executed })
}

// returned reports whether an attempt has returned. The client may have sent the command again nevertheless.
func (o *op) returned() bool {
	return slices.ContainsFunc(o.tries, func(t *try) bool { return t.returned > 0 })
}

// refused reports whether every attempt was answered with a refusal, so that the command has
// had no effect.
func (o *op) refused() bool {
	return len(o.tries) > 0 && !slices.ContainsFunc(o.tries, func(t *try) bool { return t.returned == 0 || t.reply.Outcome != sharding.NotApplied })
}

func (o *op) String() string {
	return fmt.Sprintf("op %d: %s %v %x key %q", o.id, o.cmd, o.entity, o.x, o.key)
}

// client sends one command or batch at a time and waits for all answers.
type client struct {
	w            *World
	id           int
	gateway      int
	openCommands int // of the current round: those that have not ended; at 0 the next round begins
	stopped      bool
	wall         int64 // error of its clock
}

// neverDone is the value of client.openCommands for a client that only sends commands of the test.
// It is so large that openCommands never falls to 0, so no round of the client's own begins.
const neverDone = 1 << 30

// entities are few, so that they are hot.
func entities() []sharding.Entity {
	var list []sharding.Entity
	for i, t := range types {
		for k := range []int{4, 5, 2}[i] {
			id := fmt.Sprintf("e%d", k)
			if t.Rule.Separator != "" { // two have the same part, one lacks it
				id = [3]string{id, fmt.Sprintf("%s-%d", id, k/3), fmt.Sprintf("%s-%d-x", id, k/3)}[k%3]
			}
			list = append(list, sharding.Entity{Type: t.Type, ID: sharding.EntityID(id)})
		}
	}
	return list
}

// think waits a while and then calls.
func (c *client) think() {
	d := c.w.dice("client")
	pause := d.exp(c.w.weather.Think)
	if d.chance(0.01) {
		pause += d.between(0, 3*sec) // long enough for entities to be passivated
	}
	c.w.after(pause, c.call)
}

func (c *client) call() {
	w, d := c.w, c.w.dice("client")
	if w.calm {
		c.stopped = true
		return
	}
	if d.chance(0.1) {
		c.gateway = d.IntN(gateways)
	}
	n, batch := 1, 0
	if d.chance(0.12) {
		n = 2 + d.IntN(5)
		w.batches++
		batch = w.batches
	}
	all := w.entities
	if c.oldKey() {
		return
	}
	entity := all[min(d.IntN(len(all)), d.IntN(len(all)))]
	keyed := d.chance(0.7)
	patience := nanos(100*ms + d.exp(w.weather.Patience))
	c.openCommands = n
	for range n {
		o := c.draw(entity, keyed, batch)
		o.called = w.now
		if batch != 0 && d.chance(0.3) {
			entity = all[d.IntN(len(all))]
		}
		c.send(o, c.gateway, patience)
	}
	first := w.ops[len(w.ops)-1]
	if first.letter != nil {
		c.secondOperator(first, patience)
	} else if d := w.dice("conflict"); n == 1 && keyed && d.chance(0.03) {
		c.openCommands++
		w.after(d.exp(100*ms), func() { c.conflict(first, patience) })
	}
}

// conflict uses the key of another command once more. One of the two has the
// key, the other one is refused.
func (c *client) conflict(first *op, patience time.Duration) {
	w := c.w
	w.mark("client: key of another command")
	o := c.draw(first.entity, true, 0)
	o.entity, o.letter = first.entity, nil
	o.cmd, o.tell, o.key, o.called = cmdAdd, false, first.key, w.now
	c.send(o, w.dice("conflict").IntN(gateways), patience)
}

// draw makes up a command.
func (c *client) draw(entity sharding.Entity, keyed bool, batch int) *op {
	w, d := c.w, c.w.dice("client")
	o := &op{id: len(w.ops) + 1, client: c.id, entity: entity, batch: batch, keyed: keyed}
	o.x = uint64(o.id)
	switch r := d.Float64(); {
	case r < 0.55:
		o.cmd = cmdAdd
	case r < 0.82:
		o.cmd = cmdGet
	case r < 0.88:
		o.cmd = cmdAdd2
	case r < 0.92:
		o.cmd = cmdFail
	case r < 0.94:
		o.cmd = cmdPanic
	case r < 0.97:
		o.cmd = cmdQuit
	default:
		o.cmd = cmdTimer
	}
	if harsh := &w.weather.Harsh; o.cmd == cmdGet && w.dice("stale").chance(harsh.Stale) {
		o.cmd = cmdPeek
	} else if o.cmd == cmdTimer && w.dice("timers").chance(harsh.Later) {
		o.cmd = cmdLater
	}
	if d := w.dice("reminders"); (o.cmd == cmdTimer || o.cmd == cmdLater || o.cmd == cmdAdd && d.chance(0.1)) && d.chance(w.weather.Harsh.Remind) {
		o.cmd = []string{cmdRemind, cmdRemind, cmdRepeat, cmdCancel}[d.IntN(4)]
	}
	if o.cmd == cmdRemind && w.mayRemindAsk() && w.dice("reminders that ask").chance(0.5) {
		o.cmd = cmdRemindAsk
	}
	if (o.cmd == cmdTimer || o.cmd == cmdLater || o.cmd == cmdAdd) && w.dice("sends").chance(w.weather.Harsh.Send) {
		o.cmd = cmdSend
	}
	if adds(o.cmd) && keyed && w.dice("forwards").chance(w.weather.Harsh.Forward) {
		o.cmd = cmdForward
	}
	if o.cmd == cmdQuit && w.weather.Remember && w.dice("forget").chance(0.4) {
		o.cmd = cmdForget
	}
	o.tell = o.cmd == cmdAdd && d.chance(0.04)
	if keyed && batch == 0 {
		c.dealWithDeadLetter(o)
	}
	if d := w.dice("deletes"); o.cmd != cmdGet && o.cmd != cmdPeek && o.letter == nil && batch == 0 && !w.volatile(entity) && d.chance(w.weather.Harsh.Delete) {
		if o.cmd = cmdDelete; keyed && d.chance(0.5) {
			o.cmd = sharding.DeleteCommand
		}
		o.tell = false
	}
	if d := w.dice("callers of versions"); o.cmd == cmdAdd && !o.tell && d.chance(w.weather.Newer) {
		o.cmd = cmdOfVersion(d.IntN(versions))
	}
	c.issue(o)
	return o
}

// issue gives a command its key.
func (c *client) issue(o *op) {
	w := c.w
	if o.keyed {
		o.key = sharding.CommandID(fmt.Sprintf("k%d", o.id))
		if w.dice("keys").chance(w.weather.Harsh.Timed) {
			o.key = c.timedKey(o.id)
		}
	} else {
		o.key = sharding.CommandID(fmt.Sprintf("~%d", o.id)) // the gateway's name for it
	}
	if o.letter != nil {
		w.letters[o.key] = o
	}
	w.ops = append(w.ops, o)
	w.byID[o.x] = o
}

// send makes one attempt through a gateway.
func (c *client) send(o *op, gw int, patience time.Duration) {
	w, d := c.w, c.w.dice("client")
	t := &try{called: w.now, gateway: gw}
	o.tries = append(o.tries, t)
	o.pending++
	p := w.gatewayProcess(gw)
	env := sharding.Envelope{
		Entity: o.entity, Command: o.cmd, ID: o.key, Keyed: o.keyed, Tell: o.tell, Payload: o.payload(),
		Principal: fmt.Sprintf("client-%d", c.id),
	}
	attempt := &call{op: o}
	attempt.reply = func(f router.Finish) {
		t.reply = f.Reply
		t.list, t.told = decodeList(f.Reply.Payload)
		w.after(50_000, func() { c.returned(o, t) })
	}
	refused := func() {
		attempt.reply(router.Finish{Reply: sharding.Reject(sharding.Unavailable, "connection refused")})
	}
	w.after(50_000, func() {
		if !p.up {
			refused()
			return
		}
		incarnation := p.incarnation
		p.unread = append(p.unread, refused)
		p.post(func() {
			if p.incarnation == incarnation {
				p.unread = p.unread[1:]
				t.incarnation = incarnation
				p.body.(*gatewayNode).submit(env, patience, attempt)
			}
		})
	})
	if o.keyed && !o.tell && d.chance(0.03) && len(o.tries) < 4 {
		w.mark("client: same key through another gateway at the same time")
		o.pending++
		w.after(d.exp(50*ms), func() {
			o.pending--
			c.send(o, (gw+1)%gateways, patience)
		})
	}
}

// returned is the end of one attempt.
func (c *client) returned(o *op, t *try) {
	w, d := c.w, c.w.dice("client")
	t.returned = w.now
	o.pending--
	w.mark("client: " + t.reply.Outcome.String())
	w.contained(o, &t.reply)
	if _, timed := journal.KeyTime(o.key); timed && t.reply.Code == sharding.KeyExpired {
		w.mark("client: its key has expired")
	}
	if o.cmd == cmdPeek && t.told {
		w.mark("client: stale read")
	}
	w.mix(uint64(o.id)<<8 | uint64(t.reply.Outcome))
	if w.traceTo != nil {
		w.trace(nil, "CLIENT", fmt.Sprintf("%v: %v %s %q n=%d", o, t.reply.Outcome, t.reply.Code, t.reply.Message, t.list.n))
	}
	if o.pending > 0 {
		return
	}
	again := 0.0
	switch t.reply.Outcome {
	case sharding.NotApplied:
		again = 0.6
	case sharding.Unknown:
		again = 0.8
	case sharding.Executed:
		again = 0.04
	}
	if o.keyed && len(o.tries) < 6 && !w.calm && d.chance(again) {
		w.mark("client: same key again after " + t.reply.Outcome.String())
		gw := c.gateway
		if d.chance(0.3) {
			gw = d.IntN(gateways)
		}
		o.pending++
		patience := nanos(100*ms + d.exp(w.weather.Patience))
		w.after(d.exp(100*ms), func() {
			o.pending--
			c.send(o, gw, patience)
		})
		return
	}
	if c.openCommands--; c.openCommands == 0 {
		c.think()
	}
}
