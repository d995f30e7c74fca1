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
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// kills kills regions, one at a time, by SIGKILL.
func (f *faultRun) kills() error {
	return f.without("region killed", "kill -9", f.Sizes.Kills, report.Target{AtMost: 1000}, report.Target{AtMost: 2500}, report.Target{},
		func(region string) (time.Time, error) {
			began := time.Now()
			return began, f.cluster.Kill(region)
		}, func(string) error { return nil })
}

// pauses stops regions by SIGSTOP, one at a time, and does not resume them.
func (f *faultRun) pauses() error {
	return f.without("region paused", "SIGSTOP", f.Sizes.Times, report.Target{}, report.Target{}, report.Target{AtMost: 6000}, f.pause, f.cluster.Kill)
}

// without takes regions away, one at a time, and reports how long commands waited for
// other owners of their shards. after makes sure that the region has ended, so that it
// can be started again.
func (f *faultRun) without(section, how string, times int, half, worst, p99 report.Target,
	take func(region string) (began time.Time, err error), after func(region string) error) error {
	var halves, lasts, failed []float64
	var all []time.Duration
	for range times {
		if err := f.warm(); err != nil {
			return err
		}
		victim, owned, err := f.victim()
		if err != nil {
			return err
		}
		began, err := f.load(f.Sizes.FaultTime, func() (time.Time, error) { return take(victim) })
		if err != nil {
			return err
		}
		n := f.measureImpact(began, owned)
		halves, lasts, all = append(halves, quantileMS(n.waits, 0.5)), append(lasts, quantileMS(n.waits, 1)), append(all, n.waits...)
		failed = append(failed, n.failed)
		if err := after(victim); err != nil {
			return err
		}
		if err := f.restart(victim); err != nil {
			return err
		}
	}
	name := fmt.Sprintf("%s, %s: ", how, timesText(times))
	f.addMillis(section, name+"wait of the commands that waited: median of each run, and of these the median", measure.Median(halves), half)
	f.addMillis(section, name+"99th percentile, over all runs", quantileMS(all, 0.99), p99)
	f.addMillis(section, name+"last of them, worst run", maxOf(lasts), worst)
	f.addFailures(section, name+"failed commands, worst run", maxOf(failed))
	return nil
}

// pause stops a region by SIGSTOP at a moment at which it holds no lock on the journal's
// file. A process that is stopped while it holds one stops all others. That is safe and
// known, and would show nothing here.
func (f *faultRun) pause(region string) (began time.Time, err error) {
	var held []string
	for range 50 {
		began = time.Now()
		if err := f.cluster.Signal(region, syscall.SIGSTOP); err != nil {
			return began, err
		}
		time.Sleep(20 * time.Millisecond) // system calls in progress end
		if held, err = f.journalLocks(region); err != nil || len(held) == 0 {
			return began, err
		}
		if err := f.cluster.Signal(region, syscall.SIGCONT); err != nil {
			return began, err
		}
		time.Sleep(13 * time.Millisecond)
	}
	return began, fmt.Errorf("whenever %s is stopped, it holds a lock on the journal: %s", region, strings.Join(held, ", "))
}

// journalLocks returns the exclusive locks of a region on the journal.
func (f *faultRun) journalLocks(region string) ([]string, error) {
	for _, p := range f.cluster.Processes() {
		if p.Name == region {
			return locks(p.PID, f.journal, f.journal+"-shm", f.journal+"-turn", f.journal+"-write")
		}
	}
	return nil, fmt.Errorf("%s is not a process of this cluster", region)
}

// drains makes a region hand all its shards off.
func (f *faultRun) drains() error {
	if err := f.warm(); err != nil {
		return err
	}
	victim, owned, err := f.victim()
	if err != nil {
		return err
	}
	began, err := f.load(f.Sizes.FaultTime, func() (time.Time, error) {
		began := time.Now()
		_, err := f.admin.Drain(f.ctx, &adminv1.DrainRequest{Region: victim})
		return began, err
	})
	if err != nil {
		return err
	}
	n := f.measureImpact(began, owned)
	f.moved("region drained", fmt.Sprintf("%d shards", len(owned)), n.gaps, n.gapsBefore, n.failed)
	_, err = f.admin.Drain(f.ctx, &adminv1.DrainRequest{Region: victim, Resume: true})
	return err
}

