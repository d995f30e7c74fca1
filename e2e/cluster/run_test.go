package cluster

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/cluster/history"
	"github.com/roost-cluster/roost/e2e/cluster/load"
	"github.com/roost-cluster/roost/e2e/cluster/netns"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
)

const (
	// defaultRate is the number of calls that start per second; some of them are batches.
	defaultRate = 300
	// attempts is the most runs of a scenario until one is not void, each time at half
	// the rate over twice the time, for slow or busy machines.
	attempts = 3
	// waitLimit bounds waiting for what must happen. It does not judge speed.
	waitLimit = time.Minute
	// after is the time in which calls still start after the last fault.
	after = 2 * time.Second
)

// scenario is a cluster under load, and its faults.
type scenario struct {
	name string
	// on lists the stores of the journal; default both SQLite and PostgreSQL.
	on []string
	// short lists its stores in the short set.
	short []string
	// length is the least time in which calls start. They continue until the faults are over.
	length time.Duration
	// rate is the number of calls that start per second; default [defaultRate].
	rate float64
	// least is the share of the started calls that must be answered. Below it the run is
	// void: a history without answers proves nothing. Default: a half.
	least float64
	// skewed is true if some lists have many more calls than others.
	skewed bool
	// network is true if every process has its own network, which can be cut.
	network bool
	// prepare, if set, changes how the cluster is started.
	prepare func(r *run, o *launcher.Options)
	// faults runs during the load.
	faults func(r *run)
	// check, if set, runs after the history was found correct.
	check func(r *run)
}

// run is one run of a scenario.
type run struct {
	*testing.T
	scenario *scenario
	store    string // SQLite or PostgreSQL
	rate     float64
	length   time.Duration

	cluster *launcher.Cluster
	dir     string
	load    *load.Load
	net     *netns.Net           // nil: all share the test's own
	server  *postgrestest.Server // nil: the journal is a file
	second  *postgrestest.Server // of the second database of the journal, or the standby, or nil
	db      *sql.DB              // the journal, or its database with the lists
	detour  *detour              // on the way to the journal, or nil
	// journalURL is the URL of the journal, for its owner.
	journalURL string
	databases  string          // the further ones, as in journal.databases
	retired    map[string]bool // processes that were stopped permanently
	slips      slipCount       // see countSlip
	moved      int             // shards that a rollout has moved
	// lostMoves are those that a killed coordinator had counted, killedShards the most that
	// a killed region can have had.
	lostMoves, killedShards int
	blocked                 int      // shards that no region could read
	figures                 []string // of the scenario itself
	unknown                 int      // operations of this outcome

	mu      sync.Mutex
	allowed map[string]string // by name: processes that may end by themselves, and what their logs say then
	deaths  []launcher.Process
	void    []string // why the run proves nothing
}

// repeat runs a scenario until a run is not void.
func repeat(t *testing.T, s *scenario, store string) {
	rate := cmp.Or(s.rate, defaultRate)
	for n := range attempts {
		r := &run{scenario: s, store: store, rate: rate / float64(int(1)<<n), length: s.length << n, allowed: map[string]string{}, retired: map[string]bool{}}
		if ok := t.Run(fmt.Sprintf("%.0f-per-second", r.rate), r.play); !ok || len(r.void) == 0 {
			return
		}
	}
	t.Errorf("void in %d attempts: this machine is too slow or too busy", attempts)
}

// play runs the scenario once and judges it.
func (r *run) play(t *testing.T) {
	r.T, r.dir = t, t.TempDir()
	o := launcher.Options{
		Coordinators: 2, Regions: 3, Gateways: 2, Dir: r.dir, Args: map[string][]string{},
		RegionBinary: filepath.Join(binaries(t), "list-region"), Changed: r.changed, StartTimeout: waitLimit,
		// The last thing that a process does is to print its counters.
		Env: []string{"OTEL_METRICS_EXPORTER=console", "OTEL_METRIC_EXPORT_INTERVAL=86400000"},
	}
	if r.scenario.network {
		r.net = netns.New(t)
		o.Address, o.Start = r.net.Address, r.net.Start
	}
	r.setUpJournal(&o)
	if r.scenario.prepare != nil {
		r.scenario.prepare(r, &o)
	}
	r.cluster = start(t, o)
	r.load = load.New(r.cluster.Gateways(), r.rate)
	r.load.Skewed = r.scenario.skewed
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		r.load.Run(t.Context(), r.length, over, 1)
	}()
	r.scenario.faults(r)
	r.wait(after)
	close(over)
	<-ended
	r.up()
	r.judge()
	if r.scenario.check != nil && !t.Failed() {
		r.scenario.check(r)
	}
	if len(r.void) > 0 {
		t.Skipf("void: %s", strings.Join(r.void, "; "))
	}
}

