// Package peer holds the common parts of the programs that do the same work with Roost and with its peers: the flags, the
// loads, and a line of JSON for each figure. A program brings [System]s, and [Main] does the rest:
//
//	program -measure=asks -callers=1,64 -length=1s
//
// It prints a [Figure] per line on standard output, and nothing for a measure that it does not have. A process that a program
// starts for its own use is the program again, with the argument "serve" and the program's further arguments.
//
// # What this does not do
//
// It runs one program once. Command bench runs the programs of Roost and its peers in turns, and takes medians.
package peer

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Options are the flags of a program.
type Options struct {
	// Measure is one of [Measures].
	Measure string
	// Callers are the numbers of callers that ask at a time, one load after the other.
	Callers []int
	// Length of one load.
	Length time.Duration
	// Entities is the number that exist before anything is measured.
	Entities int
	// Idle is the number of entities that do nothing while memory is measured.
	Idle int
	// Dir is a directory for files, which the caller removes.
	Dir string
	// Bin has the binaries of Roost.
	Bin string
}

// Most returns the highest number of callers.
func (o *Options) Most() int { return slices.Max(append([]int{freshCallers}, o.Callers...)) }

// System is the subject: entities that count, and callers that ask them.
type System interface {
	// Ask sends 64 bytes to an entity and waits for 16 bytes. An entity whose number is at least [Options.Entities] is new.
	// A caller, told apart by number, asks once at a time.
	Ask(caller, entity int) error
	// Processes are the pids of the processes that work for the system, besides this one.
	Processes() []int
	Close() error
}

// Teller is a system that takes tells.
type Teller interface {
	System
	// Tell sends 64 bytes to an entity, and does not wait. One goroutine calls it.
	Tell(entity int) error
	// Received returns how many tells have reached their entities.
	Received() (int64, error)
}

// Cluster is a system of several members.
type Cluster interface {
	System
	// Call is Ask for any number of callers, each with a deadline.
	Call(ctx context.Context, entity int) error
	// Owners returns for each of the first [Options.Entities] entities in which member it is.
	Owners() ([]int, error)
	// Kill ends a member as kill -9 does.
	Kill(member int) error
}

// Way is one of the ways in which a program's entities are reached.
type Way struct {
	// Name is the name of the program, with the way if there are several.
	Name string
	Open func(context.Context, Options) (System, error)
	// Fixed is true if there are no new entities: all exist before the load.
	Fixed bool
}

// Program holds the subjects of a program's measures.
type Program struct {
	// Local systems are inside this process, Remote ones in one other, Replicated ones in three others. Durable ones have
	// stored what they answer, in SQLite.
	Local, Remote, Replicated, Durable []Way
	// Serve is the work of a process that the program starts; nil: it starts none.
	Serve func(ctx context.Context, args []string) error
}

// Figure is one result.
type Figure struct {
	// Name is the name of the [Way], Measure the name of the measure.
	Name    string        `json:"name"`
	Measure string        `json:"measure"`
	Unit    string        `json:"unit"`
	Value   float64       `json:"value"`
	P50     time.Duration `json:"p50_ns,omitempty"`
	P99     time.Duration `json:"p99_ns,omitempty"`
	// CPU is the processor time of one operation, over all processes.
	CPU time.Duration `json:"cpu_ns,omitempty"`
}

// measures of a program, by name.
var measures = map[string]struct {
	ways func(*Program) []Way
	take func(*taken, System) error
}{
	"local-asks":        {func(p *Program) []Way { return p.Local }, (*taken).asks},
	"local-tells":       {func(p *Program) []Way { return p.Local }, (*taken).tells},
	"local-activation":  {func(p *Program) []Way { return p.Local }, (*taken).activation},
	"idle":              {func(p *Program) []Way { return p.Local }, (*taken).idle},
	"remote-asks":       {func(p *Program) []Way { return p.Remote }, (*taken).asks},
	"remote-tells":      {func(p *Program) []Way { return p.Remote }, (*taken).tells},
	"remote-activation": {func(p *Program) []Way { return p.Remote }, (*taken).activation},
	"failover":          {func(p *Program) []Way { return p.Replicated }, (*taken).failover},
	"durable":           {func(p *Program) []Way { return p.Durable }, (*taken).asks},
}

// Measures returns the names of all measures.
func Measures() (names []string) {
	for name := range measures { // order-free: sorted below
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// stdout takes the figures, and where a child serves.
var stdout = os.Stdout

// ballastBytes are allocated and never touched, so that they take no memory of the machine. While they are there, garbage is not
// collected before the heap has 64 MiB. Processes of Roost collect as late by default (memory.gc_floor), and their peers shall not
// lose by that.
const ballastBytes = 32 << 20

// Main runs the program of a peer and ends the process.
func Main(p Program) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	os.Stdout = os.Stderr // for what libraries print
	var ballast []byte
	if os.Getenv("GOGC") == "" {
		ballast = make([]byte, ballastBytes)
	}
	err := p.Run(ctx, os.Args[1:], stdout)
	stop()
	runtime.KeepAlive(ballast)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Run takes a measure and writes its figures, or serves.
func (p *Program) Run(ctx context.Context, args []string, out io.Writer) error {
	if p.Serve != nil && len(args) > 0 && args[0] == serve {
		return p.Serve(ctx, args[1:])
	}
	var o Options
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	callers := flags.String("callers", "1,64", "numbers of callers")
	flags.StringVar(&o.Measure, "measure", "", strings.Join(Measures(), ", "))
	flags.DurationVar(&o.Length, "length", time.Second, "length of one load")
	flags.IntVar(&o.Entities, "entities", 10_000, "entities that receive asks")
	flags.IntVar(&o.Idle, "idle", 100_000, "entities that do nothing")
	flags.StringVar(&o.Dir, "dir", os.TempDir(), "directory for files")
	flags.StringVar(&o.Bin, "bin", "bin", "directory of the binaries of Roost")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for text := range strings.SplitSeq(*callers, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-callers %q: %q is not a number of callers", *callers, text)
		}
		o.Callers = append(o.Callers, n)
	}
	m, ok := measures[o.Measure]
	if !ok {
		return fmt.Errorf("-measure %q: there are %s", o.Measure, strings.Join(Measures(), ", "))
	}
	lines := json.NewEncoder(out)
	for _, way := range m.ways(p) {
		if way.Fixed && o.Measure == "remote-activation" {
			continue
		}
		t := taken{Options: o, name: way.Name, write: func(f Figure) error { return lines.Encode(f) }}
		if err := t.of(ctx, way, m.take); err != nil {
			return fmt.Errorf("%s: %s: %w", way.Name, o.Measure, err)
		}
	}
	return nil
}

func (t *taken) of(ctx context.Context, way Way, take func(*taken, System) error) (err error) {
	if t.Measure == "idle" {
		t.Entities = 0 // all are new
	}
	s, err := way.Open(ctx, t.Options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return take(t, s)
}
