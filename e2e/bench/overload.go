package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/bench/measure"
	"github.com/roost-cluster/roost/e2e/bench/report"
)

const (
	// overloadFactor is the offered load as a multiple of the capacity.
	overloadFactor = 5
	// recoveryShare of the capacity is offered after the overload, for recoveryTime. The
	// cluster has recovered when these requests are not answered late.
	recoveryShare = 0.25
	recoveryTime  = 12 * time.Second
	// minPause is the least pause between requests.
	minPause = time.Millisecond
	// late is the latency above which an answer is late.
	late = 250 * time.Millisecond
	// memoryInterval is the time between two samples of the memory of processes.
	memoryInterval = 250 * time.Millisecond
)

// attempt is one request and its outcome. It is not repeated.
type attempt struct {
	due, end time.Time
	outcome  outcome
	// took is the time at the gateway, as the gateway reports it.
	took time.Duration
}

// outcome is the result of a request.
type outcome uint8

const (
	unknown  outcome = iota // no answer, or one that does not say what became of the command
	answered                // by the clerk
	refused                 // definitely not applied, with a reason
)

// overload offers a few entities far more than they can do, and little after that.
func (f *faultRun) overload() error {
	c := newClientPool(f.cluster.Gateways())
	defer c.close()
	peak, err := f.capacity(c)
	if err != nil {
		return err
	}
	length := f.Sizes.Overload
	memory := f.watchMemory(length)
	began := time.Now()
	during := f.offer(c, overloadFactor*peak, length)
	end := began.Add(length)
	grown, held, err := memory()
	if err != nil {
		return err
	}
	after := f.offer(c, recoveryShare*peak, min(recoveryTime, 2*length))

	good, unknowns := 0.0, 0.0
	var byClient, byGateway measure.Histogram // of refusals
	for _, a := range during() {
		switch {
		case a.outcome == answered && a.end.Before(end):
			good++
		case a.outcome == refused:
			byClient.Add(a.end.Sub(a.due))
			byGateway.Add(a.took)
		case a.outcome == unknown:
			unknowns++
		}
	}
	var recovered time.Duration
	for _, a := range after() {
		if a.outcome != answered || a.end.Sub(a.due) > late {
			recovered = max(recovered, a.due.Sub(end))
		}
		if a.outcome == unknown {
			unknowns++
		}
	}
	section, what := "overload", fmt.Sprintf("%d × the capacity of %d entities for %s: ", overloadFactor, f.Sizes.Clerks, length)
	f.add(report.Row{Section: section, Measure: what + "answered", Unit: "commands/s", Value: good / length.Seconds(), Target: report.Target{Ratio: 0.8},
		Baseline: &report.Baseline{Name: "capacity", Value: peak, Ratio: good / length.Seconds() / peak}})
	within := report.Target{AtMost: 50}
	if byClient.N() == 0 {
		within = report.Target{} // nothing to judge
	}
	f.add(report.Row{Section: section, Measure: what + report.Number(float64(byClient.N())) + " refused, slowest refusal", Unit: "ms", Value: ms(byClient.Quantile(1)),
		P50: byClient.Quantile(0.5), P99: byClient.Quantile(0.99), Target: within})
	f.add(report.Row{Section: section, Measure: what + "the same by the gateways' account", Unit: "ms", Value: ms(byGateway.Quantile(1)),
		P50: byGateway.Quantile(0.5), P99: byGateway.Quantile(0.99)})
	f.addFailures(section, what+"neither answered nor refused with a reason", unknowns)
	f.add(report.Row{Section: section, Measure: what + "connections of the clients, all that were made", Unit: "connections", Value: float64(c.made.Load())})
	f.add(report.Row{Section: section, Measure: what + "memory of all regions and gateways, peak", Unit: "MiB", Value: held})
	f.add(report.Row{Section: section, Measure: what + "growth of that peak from the first half of the time to the second", Unit: "%", Value: grown, Target: report.Target{AtMost: 20}})
	f.addMillis(section, what+fmt.Sprintf("until nothing is refused or takes over %s, with %.2g × the capacity", late, recoveryShare), ms(recovered), report.Target{AtMost: 10_000})
	return nil
}

// askClerk sends a clerk one request.
func (f *faultRun) askClerk(c *clientPool, n int) (a attempt) {
	a.due = time.Now()
	a.outcome, a.took = c.ask(n/f.Sizes.Clerks, "clerk-"+strconv.Itoa(n%f.Sizes.Clerks))
	a.end = time.Now()
	return a
}

// capacity returns how many commands per second the clerks can answer.
func (f *faultRun) capacity(c *clientPool) (rate float64, err error) {
	for range 2 { // the first round activates them
		n := make([]int, 4*f.Sizes.Clerks)
		s, err := measure.Callers(len(n), min(f.Sizes.Overload/10, 5*time.Second), func(caller int) error {
			n[caller]++
			if f.askClerk(c, caller+n[caller]*len(n)).outcome != answered {
				return errors.New("a clerk that is not overloaded does not answer")
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		rate = s.Rate()
	}
	return rate, nil
}

// offer sends requests at a steady rate for a time. The function that it returns waits for
// all outcomes.
func (f *faultRun) offer(c *clientPool, rate float64, length time.Duration) func() []attempt {
	all := make([]attempt, int(rate*length.Seconds()))
	ended := measure.Open(rate, len(all), minPause, length, func(n int, done func(error)) {
		go func() {
			all[n] = f.askClerk(c, n)
			done(nil)
		}()
	})
	return func() []attempt {
		_, _ = ended() // no request is an error
		return all
	}
}

// watchMemory samples the memory of all regions and gateways for a time. The function that
// it returns waits for the end. It returns the peak, in MiB, and the increase of the peak
// from the first half to the second, in percent.
func (f *faultRun) watchMemory(length time.Duration) func() (grown, peak float64, err error) {
	processes := append(f.running(cluster.Region), f.running(cluster.Gateway)...)
	began, over := time.Now(), make(chan error, 1)
	var halves [2]float64
	go func() {
		for ; time.Since(began) < length; time.Sleep(min(memoryInterval, length/8)) {
			sum := 0.0
			for _, p := range processes {
				mib, err := residentMiB(p.PID)
				if err != nil {
					over <- err
					return
				}
				sum += mib
			}
			half := &halves[min(1, int(2*time.Since(began)/length))]
			*half = max(*half, sum)
		}
		over <- nil
	}()
	return func() (float64, float64, error) {
		err := <-over
		return max(0, 100*(halves[1]/halves[0]-1)), max(halves[0], halves[1]), err
	}
}

// residentMiB returns the memory of a process, in MiB.
func residentMiB(pid int) (float64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(raw) {
		if value, ok := strings.CutPrefix(string(line), "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("process %d: /proc has no VmRSS", pid)
}
