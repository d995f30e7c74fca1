package sim

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/pace"
	"github.com/roost-cluster/roost/libs/replies"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/region"
	"github.com/roost-cluster/roost/services/region/suspects"
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
	replyBudget *replyBudget           // nil: the memory of replies is not simulated
	controlOut  []region.ControlOutput // outputs of the control core that are not performed yet
	group       group                  // commits that go to the journal in one transaction
	readers     *link.Readers[*routerLink]
	router      *routerNode // nil until an entity sends a command to another one
	// crowdedRouter is true if the router has little room.
	crowdedRouter bool
	toRouter      lastArrival   // of answers to the region's own router
	fromRouter    lastArrival   // of commands from the region's own router
	links         []*routerLink // all that are open, and some that were closed
	lastRequest   turn.RequestID
	callers       map[turn.RequestID]caller           // the callers of commands that have no answer yet
	stopped       map[sharding.ShardID]sharding.Epoch // the highest epoch of a sent ShardStopped
	term          sharding.Term                       // the highest term of a message that came from a coordinator
	calls         calls
	handOffs      map[sharding.ShardID]control.HandOff // the newest orders
	gives         map[control.Call]func(region.Kept)   // answers to regions that have asked for kept states
	lastGive      control.Call
	newestLoad    map[sharding.Entity]pendingLoad // for each entity, the newest load that has no answer
	loads         map[sharding.Entity]int         // for each entity, how many loads have no answer; loads that were given up count
	ticked        bool                            // it was ticked since the last flush
	pace          pace.Rest                       // of the ticks
	leaving       bool                            // it was told to leave
	leaveBy       time.Time                       // while leaving: when it leaves, even if it still has shards
	left          bool

	// What a region notes of its turns, see poison.go. box is nil in other climates.
	box   *box
	queue *suspects.Queue
	ready map[*suspects.Turn]func() // turns that wait
	ran   []*ran
	clean map[work]int // turns that ran alone
}

// shardNode is the driver of one shard core.
type shardNode struct {
	*regionNode
	index     int
	core      *region.ShardCore
	outputs   region.Outputs // of the core, not performed yet
	instances map[turn.Incarnation]*instance
	lastAsk   uint64               // number of the newest ask or probe
	asking    map[uint64]*instance // instances whose turn waits for an answer, by the number of the ask
	// passivated has the epoch of the shard at which each entity was last passivated.
	passivated  map[sharding.Entity]sharding.Epoch
	toCore      lastArrival // of messages from the control core
	fromCore    lastArrival // of messages to the control core
	collections uint64      // number of the last garbage collection
	liveBytes   uint64      // bytes of the heap that were in use after the last garbage collection
	// reportedAtCollection is the result of reportedBytes at the last garbage collection.
	reportedAtCollection int
	// limitsWhenOver is set when the sizes that entities have reported add up to too much memory for
	// the first time since the last garbage collection. It has the limits of live entities at that
	// moment, by type. nil: they have not added up to too much since the last collection.
	limitsWhenOver map[sharding.EntityType]int
	stopping       map[turn.Incarnation]int // the sizes of instances that are being stopped
}

// lastArrival is the arrival of the newest message from one core of a region to another, in
// virtual time. In a real region each core runs on its own goroutine. Here, too, a message between
// cores arrives after a delay, and after the messages that were sent before it.
type lastArrival int64

// carry delivers a message after a delay from the control core to a shard core, or back.
func (n *regionNode) carry(last *lastArrival, arrive func()) {
	w, d := n.w, n.w.dice("cores")
	delay := d.exp(w.weather.BetweenCores)
	if d.chance(0.01) { // the goroutine has no processor for a while
		delay += d.between(0, 20*w.weather.BetweenCores)
	}
	*last = max(*last+1, lastArrival(w.now+delay))
	w.after(int64(*last)-w.now, n.p.ifAlive(arrive))
}

// caller is the destination of a command's answer.
type caller struct {
	link    *routerLink
	attempt router.Attempt
	key     sharding.CommandID
	entity  sharding.Entity
	epoch   sharding.Epoch // at which the command was routed
	due     time.Time      // the deadline of the command
	env     *sharding.Envelope
	ticket  replies.Ticket // the memory that is reserved for the reply
}

// entityLoads is the most loads of an entity that may be without an answer. It is so low that a
// region refuses commands when the journal hangs.
const entityLoads = 2

// pendingLoad is a load that the journal has not answered.
type pendingLoad struct {
	turn.Load
	began time.Time
}

