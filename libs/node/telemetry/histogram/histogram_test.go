package histogram

import (
	"context"
	"math"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.opentelemetry.io/otel/sdk/resource"
)

var (
	duration = Desc{Scope: "example.com/region", Name: "roost.command.duration", Unit: "s", Description: "time of a command", Bounds: Seconds}
	size     = Desc{Scope: "example.com/region", Name: "roost.batch.size", Unit: "{operation}", Description: "operations in one commit", Bounds: Numbers}
	silent   = Desc{Scope: "example.com/gateway", Name: "roost.never", Unit: "s", Description: "what never happens", Bounds: Seconds}
)

// recorded are the measurements and their attributes; "": none.
var recorded = []struct {
	of    Desc
	typ   string
	value float64
}{
	{duration, "Airport", 0.0007}, {duration, "Airport", 0.00025}, {duration, "Airport", 0}, {duration, "Airport", 1e9},
	{duration, "Route", -1}, {duration, "Route", 0.1}, {duration, "Route", 0.2}, {duration, "Route", 10},
	{size, "", 1}, {size, "", 5}, {size, "", 6}, {size, "", 1e6},
}

func attributes(typ string) []attribute.KeyValue {
	if typ == "" {
		return nil
	}
	return []attribute.KeyValue{attribute.String("roost.type", typ), attribute.String("a", "b")}
}

// ours records the measurements in histograms of this package.
func ours(t *testing.T, reader func(sdkmetric.Producer) sdkmetric.Reader) {
	r := &Registry{}
	sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader(r)), sdkmetric.WithResource(resource.Empty()))
	of := map[string]*Histogram{}
	for _, d := range []Desc{duration, size, silent} {
		of[d.Name] = r.New(d)
	}
	of[silent.Name].With(attributes("Airport")...)
	for _, m := range recorded {
		of[m.of.Name].With(attributes(m.typ)...).Record(m.value)
	}
}

// theirs records the measurements in OpenTelemetry's instruments.
func theirs(t *testing.T, reader func(sdkmetric.Producer) sdkmetric.Reader) {
	p := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader(&Registry{})), sdkmetric.WithResource(resource.Empty()))
	of := map[string]metric.Float64Histogram{}
	for _, d := range []Desc{duration, size, silent} {
		var err error
		if of[d.Name], err = p.Meter(d.Scope).Float64Histogram(d.Name, metric.WithUnit(d.Unit), metric.WithDescription(d.Description),
			metric.WithExplicitBucketBoundaries(d.Bounds...)); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range recorded {
		of[m.of.Name].Record(t.Context(), m.value, metric.WithAttributes(attributes(m.typ)...))
	}
}

// TestSameText: /metrics shows the same as with OpenTelemetry's instruments.
func TestSameText(t *testing.T) {
	for name, options := range map[string][]otelprometheus.Option{"with scope": nil, "without scope": {otelprometheus.WithoutScopeInfo()}} {
		t.Run(name, func(t *testing.T) {
			text := func(measure func(*testing.T, func(sdkmetric.Producer) sdkmetric.Reader)) string {
				registry := prometheus.NewRegistry()
				measure(t, func(p sdkmetric.Producer) sdkmetric.Reader {
					exporter, err := otelprometheus.New(append(options, otelprometheus.WithRegisterer(registry), otelprometheus.WithProducer(p))...)
					if err != nil {
						t.Fatal(err)
					}
					return exporter
				})
				w := httptest.NewRecorder()
				promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
				return w.Body.String()
			}
			got, want := text(ours), text(theirs)
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if !strings.Contains(got, `le="0.00025"} 2`) || strings.Contains(got, "never") {
				t.Errorf("unexpected text:\n%s", got)
			}
		})
	}
}

// TestSameData: exporters that push get the same too, minimum and maximum included.
func TestSameData(t *testing.T) {
	data := func(measure func(*testing.T, func(sdkmetric.Producer) sdkmetric.Reader)) metricdata.ResourceMetrics {
		var reader *sdkmetric.ManualReader
		measure(t, func(p sdkmetric.Producer) sdkmetric.Reader {
			reader = sdkmetric.NewManualReader(sdkmetric.WithProducer(p))
			return reader
		})
		var got metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	metricdatatest.AssertEqual(t, data(theirs), data(ours), metricdatatest.IgnoreTimestamp())
}

func TestNilRegistry(t *testing.T) {
	var r *Registry
	r.New(duration).With(attributes("Airport")...).Record(1)
}

func TestManyAttributes(t *testing.T) {
	r := &Registry{}
	h := r.New(size)
	for i := range MaxSeries + 10 {
		h.With(attribute.Int("n", i)).Record(1)
	}
	h.With(attribute.Int("n", 0)).Record(1)
	scopes, err := r.Produce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	points := scopes[0].Metrics[0].Data.(metricdata.Histogram[float64]).DataPoints
	last := points[len(points)-1]
	if len(points) != MaxSeries || points[0].Count != 2 || last.Count != 11 || !last.Attributes.HasValue("otel.metric.overflow") {
		t.Errorf("%d series, the first with %d, the last with %d measurements and %v", len(points), points[0].Count, last.Count, last.Attributes)
	}
}

// TestConcurrent: no measurement is lost, and the sum has all that are counted.
func TestConcurrent(t *testing.T) {
	const writers, each = 4, 2000
	r := &Registry{}
	h := r.New(size)
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				h.With(attribute.String("parity", strconv.Itoa(i%2))).Record(float64(w + 1))
			}
		})
	}
	collect := func() (count uint64) {
		scopes, err := r.Produce(context.Background())
		if err != nil {
			t.Error(err)
		}
		for _, s := range scopes {
			for _, p := range s.Metrics[0].Data.(metricdata.Histogram[float64]).DataPoints {
				least, _ := p.Min.Value()
				most, _ := p.Max.Value()
				if p.Sum < float64(p.Count) || math.IsInf(least, 0) || math.IsInf(most, 0) {
					t.Errorf("%d measurements with the sum %v, from %v to %v", p.Count, p.Sum, least, most)
				}
				count += p.Count
			}
		}
		return count
	}
	for range 100 {
		collect()
	}
	writing.Wait()
	if got := collect(); got != writers*each {
		t.Errorf("%d measurements, want %d", got, writers*each)
	}
}

func BenchmarkRecord(b *testing.B) {
	s := (&Registry{}).New(duration).With(attributes("Airport")...)
	for b.Loop() {
		s.Record(0.0007)
	}
}
