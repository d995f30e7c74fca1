package splitbrain

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/sharding"
)

// most is the largest cluster of the matrices.
const most = 5

// matrix holds which node observes which one as unreachable: bit j of row i.
type matrix [most]uint8

func (o *matrix) observes(i, j int) bool { return o[i]>>j&1 == 1 }

// small is a cluster of a few nodes after everything has come to rest: gossip
// has gone wherever it can, and resolvers decide until none has anything to
// decide any more. Node i has the i-th lowest address.
//
// Two nodes exchange gossip unless both observe the other as unreachable: who
// does not gets answers to its heartbeats, so both directions work. All nodes
// that gossip connects know the same.
type small struct {
	n        int
	o        matrix
	members  [most]gossip.Member // as far as everybody knows
	moved    [most]gossip.Member // as those know who heard what the leader did last
	heard    uint8               // who did
	cfg      Config
	seers    uint8
	holder   int // of the lease; -1: none
	alive    uint8
	down     [most]uint8 // whom node i holds for down
	patience bool        // who waits for the lease has waited long enough
	// old: everybody knows what those out of touch observed of each other, as
	// if they had gone one after the other.
	old bool
}

// component is the set of nodes that gossip connects with i.
func (w *small) component(i int) uint8 {
	c := uint8(1) << i
	for grown := true; grown; {
		grown = false
		for a := range w.n {
			for b := range w.n {
				if c>>a&1 == 1 && c>>b&1 == 0 && w.alive>>b&1 == 1 && !(w.o.observes(a, b) && w.o.observes(b, a)) {
					c |= 1 << b
					grown = true
				}
			}
		}
	}
	return c
}

// view is the cluster as node i sees it.
func (w *small) view(i int) gossip.View {
	c := w.component(i)
	id := func(j int) sharding.NodeID { return w.members[j].Node }
	v := gossip.View{Self: id(i), InCluster: true, Members: make([]gossip.MemberView, w.n)}
	var down, unreachable uint8
	for j := range w.n {
		if c>>j&1 == 1 {
			down |= w.down[j]
		}
	}
	for a := range w.n {
		for b := range w.n {
			known := c>>a&1 == 1 || w.old && c>>b&1 == 0
			if known && down>>a&1 == 0 && w.o.observes(a, b) {
				v.Observations = append(v.Observations, gossip.Observation{Observer: id(a), Subject: id(b)})
				unreachable |= 1 << b
			}
		}
	}
	for j := range w.n {
		m := w.members[j]
		if w.heard&c != 0 {
			m = w.moved[j]
		}
		if down>>j&1 == 1 {
			m.Status = gossip.Down
		}
		v.Members[j] = gossip.MemberView{Member: m, Seen: c>>j&1 == 1, Reachable: j == i || unreachable>>j&1 == 0}
		candidate := (j == i || unreachable>>j&1 == 0) && (m.Status == gossip.Up || m.Status == gossip.Leaving)
		if candidate && v.Leader.IsZero() {
			v.Leader = m.Node
		}
	}
	if v.Leader.IsZero() {
		v.Leader = id(i) // alone with others who are not up
	}
	if w.holder >= 0 && w.seers>>i&1 == 1 {
		v.Lease = gossip.Lease{Holder: id(w.holder), Until: began.Add(time.Hour)}
	}
	return v
}

var began = time.Unix(1_000_000, 0)

// decide is whom the resolver of node i downs.
func (w *small) decide(i int) uint8 {
	v := w.view(i)
	r := &Resolver{cfg: w.cfg, strategy: w.cfg.strategy()}
	d := r.Decide(began, v)
	if len(d.Down) == 0 && w.patience {
		d = r.Decide(began.Add(w.cfg.LeasePatience), v)
	}
	var down uint8
	for _, n := range d.Down {
		for j := range w.n {
			if w.members[j].Node == n {
				down |= 1 << j
			}
		}
	}
	return down
}

// run lets everybody decide, at the same time, until nothing changes any more.
func (w *small) run() {
	for range 4 * w.n {
		before, was := w.down, w.alive
		var said [most]uint8
		for i := range w.n {
			if w.alive>>i&1 == 1 {
				said[i] = w.decide(i)
			}
		}
		for i := range w.n {
			if said[i] == 0 {
				continue
			}
			c := w.component(i)
			for j := range w.n {
				if c>>j&1 == 1 {
					w.down[j] |= said[i]
				}
			}
		}
		w.stop()
		if w.down == before && w.alive == was {
			if w.patience {
				return
			}
			w.patience = true
		}
	}
	panic("it never ends")
}

