package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/e2e/bench/baseline"
	"github.com/roost-cluster/roost/e2e/bench/entities"
	"github.com/roost-cluster/roost/e2e/bench/measure"
	"github.com/roost-cluster/roost/e2e/bench/report"
)

// Options are the options of a run. Start from [DefaultOptions].
type Options struct {
	// Bin holds the binaries of the services and bench-region.
	Bin string
	// Dir is the parent of the journals' directory, which is removed at the end. Durable
	// figures depend on its disk.
	Dir string
	// Baselines is a command that calls [baseline.Serve].
	Baselines []string
	// Env is added to the environment of that command.
	Env []string
	// Faults runs the suites of faults instead of all others.
	Faults bool
	// Scale runs the suites of large numbers and long times instead of all others.
	Scale bool
	// Peers are the commands of the programs of peers. If there are any, Roost is measured with them instead of all other
	// suites, by the command Roost (see [RoostProgram]).
	Peers [][]string
	Roost []string
	// Run selects suites by name; nil: all.
	Run *regexp.Regexp
	// Rounds and Length are the fields of [measure.Plan]. Defaults 5 and 1 s.
	Rounds int
	Length time.Duration
	// Sizes of the measured subjects.
	Sizes Sizes
	// Profiles, if set, is a directory for processor and allocation profiles of every
	// process of Roost, one for each load on it.
	Profiles string
	// Progress receives the name of each running suite.
	Progress io.Writer
}

// Sizes are the sizes of the table in the documentation; tests have smaller ones.
type Sizes struct {
	Entities    int // volatile entities that receive asks. 10,000
	Accounts    int // durable entities under load at the same time. 1,000
	Idle        int // entities that do nothing. 1,000,000
	Activations int // entities activated in a round. 100,000
	Replay      int // events of one entity that are read back. 100,000
	Claims      int // shards claimed at once. 1,024
	PlanShards  int // shards of a plan. 75,000
	TableShards int // shards of a coordinator. 100,000
	// FaultRate is the number of commands per second under faults. FaultTime is the
	// duration of the load around each fault, Kills the number of region kills, and Times
	// the repetitions of every other fault. 2,000, 9 s, 50, 10
	FaultRate float64
	FaultTime time.Duration
	Kills     int
	Times     int
	NewShards int           // shards first used while there is no coordinator, each time. 60
	Watchers  int           // watchers of the route table. 100
	Changes   int           // changes of the route table that they wait for. 200
	Clerks    int           // entities that are overloaded. 5
	Overload  time.Duration // how long the overload lasts. 60 s
	// Suites of large numbers and long times: idle entities in a region, connections at a gateway and for how
	// long they ask, and how long a steady load lasts. 10,000,000, 10,000, 30 s, 1 h
	ManyEntities, Connections int
	ConnectedFor, Soak        time.Duration
	Members                   int           // entities in the cluster where peers lose a process. 300
	Rest                      time.Duration // idle time of processes before they are measured, and meanwhile. 60 s
}

// DefaultOptions are the options of the table in the documentation.
func DefaultOptions() Options {
	return Options{
		Rounds: 5, Length: time.Second, Progress: io.Discard,
		Sizes: Sizes{Entities: 10_000, Accounts: 1000, Idle: 1_000_000, Activations: 100_000, Replay: 100_000, Claims: 1024, PlanShards: 75_000, TableShards: 100_000,
			FaultRate: 2000, FaultTime: 9 * time.Second, Kills: 50, Times: 10, NewShards: 60, Watchers: 100, Changes: 200, Clerks: 5, Overload: time.Minute, Rest: time.Minute,
			ManyEntities: 10_000_000, Connections: 10_000, ConnectedFor: 30 * time.Second, Soak: time.Hour, Members: 300},
	}
}

// run is the state of a run.
type run struct {
	Options
	ctx      context.Context
	report   *report.Report
	base     *baseline.Process
	cluster  *testCluster // started by the first suite that needs it
	faultRun *faultRun    // likewise
}

// suite is a part of a run.
type suite struct {
	name string
	run  func(*run) error
}

// suites in order of the report.
var suites = []suite{
	{"link", (*run).linkAsks},
	{"tell", (*run).linkTells},
	{"process", (*run).inProcessAsks},
	{"calls", (*run).calls},
	{"activation", (*run).activations},
	{"idle", (*run).idleEntities},
	{"idle-processes", (*run).idleProcesses},
	{"http", (*run).httpAsks},
	{"durable", (*run).durable},
	{"replay", (*run).replay},
	{"claims", (*run).claims},
	{"postgres", (*run).durablePostgres},
	{"postgres-two", (*run).twoDatabases},
	{"service", (*run).serviceSQLite},
	{"service-postgres", (*run).servicePostgres},
	{"placement", (*run).placement},
	{"placement-plans", (*run).planningUnderLoad},
	{"placement-failover", (*run).largeFailover},
}

// Names returns the names of all suites.
func Names() []string { return names(suites) }

// ScaleNames returns the names of all suites of large numbers and long times.
func ScaleNames() []string { return names(scales) }