// judge checks the history against the lists as they are now, and against the
// journal.
func (r *run) judge() {
	ctx, cancel := context.WithTimeout(r.Context(), waitLimit)
	defer cancel()
	final := map[string][]int64{}
	for i := range load.Lists {
		values, err := r.load.Final(ctx, load.ListName(i))
		r.must(err)
		final[load.ListName(i)] = values
	}
	outcomes := map[history.Outcome]int{}
	ops := r.load.Ops()
	for _, o := range ops {
		outcomes[o.Outcome]++
	}
	r.unknown = outcomes[history.Unknown]
	began := time.Now()
	err := history.Check(ops, final, 2*waitLimit)
	took := time.Since(began)
	stored := r.stored()
	got := float64(outcomes[history.Executed]) / r.load.End.Seconds()
	r.Logf("%-24s %-10s %5d operations, %3.0f/s, %3d not applied, %3d unknown, longest gap %4.1f s, checked in %3d ms%s",
		r.scenario.name, r.store, len(ops), got, outcomes[history.NotApplied], r.unknown,
		history.Longest(ops, 0, r.load.End).Seconds(), took.Milliseconds(), strings.Join(append([]string{""}, r.figures...), ", "))
	if err != nil {
		r.Errorf("the history is wrong: %v", err)
	}
	if err := history.CheckStored(ops, stored); err != nil {
		r.Errorf("the journal is wrong: %v", err)
	}
	if err := history.CheckRead(final, stored); err != nil {
		r.Error(err)
	}
	least := r.scenario.least
	if least == 0 {
		least = 0.5
	}
	if got < least*r.rate {
		r.markVoid("%.0f answers per second are below the least rate of %.0f; attempts failed by %v", got, least*r.rate, r.load.Reasons)
	}
	if r.load.Turned > 0 {
		r.markVoid("%d calls did not start, because %d were in progress", r.load.Turned, load.Crowd)
	}
	for _, p := range r.load.Problems {
		r.Errorf("an answer that no fault explains: %s", p)
	}
	r.judgeDeaths()
}

// declaredDown is the message of a process that was declared down. It ends then, even if the
// others were wrong.
const declaredDown = "this node was declared down"

// judgeDeaths checks the processes that have ended by themselves.
func (r *run) judgeDeaths() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.deaths {
		log, err := os.ReadFile(p.Log)
		r.must(err)
		because, allowed := r.allowed[p.Name]
		switch {
		case allowed && strings.Contains(string(log), because):
		case !allowed && strings.Contains(string(log), declaredDown):
			// Without a fault: this machine was too busy for its heartbeats.
			r.void = append(r.void, p.Name+" was declared down")
		default:
			r.Errorf("%s died (%s), which %q would explain:\n%s", p.Name, p.Reason, because, strings.Join(p.LastLines, "\n"))
		}
	}
}

// changed records processes that died. It must not call the cluster.
func (r *run) changed(p launcher.Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.State == launcher.Died {
		r.deaths = append(r.deaths, p)
	}
}

// allowDeath allows processes to end on their own, if their logs contain because.
func (r *run) allowDeath(because string, names ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		r.allowed[name] = because
	}
}

// markVoid records why the run proves nothing. Its history is checked all the same.
func (r *run) markVoid(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.void = append(r.void, fmt.Sprintf(format, args...))
}

// figure adds to the line that a scenario prints.
func (r *run) figure(format string, args ...any) {
	r.figures = append(r.figures, fmt.Sprintf(format, args...))
}

// wait lets the load continue for a while.
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

// fullSet reports whether all scenarios are requested.
func fullSet() bool { return os.Getenv("E2E") == "full" }