// stop ends the nodes that know that they are down, or exiting; those left
// notice it.
func (w *small) stop() {
	for i := range w.n {
		exiting := w.moved[i].Status == gossip.Exiting && w.component(i)&w.heard != 0
		if w.alive>>i&1 == 1 && (w.down[i]>>i&1 == 1 || exiting) {
			w.alive &^= 1 << i
		}
	}
	for i := range w.n {
		w.o[i] |= ^w.alive & (1<<w.n - 1) &^ (1 << i)
	}
	if w.holder >= 0 && w.alive>>w.holder&1 == 0 { // the last one in line takes over
		w.holder = -1
		for i := range w.n {
			if w.seers&w.alive>>i&1 == 1 {
				w.holder = i
			}
		}
	}
}

// check verifies that those who are left are one group: all in touch.
func (w *small) check() error {
	for i := range w.n {
		for j := range w.n {
			if i != j && w.alive>>i&1 == 1 && w.alive>>j&1 == 1 && (w.o.observes(i, j) || w.down[i]>>j&1 == 1) {
				return fmt.Errorf("nodes %d and %d both run, and %d observes %d as unreachable: %d", i, j, i, j, w.down[i]>>j&1)
			}
		}
	}
	return nil
}

// tally counts cases and their outcomes.
type tally struct {
	cases, none, side, all int
	broken                 []string
}

func (c *tally) try(w small) {
	start := w
	w.alive = 1<<w.n - 1
	w.run()
	c.cases++
	switch w.alive {
	case 0:
		c.none++
	case 1<<w.n - 1:
		c.all++
	default:
		c.side++
	}
	if err := w.check(); err != nil && len(c.broken) < 5 {
		c.broken = append(c.broken, fmt.Sprintf("%d nodes, matrix %05b, members %s, moved on to %s as heard by %05b, holder %d: %v; %05b run",
			w.n, start.o[:w.n], brief(start.members[:w.n]), brief(start.moved[:w.n]), w.heard, start.holder, err, w.alive))
	}
}

func brief(members []gossip.Member) string {
	s := ""
	for _, m := range members {
		s += fmt.Sprintf(" %v/%d", m.Status, m.UpNumber)
	}
	return s
}

func (c *tally) report(t *testing.T, name string) {
	t.Logf("%-15s %9d cases: %7d all stay, %7d a part stays, %7d none stays", name, c.cases, c.all, c.side, c.none)
	if c.none == c.cases {
		t.Error("no node ever stays")
	}
	for _, b := range c.broken {
		t.Error(b)
	}
}

// smallCluster has n members that are up. The oldest is the first or the last by
// address; the first two and the last can see the lease.
func smallCluster(n int, c Config, firstIsOldest bool, holder int) small {
	c.StableAfter = 0
	w := small{n: n, cfg: c, holder: holder, seers: 0b11 | 1<<(n-1)}
	for i := range n {
		age := uint32(i + 1)
		if !firstIsOldest {
			age = uint32(n - i)
		}
		m := gossip.Member{Node: sharding.NodeID{Addr: string(rune('a' + i)), UID: 1}, Status: gossip.Up, UpNumber: age}
		if w.seers>>i&1 == 1 {
			m.Roles = []string{"seer"}
		}
		w.members[i] = m
	}
	w.moved = w.members
	return w
}

// variants are the clusters in which every matrix is tried.
func variants(n int, c Config) []small {
	var all []small
	switch c.Strategy {
	case leaseMajorityName:
		for _, holder := range []int{-1, 0, n - 1} {
			all = append(all, smallCluster(n, c, true, holder))
		}
	case keepOldestName:
		alone := c
		alone.DownIfAlone = false
		for _, c := range []Config{c, alone} {
			all = append(all, smallCluster(n, c, true, -1), smallCluster(n, c, false, -1))
		}
	case keepMajorityName, staticQuorumName:
		some := c
		some.Role = "seer"
		all = append(all, smallCluster(n, c, true, -1), smallCluster(n, some, true, -1))
	default:
		all = append(all, smallCluster(n, c, true, -1))
	}
	return all
}

// full is set by SPLITBRAIN=full: minutes instead of seconds.
func full() bool { return os.Getenv("SPLITBRAIN") == "full" }

