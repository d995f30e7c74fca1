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
	// tooMuch is how many times the capacity is offered.
	tooMuch = 5
	// calmShare of the capacity is offered afterwards: while it is answered
	// late, nothing is normal.
	calmShare = 0.25
	// calmTime is how long that lasts.
	calmTime = 12 * time.Second
	// stride is the least pause between requests.
	stride = time.Millisecond
	// late is an answer that is not normal.
	late = 250 * time.Millisecond
	// memoryPause is the time between two looks at the memory of processes.
	memoryPause = 250 * time.Millisecond
)

// attempt is one request and its end, with no second try.
type attempt struct {
	due, end time.Time
	outcome  outcome
	// took is the time at the gateway, by its own account.
	took time.Duration
}

// outcome is what a request came to.
type outcome uint8

const (
	silence  outcome = iota // nothing, or nothing that tells what became of the command
	answered                // by the clerk
	refused                 // definitely not applied, with a reason
)

// overload offers a few entities far more than they can do, and then little.
func (h *hurt) overload() error {
	c := newCrowd(h.cluster.Gateways())
	defer c.close()
	peak, err := h.peak(c)
	if err != nil {
		return err
	}
	length := h.Sizes.Overload
	memory := h.remember(length)
	began := time.Now()
	during := h.offer(c, tooMuch*peak, length)
	end := began.Add(length)
	grown, held, err := memory()
	if err != nil {
		return err
	}
	after := h.offer(c, calmShare*peak, min(calmTime, 2*length))

	good, silent := 0.0, 0.0
	var seen, told measure.Histogram // of refusals, by the client and by the gateways
	for _, a := range during() {
		switch {
		case a.outcome == answered && a.end.Before(end):
			good++
		case a.outcome == refused:
			seen.Add(a.end.Sub(a.due))
			told.Add(a.took)
		case a.outcome == silence:
			silent++
		}
	}
	var normal time.Duration
	for _, a := range after() {
		if a.outcome != answered || a.end.Sub(a.due) > late {
			normal = max(normal, a.due.Sub(end))
		}
		if a.outcome == silence {
			silent++
		}
	}
	section, what := "overload", fmt.Sprintf("%d × the capacity of %d entities for %s: ", tooMuch, h.Sizes.Clerks, length)
	h.add(report.Row{Section: section, Measure: what + "answered", Unit: "commands/s", Value: good / length.Seconds(), Target: report.Target{Ratio: 0.8},
		Baseline: &report.Baseline{Name: "capacity", Value: peak, Ratio: good / length.Seconds() / peak}})
	within := report.Target{AtMost: 50}
	if seen.N() == 0 {
		within = report.Target{} // nothing to judge
	}
	h.add(report.Row{Section: section, Measure: what + report.Number(float64(seen.N())) + " refused, slowest refusal", Unit: "ms", Value: ms(seen.Quantile(1)),
		P50: seen.Quantile(0.5), P99: seen.Quantile(0.99), Target: within})
	h.add(report.Row{Section: section, Measure: what + "the same by the gateways' account", Unit: "ms", Value: ms(told.Quantile(1)),
		P50: told.Quantile(0.5), P99: told.Quantile(0.99)})
	h.lost(section, what+"neither answered nor refused with a reason", silent)
	h.add(report.Row{Section: section, Measure: what + "connections of the clients, all that were made", Unit: "connections", Value: float64(c.made.Load())})
	h.add(report.Row{Section: section, Measure: what + "memory of all regions and gateways, peak", Unit: "MiB", Value: held})
	h.add(report.Row{Section: section, Measure: what + "growth of that peak from the first half of the time to the second", Unit: "%", Value: grown, Target: report.Target{AtMost: 20}})
	h.told(section, what+fmt.Sprintf("until nothing is refused or takes over %s, with %.2g × the capacity", late, calmShare), ms(normal), report.Target{AtMost: 10_000})
	return nil
}

// serve asks a clerk once.
func (h *hurt) serve(c *crowd, n int) (a attempt) {
	a.due = time.Now()
	a.outcome, a.took = c.ask(n/h.Sizes.Clerks, "clerk-"+strconv.Itoa(n%h.Sizes.Clerks))
	a.end = time.Now()
	return a
}

// peak is how many commands a second the clerks can answer.
func (h *hurt) peak(c *crowd) (rate float64, err error) {
	for range 2 { // the first time they are made
		n := make([]int, 4*h.Sizes.Clerks)
		s, err := measure.Callers(len(n), min(h.Sizes.Overload/10, 5*time.Second), func(caller int) error {
			n[caller]++
			if h.serve(c, caller+n[caller]*len(n)).outcome != answered {
				return errors.New("a clerk that has time does not answer")
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

// offer sends requests at a steady rate for a time. What it returns waits for
// the end of all of them.
func (h *hurt) offer(c *crowd, rate float64, length time.Duration) func() []attempt {
	all := make([]attempt, int(rate*length.Seconds()))
	ended := measure.Open(rate, len(all), stride, length, func(n int, done func(error)) {
		go func() {
			all[n] = h.serve(c, n)
			done(nil)
		}()
	})
	return func() []attempt {
		_, _ = ended() // no request is an error
		return all
	}
}

// remember looks at the memory of all regions and gateways for a time. What it
// returns waits for the end and tells the peak, in MiB, and by how many per cent
// that of the second half is above that of the first.
func (h *hurt) remember(length time.Duration) func() (grown, peak float64, err error) {
	processes := append(h.living(cluster.Region), h.living(cluster.Gateway)...)
	began, over := time.Now(), make(chan error, 1)
	var halves [2]float64
	go func() {
		for ; time.Since(began) < length; time.Sleep(min(memoryPause, length/8)) {
			sum := 0.0
			for _, p := range processes {
				mib, err := resident(p.PID)
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

// resident is the memory of a process, in MiB.
func resident(pid int) (float64, error) {
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
	return 0, fmt.Errorf("process %d tells nothing of its memory", pid)
}