// instance is an incarnation of an entity.
type instance struct {
	entity     sharding.Entity
	list       list // its state
	shard      sharding.ShardID
	epoch      sharding.Epoch // of its shard
	running    bool           // a turn is running
	request    turn.RequestID // of its last turn
	turn       uint64         // number of its last turn
	endAsking  func()         // ends the turn while it waits for answers to asks; nil: it waits for none
	waitsFor   *ask           // the ask whose answer its turn waits for; nil: none
	askedAt    int64          // when its turn began to wait for waitsFor, in virtual time
	firstAsked int64          // when its turn began to wait for the first time, in virtual time
	askUntil   time.Time      // when the wait must have ended, by the clock of its process
	toAsk      []*ask         // the asks that its turn sends after waitsFor
	lastAnswer sharding.Reply // the newest answer to an ask of its turn
	deadline   time.Time      // of the command whose turn asks
	cancel     func()         // ends a turn that hangs, or withdraws its ask; nil: the turn cannot be ended
	idleSince  int64          // when its last turn ended, in virtual time
	appends    int            // appends whose outcome the journal has not reported yet
	timer      uint64         // the number that its pending timer adds; 0: it has none
	passivates bool           // it has asked for passivation
	alive      bool           // it is loaded
	size       int            // the size that it has reported
	from       uint64         // number of the kept state that brought it to life; 0 after its first turn
}

func (w *World) regionProgram(p *process) program {
	n := &regionNode{
		p: p, w: w, pace: region.NewRest(),
		readers:    link.NewReaders[*routerLink](),
		callers:    map[turn.RequestID]caller{},
		stopped:    map[sharding.ShardID]sharding.Epoch{},
		calls:      newCalls(w, p),
		handOffs:   map[sharding.ShardID]control.HandOff{},
		gives:      map[control.Call]func(region.Kept){},
		newestLoad: map[sharding.Entity]pendingLoad{},
		loads:      map[sharding.Entity]int{},
	}
	if w.weather.Harsh.repliesHaveSizes() {
		n.replyBudget = &replyBudget{budget: replies.NewBudget(replyLimits), estimates: map[string]*replies.SizeEstimate{}}
		n.replyBudget.short.Learn(replies.Overhead)
	}
	n.group = group{s: w.journal, p: p}
	n.version = w.versionOf(p)
	n.cfg = regionConfig(w, p, n.version)
	if w.weather.Poison.Entities > 0 {
		n.cfg.Crash = n.openBox()
	}
	n.control = region.NewControlCore(n.cfg)
	for i := range n.cfg.ShardCores {
		n.shards = append(n.shards, &shardNode{
			regionNode: n, index: i, core: region.NewShardCore(n.cfg, i), instances: map[turn.Incarnation]*instance{}, asking: map[uint64]*instance{}, passivated: map[sharding.Entity]sharding.Epoch{}, stopping: map[turn.Incarnation]int{},
		})
	}
	n.member = newMember(w, p, roleRegion, func(memberChange) {})
	p.post(func() { n.stepControl(region.Coordinators{Addrs: w.discovered()}) })
	return n
}

// stepControl steps the control core.
func (n *regionNode) stepControl(in region.ControlInput) {
	n.w.trace(n.p, "in", in)
	before := len(n.controlOut)
	n.controlOut = n.control.Step(n.p.now(), in, n.controlOut)
	n.w.stepped(n.p, n.control, len(n.controlOut)-before)
	if region.Stirs(in, n.controlOut[before:]) {
		n.pace.Stir(n.p.now())
	}
	if n.control.Table().Generation().Other(n.p.opened) {
		n.w.violate("a table is of the journal", "%s has opened generation %v of the journal, and its table is of generation %v", n.p.name, n.p.opened, n.control.Table().Generation())
	}
}

// stepShard steps the shard core.
func (s *shardNode) stepShard(in region.ShardInput) {
	s.w.trace(s.p, fmt.Sprintf("in %d", s.index), in)
	before := s.outputCount()
	s.core.Step(s.p.now(), in, &s.outputs)
	s.w.stepped(s.p, s.core, s.outputCount()-before)
	if _, tick := in.(region.Tick); !tick {
		s.pace.Stir(s.p.now())
	}
	s.checkLimits()
}

func (s *shardNode) outputCount() int {
	return len(s.outputs.Turn) + len(s.outputs.Shard) + len(s.outputs.Events)
}

// stepTurn steps the entity core inside the shard core.
func (s *shardNode) stepTurn(in turn.Input) { s.stepShard(in) }

