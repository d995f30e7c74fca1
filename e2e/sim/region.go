package sim

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/replies"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/gateway"
	"github.com/roost-cluster/roost/services/region"
)

// regionNode is the driver of a region: links, group commit, entity code.
type regionNode struct {
	p           *process
	w           *World
	version     int // of the program
	cfg         region.Config
	control     *region.ControlCore
	shards      []*shardNode
	member      *member
	replyBudget *replyBudget // nil: the memory of replies is not simulated
	out         []region.ControlOutput
	group       group
	readers     *link.Readers[*gatewayLink]
	links       []*gatewayLink // open ones, and some that were closed
	next        turn.RequestID
	tickets     map[turn.RequestID]ticket
	stopped     map[sharding.ShardID]sharding.Epoch // the highest epoch with which ShardStopped was sent
	term        sharding.Term                       // the highest term of a message that came from a coordinator
	calls       calls
	newestLoad  map[sharding.Entity]pendingLoad // the newest load of each entity that has no answer
	loads       map[sharding.Entity]int         // the number of all loads without an answer, also those given up
	ticked      bool
	leaving     bool
	leaveBy     time.Time // while leaving: when it leaves even with shards that are not handed off
	left        bool
}

// shardNode is the driver of one shard core.
type shardNode struct {
	*regionNode
	index     int
	core      *region.ShardCore
	outputs   region.Outputs // the outputs of its steps that are not performed yet
	instances map[turn.Incarnation]*instance
	toCore    lastArrival
	fromCore  lastArrival
}

// lastArrival is the time at which the last message from one core to another arrives. Each
// core runs on its own goroutine: it takes its messages after a delay, and in their order.
type lastArrival int64

// carry delivers a message between two cores after a delay.
func (n *regionNode) carry(last *lastArrival, arrive func()) {
	w, d := n.w, n.w.dice("cores")
	delay := d.exp(w.weather.Between)
	if d.chance(0.01) { // the goroutine has no processor for a while
		delay += d.between(0, 20*w.weather.Between)
	}
	*last = max(*last+1, lastArrival(w.now+delay))
	w.after(int64(*last)-w.now, n.p.ifAlive(arrive))
}

// ticket remembers where the answer to a command goes.
type ticket struct {
	link    *gatewayLink
	attempt gateway.Attempt
	key     sharding.CommandID
	entity  sharding.Entity
	epoch   sharding.Epoch // at which it was routed
	due     time.Time
	env     *sharding.Envelope
	room    replies.Ticket
}

// entityLoads is how many loads of an entity may be without an answer: so few that
// a journal that hangs makes a region refuse commands.
const entityLoads = 2

// pendingLoad is a load that the journal has not answered.
type pendingLoad struct {
	turn.Load
	began time.Time
}

// instance is an incarnation of an entity.
type instance struct {
	entity  sharding.Entity
	list    list
	running bool
	request turn.RequestID
	cancel  func()
	idle    int64 // since when, if it does not run
	timer   bool  // its timer has not fired
	quits   bool  // it has asked for passivation
}

func (w *World) regionProgram(p *process) program {
	n := &regionNode{
		p: p, w: w,
		readers:    link.NewReaders[*gatewayLink](),
		tickets:    map[turn.RequestID]ticket{},
		stopped:    map[sharding.ShardID]sharding.Epoch{},
		calls:      newCalls(w, p),
		newestLoad: map[sharding.Entity]pendingLoad{},
		loads:      map[sharding.Entity]int{},
	}
	if w.weather.Harsh.PerByte > 0 {
		n.replyBudget = &replyBudget{budget: replies.NewBudget(replyLimits), estimates: map[string]*replies.SizeEstimate{}}
		n.replyBudget.refusals.Learn(replies.Overhead)
	}
	n.group = group{s: w.journal, p: p}
	n.version = w.versionOf(p)
	n.cfg = regionConfig(w, p, n.version)
	n.control = region.NewControlCore(n.cfg)
	for i := range n.cfg.ShardCores {
		n.shards = append(n.shards, &shardNode{
			regionNode: n, index: i, core: region.NewShardCore(n.cfg, i), instances: map[turn.Incarnation]*instance{},
		})
	}
	n.member = newMember(w, p, roleRegion, func(memberChange) {})
	p.post(func() { n.stepControl(region.Coordinators{Addrs: w.discovered()}) })
	return n
}

// stepControl steps the control core.
func (n *regionNode) stepControl(in region.ControlInput) {
	n.w.trace(n.p, "in", in)
	at := len(n.out)
	n.out = n.control.Step(n.p.now(), in, n.out)
	n.w.stepped(n.p, n.control, len(n.out)-at)
}

