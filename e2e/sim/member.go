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
	ranked  int
	stale   bool // the rank has to be looked up again
	beats   int
	dead    map[sharding.NodeID]bool // evidence says so
	removed map[sharding.NodeID]bool
	over    bool
	ticked  time.Time // the last tick
}

// memberChange is what a coordinator needs to know about another member.
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
	cfg.IgnoreSettings = []string{"heartbeat"} // coordinators watch faster
	if role == roleCoordinator {
		cfg.Watch = gossip.FastProfile()
		cfg.WatchRoles = []string{roleRegion}
	}
	if r := w.weather.Harsh.Retention; r > 0 {
		cfg.TombstoneTTL = nanos(r)
	}
	sbr := splitbrain.LeaseConfig(roleCoordinator)
	sbr.StableAfter = nanos(4 * sec) // enough for so few, and the weather does not last long
	var err error
	if cfg.Downing, err = sbr.Open(); err != nil {
		panic(err)
	}
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	m := &member{w: w, p: p, changed: changed, ranked: -1, dead: map[sharding.NodeID]bool{}, removed: map[sharding.NodeID]bool{}}
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
		m.blame(m.out[at:])
	}
}

// blame looks at what a tick said: one that comes late was late itself, and
// must not suspect others.
func (m *member) blame(out []gossip.Output) {
	late := !m.ticked.IsZero() && m.p.now().Sub(m.ticked) >= lateTick
	m.ticked = m.p.now()
	for _, o := range out {
		if r, ok := o.(gossip.ReachabilityChanged); ok && late && r.ByMe && !r.Reachable {
			m.w.violate("my own pause is nobody's death", "%s suspects %v after it was paused itself", m.p.name, r.Node)
		}
	}
}

// lateTick is the time between two ticks that shows a pause.
const lateTick = 400 * time.Millisecond

// tick passes every third tick of the process on: every 60 ms or more.
func (m *member) tick() {
	if m.beats++; m.beats%3 == 0 {
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
	m.stale = true
	switch o := o.(type) {
	case gossip.MemberJoined:
		m.cameBack(o.Member.Node)
		m.tell(o.Member)
	case gossip.MemberWeaklyUp:
		m.w.mark("gossip: weakly up")
		m.cameBack(o.Member.Node)
		m.tell(o.Member)
	case gossip.MemberUp:
		m.cameBack(o.Member.Node)
		m.tell(o.Member)
	case gossip.MemberLeaving:
		m.tell(o.Member)
	case gossip.MemberExited:
		m.tell(o.Member)
	case gossip.MemberDowned:
		m.gone(o.Member)
	case gossip.MemberRemoved:
		m.removed[o.Member.Node] = true
		m.gone(o.Member)
	case gossip.NewIncarnation:
		m.w.mark("gossip: new incarnation")
		m.changed(memberChange{node: o.Old, role: roleRegion, gone: true})
	case gossip.NodeGone:
		m.w.mark("gossip: evidence of a dead process")
		m.dead[o.Node] = true
		m.retell(o.Node)
	case gossip.ReachabilityChanged:
		if o.ByMe {
			if !o.Reachable {
				m.w.mark("gossip: suspected")
			}
			m.retell(o.Node)
		}
	case gossip.DowningDecided:
		m.w.mark("gossip: split brain resolved")
	case gossip.YieldLease:
		m.w.mark("gossip: lease yielded")
		m.yield()
	case gossip.SelfDowned:
		m.w.mark("gossip: self downed")
		m.markForgotten()
		m.over = true
		m.p.exit("downed: " + o.Reason)
	case gossip.Left:
		m.over = true
		m.p.exit("left the cluster")
	case gossip.JoinFailed:
		m.over = true
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

// cameBack holds up that who was removed never comes back.
func (m *member) cameBack(n sharding.NodeID) {
	if m.removed[n] {
		m.w.violate("who was removed stays removed", "%s sees %v come back", m.p.name, n)
	}
}

// markForgotten marks the end of a member whose tombstones are gone by now.
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

// tell describes a member to the cores that decide about it.
func (m *member) tell(mem gossip.Member) {
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

// retell describes a member again after its reachability changed.
func (m *member) retell(node sharding.NodeID) {
	v := m.core.View()
	if mv, ok := v.Member(node); ok && mv.Status != gossip.Down {
		m.tell(mv.Member)
	}
}

func (m *member) gone(mem gossip.Member) {
	if mem.Node != m.p.id() && len(mem.Roles) > 0 {
		delete(m.dead, mem.Node)
		m.changed(memberChange{node: mem.Node, role: mem.Roles[0], gone: true})
	}
}

// rank is this node's place among the candidates for the lease, oldest first,
// behind all of them while it is not up yet; -1 if it is not in the cluster.
func (m *member) rank() int {
	if m.stale {
		m.stale = false
		m.ranked = splitbrain.LeaseRank(m.core.View(), roleCoordinator, m.p.id(), lease.DefaultConfig().RankDelay)
	}
	return m.ranked
}
