package cluster

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
)

const (
	// startedWithin is the bound for starting all remembered entities after a cold start.
	startedWithin = time.Minute
	// trafficRate is the number of commands of live traffic that start per second.
	trafficRate = 100
	// unnoticed is a 99th percentile of the latency that is fine even if it is many times the one on an idle machine: all
	// processes of this test share the processors with the starts.
	unnoticed = 20 * time.Millisecond
)

// playRemembered starts a cluster that remembers many entities, twice, and measures live
// traffic while they are being started and when all are.
func playRemembered(l *livingRun) {
	const entities, perBatch, rounds = 100_000, 250, 2
	began := time.Now()
	l.each(entities/perBatch, 8, func(i int) error {
		batch := make([]command, perBatch)
		for n := range batch {
			id := i*perBatch + n
			batch[n] = command{"Poller", fmt.Sprint("p", id), "Touch", fmt.Sprint("touch-", id), struct{}{}}
		}
		return l.batch(batch)
	})
	wrote := time.Since(began)
	if n := l.number("SELECT count(*) FROM wake WHERE type = 'Poller' AND kind = 2"); n != entities {
		l.Fatalf("%d entities are remembered, want %d", n, entities)
	}
	var starting, quiet []time.Duration
	var took []string
	failed := 0
	for round := range rounds {
		l.down()
		l.others.Store(0)
		l.up()
		began := time.Now()
		stop := make(chan struct{})
		measured := make(chan struct{})
		go func() {
			defer close(measured)
			some, wrong := l.traffic(fmt.Sprint("starting-", round, "-"), stop)
			starting, failed = append(starting, some...), failed+wrong
		}()
		eventually(l.T, 4*waitLimit, func() error {
			if n := l.pollersActive(); n < entities {
				return fmt.Errorf("%.0f of %d remembered entities are active", n, entities)
			}
			return nil
		})
		all := time.Since(began)
		took = append(took, fmt.Sprintf("%.1f s", all.Seconds()))
		close(stop)
		<-measured
		if all > startedWithin {
			l.Errorf("%d remembered entities were active %s after the processes were ready", entities, all)
		}
		// The same traffic for as long, when nothing is started.
		stop = make(chan struct{})
		end := time.AfterFunc(all, func() { close(stop) })
		some, wrong := l.traffic(fmt.Sprint("quiet-", round, "-"), stop)
		quiet, failed = append(quiet, some...), failed+wrong
		end.Stop()
	}
	slices.Sort(starting)
	slices.Sort(quiet)
	with, without := starting[len(starting)*99/100], quiet[len(quiet)*99/100]
	l.figure("%d entities stored in %.0f s, all active after %s; p99 of %d commands meanwhile %d ms, of %d when all were active %d ms; %d commands failed",
		entities, wrote.Seconds(), strings.Join(took, " and "), len(starting), with.Milliseconds(), len(quiet), without.Milliseconds(), failed)
	if with > max(2*without, unnoticed) {
		l.Errorf("live traffic has a 99th percentile of %s while entities are started, and of %s otherwise", with, without)
	}
	if failed > 0 {
		l.Errorf("%d commands of the live traffic have failed", failed)
	}
}

// pollersActive returns the number of living remembered entities in all regions, as these export it.
func (l *livingRun) pollersActive() (sum float64) {
	for _, p := range l.cluster.Processes() {
		if p.Role != launcher.Region {
			continue
		}
		if n, err := scrape(p, "roost_entity_active"); err == nil {
			sum += n
		}
	}
	// The entities of the live traffic are of another type, and are counted too.
	return sum - float64(l.others.Load())
}

// traffic sends commands at a fixed rate, each to an entity of its own, until stop is closed. It
// returns how long they took from the time at which they were due, and how many have failed.
func (l *livingRun) traffic(prefix string, stop <-chan struct{}) (took []time.Duration, failed int) {
	var calls sync.WaitGroup
	var mu sync.Mutex
	began := time.Now()
	for n := 0; ; n++ {
		due := began.Add(time.Duration(n) * time.Second / trafficRate)
		select {
		case <-stop:
			calls.Wait()
			return took, failed
		case <-time.After(time.Until(due)):
		}
		calls.Go(func() {
			l.others.Add(1)
			_, refused, err := l.post(l.Context(), fmt.Sprintf("/v1/Peer/%s%d/Take", prefix, n), fmt.Sprint(prefix, n), map[string]any{"from": "traffic", "n": n}, 20*time.Second)
			mu.Lock()
			defer mu.Unlock()
			if refused != nil || err != nil {
				failed++
			}
			took = append(took, time.Since(due))
		})
	}
}
