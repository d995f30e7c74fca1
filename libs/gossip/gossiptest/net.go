// Package gossiptest runs membership machines on an in-memory network with
// virtual time and weather drawn from a seed: loss, duplicates, delays, one-way cuts,
// crashes, pauses and starvation, all on one goroutine. The same seed gives the same run.
//
// # What this does not do
//
// It passes messages as Go values, so errors of the encoding are not found.
package gossiptest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Climate has the rates of the network's faults.
type Climate struct {
	// Loss and Duplicate are probabilities per message.
	Loss, Duplicate float64
	// MinDelay and MaxDelay bound the usual delay.
	MinDelay, MaxDelay time.Duration
	// Late is the probability of an extra delay of up to MaxLate.
	Late    float64
	MaxLate time.Duration
}

// Calm returns the climate of a good network: 1 to 3 ms, nothing lost.
func Calm() Climate { return Climate{MinDelay: time.Millisecond, MaxDelay: 3 * time.Millisecond} }

// Storm returns a climate that loses a fifth of all messages, duplicates a tenth, and
// delays some by seconds.
func Storm() Climate {
	return Climate{
		Loss: 0.2, Duplicate: 0.1,
		MinDelay: time.Millisecond, MaxDelay: 80 * time.Millisecond,
		Late: 0.02, MaxLate: 4 * time.Second,
	}
}

// TickEvery is the tick period of all nodes.
const TickEvery = 100 * time.Millisecond

// Node is one process, running or not.
type Node struct {
	Addr    string
	M       *gossip.Machine // nil while not running
	ID      sharding.NodeID
	Events  []gossip.Event // since it was started
	Starts  int
	Rounds  int  // rounds of gossip that it began since it was started
	Downed  int  // how often it stopped with SelfDowned
	HasLeft bool // it stopped with Left
	// RestartAfter is the time between a stop with SelfDowned and the node's next start; 0: it never starts
	// again.
	RestartAfter time.Duration

	removed map[sharding.NodeID]bool // the nodes about which this node emitted MemberRemoved
	cfg     gossip.Config
	paused  bool
	starved bool
	held    []event       // messages to this node that wait for Resume
	unsent  []gossip.Send // messages from this node that wait for Resume
	restart time.Time     // when it is started again; zero: never
}

// Net is the network and all nodes on it.
type Net struct {
	Now     time.Time
	Climate Climate
	Nodes   []*Node // in the order in which they were added
	// Sent counts messages by type.
	Sent map[string]int
	// Trace, if set, is called for everything that happens.
	Trace func(format string, args ...any)
	// OnSend and OnEvent, if set, are called for every message that is sent and for every
	// event. With OnEvent the nodes keep no events.
	OnSend  func(from *Node, s gossip.Send)
	OnEvent func(at *Node, e gossip.Event)
	// CheckEvery is the number of steps after which the invariants of a machine
	// are verified; 0 means after every step.
	CheckEvery int

	rng     *rand.Rand
	byAddr  map[string]*Node
	cuts    map[[2]string]bool
	queue   queue
	order   int
	holders map[uint64]*gossip.Machine // by digest of a state, a machine that holds that state
	steps   int
	out     []gossip.Output
}

// New returns a network without nodes.
func New(seed uint64) *Net {
	return &Net{
		Now:     time.Unix(1_000_000, 0),
		Climate: Calm(),
		Sent:    map[string]int{},
		byAddr:  map[string]*Node{},
		rng:     rand.New(rand.NewPCG(seed, 0)),
		cuts:    map[[2]string]bool{},
		holders: map[uint64]*gossip.Machine{},
	}
}

// Rand returns the source of the network's random decisions.
func (n *Net) Rand() *rand.Rand { return n.rng }

// Add adds a node that is not running. Self in cfg is filled in at each start.
func (n *Net) Add(addr string, cfg gossip.Config) *Node {
	node := &Node{Addr: addr, cfg: cfg}
	n.Nodes = append(n.Nodes, node)
	n.byAddr[addr] = node
	return node
}

// Node returns the node with an address.
func (n *Net) Node(addr string) *Node { return n.byAddr[addr] }

// Start starts a new incarnation of a node.
func (n *Net) Start(node *Node) {
	node.ID = sharding.NodeID{Addr: node.Addr, UID: sharding.NodeUID(n.rng.Uint64())}
	node.cfg.Self = node.ID
	if err := node.cfg.Validate(); err != nil {
		panic(err)
	}
	node.M = gossip.New(node.cfg)
	node.Events, node.held, node.unsent = nil, nil, nil
	node.paused, node.starved, node.HasLeft = false, false, false
	node.restart, node.removed = time.Time{}, map[sharding.NodeID]bool{}
	node.Starts++
	node.Rounds = 0
	n.after(time.Duration(n.rng.Int64N(int64(TickEvery))), event{tickNode: node, start: node.Starts})
	n.Step(node, gossip.Start{})
}

