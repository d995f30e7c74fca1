//go:build linux

package docker

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/e2e/cluster/load"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

const (
	// rate is the number of calls that start per second. It is low because a dozen containers share
	// this machine.
	rate = 40
	// minute is the time that a server is stopped.
	minute = time.Minute
)

// Environments of the members: how long they wait before they form a cluster.
var (
	fastMargins    = []string{"ROOST_DISCOVERY_STABLE_FOR=500ms", "ROOST_DISCOVERY_INTERVAL=100ms"}
	defaultMargins = []string(nil)
)

// TestBackends: see the package comment.
func TestBackends(t *testing.T) {
	e := needEngine(t)
	for i := range backends {
		b := &backends[i]
		t.Run(b.name, func(t *testing.T) {
			ran.Store(true)
			t.Run("cold start with default margins", func(t *testing.T) {
				c := newCluster(t, e, b, defaultMargins...)
				logFigures(t, b, coldStart(c))
			})
			c := newCluster(t, e, b, fastMargins...)
			figures := coldStart(c)
			t.Run("cold start with fast margins", func(t *testing.T) { logFigures(t, b, figures) })
			c.underLoad(func() {
				for _, s := range scenarios {
					t.Run(s.name, func(t *testing.T) {
						outer := c.T
						c.T = t
						defer func() { c.T = outer }()
						c.settle()
						logFigures(t, b, s.play(c, b))
						c.checkDeaths()
					})
					if t.Failed() {
						break // the next scenarios would prove nothing
					}
				}
			})
		})
	}
}

// scenarios run in this order with one cluster, and restore it at the end. Each
// returns its figures.
var scenarios = []struct {
	name string
	play func(c *cluster, b *backend) string
}{
	{"a new gateway", newGateways},
	{"the active coordinator is killed", killActive},
	{"three regions, six, two", scale},
	{"the server is stopped for a minute", stopServer},
	{"the active coordinator is cut off", cutActive},
	{"everything is killed and started", restartAll},
	{"everything is killed and replaced at other addresses", replaceAll},
}

func logFigures(t *testing.T, b *backend, figures string) {
	t.Helper()
	_, name, _ := strings.Cut(strings.TrimPrefix(t.Name(), "TestBackends/"), "/")
	t.Logf("%-9s %-38s %s", b.name, strings.ReplaceAll(name, "_", " ")+":", figures)
}

// coldStart starts all processes at once. The servers run already.
func coldStart(c *cluster) string {
	c.Helper()
	began := time.Now()
	c.run(c.nodes...)
	running := time.Since(began)
	c.firstAnswer()
	answered := time.Since(began)
	c.up()
	if n := c.formed(); n != 1 {
		c.Errorf("a cluster was formed %d times", n)
	}
	return fmt.Sprintf("first command answered after %s s; the engine needed %s s of them to start all %d containers",
		seconds(answered), seconds(running), len(c.nodes))
}

// newGateways starts gateways, one after the other.
func newGateways(c *cluster, _ *backend) string {
	var since, total []time.Duration
	for i := range 3 {
		n := c.add(fmt.Sprint("gateway-new-", i), gateway)
		began := time.Now()
		c.run(n)
		c.awaitAnswer(n, load.ListName(0))
		answered := time.Now()
		s, err := n.state()
		c.must(err)
		since, total = append(since, answered.Sub(s.StartedAt)), append(total, answered.Sub(began))
		c.stopAndRemove(n)
	}
	return fmt.Sprintf("first command answered %s ms after the process started (%s ms after the engine was told to)",
		milliseconds(since), milliseconds(total))
}

// killActive kills the active coordinator. The next one places new shards; placed shards are
// served without interruption.
func killActive(c *cluster, _ *backend) string {
	var took []time.Duration
	slowest, others := time.Duration(0), 0
	for _, list := range c.unplacedLists(3) {
		old, before := c.active()
		w := c.window()
		c.must(old.kill())
		c.awaitAnswer(c.all(gateway)[0], list)
		answered := time.Now()
		state, err := old.state()
		c.must(err)
		took = append(took, answered.Sub(state.FinishedAt))
		a, failed, s := w.end()
		slowest, others = max(slowest, s), others+a
		if failed > 0 {
			c.Errorf("%d operations on placed shards were not answered", failed)
		}
		if now, term := c.active(c.but(old)...); term <= before {
			c.Errorf("%s is active in term %d after %s in term %d", now.name, term, old.name, before)
		}
		c.run(old)
		c.settle()
	}
	return fmt.Sprintf("a command for a new shard answered %s ms after SIGKILL; all %d others answered, the slowest within %s s",
		milliseconds(took), others, seconds(slowest))
}

