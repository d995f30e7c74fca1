package explore

import (
	"fmt"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
	"github.com/roost-cluster/roost/services/region"
)

var (
	desc = sharding.TypeDesc{Type: "T", Shards: 1, Commands: []sharding.CommandDesc{
		{Name: cmdAdd}, {Name: cmdGet, ReadOnly: true},
	}}
	theShard   = sharding.ShardID{Type: "T"}
	theEntity  = sharding.Entity{Type: "T", ID: "e"}
	factShard  = sharding.ShardID{Type: "roost.coordinator"}
	factEntity = sharding.Entity{Type: "roost.coordinator", ID: "facts"}
)

const (
	cmdAdd = "Add" // appends the number of the command
	cmdGet = "Get"
	// tick is how much time passes when it runs out for a process: more than
	// any pause of the cores.
	tick = time.Second
)

// cluster is two coordinators, two regions, a journal and a client.
type cluster struct {
	bound  Bound
	now    time.Time
	ledger *memory.Ledger
	coords [2]coord
	hosts  [2]host
	net    []message
	calls  []call
	term   sharding.Term // the newest
	served []sharding.Row
	facts  []sharding.Row // durable rows
	read   int            // how much of the log of commits they were read from
	why    string
}

// message is anything under way. Its text says all that do does.
type message struct {
	text string
	// local messages are not lost or doubled: they stay within a process.
	local bool
	do    func(*cluster)
	to    sharding.NodeID // the region incarnation it is about, if any
	coord int             // one more than the coordinator it goes to, if any
	// op is set for what goes to the journal; then fails those who asked.
	op      *journal.Op
	unknown func(*cluster)
}

// coord is a coordinator and its driver.
type coord struct {
	core  *coordinator.Machine
	gen   int
	at    time.Time // of its last step
	term  sharding.Term
	live  bool // elected, not deposed
	held  []coordinator.Output
	facts []coordinator.Fact
	seq   uint64
	busy  bool
}

// newCluster is a cluster whose shard has just been given to one of the
// regions; nobody has heard of it yet.
func newCluster(b Bound) *cluster {
	w := &cluster{now: start, ledger: memory.NewLedger(journal.DefaultConfig())}
	for i := range w.hosts {
		w.startRegion(i, sharding.NodeUID(i+1))
	}
	for i := range w.coords {
		w.startCoordinator(i)
	}
	w.net = nil
	w.elect(0)
	for len(w.net) > 0 { // the regions register
		m := w.net[0]
		w.net = w.net[1:]
		w.arrive(m)
	}
	w.coordStep(0, coordinator.GetShardHome{Shard: theShard})
	m := w.net[0]
	w.net = nil
	w.arrive(m)
	w.bound = b
	return w
}

func (w *cluster) fail(format string, args ...any) {
	if w.why == "" {
		w.why = fmt.Sprintf(format, args...)
	}
}

func (w *cluster) broken() string { return w.why }

func (w *cluster) send(to sharding.NodeID, text string, do func(*cluster)) {
	w.net = append(w.net, message{text: text, do: do, to: to})
}

// after is what happens inside a process, once and later.
func (w *cluster) after(to sharding.NodeID, text string, do func(*cluster)) {
	w.net = append(w.net, message{text: text, local: true, do: do, to: to})
}

// commit sends an operation to the journal.
func (w *cluster) commit(to sharding.NodeID, text string, op journal.Op, done func(*cluster, journal.Result)) {
	w.net = append(w.net, message{
		text: text, op: &op, to: to,
		do:      func(n *cluster) { done(n, n.apply(op)) },
		unknown: func(n *cluster) { done(n, journal.Result{Verdict: sharding.UnknownOutcome}) },
	})
}

// apply is the journal at work.
func (w *cluster) apply(op journal.Op) journal.Result {
	r := w.ledger.Apply(start, []journal.Op{op})[0]
	w.checkJournal()
	return r
}

func (w *cluster) arrive(m message) { m.do(w) }

