package bench

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/e2e/bench/baseline"
	"github.com/roost-cluster/roost/e2e/bench/entities"
	"github.com/roost-cluster/roost/e2e/bench/measure"
	"github.com/roost-cluster/roost/e2e/bench/report"
	"github.com/roost-cluster/roost/libs/journal/open"
)

const inProcess = "in process"

// withLocal runs f with a runner on a new SQLite journal.
func (r *run) withLocal(name string, f func(*local) error) error {
	l, err := startLocal(r.ctx, open.At{URL: "sqlite:" + filepath.Join(r.Dir, name+".db")})
	if err != nil {
		return err
	}
	if err := f(l); err != nil {
		_ = l.close() // the first error counts
		return err
	}
	return l.close()
}

// inProcessAsks compares asks and tells at the runner with channels.
func (r *run) inProcessAsks() error {
	return r.withLocal("runtime", func(l *local) error {
		to := make([]addressee, r.Sizes.Entities)
		for i := range to {
			to[i] = l.addressee(entities.EchoType, "entity-"+strconv.Itoa(i))
		}
		for _, callers := range []int{1, 64} {
			target := report.Target{}
			if callers == 64 {
				target.AtLeast = 1_000_000
			}
			if err := r.inProcessAsk(l, to, callers, target); err != nil {
				return err
			}
		}
		f := newFlood(func(n uint64) *addressee { return &to[n%uint64(len(to))] })
		f.tell = true
		f.send = l.submit(f)
		return r.compare("tells/s", measure.Subject{Name: "buffered channel", Run: baseline.Channel},
			subject{measure.Subject{Name: "in-process-tell", Run: f.run}, report.Row{Section: inProcess, Measure: "tell"}})
	})
}

func (r *run) inProcessAsk(l *local, to []addressee, callers int, target report.Target) error {
	payload, err := proto.Marshal(question())
	if err != nil {
		return err
	}
	a := newLocalAsker(l, callers)
	var next atomic.Uint64
	keys := make([]string, len(to))
	for i := range keys {
		keys[i] = string(to[i].entity.ID)
	}
	return r.compare("asks/s",
		measure.Subject{Name: "buffered channel", Run: func(length time.Duration) (measure.Sample, error) {
			return baseline.ChannelAsk(keys, callers, func(ask func(int) error) (measure.Sample, error) {
				return measure.Callers(callers, length, ask)
			})
		}},
		subject{measure.Subject{Name: fmt.Sprint("in-process-ask-", callers), Run: func(length time.Duration) (measure.Sample, error) {
			return measure.Callers(callers, length, func(c int) error {
				n := next.Add(1)
				a.callers[c].command[0] = to[n%uint64(len(to))].command(uint64(c), n, payload)
				return a.ask(c)
			})
		}}, report.Row{Section: inProcess, Measure: fmt.Sprintf("ask, %d in flight", callers), Target: target}})
}

// newEntities returns a function that makes entities without earlier asks.
func newEntities(make func(name string) addressee) func(n uint64) *addressee {
	return func(n uint64) *addressee {
		a := make("fresh-" + strconv.FormatUint(n, 10))
		return &a
	}
}

// activations compares the activation of volatile entities with making structs in a map,
// in process, and with the entity mux, across processes.
func (r *run) activations() error {
	if err := r.withLocal("activation", func(l *local) error {
		f := newFlood(newEntities(func(name string) addressee { return l.addressee(entities.EchoType, name) }))
		f.send = l.submit(f)
		return r.compare("activations/s", measure.Subject{Name: "struct in a locked map", Run: func(time.Duration) (measure.Sample, error) {
			return makeStructs(r.Sizes.Activations), nil
		}}, subject{measure.Subject{Name: "activation", Run: func(time.Duration) (measure.Sample, error) { return f.count(r.Sizes.Activations) }},
			report.Row{Section: inProcess, Measure: "activation, volatile", Target: report.Target{AtLeast: 500_000}}})
	}); err != nil {
		return err
	}
	s, err := r.sharedCluster()
	if err != nil {
		return err
	}
	f := newFlood(newEntities(func(name string) addressee { return s.addressee(entities.EchoType, name) }))
	peer, open, err := s.dial(r.ctx, f.answered)
	if err != nil {
		return err
	}
	defer peer.Close()
	f.send, f.flush = overLink(open), open.Flush
	mux, err := baseline.DialMux(r.base.Mux, 256)
	if err != nil {
		return err
	}
	defer mux.Close()
	var next atomic.Uint64
	return r.compare("activations/s",
		measure.Subject{Name: "entity mux, new keys", Processes: []int{r.base.PID}, Run: func(length time.Duration) (measure.Sample, error) {
			in := question()
			return measure.Callers(256, length/4, func(c int) error {
				return mux.Ask(c, "fresh-"+strconv.FormatUint(next.Add(1), 10), in, question())
			})
		}},
		subject{measure.Subject{Name: "activation-link", Processes: []int{s.region.PID}, Run: func(time.Duration) (measure.Sample, error) {
			return f.count(r.Sizes.Activations)
		}}, report.Row{Section: "link", Measure: "activation, volatile", Target: report.Target{AtLeast: 100_000}}})
}

// makeStructs measures the least that activation has to do.
func makeStructs(count int) measure.Sample {
	type entity struct{ _ uint64 }
	var mu sync.Mutex
	all := map[string]*entity{}
	began := time.Now()
	for i := range count {
		key := "fresh-" + strconv.Itoa(i)
		mu.Lock()
		if all[key] == nil {
			all[key] = &entity{}
		}
		mu.Unlock()
	}
	return measure.Sample{Ops: int64(len(all)), Elapsed: time.Since(began)}
}

// idleEntities measures the memory of idle entities.
func (r *run) idleEntities() error {
	return r.idle(inProcess, r.Sizes.Idle, report.Target{AtMost: 350})
}

// idle measures the memory of count idle entities.
func (r *run) idle(section string, count int, target report.Target) error {
	return r.withLocal("idle", func(l *local) error {
		f := newFlood(newEntities(func(name string) addressee { return l.addressee(entities.EchoType, name) }))
		f.send = l.submit(f)
		before := heap()
		s, err := f.count(count)
		if err != nil {
			return err
		}
		after := heap()
		r.add(report.Row{
			Section: section, Unit: "bytes", Value: float64(after-before) / float64(s.Ops), Target: target,
			Measure: fmt.Sprintf("idle entity (%s of them)", report.Number(float64(s.Ops))),
		})
		return nil
	})
}

// heap returns the size of the live heap.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // frees what finalizers and pools held
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
