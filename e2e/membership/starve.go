package membership

import (
	"fmt"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/gossip/gossiptest"
)

// starvation is the result of a cluster in which a quarter of the nodes get no
// time for their connections, or none at all, up to five seconds each, again and
// again.
type starvation struct {
	Blamed  int // how often one of them suspected a node that was well
	Falsely int // how often one that was well suspected another such
	Expired int // how often gossip was dropped because it had waited
}

// Starve joins n nodes and starves a quarter of them for a time. No node may
// lose its membership.
func Starve(n int, seed uint64, d time.Duration, logf func(string, ...any)) (starvation, error) {
	c := newCluster(n, seed, logf)
	if err := c.join(2 * time.Minute); err != nil {
		return starvation{}, err
	}
	victims := c.draw(n / 4)
	until := map[*gossiptest.Node]time.Time{}
	c.blamed, c.falsely, c.expired = 0, 0, 0
	for end := c.net.Now.Add(d); c.net.Now.Before(end); c.net.Run(gossiptest.TickEvery) {
		for _, v := range victims {
			if c.net.Now.Before(until[v]) {
				continue
			}
			c.net.Resume(v)
			if c.rng.IntN(10) == 0 {
				until[v] = c.net.Now.Add(time.Duration(c.rng.Int64N(int64(5 * time.Second))))
				if c.rng.IntN(3) == 0 {
					c.net.Pause(v) // no ticks either
				} else {
					c.net.Starve(v)
				}
			}
		}
		if err := c.consistent(); err != nil {
			return starvation{}, err
		}
	}
	for _, v := range victims {
		c.net.Resume(v)
	}
	s := starvation{c.blamed, c.falsely, c.expired}
	logf("starved   %d of %d for %v: %d blamed others, %d were blamed by others than them, %d messages expired",
		len(victims), n, d, s.Blamed, s.Falsely, s.Expired)
	for _, node := range c.net.Nodes {
		if node.M == nil {
			return s, fmt.Errorf("%v lost its membership because nodes were starved", node.ID)
		}
	}
	if err := c.agree(); err != nil {
		return s, err
	}
	switch {
	case s.Falsely > 0:
		return s, fmt.Errorf("%d times a node that was well suspected another one that was", s.Falsely)
	case s.Blamed > n/8:
		return s, fmt.Errorf("%d times a starved node suspected one that was well, more than once for every second of them", s.Blamed)
	case s.Expired == 0:
		return s, fmt.Errorf("gossip that had waited for seconds was taken")
	}
	return s, nil
}

// consistent verifies, once a second, what must hold across nodes: if a node reports that another
// one has seen its state, the other one knows of at least as many changes; and no view moves back.
func (c *cluster) consistent() error {
	if c.net.Now.Sub(c.verified) < time.Second {
		return nil
	}
	c.verified = c.net.Now
	views := map[string]*view{}
	for _, node := range c.net.Nodes {
		if node.M == nil {
			continue
		}
		v := node.M.View()
		views[node.Addr] = &v
		if was := c.views[node.ID]; was != nil {
			if err := moved(was, &v); err != nil {
				return err
			}
		}
		c.views[node.ID] = &v
	}
	for _, v := range views { // order-free: errors
		for _, mem := range v.Members {
			o := views[mem.Node.Addr]
			if o == nil || !mem.Seen || o.Self != mem.Node || slices.Equal(o.Version, v.Version) {
				continue
			}
			for _, x := range v.Members {
				if _, ok := o.Member(x.Node); ok && o.Version.Count(x.Node.UID) < v.Version.Count(x.Node.UID) {
					return fmt.Errorf("%v reports that %v has seen its state, which lacks a change of %v", v.Self, o.Self, x.Node)
				}
			}
		}
	}
	return nil
}

// moved verifies that a view is not earlier than the one before it.
func moved(was, now *view) error {
	for _, mem := range was.Members {
		next, ok := now.Member(mem.Node)
		if !ok {
			continue
		}
		if next.Status < mem.Status || now.Version.Count(mem.Node.UID) < was.Version.Count(mem.Node.UID) {
			return fmt.Errorf("in the view of %v %v goes from %v back to %v", now.Self, mem.Node, mem.Status, next.Status)
		}
	}
	return nil
}
