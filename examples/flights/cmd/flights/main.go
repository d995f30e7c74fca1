package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/mattn/go-isatty"

	"github.com/roost-cluster/roost/examples/flights/data"
)

// Exit codes. After a signal the code is 128 and its number.
const (
	exitFailed = 1
	exitUsage  = 2
)

// errUnequal is returned when the demonstration ran to its end and the totals are wrong.
var errUnequal = errors.New("totals differ")

// interrupted is the cause when a signal ended a run.
type interrupted struct{ signal syscall.Signal }

func (i interrupted) Error() string { return "interrupted: " + i.signal.String() }

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// options are the flags.
type options struct {
	flights, totals, routes, report string
	faults, data, bin               string
	concurrency                     int
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	set := flag.NewFlagSet("flights", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&o.flights, "flights", "", "`file` of flights, CSV or CSV compressed with gzip (default: the first quarter of 2001)")
	set.StringVar(&o.totals, "totals", "", "write the airports' totals to this `file`, read back from the entities")
	set.StringVar(&o.routes, "routes", "", "write the routes' totals to this `file`, read back from the entities")
	set.StringVar(&o.report, "report", "", "write all figures to this `file`, as JSON")
	set.StringVar(&o.faults, "faults", "all", "`faults` done to the cluster while it runs: all or none")
	set.StringVar(&o.data, "data", "", "keep journal and logs in this `directory`; the same flights again count nothing twice")
	set.StringVar(&o.bin, "bin", "", "`directory` of coordinator, gateway and flights-region (default: where this binary is)")
	// Measured: half as many make smaller commits, which costs a quarter more processor
	// time per command; twice as many gain a tenth and double the latency.
	set.IntVar(&o.concurrency, "concurrency", 512, "commands in flight")
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	var problems []error
	if set.NArg() > 0 {
		problems = append(problems, fmt.Errorf("%q is not a flag", set.Arg(0)))
	}
	if o.faults != "all" && o.faults != "none" {
		problems = append(problems, fmt.Errorf("-faults %q: write all or none", o.faults))
	}
	if o.concurrency < 1 || o.concurrency > 4096 {
		problems = append(problems, fmt.Errorf("-concurrency %d: must be from 1 to 4096", o.concurrency))
	}
	for _, path := range []string{o.totals, o.routes, o.report} {
		if path != "" {
			problems = append(problems, writable(path))
		}
	}
	return o, errors.Join(problems...)
}

// writable checks before the run whether a file can be written after it.
func writable(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a directory", path)
	}
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil {
		return err
	} else if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	return nil
}

func run(args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "flights:", err)
		return exitUsage
	}
	ctx, now, stop := signals()
	defer stop()
	d := &demo{options: o, stdout: stdout, stderr: stderr, now: now}
	d.terminal = stderr == io.Writer(os.Stderr) && isatty.IsTerminal(os.Stderr.Fd())
	err = d.run(ctx)
	var by interrupted
	switch {
	case err == nil:
		return 0
	case errors.As(context.Cause(ctx), &by):
		fmt.Fprintln(stderr, "flights: interrupted; everything is stopped")
		return 128 + int(by.signal)
	case !errors.Is(err, errUnequal): // the report has said so
		fmt.Fprintln(stderr, "flights:", err)
	}
	return exitFailed
}

// signals returns a context that is done at the first signal, and one that is done at the
// second, when processes must end at once.
func signals() (ctx, now context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	now, cancelNow := context.WithCancel(context.Background())
	got := make(chan os.Signal, 2)
	signal.Notify(got, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		if s, ok := (<-got).(syscall.Signal); ok {
			cancel(interrupted{s})
		}
		<-got
		cancelNow()
	}()
	return ctx, now, func() { signal.Stop(got); cancel(nil); cancelNow() }
}

// load reads the file of flights.
func (o *options) load() (*input, error) {
	if o.flights == "" {
		return readInput(data.Name, bytes.NewReader(data.File))
	}
	file, err := os.Open(o.flights)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return readInput(o.flights, file)
}
