package bench

import (
	"fmt"
	"math"
	"strings"
	"syscall"
	"time"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/bench/entities"
	"github.com/roost-cluster/roost/e2e/bench/measure"
	"github.com/roost-cluster/roost/e2e/bench/report"
)

// kills kills regions, one at a time, by SIGKILL.
func (h *hurt) kills() error {
	return h.without("region killed", "kill -9", h.Sizes.Kills, report.Target{AtMost: 1000}, report.Target{AtMost: 2500}, report.Target{},
		func(region string) (time.Time, error) {
			began := time.Now()
			return began, h.cluster.Kill(region)
		}, func(string) error { return nil })
}

// pauses stops regions by SIGSTOP, one at a time, for good.
func (h *hurt) pauses() error {
	return h.without("region paused", "SIGSTOP", h.Sizes.Times, report.Target{}, report.Target{}, report.Target{AtMost: 6000}, h.pause, h.cluster.Kill)
}

// without takes regions away, one at a time, and reports how long commands
// waited for other owners of their shards. after makes sure that the region has
// ended, so that it can be started again.
func (h *hurt) without(section, how string, times int, half, worst, p99 report.Target,
	take func(region string) (began time.Time, err error), after func(region string) error) error {
	var halves, lasts, failed []float64
	var all []time.Duration
	for range times {
		if err := h.warm(); err != nil {
			return err
		}
		victim, owned, err := h.victim()
		if err != nil {
			return err
		}
		began, err := h.load(h.Sizes.FaultTime, func() (time.Time, error) { return take(victim) })
		if err != nil {
			return err
		}
		n := h.notice(began, owned)
		halves, lasts, all = append(halves, millis(n.back, 0.5)), append(lasts, millis(n.back, 1)), append(all, n.back...)
		failed = append(failed, n.failed)
		if err := after(victim); err != nil {
			return err
		}
		if err := h.restart(victim); err != nil {
			return err
		}
	}
	name := fmt.Sprintf("%s, %s: ", how, often(times))
	h.told(section, name+"commands that waited, median until answered, median of all times", measure.Median(halves), half)
	h.told(section, name+"99th percentile, over all times", millis(all, 0.99), p99)
	h.told(section, name+"last of them, worst time", most(lasts), worst)
	h.lost(section, name+"failed commands, worst time", most(failed))
	return nil
}

// pause stops a region by SIGSTOP at a moment at which it does not hold a lock
// on the journal's file: a process that is stopped while it has the lock stops all others, which
// is safe and known, and would show nothing here.
func (h *hurt) pause(region string) (began time.Time, err error) {
	var held []string
	for range 50 {
		began = time.Now()
		if err := h.cluster.Signal(region, syscall.SIGSTOP); err != nil {
			return began, err
		}
		time.Sleep(20 * time.Millisecond) // what has been begun in the kernel ends
		if held, err = h.locked(region); err != nil || len(held) == 0 {
			return began, err
		}
		if err := h.cluster.Signal(region, syscall.SIGCONT); err != nil {
			return began, err
		}
		time.Sleep(13 * time.Millisecond)
	}
	return began, fmt.Errorf("whenever %s is stopped, it holds a lock on the journal: %s", region, strings.Join(held, ", "))
}

// locked are the exclusive locks of a region on the journal.
func (h *hurt) locked(region string) ([]string, error) {
	for _, p := range h.cluster.Processes() {
		if p.Name == region {
			return locks(p.PID, h.journal, h.journal+"-shm", h.journal+"-turn")
		}
	}
	return nil, fmt.Errorf("%s is no process of this cluster", region)
}

