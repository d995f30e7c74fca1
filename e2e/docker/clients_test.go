//go:build linux

package docker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/roost-cluster/roost/e2e/cluster/history"
	"github.com/roost-cluster/roost/e2e/cluster/load"
)

// firstAnswer repeats a command, through each gateway in turn, until it is answered.
func (c *cluster) firstAnswer() {
	c.Helper()
	gateways := c.all(gateway)
	turn := 0
	eventually(c.T, func(ctx context.Context) error {
		turn++
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return get(ctx, gateways[turn%len(gateways)], "first")
	})
}

// underLoad calls do while clients write and read, and then checks their histories.
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
	c.placeLists()
	do()
	close(over)
	<-ended
	if !c.Failed() {
		c.judge()
	}
}

// placeLists waits until every list of the load answers, so that all their shards are
// placed.
func (c *cluster) placeLists() {
	c.Helper()
	for i := range load.Lists {
		c.awaitAnswer(c.all(gateway)[0], load.ListName(i))
	}
}

// judge checks the history against the lists as they are now and against the
// journal.
func (c *cluster) judge() {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), waitLimit)
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
	if err := history.Check(ops, final, waitLimit); err != nil {
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
		c.Errorf("an answer that no fault explains: %s", p)
	}
	if c.load.Turned > 0 {
		c.Errorf("void: %d calls did not start, because %d were in progress", c.load.Turned, load.Crowd)
	}
	c.Logf("%-9s %-38s %d operations in %.0f s: %d executed, %d not applied, %d unknown; all of %d values are in the journal, in an order that explains every answer",
		"", "the history:", len(ops), c.load.End.Seconds(), outcomes[history.Executed], outcomes[history.NotApplied], outcomes[history.Unknown], values)
}

// window is a part of the history.
type window struct {
	c     *cluster
	begin time.Duration
}

func (c *cluster) window() window { return window{c, c.load.Now()} }

// end sums up the operations that ended since the window began.
func (w window) end() (answered, failed int, slowest time.Duration) {
	ops := w.c.load.Ops()
	for i := range ops {
		switch o := &ops[i]; {
		case o.Return < w.begin:
		case o.Outcome == history.Executed:
			answered++
			slowest = max(slowest, o.Return-max(o.Call, w.begin))
		default:
			failed++
		}
	}
	return answered, failed, slowest
}

// String returns figures of a scenario.
func (w window) String() string {
	answered, failed, slowest := w.end()
	return fmt.Sprintf("%d operations answered meanwhile, %d not, the slowest took %s s", answered, failed, seconds(slowest))
}

// unplacedLists returns names of lists in different shards that are not placed yet.
func (c *cluster) unplacedLists(n int) (names []string) {
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
			c.Fatal("too few shards are left that are not placed")
		}
	}
	return names
}

// awaitAnswer asks a gateway for a list until it is answered.
func (c *cluster) awaitAnswer(gateway *node, list string) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), waitLimit)
	defer cancel()
	for {
		err := get(ctx, gateway, list)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			c.Fatal(err)
		}
		c.wait(5 * time.Millisecond)
	}
}

// acked returns the acknowledged values of all lists.
func (c *cluster) acked() map[string][]int64 {
	all := map[string][]int64{}
	for _, o := range c.load.Ops() {
		if o.Kind == history.Add && o.Outcome == history.Executed {
			all[o.List] = append(all[o.List], o.Value)
		}
	}
	return all
}

// get asks a list once, through a gateway.
func get(ctx context.Context, gateway *node, list string) error {
	url := gateway.url() + "/v1/List/" + list + "/Get"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := noKeepAlive.Do(req)
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

// milliseconds returns durations as a list.
func milliseconds(all []time.Duration) string {
	var text []string
	for _, d := range all {
		text = append(text, fmt.Sprint(d.Milliseconds()))
	}
	return strings.Join(text, ", ")
}
