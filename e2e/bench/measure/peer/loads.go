package peer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/e2e/bench/measure"
)

const (
	// window is the number of tells that may be in flight.
	window = 16384
	// lookAgain is the time between two looks at how many tells were received.
	lookAgain = 200 * time.Microsecond
	// patience is the time without changes after which it is given up.
	patience = 10 * time.Second
	// freshCallers is the number of callers that ask new entities at a time.
	freshCallers = 64
	// callEvery is the time between two calls to an entity that does not answer, and callTimeout the timeout of one call. Calls overlap:
	// one that hangs keeps none from being answered.
	callEvery   = 100 * time.Millisecond
	callTimeout = 2 * time.Second
	// failoverLimit bounds the time that entities may be away.
	failoverLimit = 40 * time.Second
)

// taken are the figures of a way.
type taken struct {
	Options
	name  string
	write func(Figure) error
}

// figure writes the figure of a sample.
func (t *taken) figure(what, unit string, s *measure.Sample, cpu time.Duration) error {
	f := Figure{Name: t.name, Measure: what, Unit: unit, Value: s.Rate()}
	if s.Ops > 0 {
		f.CPU = cpu / time.Duration(s.Ops)
	}
	if s.Latency != nil {
		f.P50, f.P99 = s.Latency.Quantile(0.5), s.Latency.Quantile(0.99)
	}
	return t.write(f)
}

// used runs a load, and returns the processor time that it took.
func used(s System, load func() (measure.Sample, error)) (measure.Sample, time.Duration, error) {
	runtime.GC() // so that earlier garbage is not collected at the cost of this load
	before := measure.Usage(s.Processes())
	sample, err := load()
	return sample, measure.Usage(s.Processes()) - before, err
}

