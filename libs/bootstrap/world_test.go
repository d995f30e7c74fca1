package bootstrap_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/bootstrap"
	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/gossiptest"
)

// tickEvery is the tick period of the bootstrap machines here.
const tickEvery = 100 * time.Millisecond

// world is a few processes that bootstrap, with the real machines of bootstrap
// and membership, in virtual time. Members of the forming role are c1:1, c2:1 …,
// others r1:1 ….
type world struct {
	seed   uint64
	rng    *rand.Rand
	net    *gossiptest.Net
	procs  []*proc
	events events
	order  int
	// lookup is the answer of discovery to a process now, or an error.
	lookup func(p *proc) ([]bootstrap.Peer, string)
	// orphans lets processes of other roles outlive all that form clusters.
	orphans bool

	forms  int
	broken string // the promise that was broken first
	trace  func(string)
}

// proc is a process, over all its incarnations.
type proc struct {
	node      *gossiptest.Node
	cfg       bootstrap.Config
	m         *bootstrap.Machine // nil while not running
	paused    bool
	held      []func() // what arrived meanwhile
	nextTick  time.Time
	nextAsk   time.Time
	listed    []bootstrap.Peer
	skewUntil time.Time
	finished  bool
}

func (p *proc) forms() bool { return p.cfg.Roles[0] == "coordinator" }

func newWorld(seed uint64, coordinators, regions int, change func(*bootstrap.Config)) *world {
	w := &world{seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), net: gossiptest.New(seed)}
	for i := range coordinators + regions {
		role, addr := "coordinator", fmt.Sprintf("c%d:1", i+1)
		if i >= coordinators {
			role, addr = "region", fmt.Sprintf("r%d:1", i-coordinators+1)
		}
		g := gossip.DefaultConfig()
		g.DriverDecides, g.Roles, g.Watch = true, []string{role}, gossip.FastProfile()
		cfg := bootstrap.DefaultConfig()
		cfg.Roles, cfg.Cluster, cfg.Required, cfg.Seed = g.Roles, "c", coordinators, seed
		if change != nil {
			change(&cfg)
		}
		node := w.net.Add(addr, g)
		node.RestartAfter = time.Second
		w.procs = append(w.procs, &proc{node: node, cfg: cfg})
	}
	w.lookup = func(*proc) ([]bootstrap.Peer, string) { return w.truth(), "" }
	return w
}

// truth are all nodes that form the cluster.
func (w *world) truth() []bootstrap.Peer {
	var peers []bootstrap.Peer
	for _, p := range w.procs {
		if p.forms() {
			peers = append(peers, bootstrap.Peer{Addr: p.node.Addr})
		}
	}
	return peers
}

func (w *world) tracef(format string, args ...any) {
	if w.trace != nil {
		w.trace(fmt.Sprintf("%8v ", w.net.Now.Sub(time.Unix(1_000_000, 0)).Round(time.Millisecond)) + fmt.Sprintf(format, args...))
	}
}

func (w *world) breaks(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
		w.tracef("BROKEN: %s", w.broken)
	}
}

// start starts a process that does not run.
func (w *world) start(p *proc) {
	if p.node.M == nil {
		w.tracef("%s starts", p.node.Addr)
		w.net.Start(p.node)
		w.adopt(p)
	}
}

// adopt gives a new incarnation of the membership its bootstrap.
func (w *world) adopt(p *proc) {
	p.cfg.Self = p.node.ID
	m, err := bootstrap.New(p.cfg)
	if err != nil {
		panic(err)
	}
	p.m, p.paused, p.held, p.finished = m, false, nil, false
	p.nextTick, p.nextAsk = w.net.Now, w.net.Now
	w.step(p, bootstrap.Start{})
}

func (w *world) crash(p *proc) {
	w.tracef("%s crashes", p.node.Addr)
	w.net.Crash(p.node)
	p.m, p.held, p.paused = nil, nil, false
}

