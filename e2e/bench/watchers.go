package bench

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/bench/entities"
	"github.com/roost-cluster/roost/e2e/bench/measure"
	"github.com/roost-cluster/roost/e2e/bench/report"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/routetable"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
)

const (
	// changePause is the time between two changes, long enough for all watchers to see the
	// first.
	changePause = 50 * time.Millisecond
	// homeAgain is the time after which a gateway asks again for the home of a shard.
	homeAgain = 200 * time.Millisecond
)

// watcher polls the route table as a gateway does.
type watcher struct {
	core *routetable.Watcher
	http *http.Client // its own, because each gateway is a process
	api  *rpc.Client
	seen map[sharding.ShardID]time.Time // when a shard was first in a table
	news chan sharding.ShardID          // if set, receives them
}

// watchers measures how long many watchers take to see that a shard is placed.
func (f *faultRun) watchers() error {
	ids, err := f.unplacedIDs(f.Sizes.Changes)
	if err != nil {
		return err
	}
	name, _, err := f.cluster.Active(f.ctx)
	if err != nil {
		return err
	}
	var coordinators []string
	var active string
	for _, p := range f.running(cluster.Coordinator) {
		coordinators = append(coordinators, p.Service)
		if p.Name == name {
			active = p.Service
		}
	}
	shards := make([]sharding.ShardID, len(ids))
	for i, id := range ids {
		shards[i] = sharding.ShardID{Type: entities.EchoType, Index: shardingtest.ShardOf(sharding.EntityID(id), entities.Shards)}
	}

	ctx, cancel := context.WithTimeout(f.ctx, startTimeout+time.Duration(len(ids))*changePause)
	defer cancel()
	var up, done sync.WaitGroup
	all := make([]*watcher, f.Sizes.Watchers)
	news := make(chan sharding.ShardID, len(shards))
	for i := range all {
		w := &watcher{core: routetable.NewWatcher(routetable.DefaultWatchConfig()), http: newHTTPClient(), seen: map[sharding.ShardID]time.Time{}}
		w.api = controlClient(w.http, routetable.DefaultWatchConfig().Timeout)
		defer w.http.CloseIdleConnections()
		w.core.SetCandidates(coordinators, nil) // none of them fails
		all[i] = w
		if i == 0 {
			w.news = news
		}
		up.Add(1)
		done.Go(func() { w.run(ctx, sync.OnceFunc(up.Done), shards) })
	}
	up.Wait()
	began, err := f.change(ctx, active, shards, news)
	if err != nil {
		cancel()
		done.Wait()
		return err
	}
	done.Wait()

	var took measure.Histogram
	var last []time.Duration
	for i, shard := range shards {
		var latest time.Duration
		for _, w := range all {
			at, ok := w.seen[shard]
			if !ok {
				return fmt.Errorf("a watcher has not seen shard %v within %s", shard, startTimeout)
			}
			took.Add(at.Sub(began[i]))
			latest = max(latest, at.Sub(began[i]))
		}
		last = append(last, latest)
	}
	section, what := "table changed", fmt.Sprintf("%d changes, %d watchers: ", len(ids), len(all))
	row := report.Row{Section: section, Measure: what + "from the request for a shard's home until a watcher knows it", Unit: "ms",
		Value: ms(took.Quantile(0.99)), P50: took.Quantile(0.5), P99: took.Quantile(0.99), Target: report.Target{AtMost: 100}}
	f.add(row)
	f.addMillis(section, what+"until the last one knows, median", quantileMS(last, 0.5), report.Target{})
	return nil
}

// change asks for the home of one shard after the other, until each is in the table. It
// returns when it first asked for each.
func (f *faultRun) change(ctx context.Context, coordinator string, shards []sharding.ShardID, news <-chan sharding.ShardID) (began []time.Time, err error) {
	http := newHTTPClient()
	defer http.CloseIdleConnections()
	api := controlClient(http, 5*time.Second)
	for _, shard := range shards {
		time.Sleep(changePause)
		began = append(began, time.Now())
		for known := false; !known; {
			if err := api.Send(ctx, sharding.NodeID{Addr: coordinator}, []control.Message{control.GetShardHome{Shard: shard}}); err != nil {
				return nil, err
			}
			select {
			case <-news:
				known = true
			case <-time.After(homeAgain):
			}
		}
	}
	return began, nil
}

// run polls until all shards have been seen. It calls up when there is a table.
func (w *watcher) run(ctx context.Context, up func(), shards []sharding.ShardID) {
	defer up()
	wanted := map[sharding.ShardID]bool{}
	for _, s := range shards {
		wanted[s] = true
	}
	for len(w.seen) < len(wanted) && ctx.Err() == nil {
		to, since, ask := w.core.Poll(time.Now())
		if !ask {
			time.Sleep(time.Millisecond)
			continue
		}
		delta, ok := w.poll(ctx, to, since)
		if !ok {
			continue
		}
		up()
		now := time.Now()
		for _, row := range delta.Rows {
			if _, known := w.seen[row.Shard]; wanted[row.Shard] && !known {
				w.seen[row.Shard] = now
				if w.news != nil {
					w.news <- row.Shard
				}
			}
		}
	}
}

// poll asks once, and reports whether the answer changes the table.
func (w *watcher) poll(ctx context.Context, to string, since sharding.Version) (delta sharding.TableDelta, ok bool) {
	answer, err := w.api.Call(ctx, to, control.WatchTable{Version: since})
	if err != nil {
		w.core.Failed(time.Now(), to)
		return delta, false
	}
	if standby, ok := answer.(control.NotActive); ok {
		w.core.NotActive(time.Now(), to, standby.Active, standby.Term)
		return delta, false
	}
	table, _ := answer.(control.TableChanged)
	return table.Delta, w.core.Changed(time.Now(), to, table.Delta)
}
