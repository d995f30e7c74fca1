package membership

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/gossiptest"
	"github.com/roost-cluster/roost/libs/sharding"
)

// cluster is a network of nodes and what is counted of it.
type cluster struct {
	net     *gossiptest.Net
	traffic traffic
	rng     *rand.Rand
	logf    func(format string, args ...any)

	// While nodes join: which nodes were welcomed by another one, when the last one was, and how
	// many members each node has seen come up.
	welcomed map[string]bool
	lastIn   time.Time
	before   map[*gossiptest.Node]int // rounds that each had begun by then
	up       map[*gossiptest.Node]int
	allUp    int // nodes that have seen as many as there are

	// While nodes are in trouble.
	victims map[sharding.NodeID]bool
	suspect map[*gossiptest.Node]int
	removed map[*gossiptest.Node]int
	// Suspicions of nodes that are no victims: by victims, and by others.
	blamed, falsely int
	expired         int // gossip that had waited too long

	verified time.Time // when views were compared last
	views    map[sharding.NodeID]*view
}

type view = gossip.View

const seeds = 3

func newCluster(n int, seed uint64, logf func(string, ...any)) *cluster {
	c := &cluster{
		net: gossiptest.New(seed), rng: rand.New(rand.NewPCG(seed, 1)), logf: logf,
		traffic:  traffic{oneIn: oneIn(n), rng: rand.New(rand.NewPCG(seed, 2))},
		welcomed: map[string]bool{}, before: map[*gossiptest.Node]int{}, up: map[*gossiptest.Node]int{}, victims: map[sharding.NodeID]bool{},
		suspect: map[*gossiptest.Node]int{}, removed: map[*gossiptest.Node]int{}, views: map[sharding.NodeID]*view{},
	}
	switch { // the checks look at everything
	case n <= 20:
		c.net.CheckEvery = 1
	case n <= 50:
		c.net.CheckEvery = 11
	default:
		c.net.CheckEvery = n * n
	}
	c.net.OnSend, c.net.OnEvent = c.sent, c.happened
	for i := range n {
		cfg := gossip.DefaultConfig()
		for s := range min(seeds, n) {
			cfg.Seeds = append(cfg.Seeds, addr(s))
		}
		cfg.Name, cfg.Roles = fmt.Sprintf("region-%d", i), []string{"region"}
		c.net.Add(addr(i), cfg)
	}
	return c
}

// addr is the address of a node in a network of the usual kind.
func addr(i int) string { return fmt.Sprintf("10.0.%d.%d:7400", i/250, i%250+1) }

func (c *cluster) sent(from *gossiptest.Node, s gossip.Send) {
	c.traffic.count(from.ID, s)
	if _, ok := s.Msg.(gossip.Welcome); ok && !c.welcomed[s.To.Addr] {
		c.welcomed[s.To.Addr] = true
		c.lastIn = c.net.Now
		for _, node := range c.net.Nodes {
			c.before[node] = node.Rounds
		}
	}
}

func (c *cluster) happened(at *gossiptest.Node, e gossip.Event) {
	switch e := e.(type) {
	case gossip.MemberUp:
		if c.up[at]++; c.up[at] == len(c.net.Nodes) {
			c.allUp++
		}
	case gossip.ReachabilityChanged:
		switch {
		case e.Reachable:
		case c.victims[e.Node]:
			if !e.ByMe {
				c.suspect[at]++
			}
		case e.ByMe && c.victims[at.ID]:
			c.blamed++
		case e.ByMe:
			c.falsely++
		}
	case gossip.Expired:
		c.expired++
	case gossip.MemberRemoved:
		if c.victims[e.Member.Node] {
			c.removed[at]++
		}
	}
}

// join starts all nodes at once and waits until all are up everywhere.
func (c *cluster) join(most time.Duration) error {
	for _, node := range c.net.Nodes {
		c.net.Start(node)
	}
	return c.until(most, "all are up everywhere", func() (string, bool) {
		return fmt.Sprintf("%d of %d let in, %d see all up", len(c.welcomed)+1, len(c.net.Nodes), c.allUp), c.allUp == len(c.net.Nodes)
	})
}