func (w *world) pause(p *proc) {
	if p.m != nil {
		w.tracef("%s is paused", p.node.Addr)
		w.net.Pause(p.node)
		p.paused = true
	}
}

func (w *world) resume(p *proc) {
	if !p.paused {
		return
	}
	w.tracef("%s continues", p.node.Addr)
	w.net.Resume(p.node)
	p.paused = false
	held := p.held
	p.held = nil
	for _, f := range held {
		f()
	}
}

// step gives a process an input and performs what comes out.
func (w *world) step(p *proc, in bootstrap.Input) {
	if p.m == nil || p.node.M == nil {
		return
	}
	for _, o := range p.m.Step(w.net.Now, in, nil) {
		switch o := o.(type) {
		case bootstrap.Query:
			w.query(p, o.Addr)
		case bootstrap.JoinSeeds:
			w.tracef("%s joins through %v", p.node.Addr, o.Seeds)
			w.net.Step(p.node, gossip.SetSeeds{Seeds: o.Seeds})
		case bootstrap.FormCluster:
			w.form(p)
		case bootstrap.Waiting:
			w.tracef("%s %s", p.node.Addr, o.Why)
		case bootstrap.Finished:
			w.tracef("%s is a member", p.node.Addr)
			p.finished = true
		}
		if p.node.M == nil {
			return
		}
	}
	if err := p.m.Check(); err != nil {
		w.breaks("%s after %T: %v", p.node.Addr, in, err)
	}
}

func (w *world) form(p *proc) {
	if p.node.M.View().InCluster {
		return
	}
	w.net.Step(p.node, gossip.Form{})
	if p.node.M == nil || !p.node.M.View().InCluster {
		return
	}
	w.forms++
	w.tracef("%s forms a cluster", p.node.Addr)
	if !p.cfg.NewCluster || !p.forms() {
		w.breaks("%s formed a cluster and may not", p.node.Addr)
	}
}

// query asks the process that an address leads to. What the answer says is as of
// the moment at which it is given; it is as late as the network makes it.
func (w *world) query(p *proc, addr string) {
	incarnation, settled := p.m, false
	reply := func(in bootstrap.Input) {
		if p.m != incarnation || settled {
			return
		}
		settled = true
		if p.paused {
			p.held = append(p.held, func() { w.step(p, in) })
			return
		}
		w.step(p, in)
	}
	w.at(p.cfg.QueryTimeout, func() { reply(bootstrap.QueryFailed{Addr: addr, Reason: "no answer in time"}) })
	name := strings.TrimPrefix(addr, "alias-")
	if name == "localhost:1" {
		name = p.node.Addr
	}
	if name == "foreign:1" {
		w.at(w.delay(), func() {
			reply(bootstrap.Answered{Addr: addr, Answer: bootstrap.Answer{SelfNode: name, SelfUID: 1, SelfRoles: p.cfg.Roles, Cluster: "other",
				SeedNodes: []bootstrap.SeedNode{{Node: name, NodeUID: 1, Status: "Up"}}}})
		})
		return
	}
	i := slices.IndexFunc(w.procs, func(q *proc) bool { return q.node.Addr == name })
	if i < 0 {
		w.at(w.delay(), func() { reply(bootstrap.QueryFailed{Addr: addr, Reason: "no such host"}) })
		return
	}
	to := w.procs[i]
	answer := func() {
		if to.m == nil || to.node.M == nil {
			w.at(w.delay(), func() { reply(bootstrap.QueryFailed{Addr: addr, Reason: "connection refused"}) })
			return
		}
		v := to.node.M.View()
		a := bootstrap.AnswerOf(&v, to.cfg.Cluster, to.cfg.Roles)
		w.at(w.delay(), func() {
			if !w.isCut(to, p) {
				reply(bootstrap.Answered{Addr: addr, Answer: a})
			}
		})
	}
	w.at(w.delay(), func() {
		switch {
		case w.isCut(p, to):
		case to.paused:
			to.held = append(to.held, answer)
		default:
			answer()
		}
	})
}