// stepShard steps the shard core.
func (s *shardNode) stepShard(in region.ShardInput) {
	s.w.trace(s.p, fmt.Sprintf("in %d", s.index), in)
	at := s.pending()
	s.core.Step(s.p.now(), in, &s.outputs)
	s.w.stepped(s.p, s.core, s.pending()-at)
	s.checkLimits()
}

func (s *shardNode) pending() int {
	return len(s.outputs.Turn) + len(s.outputs.Shard) + len(s.outputs.Events)
}

// stepTurn steps the entity core inside the shard core.
func (s *shardNode) stepTurn(in turn.Input) { s.stepShard(region.Turn{Input: in}) }

// checkLimits looks at what all shard cores of the region use together.
func (n *regionNode) checkLimits() {
	var all turn.Stats
	for _, s := range n.shards {
		all.Add(s.core.Stats())
	}
	if max := &n.cfg.Turn; all.Commands > max.TotalCommands || all.Bytes > max.TotalBytes || all.Loads > max.TotalLoads {
		n.w.violate("limits are the region's", "%s: %d commands with %d bytes wait, and %d loads", n.p.name, all.Commands, all.Bytes, all.Loads)
	}
}

// shardNodeOf returns the node of the shard core that has an entity.
func (n *regionNode) shardNodeOf(e sharding.Entity) *shardNode {
	for i := range types {
		if types[i].Type == e.Type {
			return n.shards[n.cfg.CoreOf(sharding.ShardID{Type: e.Type, Index: sharding.ShardOf(e.ID, types[i].Shards)})]
		}
	}
	return n.shards[0]
}

func (n *regionNode) tick() {
	if n.replyBudget != nil {
		n.readAll()
	}
	n.member.tick()
	n.stepControl(region.Tick{})
	for _, s := range n.shards {
		s.stepShard(region.Tick{})
	}
	n.ticked = true
}

func (n *regionNode) flush() {
	for len(n.out) > 0 {
		out := n.out
		n.out = nil
		for _, o := range out {
			n.w.trace(n.p, "out", o)
			n.perform(o)
		}
	}
	for _, s := range n.shards {
		s.performAll()
	}
	n.group.kick()
	if n.ticked {
		n.ticked = false
		n.checkDeadlines()
	}
	n.member.flush()
}

// performAll performs what the steps of a shard core have put out.
func (s *shardNode) performAll() {
	for s.pending() > 0 {
		out := s.outputs
		s.outputs = region.Outputs{}
		what := fmt.Sprintf("out %d", s.index)
		for _, o := range out.Turn {
			s.w.trace(s.p, what, o)
			s.performEntity(o)
		}
		for _, o := range out.Shard {
			s.w.trace(s.p, what, o)
			s.performShard(o)
		}
		for _, e := range out.Events {
			s.w.trace(s.p, what, e)
			s.carry(&s.fromCore, func() { s.stepControl(region.FromCore{Core: s.index, Event: e}) })
		}
	}
	s.core.Recycle()
}

// checkDeadlines looks for commands that wait for a load beyond their deadline. Commands
// with the same id share one answer, so all of them may wait until the latest of their
// deadlines.
func (n *regionNode) checkDeadlines() {
	now := n.p.now()
	hung := false
	for _, l := range n.newestLoad { // order-free: any of them
		hung = hung || now.Sub(l.began) > overdue
	}
	if !hung {
		return // the rest costs a sort, at every tick
	}
	due := map[sharding.CommandID]time.Time{}
	for _, id := range sortedKeys(n.tickets) {
		if t := n.tickets[id]; t.due.After(due[t.key]) {
			due[t.key] = t.due
		}
	}
	for _, id := range sortedKeys(n.tickets) {
		t := n.tickets[id]
		l, loading := n.newestLoad[t.entity]
		if loading && l.Epoch == t.epoch && now.Sub(due[t.key]) > overdue && now.Sub(l.began) > overdue {
			n.w.violate("a load that hangs keeps nobody waiting", "%s: command %d for %v is not answered %v after its deadline", n.p.name, id, t.entity, overdue)
		}
	}
}

