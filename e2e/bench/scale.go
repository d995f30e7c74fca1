package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/bench/entities"
	"github.com/roost-cluster/roost/e2e/bench/measure"
	"github.com/roost-cluster/roost/e2e/bench/report"
	"github.com/roost-cluster/roost/sdk/entity"
)

// scales measure large numbers and long times.
var scales = []suite{
	{"entities", (*run).manyEntities},
	{"connections", (*run).manyConnections},
	{"soak", (*run).soak},
}

const (
	scaling = "large numbers"
	soaking = "a long time"
	// perConnection is the rate of asks of each of many connections, per second.
	perConnection = 0.5
	// soakSamples is the number of samples of each process. The first quarter of the time is not
	// judged: caches, pools and the journal fill up.
	soakSamples = 60
)

// manyEntities measures the memory of very many idle entities in one region.
func (r *run) manyEntities() error { return r.idle(scaling, r.Sizes.ManyEntities, report.Target{}) }

// manyConnections measures a gateway with very many connected clients: what a connection
// costs in memory, and how commands are answered that come over all of them.
func (r *run) manyConnections() (err error) {
	s, err := r.sharedCluster()
	if err != nil {
		return err
	}
	n := r.Sizes.Connections
	path := entityPath(entities.EchoType, entities.AskJSON, r.Sizes.Entities)
	conns := make([]*httpConn, n)
	defer func() {
		for _, c := range conns {
			if c != nil {
				c.close()
			}
		}
	}()
	ask := func(c int) error {
		_, err := conns[c].post(path(uint64(c)), jsonType, questionJSON)
		return err
	}
	if conns[0], err = dialHTTP(s.gateway.Service); err != nil {
		return err
	}
	// Entities, pools and links are made before the memory is looked at.
	for i := range r.Sizes.Entities {
		if _, err := conns[0].post(path(uint64(i)), jsonType, questionJSON); err != nil {
			return err
		}
	}
	before := measure.Resident(s.gateway.PID)
	if err := parallel(n-1, func(i int) (err error) {
		if conns[i+1], err = dialHTTP(s.gateway.Service); err != nil {
			return err
		}
		return ask(i + 1)
	}); err != nil {
		return err
	}
	each := float64(measure.Resident(s.gateway.PID)-before) / float64(n) / 1024
	what := fmt.Sprintf("%s connections at one gateway: ", report.Number(float64(n)))
	r.add(report.Row{Section: scaling, Measure: what + "resident memory of the gateway, each", Unit: "KiB", Value: each, Target: report.Target{AtMost: 40}})

	// A connection has one command in progress at a time; the next one of its turn waits.
	busy := make([]sync.Mutex, n)
	var failed atomic.Int64
	sample, err := measure.Open(perConnection*float64(n), n, time.Millisecond, r.Sizes.ConnectedFor, func(i int, done func(error)) {
		go func() {
			c := i % n
			busy[c].Lock()
			defer busy[c].Unlock()
			if err := ask(c); err != nil {
				failed.Add(1)
			}
			done(nil)
		}()
	})()
	if err != nil {
		return err
	}
	r.add(report.Row{Section: scaling, Measure: what + "asks in turn over all of them (open loop)", Unit: "asks/s", Value: sample.Rate(),
		P50: sample.Latency.Quantile(0.5), P99: sample.Latency.Quantile(0.99)})
	r.addFailures(scaling, what+"failed asks", float64(failed.Load()))

	// All at once. The gateway must answer or refuse each of them.
	var refused, lost atomic.Int64
	together, err := measure.Callers(n, r.Length, func(c int) error {
		a, err := conns[c].request(path(uint64(c)), jsonType, "", questionJSON)
		switch {
		case err != nil:
			return err
		case a.status == http.StatusOK:
		case a.status == http.StatusServiceUnavailable || a.status == http.StatusTooManyRequests:
			refused.Add(1)
		default:
			lost.Add(1)
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.add(report.Row{Section: scaling, Measure: what + fmt.Sprintf("all ask at once (closed loop); %s of the answers are refusals", report.Number(float64(refused.Load()))),
		Unit: "answers/s", Value: together.Rate(), P50: together.Latency.Quantile(0.5), P99: together.Latency.Quantile(0.99)})
	r.addFailures(scaling, what+"all at once: neither answered nor refused", float64(lost.Load()))
	return nil
}

// parallel calls do for the numbers below n, 64 at a time, and returns the first error.
func parallel(n int, do func(i int) error) error {
	var next atomic.Int64
	errs := make([]error, 64)
	var all sync.WaitGroup
	for w := range errs {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && errs[w] == nil; i = int(next.Add(1)) - 1 {
				errs[w] = do(i)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// soak runs a steady load for a long time, and reports by how much what processes hold grows from
// the second quarter of that time to the last: memory, goroutines, open files, and the journal.
func (r *run) soak() error {
	f, err := r.startFaultRun("soak", func(o *cluster.Options) {
		profiled := []string{"--management.pprof=true"}
		o.Args = map[string][]string{cluster.Coordinator: profiled, cluster.Region: profiled, cluster.Gateway: profiled}
	})
	if err != nil {
		return err
	}
	defer f.close()
	if err := f.ready(); err != nil {
		return err
	}
	length := r.Sizes.Soak
	var failed, asked atomic.Int64
	deposit := entity.Command[entities.Question, entities.Answer](entities.AccountType, entities.Deposit)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = measure.Open(r.Sizes.FaultRate, 1<<20, 0, length, func(n int, done func(error)) { // failures are counted
			go func() {
				if _, err := deposit.Call(f.ctx, f.client, "account-"+strconv.Itoa(n%f.Sizes.Entities), entities.Question{Data: "a"}); err != nil {
					failed.Add(1)
				}
				asked.Add(1)
				done(nil)
			}()
		})()
	}()
	held, err := f.watchHoldings(length)
	<-ended
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%s commands/s for %s: ", report.Number(r.Sizes.FaultRate), length)
	for _, h := range held {
		r.add(report.Row{Section: soaking, Measure: what + h.name + ", second quarter", Unit: h.unit, Value: h.early()})
		r.add(report.Row{Section: soaking, Measure: what + h.name + ", growth until the last quarter", Unit: "%", Value: h.growth(), Target: report.Target{AtMost: h.limit}})
	}
	r.addFailures(soaking, fmt.Sprintf("%s%s commands, failed", what, report.Number(float64(asked.Load()))), float64(failed.Load()))
	return nil
}

// holding is the amount of one resource in the processes of a role, over time.
type holding struct {
	name, unit string
	limit      float64 // of its growth, in percent
	samples    []float64
}

// early returns the median of the second quarter of the time.
func (h *holding) early() float64 {
	return measure.Median(h.samples[len(h.samples)/4 : len(h.samples)/2])
}

// growth returns the increase of the median from the second to the last quarter, in percent.
func (h *holding) growth() float64 {
	late := measure.Median(h.samples[len(h.samples)*3/4:])
	return 100 * (late - h.early()) / max(h.early(), 1)
}

// watchHoldings looks at all processes, and at the journal, again and again.
func (f *faultRun) watchHoldings(length time.Duration) ([]*holding, error) {
	var all []*holding
	byName := map[string]*holding{}
	add := func(name, unit string, limit, value float64) {
		h := byName[name]
		if h == nil {
			h = &holding{name: name, unit: unit, limit: limit}
			byName[name], all = h, append(all, h)
		}
		h.samples = append(h.samples, value)
	}
	pause := time.NewTicker(length / soakSamples)
	defer pause.Stop()
	for range soakSamples {
		select {
		case <-pause.C:
		case <-f.ctx.Done():
			return nil, f.ctx.Err()
		}
		for _, role := range []string{cluster.Coordinator, cluster.Region, cluster.Gateway} {
			var memory, goroutines, files float64
			for _, p := range f.running(role) {
				g, err := goroutinesOf(p)
				if err != nil {
					return nil, err
				}
				open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID))
				if err != nil {
					return nil, err
				}
				memory, goroutines, files = memory+float64(measure.Resident(p.PID))/(1<<20), goroutines+g, files+float64(len(open))
			}
			add("resident memory of all of role "+role, "MiB", 10, memory)
			add("goroutines of all of role "+role, "goroutines", 5, goroutines)
			add("open files of all of role "+role, "files", 5, files)
		}
		size := 0.0
		files, err := filepath.Glob(f.journal + "*") // its WAL as well
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			if info, err := os.Stat(name); err == nil { // one that has just gone has no size
				size += float64(info.Size()) / (1 << 20)
			}
		}
		add("files of the journal", "MiB", 10, size)
	}
	return all, nil
}

// goroutinesOf asks a process how many goroutines it has.
func goroutinesOf(p cluster.Process) (float64, error) {
	res, err := http.Get(fmt.Sprintf("http://%s/debug/pprof/goroutine?debug=1", p.Management))
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	_, count, ok := bytes.Cut(line, []byte("total "))
	if !ok {
		return 0, fmt.Errorf("%s: %q does not say how many goroutines there are", p.Name, line)
	}
	return strconv.ParseFloat(string(count), 64)
}
