package cluster

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// playSends has entities send numbers to each other while regions are killed, stopped and
// drained. Every number takes effect once, and each pair's in their order.
func playSends(l *livingRun) {
	const peers, perTurn, workers = 24, 5, 8
	faults := 2
	if fullSet() {
		faults = 6
	}
	over := make(chan struct{})
	var senders sync.WaitGroup
	var turns atomic.Int64
	for w := range workers {
		senders.Go(func() {
			for turn := 0; ; turn++ {
				select {
				case <-over:
					return
				case <-time.After(20 * time.Millisecond):
				}
				from := w*peers/workers + turn%(peers/workers)
				to := (from + 1 + turn/(peers/workers)%3) % peers // never itself
				first := int64(turn*perTurn + 1)
				_, err := l.count(fmt.Sprintf("/v1/Peer/p%d/Emit", from), fmt.Sprintf("emit-%d-%d", from, turn),
					map[string]any{"to": fmt.Sprint("p", to), "first": first, "count": perTurn})
				if err != nil {
					l.Error(err)
					return
				}
				turns.Add(1)
			}
		})
	}
	for n := range faults {
		l.wait(time.Second)
		l.kill(fmt.Sprint("region-", 1+n%3))
		l.wait(2 * time.Second)
		l.up()
		drain(l.T, l.cluster, fmt.Sprint("region-", 1+(n+1)%3))
	}
	close(over)
	senders.Wait()
	began := time.Now()
	eventually(l.T, 2*waitLimit, func() error {
		if n := l.number("SELECT coalesce(sum(pending), 0) FROM send"); n > 0 {
			return fmt.Errorf("%d sends are pending", n)
		}
		return nil
	})
	l.figure("%d sends, %d kills and as many drains, %d repeats by clients, the last sends ended after %.1f s", turns.Load()*perTurn, faults, l.repeats.Load(), time.Since(began).Seconds())
	// What each has sent, and in which order, follows from the events of the sender.
	emitted, taken := map[string][]int64{}, map[string][]int64{}
	l.events("Peer", func(d done) {
		if to, ok := strings.CutPrefix(d.What, "emitted to "); ok {
			for n := d.N - perTurn + 1; n <= d.N; n++ {
				emitted[d.entity+">"+to] = append(emitted[d.entity+">"+to], n)
			}
			return
		}
		taken[d.What+">"+d.entity] = append(taken[d.What+">"+d.entity], d.N)
	})
	for pair, want := range emitted {
		if got := taken[pair]; fmt.Sprint(got) != fmt.Sprint(want) {
			l.Errorf("%s: %d numbers were sent and %d have taken effect, or in another order:\nsent  %v\ntaken %v", pair, len(want), len(got), want, got)
		}
		delete(taken, pair)
	}
	if len(taken) > 0 || len(emitted) != 3*peers {
		l.Errorf("%d pairs have sent, want %d; what was never sent: %v", len(emitted), 3*peers, taken)
	}
	if n := l.number("SELECT coalesce(sum(dead), 0) FROM send"); n > 0 {
		l.Errorf("%d dead letters", n)
	}
}