// rounds is the number of rounds of gossip that nodes began since the last one was let in.
func (c *cluster) rounds() rounds {
	var r rounds
	for _, node := range c.net.Nodes {
		n := node.Rounds - c.before[node]
		r.Mean += float64(n) / float64(len(c.net.Nodes))
		r.Most = max(r.Most, n)
	}
	return r
}

// until lets time pass until something is true, and reports the progress.
func (c *cluster) until(most time.Duration, what string, done func() (string, bool)) error {
	began := c.net.Now
	said := time.Now()
	for {
		how, ok := done()
		if ok {
			return nil
		}
		if c.net.Now.Sub(began) > most {
			return fmt.Errorf("not within %v: %s: %s", most, what, how)
		}
		if time.Since(said) > 5*time.Second {
			said = time.Now()
			c.logf("  %5.1f s  %s", c.net.Now.Sub(began).Seconds(), how)
		}
		c.net.Run(gossiptest.TickEvery)
		if len(c.net.Nodes) <= 50 {
			if err := c.consistent(); err != nil {
				return err
			}
		}
	}
}

// well are the running nodes that are no victims.
func (c *cluster) well() []*gossiptest.Node {
	var out []*gossiptest.Node
	for _, node := range c.net.Nodes {
		if node.M != nil && !c.victims[node.ID] {
			out = append(out, node)
		}
	}
	return out
}

// draw chooses victims among the nodes that are well, seeds excepted.
func (c *cluster) draw(n int) []*gossiptest.Node {
	clear(c.suspect)
	clear(c.removed)
	clear(c.victims)
	var all []*gossiptest.Node
	for _, node := range c.well() {
		if c.net.Node(addr(0)) != node && c.net.Node(addr(1)) != node && c.net.Node(addr(2)) != node {
			all = append(all, node)
		}
	}
	c.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = all[:min(n, len(all))]
	for _, node := range all {
		c.victims[node.ID] = true
	}
	return all
}

// loss is the time until nodes that fell silent are unreachable and removed in
// the eyes of all others.
type loss struct {
	Victims             int
	Unreachable, Remove time.Duration
	Others              int // lost with them
	PerNode             rate
}

// lose does something to some nodes, and waits until they are removed
// everywhere.
func (c *cluster) lose(n int, do func(victims []*gossiptest.Node)) (loss, error) {
	victims := c.draw(n)
	before := len(c.well())
	began := c.net.Now
	c.traffic.reset(began)
	do(victims)
	l := loss{Victims: len(victims)}
	err := c.until(3*time.Minute, "they are removed everywhere", func() (string, bool) {
		suspect, removed := 0, 0
		well := c.well()
		for _, node := range well {
			if c.suspect[node] >= len(victims) || c.removed[node] == len(victims) {
				suspect++
			}
			if c.removed[node] == len(victims) {
				removed++
			}
		}
		if suspect == len(well) && l.Unreachable == 0 {
			l.Unreachable = c.net.Now.Sub(began)
		}
		return fmt.Sprintf("of %d nodes %d see all %d unreachable, %d removed", len(well), suspect, len(victims), removed),
			removed == len(well)
	})
	l.Remove = c.net.Now.Sub(began)
	l.PerNode = c.traffic.rate(c.net.Now, len(c.well()))
	if err != nil {
		return l, err
	}
	l.Others = before - len(c.well())
	return l, c.agree()
}

// agree heals the network and waits until the living hold the same view.
func (c *cluster) agree() error {
	c.net.Heal()
	var err error
	waitErr := c.until(2*time.Minute, "the living agree", func() (string, bool) {
		if err = c.agreed(); err != nil {
			return err.Error(), false
		}
		return "", true
	})
	if waitErr != nil {
		return waitErr
	}
	return nil
}

// agreed looks at digests first: comparing views of thousands is slow.
func (c *cluster) agreed() error {
	live := 0
	for _, node := range c.net.Nodes {
		if node.M != nil {
			live++
		}
	}
	for _, node := range c.net.Nodes {
		if node.M == nil {
			continue
		}
		if n := node.M.Members(); n != live {
			return fmt.Errorf("%v has %d members of %d", node.ID, n, live)
		}
	}
	return c.net.Agreed()
}
