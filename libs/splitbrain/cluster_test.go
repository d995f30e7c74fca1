package splitbrain

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/gossiptest"
)

// cluster is membership machines with a resolver each, and a lease that
// members with the role "seer" compete for.
type cluster struct {
	*gossiptest.Net
	lease gossip.Lease
	// store reports whether a node can reach the store of the lease; nil: all can.
	store func(*gossiptest.Node) bool
	// competing: the lease is competed for.
	competing bool
	yielded   int // how often it was given up
}

const leaseTTL = 2 * time.Second

// newCluster has n nodes that are up, the first of them the oldest and with the
// lowest address, the first seers of them with the role.
func newCluster(seed uint64, n, seers int, c Config) (*cluster, error) {
	x := &cluster{Net: gossiptest.New(seed)}
	x.OnEvent = x.event
	downing, err := c.Open()
	if err != nil {
		return nil, err
	}
	for i := range n {
		g := gossip.DefaultConfig()
		g.Seeds, g.Downing, g.Watch = []string{"n1:1", "n2:1"}, downing, gossip.FastProfile()
		if i < seers {
			g.Roles = []string{"seer"}
		}
		x.Start(x.Add(fmt.Sprintf("n%d:1", i+1), g))
		if i == 0 {
			x.Run(6 * time.Second)
		}
	}
	if !x.RunUntil(20*time.Second, func() bool { return x.Agreed() == nil }) {
		return nil, fmt.Errorf("no cluster: %w", x.Agreed())
	}
	return x, nil
}

// pass lets time pass, with the lease.
func (x *cluster) pass(d time.Duration) {
	for end := x.Now.Add(d); x.Now.Before(end); x.Run(gossiptest.TickEvery) {
		for _, node := range x.Nodes {
			if x.competing {
				x.compete(node)
			}
		}
	}
}

// event gives the lease up for a node that is to. If it cannot reach the store,
// the lease expires.
func (x *cluster) event(node *gossiptest.Node, e gossip.Event) {
	if _, ok := e.(gossip.YieldLease); ok && x.lease.Holder == node.ID && (x.store == nil || x.store(node)) {
		x.yielded++
		x.lease = gossip.Lease{Until: x.Now} // free
	}
}

// compete renews the lease, or acquires it when it is over, and tells the node.
func (x *cluster) compete(node *gossiptest.Node) {
	if node.M == nil || x.store != nil && !x.store(node) {
		return
	}
	v := node.M.View()
	me, _ := v.Member(node.ID)
	if me.Status == 0 || !me.HasRole("seer") {
		return
	}
	free := x.lease.Until
	if InMinority(v, "") {
		free = free.Add(MinorityDelay)
	}
	if x.lease.Holder == node.ID || !x.Now.Before(free) {
		x.lease = gossip.Lease{Holder: node.ID, Until: x.Now.Add(leaseTTL)}
	}
	x.Step(node, x.lease)
}

// oneSide verifies that no two running nodes hold each other for gone, and
// counts who runs.
func (x *cluster) oneSide() (int, error) {
	running := 0
	for _, a := range x.Nodes {
		if a.M == nil {
			continue
		}
		running++
		for _, b := range x.Nodes {
			if b.M == nil {
				continue
			}
			if m, ok := a.M.View().Member(b.ID); !ok || m.Status == gossip.Down {
				return 0, fmt.Errorf("%v and %v both run, and %v holds %v for gone", a.ID, b.ID, a.ID, b.ID)
			}
			if m, _ := a.M.View().Member(b.ID); !m.Reachable {
				return 0, fmt.Errorf("%v and %v both run, and %v does not reach %v", a.ID, b.ID, a.ID, b.ID)
			}
		}
	}
	return running, nil
}

