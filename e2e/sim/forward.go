package sim

import (
	"fmt"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/region"
)

// In the harsh climate entities ask others: see chains.go. The region has a router of its own for
// the commands of its entities. The entity core determines the time at which such a command may
// leave, and its key.

// newRegionRouter makes the router of a region. Its times are so short that links are closed
// and made again within a run. It may have so little room that it refuses probes.
func newRegionRouter(w *World, crowded bool) *router.Machine {
	cfg := router.DefaultConfig()
	cfg.Process, cfg.Fed = "region", true
	cfg.DefaultTimeout, cfg.MaxTimeout, cfg.LinkIdle = nanos(2*sec), nanos(2*sec), nanos(3*sec)
	if crowded {
		cfg.MaxWaiting, cfg.MaxTotal = 2, 6
	}
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	return router.New(cfg)
}

// startRouter makes the region's router with the first command of an entity.
func (n *regionNode) startRouter() {
	if n.router != nil {
		return
	}
	n.crowdedRouter = n.w.dice("router limits").chance(0.2)
	n.router = newRouterNode(n.w, n.p, newRegionRouter(n.w, n.crowdedRouter))
	n.router.here = &routerLink{w: n.w, router: n.router, region: n, to: n.p.id(), regionOpen: true}
	n.links = append(n.links, n.router.here)
	n.stepControl(region.FeedRouter{})
}

// isLocal reports whether this is the way from a region's router into the inbox of the same region,
// and not a link over the network. On this way nothing gets lost, and the order is kept.
func (l *routerLink) isLocal() bool { return l.router.here == l }

// connectHere opens the way into the region's own inbox.
func (g *routerNode) connectHere() {
	g.numbers++
	g.here.routerOpen, g.here.number = true, g.numbers
	g.sender.Up(router.LinkUp{Region: g.p.id(), Link: g.numbers}, g.here)
}

// ask makes the turn of a Forward send its commands, one after the other.
func (s *shardNode) ask(o *turn.Run, b *instance) {
	b.toAsk, b.firstAsked = s.w.asksOf(o.Env), s.w.now
	b.deadline = o.Env.Deadline
	s.askNext(o.Incarnation, b)
}

func (s *shardNode) askNext(inc turn.Incarnation, b *instance) {
	f := b.toAsk[0]
	b.toAsk = b.toAsk[1:]
	s.lastAsk++
	b.waitsFor, b.askedAt, b.askUntil = f, s.w.now, s.answerBy(b.deadline)
	s.asking[s.lastAsk] = b
	s.stepTurn(turn.Ask{
		Incarnation: inc, Turn: b.turn, Number: s.lastAsk, Target: f.entity, Command: f.cmd, Payload: number(f.x),
	})
}

// sendAsk sends a command that a turn asks for. It first checks that the command may leave.
func (s *shardNode) sendAsk(o *turn.SendAsk) {
	w, b := s.w, s.instances[o.Incarnation]
	if b == nil || b.waitsFor == nil {
		w.violate("no ask of an ended incarnation", "%s sends %v, and the incarnation that asks has ended", s.p.name, o.Env)
		return
	}
	f := b.waitsFor
	s.checkAsk(o, b, f)
	s.startRouter()
	t := &try{called: w.now}
	f.tries = append(f.tries, t)
	f.waits, f.since = true, s.p.now()
	if f.firstAsked == 0 || b.askedAt < f.firstAsked {
		f.firstAsked = b.askedAt
	}
	inc, number := o.Incarnation, o.Number
	s.router.route(o.Env, &call{op: &f.op, reply: func(answer router.Finish) {
		if t.returned != 0 {
			w.violate("one outcome", "%s: the command that %v sends is answered twice", s.p.name, b.entity)
		}
		t.returned, t.reply = w.now, answer.Reply
		t.list, t.told = decodeList(answer.Reply.Payload)
		switch {
		case answer.Region == s.p.id():
			w.mark("forward: answered by the same region")
		case !answer.Region.IsZero():
			w.mark("forward: answered by another region")
		}
		w.mark("forward: " + answer.Reply.Outcome.String())
		s.stepTurn(turn.AskAnswered{Incarnation: inc, Number: number, Reply: answer.Reply})
	}})
}

