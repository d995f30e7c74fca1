package sim

import (
	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// factShard is the stream of the coordinator's facts in the journal.
var (
	factShard  = sharding.ShardID{Type: "roost.coordinator"}
	factEntity = sharding.Entity{Type: "roost.coordinator", ID: "facts"}
)

// coordNode is the driver of a coordinator: lease, fact stream, membership,
// and the gate that holds back what must not be said before it is durable.
type coordNode struct {
	p      *process
	w      *World
	core   *coordinator.Machine
	member *member
	holder *lease.Holder
	lout   []lease.Output
	out    []coordinator.Output

	// tenure counts acquisitions; what was started in an old one is void.
	tenure  int
	term    sharding.Term
	elected bool

	gate *coordinator.Gate // nil: standing by

	watches   map[coordinator.WatchID]func(watchAnswer)
	nextWatch coordinator.WatchID
	rank      int
	shared    gossip.Lease             // as the membership was told
	joining   map[sharding.NodeID]bool // as the membership said last
}

func (w *World) coordinatorProgram(p *process) program {
	c := &coordNode{p: p, w: w, watches: map[coordinator.WatchID]func(watchAnswer){}, joining: map[sharding.NodeID]bool{}}
	c.core = newCoordinator(w, p)
	cfg := lease.DefaultConfig()
	cfg.Self, cfg.Seed, cfg.Rank = p.id(), w.dice("lease").Uint64()|1, -1
	holder, err := lease.NewHolder(cfg)
	if err != nil {
		panic(err)
	}
	c.holder, c.rank = holder, -1
	c.member = newMember(w, p, roleCoordinator, c.memberChanged)
	c.member.yield = c.yieldLease
	return c
}

func (c *coordNode) step(in coordinator.Input) {
	c.w.trace(c.p, "in", in)
	at := len(c.out)
	c.out = c.core.Step(c.p.now(), in, c.out)
	c.w.stepped(c.p, c.core, len(c.out)-at)
	for _, o := range c.out[at:] {
		if p, ok := o.(coordinator.Persist); ok {
			c.judge(p.Fact)
		}
	}
}

// judge looks at whom a shard is given to.
func (c *coordNode) judge(f coordinator.Fact) {
	if r, ok := f.(coordinator.RowFact); ok && r.Row.Phase == sharding.Starting && c.joining[r.Row.Owner] {
		c.w.violate("only who is up hosts shards", "%s gives %v to %v, which is not up", c.p.name, r.Row.Shard, r.Row.Owner)
	}
}

func (c *coordNode) lease(in lease.Input) {
	if _, tick := in.(lease.Tick); !tick {
		c.w.trace(c.p, "lease<", in)
	}
	at := len(c.lout)
	c.lout = c.holder.Step(c.p.now(), in, c.lout)
	for _, o := range c.lout[at:] {
		c.w.trace(c.p, "lease>", o)
		switch o := o.(type) {
		case lease.Lost:
			c.depose("lease lost")
		case lease.Observed:
			c.step(coordinator.Active{Node: o.Holder, Term: o.Term})
		case lease.Acquired:
			if c.w.terms[o.Term] && !c.w.recordLost {
				c.w.violate("terms grow", "%s acquires the lease in term %d, which was acquired before", c.p.name, o.Term)
			}
			c.w.terms[o.Term] = true
			c.w.highest = max(c.w.highest, o.Term)
			c.acquired(o.Term)
		}
	}
}

// acquired makes the facts its own: the term must be above every epoch of the
// journal, then the stream is claimed with it, then folded.
func (c *coordNode) acquired(term sharding.Term) {
	c.depose("new term")
	c.term = term
	tenure := c.tenure
	c.w.mark("lease acquired")
	var highest sharding.Epoch
	c.query(tenure, func() { highest = c.w.journal.maxEpoch() }, func() {
		if highest.Term() >= term {
			c.w.mark("term raised")
			c.lease(lease.RaiseTerm{Above: highest.Term()})
			return
		}
		c.claim(tenure)
	})
}

// query asks the journal until it answers or the tenure is over.
func (c *coordNode) query(tenure int, q, then func()) {
	gen := c.p.gen
	c.w.journal.read(c.p.host, q, func(ok bool) {
		if c.p.gen != gen {
			return
		}
		c.p.post(func() {
			switch {
			case c.tenure != tenure:
			case ok:
				then()
			default:
				c.query(tenure, q, then)
			}
		})
	})
}

func (c *coordNode) claim(tenure int) {
	claim := sharding.Claim{Shard: factShard, Epoch: sharding.MakeEpoch(c.term, 0), Owner: c.p.uid}
	c.commit(tenure, []journal.Op{{Claim: &claim}}, func(r []journal.Result) {
		switch {
		case r == nil || r[0].Verdict == sharding.RefusedFull || r[0].Verdict == sharding.RefusedDamaged:
			c.claim(tenure)
		case r[0].Verdict != sharding.Durable:
			c.w.mark("coordinator: claim refused")
			c.lease(lease.RaiseTerm{Above: r[0].Fence.Epoch.Term()})
		default:
			c.fold(tenure)
		}
	})
}

func (c *coordNode) fold(tenure int) {
	var got journal.Loaded
	var err error
	c.query(tenure, func() { got, err = c.w.journal.load(journal.LoadRequest{Entity: factEntity}) }, func() {
		if err != nil {
			c.fold(tenure) // until it can be read
			return
		}
		var facts []coordinator.Fact
		for _, r := range got.Records {
			for _, e := range r.Events {
				facts = append(facts, c.w.facts[decodeNumber(e.Payload)])
			}
		}
		if !c.inTerm() {
			return // Lost follows
		}
		if got.Snapshot.Seq > 0 {
			c.w.mark("facts read from a snapshot on")
		}
		c.elected = true
		c.gate = coordinator.NewGate(coordinatorConfig(), got.LastSeq, len(facts))
		c.w.mark("coordinator elected")
		c.step(coordinator.Elected{Term: c.term, Facts: facts})
		c.wishes()
	})
}

// wishes looks whether a new term knows what operators asked of regions.
func (c *coordNode) wishes() {
	for _, r := range c.core.View().Regions {
		if want := c.w.journal.drained[r.Node]; r.Draining != want {
			c.w.violate("a drain outlives the term", "%s of term %d takes %v for drained: %t, the facts say %t", c.p.name, c.term, r.Node, r.Draining, want)
		} else if want {
			c.w.mark("drain outlives the term")
		}
	}
}

// commit writes a batch and calls back in the loop, if the tenure still lasts.
func (c *coordNode) commit(tenure int, ops []journal.Op, done func([]journal.Result)) {
	gen := c.p.gen
	c.w.journal.commit(c.p.host, ops, func(r []journal.Result) {
		if c.p.gen != gen {
			return
		}
		c.p.post(func() {
			if c.tenure == tenure {
				done(r)
			}
		})
	})
}

// depose ends the tenure: what is held back is never said, what is not written
// is forgotten.
func (c *coordNode) depose(why string) {
	c.tenure++
	c.gate = nil
	if c.elected {
		c.elected = false
		c.out = c.out[:0]
		c.w.mark("coordinator deposed")
		c.w.trace(c.p, "DEPOSED", why)
		c.step(coordinator.Deposed{})
	}
}

// inTerm tells whether the lease still holds, by the process's own clock.
func (c *coordNode) inTerm() bool {
	t, ok := c.holder.Valid(c.p.now())
	return ok && t == c.term
}

func (c *coordNode) tick() {
	c.lease(lease.Tick{})
	holder, until := c.holder.Current()
	if l := (gossip.Lease{Holder: holder, Until: until}); l != c.shared {
		c.shared = l
		c.member.step(l)
	}
	c.member.tick()
	if rank := c.member.rank(); rank != c.rank {
		c.rank = rank
		c.lease(lease.SetRank{Rank: rank})
	}
	c.step(coordinator.Tick{})
}

// yieldLease gives the lease up for a coordinator on the larger side.
func (c *coordNode) yieldLease() {
	c.rank = c.member.rank()
	c.lease(lease.SetRank{Rank: c.rank})
	c.lease(lease.Yield{})
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

// flush performs the outputs whose facts are durable, in order.
func (c *coordNode) flush() {
	c.member.flush()
	if !c.p.up {
		return
	}
	c.lease(lease.Tick{}) // past its time nothing is said any more
	c.performLease()
	for _, o := range c.out {
		c.w.trace(c.p, "out", o)
		if c.gate == nil {
			c.perform(o)
		}
	}
	if c.gate != nil {
		c.gate.Add(c.out)
	}
	c.out = c.out[:0]
	if c.gate != nil {
		c.release()
		c.persist()
	}
}

// release performs what is due.
func (c *coordNode) release() {
	for _, o := range c.gate.Leave(nil) {
		c.perform(o)
	}
	if err := c.gate.Over(); err != nil {
		c.w.violate("memory is bounded", "%s: %v", c.p.name, err)
	}
}

// persist appends the facts that wait, one record at a time.
func (c *coordNode) persist() {
	if facts := c.gate.Record(c.core, nil); len(facts) > 0 {
		r := sharding.Record{Seq: c.gate.Seq()}
		for _, f := range facts {
			c.w.facts = append(c.w.facts, f)
			r.Events = append(r.Events, sharding.Event{Name: "Fact", Payload: number(uint64(len(c.w.facts) - 1))})
		}
		c.write(sharding.Append{Shard: factShard, Epoch: sharding.MakeEpoch(c.term, 0), Entity: factEntity, Records: []sharding.Record{r}})
	}
	if seq := c.gate.Snapshot(); seq > 0 {
		c.snapshot(seq)
	}
}

// snapshot says from where on the stream is read. If nothing is known it is
// written again.
func (c *coordNode) snapshot(seq uint64) {
	op := journal.WriteSnapshot{Shard: factShard, Epoch: sharding.MakeEpoch(c.term, 0), Entity: factEntity, Snapshot: journal.Snapshot{Seq: seq}}
	c.commit(c.tenure, []journal.Op{{Snapshot: &op}}, func(r []journal.Result) {
		stored := r != nil && r[0].Verdict == sharding.Durable
		if stored {
			c.w.mark("facts compacted")
		}
		c.gate.Compacted(stored)
	})
}

// write appends facts to the stream. If nothing is known the process stops: the
// next coordinator folds what is true.
func (c *coordNode) write(a sharding.Append) {
	c.commit(c.tenure, []journal.Op{{Append: &a}}, func(r []journal.Result) {
		switch {
		case r == nil:
			c.w.mark("coordinator: unknown outcome, stops")
			c.p.exit("outcome of a fact is unknown")
		case r[0].Verdict == sharding.Durable:
			c.step(coordinator.Stored{Facts: c.gate.Stored()})
		case r[0].Verdict == sharding.RefusedFull || r[0].Verdict == sharding.RefusedDamaged:
			c.write(a)
		default:
			c.w.mark("coordinator: fact fenced")
			c.depose("fenced")
			c.lease(lease.RaiseTerm{Above: r[0].Fence.Epoch.Term()})
		}
	})
}

func (c *coordNode) perform(o coordinator.Output) {
	w := c.w
	if _, standby := o.(coordinator.NotActive); !standby && w.highest > c.term && !w.recordLost {
		w.violate("one coordinator at a time", "%s speaks in term %d after term %d was acquired: %+v", c.p.name, c.term, w.highest, o)
	}
	switch o := o.(type) {
	case coordinator.HostShard:
		c.checkDurable(sharding.Row{Shard: o.Shard, Owner: o.To, Epoch: o.Epoch, Phase: sharding.Starting})
		w.tellRegion(c.p, o.To, func(n *regionNode) { n.hostShard(c.p.addr, o) })
	case coordinator.HandOff:
		w.mark("handoff")
		c.checkDurable(sharding.Row{Shard: o.Shard, Owner: o.To, Epoch: o.Epoch, Phase: sharding.HandingOff})
		w.tellRegion(c.p, o.To, func(n *regionNode) { n.handOff(c.p.addr, o) })
	case coordinator.ProbeJournal:
		gen, tenure := c.p.gen, c.tenure
		w.journal.read(c.p.host, func() {}, func(ok bool) {
			if c.p.gen == gen {
				c.p.post(func() {
					if c.tenure == tenure {
						c.step(coordinator.JournalProbed{Verdict: questioned(ok)})
					}
				})
			}
		})
	case coordinator.RegisterAck:
		w.tellRegion(c.p, o.To, func(n *regionNode) { n.registerAck(o) })
	case coordinator.ShutdownAck:
		w.tellRegion(c.p, o.To, func(n *regionNode) { n.shutdownAck(o) })
	case coordinator.TableChanged:
		delta := o.Delta
		for _, row := range delta.Rows {
			c.checkDurable(row)
		}
		c.answerWatch(o.Watch, watchAnswer{delta: &delta})
	case coordinator.NotActive:
		c.answerWatch(o.Watch, watchAnswer{active: o.Active, term: o.Term})
	default:
		w.violate("driver", "coordinator output %T is not known here", o)
	}
}

// checkDurable looks whether what is revealed is in the journal.
func (c *coordNode) checkDurable(row sharding.Row) {
	if !c.w.journal.rows[row] {
		c.w.violate("durable before revealed", "%s reveals %+v, which is no fact", c.p.name, row)
	}
}

func (c *coordNode) answerWatch(id coordinator.WatchID, a watchAnswer) {
	answer := c.watches[id]
	if answer == nil {
		c.w.violate("driver", "%s answers watch %d twice, or it never came", c.p.name, id)
		return
	}
	delete(c.watches, id)
	answer(a)
}

func (c *coordNode) serveWatch(v sharding.Version, answer func(watchAnswer)) {
	c.nextWatch++
	c.watches[c.nextWatch] = answer
	c.step(coordinator.WatchTable{Watch: c.nextWatch, Version: v})
}

func (c *coordNode) getShardHome(s sharding.ShardID, refused sharding.Epoch) {
	c.step(coordinator.GetShardHome{Shard: s, Refused: refused})
}

func (c *coordNode) stop() { c.member.stop() }

// performLease brings the requests of the lease to its store.
func (c *coordNode) performLease() {
	out := c.lout
	c.lout = nil
	for _, o := range out {
		switch o := o.(type) {
		case lease.Get:
			c.w.lease.ask(c.p, func(r lease.Record) (lease.Record, lease.Input) {
				return r, lease.Got{Request: o.Request, Record: r}
			}, c.lease)
		case lease.Swap:
			c.w.lease.ask(c.p, func(r lease.Record) (lease.Record, lease.Input) {
				if !r.Yields(o.Old, o.New) {
					return r, lease.Swapped{Request: o.Request, Outcome: lease.Conflict}
				}
				return o.New, lease.Swapped{Request: o.Request, Outcome: lease.Done}
			}, c.lease)
		}
	}
}

// leaseStore keeps the one record that says who may act as coordinator. Its
// replies may get lost, and its requests late.
type leaseStore struct {
	w      *World
	record lease.Record
}

func (s *leaseStore) ask(p *process, do func(lease.Record) (lease.Record, lease.Input), answer func(lease.Input)) {
	w := s.w
	gen := p.gen
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
			if p.gen == gen {
				p.post(func() { answer(in) })
			}
		})
	})
}