// checkLimits checks that all shard cores together use no more than the region's limits allow.
func (n *regionNode) checkLimits() {
	var all turn.Stats
	for _, s := range n.shards {
		all.Add(s.core.Stats())
	}
	if limits := &n.cfg.Turn; all.Commands > limits.TotalCommands || all.Bytes > int(limits.TotalBytes) || all.Loads > limits.TotalLoads {
		n.w.violate("limits hold for the whole region", "%s: %d commands with %d bytes wait, and %d loads", n.p.name, all.Commands, all.Bytes, all.Loads)
	}
}

// shardNodeOf returns the node of an entity's shard core. If the region does not
// host the entity's type, any node will do.
func (n *regionNode) shardNodeOf(e sharding.Entity) *shardNode {
	for i := range types {
		if types[i].Type == e.Type {
			return n.shards[n.cfg.CoreOf(types[i].ShardOf(e.ID))]
		}
	}
	return n.shards[0]
}

func (n *regionNode) tick() {
	if n.replyBudget != nil {
		n.readAll()
	}
	n.member.tick()
	if n.router != nil {
		n.router.step(router.Tick{})
	}
	now := n.p.now()
	if now.Before(n.due()) {
		n.w.mark("a region rests")
		return
	}
	n.pace.Tick(now)
	n.stepControl(region.Tick{})
	for _, s := range n.shards {
		s.stepShard(region.Tick{})
		s.stressMemory()
	}
	n.ticked = true
	if n.box != nil {
		n.box.alive = n.w.now
	}
}

// due returns the time before which the cores need no tick.
func (n *regionNode) due() time.Time {
	due := n.pace.Due()
	for _, s := range n.shards {
		if at := s.core.AlarmAt(); at.Before(due) {
			due = at
		}
	}
	return due
}

func (n *regionNode) flush() {
	for len(n.controlOut) > 0 {
		out := n.controlOut
		n.controlOut = nil
		for _, o := range out {
			n.w.trace(n.p, "out", o)
			n.perform(o)
		}
	}
	for _, s := range n.shards {
		s.performAll()
	}
	if n.router != nil {
		n.router.flush()
	}
	n.group.kick()
	if n.ticked {
		n.ticked = false
		n.checkDeadlines()
		for _, s := range n.shards {
			s.checkWaits()
			s.checkMemory()
		}
		if n.router != nil {
			n.router.checkDeadlines()
		}
	}
	n.member.flush()
}

