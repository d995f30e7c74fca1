package node

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// Instruments makes the instruments of a meter. What goes wrong is returned at the end, by
// [Instruments.Observe] or [Instruments.Err].
type Instruments struct {
	meter    metric.Meter
	observed []metric.Observable
	errs     []error
}

// NewInstruments returns the instruments of a meter, of which there are none yet.
func NewInstruments(meter metric.Meter) *Instruments { return &Instruments{meter: meter} }

// made notes the error of making an instrument.
func made[T any](i *Instruments, made T, err error) T {
	i.errs = append(i.errs, err)
	return made
}

// Counter makes a counter of what is counted as it happens.
func (i *Instruments) Counter(name, unit, help string) metric.Int64Counter {
	c, err := i.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(help))
	return made(i, c, err)
}

// Histogram makes a histogram.
func (i *Instruments) Histogram(name, unit, help string) metric.Float64Histogram {
	h, err := i.meter.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(help))
	return made(i, h, err)
}

// Gauge makes a gauge that is read by the function that Observe gets.
func (i *Instruments) Gauge(name, unit, help string) metric.Int64Observable {
	g, err := i.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(help))
	i.observed = append(i.observed, g)
	return made(i, g, err)
}

// Count makes a counter that is read by the function that Observe gets.
func (i *Instruments) Count(name, unit, help string) metric.Int64Observable {
	c, err := i.meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(help))
	i.observed = append(i.observed, c)
	return made(i, c, err)
}

// Observe has f read all gauges and counts that were made. It returns what went wrong with
// any instrument.
func (i *Instruments) Observe(f metric.Callback) error {
	if err := i.Err(); err != nil {
		return err
	}
	_, err := i.meter.RegisterCallback(f, i.observed...)
	return err
}

// Err returns what went wrong.
func (i *Instruments) Err() error { return errors.Join(i.errs...) }