func (v *vector) checkCluster(*testing.T) error {
	name, more, _ := strings.Cut(v.Strategy, " ")
	c := DefaultConfig()
	c.Strategy, c.StableAfter, c.LeaseRole = name, 5*time.Second, "seer"
	if name == staticQuorumName {
		c.QuorumSize, _ = strconv.Atoi(more)
	}
	n := v.Side1 + v.Side2
	x, err := newCluster(1, n, n, c)
	if err != nil {
		return err
	}
	var sides [2][]string
	for i, node := range x.Nodes {
		side := 0
		if i >= v.Side1 {
			side = 1
		}
		sides[side] = append(sides[side], node.Addr)
	}
	x.Split(sides[0], sides[1])
	x.pass(4 * time.Second)
	x.competing, x.lease.Until = true, x.Now // there, the lease is acquired for the decision
	x.pass(30 * time.Second)
	kept := [2]int{}
	for i, node := range x.Nodes {
		if node.M != nil {
			side := 0
			if i >= v.Side1 {
				side = 1
			}
			kept[side]++
		}
	}
	outcome := "some of a side"
	switch kept {
	case [2]int{}:
		outcome = "ShutdownBoth"
	case [2]int{v.Side1, 0}:
		outcome = "KeepSide1"
	case [2]int{0, v.Side2}:
		outcome = "KeepSide2"
	case [2]int{v.Side1, v.Side2}:
		outcome = "KeepAll"
	}
	want := v.Expect
	if want == "KeepLeader" {
		want = "KeepSide1" // with the lowest address
	}
	return differ("outcome", outcome, want)
}

// configs are the strategies under test for n members, with short times.
func configs(n int) map[string]Config {
	all := map[string]Config{}
	for _, name := range names {
		c := DefaultConfig()
		c.Strategy, c.QuorumSize, c.LeaseRole = name, n/2+1, "seer"
		c.StableAfter, c.LeasePatience = 5*time.Second, 4*time.Second
		if c.strategy() != nil {
			all[name] = c
		}
	}
	return all
}

// fault hurts the network at random.
func (x *cluster) fault() string {
	rng, n := x.Rand(), len(x.Nodes)
	addr := func(i int) string { return x.Nodes[i].Addr }
	side := make([]int, n)
	parts := 2 + rng.IntN(2)
	for i := range side {
		side[i] = rng.IntN(parts)
	}
	kind := rng.IntN(5)
	for i := range n {
		for j := range n {
			switch {
			case i == j:
			case kind <= 1 && side[i] != side[j]: // a clean partition
				x.Cut(addr(i), addr(j), true)
			case kind == 2 && i < j && rng.IntN(n) == 0: // some links
				x.Cut(addr(i), addr(j), true)
				x.Cut(addr(j), addr(i), true)
			case kind == 3 && rng.IntN(n) == 0: // some links, one way
				x.Cut(addr(i), addr(j), true)
			case kind == 4 && side[i] != side[j] && i != 0 && j != 0: // a bridge
				x.Cut(addr(i), addr(j), true)
			}
		}
	}
	if rng.IntN(3) == 0 {
		x.Crash(x.Nodes[rng.IntN(n)])
	}
	return fmt.Sprint(side, kind)
}

