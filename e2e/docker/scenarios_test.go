//go:build linux

package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/e2e/cluster/history"
	"github.com/roost-cluster/roost/e2e/cluster/load"
)

const (
	// rate is how many calls start per second. It is low: a dozen containers
	// share this machine.
	rate = 40
	// minute is for how long a server is stopped.
	minute = time.Minute
)

// Environments of the members: how patient they are before a cluster is formed.
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
			t.Run("cold start with default margins", func(t *testing.T) {
				c := newCluster(t, e, b, defaultMargins...)
				tell(t, b, coldStart(c))
			})
			c := newCluster(t, e, b, fastMargins...)
			figures := coldStart(c)
			t.Run("cold start with fast margins", func(t *testing.T) { tell(t, b, figures) })
			c.underLoad(func() {
				for _, s := range scenarios {
					t.Run(s.name, func(t *testing.T) {
						outer := c.T
						c.T = t
						defer func() { c.T = outer }()
						tell(t, b, s.play(c, b))
					})
					if t.Failed() {
						break // what comes after would tell nothing
					}
				}
			})
		})
	}
}

// scenarios are played in this order with one cluster, and leave it whole. Each
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

func tell(t *testing.T, b *backend, figures string) {
	t.Helper()
	_, name, _ := strings.Cut(strings.TrimPrefix(t.Name(), "TestBackends/"), "/")
	t.Logf("%-9s %-38s %s", b.name, strings.ReplaceAll(name, "_", " ")+":", figures)
}

// coldStart starts everything at once, with servers that are up.
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

// firstAnswer repeats a command, at all gateways in turn, until it is answered.
func (c *cluster) firstAnswer() {
	c.Helper()
	gateways := c.all(gateway)
	turn := 0
	eventually(c.T, func(ctx context.Context) error {
		turn++
		return request200(ctx, gateways[turn%len(gateways)].url()+"/v1/List/first/Get")
	})
}

// request200 sends a command that must be answered.
func request200(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return command.post(ctx, url)
}

// underLoad runs something while clients write and read, and judges then what
// they have seen.
func (c *cluster) underLoad(do func()) {
	c.Helper()
	var urls []string
	for _, n := range c.all(gateway) {
		urls = append(urls, n.url())
	}
	c.load = load.New(urls, rate)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		c.load.Run(c.Context(), 2*time.Second, over, 1)
	}()
	c.known()
	do()
	close(over)
	<-ended
	if !c.Failed() {
		c.judge()
	}
}

// known waits until every list of the load is at its place, so that no shard of
// theirs is new any more.
func (c *cluster) known() {
	c.Helper()
	for i := range load.Lists {
		eventually(c.T, func(ctx context.Context) error {
			return request200(ctx, c.all(gateway)[0].url()+"/v1/List/"+load.ListName(i)+"/Get")
		})
	}
}

// judge checks the history against the lists as they are now and against the
// journal.
func (c *cluster) judge() {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), soon)
	defer cancel()
	final := map[string][]int64{}
	values := 0
	for i := range load.Lists {
		list, err := c.load.Final(ctx, load.ListName(i))
		c.must(err)
		final[load.ListName(i)] = list
		values += len(list)
	}
	ops := c.load.Ops()
	outcomes := map[history.Outcome]int{}
	for i := range ops {
		outcomes[ops[i].Outcome]++
	}
	if err := history.Check(ops, final, soon); err != nil {
		c.Errorf("the history is wrong: %v", err)
	}
	stored := c.stored()
	if err := history.CheckStored(ops, stored); err != nil {
		c.Errorf("the journal is wrong: %v", err)
	}
	if err := history.CheckRead(final, stored); err != nil {
		c.Error(err)
	}
	for _, p := range c.load.Problems {
		c.Errorf("an answer that must not be: %s", p)
	}
	if c.load.Turned > 0 {
		c.Errorf("void: %d calls did not start, because %d were under way", c.load.Turned, load.Crowd)
	}
	c.Logf("%-9s %-38s %d operations in %.0f s: %d answered, %d rejected, %d unknown; all of %d values are in the journal, in an order that explains every answer",
		"", "the history:", len(ops), c.load.End.Seconds(), outcomes[history.OK], outcomes[history.Rejected], outcomes[history.Unknown], values)
}