// checkAsk checks three things about a changing ask: it reveals no state that may still be lost, it
// does not come from an owner that was deposed before the turn asked, and it has the same key as in
// earlier runs of the command.
func (s *shardNode) checkAsk(o *turn.SendAsk, b *instance, f *ask) {
	w := s.w
	s.checkChain(o, b, f)
	if f.key == "" {
		f.key = o.Env.ID
	}
	if f.key != o.Env.ID {
		w.violate("an ask keeps its key", "%v asks %v with key %s, and before that with %s", b.entity, f.entity, o.Env.ID, f.key)
	}
	if w.volatile(b.entity) {
		return
	}
	if got, err := w.journal.load(journal.LoadRequest{Entity: b.entity}); err == nil {
		if stored := replay(got); b.list.life == stored.life && (b.list.n > stored.n || b.list.n == stored.n && b.list != stored) {
			w.violate("an ask follows from what is durable", "%v asks with %d elements, and %d are stored", b.entity, b.list.n, stored.n)
		}
	}
	if top := w.journal.highest[b.shard]; top.Epoch > b.epoch && w.journal.claimedAt[b.shard] < b.firstAsked {
		w.violate("no ask of a deposed owner", "%v asks at epoch %v, and %v was claimed at epoch %v before", b.entity, b.epoch, b.shard, top.Epoch)
	}
}

// sendProbe sends a probe. No caller waits for its answer. Some probes get lost, some come late, and
// some come twice.
func (s *shardNode) sendProbe(o turn.SendProbe) {
	s.startRouter()
	d := s.w.dice("probes")
	send := func() {
		s.lastAsk++
		s.w.mark("ask: a probe is sent")
		env := o.Env
		env.ID = sharding.CommandID(fmt.Sprintf("~probe %s %d %d", s.p.name, s.index, s.lastAsk))
		s.router.route(env, &call{readOnly: true, op: &op{client: forwarderID, entity: env.Entity, cmd: env.Command, key: env.ID}, reply: func(router.Finish) {}})
	}
	switch r := d.Float64(); {
	case r < 0.03 || s.w.losesTurnProbes:
	case r < 0.1 && !s.w.calm:
	case r < 0.2 && !s.w.calm:
		s.w.after(d.between(0, 500*ms), s.p.ifAlive(send))
	case r < 0.3:
		s.w.after(d.between(0, 50*ms), s.p.ifAlive(send))
		send()
	default:
		send()
	}
}

// withdraw withdraws the ask of a turn whose context has ended. The turn still waits for the
// AskDone.
func (s *shardNode) withdraw(inc turn.Incarnation, b *instance) {
	for _, number := range sortedKeys(s.asking) {
		if s.asking[number] == b {
			s.w.mark("ask: it is withdrawn")
			s.stepTurn(turn.WithdrawAsk{Incarnation: inc, Number: number})
		}
	}
}

// askDone continues the turn that waits for an answer. Nothing else continues such a turn.
func (s *shardNode) askDone(o turn.AskDone) {
	b := s.asking[o.Number]
	if b == nil {
		s.w.violate("an ask has one answer", "%s: %+v has no waiting caller", s.p.name, o)
		return
	}
	delete(s.asking, o.Number)
	f := b.waitsFor
	b.waitsFor, f.waits = nil, false
	b.lastAnswer = o.Reply
	if s.instances[o.Incarnation] != b {
		s.w.mark("ask: of a turn whose result is not wanted")
		s.w.after(s.w.dice("turn").exp(5*ms), b.endAsking)
		return
	}
	s.checkAskDone(b, f, &o.Reply)
	if o.Reply.Outcome == sharding.Executed && o.Reply.Code == "" && len(b.toAsk) > 0 {
		s.askNext(o.Incarnation, b)
		return
	}
	b.endAsking()
}

// forwardDone returns how the turn of a Forward ends, after the last answer to its commands. The
// entity of the turn does not change. During the storm some turns fail, although they may have
// changed the other entity.
func (w *World) forwardDone(l list, env *sharding.Envelope, answer *sharding.Reply) turn.TurnDone {
	x := decodeNumber(env.Payload)
	switch failed := answer.Outcome != sharding.Executed || answer.Code != ""; {
	case failed && x%2 == 0 && (x == ofReminder(x) || !w.calm), (x+x>>50)%8 == 3 && !w.calm:
		return turn.TurnDone{Reply: sharding.Reject(sharding.Internal, "the turn fails")}
	case failed:
		return turn.TurnDone{Reply: sharding.Reply{Outcome: sharding.Executed, Code: sharding.Aborted, Message: fmt.Sprintf("%v %s: %s", answer.Outcome, answer.Code, answer.Message)}}
	}
	return turn.TurnDone{Reply: sharding.Reply{Outcome: sharding.Executed, Payload: l.encode()}}
}
