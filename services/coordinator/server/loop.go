package server

import (
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/loop"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/splitbrain"
	"github.com/roost-cluster/roost/services/coordinator"
	"github.com/roost-cluster/roost/services/coordinator/console"
)

// tickEvery is the time between two ticks while something happens; see [coordinator.NewRest].
const tickEvery = 50 * time.Millisecond

// run is the loop, until the context of the server ends.
func (s *Server) run() {
	s.rest = coordinator.NewRest()
	loop.Run(s.ctx, s.inbox, tickEvery, s.rest.Due, s.takeBatch)
}

// takeBatch runs what has come. Nothing waits inside it. News of the lease come before everything else.
func (s *Server) takeBatch(batch []func(), tick bool) {
	if len(batch) > 0 && s.learnUntil() { // watches may be among them
		s.step(s.known)
	}
	for _, f := range batch {
		s.hearLease()
		f()
	}
	s.hearLease()
	if tick {
		s.rest.Tick(time.Now())
		s.ticks++
		s.shareLease()
		s.watchJournal()
		s.step(coordinator.Tick{})
		s.keepExplanations()
	}
}

func (s *Server) hearLease() {
	for _, f := range s.news.Take(nil) {
		f()
	}
}

// leaseNews makes the loop run f before everything else that waits.
func (s *Server) leaseNews(f func()) {
	s.news.Put(f)
	s.inbox.Wake()
}

// step gives the core an input and performs what it puts out, in order. An output
// may step the core again, after what was put out before.
func (s *Server) step(in coordinator.Input) {
	now, had := time.Now(), len(s.outs)
	s.outs = s.core.Step(now, in, s.outs)
	if coordinator.Stirs(in, s.outs[had:]) {
		s.rest.Stir(now)
	}
	if s.performing {
		return
	}
	s.performing = true
	for i := 0; i < len(s.outs); i++ {
		s.perform(s.outs[i])
	}
	clear(s.outs)
	s.outs, s.performing = s.outs[:0], false
}

func (s *Server) perform(o coordinator.Output) {
	switch o := o.(type) {
	case coordinator.Send:
		s.outbox.Send(o.To, o.Msg)
	case coordinator.Reply:
		s.calls.Answer(o.Call, rpc.Answer{Msg: o.Msg})
	case coordinator.BecameActive:
		s.log.Info("active", "term", o.Term, "facts", o.Facts)
		s.explanations.Begin(o.Term, time.Now())
	case coordinator.Asked:
		s.answered(o)
	case coordinator.Done:
		s.done(o.Number, nil)
	case coordinator.Explained:
		s.explanations.Add(time.Now(), console.EncodeExplanation(&o.Explanation))
	case coordinator.SteppedDown:
		s.steppedDown(o)
	case coordinator.Contested:
		s.fail(s.contested(o))
	case coordinator.Waiting:
		s.log.Info("the journal may belong to another cluster", "hint", "watching for its journal heartbeats before this cluster claims it",
			"term", o.Term, "other", o.Other.Cluster, "coordinator", o.Other.Coordinator.Addr)
	case coordinator.Adopted:
		s.log.Warn("claimed the journal of a cluster that stopped", "hint", "it writes no journal heartbeats any more",
			"former", o.From.Cluster, "coordinator", o.From.Coordinator.Addr, "cluster", o.Cluster)
	case coordinator.FactsMissing:
		s.log.Warn("the coordinators' facts are gone, starting without them",
			"hint", "the journal has records of entities, so facts were lost: operators' requests (drains, cordons, pins, freezes), quarantines, the target version and the forms that shards may have. "+
				"Stop all processes and restore a backup that has them (docs/running/backup.md), or request again what is needed (docs/running/repair.md)",
			"term", o.Term, "stored", o.Stored)
	case coordinator.TargetSet:
		s.log.Info("the target version of rollouts is set", "version", o.Version, "before", o.Before, "why", o.Why)
	case coordinator.BrakeChanged:
		s.log.Info(brakeLog(o), "state", o.State, "part", o.Part, "p99", o.P99, "usually", o.Baseline, "samples", o.Samples)
	case coordinator.DrainStays:
		s.log.Warn("the drain of a region does not end", "hint", console.DrainStays(&o.Shards), "region", o.Region, "type", o.Shards.Type, "shards", o.Shards.Shards)
	case coordinator.NameTaken:
		s.log.Warn("two regions share one name", "hint", "give each region its own node.name, or stop the extra one", "name", o.Name, "region", o.Region, "other", o.By)
	case coordinator.QuarantineChanged:
		s.quarantineChanged(o.QuarantineFact)
	case coordinator.QuarantineFull:
		s.log.Error("quarantine is full, an entity is not suspected", "hint", "it may have crashed a region; release repaired entities: roost entity quarantine", "entity.type", o.Entity.Type, "entity.id", o.Entity.ID)
	case coordinator.NoLoad:
		s.log.Warn("a region reports no load of its shards", "hint", "no shard moves because of load until it does; its region.load_interval may be 0", "region", o.Region)
	case coordinator.ConstraintBroken:
		if o.Shards > 0 {
			s.log.Warn("shards violate a placement constraint", "constraint", o.Constraint.String(), "shards", o.Shards)
		} else {
			s.log.Info("all shards meet the placement constraints again", "constraint", o.Constraint.String())
		}
	case coordinator.UnreadableNow:
		s.log.Warn("commands for these shards are refused", "hint", console.UnreadableNow(o), "type", o.Type, "shards", o.Shards)
	case coordinator.Plan:
		s.plan(o)
	case coordinator.RaiseTerm:
		s.keeper.RaiseTerm(o.Above)
	case coordinator.YieldLease:
		s.keeper.Yield()
	default:
		s.performJournal(o)
	}
}