func (w *world) delay() time.Duration {
	d := time.Millisecond + time.Duration(w.rng.Int64N(int64(w.net.Climate.MaxDelay)))
	if w.rng.Float64() < w.net.Climate.Late {
		d += time.Duration(w.rng.Int64N(int64(w.net.Climate.MaxLate)))
	}
	return d
}

func (w *world) isCut(from, to *proc) bool {
	return from != to && w.net.IsCut(from.node.Addr, to.node.Addr)
}

func (w *world) at(d time.Duration, do func()) {
	w.order++
	heap.Push(&w.events, event{w.net.Now.Add(d), w.order, do})
}

// run lets time pass, or until done.
func (w *world) run(d time.Duration, done func() bool) bool {
	for end := w.net.Now.Add(d); w.net.Now.Before(end) && w.broken == ""; {
		next := end
		if len(w.events) > 0 && w.events[0].at.Before(next) {
			next = w.events[0].at
		}
		for _, p := range w.procs {
			if p.m != nil && !p.paused && p.nextTick.Before(next) {
				next = p.nextTick
			}
		}
		// Of gossip's own actions, restarts need a look.
		w.net.Run(min(max(next.Sub(w.net.Now), 0), tickEvery))
		for len(w.events) > 0 && !w.events[0].at.After(w.net.Now) {
			heap.Pop(&w.events).(event).do()
		}
		for _, p := range w.procs {
			w.turn(p)
		}
		w.judge()
		if done != nil && done() {
			return true
		}
	}
	return done != nil && w.broken == "" && done()
}

// turn does the periodic work of the driver.
func (w *world) turn(p *proc) {
	switch {
	case p.node.M == nil:
		p.m = nil
		return
	case p.m == nil || p.node.ID != p.cfg.Self:
		w.tracef("%s starts again", p.node.Addr)
		w.adopt(p)
	}
	if p.paused || p.nextTick.After(w.net.Now) {
		return
	}
	p.nextTick = w.net.Now.Add(tickEvery)
	if !p.nextAsk.After(w.net.Now) {
		p.nextAsk = w.net.Now.Add(time.Second)
		if peers, problem := w.lookup(p); problem != "" {
			w.step(p, bootstrap.LookupFailed{Reason: problem})
		} else {
			p.listed = peers
			w.step(p, bootstrap.Discovered{Peers: peers})
		}
	}
	if p.node.M == nil {
		return
	}
	if p.node.M.View().InCluster {
		w.step(p, bootstrap.Joined{})
		var seeds []string
		for _, l := range p.listed {
			seeds = append(seeds, l.Addr)
		}
		w.net.Step(p.node, gossip.SetSeeds{Seeds: seeds})
		return
	}
	w.step(p, bootstrap.Tick{})
}

// judge looks for two clusters. Without orphans the others end with the last
// node that formed the cluster, as in a power cut.
func (w *world) judge() {
	var first *gossiptest.Node
	var cluster gossip.Founding
	for _, p := range w.procs {
		if p.node.M == nil || !p.forms() {
			continue
		}
		v := p.node.M.View()
		if !v.InCluster {
			continue
		}
		if first != nil && v.Cluster != cluster && !w.orphans {
			w.breaks("two clusters: of %s and of %s", first.Addr, p.node.Addr)
		}
		first, cluster = p.node, v.Cluster
	}
	if first != nil || w.orphans {
		return
	}
	for _, p := range w.procs {
		if p.node.M != nil && !p.forms() && p.node.M.View().InCluster {
			w.crash(p)
		}
	}
}

// agreed returns nil if every process is a member of the one cluster, otherwise the reason.
func (w *world) agreed() error {
	for _, p := range w.procs {
		if p.m == nil || !p.finished {
			return fmt.Errorf("%s is not a member", p.node.Addr)
		}
	}
	return w.net.Agreed()
}

type event struct {
	at    time.Time
	order int
	do    func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	if q[i].at.Equal(q[j].at) {
		return q[i].order < q[j].order
	}
	return q[i].at.Before(q[j].at)
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}
