package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sync/errgroup"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/libs/adminclient"
	"github.com/roost-cluster/roost/sdk/client"
)

const (
	// What the cluster is made of.
	coordinators, regions, gateways = 2, 3, 2

	// readyWait bounds the time until the cluster serves.
	readyWait = 60 * time.Second
	// closeWait bounds a graceful end; then processes are killed, which loses nothing that
	// is durable. urgentCloseWait is the same after Ctrl-C.
	closeWait       = 10 * time.Second
	urgentCloseWait = 2 * time.Second
)

// demo is one run.
type demo struct {
	*options
	stdout, stderr io.Writer
	terminal       bool
	now            context.Context // is done when processes must end at once

	begun    time.Time
	in       *input
	dir      string
	cluster  *cluster.Cluster
	rec      *recorder
	table    *table
	resent   *resent
	stream   *stream
	progress *progress
	report   report
}

// run runs the demonstration. Whatever happens, it leaves no process behind.
func (d *demo) run(ctx context.Context) (err error) {
	d.begun = time.Now()
	if d.in, err = d.load(); err != nil {
		return err
	}
	removeDir, err := d.makeDir()
	if err != nil {
		return err
	}
	defer func() { err = removeDir(err) }()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	if err := d.start(ctx, fail); err != nil {
		return errors.Join(err, d.close(ctx))
	}
	err = d.carry(ctx)
	if err == nil {
		err = d.verify(ctx)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if closed := d.close(ctx); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return d.finish()
}

// makeDir makes the directory of journal and logs. The function that it returns removes the
// directory, unless it is to be kept or its logs show why something failed.
func (d *demo) makeDir() (remove func(error) error, err error) {
	if d.data != "" {
		d.dir = d.data
		if err := os.MkdirAll(d.dir, 0o755); err != nil {
			return nil, err
		}
		return func(err error) error { return err }, d.claim()
	}
	if d.dir, err = os.MkdirTemp("", "roost-flights-"); err != nil {
		return nil, err
	}
	return func(err error) error {
		var by interrupted
		if err == nil || errors.As(err, &by) {
			return errors.Join(err, os.RemoveAll(d.dir))
		}
		if os.Remove(d.dir) != nil { // it is not empty
			fmt.Fprintf(d.stderr, "journal and logs are kept in %s\n", d.dir)
		}
		return err
	}, nil
}

// carried is the record in a -data directory of the flights in its journal.
type carried struct {
	File   string `json:"file"`
	Digest string `json:"digest"`
}

// claim refuses a -data directory with other flights: the totals would include both.
func (d *demo) claim() error {
	path := filepath.Join(d.data, "flights.json")
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		content, err = json.Marshal(carried{d.in.name, d.in.digest})
		if err != nil {
			return err
		}
		return os.WriteFile(path, append(content, '\n'), 0o644)
	}
	if err != nil {
		return err
	}
	var before carried
	if err := json.Unmarshal(content, &before); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if before.Digest != d.in.digest {
		return fmt.Errorf("%s holds the flights of %s, which differs from %s; give another -data directory", d.data, before.File, d.in.name)
	}
	return nil
}

// start starts the cluster and what watches it. fail is called when a process
// dies that should not.
func (d *demo) start(ctx context.Context, fail context.CancelCauseFunc) (err error) {
	starting, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	d.rec = newRecorder(len(d.in.airports), d.begun)
	d.stream = &stream{in: d.in, concurrency: d.concurrency, rec: d.rec}
	d.progress = &progress{
		out: d.stderr, terminal: d.terminal, begun: d.begun,
		total: d.stream.total(), done: d.stream.done.Load,
		retried: func() int64 { return d.rec.retries() + d.resent.count.Load() },
	}
	d.progress.say("%s: %s flights, %d airports, %d routes; starting %d coordinators, %d regions, %d gateways",
		filepath.Base(d.in.name), humanize.Comma(int64(len(d.in.flights))), len(d.in.airports), len(d.in.routes), coordinators, regions, gateways)
	bin, err := d.binaries()
	if err != nil {
		return err
	}
	d.cluster, err = cluster.Start(starting, cluster.Options{
		Name: "flights", Coordinators: coordinators, Regions: regions, Gateways: gateways, Dir: d.dir,
		BinDir: bin, RegionBinary: filepath.Join(bin, "flights-region"), LogLevel: "warn",
		Args:    map[string][]string{cluster.Coordinator: {fmt.Sprintf("--coordinator.min_regions=%d", regions)}},
		Changed: func(p cluster.Process) { watchDeaths(p, fail) },
	})
	if err != nil {
		return err
	}
	if err := d.cluster.Ready(starting); err != nil {
		return err
	}
	d.table = newTable(adminclient.New(d.cluster.Admin()...))
	d.resent = newResent(d.cluster.Processes())
	d.stream.via, err = newClient(d.cluster.Gateways(), d.concurrency)
	d.progress.say("ready; gateways: %s", strings.Join(d.cluster.Gateways(), " "))
	return err
}

