// Package telemetry reports the state of discovery as OpenTelemetry metrics.
//
// # What this does not do
//
// It does not export the metrics; the meter provider does.
package telemetry

import (
	"context"
	"errors"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/roost-cluster/roost/libs/discovery"
)

// Observe reports a Watch and a Registration; each may be nil. The attribute "roost.discovery.backend" is
// the scheme of the URL.
func Observe(meter metric.Meter, url string, w *discovery.Watch, r *discovery.Registration) error {
	scheme, _, _ := strings.Cut(url, ":")
	with := metric.WithAttributes(attribute.String("roost.discovery.backend", scheme))
	return errors.Join(watch(meter, with, w), registration(meter, with, r))
}

func watch(meter metric.Meter, with metric.MeasurementOption, w *discovery.Watch) error {
	if w == nil {
		return nil
	}
	peers, err1 := meter.Int64ObservableGauge("roost.discovery.peers", metric.WithUnit("{peer}"), metric.WithDescription("peers in the last good answer"))
	age, err2 := meter.Float64ObservableGauge("roost.discovery.age", metric.WithUnit("s"), metric.WithDescription("time since the last good answer was asked for"))
	took, err3 := meter.Float64ObservableGauge("roost.discovery.lookup.duration", metric.WithUnit("s"), metric.WithDescription("time that the latest lookup took"))
	lookups, err4 := meter.Int64ObservableCounter("roost.discovery.lookups", metric.WithUnit("{lookup}"), metric.WithDescription("lookups that have ended"))
	failures, err5 := meter.Int64ObservableCounter("roost.discovery.failures", metric.WithUnit("{lookup}"), metric.WithDescription("lookups that have failed"))
	changes, err6 := meter.Int64ObservableCounter("roost.discovery.changes", metric.WithUnit("{change}"), metric.WithDescription("answers that differed from the one before"))
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		return err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		a, st := w.Peers(), w.Stats()
		if a.Known {
			o.ObserveInt64(peers, int64(len(a.Peers)), with)
			o.ObserveFloat64(age, a.Age.Seconds(), with)
		}
		o.ObserveFloat64(took, st.Took.Seconds(), with)
		o.ObserveInt64(lookups, int64(st.Lookups), with)
		o.ObserveInt64(failures, int64(st.Failures), with)
		o.ObserveInt64(changes, int64(st.Changes), with)
		return nil
	}, peers, age, took, lookups, failures, changes)
	return err
}

func registration(meter metric.Meter, with metric.MeasurementOption, r *discovery.Registration) error {
	if r == nil || !r.Registers() {
		return nil
	}
	entered, err1 := meter.Int64ObservableGauge("roost.discovery.registered", metric.WithUnit("{entry}"), metric.WithDescription("1 while this process has entered itself"))
	failures, err2 := meter.Int64ObservableCounter("roost.discovery.registration.failures", metric.WithUnit("{attempt}"), metric.WithDescription("attempts to enter or confirm that have failed"))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		st := r.Stats()
		n := int64(0)
		if st.Entered {
			n = 1
		}
		o.ObserveInt64(entered, n, with)
		o.ObserveInt64(failures, int64(st.Failures), with)
		return nil
	}, entered, failures)
	return err
}