// drains lets a region hand all its shards off.
func (h *hurt) drains() error {
	if err := h.warm(); err != nil {
		return err
	}
	victim, owned, err := h.victim()
	if err != nil {
		return err
	}
	began, err := h.load(h.Sizes.FaultTime, func() (time.Time, error) {
		began := time.Now()
		_, err := h.admin.Drain(h.ctx, victim, false)
		return began, err
	})
	if err != nil {
		return err
	}
	n := h.notice(began, owned)
	h.moved("region drained", fmt.Sprintf("%d shards", len(owned)), n.gaps, n.calm, n.failed)
	_, err = h.admin.Drain(h.ctx, victim, true)
	return err
}

// moved reports a planned move.
func (h *hurt) moved(section, what string, gaps, calm []time.Duration, failed float64) {
	row := report.Row{Section: section, Measure: what + ": longest wait per shard, 99th percentile", Unit: "ms", Value: millis(gaps, 0.99), Target: report.Target{AtMost: 250}}
	row.Baseline = before(row.Value, millis(calm, 0.99))
	h.add(row)
	h.lost(section, what+": failed commands", failed)
}

// before is what a figure is compared with: the same before the fault.
func before(value, calm float64) *report.Baseline {
	if calm == 0 {
		return nil
	}
	return &report.Baseline{Name: "before", Value: calm, Ratio: value / calm}
}

// scales adds a region and stops it again by SIGTERM.
func (h *hurt) scales() error {
	var name string
	var shares, slowest, stops []float64
	var gaps, calm []time.Duration
	var failedUp, failedDown float64
	for range h.Sizes.Times {
		if err := h.warm(); err != nil {
			return err
		}
		began, err := h.load(h.Sizes.FaultTime, func() (began time.Time, err error) {
			began = time.Now()
			if name == "" {
				name, err = h.cluster.AddRegion(h.ctx)
			} else {
				err = h.cluster.Restart(h.ctx, name)
			}
			if err == nil {
				err = h.fair(name)
			}
			shares = append(shares, ms(time.Since(began)))
			return began, err
		})
		if err != nil {
			return err
		}
		n := h.notice(began, every())
		slowest, failedUp = append(slowest, ms(n.slowest)), failedUp+n.failed
		owned, err := h.owned(name)
		if err != nil {
			return err
		}
		if began, err = h.load(h.Sizes.FaultTime, func() (time.Time, error) {
			began := time.Now()
			err := h.cluster.Stop(h.ctx, name)
			stops = append(stops, ms(time.Since(began)))
			return began, err
		}); err != nil {
			return err
		}
		n = h.notice(began, owned)
		gaps, calm, failedDown = append(gaps, n.gaps...), append(calm, n.calm...), failedDown+n.failed
	}
	section, what := "region added", fmt.Sprintf("fourth region, %s: ", often(h.Sizes.Times))
	h.told(section, what+"from its start to a fair share of the shards, median", measure.Median(shares), report.Target{})
	h.told(section, what+"the same, worst time", most(shares), report.Target{AtMost: 3000})
	h.told(section, what+"slowest command, worst time", most(slowest), report.Target{AtMost: 500})
	h.lost(section, what+"failed commands, sum", failedUp)
	section, what = "region stopped", fmt.Sprintf("SIGTERM, %s", often(h.Sizes.Times))
	h.told(section, what+": until it has ended, median", measure.Median(stops), report.Target{})
	h.moved(section, what, gaps, calm, failedDown)
	return nil
}

// fair waits until a region has its share of the shards, give or take a
// twentieth or, of few, one.
func (h *hurt) fair(region string) error {
	for began := time.Now(); ; {
		all, err := h.admin.Shards(h.ctx, entities.AccountType, "")
		if err != nil {
			return err
		}
		own, err := h.owned(region)
		if err != nil {
			return err
		}
		share := float64(len(all.Shards)) / float64(len(h.living(cluster.Region)))
		if math.Abs(float64(len(own))-share) <= max(share/20, 1) {
			return nil
		}
		if time.Since(began) > startTimeout {
			return fmt.Errorf("%s has %d shards of %d after %s", region, len(own), len(all.Shards), startTimeout)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// often is a number of times in words.
func often(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
