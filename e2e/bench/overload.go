package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/bench/entities"
	"github.com/roost-cluster/roost/e2e/bench/measure"
	"github.com/roost-cluster/roost/e2e/bench/report"
	"github.com/roost-cluster/roost/e2e/cluster/history"
	"github.com/roost-cluster/roost/e2e/cluster/load"
)

const (
	// tooMuch is how many times the capacity is offered.
	tooMuch = 5
	// calmShare of the capacity is offered afterwards: while it is answered
	// late, nothing is normal.
	calmShare = 0.25
	// calmTime is how long that lasts.
	calmTime = 12 * time.Second
	// late is an answer that is not normal.
	late = 250 * time.Millisecond
	// memoryPause is the time between two looks at the memory of processes.
	memoryPause = 250 * time.Millisecond
)

// attempt is one request and its end, with no second try.
type attempt struct {
	due, end time.Time
	outcome  history.Outcome
}

// overload offers a few entities far more than they can do, and then little.
func (h *hurt) overload() error {
	requests := load.New(h.cluster.Gateways(), 0)
	peak, err := h.peak(requests)
	if err != nil {
		return err
	}
	length := h.Sizes.Overload
	memory := h.remember(length)
	began := time.Now()
	during := h.offer(requests, tooMuch*peak, length)
	end := began.Add(length)
	grown, held, err := memory()
	if err != nil {
		return err
	}
	after := h.offer(requests, calmShare*peak, min(calmTime, 2*length))

	good, silent := 0.0, 0.0
	var refused measure.Histogram
	for _, a := range <-during {
		switch {
		case a.outcome == history.OK && a.end.Before(end):
			good++
		case a.outcome == history.Rejected:
			refused.Add(a.end.Sub(a.due))
		case a.outcome == history.Unknown:
			silent++
		}
	}
	var normal time.Duration
	for _, a := range <-after {
		if a.outcome != history.OK || a.end.Sub(a.due) > late {
			normal = max(normal, a.due.Sub(end))
		}
		if a.outcome == history.Unknown {
			silent++
		}
	}
	section, what := "overload", fmt.Sprintf("%d × the capacity of %d entities for %s: ", tooMuch, h.Sizes.Clerks, length)
	h.add(report.Row{Section: section, Measure: what + "answered", Unit: "commands/s", Value: good / length.Seconds(), Target: report.Target{Ratio: 0.8},
		Baseline: &report.Baseline{Name: "capacity", Value: peak, Ratio: good / length.Seconds() / peak}})
	within := report.Target{AtMost: 50}
	if refused.N() == 0 {
		within = report.Target{} // nothing to judge
	}
	h.add(report.Row{Section: section, Measure: what + report.Number(float64(refused.N())) + " refused, slowest refusal", Unit: "ms", Value: ms(refused.Quantile(1)),
		P50: refused.Quantile(0.5), P99: refused.Quantile(0.99), Target: within})
	h.lost(section, what+"neither answered nor refused with a reason", silent+float64(len(requests.Problems)+requests.Reasons["no connection"]))
	h.add(report.Row{Section: section, Measure: what + "memory of all regions and gateways, peak", Unit: "MiB", Value: held})
	h.add(report.Row{Section: section, Measure: what + "growth of that peak from the first half of the time to the second", Unit: "%", Value: grown, Target: report.Target{AtMost: 20}})
	h.told(section, what+fmt.Sprintf("until nothing is refused or takes over %s, with %.2g × the capacity", late, calmShare), ms(normal), report.Target{AtMost: 10_000})
	return nil
}

// serve asks a clerk once.
func (h *hurt) serve(requests *load.Load, n int) load.Answer {
	ctx, cancel := context.WithTimeout(h.ctx, deadline)
	defer cancel()
	return requests.Post(ctx, n/h.Sizes.Clerks, fmt.Sprintf("/v1/%s/clerk-%d/%s", entities.ClerkType, n%h.Sizes.Clerks, entities.Serve), "", entities.Question{Data: "a"})
}

// peak is how many commands a second the clerks can answer.
func (h *hurt) peak(requests *load.Load) (rate float64, err error) {
	for range 2 { // the first time they are made
		n := make([]int, 4*h.Sizes.Clerks)
		s, err := measure.Callers(len(n), min(h.Sizes.Overload/10, 5*time.Second), func(caller int) error {
			n[caller]++
			if a := h.serve(requests, caller+n[caller]*len(n)); a.Outcome != history.OK {
				return fmt.Errorf("a clerk that has time does not answer: %.200s", a.Body)
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

// offer sends requests at a steady rate for a time. The end of all of them is
// what the channel tells.
func (h *hurt) offer(requests *load.Load, rate float64, length time.Duration) <-chan []attempt {
	over := make(chan []attempt, 1)
	var mu sync.Mutex
	var all []attempt
	var group sync.WaitGroup
	began := time.Now()
	for n := range int(rate * length.Seconds()) {
		due := began.Add(time.Duration(float64(n) / rate * 1e9))
		if due.After(time.Now()) {
			time.Sleep(time.Until(due))
		}
		group.Go(func() {
			a := attempt{due: time.Now(), outcome: h.serve(requests, n).Outcome}
			a.end = time.Now()
			mu.Lock()
			defer mu.Unlock()
			all = append(all, a)
		})
	}
	go func() {
		group.Wait()
		over <- all
	}()
	return over
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
