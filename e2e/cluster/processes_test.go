package cluster

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
)

// up starts every process that does not run, and waits until all are ready. A process that
// was declared down may end only now, and is started again then.
func (r *run) up() {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 2*waitLimit)
	defer cancel()
	for {
		var group sync.WaitGroup
		for _, p := range r.cluster.Processes() {
			if p.PID == 0 && !r.retired[p.Name] {
				group.Go(func() {
					if err := r.cluster.Restart(ctx, p.Name); err != nil {
						r.Error(err)
					}
				})
			}
		}
		group.Wait()
		err := r.cluster.Ready(ctx, r.names()...)
		if err == nil || r.Failed() {
			return
		}
		if ctx.Err() != nil || !slices.ContainsFunc(r.cluster.Processes(), func(p launcher.Process) bool { return p.PID == 0 && !r.retired[p.Name] }) {
			r.Fatal(err)
		}
	}
}

// names returns the names of all processes but some, and but those that were stopped
// permanently.
func (r *run) names(but ...string) (names []string) {
	for _, p := range r.cluster.Processes() {
		if !slices.Contains(but, p.Name) && !r.retired[p.Name] {
			names = append(names, p.Name)
		}
	}
	return names
}

// kill ends processes by SIGKILL, all at once.
func (r *run) kill(names ...string) {
	r.Helper()
	var group sync.WaitGroup
	for _, name := range names {
		group.Go(func() {
			if err := r.cluster.Kill(name); err != nil {
				r.Error(err)
			}
		})
	}
	group.Wait()
}

// stop ends a process by SIGTERM, and starts it again.
func (r *run) stop(name string) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 2*waitLimit)
	defer cancel()
	began := time.Now()
	r.must(r.cluster.Stop(ctx, name))
	r.figure("%s stopped in %.1f s", name, time.Since(began).Seconds())
	r.up()
}

// process returns what the launcher knows of a process.
func (r *run) process(name string) launcher.Process {
	r.Helper()
	all := r.cluster.Processes()
	i := slices.IndexFunc(all, func(p launcher.Process) bool { return p.Name == name })
	if i < 0 {
		r.Fatalf("no process %s", name)
	}
	return all[i]
}

// active returns the name and term of the active coordinator.
func (r *run) active() (name string, term uint32) {
	r.Helper()
	eventually(r.T, waitLimit, func() (err error) {
		name, term, err = r.cluster.Active(r.Context())
		return err
	})
	return name, term
}

// successor waits for an active coordinator of a higher term.
func (r *run) successor(before uint32) (name string, term uint32) {
	r.Helper()
	eventually(r.T, waitLimit, func() (err error) {
		if name, term, err = r.cluster.Active(r.Context()); err == nil && term <= before {
			err = fmt.Errorf("%s is still active in term %d", name, term)
		}
		return err
	})
	return name, term
}

// pause stops a process by SIGSTOP at a moment at which it holds no lock on the file of the
// journal or of the lease. A process that is stopped while it holds one stops all others. That is
// safe and known, and would show nothing here.
func (r *run) pause(name string) {
	r.Helper()
	r.allowDeath(declaredDown, name)
	for range 50 {
		r.must(r.cluster.Signal(name, syscall.SIGSTOP))
		r.wait(50 * time.Millisecond)
		before := r.load.Acked()
		r.wait(200 * time.Millisecond)
		if float64(r.load.Acked()-before) > r.rate/20 && r.leaseFree() {
			return
		}
		r.must(r.cluster.Signal(name, syscall.SIGCONT))
		r.wait(100 * time.Millisecond)
	}
	r.markVoid("whenever %s is stopped, all others stop too", name)
	r.SkipNow()
}

// leaseFree reports whether the lease can be written. In PostgreSQL it always can.
func (r *run) leaseFree() bool {
	if r.store != onSQLite {
		return true
	}
	where := url.URL{Scheme: "file", Path: filepath.Join(r.dir, "lease.db"), RawQuery: "_txlock=immediate&_pragma=busy_timeout(500)"}
	db, err := sql.Open("sqlite", where.String())
	r.must(err)
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(r.Context(), nil)
	if err == nil {
		r.must(tx.Rollback())
	}
	return err == nil
}

// ended reports whether a process has ended on its own, for example after it was declared
// down.
func (r *run) ended(name string) bool {
	r.Helper()
	return r.process(name).State == launcher.Died
}

// mustFence waits until one of the processes has counted an operation that the fence
// refused. A run in which none was refused proves nothing about the fence, and is void.
func (r *run) mustFence(names ...string) {
	r.Helper()
	deadline := time.Now().Add(waitLimit / 3)
	refused, fates := 0.0, ""
	for refused == 0 && time.Now().Before(deadline) && r.Context().Err() == nil {
		fates = ""
		alive := false
		for _, name := range names {
			ended := r.ended(name) // before the counter is read, so that an ended process has its last value
			if n, err := r.counter(name, "roost.journal.fenced"); err == nil {
				refused += n
			}
			fates += r.fate(name)
			alive = alive || !ended
		}
		if !alive {
			break
		}
		if refused == 0 {
			r.wait(100 * time.Millisecond)
		}
	}
	r.figure("%.0f operations refused by the fence%s", refused, fates)
	if refused == 0 {
		r.markVoid("the fence refused nothing of %s", strings.Join(names, ", "))
	}
}

// counter returns a counter of a process, summed over all attributes. The counters of a
// process that has ended on its own are in its log.
func (r *run) counter(name, metric string) (float64, error) {
	r.Helper()
	if p := r.process(name); p.State == launcher.Died {
		return lastReport(p.Log, metric)
	}
	return r.scrape(name, strings.ReplaceAll(metric, ".", "_")+"_total")
}

// lastReport reads a counter from the last metrics that a log has.
func lastReport(log, metric string) (sum float64, err error) {
	raw, err := os.ReadFile(log)
	if err != nil {
		return 0, err
	}
	at := strings.LastIndex(string(raw), reportBegins)
	if at < 0 {
		return 0, errors.New("the process has ended without a report")
	}
	var report struct {
		ScopeMetrics []struct {
			Metrics []struct {
				Name string
				Data struct{ DataPoints []struct{ Value float64 } }
			}
		}
	}
	if err := json.NewDecoder(strings.NewReader(string(raw[at:]))).Decode(&report); err != nil {
		return 0, err
	}
	for _, s := range report.ScopeMetrics {
		for _, m := range s.Metrics {
			for _, p := range m.Data.DataPoints {
				if m.Name == metric {
					sum += p.Value
				}
			}
		}
	}
	return sum, nil
}

// reportBegins is how the metrics in a log begin.
const reportBegins = `{"Resource":`

// scrape returns a metric that a process serves, summed over all attributes.
func (r *run) scrape(name, metric string) (sum float64, err error) {
	return scrape(r.process(name), metric)
}

// scrape returns a metric that a process serves, summed over all attributes.
func scrape(p launcher.Process, metric string) (sum float64, err error) {
	client := http.Client{Timeout: 5 * time.Second}
	res, err := client.Get("http://" + p.Management + "/metrics")
	if err != nil {
		return 0, err
	}
	raw, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if !strings.HasPrefix(line, metric+"{") && !strings.HasPrefix(line, metric+" ") {
			continue
		}
		value := line[max(len(metric), strings.LastIndexByte(line, '}')+1):]
		fields := strings.Fields(value)
		if len(fields) == 0 {
			continue
		}
		v, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", line, err)
		}
		sum += v
	}
	return sum, nil
}
