package membership

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/gossiptest"
)

// Report holds the results of one size of cluster. Rates are per node and second.
type Report struct {
	Nodes int
	// Joined is the time from the start of all nodes until the last one was let
	// in, Converged from then until all were up everywhere, Rounds how many
	// rounds of gossip a node began in that time: ticks at which it told others,
	// two while there is news, the leader ten, the status of its state. What it
	// answered to theirs is not counted.
	Joined, Converged time.Duration
	Rounds            rounds
	Joining           rate
	// Calm is the rate at rest, Changed after every node has changed something.
	Calm, Changed rate
	// One, Percent and Tenth are killed at once.
	One, Percent, Tenth loss
	// OneWay are heard by no other node; Partly are cut off from a random half of the
	// others; Split are cut off from all of them, together.
	OneWay, Partly, Split loss
}

// rounds are of gossip that a node began.
type rounds struct {
	Mean float64
	Most int
}

func (r rounds) String() string {
	return fmt.Sprintf("%.1f rounds of gossip per node, %d at most", r.Mean, r.Most)
}

// Run simulates a cluster of n nodes and reports the progress.
func Run(n int, seed uint64, logf func(string, ...any)) (Report, error) {
	c := newCluster(n, seed, logf)
	r := Report{Nodes: n}
	began := c.net.Now
	c.traffic.reset(began)
	if err := c.join(10 * time.Minute); err != nil {
		return r, err
	}
	r.Joined, r.Converged = c.lastIn.Sub(began), c.net.Now.Sub(c.lastIn)
	r.Joining = c.traffic.rate(c.net.Now, n)
	r.Rounds = c.rounds()
	logf("join      all let in after %.1f s; up everywhere %.1f s later, %v; %v",
		r.Joined.Seconds(), r.Converged.Seconds(), r.Rounds, r.Joining)
	if err := c.agree(); err != nil {
		return r, err
	}
	r.Calm = c.rest()
	logf("calm      %v", r.Calm)
	c.changeAll()
	if err := c.agree(); err != nil {
		return r, err
	}
	r.Changed = c.rest()
	logf("changed   %v, after every node changed something", r.Changed)
	crash := func(victims []*gossiptest.Node) {
		for _, node := range victims {
			c.net.Crash(node)
		}
	}
	for _, step := range []struct {
		name string
		n    int
		do   func([]*gossiptest.Node)
		into *loss
	}{
		{"kill", 1, crash, &r.One},
		{"kill", (n + 99) / 100, crash, &r.Percent},
		{"kill", (n + 9) / 10, crash, &r.Tenth},
		{"one-way", (n + 99) / 100, c.mute, &r.OneWay},
		{"partly", (n + 99) / 100, c.halve, &r.Partly},
		{"split", (n + 9) / 10, c.split, &r.Split},
	} {
		var err error
		if *step.into, err = c.lose(step.n, step.do); err != nil {
			return r, fmt.Errorf("%s of %d: %w", step.name, step.n, err)
		}
		l := step.into
		logf("%-9s %d: unreachable everywhere after %.1f s, removed everywhere after %.1f s; %d others lost; %v",
			step.name, l.Victims, l.Unreachable.Seconds(), l.Remove.Seconds(), l.Others, l.PerNode)
	}
	return r, nil
}

// rest measures half a minute of peace.
func (c *cluster) rest() rate {
	c.net.Run(5 * time.Second)
	c.traffic.reset(c.net.Now)
	c.net.Run(30 * time.Second)
	return c.traffic.rate(c.net.Now, len(c.well()))
}

// changeAll makes every node change something: it receives that one it can reach
// is gone, which it takes back with the next answer.
func (c *cluster) changeAll() {
	well := c.well()
	for i, node := range well {
		c.net.Step(node, gossip.Evidence{Node: well[(i+1)%len(well)].ID})
	}
	c.net.Run(5 * time.Second)
}

// mute lets no other node hear the victims.
func (c *cluster) mute(victims []*gossiptest.Node) {
	for _, v := range victims {
		for _, node := range c.net.Nodes {
			c.net.Cut(v.Addr, node.Addr, true)
		}
	}
}

// halve cuts each victim off from a random half of the others.
func (c *cluster) halve(victims []*gossiptest.Node) {
	for _, v := range victims {
		for _, node := range c.well() {
			if c.rng.IntN(2) == 0 {
				c.net.Split([]string{v.Addr}, []string{node.Addr})
			}
		}
	}
}

// split cuts the victims, together, off from all others.
func (c *cluster) split(victims []*gossiptest.Node) {
	var a, b []string
	for _, v := range victims {
		a = append(a, v.Addr)
	}
	for _, node := range c.well() {
		b = append(b, node.Addr)
	}
	c.net.Split(a, b)
}