// each asks every entity once, so that all exist.
func (t *taken) each(s System, entities, callers int) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, callers)
	for c := range callers {
		wg.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= entities || errs[c] != nil {
					return
				}
				errs[c] = s.Ask(c, n)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// asks measures asks of entities that exist, after a shorter load that does not count.
func (t *taken) asks(s System) error {
	if err := t.each(s, t.Entities, t.Most()); err != nil {
		return err
	}
	var next atomic.Uint64
	for _, callers := range t.Callers {
		load := func(length time.Duration) (measure.Sample, error) {
			return measure.Callers(callers, length, func(c int) error { return s.Ask(c, int(next.Add(1)%uint64(t.Entities))) })
		}
		if _, err := load(t.Length / 4); err != nil {
			return err
		}
		sample, cpu, err := used(s, func() (measure.Sample, error) { return load(t.Length) })
		if err != nil {
			return err
		}
		unit := "asks/s"
		if t.Measure == "durable" {
			unit = "updates/s"
		}
		if err := t.figure(fmt.Sprintf("%d in flight", callers), unit, &sample, cpu); err != nil {
			return err
		}
	}
	return nil
}

// tells measures tells to entities that exist. It sends as long as not too many are on their way, and counts those that have
// reached their entities.
func (t *taken) tells(s System) error {
	to, ok := s.(Teller)
	if !ok {
		return nil
	}
	if err := t.each(s, t.Entities, t.Most()); err != nil {
		return err
	}
	sent := 0
	load := func(length time.Duration) (measure.Sample, error) {
		began, first := time.Now(), sent
		received, err := to.Received()
		for err == nil && time.Since(began) < length {
			for range 64 {
				if err := to.Tell(sent % t.Entities); err != nil {
					return measure.Sample{}, err
				}
				sent++
			}
			if int64(sent)-received > window {
				received, err = awaitReceived(to, int64(sent)-window/2)
			}
		}
		if err == nil {
			_, err = awaitReceived(to, int64(sent))
		}
		return measure.Sample{Ops: int64(sent - first), Elapsed: time.Since(began)}, err
	}
	if _, err := load(t.Length / 4); err != nil {
		return err
	}
	sample, cpu, err := used(s, func() (measure.Sample, error) { return load(t.Length) })
	if err != nil {
		return err
	}
	return t.figure("tell", "tells/s", &sample, cpu)
}

// awaitReceived waits until so many tells have been received, and returns how many have.
func awaitReceived(to Teller, want int64) (int64, error) {
	last, at := int64(-1), time.Now()
	for {
		n, err := to.Received()
		if err != nil || n >= want {
			return n, err
		}
		if n > last {
			last, at = n, time.Now()
		} else if time.Since(at) > patience {
			return n, fmt.Errorf("%d tells were received, and %d not", n, want-n)
		}
		time.Sleep(lookAgain)
	}
}

// activation measures asks of new entities.
func (t *taken) activation(s System) error {
	if err := t.each(s, t.Entities, t.Most()); err != nil {
		return err
	}
	var next atomic.Int64
	next.Store(int64(t.Entities))
	load := func(length time.Duration) (measure.Sample, error) {
		return measure.Callers(freshCallers, length, func(c int) error { return s.Ask(c, int(next.Add(1))) })
	}
	if _, err := load(t.Length / 4); err != nil {
		return err
	}
	sample, cpu, err := used(s, func() (measure.Sample, error) { return load(t.Length) })
	if err != nil {
		return err
	}
	return t.figure(fmt.Sprintf("%d callers, new entities", freshCallers), "activations/s", &sample, cpu)
}

// memory returns the size of the live heap and of all stacks. Stacks count, because an entity may have a goroutine.
func memory() float64 {
	runtime.GC()
	runtime.GC() // frees what finalizers and pools held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// idle measures the memory of entities that have been asked once, and are not any more.
func (t *taken) idle(s System) error {
	before := memory()
	if err := t.each(s, t.Idle, freshCallers); err != nil {
		return err
	}
	after := memory()
	runtime.KeepAlive(s)
	return t.write(Figure{Name: t.name, Measure: fmt.Sprintf("%d idle entities", t.Idle), Unit: "bytes each", Value: (after - before) / float64(t.Idle)})
}

// failover kills the member with most entities, and measures how long it takes until each of them answers elsewhere.
func (t *taken) failover(s System) error {
	c, ok := s.(Cluster)
	if !ok {
		return nil
	}
	if err := t.each(s, t.Entities, t.Most()); err != nil {
		return err
	}
	owners, err := c.Owners()
	if err != nil {
		return err
	}
	has := map[int][]int{}
	victim := owners[0]
	for e, member := range owners {
		if has[member] = append(has[member], e); len(has[member]) > len(has[victim]) {
			victim = member
		}
	}
	began := time.Now()
	if err := c.Kill(victim); err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(context.Background(), began.Add(failoverLimit))
	defer cancel()
	lost := has[victim]
	back := make([]float64, len(lost))
	var failed atomic.Int64
	var wg sync.WaitGroup
	for i, e := range lost {
		wg.Go(func() { back[i] = untilAnswered(ctx, c, e, &failed).Sub(began).Seconds() * 1e3 })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("not all of %d entities are back after %s", len(lost), failoverLimit)
	}
	for _, f := range []Figure{
		{Measure: "until half of its entities answer elsewhere", Unit: "ms", Value: measure.Median(back)},
		{Measure: "until all of them do", Unit: "ms", Value: slices.Max(back)},
		{Measure: "calls that failed meanwhile", Unit: "for each entity", Value: float64(failed.Load()) / float64(len(lost))},
	} {
		f.Name = t.name
		if err := t.write(f); err != nil {
			return err
		}
	}
	return nil
}

// untilAnswered calls an entity again and again, and returns when it first answers.
func untilAnswered(ctx context.Context, c Cluster, entity int, failed *atomic.Int64) time.Time {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answered := make(chan time.Time, 1)
	again := time.NewTicker(callEvery)
	defer again.Stop()
	for {
		go func() {
			call, done := context.WithTimeout(ctx, callTimeout)
			defer done()
			err := c.Call(call, entity)
			switch {
			case err == nil:
				select {
				case answered <- time.Now():
				default:
				}
			case ctx.Err() == nil: // no caller waits for it any more otherwise
				failed.Add(1)
			}
		}()
		select {
		case at := <-answered:
			return at
		case <-again.C:
		case <-ctx.Done():
			return time.Now()
		}
	}
}
