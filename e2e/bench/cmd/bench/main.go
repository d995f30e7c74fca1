// Command bench measures the layers of Roost and baselines in the same run, or Roost and its peers, and prints
// ratios and absolute numbers.
//
// # What this does not do
//
// It does not build the binaries that it starts; make bench does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/roost-cluster/roost/e2e/bench"
	"github.com/roost-cluster/roost/e2e/bench/baseline"
	_ "github.com/roost-cluster/roost/libs/backends/all"
	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/node/config"
)

// serveBaselines is the argument that makes this binary serve the baselines.
const serveBaselines = "baselines"

// peersIdle is the number of idle entities when peers are measured. Some of these need seconds for as many.
const peersIdle = 100_000

// asPeer is the argument that makes this binary do with Roost what the peers' programs do with theirs.
const asPeer = "peer"

func main() {
	// The baselines and what runs in this process collect garbage as a region does.
	node.CollectFrom(config.Default("").CollectFrom)
	if len(os.Args) == 2 && os.Args[1] == serveBaselines {
		exit(baseline.Serve(os.Stdin, os.Stdout))
	}
	if len(os.Args) > 1 && os.Args[1] == asPeer {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		exit(bench.RoostProgram().Run(ctx, os.Args[2:], os.Stdout))
	}
	exit(measure())
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func measure() error {
	o := bench.DefaultOptions()
	only := flag.String("run", "", "regular expression of the suites to run: "+strings.Join(bench.Names(), ", ")+"; with -faults: "+strings.Join(bench.FaultNames(), ", ")+"; with -scale: "+strings.Join(bench.ScaleNames(), ", ")+"; with -peers: "+strings.Join(bench.PeerNames(), ", "))
	peers := flag.String("peers", "", "measure Roost and its peers, instead of its layers: the peers' programs, separated by commas")
	raw := flag.String("json", "", "file for the report as JSON")
	docs := flag.String("docs", "", "directory of the documentation: rewrites the figures in performance.md (with -run, its sections only), and after a whole run the chart performance.svg")
	flag.StringVar(&o.Bin, "bin", "bin", "directory of the binaries")
	flag.StringVar(&o.Dir, "dir", "", "directory of the journals, whose disk determines durable figures (default: the temporary directory)")
	flag.IntVar(&o.Rounds, "rounds", o.Rounds, "rounds of each comparison; figures are medians")
	flag.DurationVar(&o.Length, "length", o.Length, "length of one run in a round")
	flag.StringVar(&o.Profiles, "profiles", "", "directory for profiles of every process; figures of a profiled run are not valid")
	flag.BoolVar(&o.Faults, "faults", false, "measure what clients notice of faults, instead of rates")
	flag.BoolVar(&o.Scale, "scale", false, "measure large numbers and long times, instead of rates")
	flag.IntVar(&o.Sizes.ManyEntities, "many", o.Sizes.ManyEntities, "with -scale: idle entities in one region")
	flag.IntVar(&o.Sizes.Connections, "connections", o.Sizes.Connections, "with -scale: connections at one gateway")
	flag.DurationVar(&o.Sizes.Soak, "soak", o.Sizes.Soak, "with -scale: how long the steady load lasts")
	flag.IntVar(&o.Sizes.Kills, "kills", o.Sizes.Kills, "with -faults: how often a region is killed")
	flag.IntVar(&o.Sizes.Times, "times", o.Sizes.Times, "with -faults: how often each other fault is injected")
	flag.IntVar(&o.Sizes.Entities, "entities", o.Sizes.Entities, "entities that receive asks")
	flag.DurationVar(&o.Sizes.Overload, "overload", o.Sizes.Overload, "with -faults: how long the overload lasts")
	flag.DurationVar(&o.Sizes.Rest, "rest", o.Sizes.Rest, "suite idle-processes: how long the processes rest before they are measured, and while they are")
	flag.Float64Var(&o.Sizes.FaultRate, "rate", o.Sizes.FaultRate, "with -faults, and of the steady load of -scale: commands per second")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("%q is not a flag", flag.Arg(0))
	}
	if o.Faults && o.Scale {
		return errors.New("-faults and -scale measure different things: set one of them")
	}
	if *only != "" {
		var err error
		if o.Run, err = regexp.Compile("^(" + *only + ")$"); err != nil {
			return err
		}
	}
	if o.Profiles != "" {
		if err := os.MkdirAll(o.Profiles, 0o755); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o.Baselines, o.Progress = []string{self, serveBaselines}, os.Stderr
	if *peers != "" {
		for program := range strings.SplitSeq(*peers, ",") {
			o.Peers = append(o.Peers, []string{program})
		}
		o.Roost, o.Sizes.Idle = []string{self, asPeer}, peersIdle
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := bench.Run(ctx, o)
	if r == nil {
		return err
	}
	fmt.Println(r.Machine)
	errs := []error{err, r.Table(os.Stdout)}
	if o.Profiles != "" {
		fmt.Printf("These figures include what profiling takes. The profiles: go tool pprof -top %s\n", filepath.Join(o.Profiles, "FILE"))
	}
	if *raw != "" {
		errs = append(errs, write(*raw, r.JSON))
	}
	if err != nil { // the pages get whole sections only
		return errors.Join(errs...)
	}
	if *docs != "" && o.Faults {
		errs = append(errs, r.RewriteSections(filepath.Join(*docs, "performance.md"), "make bench-faults"))
	} else if *docs != "" && o.Scale {
		errs = append(errs, r.RewriteSections(filepath.Join(*docs, "performance.md"), "make bench-scale"))
	} else if *docs != "" && o.Peers != nil {
		errs = append(errs, r.RewriteSections(filepath.Join(*docs, "performance.md"), "make bench-peers"))
	} else if *docs != "" && o.Run != nil {
		errs = append(errs, r.RewritePart(filepath.Join(*docs, "performance.md")))
	} else if *docs != "" {
		errs = append(errs, r.Rewrite(filepath.Join(*docs, "performance.md")), write(filepath.Join(*docs, "performance.svg"), r.Chart))
	}
	return errors.Join(errs...)
}

func write(file string, content func(io.Writer) error) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(content(f), f.Close())
}
