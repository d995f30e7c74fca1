// Package gossiptest runs membership machines on an in-memory network with
// virtual time and seeded weather: loss, duplicates, delays, one-way cuts,
// crashes and pauses, all on one goroutine. The same seed gives the same run.
//
// # What this does not do
//
// It moves messages as Go values: what an encoding would lose or refuse is not
// seen here.
package gossiptest

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Weather is what the network does to messages.
type Weather struct {
	// Loss and Duplicate are chances from 0 to 1, per message.
	Loss, Duplicate float64
	// MinDelay and MaxDelay bound the usual delay.
	MinDelay, MaxDelay time.Duration
	// Late is the chance of an extra delay of up to MaxLate.
	Late    float64
	MaxLate time.Duration
}

// Calm is a good network: 1 to 3 ms, nothing lost.
func Calm() Weather { return Weather{MinDelay: time.Millisecond, MaxDelay: 3 * time.Millisecond} }

// Storm loses a fifth of all messages, doubles a tenth, and delays some by seconds.
func Storm() Weather {
	return Weather{
		Loss: 0.2, Duplicate: 0.1,
		MinDelay: time.Millisecond, MaxDelay: 80 * time.Millisecond,
		Late: 0.02, MaxLate: 4 * time.Second,
	}
}

// TickEvery is the tick period of all nodes.
const TickEvery = 100 * time.Millisecond

// Node is one process, or the place where one was.
type Node struct {
	Addr    string
	M       *gossip.Machine // nil while not running
	ID      sharding.NodeID
	Events  []gossip.Event // since it was started
	Starts  int
	Downed  int // how often it stopped with SelfDowned
	LeftSet bool
	// RestartAfter starts it again so long after it stopped with SelfDowned;
	// 0 leaves it.
	RestartAfter time.Duration

	removed  map[sharding.NodeID]bool // as its events said
	cfg      gossip.Config
	paused   bool
	held     []delivery
	nextTick time.Time
	restart  time.Time
}

// Net is the network and all nodes on it.
type Net struct {
	Now     time.Time
	Weather Weather
	Nodes   []*Node // in the order in which they were added
	// Sent counts messages by type.
	Sent map[string]int
	// Trace, if set, is called for everything that happens.
	Trace func(format string, args ...any)

	rng     *rand.Rand
	nextUID sharding.NodeUID
	cuts    map[[2]string]bool
	queue   queue
	order   int
}

// New is a network without nodes.
func New(seed uint64) *Net {
	return &Net{
		Now:     time.Unix(1_000_000, 0),
		Weather: Calm(),
		Sent:    map[string]int{},
		rng:     rand.New(rand.NewPCG(seed, 0)),
		cuts:    map[[2]string]bool{},
	}
}

// Rand is the source of the network's weather.
func (n *Net) Rand() *rand.Rand { return n.rng }

// Add adds a node that is not running. Self in cfg is filled in at each start.
func (n *Net) Add(addr string, cfg gossip.Config) *Node {
	node := &Node{Addr: addr, cfg: cfg}
	n.Nodes = append(n.Nodes, node)
	return node
}

// Node finds a node by address.
func (n *Net) Node(addr string) *Node {
	for _, node := range n.Nodes {
		if node.Addr == addr {
			return node
		}
	}
	return nil
}

// Start starts a new incarnation of a node.
func (n *Net) Start(node *Node) {
	n.nextUID++
	node.ID = sharding.NodeID{Addr: node.Addr, UID: n.nextUID}
	node.cfg.Self = node.ID
	if err := node.cfg.Validate(); err != nil {
		panic(err)
	}
	node.M = gossip.New(node.cfg)
	node.Events, node.held, node.paused, node.LeftSet = nil, nil, false, false
	node.restart, node.removed = time.Time{}, map[sharding.NodeID]bool{}
	node.Starts++
	node.nextTick = n.Now.Add(time.Duration(n.rng.Int64N(int64(TickEvery))))
	n.Step(node, gossip.Start{})
}

// Crash ends a node at once. Nobody is told.
func (n *Net) Crash(node *Node) {
	n.tracef("%s crashes", node.ID)
	node.M, node.held, node.paused = nil, nil, false
}

// Pause stops a node until Resume; messages to it wait.
func (n *Net) Pause(node *Node) { node.paused = node.M != nil }

// Resume lets a paused node go on, with the waiting messages first.
func (n *Net) Resume(node *Node) {
	held := node.held
	node.held, node.paused = nil, false
	for _, d := range held {
		n.deliver(d)
	}
}

// Cut stops or restores messages from one address to another.
func (n *Net) Cut(from, to string, cut bool) { n.cuts[[2]string{from, to}] = cut }

// Heal restores all links.
func (n *Net) Heal() { clear(n.cuts) }

// Split cuts all links between two groups of addresses, both ways.
func (n *Net) Split(a, b []string) {
	for _, x := range a {
		for _, y := range b {
			n.Cut(x, y, true)
			n.Cut(y, x, true)
		}
	}
}

// Step gives one input to a node and carries out what comes out.
func (n *Net) Step(node *Node, in gossip.Input) {
	if node.M == nil {
		return
	}
	for _, out := range node.M.Step(n.Now, in, nil) {
		switch out := out.(type) {
		case gossip.Send:
			n.send(node, out)
		case gossip.Event:
			n.event(node, out)
		}
	}
	if node.M == nil {
		return
	}
	if err := node.M.Check(); err != nil {
		panic(fmt.Sprintf("%v at %v after %T: %v", node.ID, n.Now, in, err))
	}
}

