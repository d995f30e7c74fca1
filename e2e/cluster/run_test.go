package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/cluster/history"
)

// scenario is a cluster under load, and what happens to it.
type scenario struct {
	name string
	// full says that it runs only when everything is asked for: E2E=full.
	full bool
	// length is for how long calls start.
	length time.Duration
	// least is the least rate of answers, per second. Below it the run is void:
	// a history in which nothing happened proves nothing. Default: half of what
	// is offered.
	least float64
	// prepare, if set, changes how the cluster is started.
	prepare func(r *run, o *launcher.Options)
	// faults runs beside the load.
	faults func(r *run)
	// check, if set, runs after the history was found right.
	check func(r *run)
}

// run is one run of a scenario.
type run struct {
	*testing.T
	cluster *launcher.Cluster
	dir     string
	load    *load
	figures []string // of the scenario itself

	mu      sync.Mutex
	mortal  map[string]bool // who may die by itself
	deaths  []string
	unknown int // operations of this outcome
}

// figure adds to the line that a scenario prints.
func (r *run) figure(format string, args ...any) {
	r.figures = append(r.figures, fmt.Sprintf(format, args...))
}

// wait lets the load go on for a while.
func (r *run) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	}
}

func (r *run) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// play runs a scenario and judges it.
func play(t *testing.T, s scenario) {
	r := &run{T: t, dir: t.TempDir(), mortal: map[string]bool{}}
	o := launcher.Options{
		Coordinators: 2, Regions: 3, Gateways: 2, Dir: r.dir,
		RegionBinary: filepath.Join(bin, "list-region"), Changed: r.changed,
	}
	if s.prepare != nil {
		s.prepare(r, &o)
	}
	r.cluster = start(t, o)
	r.load = newLoad(r.cluster.Gateways())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.load.run(t.Context(), s.length, 1)
	}()
	s.faults(r)
	<-ended
	r.up()
	r.judge(&s)
	if s.check != nil && !t.Failed() {
		s.check(r)
	}
}

// changed notes who died. It must not call the cluster.
func (r *run) changed(p launcher.Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.State == launcher.Died && !r.mortal[p.Name] {
		r.deaths = append(r.deaths, fmt.Sprintf("%s died (%s): %s", p.Name, p.Reason, strings.Join(p.LastLines, "\n")))
	}
}

// maybeDie says that a process may end by itself.
func (r *run) maybeDie(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mortal[name] = true
}

// judge checks the history against the lists as they are now.
func (r *run) judge(s *scenario) {
	ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
	defer cancel()
	final := map[string][]int64{}
	for i := range listCount {
		values, err := r.load.final(ctx, listName(i))
		r.must(err)
		final[listName(i)] = values
	}
	outcomes := map[history.Outcome]int{}
	for _, o := range r.load.ops {
		outcomes[o.Outcome]++
	}
	r.unknown = outcomes[history.Unknown]
	began := time.Now()
	err := history.Check(r.load.ops, final, 30*time.Second)
	took := time.Since(began)
	got := float64(outcomes[history.OK]) / s.length.Seconds()
	r.Logf("%-22s %5d operations, %3.0f/s, %3d rejected, %3d unknown, longest gap %4.1f s, checked in %3d ms%s", s.name, len(r.load.ops), got,
		outcomes[history.Rejected], r.unknown, history.Longest(r.load.ops, 0, s.length).Seconds(), took.Milliseconds(),
		strings.Join(append([]string{""}, r.figures...), ", "))
	if err != nil {
		r.Errorf("the history is wrong: %v", err)
	}
	least := s.least
	if least == 0 {
		least = rate / 2
	}
	if got < least {
		r.Errorf("void: %.0f answers per second are below the least rate of %.0f; attempts failed by %v", got, least, r.load.reasons)
	}
	for _, p := range r.load.problems {
		r.Errorf("an answer that must not be: %s", p)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.deaths {
		r.Error(d)
	}
}

// up starts everything that does not run, and waits until all serve.
func (r *run) up(names ...string) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
	defer cancel()
	var group sync.WaitGroup
	for _, p := range r.cluster.Processes() {
		if p.PID != 0 || len(names) > 0 && !slices.Contains(names, p.Name) {
			continue
		}
		group.Go(func() {
			if err := r.cluster.Restart(ctx, p.Name); err != nil {
				r.Error(err)
			}
		})
	}
	group.Wait()
	r.must(r.cluster.Ready(ctx))
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
	ctx, cancel := context.WithTimeout(r.Context(), 40*time.Second)
	defer cancel()
	began := time.Now()
	r.must(r.cluster.Stop(ctx, name))
	r.figure("%s stopped in %.1f s", name, time.Since(began).Seconds())
	r.up()
}

// active is the name of the active coordinator.
func (r *run) active() (name string, term uint32) {
	r.Helper()
	eventually(r.T, 20*time.Second, func() (err error) {
		name, term, err = r.cluster.Active(r.Context())
		return err
	})
	return name, term
}

// pause stops a process by SIGSTOP at a moment at which it does not hold the
// lock of the journal's file: who is stopped while he has it stops all others,
// which is safe and known, and would show nothing here.
func (r *run) pause(name string) {
	r.Helper()
	for range 50 {
		r.must(r.cluster.Signal(name, syscall.SIGSTOP))
		r.wait(50 * time.Millisecond)
		before := r.load.acked.Load()
		r.wait(150 * time.Millisecond)
		if r.load.acked.Load()-before > rate/20 {
			return
		}
		r.must(r.cluster.Signal(name, syscall.SIGCONT))
		r.wait(100 * time.Millisecond)
	}
	r.Fatalf("whenever %s is stopped, everything stands still", name)
}

// metric is the sum of a process's counter over all attributes.
func (r *run) metric(name, metric string) float64 {
	r.Helper()
	sum, err := r.scrape(name, metric)
	r.must(err)
	return sum
}

func (r *run) scrape(name, metric string) (sum float64, err error) {
	for _, p := range r.cluster.Processes() {
		if p.Name != name {
			continue
		}
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
			rest := line[strings.LastIndexByte(line, '}')+1:]
			fields := strings.Fields(rest)
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
	return 0, fmt.Errorf("no process %s", name)
}

// everything says whether the long scenarios are asked for.
func everything() bool { return os.Getenv("E2E") == "full" }