// FaultNames returns the names of all suites of faults.
func FaultNames() []string { return names(faults) }

// PeerNames returns the names of all suites with peers.
func PeerNames() []string { return names(peerSuites()) }

func names(suites []suite) (names []string) {
	for _, s := range suites {
		names = append(names, s.name)
	}
	return names
}

// Run measures and reports. If suites fail, the report has the figures of the others, and the error names those that have
// failed. If nothing could be measured, there is no report. No process is left behind.
func Run(ctx context.Context, o Options) (_ *report.Report, err error) {
	r := &run{Options: o, ctx: ctx, report: &report.Report{
		Time: time.Now(), Machine: report.ThisMachine(), Rounds: o.Rounds, Length: o.Length,
	}}
	if r.Dir, err = os.MkdirTemp(o.Dir, "roost-bench-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.end()) }()
	if r.report.Machine.Fsync, err = fsync(r.Dir); err != nil {
		return nil, err
	}
	all := suites
	switch {
	case o.Faults:
		all = faults
	case o.Scale:
		all = scales
	case o.Peers != nil:
		all = peerSuites()
	}
	if o.Run != nil && !slices.ContainsFunc(all, func(s suite) bool { return o.Run.MatchString(s.name) }) {
		return nil, fmt.Errorf("there is no suite %s; there are %s", o.Run, strings.Join(names(all), ", "))
	}
	switch {
	case o.Peers != nil:
		r.report.How = fmt.Sprintf("Medians of %d rounds of %s, each in new processes", o.Rounds, report.Duration(o.Length))
	case o.Scale:
		r.report.How = "Once"
	case o.Faults:
		r.report.How = fmt.Sprintf("%s commands/s to %s durable entities in %d shards, journal on SQLite",
			report.Number(o.Sizes.FaultRate), report.Number(float64(o.Sizes.Entities)), entities.Shards)
	default:
		if r.base, err = r.startBaselines(); err != nil {
			return nil, err
		}
	}
	for _, s := range all {
		if o.Run != nil && !o.Run.MatchString(s.name) {
			continue
		}
		fmt.Fprintln(o.Progress, s.name)
		if failed := s.run(r); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", s.name, failed))
		}
		if ctx.Err() != nil {
			err = errors.Join(err, ctx.Err())
			break
		}
	}
	// Suites that share a section are put together.
	order := map[string]int{}
	for i, row := range slices.Backward(r.report.Rows) {
		order[row.Section] = i
	}
	slices.SortStableFunc(r.report.Rows, func(a, b report.Row) int { return order[a.Section] - order[b.Section] })
	return r.report, err
}

// startBaselines starts a process of the baselines, with further variables in its environment.
func (r *run) startBaselines(env ...string) (*baseline.Process, error) {
	cmd := exec.Command(r.Baselines[0], r.Baselines[1:]...)
	cmd.Env, cmd.Stderr = append(append(os.Environ(), r.Env...), env...), os.Stderr
	return baseline.Start(cmd)
}

func (r *run) end() error {
	var errs []error
	if r.cluster != nil {
		errs = append(errs, r.cluster.close())
	}
	if r.faultRun != nil {
		r.faultRun.close()
	}
	if r.base != nil {
		errs = append(errs, r.base.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(r.Dir))...)
}

// subject is a subject of a comparison, and its row in the report.
type subject struct {
	measure.Subject
	row report.Row // without figures
}

// compare measures subjects against a baseline and reports a row for each.
func (r *run) compare(unit string, base measure.Subject, subjects ...subject) error {
	all := []measure.Subject{base}
	for _, s := range subjects {
		all = append(all, s.Subject)
	}
	figures, err := r.plan(base.Name).Compare(all...)
	if err != nil {
		return err
	}
	for i, s := range subjects {
		f, b := figures[i+1], figures[0]
		row := s.row
		row.Unit, row.Value, row.P50, row.P99, row.CPU = unit, f.Rate, f.P50, f.P99, f.CPU
		row.Baseline = &report.Baseline{Name: b.Name, Value: b.Rate, P99: b.P99, CPU: b.CPU, Ratio: f.Ratio}
		r.add(row)
	}
	return nil
}

// add judges a row and reports it.
func (r *run) add(row report.Row) {
	row.Judge()
	r.report.Rows = append(r.report.Rows, row)
	_, _ = fmt.Fprintln(r.Progress, row.Line()) // the run does not depend on it
}

func (r *run) plan(baseline string) measure.Plan {
	p := measure.Plan{Rounds: r.Rounds, Length: r.Length}
	if r.Profiles != "" {
		p.Around = func(s *measure.Subject, run func()) {
			if s.Name == baseline {
				run()
			} else {
				r.profiled(s, run)
			}
		}
	}
	return p
}

// fsync returns the median time of a small durable write.
func fsync(dir string) (time.Duration, error) {
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	var took []float64
	for range 20 {
		began := time.Now()
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(began)))
	}
	return time.Duration(measure.Median(took)), nil
}