// but returns all coordinators but one.
func (c *cluster) but(one *node) []*node {
	return slices.DeleteFunc(c.all(coordinator), func(n *node) bool { return n == one })
}

// scale starts three more regions, and stops four of the six.
func scale(c *cluster, _ *backend) string {
	w := c.window()
	began := time.Now()
	var more []*node
	for i := range 3 {
		more = append(more, c.add(fmt.Sprint("region-", i+4), region))
	}
	c.run(more...)
	c.up()
	joined := time.Since(began)
	for _, n := range more {
		eventually(c.T, func(ctx context.Context) error {
			s, err := c.admin().Shards(ctx, "", n.name)
			if err == nil && len(s.Shards) == 0 {
				err = fmt.Errorf("%s has no shards", n.name)
			}
			return err
		})
	}
	spread := time.Since(began)
	began = time.Now()
	c.stopAndRemove(c.node("region-1"), c.node("region-4"), c.node("region-2"), c.node("region-5"))
	stopped := time.Since(began)
	c.up()
	figures := fmt.Sprintf("3 more are members after %s s and have shards after %s s; 4 stopped in %s s; %v",
		seconds(joined), seconds(spread), seconds(stopped), w)
	if _, failed, _ := w.end(); failed > 0 {
		c.Errorf("%d operations were not answered: %s", failed, figures)
	}
	c.run(c.add("region-1", region))
	c.up()
	return figures
}