func (w *cluster) moves() []move {
	var list []move
	add := func(fault bool, name string, do func(*cluster)) {
		if fault && w.bound.Faults == 0 {
			return
		}
		list = append(list, move{name, func(s state) {
			n := s.(*cluster)
			if fault {
				n.bound.Faults--
			}
			do(n)
			n.net = slices.DeleteFunc(n.net, n.void)
			n.check()
		}})
	}
	for i, m := range w.net {
		if slices.ContainsFunc(w.net[:i], func(o message) bool { return o.text == m.text }) {
			continue
		}
		take := func(n *cluster) { n.net = slices.Delete(n.net, i, i+1) }
		add(false, "arrives: "+m.text, func(n *cluster) { take(n); n.arrive(m) })
		switch {
		case m.local:
		case m.op != nil:
			add(true, "outcome unknown: "+m.text, func(n *cluster) {
				op := *m.op
				n.net[i] = message{text: "late: " + m.text, local: true, do: func(n *cluster) { n.apply(op) }}
				if op.Fence != nil {
					take(n)
				}
				m.unknown(n)
			})
		default:
			add(true, "doubled: "+m.text, func(n *cluster) { n.arrive(m) })
		}
	}
	for i := range w.hosts {
		add(true, fmt.Sprintf("crash of r%d", i), func(n *cluster) { n.crashRegion(i) })
	}
	for i := range w.coords {
		if w.coords[i].live {
			add(true, fmt.Sprintf("crash of c%d", i), func(n *cluster) { n.startCoordinator(i) })
		}
		if w.coords[i].term < w.term || !w.coords[i].live {
			add(true, fmt.Sprintf("c%d is elected", i), func(n *cluster) { n.elect(i) })
		}
	}
	if w.bound.Timeouts > 0 {
		for i := range w.hosts {
			add(false, fmt.Sprintf("time runs out at r%d", i), func(n *cluster) {
				n.pass()
				n.regionStep(i, region.Tick{})
			})
		}
		for i := range w.coords {
			if w.coords[i].live {
				add(false, fmt.Sprintf("time runs out at c%d", i), func(n *cluster) {
					n.pass()
					n.coordStep(i, coordinator.Tick{})
				})
			}
		}
	}
	return append(list, w.callMoves()...)
}

// void: whom the message is about is gone, and it changes nothing else.
func (w *cluster) void(m message) bool {
	if m.coord > 0 {
		return !w.coords[m.coord-1].live
	}
	if m.to.IsZero() || m.op != nil && m.op.Fence == nil {
		return false
	}
	return m.to != w.hosts[0].id && m.to != w.hosts[1].id
}

func (w *cluster) pass() {
	w.bound.Timeouts--
	w.now = w.now.Add(tick)
}

func (w *cluster) clone() state {
	c := *w
	c.ledger = w.ledger.Clone()
	for i := range c.coords {
		d := &c.coords[i]
		d.core, d.held, d.facts = d.core.Clone(), slices.Clone(d.held), slices.Clone(d.facts)
	}
	for i := range c.hosts {
		c.hosts[i].core = c.hosts[i].core.Clone()
		c.hosts[i].bodies = slices.Clone(c.hosts[i].bodies)
	}
	c.net, c.calls = slices.Clone(w.net), slices.Clone(w.calls)
	c.served, c.facts = slices.Clone(w.served), slices.Clone(w.facts)
	return &c
}

func (w *cluster) appendState(b []byte) []byte {
	b = fmt.Appendf(b, "%d %d %d %+v\n", w.bound.Faults, w.bound.Timeouts, w.term, w.calls)
	b = w.ledger.AppendState(b, start)
	for i := range w.coords {
		c := &w.coords[i]
		b = fmt.Appendf(b, "\nc%d %d %v %d %t %+v %+v %d %t ", i, c.gen, w.now.Sub(c.at), c.term, c.live, c.held, c.facts, c.seq, c.busy)
		b = c.core.AppendState(b)
	}
	for i := range w.hosts {
		h := &w.hosts[i]
		b = fmt.Appendf(b, "\nr%d %v %v %v %d ", i, h.id, h.stopped, h.bodies, h.next)
		b = h.core.AppendState(w.now, b)
	}
	texts := make([]string, len(w.net))
	for i := range w.net {
		texts[i] = w.net[i].text
	}
	slices.Sort(texts)
	return fmt.Appendf(b, "\n%q", texts)
}