// moved reports a graceful move.
func (f *faultRun) moved(section, what string, gaps, gapsBefore []time.Duration, failed float64) {
	row := report.Row{Section: section, Measure: what + ": longest wait per shard, 99th percentile", Unit: "ms", Value: quantileMS(gaps, 0.99), Target: report.Target{AtMost: 250}}
	row.Baseline = baselineBefore(row.Value, quantileMS(gapsBefore, 0.99))
	f.add(row)
	f.addFailures(section, what+": failed commands", failed)
}

// baselineBefore returns the baseline of a figure: the same figure before the fault.
func baselineBefore(value, before float64) *report.Baseline {
	if before == 0 {
		return nil
	}
	return &report.Baseline{Name: "before", Value: before, Ratio: value / before}
}

// scales adds a region and stops it again by SIGTERM.
func (f *faultRun) scales() error {
	var name string
	var shares, slowest, stops []float64
	var gaps, gapsBefore []time.Duration
	var failedUp, failedDown float64
	for range f.Sizes.Times {
		if err := f.warm(); err != nil {
			return err
		}
		began, err := f.load(f.Sizes.FaultTime, func() (began time.Time, err error) {
			began = time.Now()
			if name == "" {
				name, err = f.cluster.AddRegion(f.ctx)
			} else {
				err = f.cluster.Restart(f.ctx, name)
			}
			if err == nil {
				err = f.awaitFairShare(name)
			}
			shares = append(shares, ms(time.Since(began)))
			return began, err
		})
		if err != nil {
			return err
		}
		n := f.measureImpact(began, allShards())
		slowest, failedUp = append(slowest, ms(n.slowest)), failedUp+n.failed
		owned, err := f.owned(name)
		if err != nil {
			return err
		}
		if began, err = f.load(f.Sizes.FaultTime, func() (time.Time, error) {
			began := time.Now()
			err := f.cluster.Stop(f.ctx, name)
			stops = append(stops, ms(time.Since(began)))
			return began, err
		}); err != nil {
			return err
		}
		n = f.measureImpact(began, owned)
		gaps, gapsBefore, failedDown = append(gaps, n.gaps...), append(gapsBefore, n.gapsBefore...), failedDown+n.failed
	}
	section, what := "region added", fmt.Sprintf("fourth region, %s: ", timesText(f.Sizes.Times))
	f.addMillis(section, what+"from its start to a fair share of the shards, median", measure.Median(shares), report.Target{})
	f.addMillis(section, what+"the same, worst run", maxOf(shares), report.Target{AtMost: 3000})
	f.addMillis(section, what+"slowest command, worst run", maxOf(slowest), report.Target{AtMost: 500})
	f.addFailures(section, what+"failed commands, sum", failedUp)
	section, what = "region stopped", fmt.Sprintf("SIGTERM, %s", timesText(f.Sizes.Times))
	f.addMillis(section, what+": until it has ended, median", measure.Median(stops), report.Target{})
	f.moved(section, what, gaps, gapsBefore, failedDown)
	return nil
}

// awaitFairShare waits until a region has its share of the shards, to within a twentieth or
// one shard.
func (f *faultRun) awaitFairShare(region string) error {
	for began := time.Now(); ; {
		all, err := f.admin.Shards(f.ctx, entities.AccountType, "")
		if err != nil {
			return err
		}
		own, err := f.owned(region)
		if err != nil {
			return err
		}
		share := float64(len(all.Shards)) / float64(len(f.running(cluster.Region)))
		if math.Abs(float64(len(own))-share) <= max(share/20, 1) {
			return nil
		}
		if time.Since(began) > startTimeout {
			return fmt.Errorf("%s has %d shards of %d after %s", region, len(own), len(all.Shards), startTimeout)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// timesText returns "once" or "n times".
func timesText(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
