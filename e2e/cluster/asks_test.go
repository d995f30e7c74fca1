package cluster

import (
	"fmt"
	"strings"
	"sync"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
)

// peerShards is the number of shards of the type Peer.
const peerShards = 64

// visit is the input of Visit and of Look.
func visitOf(n int64, before time.Duration, path ...string) map[string]any {
	return map[string]any{"path": path, "before": before.Milliseconds(), "n": n}
}

// playAsks has entities ask each other, and ends each ask in another way.
func playAsks(l *livingRun) {
	l.killAsked()
	for i := range 5 {
		l.deadlock(fmt.Sprint("pair-", i, "-"), 2)
		l.deadlock(fmt.Sprint("ring-", i, "-"), 5)
	}
	l.cycle()
	l.askWhileDrained()
	l.crowdOfAsks()
}

// killAsked kills regions while their entities ask or answer. The callers repeat, and
// each of the two entities changes once for each command.
func (l *livingRun) killAsked() {
	const visits = 40
	var calls sync.WaitGroup
	for i := range visits {
		calls.Go(func() {
			path := fmt.Sprintf("/v1/Peer/from-%d/Visit", i)
			if _, err := l.count(path, fmt.Sprint("visit-", i), visitOf(int64(i), 1500*time.Millisecond, fmt.Sprint("to-", i))); err != nil {
				l.Error(err)
			}
		})
	}
	l.wait(700 * time.Millisecond)
	l.kill("region-1") // some ask
	l.wait(1500 * time.Millisecond)
	l.kill("region-2") // some receive asks
	l.wait(2 * time.Second)
	l.up()
	calls.Wait()
	got := map[string]int{}
	l.events("Peer", func(d done) { got[fmt.Sprint(d.entity, " ", d.N)]++ })
	for i := range visits {
		for _, end := range []string{"from", "to"} {
			if n := got[fmt.Sprintf("%s-%d %d", end, i, i)]; n != 1 {
				l.Errorf("%s-%d was changed %d times by one command", end, i, n)
			}
		}
	}
	l.figure("%d commands asked while 2 regions were killed, %d repeats", visits, l.repeats.Load())
}

// deadlock lets n entities ask each other in a ring, on behalf of different commands. One of
// them gives up; the others go on.
func (l *livingRun) deadlock(prefix string, n int) {
	type result struct {
		refused *refusal
		err     error
	}
	results := make(chan result)
	for i := range n { // a shard that starts only now would keep its command waiting, and the ring open
		if _, err := l.count(fmt.Sprintf("/v1/Peer/%s%d/Visit", prefix, i), fmt.Sprint("first-", prefix, i), visitOf(-1, 0)); err != nil {
			l.Error(err)
			return
		}
	}
	began := time.Now()
	for i := range n {
		go func() {
			next := fmt.Sprint(prefix, (i+1)%n)
			_, refused, err := l.post(l.Context(), fmt.Sprintf("/v1/Peer/%s%d/Visit", prefix, i), fmt.Sprint("key-", prefix, i),
				visitOf(int64(i), time.Second, next), 30*time.Second)
			results <- result{refused, err}
		}()
	}
	ok, deadlocks := 0, 0
	for range n {
		switch r := <-results; {
		case r.err == nil && r.refused == nil:
			ok++
		case r.err == nil && r.refused.Code == "aborted" && strings.Contains(r.refused.Msg, "deadlock"):
			deadlocks++
		default:
			l.Errorf("%s: %+v, %v", prefix, r.refused, r.err)
		}
	}
	took := time.Since(began)
	if deadlocks == 0 || ok == 0 {
		l.Errorf("%s: %d commands have succeeded and %d ended as deadlocks", prefix, ok, deadlocks)
	}
	if strings.HasSuffix(prefix, "-0-") {
		l.figure("a circle of %d: %d gave up, %d went on, %.1f s", n, deadlocks, ok, took.Seconds())
	}
}

