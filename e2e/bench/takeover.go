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

// newcomerPause is the time between commands to shards that have no region yet.
const newcomerPause = 50 * time.Millisecond

// takeovers kills the active coordinator by SIGKILL. Commands to shards that have
// a region go on, and others begin to need one.
func (h *hurt) takeovers() error {
	var known, calm, born []time.Duration
	var failed, unborn float64
	for range h.Sizes.Times {
		if err := h.warm(); err != nil {
			return err
		}
		ids, err := h.fresh(h.Sizes.Newcomers)
		if err != nil {
			return err
		}
		victim, _, err := h.cluster.Active(h.ctx)
		if err != nil {
			return err
		}
		began, err := h.load(h.Sizes.FaultTime, func() (time.Time, error) {
			began := time.Now()
			if err := h.cluster.Kill(victim); err != nil {
				return began, err
			}
			took, lost := h.first(ids)
			born, unborn = append(born, took...), unborn+lost
			return began, nil
		})
		if err != nil {
			return err
		}
		n := h.notice(began, every())
		known, calm, failed = append(known, n.gaps...), append(calm, n.calm...), failed+n.failed
		if err := h.restart(victim); err != nil {
			return err
		}
	}
	section, what := "coordinator killed", fmt.Sprintf("kill -9 of the active one, %s, ", often(h.Sizes.Times))
	for _, q := range []struct {
		name   string
		of     float64
		target report.Target
	}{{"99th percentile", 0.99, report.Target{AtMost: 250}}, {"worst", 1, report.Target{}}} { // no gap: no longer than a planned move
		row := report.Row{Section: section, Measure: what + "known shards: longest wait per shard, " + q.name, Unit: "ms", Value: millis(known, q.of), Target: q.target}
		row.Baseline = before(row.Value, millis(calm, q.of))
		h.add(row)
	}
	h.lost(section, what+"known shards: failed commands, sum", failed)
	h.told(section, what+fmt.Sprintf("%d new shards: from the first command to its answer, median", len(born)), millis(born, 0.5), report.Target{})
	h.told(section, what+"the same, worst shard", millis(born, 1), report.Target{AtMost: 3000})
	h.lost(section, what+"new shards: failed commands, sum", unborn)
	return nil
}

// first sends each of some entities its first command, one after the other, and
// tells how long the answers took and how many there were none.
func (h *hurt) first(ids []string) (took []time.Duration, lost float64) {
	ask := entity.Command[entities.Question, entities.Answer](entities.EchoType, entities.AskJSON)
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, id := range ids {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(h.ctx, deadline)
			defer cancel()
			began := time.Now()
			_, err := ask.Ask(ctx, h.client, id, entities.Question{Data: "a"})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				lost++
				return
			}
			took = append(took, time.Since(began))
		})
		time.Sleep(newcomerPause)
	}
	group.Wait()
	return took, lost
}
