package sim

import (
	"errors"
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/pace"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// factShard and factEntity are the place of the fact stream in the journal.
var (
	factShard  = sharding.ShardID{Type: "roost.coordinator"}
	factEntity = sharding.Entity{Type: "roost.coordinator", ID: "facts"}
)

// coordNode is the driver of a coordinator. It has the drivers of its lease and its membership.
type coordNode struct {
	p            *process
	w            *World
	core         *coordinator.Tenure
	explanations *coordinator.ExplanationLog
	member       *member
	holder       *lease.Holder
	leaseOut     []lease.Output
	out          []coordinator.Output

	calls         calls
	rank          int                      // the rank that the holder was last told
	known         coordinator.Active       // the last holder of the lease
	reportedLease gossip.Lease             // the lease that the membership was last told
	joining       map[sharding.NodeID]bool // whether a region is joining, by what the membership has last said
	loads         loadChecks
	pace          pace.Rest // of the ticks
}

func (w *World) coordinatorProgram(p *process) program {
	c := &coordNode{p: p, w: w, pace: coordinator.NewRest(), calls: newCalls(w, p), joining: map[sharding.NodeID]bool{}}
	c.core, c.explanations = newCoordinator(w, p), coordinator.NewExplanationLog(explanationLimits)
	cfg := lease.DefaultConfig()
	cfg.Self, cfg.Seed = p.id(), w.dice("lease").Uint64()|1
	cfg.Rank = -1 // not a candidate for the lease; tick sets a rank when this process has become a member
	holder, err := lease.NewHolder(cfg)
	if err != nil {
		panic(err)
	}
	c.holder, c.rank = holder, cfg.Rank
	c.member = newMember(w, p, roleCoordinator, c.memberChanged)
	c.member.yield = c.yieldLease
	return c
}

func (c *coordNode) step(in coordinator.Input) {
	c.w.trace(c.p, "in", in)
	at := len(c.out)
	was := c.quarantineBefore(in)
	c.out = c.core.Step(c.p.now(), in, c.out)
	c.w.stepped(c.p, c.core, len(c.out)-at)
	if coordinator.Stirs(in, c.out[at:]) {
		c.pace.Stir(c.p.now())
	}
	c.quarantineAfter(in, was)
	for _, o := range c.out[at:] {
		c.w.trace(c.p, "out", o)
		switch o := o.(type) {
		case coordinator.Append:
			for _, f := range o.Facts[:o.NewFacts] {
				c.checkOwnerIsUp(f)
			}
		case coordinator.BecameActive:
			c.w.mark("coordinator elected")
			c.beginLoads()
			c.checkDrains(o.Term)
			c.checkSteering(o.Term)
			c.checkQuarantine(o.Term)
		case coordinator.SteppedDown:
			c.w.mark("coordinator deposed")
		case coordinator.YieldLease: // it yields only if too much waits for the journal, which must not happen here
			c.w.violate("memory is bounded", "%s: too much waits for the journal", c.p.name)
		}
		c.checkTerm(o)
	}
}

// checkTerm checks that a coordinator says nothing after another one has acquired the lease.
func (c *coordNode) checkTerm(o coordinator.Output) {
	var m control.Message
	switch o := o.(type) {
	case coordinator.Send:
		m = o.Msg
	case coordinator.Reply:
		m = o.Msg
	}
	if m == nil || m.About().Term == 0 {
		return
	}
	if term := c.core.ActiveTerm(); c.w.highest > term && !c.w.recordLost {
		c.w.violate("one coordinator at a time", "%s speaks in term %d after term %d was acquired: %+v", c.p.name, term, c.w.highest, o)
	}
}

// checkOwnerIsUp checks that a shard is given only to a region that is up.
func (c *coordNode) checkOwnerIsUp(f coordinator.Fact) {
	if r, ok := f.(coordinator.RowFact); ok && r.Row.Phase == sharding.Starting && c.joining[r.Row.Owner] {
		c.w.violate("only who is up hosts shards", "%s gives %v to %v, which is not up", c.p.name, r.Row.Shard, r.Row.Owner)
	}
}

func (c *coordNode) stepLease(in lease.Input) {
	if _, tick := in.(lease.Tick); !tick {
		c.w.trace(c.p, "lease<", in)
	}
	at := len(c.leaseOut)
	c.leaseOut = c.holder.Step(c.p.now(), in, c.leaseOut)
	for _, o := range c.leaseOut[at:] {
		c.w.trace(c.p, "lease>", o)
		switch o := o.(type) {
		case lease.Lost:
			c.step(coordinator.Lost{Term: o.Term})
		case lease.Renewed:
			c.step(coordinator.Renewed{Term: o.Term, Until: o.Until})
		case lease.Observed:
			c.known.Node, c.known.Term = o.Holder, o.Term
			c.learnUntil()
			c.step(c.known)
		case lease.Acquired:
			c.w.mark("lease acquired")
			if c.w.terms[o.Term] && !c.w.recordLost {
				c.w.violate("terms grow", "%s acquires the lease in term %d, which was acquired before", c.p.name, o.Term)
			}
			c.w.terms[o.Term] = true
			c.w.highest = max(c.w.highest, o.Term)
			c.step(coordinator.Acquired{Term: o.Term, Until: o.Until, Cluster: o.Cluster})
		}
	}
}

// checkDrains checks that a new term knows which regions operators have drained.
func (c *coordNode) checkDrains(term sharding.Term) {
	for _, r := range c.core.View().Regions {
		if want := c.w.journal.drained[r.Node]; r.Draining != want {
			c.w.violate("a drain outlives the term", "%s of term %d takes %v for drained: %t, the facts say %t", c.p.name, term, r.Node, r.Draining, want)
		} else if want {
			c.w.mark("drain outlives the term")
		}
	}
}

// query sends a request to the journal. read is called when the request arrives there. done is
// called in the loop of the process: with true when the answer arrives, or with false when no
// answer will.
func (c *coordNode) query(read func(), done func(ok bool)) {
	incarnation := c.p.incarnation
	c.w.journal.read(c.p.host, read, func(ok bool) {
		if c.p.incarnation == incarnation {
			c.p.post(func() { done(ok) })
		}
	})
}

// commit sends one operation to the journal, to be committed. done is called with the result, in
// the loop of the process.
func (c *coordNode) commit(op journal.Op, done func(journal.Result)) {
	incarnation := c.p.incarnation
	c.w.journal.commit(c.p.host, []journal.Op{op}, func(r []journal.Result) {
		if c.p.incarnation != incarnation {
			return
		}
		c.p.post(func() {
			if r == nil {
				r = []journal.Result{{Verdict: sharding.UnknownOutcome}}
			}
			done(r[0])
		})
	})
}

func (c *coordNode) tick() {
	c.stepLease(lease.Tick{})
	holder, until := c.holder.Current()
	if l := (gossip.Lease{Holder: holder, Until: until}); l != c.reportedLease {
		c.reportedLease = l
		c.member.step(l)
		if c.learnUntil() {
			c.step(c.known)
		}
	}
	c.member.tick()
	if rank := c.member.rank(c.known.Node); rank != c.rank {
		c.rank = rank
		c.stepLease(lease.SetRank{Rank: rank})
	}
	now := c.p.now()
	if now.Before(c.pace.Due()) {
		c.w.mark("a coordinator rests")
		return
	}
	c.pace.Tick(now)
	c.step(coordinator.Tick{})
	c.keepExplanations()
}

// learnUntil reads when the lease of another coordinator ends, and reports whether that is news.
func (c *coordNode) learnUntil() bool {
	holder, until := c.holder.Current()
	if holder != c.known.Node || holder == c.p.id() || until.Equal(c.known.Until) {
		return false
	}
	c.known.Until = until
	return true
}

// yieldLease gives up the lease, so that a coordinator on the larger side of a partition can
// acquire it.
func (c *coordNode) yieldLease() {
	c.rank = c.member.rank(c.known.Node)
	c.stepLease(lease.SetRank{Rank: c.rank})
	c.stepLease(lease.Yield{})
}

func (c *coordNode) memberChanged(m memberChange) {
	if m.role != roleRegion {
		return
	}
	c.joining[m.node] = m.joining && !m.gone
	if m.gone {
		c.step(coordinator.MemberGone{Node: m.node})
		return
	}
	c.step(coordinator.Member{Node: m.node, Name: m.name, Reachable: m.reachable, Joining: m.joining, Leaving: m.leaving})
}

// flush performs the outputs, in order.
func (c *coordNode) flush() {
	c.member.flush()
	if !c.p.up {
		return
	}
	for len(c.out) > 0 || len(c.leaseOut) > 0 {
		out := c.out
		c.out = nil
		for _, o := range out {
			c.perform(o)
		}
		c.performLease()
	}
}

// load reads the fact stream.
func (c *coordNode) load(o coordinator.Load) {
	var got journal.Loaded
	var err error
	c.query(func() { got, err = c.w.journal.load(journal.LoadRequest{Entity: factEntity}) }, func(ok bool) {
		if !ok || err != nil {
			c.step(coordinator.ReadFailed(o))
			return
		}
		in := coordinator.Loaded{Number: o.Number, LastSeq: got.LastSeq}
		if in.LastSeq == 0 {
			in.Stored = c.w.journal.ledger.List(journal.ListRequest{Limit: 16})
		}
		for _, r := range got.Records {
			for _, e := range r.Events {
				in.Facts = append(in.Facts, c.w.facts[decodeNumber(e.Payload)])
			}
		}
		in.FactsAfterMark = len(in.Facts) // all of them: the journal returns no records from before the snapshot
		if got.Snapshot.Seq > 0 {
			c.w.mark("facts read from a snapshot on")
		}
		c.step(in)
	})
}

func (c *coordNode) survey(o coordinator.Survey) {
	in := coordinator.Surveyed{Number: o.Number, Generation: c.p.opened}
	var got journal.Loaded
	var err error
	c.query(func() {
		in.Highest = c.w.journal.maxEpoch()
		got, err = c.w.journal.load(journal.LoadRequest{Entity: journal.HeartbeatEntity})
	}, func(ok bool) {
		if !ok {
			c.step(coordinator.ReadFailed(o))
			return
		}
		if err == nil && got.Snapshot.Seq > 0 { // otherwise no heartbeat is stored, or it is damaged
			if in.Heartbeat, err = journal.DecodeHeartbeat(got.Snapshot.Payload); err != nil {
				c.w.violate("driver", "a journal heartbeat: %v", err)
			}
		}
		c.step(in)
	})
}

// readInputs reads the reminders and the pending sends of the shards that found.Inputs lists, and
// adds the forms in which they are stored to found.
func (c *coordNode) readInputs(found *coordinator.FormsFound) {
	w, ledger := c.w, c.w.journal.ledger
	for _, shard := range found.InputShards() {
		for _, r := range ledger.Wakes(w.storeClock(), journal.WakesRequest{Shards: []journal.ShardPosition{{Shard: shard}}, Limit: 1 << 20}).Entries {
			if r.Err != nil {
				found.UnknownShard(shard)
			}
			found.Reminder(r.Entity, &r.Input)
		}
		for _, r := range ledger.Sends(w.storeClock(), journal.SendsRequest{Shards: []journal.SendPosition{{Shard: shard}}, Limit: 1 << 20}).Entries {
			if r.Err != nil {
				found.UnknownShard(shard)
			}
			for i := range r.Sends {
				if x := &r.Sends[i]; x.ReplyTo != "" && r.States.Of(i) == sharding.SendPending {
					found.ReplyTo(r.Entity, x.ReplyTo)
				}
			}
		}
	}
}

// readForms reads the stored data of some shards, for the coordinator to know its forms.
func (c *coordNode) readForms(o coordinator.ReadForms) {
	found := o.Begin()
	c.query(func() {
		c.readInputs(found)
		for _, e := range c.w.journal.ledger.List(journal.ListRequest{Type: o.Desc.Type, Limit: 1 << 20}) {
			if !found.Wants(e) {
				continue
			}
			got, err := c.w.journal.load(journal.LoadRequest{Entity: e, WithoutSnapshot: true})
			if errors.Is(err, journal.ErrTrimmed) {
				c.w.mark("look: an entity was trimmed")
				got, err = c.w.journal.load(journal.LoadRequest{Entity: e})
			}
			if err != nil {
				found.Unknown(e)
			} else {
				found.Stored(e, got.Records)
			}
		}
	}, func(ok bool) {
		if !ok {
			c.step(found.Failed())
			return
		}
		in := found.Answer()
		for i, stored := range in.At {
			c.w.mark("look: at a shard that no region reads")
			if counted := o.At[i].Forms; !stored.Forms.Contains(counted) {
				c.w.mark("look: not all forms that count are stored")
			}
		}
		c.step(in)
	})
}

func (c *coordNode) writeJournalHeartbeat(o coordinator.WriteJournalHeartbeat) {
	journal.WriteHeartbeat(c.commit, o.Heartbeat, func(r journal.Result) {
		c.step(coordinator.JournalHeartbeatWritten{Number: o.Number, Verdict: r.Verdict, Fence: r.Fence.Epoch})
	})
}

// checkFacts reads the last record of the facts, some time after the request, and answers some time after that.
func (c *coordNode) checkFacts(o coordinator.CheckFacts) {
	w, d := c.w, c.w.dice("facts check")
	there, back := d.between(0, 50*ms), d.between(0, 50*ms)
	w.after(there, c.p.ifAlive(func() {
		got, err := w.journal.load(journal.LoadRequest{Entity: factEntity, LookupOnly: true})
		if err != nil || d.chance(w.weather.Unknown) {
			return
		}
		w.after(back, c.p.ifAlive(func() {
			c.p.post(func() { c.step(coordinator.FactsChecked{Number: o.Number, LastSeq: got.LastSeq}) })
		}))
	}))
}

// append stores a record of facts.
func (c *coordNode) append(o coordinator.Append) {
	r := sharding.Record{Seq: o.Seq}
	for _, f := range o.Facts {
		c.w.facts = append(c.w.facts, f)
		r.Events = append(r.Events, sharding.Event{Name: "Fact", Payload: number(uint64(len(c.w.facts) - 1))})
	}
	a := sharding.Append{Shard: factShard, Epoch: sharding.MakeEpoch(o.Term, 0), Entity: factEntity, Records: []sharding.Record{r}}
	c.commit(journal.Op{Append: &a}, func(r journal.Result) {
		switch r.Verdict {
		case sharding.RefusedEpoch:
			c.w.mark("coordinator: fact fenced")
		case sharding.UnknownOutcome:
			c.w.mark("coordinator: unknown whether a fact is stored")
		}
		c.step(coordinator.Appended{Number: o.Number, Verdict: r.Verdict, Fence: r.Fence.Epoch})
	})
}

func (c *coordNode) perform(o coordinator.Output) {
	w := c.w
	switch o := o.(type) {
	case coordinator.BecameActive:
		c.explanations.Begin(o.Term, c.p.now())
	case coordinator.FactsMissing:
		w.mark("coordinator: begins without facts")
	case coordinator.SteppedDown:
		c.explanations.End()
	case coordinator.Explained:
		c.explained(o.Explanation)
	case coordinator.BrakeChanged:
		w.mark("brake: " + o.State.String())
	case coordinator.TargetSet:
		if strings.Contains(o.Why, "no region has run") {
			w.mark("rollout: a target that no region runs is given up")
		}
	case coordinator.RaiseTerm:
		w.mark("term raised")
		c.stepLease(lease.RaiseTerm{Above: o.Above})
	case coordinator.YieldLease:
		c.stepLease(lease.Yield{})
	case coordinator.Survey:
		c.survey(o)
	case coordinator.Claim:
		claim := sharding.Claim{Shard: factShard, Epoch: sharding.MakeEpoch(o.Term, 0), Owner: c.p.uid}
		c.commit(journal.Op{Claim: &claim}, func(r journal.Result) {
			if r.Verdict == sharding.RefusedEpoch {
				w.mark("coordinator: claim refused")
			}
			c.step(coordinator.Claimed{Number: o.Number, Verdict: r.Verdict, Fence: r.Fence.Epoch})
		})
	case coordinator.Load:
		c.load(o)
	case coordinator.Append:
		c.append(o)
	case coordinator.WriteJournalHeartbeat:
		c.writeJournalHeartbeat(o)
	case coordinator.CheckFacts:
		c.checkFacts(o)
	case coordinator.Contested:
		// A heartbeat whose outcome was unknown may take effect long after its coordinator has ended. A new cluster, whose lease
		// record was lost, takes it for a sign of life: the process ends, and its successor waits until there are no more.
		if slices.ContainsFunc(w.processes, func(p *process) bool { return p.up && p.id() == o.By.Coordinator }) {
			w.violate("driver", "%s meets another cluster: %+v", c.p.name, o.By)
		}
		w.mark("coordinator: it meets a late heartbeat of a coordinator that has ended")
		w.after(0, c.p.ifAlive(func() { c.p.exit("it meets another cluster") }))
	case coordinator.Waiting:
		w.mark("coordinator: watches for journal heartbeats")
	case coordinator.Adopted:
		w.mark("coordinator: adopts the journal")
	case coordinator.WriteCheckpoint:
		op := journal.WriteSnapshot{Shard: factShard, Epoch: sharding.MakeEpoch(o.Term, 0), Entity: factEntity, Snapshot: journal.Snapshot{Seq: o.Seq}, Cut: o.Seq}
		c.commit(journal.Op{Snapshot: &op}, func(r journal.Result) {
			if r.Verdict == sharding.Durable {
				w.mark("facts compacted")
			}
			c.step(coordinator.CheckpointWritten{Number: o.Number, Verdict: r.Verdict, Fence: r.Fence.Epoch})
		})
	case coordinator.Send:
		c.checkDurable(o.To, o.Msg)
		if o.Msg.About().Phase == sharding.HandingOff {
			w.mark("handoff")
		}
		w.tell(c.p, o.To, o.Msg)
	case coordinator.Reply:
		c.checkDurable(sharding.NodeID{}, o.Msg)
		c.calls.reply(o.Call, o.Msg)
	case coordinator.UnreadableNow, coordinator.DrainStays, coordinator.NameTaken, coordinator.NoLoad, coordinator.ConstraintBroken, coordinator.QuarantineChanged, coordinator.QuarantineFull:
	case coordinator.FenceShard:
		// The shard may be claimed only for a row that marks it as unreadable.
		c.checkFact(sharding.Row{Shard: o.Claim.Shard, Epoch: o.Claim.Epoch, Phase: sharding.Starting, Reason: sharding.Unreadable})
		c.commit(journal.Op{Claim: &o.Claim}, func(r journal.Result) {
			c.step(coordinator.ShardFenced{Shard: o.Claim.Shard, Epoch: o.Claim.Epoch, Verdict: r.Verdict})
		})
	case coordinator.ReadForms:
		c.readForms(o)
	case coordinator.Plan: // computing it takes a while; meanwhile the process may be paused, or lose its term
		w.after(w.dice("plan").exp(500*ms), c.p.ifAlive(func() { c.planned(o) }))
	case coordinator.TestJournal:
		c.query(func() {}, func(ok bool) { c.step(coordinator.JournalTested{Verdict: readVerdict(ok)}) })
	default:
		w.violate("driver", "coordinator output %T is not known here", o)
	}
}

// checkDurable checks that the journal has the rows that a message reveals.
func (c *coordNode) checkDurable(to sharding.NodeID, m control.Message) {
	about := m.About()
	for _, row := range about.Rows {
		c.checkFact(row)
	}
	if about.Shard != (sharding.ShardID{}) {
		c.checkFact(sharding.Row{Shard: about.Shard, Owner: to, Epoch: about.Epoch, Phase: about.Phase})
	}
}

func (c *coordNode) checkFact(row sharding.Row) {
	if !c.w.journal.rows[row] {
		c.w.violate("durable before revealed", "%s reveals %+v, which is not a fact", c.p.name, row)
	}
}

// receive handles a one-way message. It notes the epochs of ShardStopped: from them the simulated
// journal tells why a shard has moved.
func (c *coordNode) receive(from sharding.NodeID, m control.Message) {
	if m, ok := m.(control.ShardStopped); ok {
		c.w.journal.stopped[m.Shard] = max(c.w.journal.stopped[m.Shard], m.Epoch)
	}
	c.step(coordinator.Received{From: from, Msg: m})
}

func (c *coordNode) serveCall(from sharding.NodeID, m control.Message, reply func(control.Message)) func() {
	call := c.calls.begin(reply)
	c.noteLoad(from, m)
	c.step(coordinator.Received{From: from, Call: call, Msg: m})
	return func() {
		c.flush() // an answer that the core has already given is still sent
		if c.calls.end(call) {
			c.step(coordinator.CallEnded{Call: call})
		}
	}
}

func (c *coordNode) stop() { c.member.stop() }

// performLease sends the requests of the lease holder to the store of the lease.
func (c *coordNode) performLease() {
	out := c.leaseOut
	c.leaseOut = nil
	for _, o := range out {
		switch o := o.(type) {
		case lease.Get:
			c.w.lease.request(c.p, func(r lease.Record) (lease.Record, lease.Input) {
				return r, lease.Got{Request: o.Request, Record: r}
			}, c.stepLease)
		case lease.Swap:
			c.w.lease.request(c.p, func(r lease.Record) (lease.Record, lease.Input) {
				if !r.Replaceable(o.Old, o.New) {
					return r, lease.Swapped{Request: o.Request, Outcome: lease.Conflict}
				}
				return o.New, lease.Swapped{Request: o.Request, Outcome: lease.Done}
			}, c.stepLease)
		}
	}
}

// leaseStore keeps the record of the lease. Requests to it arrive late, and its replies may get
// lost.
type leaseStore struct {
	w      *World
	record lease.Record
}

// request sends a request to the store. do is called when the request arrives there. It gets the
// stored record, and returns the record to store and the reply. answer is called with the reply,
// unless the reply gets lost.
func (s *leaseStore) request(p *process, do func(lease.Record) (lease.Record, lease.Input), answer func(lease.Input)) {
	w := s.w
	incarnation := p.incarnation
	w.net.send(p.host, leaseHost, func() {
		record, in := do(s.record)
		if record.Term != s.record.Term {
			w.trace(nil, "LEASE", record)
			if record.Term < s.record.Term {
				w.violate("terms grow", "the lease record goes from term %d to %d", s.record.Term, record.Term)
			}
		}
		s.record = record
		if w.dice("lease").chance(w.weather.LeaseLoss) {
			w.mark("lease store lost a reply")
			return
		}
		w.net.send(leaseHost, p.host, func() {
			if p.incarnation == incarnation {
				p.post(func() { answer(in) })
			}
		})
	})
}