// planLate is the delay after which a running plan is logged as slow. A plan of the largest table takes some seconds.
const planLate = 30 * time.Second

// plan makes a plan in the background. The core asks for the next one only when it has this one.
func (s *Server) plan(o coordinator.Plan) {
	go func() {
		begin := time.Now()
		late := time.AfterFunc(planLate, func() {
			s.log.Warn("planning is slow", "hint", "no rebalancing and no move to a pin until it finishes; a strategy may be stuck", "since", begin.UTC().Format(time.RFC3339))
		})
		in := o.Compute()
		late.Stop()
		if took := time.Since(begin); took > s.limits.RebalanceInterval {
			s.log.Info("planning takes longer than coordinator.rebalance_interval", "took", took.Round(time.Millisecond))
		}
		s.inbox.Put(func() { s.step(in) })
	}()
}

// steppedDown logs the end of a term, and forgets what belongs to it.
func (s *Server) steppedDown(o coordinator.SteppedDown) {
	log := s.log
	if !s.trouble.since.IsZero() {
		log = log.With("journal", s.trouble.why(s.journal.Failure()))
	}
	log.Warn("stepped down", "term", o.Term, "why", o.Why)
	clear(s.moves)
	for number := range s.asked { // order-free: each operator waits alone
		s.done(number, inDoubt(twirp.Unavailable, "this coordinator stepped down before the request was durable ("+o.Why+")"))
	}
	if o.Resigned {
		s.explanations.Flush(time.Now())
	} else {
		s.explanations.End()
	}
	s.trouble = trouble{}
}

// resign ends the term, and calls done when the last explanations are stored, or cannot be.
func (s *Server) resign(done func()) {
	s.step(coordinator.Resign{})
	s.explanationsEnded = done
	s.keepExplanations()
}

// onLease takes the lease's news; it runs on the keeper's goroutine.
func (s *Server) onLease(o lease.Output) {
	switch o := o.(type) {
	case lease.Acquired:
		s.log.Info("lease acquired", "term", o.Term)
		s.leaseNews(func() {
			s.reviewMembers()
			s.step(coordinator.Acquired{Term: o.Term, Until: o.Until, Cluster: o.Cluster})
		})
	case lease.Renewed:
		s.leaseNews(func() { s.step(coordinator.Renewed{Term: o.Term, Until: o.Until}) })
	case lease.Lost:
		s.leaseNews(func() { s.step(coordinator.Lost{Term: o.Term}) })
	case lease.Observed:
		s.leaseNews(func() {
			s.known.Node, s.known.Term = o.Holder, o.Term
			s.learnUntil()
			s.step(s.known)
			if v := s.agent.Members(); v.InCluster { // else its rank is set when it has joined
				s.setRank(v)
			}
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
		if s.learnUntil() {
			s.step(s.known)
		}
	}
}

// learnUntil reads when the lease of another coordinator ends, and reports whether that is news.
func (s *Server) learnUntil() bool {
	holder, until := s.keeper.Current()
	if holder != s.known.Node || holder == s.self || until.Equal(s.known.Until) {
		return false
	}
	s.known.Until = until
	return true
}

// onMember takes the membership's news; it runs on the agent's goroutine.
func (s *Server) onMember(e gossip.Event) {
	switch e := e.(type) {
	case gossip.SelfDowned, gossip.Left:
		return
	case gossip.MemberRemoved:
		s.inbox.Put(func() { s.memberGone(e.Member) })
	case gossip.MemberDowned:
		s.inbox.Put(func() { s.memberGone(e.Member) })
	case gossip.YieldLease:
		s.inbox.Put(s.yieldLease)
		return
	}
	if !s.reviewDue.Swap(true) { // one look finds all that has changed by then
		s.inbox.Put(s.reviewMembers)
	}
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
	s.reviewDue.Store(false)
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
	s.setRank(v)
}

// setRank tells the lease our place in line.
func (s *Server) setRank(v gossip.View) {
	s.keeper.SetRank(splitbrain.LeaseRank(v, "coordinator", s.self, s.known.Node, s.cfg.Lease.RankDelay))
}

// brakeLog says for the log what the brake does now.
func brakeLog(o coordinator.BrakeChanged) string {
	if why := coordinator.BrakeView(o).Why(); why != "" {
		return why
	}
	return "voluntary moves have the whole budget again"
}