// stopServer stops a server of the backend for a minute: the lease's or, with DNS, discovery's.
func stopServer(c *cluster, b *backend) string {
	server := c.serverOf(b.stopped)
	lists := c.unplacedLists(2)
	_, before := c.active()
	w := c.window()
	c.must(server.stop(10 * time.Second))
	began := time.Now()
	inactive := "the lease is elsewhere"
	if b.withLease {
		eventually(c.T, func(ctx context.Context) error {
			for _, n := range c.all(coordinator) {
				active, term, err := isActive(ctx, n)
				if err == nil && active {
					err = fmt.Errorf("%s is active in term %d without a lease", n.name, term)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		inactive = fmt.Sprintf("no coordinator active after %s s", seconds(time.Since(began)))
	} else {
		c.awaitAnswer(c.all(gateway)[0], lists[0])
	}
	c.wait(minute - time.Since(began))
	meanwhile := w.String()
	if _, failed, _ := w.end(); failed > 0 {
		c.Errorf("%d operations were not answered without %s", failed, server.name)
	}
	began = time.Now()
	c.must(server.start())
	c.awaitServer(server)
	serving := time.Since(began)
	c.awaitAnswer(c.all(gateway)[0], lists[1])
	opened := time.Since(began)
	_, term := c.active()
	if b.withLease && term <= before {
		c.Errorf("term %d after %d", term, before)
	}
	c.up()
	return fmt.Sprintf("%s; %s; the server serves again after %s s, a new shard after %s s, term %d after %d",
		meanwhile, inactive, seconds(serving), seconds(opened), term, before)
}

// cutActive cuts the active coordinator off from all others, the server of the lease
// included. Once another one is active, it must not claim to be, and must not carry out
// any request.
func cutActive(c *cluster, _ *backend) string {
	if why := canCut(); why != "" {
		c.Skip(why)
	}
	lists := c.unplacedLists(2)
	old, before := c.active()
	w := c.window()
	began := time.Now()
	c.must(old.cut())
	c.awaitAnswer(c.all(gateway)[0], lists[0])
	opened := time.Since(began)
	now, term := c.active(c.but(old)...)
	if term <= before {
		c.Errorf("%s is active in term %d after %s in term %d", now.name, term, old.name, before)
	}
	c.checkPowerless(old, lists[1])
	c.wait(8*time.Second - time.Since(began))
	c.checkPowerless(old, lists[1])
	meanwhile := w.String()
	if _, failed, _ := w.end(); failed > 0 {
		c.Errorf("%d operations on placed shards were not answered", failed)
	}
	c.must(old.heal())
	c.up()
	if _, late := c.active(); late < term {
		c.Errorf("after the cut the term is %d again, it was %d", late, term)
	}
	return fmt.Sprintf("a command for a new shard answered after %s s; %s in term %d after %s in term %d, which refused everything; %s",
		seconds(opened), now.name, term, old.name, before, meanwhile)
}

// checkPowerless asks a coordinator that is no longer active for what only the active one may
// do.
func (c *cluster) checkPowerless(old *node, list string) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), waitLimit)
	defer cancel()
	if active, term, err := isActive(ctx, old); err != nil || active {
		c.Errorf("%s cannot reach any process, and reports itself as active: %v, in term %d, %v", old.name, active, term, err)
	}
	where, err := c.admin(c.but(old)...).Where(ctx, "List", list)
	c.must(err)
	home := fmt.Sprintf(`{"cluster":%q,"messages":[{"get_shard_home":{"shard":{"type":"List","index":%d}}}]}`, clusterName, where.Shard.Index)
	if _, err := twirp(ctx, old, "Send", home); err != nil { // one-way: the effect is checked below
		c.Errorf("%s was not asked for a shard's home: %v", old.name, err)
	}
	if _, err := c.admin(old).Drain(ctx, &adminv1.DrainRequest{Region: "region-3"}); err == nil {
		c.Errorf("%s took an order to drain a region", old.name)
	}
	where, err = c.admin(c.but(old)...).Where(ctx, "List", list)
	c.must(err)
	if where.Shard.Phase != "unallocated" {
		c.Errorf("a shard that only %s was asked for is %s at %s", old.name, where.Shard.Phase, where.Shard.Region)
	}
}

// restartAll kills all containers, the servers included, and starts them again.
func restartAll(c *cluster, _ *backend) string {
	return c.again(func(*node) {})
}

// replaceAll does the same with new containers for the members, at addresses that were not
// used before. What the servers list is wrong until they notice.
func replaceAll(c *cluster, _ *backend) string {
	return c.again(func(n *node) {
		if n.role != gateway {
			c.replace(n)
		}
	})
}

// again kills all containers at once, calls between for each node, and starts them in any
// order. All acknowledged values must be there afterwards.
func (c *cluster) again(between func(*node)) string {
	c.Helper()
	seed := rand.Uint64()
	_, before := c.active()
	acked := c.acked()
	c.must(each(c.containers(), (*container).kill))
	c.checkDeaths()
	for _, n := range c.nodes {
		between(n)
	}
	order := c.containers()
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	began := time.Now()
	for _, one := range order {
		c.must(one.start())
		if one.name == "zone" { // it still lists the old addresses
			c.awaitServer(one)
			c.updateZone()
		}
	}
	running := time.Since(began)
	c.firstAnswer()
	answered := time.Since(began)
	for _, s := range c.servers {
		c.awaitServer(s)
	}
	c.up()
	whole := time.Since(began)
	if _, term := c.active(); term <= before {
		c.Errorf("term %d after %d", term, before)
	}
	ctx, cancel := context.WithTimeout(c.Context(), waitLimit)
	defer cancel()
	count := 0
	for _, list := range slices.Sorted(maps.Keys(acked)) {
		final, err := c.load.Final(ctx, list)
		c.must(err)
		for _, v := range acked[list] {
			if count++; !slices.Contains(final, v) {
				c.Errorf("%d was acknowledged and is not in %s", v, list)
			}
		}
	}
	return fmt.Sprintf("seed %d: first command answered after %s s, all are members of one cluster after %s s (%s s of that to start %d containers one by one); all %d acknowledged values are there",
		seed, seconds(answered), seconds(whole), seconds(running), len(order), count)
}

// containers returns the containers of servers and processes.
func (c *cluster) containers() []*container {
	all := slices.Clone(c.servers)
	for _, n := range c.nodes {
		all = append(all, n.container)
	}
	return all
}

// wait lets the clients continue for a while.
func (c *cluster) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.Context().Done():
	}
}
