package telemetry

import (
	"context"
	"errors"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// TestInstruments: all instruments are reported, and what is wrong with any is returned.
// kind is an attribute of a series.
func kind(k string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("kind", k))
}

func TestInstruments(t *testing.T) {
	reader := sdk.NewManualReader()
	meter := NewInstruments(sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("test"))
	meter.Counter("counter", "{thing}", "").Add(t.Context(), 1)
	meter.Counter("kinds", "{thing}", "", kind("a"), kind("b")).Add(t.Context(), 2, kind("a"))
	meter.Counter("silent", "{thing}", "")
	gauge, count := meter.Gauge("gauge", "{thing}", ""), meter.Count("count", "{thing}", "")
	if err := meter.Observe(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(gauge, 1)
		o.ObserveInt64(count, 1)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var got metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &got); err != nil || len(got.ScopeMetrics) != 1 || len(got.ScopeMetrics[0].Metrics) != 5 {
		t.Errorf("collected %+v, %v", got.ScopeMetrics, err)
	}
	meter.Gauge("not a name", "", "")
	if err := meter.Observe(nil); !errors.Is(err, sdk.ErrInstrumentName) {
		t.Errorf("an invalid name: %v", err)
	}
}
