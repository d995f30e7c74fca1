package server

import (
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/splitbrain"
	"github.com/roost-cluster/roost/libs/wire"
	"github.com/roost-cluster/roost/services/coordinator"
)

// inbox gathers what the loop will do next.
type inbox struct {
	mu    sync.Mutex
	items []func()
	wake  chan struct{}
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

func (b *inbox) put(f func()) {
	b.mu.Lock()
	b.items = append(b.items, f)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *inbox) take() []func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.items
	b.items = nil
	return items
}

const tickEvery = 50 * time.Millisecond

// minorityRank is splitbrain.MinorityDelay in places in line for the lease.
var minorityRank = int(splitbrain.MinorityDelay/lease.DefaultConfig().RankDelay) + 1

// loop owns the core. Nothing waits inside it.
func (s *Server) loop() {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for {
		tick := false
		select {
		case <-s.ctx.Done():
			return
		case <-s.inbox.wake:
		case <-ticker.C:
			tick = true
		}
		for _, f := range s.inbox.take() {
			s.lapse()
			f()
		}
		if tick {
			s.shareLease()
			s.watchJournal()
			s.signLife()
			s.step(coordinator.Tick{})
		}
		s.pump()
	}
}

func (s *Server) step(in coordinator.Input) {
	s.outs = s.core.Step(time.Now(), in, s.outs[:0])
	if s.gate != nil {
		for _, o := range s.outs {
			if p, ok := o.(coordinator.Persist); ok {
				s.measure(p.Fact)
			}
		}
		s.gate.Add(s.outs)
	} else {
		for _, o := range s.outs {
			s.perform(o)
		}
	}
	clear(s.outs)
}

// lapse steps down when the lease is over by our own clock: from then on
// nothing leaves any more, not even what was durable in time.
func (s *Server) lapse() {
	if s.term == 0 {
		return
	}
	if t, ok := s.keeper.Valid(); !ok || t != s.term {
		s.depose()
	}
}

// pump performs what may leave, and has facts stored. More that waits than may
// ends the term: a coordinator whose journal does not answer is of no use.
func (s *Server) pump() {
	s.lapse()
	if s.gate == nil {
		return
	}
	s.leave()
	if err := s.gate.Over(); err != nil {
		s.log.Error("stepping down: too much waits for the journal", "term", s.term, "error", err, "journal", s.trouble.why())
		s.depose()
		s.keeper.Yield()
		return
	}
	if facts := s.gate.Record(s.core, nil); len(facts) > 0 {
		s.storeFacts(facts)
	}
	if seq := s.gate.Snapshot(); seq > 0 {
		s.writeSnapshot(seq)
	}
}

func (s *Server) leave() {
	s.leaving = s.gate.Leave(s.leaving[:0])
	for _, o := range s.leaving {
		s.perform(o)
	}
	clear(s.leaving)
}

func (s *Server) perform(o coordinator.Output) {
	switch o := o.(type) {
	case coordinator.HostShard:
		s.hostShard(o)
	case coordinator.HandOff:
		s.handOff(o)
	case coordinator.TableChanged:
		if ch := s.watches[o.Watch]; ch != nil {
			delete(s.watches, o.Watch)
			ch <- wire.ToDelta(o.Delta)
		}
	case coordinator.NotActive:
		if ch := s.watches[o.Watch]; ch != nil {
			delete(s.watches, o.Watch)
			ch <- toNotActive(o)
		}
	case coordinator.RegisterAck:
		s.registers.answer(o.To, result[coordinator.RegisterAck]{ack: o})
	case coordinator.ProbeJournal:
		s.probeJournal()
	case coordinator.ShutdownAck:
		s.shutdowns.answer(o.To, result[coordinator.ShutdownAck]{ack: o})
	}
}

// probeJournal reads the fence of a shard that nobody has, on the way that facts
// take.
func (s *Server) probeJournal() {
	term := s.term
	s.journal.Submit(journal.Op{Fence: &sharding.ReadFence{Shard: probeShard}}, func(r journal.Result) {
		s.inbox.put(func() {
			if s.term == term {
				s.step(coordinator.JournalProbed{Verdict: r.Verdict})
			}
		})
	})
}

var probeShard = sharding.ShardID{Type: "roost.probe"}

// depose stops acting as the active coordinator. What was decided and is not
// durable is forgotten; the next coordinator folds what is.
func (s *Server) depose() {
	if s.term == 0 {
		return
	}
	s.log.Warn("not active any more", "term", s.term)
	dropped := s.gate.End()
	s.term, s.gate = 0, nil
	clear(s.moves)
	s.trouble, s.signs = trouble{}, signs{}
	s.step(coordinator.Deposed{})
	for _, w := range dropped { // not durable: not told
		s.perform(coordinator.NotActive{Watch: w, Active: s.known.Node, Term: s.known.Term})
	}
	s.registers.refuse(s.errStandby())
	s.shutdowns.refuse(s.errStandby())
}

// onLease takes the lease's news; it runs on the keeper's goroutine.
func (s *Server) onLease(o lease.Output) {
	switch o := o.(type) {
	case lease.Acquired:
		s.log.Info("lease acquired", "term", o.Term)
		s.inbox.put(func() {
			s.depose() // of a lower term, if of any
			go s.elect(o)
		})
	case lease.Lost:
		s.inbox.put(func() {
			if s.term == o.Term {
				s.depose()
			}
		})
	case lease.Observed:
		s.inbox.put(func() {
			s.known = coordinator.Active{Node: o.Holder, Term: o.Term}
			s.step(s.known)
		})
	}
}

// shareLease tells the membership who holds the lease: its side stays when
// members cannot reach each other.
func (s *Server) shareLease() {
	holder, until := s.keeper.Current()
	if l := (gossip.Lease{Holder: holder, Until: until}); l != s.lease {
		s.lease = l
		s.agent.Lease(l)
	}
}

// onMember takes the membership's news; it runs on the agent's goroutine.
func (s *Server) onMember(e gossip.Event) {
	switch e := e.(type) {
	case gossip.SelfDowned, gossip.Left:
		return
	case gossip.MemberRemoved:
		s.inbox.put(func() { s.memberGone(e.Member) })
	case gossip.MemberDowned:
		s.inbox.put(func() { s.memberGone(e.Member) })
	case gossip.YieldLease:
		s.inbox.put(s.yieldLease)
		return
	}
	s.inbox.put(s.reviewMembers)
}

// yieldLease leaves the lease to a coordinator on the larger side of a partition.
func (s *Server) yieldLease() {
	s.reviewMembers() // our place in line, behind those
	s.keeper.Yield()
}

func (s *Server) memberGone(m gossip.Member) {
	if m.HasRole("region") {
		delete(s.members, m.Node)
		s.step(coordinator.MemberGone{Node: m.Node})
	}
}

// reviewMembers tells the core what changed of its regions, and the lease our
// place in line.
func (s *Server) reviewMembers() {
	v := s.agent.Members()
	for _, m := range v.Members {
		if !m.HasRole("region") || m.Status == gossip.Down || m.Status == gossip.Removed {
			continue
		}
		now := coordinator.Member{
			Node: m.Node, Name: m.Name, Reachable: m.ReachableByMe,
			Joining: m.Status < gossip.Up, Leaving: m.Status == gossip.Leaving || m.Status == gossip.Exiting,
		}
		if now != s.members[m.Node] {
			s.members[m.Node] = now
			s.step(now)
		}
	}
	rank := v.Rank("coordinator", s.self)
	if splitbrain.InMinority(v, "") {
		rank += minorityRank // the larger side goes first
	}
	s.keeper.SetRank(rank)
}