// window is what the clients see in a part of the history.
type window struct {
	c     *cluster
	begin time.Duration
}

func (c *cluster) window() window { return window{c, c.load.Now()} }

// end sums up the operations that ended since the beginning.
func (w window) end() (answered, failed int, slowest time.Duration) {
	ops := w.c.load.Ops()
	for i := range ops {
		switch o := &ops[i]; {
		case o.Return < w.begin:
		case o.Outcome == history.OK:
			answered++
			slowest = max(slowest, o.Return-max(o.Call, w.begin))
		default:
			failed++
		}
	}
	return answered, failed, slowest
}

// String is for the figures of a scenario.
func (w window) String() string {
	answered, failed, slowest := w.end()
	return fmt.Sprintf("%d operations answered meanwhile, %d not, the slowest took %s s", answered, failed, seconds(slowest))
}

// fresh names lists whose shards nobody has yet, each with another shard.
func (c *cluster) fresh(n int) (names []string) {
	c.Helper()
	taken := map[uint32]bool{}
	for i := 0; len(names) < n; i++ {
		name := fmt.Sprint("fresh-", i)
		var index uint32
		var free bool
		eventually(c.T, func(ctx context.Context) error {
			res, err := c.admin().Where(ctx, "List", name)
			if err == nil {
				index, free = res.Shard.Index, res.Shard.Phase == "unallocated"
			}
			return err
		})
		if free && !taken[index] {
			taken[index] = true
			names = append(names, name)
		}
		if i > 1000 {
			c.Fatal("no shards are left that nobody has")
		}
	}
	return names
}

// opened asks for a list until it is answered.
func (c *cluster) opened(list string) {
	c.Helper()
	c.must(c.insist(c.all(gateway)[0].url() + "/v1/List/" + list + "/Get"))
}

// newGateways starts gateways, one after the other.
func newGateways(c *cluster, _ *backend) string {
	var since, total []time.Duration
	for i := range 3 {
		n := c.add(fmt.Sprint("gateway-new-", i), gateway)
		began := time.Now()
		c.run(n)
		c.must(c.insist(n.url() + "/v1/List/" + load.ListName(0) + "/Get"))
		answered := time.Now()
		s, err := n.state()
		c.must(err)
		since, total = append(since, answered.Sub(s.StartedAt)), append(total, answered.Sub(began))
		c.gone(n)
	}
	return fmt.Sprintf("first command answered %s ms after the process started (%s ms after the engine was told to)",
		milliseconds(since), milliseconds(total))
}

// killActive kills the active coordinator. Who is next decides about new
// shards; those that have a place are served on.
func killActive(c *cluster, _ *backend) string {
	var took []time.Duration
	slowest, answered := time.Duration(0), 0
	for _, list := range c.fresh(3) {
		old, before := c.active()
		w := c.window()
		began := time.Now()
		c.must(old.kill())
		c.opened(list)
		took = append(took, time.Since(began))
		a, failed, s := w.end()
		slowest, answered = max(slowest, s), answered+a
		if failed > 0 {
			c.Errorf("%d operations on shards that have a place were not answered", failed)
		}
		if now, term := c.active(c.but(old)...); term <= before {
			c.Errorf("%s is active in term %d after %s in term %d", now.name, term, old.name, before)
		}
		c.run(old)
		c.up()
	}
	return fmt.Sprintf("a command for a new shard answered %s ms after SIGKILL; all %d others answered, the slowest within %s s",
		milliseconds(took), answered, seconds(slowest))
}

// but are the coordinators but one.
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
	c.gone(c.node("region-1"), c.node("region-4"), c.node("region-2"), c.node("region-5"))
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