// binaries returns the directory of the services.
func (d *demo) binaries() (string, error) {
	if d.bin != "" {
		return d.bin, nil
	}
	self, err := os.Executable()
	return filepath.Dir(self), err
}

// watchDeaths ends the run when a process dies unexpectedly.
func watchDeaths(p cluster.Process, fail context.CancelCauseFunc) {
	if p.State == cluster.Died {
		lines := append([]string{fmt.Sprintf("%s died (%s):", p.Name, p.Reason)}, p.LastLines...)
		fail(errors.New(strings.Join(lines, "\n  ")))
	}
}

// carry sends all commands while faults are injected.
func (d *demo) carry(ctx context.Context) error {
	watching, stopWatching := context.WithCancel(ctx)
	var watchers errgroup.Group
	watchers.Go(func() error { d.table.watch(watching); return nil })
	watchers.Go(func() error { d.resent.watch(watching); return nil })
	shown := make(chan struct{})
	watchers.Go(func() error { d.progress.show(shown); return nil })

	f := &faults{cluster: d.cluster, table: d.table, rec: d.rec, say: d.progress.say}
	var steps []step
	if d.faults == "all" {
		steps = f.steps()
	}
	begun := time.Now()
	work, inner := errgroup.WithContext(ctx)
	work.Go(func() error { return play(inner, steps, d.stream) })
	work.Go(func() error {
		err := d.stream.run(inner)
		d.report.StreamSeconds = time.Since(begun).Seconds()
		return err
	})
	err := work.Wait()
	close(shown)
	stopWatching()
	_ = watchers.Wait()
	d.report.Moving = f.moving
	return err
}

// verify reads all totals back and writes the files. Unequal totals are not an error here.
func (d *demo) verify(ctx context.Context) error {
	d.progress.say("reading back the totals of %d airports and %d routes", len(d.in.airports), len(d.in.routes))
	// Another client, with connections that no fault has affected.
	via, err := client.New(d.cluster.Gateways())
	if err != nil {
		return err
	}
	got, err := readTotals(ctx, via, d.in)
	if err != nil {
		return err
	}
	_, _ = d.table.look(ctx)
	d.resent.look(ctx)
	d.report.judge(d.in, got)
	if d.totals != "" {
		err = writeAirports(d.totals, d.in, got)
	}
	if d.routes != "" {
		err = errors.Join(err, writeRoutes(d.routes, d.in, got))
	}
	return err
}

// close ends all processes.
func (d *demo) close(ctx context.Context) error {
	if d.cluster == nil {
		return nil
	}
	wait := closeWait
	if ctx.Err() != nil {
		wait = urgentCloseWait
	}
	closing, cancel := context.WithTimeout(d.now, wait)
	defer cancel()
	err := d.cluster.Close(closing)
	if closing.Err() != nil {
		return nil // killing the rest is intended
	}
	return err
}

// finish prints and writes the report.
func (d *demo) finish() error {
	r := &d.report
	r.File, r.Digest, r.Flights, r.Commands = d.in.name, d.in.digest, len(d.in.flights), d.stream.total()
	r.Airports, r.Routes, r.Faults, r.Concurrency = len(d.in.airports), len(d.in.routes), d.faults, d.concurrency
	r.Resent = d.resent.count.Load()
	r.Seconds, r.Moved = time.Since(d.begun).Seconds(), d.table.moves()
	if r.StreamSeconds > 0 {
		r.PerSecond = float64(r.Commands) / r.StreamSeconds
	}
	r.fill(d.rec, d.in, d.begun)
	r.print(d.stdout)
	if d.options.report != "" {
		if err := writeReport(d.options.report, r); err != nil {
			return err
		}
	}
	if !r.Equal {
		return errUnequal
	}
	return nil
}