// Crash ends a node at once, without notice to others.
func (n *Net) Crash(node *Node) {
	n.tracef("%s crashes", node.ID)
	node.M, node.held, node.unsent, node.paused, node.starved = nil, nil, nil, false, false
}

// Pause stops a node until Resume; messages to it wait.
func (n *Net) Pause(node *Node) { node.paused = node.M != nil }

// Starve lets a node tick, but neither send nor receive until Resume: its messages and
// those to it wait, as in a process that gets no processor time for its connections.
func (n *Net) Starve(node *Node) { node.starved = node.M != nil }

// Resume lets a paused or starved node continue, with the waiting messages first.
func (n *Net) Resume(node *Node) {
	held, unsent := node.held, node.unsent
	node.held, node.unsent, node.paused, node.starved = nil, nil, false, false
	for _, s := range unsent {
		n.send(node, s)
	}
	for _, e := range held {
		n.deliver(e)
	}
}

// Cut stops messages from one address to another, or lets them through again.
func (n *Net) Cut(from, to string, cut bool) { n.cuts[[2]string{from, to}] = cut }

// IsCut reports whether messages from one address to another are stopped.
func (n *Net) IsCut(from, to string) bool { return len(n.cuts) > 0 && n.cuts[[2]string{from, to}] }

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

// Step feeds one input to a node and executes its outputs.
func (n *Net) Step(node *Node, in gossip.Input) {
	if node.M == nil {
		return
	}
	had := node.M.Digest()
	out := node.M.Step(n.Now, in, n.out[:0])
	if node.M.Digest() != had {
		n.share(node.M)
	}
	// An event below may call Step again (Leave follows LeaveRequested). That call must not
	// overwrite out.
	n.out = nil
	if _, ok := in.(gossip.Tick); ok && slices.ContainsFunc(out, isStatus) {
		node.Rounds++
	}
	for _, o := range out {
		switch o := o.(type) {
		case gossip.Send:
			n.send(node, o)
		case gossip.Event:
			n.event(node, o)
		}
	}
	n.out = out
	n.steps++
	if node.M == nil || n.steps%max(n.CheckEvery, 1) != 0 {
		return
	}
	if err := node.M.Check(); err != nil {
		panic(fmt.Sprintf("%v at %v after %T: %v", node.ID, n.Now, in, err))
	}
}

// maxHolders bounds holders. When there are so many, all are forgotten: most are of old states.
const maxHolders = 10_000

// share lets m use the memory of another machine with an equal state: thousands of copies of
// a state with thousands of members would not fit into any processor cache.
func (n *Net) share(m *gossip.Machine) {
	if o := n.holders[m.Digest()]; o != nil && o != m && m.Share(o) {
		return
	}
	if len(n.holders) >= maxHolders {
		clear(n.holders)
	}
	n.holders[m.Digest()] = m
}

func isStatus(o gossip.Output) bool {
	s, ok := o.(gossip.Send)
	if !ok {
		return false
	}
	_, ok = s.Msg.(gossip.GossipStatus)
	return ok
}

func (n *Net) event(node *Node, e gossip.Event) {
	n.tracef("%s: %T%+v", node.ID, e, e)
	if n.OnEvent != nil {
		n.OnEvent(node, e)
	} else {
		node.Events = append(node.Events, e)
	}
	switch e := e.(type) {
	case gossip.MemberRemoved:
		node.removed[e.Member.Node] = true
	case gossip.MemberJoined:
		node.mustNotBeRemoved(e.Member.Node)
	case gossip.MemberUp:
		node.mustNotBeRemoved(e.Member.Node)
	case gossip.SelfDowned:
		node.Downed++
		node.M = nil
		if node.RestartAfter > 0 {
			node.restart = n.Now.Add(node.RestartAfter)
			n.after(node.RestartAfter, event{restartNode: node, start: node.Starts})
		}
	case gossip.LeaveRequested:
		n.Step(node, gossip.Leave{})
	case gossip.JoinFailed:
		node.M = nil
	case gossip.Left:
		node.HasLeft = true
		node.M = nil
	}
}

// mustNotBeRemoved panics if this node has already seen the removal of a member that joins or
// comes up.
func (node *Node) mustNotBeRemoved(id sharding.NodeID) {
	if node.removed[id] {
		panic(fmt.Sprintf("%v sees %v come back after its removal", node.ID, id))
	}
}