// Whatever happens to the network, at most one side continues, once nothing has
// changed for long enough.
func TestSimulation(t *testing.T) {
	seeds, first := uint64(16), uint64(1)
	number := func(env string, into *uint64) (set bool) {
		text := os.Getenv(env)
		if text == "" {
			return false
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || n == 0 {
			t.Fatalf("%s is %q: choose a number from 1 on", env, text)
		}
		*into = n
		return true
	}
	if !number("SIM_SEEDS", &seeds) && testing.Short() {
		seeds = 4
	}
	if number("SIM_SEED", &first) {
		seeds = 1
	}
	outcomes := map[string]int{}
	for seed := first; seed < first+seeds; seed++ {
		for name, c := range configs(5 + int(seed%5)) { // in any order: each is a run of its own
			outcome, yielded, err := simulate(seed, 5+int(seed%5), c)
			if err != nil {
				t.Errorf("%s: %v; again with SIM_SEED=%d go test -run TestSimulation ./libs/splitbrain", name, err, seed)
				continue
			}
			outcomes[name+": "+outcome]++
			if yielded > 0 {
				outcomes[name+": lease yielded"]++
			}
		}
	}
	if seeds >= 16 && outcomes[leaseMajorityName+": lease yielded"] == 0 {
		t.Error("no lease was ever yielded")
	}
	t.Logf("%d seeds for each strategy: %v", seeds, outcomes)
}

// simulate runs a cluster through one or two faults and tells who is left.
func simulate(seed uint64, n int, c Config) (outcome string, yielded int, err error) {
	x, err := newCluster(seed, n, 2, c)
	if err != nil {
		return "", 0, err
	}
	x.competing = true
	x.pass(3 * time.Second)
	rng := x.Rand()
	if rng.IntN(3) == 0 {
		x.Climate = gossiptest.Climate{Loss: 0.02, MinDelay: time.Millisecond, MaxDelay: 40 * time.Millisecond}
	}
	x.fault()
	if rng.IntN(4) == 0 { // the store is on one side
		with := rng.IntN(n)
		x.store = func(node *gossiptest.Node) bool { return !x.IsCut(x.Nodes[with].Addr, node.Addr) }
	}
	x.pass(time.Duration(rng.IntN(12_000)) * time.Millisecond)
	if rng.IntN(2) == 0 {
		x.Heal()
		if rng.IntN(2) == 0 {
			x.fault()
		}
	}
	x.pass(60 * time.Second)
	running, err := x.oneSide()
	if err != nil {
		return "", 0, err
	}
	x.Climate = gossiptest.Calm()
	x.Heal()
	x.pass(30 * time.Second)
	if running > 0 && !x.RunUntil(30*time.Second, func() bool { return x.Agreed() == nil }) {
		return "", 0, errors.Join(errors.New("no agreement after all"), x.Agreed())
	}
	switch running {
	case 0:
		return "none", x.yielded, nil
	case n:
		return "all", x.yielded, nil
	}
	return "a side", x.yielded, nil
}

// healAndDivide breaks some links, so that some members stay unreachable to others;
// after a while they are whole, and at the same moment two halves cannot reach
// each other any more.
func healAndDivide(after time.Duration) error {
	c := configs(6)[keepMajorityName]
	x, err := newCluster(1, 6, 2, c)
	if err != nil {
		return err
	}
	for _, link := range [][2]string{{"n3:1", "n1:1"}, {"n4:1", "n1:1"}, {"n4:1", "n2:1"}, {"n5:1", "n6:1"}} {
		x.Cut(link[0], link[1], true)
	}
	x.pass(after)
	x.Heal()
	x.Split([]string{"n1:1", "n3:1", "n5:1"}, []string{"n2:1", "n4:1", "n6:1"})
	x.pass(time.Minute)
	_, err = x.oneSide()
	return err
}

// The only member that sees the lease crashes together with another one, and is
// started anew at the same address. It must be let in although no member
// can be removed before it decides about the other one.
func TestTheOnlySeerComesBack(t *testing.T) {
	c := LeaseConfig("seer")
	c.StableAfter = 3 * time.Second
	x, err := newCluster(1, 3, 1, c)
	if err != nil {
		t.Fatal(err)
	}
	x.competing = true
	x.pass(3 * time.Second)
	x.Crash(x.Nodes[0])
	x.Crash(x.Nodes[1])
	x.pass(6 * time.Second)
	x.Start(x.Nodes[0])
	x.pass(20 * time.Second)
	if x.Nodes[0].M == nil || x.Nodes[2].M == nil {
		t.Fatal("one of the two went")
	}
	if err := x.Agreed(); err != nil {
		t.Error(err)
	}
}