func (n *regionNode) perform(o region.ControlOutput) {
	w := n.w
	switch o := o.(type) {
	case region.Send:
		n.sendControl(o)
	case region.Reply:
		w.mark("table served by a region")
		n.calls.reply(o.Call, o.Msg)
	case region.ReadJournalHeartbeat:
		n.readJournalHeartbeat(o)
	case region.Registered:
	case region.ToCore:
		to := n.shards[o.Core]
		n.carry(&to.toCore, func() { to.stepShard(o.Order) })
	case region.ProbeJournal:
		n.probe(o)
	case region.JournalChanged:
		w.mark("region: journal " + o.State.String())
	case region.Left:
		w.mark("region left in good order")
		for _, s := range n.shards {
			if held := s.core.Held(); held > 0 && n.p.now().Before(n.leaveBy) {
				w.violate("left means empty", "%s has left, and shard core %d holds %d shards", n.p.name, s.index, held)
			}
		}
		n.left = true
		n.member.leave()
	case region.Fail:
		w.violate("driver", "%s fails: %s", n.p.name, o.Reason)
	default:
		w.violate("driver", "region output %T is not known here", o)
	}
}

func (n *shardNode) performShard(o region.ShardOutput) {
	w := n.w
	switch o := o.(type) {
	case region.Claim:
		n.checkStopped(o.Shard, o.Epoch)
		claim := sharding.Claim{Shard: o.Shard, Epoch: o.Epoch, Owner: n.p.uid}
		n.group.add(journal.Op{Claim: &claim}, func(r journal.Result) {
			n.stepShard(region.Claimed{Shard: o.Shard, Epoch: o.Epoch, Verdict: r.Verdict, Fence: r.Fence})
		})
	case region.NotMine:
		w.mark("region: not mine")
		n.answer(o.Request, func(a gateway.Attempt) gateway.Input {
			return gateway.NotMine{Attempt: a, Refused: o.Refused, Row: o.Row}
		})
	case region.Refuse:
		if o.Reply.Outcome != sharding.Rejected {
			w.violate("one outcome", "%s refuses a command with outcome %v", n.p.name, o.Reply.Outcome)
		}
		n.answer(o.Request, func(a gateway.Attempt) gateway.Input {
			return gateway.Answer{Attempt: a, Reply: o.Reply}
		})
	}
}

// sendControl sends a control message, and remembers the epochs with which the region has
// sent ShardStopped.
func (n *regionNode) sendControl(o region.Send) {
	w := n.w
	switch m := o.Msg.(type) {
	case control.HostRefused:
		w.mark("region: host refused")
	case control.ShardStopped:
		w.mark("region: shard stopped")
		n.stopped[m.Shard] = max(n.stopped[m.Shard], m.Epoch)
	}
	if !control.IsCall(o.Msg) {
		w.tell(n.p, sharding.NodeID{Addr: o.To}, o.Msg)
		return
	}
	w.call(n.p, o.To, o.Msg, func(a control.Message) {
		n.stepControl(region.Replied{From: o.To, Asked: o.Msg, Msg: a})
	})
}

// receive takes a message of a coordinator. Once the region has seen a higher term, the
// message must have no effect.
func (n *regionNode) receive(from sharding.NodeID, m control.Message) {
	at, term := len(n.out), m.About().Term
	n.stepControl(region.Received{From: from.Addr, Msg: m})
	if term < n.term && len(n.out) > at {
		n.w.violate("the newest term decides", "%s heard of term %d and obeys %+v: %+v", n.p.name, n.term, m, n.out[at:])
	}
	n.term = max(n.term, term)
}

func (n *regionNode) serveCall(from sharding.NodeID, m control.Message, reply func(control.Message)) func() {
	call := n.calls.begin(reply)
	n.stepControl(region.Received{From: from.Addr, Call: call, Msg: m})
	return func() {
		n.flush() // an answer that the core has already given is still sent
		n.calls.end(call)
	}
}

// readJournalHeartbeat reads which cluster uses the journal.
func (n *regionNode) readJournalHeartbeat(o region.ReadJournalHeartbeat) {
	in, gen := region.JournalHeartbeatRead{Number: o.Number}, n.p.gen
	n.w.journal.read(n.p.host, func() {
		got, err := n.w.journal.load(journal.LoadRequest{Entity: journal.HeartbeatEntity})
		if err == nil && got.Snapshot.Seq > 0 {
			in.Heartbeat, err = journal.DecodeHeartbeat(got.Snapshot.Payload)
		}
		in.OK = err == nil
	}, func(ok bool) {
		if n.p.gen == gen {
			in.OK = in.OK && ok
			n.p.post(func() { n.stepControl(in) })
		}
	})
}