func (n *Net) send(from *Node, s gossip.Send) {
	if from.starved {
		from.unsent = append(from.unsent, s)
		return
	}
	n.Sent[kind(s.Msg)]++
	if n.OnSend != nil {
		n.OnSend(from, s)
	}
	copies := 1
	if n.rng.Float64() < n.Climate.Duplicate {
		copies = 2
	}
	for range copies {
		if n.rng.Float64() < n.Climate.Loss || n.IsCut(from.Addr, s.To.Addr) {
			continue
		}
		w := n.Climate
		delay := w.MinDelay + time.Duration(n.rng.Int64N(int64(w.MaxDelay-w.MinDelay)+1))
		if n.rng.Float64() < w.Late {
			delay += time.Duration(n.rng.Int64N(int64(w.MaxLate) + 1))
		}
		n.after(delay, event{in: gossip.Receive{From: from.ID, To: s.To, Msg: s.Msg}})
	}
}

// kind returns the type of a message as %T prints it.
func kind(msg gossip.Msg) string {
	switch msg.(type) { // the most frequent ones, without reflection
	case gossip.Heartbeat:
		return "gossip.Heartbeat"
	case gossip.HeartbeatReply:
		return "gossip.HeartbeatReply"
	case gossip.GossipStatus:
		return "gossip.GossipStatus"
	}
	return fmt.Sprintf("%T", msg)
}

func (n *Net) deliver(e event) {
	node := n.byAddr[e.in.To.Addr]
	if node == nil || node.M == nil || n.IsCut(e.in.From.Addr, e.in.To.Addr) {
		return
	}
	if node.paused || node.starved {
		node.held = append(node.held, e)
		return
	}
	e.in.Waited = n.Now.Sub(e.at)
	n.Step(node, e.in)
}

// after schedules an event.
func (n *Net) after(d time.Duration, e event) {
	n.order++
	e.at, e.order = n.Now.Add(d), n.order
	n.queue.push(e)
}

// Run lets time pass, with everything that happens in it.
func (n *Net) Run(d time.Duration) {
	end := n.Now.Add(d)
	for len(n.queue) > 0 && !n.queue[0].at.After(end) {
		e := n.queue.pop()
		n.Now = e.at
		switch {
		case e.tickNode != nil:
			n.tick(e)
		case e.restartNode == nil:
			n.deliver(e)
		case e.restartNode.Starts == e.start && !e.restartNode.restart.IsZero():
			n.Start(e.restartNode)
		}
	}
	n.Now = end
}

func (n *Net) tick(e event) {
	if e.tickNode.M == nil || e.tickNode.Starts != e.start {
		return // the tick belongs to an incarnation that has ended
	}
	n.after(TickEvery, event{tickNode: e.tickNode, start: e.start})
	if !e.tickNode.paused && !n.Now.Before(e.tickNode.M.Due()) {
		n.Step(e.tickNode, gossip.Tick{})
	}
}

// RunUntil lets time pass until done returns true, or until limit has passed. It reports
// whether done returned true.
func (n *Net) RunUntil(limit time.Duration, done func() bool) bool {
	for end := n.Now.Add(limit); n.Now.Before(end); n.Run(TickEvery) {
		if done() {
			return true
		}
	}
	return done()
}

// Agreed returns nil if all running nodes are up in one converged cluster of exactly them, all are
// reachable and none is about to restart. Otherwise the error gives the reason.
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
	checked := map[uint64]bool{} // digests of the states that were compared with ids already
	for _, node := range n.Nodes {
		if node.M == nil {
			continue
		}
		if leader.IsZero() {
			leader = node.M.Leader()
		}
		if l := node.M.Leader(); l != leader {
			return fmt.Errorf("%v sees %v as the leader, others see %v", node.ID, l, leader)
		}
		if !node.M.Converged() {
			return fmt.Errorf("%v has not converged", node.ID)
		}
		if checked[node.M.Digest()] {
			continue
		}
		checked[node.M.Digest()] = true
		v := node.M.View()
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

// event is something that will happen: a message arrives, a node ticks, or a node
// restarts. The last two apply only to the incarnation whose number is in the field start.
type event struct {
	at          time.Time
	order       int
	in          gossip.Receive
	tickNode    *Node
	restartNode *Node
	start       int
}

func (e *event) before(o *event) bool {
	if e.at.Equal(o.at) {
		return e.order < o.order
	}
	return e.at.Before(o.at)
}

// queue is a heap of events, the next one first.
type queue []event

func (q *queue) push(e event) {
	*q = append(*q, e)
	h := *q
	i := len(h) - 1
	for i > 0 && e.before(&h[(i-1)/2]) {
		h[i] = h[(i-1)/2]
		i = (i - 1) / 2
	}
	h[i] = e
}

func (q *queue) pop() event {
	h := *q
	first, last := h[0], h[len(h)-1]
	h[len(h)-1] = event{}
	h = h[:len(h)-1]
	*q = h
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(&h[child]) {
			child++
		}
		if !h[child].before(&last) {
			break
		}
		h[i] = h[child]
		i = child
	}
	if len(h) > 0 {
		h[i] = last
	}
	return first
}
