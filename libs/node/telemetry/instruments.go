package telemetry

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Instruments makes the instruments of a meter. What goes wrong is returned at the end, by
// [Instruments.Observe] or [Instruments.Err].
type Instruments struct {
	meter    metric.Meter
	observed []metric.Observable
	errs     []error
}

// NewInstruments returns the set of instruments of a meter, which is still empty.
func NewInstruments(meter metric.Meter) *Instruments { return &Instruments{meter: meter} }

// made notes the error of making an instrument.
func made[T any](i *Instruments, made T, err error) T {
	i.errs = append(i.errs, err)
	return made
}

// Counter makes a counter of events that are counted as they happen. Its series are there from the
// start, with the value 0: a series that begins with its first event hides that event from
// everybody who looks at rates. A counter with attributes needs one option for each of its series;
// without options, the counter has one series without attributes.
func (i *Instruments) Counter(name, unit, help string, series ...metric.AddOption) metric.Int64Counter {
	c, err := i.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(help))
	if err == nil && len(series) == 0 {
		c.Add(context.Background(), 0)
	}
	for _, s := range series {
		if err == nil {
			c.Add(context.Background(), 0, s)
		}
	}
	return made(i, c, err)
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

// Flags is a gauge that is 1 for each thing with the flag set, and 0 for the others.
type Flags struct {
	by  string // the attribute that names the thing
	mu  sync.Mutex
	set map[string]bool
}

// Flags makes such a gauge. It has no series before [Flags.Set].
func (i *Instruments) Flags(name, unit, help, by string) *Flags {
	f := &Flags{by: by, set: map[string]bool{}}
	g, err := i.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(help), metric.WithInt64Callback(f.observe))
	_ = made(i, g, err)
	return f
}

// Set sets the flag of thing and returns its previous value. It is a no-op on a nil gauge.
func (f *Flags) Set(thing string, on bool) (was bool) {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	was, f.set[thing] = f.set[thing], on
	return was
}

func (f *Flags) observe(_ context.Context, o metric.Int64Observer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for thing, on := range f.set { // order-free: series
		n := int64(0)
		if on {
			n = 1
		}
		o.Observe(n, metric.WithAttributes(attribute.String(f.by, thing)))
	}
	return nil
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
