package sim

import (
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/splitbrain"
)

const (
	roleCoordinator = "coordinator"
	roleRegion      = "region"
)

// member is the driver of the membership core inside a process.
type member struct {
	w       *World
	p       *process
	core    *gossip.Machine
	out     []gossip.Output
	changed func(memberChange)
	yield   func() // gives the lease up
	// cachedRank is the last result of rank, for rankHolder. It must be computed again if rankStale is set.
	cachedRank int
	rankHolder sharding.NodeID
	rankStale  bool
	ticks      int                      // how many ticks the process has had
	dead       map[sharding.NodeID]bool // processes that have ended, by evidence of a gossip.NodeGone
	removed    map[sharding.NodeID]bool // members that were removed
	over       bool                     // the process stops
	lastTick   time.Time                // of the core
}

// memberChange is a coordinator's notice about another member.
type memberChange struct {
	node             sharding.NodeID
	name, role       string
	reachable        bool
	joining, leaving bool
	gone             bool
}

func newMember(w *World, p *process, role string, changed func(memberChange)) *member {
	cfg := gossip.DefaultConfig()
	cfg.Self, cfg.Name, cfg.Roles = p.id(), p.name, []string{role}
	cfg.Seeds = w.seeds()
	cfg.IgnoreSettings = []string{"gossip.heartbeat_interval", "gossip.acceptable_pause"} // coordinators have another profile than regions
	if role == roleCoordinator {
		cfg.Watch = gossip.FastProfile()
		cfg.WatchRoles = []string{roleRegion}
	}
	if r := w.weather.Harsh.Retention; r > 0 {
		cfg.TombstoneTTL = nanos(r)
	}
	sbr := splitbrain.LeaseConfig(roleCoordinator)
	sbr.StableAfter = nanos(4 * sec) // shorter than usual: the members are few, and the storm is short
	var err error
	if cfg.Downing, err = sbr.Open(); err != nil {
		panic(err)
	}
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	m := &member{w: w, p: p, changed: changed, cachedRank: -1, dead: map[sharding.NodeID]bool{}, removed: map[sharding.NodeID]bool{}}
	m.core = gossip.New(cfg)
	p.post(func() { m.step(gossip.Start{}) })
	return m
}

func (m *member) step(in gossip.Input) {
	if m.over {
		return
	}
	if _, tick := in.(gossip.Tick); !tick {
		m.w.trace(m.p, "gossip<", in)
	}
	at := len(m.out)
	m.out = m.core.Step(m.p.now(), in, m.out)
	m.w.stepped(m.p, m.core, len(m.out)-at)
	if _, tick := in.(gossip.Tick); tick {
		m.checkOwnPause(m.out[at:])
	}
}

// checkOwnPause checks the outputs of a tick. If the tick comes late, this process was paused.
// Then it must not suspect others: their heartbeats have waited in the process.
func (m *member) checkOwnPause(out []gossip.Output) {
	late := !m.lastTick.IsZero() && m.p.now().Sub(m.lastTick) >= lateTick
	m.lastTick = m.p.now()
	for _, o := range out {
		if r, ok := o.(gossip.ReachabilityChanged); ok && late && r.ByMe && !r.Reachable {
			m.w.violate("my own pause suspects no other member", "%s suspects %v after it was paused itself", m.p.name, r.Node)
		}
	}
}

// lateTick is the time after the last tick at which a tick shows that the process was paused.
const lateTick = 400 * time.Millisecond

// tick gives the core every third tick of the process, that is one every 60 ms or more, if anything is due.
func (m *member) tick() {
	if m.ticks++; m.ticks%3 == 0 && !m.p.now().Before(m.core.Due()) {
		m.step(gossip.Tick{})
	}
}

func (m *member) leave() { m.step(gossip.Leave{}) }

func (m *member) stop() { m.over = true }

func (m *member) flush() {
	for len(m.out) > 0 && !m.over {
		out := m.out
		m.out = nil
		for _, o := range out {
			m.perform(o)
			if m.over {
				return
			}
		}
	}
}