// stopServer stops what processes find each other by, and with it perhaps the
// lease.
func stopServer(c *cluster, b *backend) string {
	server := c.serverOf(b.stopped)
	fresh := c.fresh(2)
	_, before := c.active()
	w := c.window()
	c.must(server.stop(10 * time.Second))
	began := time.Now()
	inactive := "the lease is elsewhere"
	if b.withLease {
		eventually(c.T, func(ctx context.Context) error {
			for _, n := range c.all(coordinator) {
				active, term, err := says(ctx, n)
				if err == nil && active {
					err = fmt.Errorf("%s is active in term %d without a lease", n.name, term)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		inactive = fmt.Sprintf("nobody active after %s s", seconds(time.Since(began)))
	} else {
		c.opened(fresh[0])
	}
	c.wait(minute - time.Since(began))
	meanwhile := w.String()
	if _, failed, _ := w.end(); failed > 0 {
		c.Errorf("%d operations were not answered without %s", failed, server.name)
	}
	began = time.Now()
	c.must(server.start())
	c.serves(server)
	serving := time.Since(began)
	c.opened(fresh[1])
	opened := time.Since(began)
	_, term := c.active()
	if b.withLease && term <= before {
		c.Errorf("term %d after %d", term, before)
	}
	c.up()
	return fmt.Sprintf("%s; %s; the server serves again after %s s, a new shard after %s s, term %d after %d",
		meanwhile, inactive, seconds(serving), seconds(opened), term, before)
}

// cutActive lets nothing through between the active coordinator and everybody
// else, the server of the lease included. It is looked at all the time: once
// another is active, it must not claim to be, and nothing that is asked of it may
// happen.
func cutActive(c *cluster, _ *backend) string {
	if why := canCut(); why != "" {
		c.Skip(why)
	}
	fresh := c.fresh(2)
	old, before := c.active()
	w := c.window()
	began := time.Now()
	c.must(old.cut())
	c.opened(fresh[0])
	opened := time.Since(began)
	now, term := c.active(c.but(old)...)
	if term <= before {
		c.Errorf("%s is active in term %d after %s in term %d", now.name, term, old.name, before)
	}
	c.powerless(old, fresh[1])
	c.wait(8*time.Second - time.Since(began))
	c.powerless(old, fresh[1])
	meanwhile := w.String()
	if _, failed, _ := w.end(); failed > 0 {
		c.Errorf("%d operations on shards that have a place were not answered", failed)
	}
	c.must(old.heal())
	c.up()
	if _, late := c.active(); late < term {
		c.Errorf("after the cut the term is %d again, it was %d", late, term)
	}
	return fmt.Sprintf("a command for a new shard answered after %s s; %s in term %d after %s in term %d, which refused everything; %s",
		seconds(opened), now.name, term, old.name, before, meanwhile)
}

// powerless asks a coordinator that is not active any more for what only the
// active one may do.
func (c *cluster) powerless(old *node, list string) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), soon)
	defer cancel()
	if active, term, err := says(ctx, old); err != nil || active {
		c.Errorf("%s cannot reach anybody, and says that it is active: %v, in term %d, %v", old.name, active, term, err)
	}
	where, err := c.admin(c.but(old)...).Where(ctx, "List", list)
	c.must(err)
	shard := fmt.Sprintf(`{"cluster":%q,"shards":[{"type":"List","index":%d}]}`, clusterName, where.Shard.Index)
	if answer, err := twirp(ctx, old, "GetShardHomes", shard); err == nil && strings.Contains(string(answer), "rows") {
		c.Errorf("%s gave a shard away: %s", old.name, answer)
	}
	if _, err := c.admin(old).Drain(ctx, "region-3", false); err == nil {
		c.Errorf("%s took an order to drain a region", old.name)
	}
	where, err = c.admin(c.but(old)...).Where(ctx, "List", list)
	c.must(err)
	if where.Shard.Phase != "unallocated" {
		c.Errorf("a shard that only %s was asked for is %s at %s", old.name, where.Shard.Phase, where.Shard.Region)
	}
}

// restartAll kills all containers, those of the servers too, and starts the same
// ones again.
func restartAll(c *cluster, _ *backend) string {
	return c.again(func(*node) {})
}

// replaceAll is the same with new containers of the members, at addresses that
// nobody had before. What the servers list is wrong then, until they notice.
func replaceAll(c *cluster, _ *backend) string {
	return c.again(func(n *node) {
		if n.role != gateway {
			c.replace(n)
		}
	})
}

// again kills all containers at once and starts them in any order, after
// something was done to them. What was acknowledged must be there before the
// clients write anything new.
func (c *cluster) again(between func(*node)) string {
	c.Helper()
	seed := rand.Uint64()
	_, before := c.active()
	acked := c.acked()
	order := slices.Clone(c.servers)
	for _, n := range c.nodes {
		order = append(order, n.container)
	}
	c.must(each(order, (*container).kill))
	for _, n := range c.nodes {
		between(n)
	}
	order = slices.Clone(c.servers)
	for _, n := range c.nodes {
		order = append(order, n.container)
	}
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	began := time.Now()
	for i, one := range order {
		c.must(one.start())
		if c.zone != "" && slices.Contains(c.servers, one) || i == len(order)-1 {
			c.listLate()
		}
	}
	running := time.Since(began)
	c.firstAnswer()
	answered := time.Since(began)
	for _, s := range c.servers {
		c.serves(s)
	}
	c.up()
	whole := time.Since(began)
	if _, term := c.active(); term <= before {
		c.Errorf("term %d after %d", term, before)
	}
	ctx, cancel := context.WithTimeout(c.Context(), soon)
	defer cancel()
	count := 0
	for _, list := range slices.Sorted(maps.Keys(acked)) {
		final, err := c.load.Final(ctx, list)
		c.must(err)
		for _, v := range acked[list] {
			if count++; !slices.Contains(final, v) {
				c.Errorf("%d was acknowledged, and is not in %s", v, list)
			}
		}
	}
	return fmt.Sprintf("seed %d: first command answered after %s s, all are members of one cluster after %s s (%s s of that to start %d containers one by one); all %d acknowledged values are there",
		seed, seconds(answered), seconds(whole), seconds(running), len(order), count)
}

// acked are the values of all lists that were acknowledged so far.
func (c *cluster) acked() map[string][]int64 {
	all := map[string][]int64{}
	for _, o := range c.load.Ops() {
		if o.Kind == history.Add && o.Outcome == history.OK {
			all[o.List] = append(all[o.List], o.Value)
		}
	}
	return all
}

// listLate enters the coordinators into the zone, when its server takes it.
func (c *cluster) listLate() {
	c.Helper()
	for _, s := range c.servers {
		if c.zone != "" && strings.HasPrefix(s.name, "zone") {
			if st, err := s.state(); err == nil && st.Running {
				c.serves(s)
				c.list()
			}
		}
	}
}

// wait lets the clients go on for a while.
func (c *cluster) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.Context().Done():
	}
}

// insist sends a command until it is answered, as often as it can.
func (c *cluster) insist(url string) error {
	ctx, cancel := context.WithTimeout(c.Context(), soon)
	defer cancel()
	for {
		err := command.post(ctx, url)
		if err == nil || ctx.Err() != nil {
			return err
		}
		c.wait(5 * time.Millisecond)
	}
}

// poster sends commands over connections that it keeps.
type poster struct{ http.Client }

var command = poster{http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4, DisableKeepAlives: true}}}

func (p *poster) post(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := p.Do(req)
	if err != nil {
		return err
	}
	err = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		err = errors.Join(err, fmt.Errorf("%s: %s", url, res.Status))
	}
	return err
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()) }

// milliseconds lists some durations.
func milliseconds(all []time.Duration) string {
	var text []string
	for _, d := range all {
		text = append(text, fmt.Sprint(d.Milliseconds()))
	}
	return strings.Join(text, ", ")
}