// cycle lets a command come back to the entity that waits for it.
func (l *livingRun) cycle() {
	began := time.Now()
	_, refused, err := l.post(l.Context(), "/v1/Peer/saw/Visit", "cycle", visitOf(1, 0, "seen", "saw"), 30*time.Second)
	if err != nil || refused == nil || refused.Code != "failed_precondition" || !strings.Contains(refused.Msg, "call cycle") {
		l.Errorf("a cycle: %+v, %v", refused, err)
	}
	if took := time.Since(began); took > 10*time.Second {
		l.Errorf("a cycle was found after %s", took)
	}
}

// askWhileDrained lets entities ask entities of their own shard, which is handed off meanwhile.
func (l *livingRun) askWhileDrained() {
	const pairs = 48
	byShard := map[uint32][]string{}
	for i := range 2000 {
		id := fmt.Sprint("near-", i)
		shard := shardingtest.ShardOf(sharding.EntityID(id), peerShards)
		byShard[shard] = append(byShard[shard], id)
	}
	repeats := l.repeats.Load()
	var calls sync.WaitGroup
	for i := range pairs {
		ids := byShard[uint32(i%peerShards)]
		calls.Go(func() {
			_, err := l.count("/v1/Peer/"+ids[0]+"/Visit", fmt.Sprint("near-", i), visitOf(int64(i), 2*time.Second, ids[1]))
			if err != nil {
				l.Error(err)
			}
		})
	}
	l.wait(500 * time.Millisecond)
	began := time.Now()
	drain(l.T, l.cluster, "region-3")
	took := time.Since(began)
	calls.Wait()
	if took > 10*time.Second { // region.drain_timeout: turns that would wait for each other until then are cancelled
		l.Errorf("the drain took %s: asks into a draining shard have waited for it", took)
	}
	l.figure("%d asks within shards while one region was drained in %.1f s, %d repeats", pairs, took.Seconds(), l.repeats.Load()-repeats)
}

// crowdOfAsks lets more commands wait for answers than there may be. Each ends, and asks that
// find no room are refused.
func (l *livingRun) crowdOfAsks() {
	const commands, perBatch = 100_000, 500
	var mu sync.Mutex
	ends := map[string]int{}
	var most float64
	over, sampled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sampled)
		for {
			sum := 0.0
			for _, p := range l.cluster.Processes() {
				if n, err := scrape(p, "roost_region_asks_waiting"); p.Role == launcher.Region && err == nil {
					sum += n
				}
			}
			most = max(most, sum)
			select {
			case <-over:
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	began := time.Now()
	l.each(commands/perBatch, commands/perBatch, func(i int) error {
		results, err := l.askMany("Look", perBatch, func(n int) (string, any) {
			at := i*perBatch + n
			in := visitOf(int64(at), 2*time.Second, fmt.Sprint("asked-", at))
			in["read"] = true
			return fmt.Sprint("asks-", at), in
		})
		mu.Lock()
		defer mu.Unlock()
		for _, r := range results {
			ends[r]++
		}
		return err
	})
	took := time.Since(began)
	close(over)
	<-sampled
	total := 0
	for end, n := range ends {
		if total += n; end != "ok" && end != "resource_exhausted" && end != "deadline_exceeded" {
			l.Errorf("%d of %d waiting commands have ended as %s", n, commands, end)
		}
	}
	if total != commands || ends["ok"] == 0 || most == 0 || ends["resource_exhausted"] == 0 {
		l.Errorf("%d of %d waiting commands have ended, as %v; at most %.0f waited", total, commands, ends, most)
	}
	regions := 0
	for _, p := range l.cluster.Processes() {
		if p.Role == launcher.Region {
			regions++
		}
	}
	if most > float64(10_000*regions) { // region.waiting_turns
		l.Errorf("%.0f turns waited at a time in %d regions", most, regions)
	}
	l.figure("%d commands at once that ask: ended after %.0f s as %v, at most %.0f waited at a time", commands, took.Seconds(), ends, most)
	if _, err := l.count("/v1/Peer/afterwards/Visit", "afterwards", visitOf(1, 0, "afterwards-too")); err != nil {
		l.Error(err)
	}
}