func (m *member) perform(o gossip.Output) {
	if s, ok := o.(gossip.Send); ok {
		m.send(s)
		return
	}
	m.w.trace(m.p, "gossip>", o)
	m.rankStale = true
	switch o := o.(type) {
	case gossip.MemberJoined:
		m.checkNotRemoved(o.Member.Node)
		m.report(o.Member)
	case gossip.MemberWeaklyUp:
		m.w.mark("gossip: weakly up")
		m.checkNotRemoved(o.Member.Node)
		m.report(o.Member)
	case gossip.MemberUp:
		m.checkNotRemoved(o.Member.Node)
		m.report(o.Member)
	case gossip.MemberLeaving:
		m.report(o.Member)
	case gossip.MemberExited:
		m.report(o.Member)
	case gossip.MemberDowned:
		m.reportGone(o.Member)
	case gossip.MemberRemoved:
		m.removed[o.Member.Node] = true
		m.reportGone(o.Member)
	case gossip.NewIncarnation:
		m.w.mark("gossip: new incarnation")
		m.changed(memberChange{node: o.Old, role: roleRegion, gone: true})
	case gossip.NodeGone:
		m.w.mark("gossip: evidence of a dead process")
		m.dead[o.Node] = true
		m.reportNode(o.Node)
	case gossip.ReachabilityChanged:
		if o.ByMe {
			if !o.Reachable {
				m.w.mark("gossip: suspected")
			}
			m.reportNode(o.Node)
		}
	case gossip.DowningDecided:
		m.w.mark("gossip: split brain resolved")
	case gossip.YieldLease:
		m.w.mark("gossip: lease yielded")
		m.yield()
	case gossip.SelfDowned:
		m.w.mark("gossip: self downed")
		m.markForgotten()
		m.over, m.p.inOrder = true, true
		m.p.exit("downed: " + o.Reason)
	case gossip.Left:
		m.over, m.p.inOrder = true, true
		m.p.exit("left the cluster")
	case gossip.JoinFailed:
		m.over, m.p.inOrder = true, true
		m.p.exit("not let in: " + o.Reason)
	case gossip.Refused:
		if m.w.weather.Harsh.Retention > 0 && (strings.Contains(o.Reason, "removed and forgotten") || strings.Contains(o.Reason, "removed nodes") || strings.Contains(o.Reason, "latest era")) {
			m.w.mark("gossip: joiner refused because of its era")
			return
		}
		m.w.violate("driver", "%s: gossip refuses a message of %v: %s", m.p.name, o.From, o.Reason)
	}
}

func (m *member) send(s gossip.Send) {
	to := m.w.process(s.To.Addr)
	if to == nil {
		m.w.violate("driver", "%s: gossip to unknown address %s", m.p.name, s.To.Addr)
		return
	}
	from := m.p.id()
	m.w.net.send(m.p.host, to.host, func() {
		to.post(func() {
			if r := to.body.(interface{ membership() *member }).membership(); r != nil {
				r.step(gossip.Receive{From: from, To: s.To, Msg: s.Msg})
			}
		})
	})
}

func (n *regionNode) membership() *member { return n.member }
func (c *coordNode) membership() *member  { return c.member }

// checkNotRemoved checks that a member which appears was not removed before.
func (m *member) checkNotRemoved(n sharding.NodeID) {
	if m.removed[n] {
		m.w.violate("who was removed stays removed", "%s sees %v come back", m.p.name, n)
	}
}

// markForgotten is called when this member learns that it was downed. It marks the case in
// which another process has already forgotten the tombstone of this member.
func (m *member) markForgotten() {
	for _, p := range m.w.processes {
		b, ok := p.body.(interface{ membership() *member })
		if !ok || !p.up {
			continue
		}
		if o := b.membership(); o != nil && o != m && !o.over && o.core.Era().Number > m.core.Era().Number+1 {
			m.w.mark("gossip: downed when all had forgotten it")
			return
		}
	}
}

// report describes another member to the driver of this process.
func (m *member) report(mem gossip.Member) {
	if mem.Node == m.p.id() || len(mem.Roles) == 0 {
		return
	}
	v := m.core.View()
	mv, ok := v.Member(mem.Node)
	if !ok {
		return
	}
	m.changed(memberChange{
		node: mem.Node, name: mem.Name, role: mem.Roles[0],
		reachable: mv.ReachableByMe && !m.dead[mem.Node],
		joining:   mv.Status < gossip.Up,
		leaving:   mv.Status == gossip.Leaving || mv.Status == gossip.Exiting,
	})
}

// reportNode reports a member again, after its reachability has changed.
func (m *member) reportNode(node sharding.NodeID) {
	v := m.core.View()
	if mv, ok := v.Member(node); ok && mv.Status != gossip.Down {
		m.report(mv.Member)
	}
}

// reportGone reports that a member was downed or removed.
func (m *member) reportGone(mem gossip.Member) {
	if mem.Node != m.p.id() && len(mem.Roles) > 0 {
		delete(m.dead, mem.Node)
		m.changed(memberChange{node: mem.Node, role: mem.Roles[0], gone: true})
	}
}

// rank returns this member's rank among the candidates for the lease (splitbrain.LeaseRank):
// the oldest has rank 0, and a process that is not in the cluster has a negative one. The last holder of the lease is
// the parameter holder.
func (m *member) rank(holder sharding.NodeID) int {
	if m.rankStale || m.rankHolder != holder {
		m.rankStale, m.rankHolder = false, holder
		m.cachedRank = splitbrain.LeaseRank(m.core.View(), roleCoordinator, m.p.id(), holder, lease.DefaultConfig().RankDelay)
	}
	return m.cachedRank
}
