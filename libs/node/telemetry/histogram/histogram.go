// Package histogram has histograms for measurements that are too frequent for the
// instruments of OpenTelemetry. The latter look up the attributes of every measurement
// and offer the measurement as an exemplar, which costs a hundred nanoseconds or more.
// Here the caller keeps the [Series] of its attributes, and [Series.Record] is two atomic
// additions. Readers of metrics see no difference.
//
// A nil [Registry] returns nil histograms with nil series, which record nothing.
//
// # What this does not do
//
// There are no exemplars, views do not apply, and the temporality is always
// cumulative.
package histogram

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// Bounds of histograms, inclusive, ascending. They must not be changed.
var (
	// Seconds are for durations: from a command that is answered from memory to one
	// that waits until a shard has moved.
	Seconds = []float64{
		0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
	}
	// Numbers are for counts: OpenTelemetry's default bounds.
	Numbers = []float64{0, 5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10000}
)

// MaxSeries bounds the series of one histogram, as in OpenTelemetry; further attributes
// share one series with the attribute otel.metric.overflow.
const MaxSeries = 2000

// Registry holds the histograms of a process, for readers of metrics: it is a
// Producer of go.opentelemetry.io/otel/sdk/metric. The zero value is ready, and
// all methods are safe for concurrent use.
type Registry struct {
	mu   sync.Mutex
	list []*Histogram
}

// Desc describes a histogram.
type Desc struct {
	Scope       string // import path of the package that measures
	Name        string // such as "roost.entity.command.duration"
	Unit        string // such as "s"
	Description string
	Bounds      []float64
}

// Histogram is one metric.
type Histogram struct {
	desc  Desc
	since time.Time

	mu       sync.Mutex
	series   map[attribute.Distinct]*Series
	inOrder  []*Series // in order of creation
	overflow *Series   // the last one; nil: there is still room
}

// Series counts the measurements with the same attributes.
type Series struct {
	attributes attribute.Set
	bounds     []float64
	counts     []atomic.Uint64 // up to each bound, and above the last one
	sum        float
	least      float
	most       float
	declared   atomic.Bool // readers see the series although nothing was measured
}

// New adds a histogram. Names must be unique.
func (r *Registry) New(d Desc) *Histogram {
	if r == nil {
		return nil
	}
	h := &Histogram{desc: d, since: time.Now(), series: map[attribute.Distinct]*Series{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, h)
	return h
}

// With returns the series with the given attributes.
func (h *Histogram) With(attributes ...attribute.KeyValue) *Series {
	if h == nil {
		return nil
	}
	set := attribute.NewSet(attributes...)
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.series[set.Equivalent()]; s != nil {
		return s
	}
	if h.overflow != nil {
		return h.overflow
	}
	full := len(h.inOrder) == MaxSeries-1
	if full {
		set = attribute.NewSet(attribute.Bool("otel.metric.overflow", true))
	}
	s := &Series{attributes: set, bounds: h.desc.Bounds, counts: make([]atomic.Uint64, len(h.desc.Bounds)+1)}
	s.least.store(math.Inf(1))
	s.most.store(math.Inf(-1))
	h.series[set.Equivalent()] = s
	h.inOrder = append(h.inOrder, s)
	if full {
		h.overflow = s
	}
	return s
}

// Declare makes readers see the series from now on, with no measurements yet, and returns it. A
// series that readers see only from its first measurement on hides that measurement from those
// who look at rates.
func (s *Series) Declare() *Series {
	if s != nil {
		s.declared.Store(true)
	}
	return s
}

// Record adds a measurement. It is safe for concurrent use.
func (s *Series) Record(v float64) {
	if s == nil {
		return
	}
	s.sum.update(func(sum float64) float64 { return sum + v })
	if v < s.least.load() {
		s.least.update(func(least float64) float64 { return min(least, v) })
	}
	if v > s.most.load() {
		s.most.update(func(most float64) float64 { return max(most, v) })
	}
	i := 0
	for i < len(s.bounds) && v > s.bounds[i] {
		i++
	}
	s.counts[i].Add(1) // last: a measurement that a reader sees here is in the sum too
}

// Produce implements the producer interface that readers of metrics call.
func (r *Registry) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	r.mu.Lock()
	list := slices.Clone(r.list)
	r.mu.Unlock()
	now := time.Now()
	var scopes []metricdata.ScopeMetrics
	for _, h := range list {
		points := h.points(now)
		if len(points) == 0 {
			continue
		}
		i := slices.IndexFunc(scopes, func(s metricdata.ScopeMetrics) bool { return s.Scope.Name == h.desc.Scope })
		if i < 0 {
			i = len(scopes)
			scopes = append(scopes, metricdata.ScopeMetrics{Scope: instrumentation.Scope{Name: h.desc.Scope}})
		}
		scopes[i].Metrics = append(scopes[i].Metrics, metricdata.Metrics{
			Name: h.desc.Name, Unit: h.desc.Unit, Description: h.desc.Description,
			Data: metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality, DataPoints: points},
		})
	}
	return scopes, nil
}

// points returns the series that are declared or have a measurement. They share no memory with the
// histogram, because readers reuse it.
func (h *Histogram) points(now time.Time) []metricdata.HistogramDataPoint[float64] {
	h.mu.Lock()
	all := slices.Clone(h.inOrder)
	h.mu.Unlock()
	bounds := slices.Clone(h.desc.Bounds)
	var points []metricdata.HistogramDataPoint[float64]
	for _, s := range all {
		p := metricdata.HistogramDataPoint[float64]{
			Attributes: s.attributes, StartTime: h.since, Time: now, Bounds: bounds, BucketCounts: make([]uint64, len(s.counts)),
		}
		for i := range s.counts {
			p.BucketCounts[i] = s.counts[i].Load()
			p.Count += p.BucketCounts[i]
		}
		switch {
		case p.Count > 0:
			p.Sum = s.sum.load()
			p.Min, p.Max = metricdata.NewExtrema(s.least.load()), metricdata.NewExtrema(s.most.load())
		case !s.declared.Load():
			continue
		}
		points = append(points, p)
	}
	return points
}

// float is a number that several goroutines update.
type float struct{ bits atomic.Uint64 }

func (f *float) load() float64   { return math.Float64frombits(f.bits.Load()) }
func (f *float) store(v float64) { f.bits.Store(math.Float64bits(v)) }

func (f *float) update(to func(float64) float64) {
	for {
		old := f.bits.Load()
		if f.bits.CompareAndSwap(old, math.Float64bits(to(math.Float64frombits(old)))) {
			return
		}
	}
}