func (n *Net) event(node *Node, e gossip.Event) {
	n.tracef("%s: %T%+v", node.ID, e, e)
	node.Events = append(node.Events, e)
	switch e := e.(type) {
	case gossip.MemberRemoved:
		node.removed[e.Member.Node] = true
	case gossip.MemberJoined:
		node.mustBeNew(e.Member.Node)
	case gossip.MemberUp:
		node.mustBeNew(e.Member.Node)
	case gossip.SelfDowned:
		node.Downed++
		node.M = nil
		if node.RestartAfter > 0 {
			node.restart = n.Now.Add(node.RestartAfter)
		}
	case gossip.Left:
		node.LeftSet = true
		node.M = nil
	}
}

// mustBeNew holds up that who was removed never comes back.
func (node *Node) mustBeNew(id sharding.NodeID) {
	if node.removed[id] {
		panic(fmt.Sprintf("%v sees %v come back after its removal", node.ID, id))
	}
}

func (n *Net) send(from *Node, s gossip.Send) {
	n.Sent[fmt.Sprintf("%T", s.Msg)]++
	copies := 1
	if n.rng.Float64() < n.Weather.Duplicate {
		copies = 2
	}
	for range copies {
		if n.rng.Float64() < n.Weather.Loss || n.cuts[[2]string{from.Addr, s.To.Addr}] {
			continue
		}
		w := n.Weather
		delay := w.MinDelay + time.Duration(n.rng.Int64N(int64(w.MaxDelay-w.MinDelay)+1))
		if n.rng.Float64() < w.Late {
			delay += time.Duration(n.rng.Int64N(int64(w.MaxLate) + 1))
		}
		n.order++
		heap.Push(&n.queue, delivery{n.Now.Add(delay), n.order, gossip.Receive{From: from.ID, To: s.To, Msg: s.Msg}})
	}
}

func (n *Net) deliver(d delivery) {
	node := n.Node(d.in.To.Addr)
	if node == nil || node.M == nil || n.cuts[[2]string{d.in.From.Addr, d.in.To.Addr}] {
		return
	}
	if node.paused {
		node.held = append(node.held, d)
		return
	}
	n.Step(node, d.in)
}

// Run lets time pass.
func (n *Net) Run(d time.Duration) {
	end := n.Now.Add(d)
	for {
		next := end
		if len(n.queue) > 0 && n.queue[0].at.Before(next) {
			next = n.queue[0].at
		}
		for _, node := range n.Nodes {
			if node.M != nil && !node.paused && node.nextTick.Before(next) {
				next = node.nextTick
			}
			if !node.restart.IsZero() && node.restart.Before(next) {
				next = node.restart
			}
		}
		n.Now = next
		for len(n.queue) > 0 && !n.queue[0].at.After(n.Now) {
			n.deliver(heap.Pop(&n.queue).(delivery))
		}
		for _, node := range n.Nodes {
			if !node.restart.IsZero() && !node.restart.After(n.Now) {
				n.Start(node)
			}
			if node.M != nil && !node.paused && !node.nextTick.After(n.Now) {
				node.nextTick = n.Now.Add(TickEvery)
				n.Step(node, gossip.Tick{})
			}
		}
		if !n.Now.Before(end) {
			return
		}
	}
}

// RunUntil lets time pass until done, at most for a time. It tells whether
// done became true.
func (n *Net) RunUntil(most time.Duration, done func() bool) bool {
	for end := n.Now.Add(most); n.Now.Before(end); n.Run(TickEvery) {
		if done() {
			return true
		}
	}
	return done()
}

// Agreed tells that all running nodes are up in one converged cluster of
// exactly them, with nobody unreachable and nobody about to start, or why not.
func (n *Net) Agreed() error {
	var ids []sharding.NodeID
	for _, node := range n.Nodes {
		if node.M != nil {
			ids = append(ids, node.ID)
		} else if !node.restart.IsZero() {
			return fmt.Errorf("%s is about to start again", node.Addr)
		}
	}
	slices.SortFunc(ids, sharding.NodeID.Compare)
	var leader sharding.NodeID
	for _, node := range n.Nodes {
		if node.M == nil {
			continue
		}
		v := node.M.View()
		if !v.InCluster || !v.Converged {
			return fmt.Errorf("%v: in cluster %v, converged %v", node.ID, v.InCluster, v.Converged)
		}
		if leader.IsZero() {
			leader = v.Leader
		}
		if v.Leader != leader {
			return fmt.Errorf("%v takes %v for the leader, others %v", node.ID, v.Leader, leader)
		}
		if len(v.Members) != len(ids) {
			return fmt.Errorf("%v has %d members, want %d", node.ID, len(v.Members), len(ids))
		}
		for i, m := range v.Members {
			if m.Node != ids[i] || m.Status != gossip.Up || !m.Reachable {
				return fmt.Errorf("%v sees %v %v, reachable %v", node.ID, m.Node, m.Status, m.Reachable)
			}
		}
	}
	return nil
}

func (n *Net) tracef(format string, args ...any) {
	if n.Trace != nil {
		n.Trace("%v "+format, append([]any{n.Now.Sub(time.Unix(1_000_000, 0))}, args...)...)
	}
}

type delivery struct {
	at    time.Time
	order int
	in    gossip.Receive
}

type queue []delivery

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	if q[i].at.Equal(q[j].at) {
		return q[i].order < q[j].order
	}
	return q[i].at.Before(q[j].at)
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(delivery)) }
func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}