// checkStopped checks that a region which sent ShardStopped does not take up the shard
// again at that epoch or a lower one.
func (n *regionNode) checkStopped(s sharding.ShardID, e sharding.Epoch) {
	if said := n.stopped[s]; e <= said {
		n.w.violate("stopped stays stopped", "%s takes up %v at epoch %v after ShardStopped(%v)", n.p.name, s, e, said)
	}
}

// probe tests whether the journal answers, by a request that has no effect.
func (n *regionNode) probe(o region.ProbeJournal) {
	answer := func(v sharding.Verdict) { n.stepControl(region.Probed{Path: o.Path, Number: o.Number, Verdict: v}) }
	if o.Path == region.Loads {
		gen := n.p.gen
		n.w.journal.read(n.p.host, func() {}, func(ok bool) {
			if n.p.gen == gen {
				n.p.post(func() { answer(readVerdict(ok)) })
			}
		})
		return
	}
	n.group.add(journal.Op{Fence: &sharding.ReadFence{Shard: probeShard}}, func(r journal.Result) {
		answer(r.Verdict)
	})
}

// readVerdict is the verdict on a read of the journal that was answered, or was not.
func readVerdict(ok bool) sharding.Verdict {
	if ok {
		return sharding.Durable
	}
	return sharding.UnknownOutcome
}

// probeShard is nobody's: reading its fence has no effect.
var probeShard = sharding.ShardID{Type: "roost.probe"}

// command reads one command from a link.
func (n *regionNode) command(l *gatewayLink, attempt gateway.Attempt, epoch sharding.Epoch, env sharding.Envelope, timeLeft time.Duration) {
	env.Deadline = n.p.deadline(timeLeft)
	n.read(l, &env, func(room replies.Ticket, refused string) {
		n.next++
		n.tickets[n.next] = ticket{link: l, attempt: attempt, key: env.ID, entity: env.Entity, epoch: epoch, due: env.Deadline, env: &env, room: room}
		if refused != "" {
			n.answer(n.next, func(a gateway.Attempt) gateway.Input {
				return gateway.Answer{Attempt: a, Reply: sharding.Reject(sharding.ResourceExhausted, refused)}
			})
			return
		}
		n.shardNodeOf(env.Entity).stepShard(region.Command{Request: n.next, Epoch: epoch, Env: &env})
	})
}

func (n *regionNode) answer(id turn.RequestID, in func(gateway.Attempt) gateway.Input) {
	t, ok := n.tickets[id]
	if !ok {
		n.w.violate("one outcome", "%s: command %d is answered twice, or never came", n.p.name, id)
		return
	}
	delete(n.tickets, id)
	frame := in(t.attempt)
	if a, ok := frame.(gateway.Answer); ok && a.Reply.Outcome == sharding.Rejected {
		n.w.refusedUnread[t.key]++
	}
	n.send(t, frame, func() { t.link.gateway.read(t.attempt, frame) })
}

// accept makes the region's end of a new link. opened is called with the link when the
// region begins to read it, or with nil if the region refuses it.
func (n *regionNode) accept(g *gatewayNode, to sharding.NodeID, id link.LaneID, number uint64, opened func(*gatewayLink)) {
	l := &gatewayLink{w: n.w, gateway: g, region: n, to: to, laneID: id}
	e := n.readers.Enter(id, number, l)
	if e.Refused {
		n.w.mark("region: an older link comes late")
		opened(nil)
		return
	}
	l.rgOpen = true
	l.up = direction{from: g.p.host, to: n.p.host}
	l.down = direction{from: n.p.host, to: g.p.host}
	l.welcomed = n.p.ifAlive(func() {
		if l.rgOpen {
			opened(l)
		}
	})
	for _, old := range e.Cut {
		old.closeRegion()
	}
	if e.Read {
		l.welcomed()
	} else {
		n.w.mark("region: a link waits until the older one is left")
	}
	open := n.links[:0]
	for _, old := range n.links {
		if old.rgOpen {
			open = append(open, old)
		}
	}
	n.links = append(open, l)
}

// readerEnded says that nothing more of a link is read or handed over; the next link of its lane may be read.
func (n *regionNode) readerEnded(l *gatewayLink) {
	if next, ok := n.readers.Leave(l.laneID, l); ok {
		next.welcomed()
	}
}

func (n *regionNode) stop() {
	for _, l := range n.links {
		if l.rgOpen {
			l.rgOpen = false
			if n.w.dice("link").chance(0.5) {
				l.down.reset = true
			}
			l.whenFarEndLearns(l.up.to, l.down.to, l.closeGateway)
		}
	}
	n.member.stop()
}