// TestMatrices tries every strategy on every matrix of observations; the ones of
// five nodes are symmetric unless SPLITBRAIN=full.
func TestMatrices(t *testing.T) {
	for name := range configs(2) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := matrices(name, most, full())
			c.report(t, name)
		})
	}
}

func matrices(name string, largest int, directed bool) *tally {
	var c tally
	for n := 2; n <= largest; n++ {
		for _, w := range variants(n, configs(n)[name]) {
			pairs := n * (n - 1)
			if n == most && !directed {
				pairs /= 2
			}
			for bits := range uint32(1) << pairs {
				w.o = matrixOf(n, bits, n < most || directed)
				for _, w.old = range []bool{false, true} {
					c.try(w)
				}
			}
		}
	}
	return &c
}

// matrixOf makes a matrix of the bits of its pairs.
func matrixOf(n int, bits uint32, directed bool) matrix {
	var o matrix
	for i := range n {
		for j := range n {
			if i == j || !directed && i > j {
				continue
			}
			if bits&1 == 1 {
				o[i] |= 1 << j
				if !directed {
					o[j] |= 1 << i
				}
			}
			bits >>= 1
		}
	}
	return o
}

// TestPartitions tries every strategy on every clean partition, with members
// that join or leave, of five at most two unless SPLITBRAIN=full. The leader
// moved them on just before, which only some of the parts have heard.
func TestPartitions(t *testing.T) {
	for name := range configs(2) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cleanPartitions(name, most, full())
			c.report(t, name)
		})
	}
}

func cleanPartitions(name string, largest int, full bool) *tally {
	var c tally
	for n := 2; n <= largest; n++ {
		for _, w := range variants(n, configs(n)[name]) {
			for _, parts := range partitions(n) {
				w.o = clean(parts)
				for statuses := range power(3, n) {
					if n < most || full || moving(statuses) <= 2 {
						c.tryMoved(w, parts, statuses)
					}
				}
			}
		}
	}
	return &c
}

// tryMoved tries a partition with statuses, and with every choice of the parts
// that have heard what the leader did.
func (c *tally) tryMoved(w small, parts []int, statuses int) {
	youngest := uint32(0)
	for i := range w.n {
		youngest = max(youngest, w.members[i].UpNumber)
	}
	joining, moves := 0, false
	for i := range w.n {
		m := &w.members[i]
		switch statuses / power(3, i) % 3 {
		case 1:
			joining++
			m.Status, m.UpNumber = gossip.Joining, 0
			w.moved[i] = *m
			youngest++
			w.moved[i].Status, w.moved[i].UpNumber, moves = gossip.Up, youngest, true
		case 2:
			m.Status = gossip.Leaving
			w.moved[i] = *m
			w.moved[i].Status, moves = gossip.Exiting, true
		}
	}
	if joining == w.n {
		return // no node formed the cluster
	}
	heards, leader := 0, 0
	for i, p := range parts {
		heards = max(heards, p+1)
		if m := &w.members[leader]; m.Status != gossip.Up && m.Status != gossip.Leaving {
			leader = i
		}
	}
	for heard := range 1 << heards {
		if moves && heard>>parts[leader]&1 == 0 {
			continue // the leader knows what it did
		}
		w.heard = 0
		for i, p := range parts {
			w.heard |= uint8(heard >> p & 1 << i)
		}
		c.try(w)
		if !moves {
			return
		}
	}
}

// moving counts the members that are not simply up.
func moving(statuses int) int {
	n := 0
	for ; statuses > 0; statuses /= 3 {
		if statuses%3 > 0 {
			n++
		}
	}
	return n
}

func power(b, e int) int {
	p := 1
	for range e {
		p *= b
	}
	return p
}

// partitions are all ways to part n nodes: the part of each.
func partitions(n int) [][]int {
	all := [][]int{nil}
	for range n {
		var longer [][]int
		for _, p := range all {
			parts := 0
			for _, x := range p {
				parts = max(parts, x+1)
			}
			for x := range parts + 1 {
				longer = append(longer, append(p[:len(p):len(p)], x))
			}
		}
		all = longer
	}
	return all
}

func clean(parts []int) matrix {
	var o matrix
	for i, a := range parts {
		for j, b := range parts {
			if a != b {
				o[i] |= 1 << j
			}
		}
	}
	return o
}
