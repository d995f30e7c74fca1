package measure

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// Subject is one of several things that are compared.
type Subject struct {
	Name string
	// Run puts load on it for about length.
	Run func(length time.Duration) (Sample, error)
	// Processes are the pids of the processes that work for it, besides this one.
	Processes []int
}

// Plan is the length and number of rounds.
type Plan struct {
	Rounds int
	// Length of one run of one subject.
	Length time.Duration
	// Around, if set, is called for each run that counts, and must call run. It can take
	// profiles, for example.
	Around func(s *Subject, run func())
}

// Figure is the result of a subject: medians over the rounds.
type Figure struct {
	Name string
	Rate float64 // operations per second
	// P50 and P99 are latencies; 0: not timed.
	P50, P99 time.Duration
	// CPU is the processor time of one operation, over all processes that took
	// part; 0: not known.
	CPU time.Duration
	// Ratio of the rate to the first subject's, round by round.
	Ratio float64
}

// Compare runs the subjects in turns; the first is the baseline. A first round,
// to warm up, does not count.
func (p Plan) Compare(subjects ...Subject) ([]Figure, error) {
	rounds := make([][]round, len(subjects))
	for n := -1; n < p.Rounds; n++ {
		for i := range subjects {
			s := &subjects[i]
			length := p.Length
			if n < 0 {
				length /= 4
			}
			r, err := p.once(s, length, n >= 0)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.Name, err)
			}
			if n >= 0 {
				rounds[i] = append(rounds[i], r)
			}
		}
	}
	figures := make([]Figure, len(subjects))
	for i := range subjects {
		figures[i] = Figure{
			Name: subjects[i].Name, Rate: median(rounds[i], func(r round) float64 { return r.rate }),
			P50: time.Duration(median(rounds[i], func(r round) float64 { return float64(r.p50) })),
			P99: time.Duration(median(rounds[i], func(r round) float64 { return float64(r.p99) })),
			CPU: time.Duration(median(rounds[i], func(r round) float64 { return float64(r.cpu) })),
		}
		ratios := make([]float64, len(rounds[i]))
		for n := range ratios {
			ratios[n] = rounds[i][n].rate / rounds[0][n].rate
		}
		figures[i].Ratio = Median(ratios)
	}
	return figures, nil
}

type round struct {
	rate          float64
	p50, p99, cpu time.Duration
}

func (p Plan) once(s *Subject, length time.Duration, counts bool) (r round, err error) {
	runtime.GC() // so that the garbage of other subjects is not collected at the cost of this one
	run := func() {
		before := Usage(s.Processes)
		var sample Sample
		if sample, err = s.Run(length); err != nil {
			return
		}
		spent := Usage(s.Processes) - before
		r.rate = sample.Rate()
		if sample.Ops > 0 {
			r.cpu = spent / time.Duration(sample.Ops)
		}
		if sample.Latency != nil {
			r.p50, r.p99 = sample.Latency.Quantile(0.5), sample.Latency.Quantile(0.99)
		}
	}
	if p.Around != nil && counts {
		p.Around(s, run)
	} else {
		run()
	}
	return r, err
}

func median(rs []round, of func(round) float64) float64 {
	vs := make([]float64, len(rs))
	for i := range rs {
		vs[i] = of(rs[i])
	}
	return Median(vs)
}

// Median returns the median, or 0 if there are no values.
func Median(vs []float64) float64 {
	if len(vs) == 0 {
		return 0
	}
	vs = slices.Sorted(slices.Values(vs))
	mid := len(vs) / 2
	if len(vs)%2 == 1 {
		return vs[mid]
	}
	return (vs[mid-1] + vs[mid]) / 2
}
