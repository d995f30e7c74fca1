package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/roost-cluster/roost/e2e/bench/entities"
	"github.com/roost-cluster/roost/e2e/bench/report"
	"github.com/roost-cluster/roost/sdk/entity"
)

const (
	// newShardPause is the time between commands to shards that have no region yet.
	newShardPause = 50 * time.Millisecond
	// newShardLimit bounds the wait of such a command, in ms: the rest of the lease, which is at most 2 s, a
	// read of the lease, the take-over, and the messages between coordinator, gateway and region.
	newShardLimit = 2400
)

// takeovers kills the active coordinator by SIGKILL, while commands go to shards that have
// a region and to new ones.
func (f *faultRun) takeovers() error {
	var known, knownBefore, placed []time.Duration
	var failed, failedNew float64
	for range f.Sizes.Times {
		if err := f.warm(); err != nil {
			return err
		}
		ids, err := f.unplacedIDs(f.Sizes.NewShards)
		if err != nil {
			return err
		}
		victim, _, err := f.cluster.Active(f.ctx)
		if err != nil {
			return err
		}
		began, err := f.load(f.Sizes.FaultTime, func() (time.Time, error) {
			began := time.Now()
			if err := f.cluster.Kill(victim); err != nil {
				return began, err
			}
			took, lost := f.firstCommands(ids)
			placed, failedNew = append(placed, took...), failedNew+lost
			return began, nil
		})
		if err != nil {
			return err
		}
		n := f.measureImpact(began, allShards())
		known, knownBefore, failed = append(known, n.gaps...), append(knownBefore, n.gapsBefore...), failed+n.failed
		if err := f.restart(victim); err != nil {
			return err
		}
	}
	section, what := "coordinator killed", fmt.Sprintf("kill -9 of the active one, %s, ", timesText(f.Sizes.Times))
	for _, q := range []struct {
		name   string
		of     float64
		target report.Target
	}{{"99th percentile", 0.99, report.Target{AtMost: 250}}, {"worst", 1, report.Target{}}} { // no longer than a graceful move
		row := report.Row{Section: section, Measure: what + "known shards: longest wait per shard, " + q.name, Unit: "ms", Value: quantileMS(known, q.of), Target: q.target}
		row.Baseline = baselineBefore(row.Value, quantileMS(knownBefore, q.of))
		f.add(row)
	}
	f.addFailures(section, what+"known shards: failed commands, sum", failed)
	f.addMillis(section, what+fmt.Sprintf("%d new shards: from the first command to its answer, median", len(placed)), quantileMS(placed, 0.5), report.Target{})
	f.addMillis(section, what+"the same, worst shard", quantileMS(placed, 1), report.Target{AtMost: newShardLimit})
	f.addFailures(section, what+"new shards: failed commands, sum", failedNew)
	return nil
}

// firstCommands sends each of some entities its first command, one after the other. It
// returns how long the answers took, and how many commands had none.
func (f *faultRun) firstCommands(ids []string) (took []time.Duration, lost float64) {
	ask := entity.Command[entities.Question, entities.Answer](entities.EchoType, entities.AskJSON)
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, id := range ids {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(f.ctx, deadline)
			defer cancel()
			began := time.Now()
			_, err := ask.Call(ctx, f.client, id, entities.Question{Data: "a"})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				lost++
				return
			}
			took = append(took, time.Since(began))
		})
		time.Sleep(newShardPause)
	}
	group.Wait()
	return took, lost
}