// performAll performs the outputs of a shard core.
func (s *shardNode) performAll() {
	for s.outputCount() > 0 {
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

// checkDeadlines checks that no command waits for a load beyond the command's deadline. Commands
// with the same id share one answer, so each of them may wait until the latest of their deadlines.
func (n *regionNode) checkDeadlines() {
	now := n.p.now()
	hung := false
	for _, l := range n.newestLoad { // order-free: reports whether any of them hangs
		hung = hung || now.Sub(l.began) > overdue
	}
	if !hung {
		return // this is the usual case, and saves sorting all callers
	}
	due := map[sharding.CommandID]time.Time{}
	for _, id := range sortedKeys(n.callers) {
		if c := n.callers[id]; c.due.After(due[c.key]) {
			due[c.key] = c.due
		}
	}
	for _, id := range sortedKeys(n.callers) {
		c := n.callers[id]
		l, loading := n.newestLoad[c.entity]
		if loading && l.Epoch == c.epoch && now.Sub(due[c.key]) > overdue && now.Sub(l.began) > overdue {
			n.w.violate("a load that hangs keeps no command waiting", "%s: command %d for %v is not answered %v after its deadline", n.p.name, id, c.entity, overdue)
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
	case region.Feed:
		n.router.step(router.TableChange{Delta: o.Delta, Active: o.Active})
	case region.ToCore:
		to := n.shards[o.Core]
		n.carry(&to.toCore, func() { to.stepShard(o.Order) })
	case region.TestJournal:
		n.testJournal(o)
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

func (s *shardNode) performShard(o region.ShardOutput) {
	w := s.w
	switch o := o.(type) {
	case region.Claim:
		s.checkStopped(o.Shard, o.Epoch)
		claim := sharding.Claim{Shard: o.Shard, Epoch: o.Epoch, Owner: s.p.uid}
		s.group.add(journal.Op{Claim: &claim}, func(r journal.Result) {
			s.stepShard(region.Claimed{Shard: o.Shard, Epoch: o.Epoch, Verdict: r.Verdict, Fence: r.Fence})
		})
	case region.FetchKept:
		s.fetchKept(o)
	case region.Kept:
		s.gives[o.Call](o)
		delete(s.gives, o.Call)
	case region.ReadWakes:
		s.readWakes(o.Read)
	case region.ReadPurges:
		s.readDeleted(o.Read)
	case region.Purge:
		s.purge(o.Purge)
	case region.ReadSends, region.StoreEnds, region.Route, region.SendDied:
		s.performSends(o)
	case region.NotMine:
		w.mark("region: not mine")
		s.checkNotMine(o.Request)
		s.answer(o.Request, func(a router.Attempt) router.Input {
			return router.NotMine{Attempt: a, Refused: o.Refused, Row: o.Row}
		})
	case region.Refuse:
		if o.Reply.Outcome != sharding.NotApplied {
			w.violate("one outcome", "%s refuses a command with outcome %v", s.p.name, o.Reply.Outcome)
		}
		s.answer(o.Request, func(a router.Attempt) router.Input {
			return router.Answer{Attempt: a, Reply: o.Reply}
		})
	}
}

// sendControl sends a control message, and remembers the epochs of the region's
// ShardStopped messages.
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
		if _, isRegion := w.process(o.To).body.(*regionNode); isRegion && o.UID == 0 {
			w.violate("driver", "%s sends %s to a region without naming its incarnation", n.p.name, control.Name(o.Msg))
		}
		w.tell(n.p, sharding.NodeID{Addr: o.To, UID: o.UID}, o.Msg)
		return
	}
	w.call(n.p, o.To, o.Msg, func(a control.Message) {
		n.stepControl(region.Replied{From: o.To, Asked: o.Msg, Msg: a})
	})
}

// receive takes a message of a coordinator or of another region. If the region has already seen a term
// above the term of the message, and a coordinator sent the message, it must have no effect.
func (n *regionNode) receive(from sharding.NodeID, m control.Message) {
	if h, is := m.(control.HandOff); is {
		n.handOffs[h.Shard] = h
	}
	before, term := len(n.controlOut), m.About().Term
	n.stepControl(region.Received{From: from.Addr, UID: from.UID, Msg: m})
	if term > 0 && term < n.term && len(n.controlOut) > before {
		n.w.violate("the newest term decides", "%s heard of term %d and obeys %+v: %+v", n.p.name, n.term, m, n.controlOut[before:])
	}
	n.term = max(n.term, term)
}

// serveCall handles a call, see messageTaker. The function reply sends the answer. When the caller
// stops waiting, the returned function must be called.
func (n *regionNode) serveCall(from sharding.NodeID, m control.Message, reply func(control.Message)) func() {
	call := n.calls.begin(reply)
	n.stepControl(region.Received{From: from.Addr, UID: from.UID, Call: call, Msg: m})
	return func() {
		n.flush() // an answer that the core has already given is still sent
		n.calls.end(call)
	}
}

// readJournalHeartbeat reads which cluster uses the journal.
func (n *regionNode) readJournalHeartbeat(o region.ReadJournalHeartbeat) {
	in, incarnation := region.JournalHeartbeatRead{Number: o.Number, Generation: n.p.opened}, n.p.incarnation
	n.w.journal.read(n.p.host, func() {
		got, err := n.w.journal.load(journal.LoadRequest{Entity: journal.HeartbeatEntity})
		if err == nil && got.Snapshot.Seq > 0 {
			in.Heartbeat, err = journal.DecodeHeartbeat(got.Snapshot.Payload)
		}
		in.OK = err == nil
	}, func(ok bool) {
		if n.p.incarnation == incarnation {
			in.OK = in.OK && ok
			n.p.post(func() { n.stepControl(in) })
		}
	})
}

// checkStopped is called when the region claims a shard, or loads or runs an entity of the shard. It
// checks that the region has not sent ShardStopped for this epoch of the shard, or for a higher epoch.
func (n *regionNode) checkStopped(s sharding.ShardID, e sharding.Epoch) {
	if said := n.stopped[s]; e <= said {
		n.w.violate("stopped stays stopped", "%s takes up %v at epoch %v after ShardStopped(%v)", n.p.name, s, e, said)
	}
}

// testJournal tests whether the journal answers, by a request that has no effect.
func (n *regionNode) testJournal(o region.TestJournal) {
	answer := func(v sharding.Verdict) {
		n.stepControl(region.JournalTested{Path: o.Path, Number: o.Number, Verdict: v})
	}
	if o.Path == region.Loads {
		incarnation := n.p.incarnation
		n.w.journal.read(n.p.host, func() {}, func(ok bool) {
			if n.p.incarnation == incarnation {
				n.p.post(func() { answer(readVerdict(ok)) })
			}
		})
		return
	}
	n.group.add(journal.Op{Fence: &sharding.ReadFence{Shard: journalTestShard}}, func(r journal.Result) {
		answer(r.Verdict)
	})
}

// readVerdict returns the verdict on a read of the journal. If ok is set, the journal has answered.
func readVerdict(ok bool) sharding.Verdict {
	if ok {
		return sharding.Durable
	}
	return sharding.UnknownOutcome
}

// journalTestShard is a shard that no region hosts. Reading its fence has no effect.
var journalTestShard = sharding.ShardID{Type: "roost.probe"}

// command handles a command that has arrived on a link. The command waits until there is room for
// its reply, and then goes to its shard core.
func (n *regionNode) command(l *routerLink, attempt router.Attempt, epoch sharding.Epoch, env sharding.Envelope, timeLeft time.Duration) {
	env.Deadline = n.p.deadline(timeLeft)
	n.whenRoom(l, &env, func(reserved replies.Ticket, refused string) {
		n.lastRequest++
		id := n.lastRequest
		n.callers[id] = caller{link: l, attempt: attempt, key: env.ID, entity: env.Entity, epoch: epoch, due: env.Deadline, env: &env, ticket: reserved}
		if refused != "" {
			n.answer(id, func(a router.Attempt) router.Input {
				return router.Answer{Attempt: a, Reply: sharding.Reject(sharding.ResourceExhausted, refused)}
			})
			return
		}
		if f := n.w.askKeys[env.ID]; f != nil {
			f.came = true
		}
		n.shardNodeOf(env.Entity).stepShard(region.Command{Request: id, Epoch: epoch, Env: &env})
	})
}

// answer sends the answer to a command to its caller. makeInput makes the answer, as an input of
// the caller's router.
func (n *regionNode) answer(id turn.RequestID, makeInput func(router.Attempt) router.Input) {
	c, ok := n.callers[id]
	if !ok {
		n.w.violate("one outcome", "%s: command %d is answered twice, or never came", n.p.name, id)
		return
	}
	delete(n.callers, id)
	in := makeInput(c.attempt)
	switch in := in.(type) {
	case router.Answer:
		if refuses(&in.Reply) {
			n.w.refusedUnread[c.key]++
		}
	case router.NotMine:
		if f := n.w.askKeys[c.key]; f != nil {
			f.came = false
		}
	}
	n.send(c, in, func() { c.link.router.read(c.attempt, in) })
}

// accept makes the region's end of a new link from the router g. opened is called once: with the
// link when the region begins to read it, or with nil if the region refuses it.
func (n *regionNode) accept(g *routerNode, to sharding.NodeID, id link.LaneID, number uint64, opened func(*routerLink)) {
	l := &routerLink{w: n.w, router: g, region: n, to: to, laneID: id}
	e := n.readers.Enter(id, number, l)
	if e.Refused {
		n.w.mark("region: an older link comes late")
		opened(nil)
		return
	}
	l.regionOpen = true
	l.up = direction{from: g.p.host, to: n.p.host}
	l.down = direction{from: n.p.host, to: g.p.host}
	l.welcomed = n.p.ifAlive(func() {
		if l.regionOpen {
			opened(l)
		}
	})
	for _, old := range e.Older {
		old.closeRegion()
	}
	if e.Read {
		l.welcomed()
	} else {
		n.w.mark("region: a link waits until the older one is not read any more")
	}
	open := n.links[:0]
	for _, old := range n.links {
		if old.regionOpen {
			open = append(open, old)
		}
	}
	n.links = append(open, l)
}

// readerEnded is called when no more commands of a link will be read or handed over. The region
// may then read the next link of the same lane.
func (n *regionNode) readerEnded(l *routerLink) {
	if next, ok := n.readers.Leave(l.laneID, l); ok {
		next.welcomed()
	}
}

func (n *regionNode) stop() {
	n.closeBox()
	if n.router != nil {
		n.router.closeLinks()
	}
	for _, l := range n.links {
		if l.regionOpen && !l.isLocal() {
			l.regionOpen = false
			if n.w.dice("link").chance(0.5) {
				l.down.reset = true // answers that are still in progress are lost
			}
			l.announceClose(&l.down, l.closeRouter)
		}
	}
	n.member.stop()
}
