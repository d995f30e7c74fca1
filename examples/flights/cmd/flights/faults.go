package main

import (
	"context"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/cli/cluster"
)

const (
	// stepPoll is how often a fault checks whether its time has come.
	stepPoll = 10 * time.Millisecond
	// startWait bounds how long a started process may need until it serves, and
	// stopWait how long a region may take to hand its shards off; both many
	// times what a loaded machine needs.
	startWait = 30 * time.Second
	stopWait  = 40 * time.Second
)

// step is one thing that is done to the cluster.
type step struct {
	// begin is the share of all commands after which it begins. No command
	// beyond the share hold is sent before it has been done.
	begin, hold float64
	do          func(context.Context) error
}

// play does the steps one after the other, and lets the stream run as far as
// they allow.
func play(ctx context.Context, steps []step, s *stream) error {
	poll := time.NewTicker(stepPoll)
	defer poll.Stop()
	for _, step := range steps {
		s.gate.open(int64(step.hold * float64(s.total())))
		for s.done.Load() < int64(step.begin*float64(s.total())) {
			select {
			case <-poll.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err := step.do(ctx); err != nil {
			return err
		}
	}
	s.gate.open(s.total())
	return nil
}

// faults does bad things to a cluster.
type faults struct {
	cluster *cluster.Cluster
	table   *table
	rec     *recorder
	say     func(format string, args ...any)
	// moving is how many shards were on their way when the coordinator was
	// killed.
	moving int
	killed string // the coordinator
}

// steps is the plan: a region is killed at a third and comes back; a region is
// added at two thirds and the active coordinator killed while shards move to it,
// and that comes back; near the end a region is stopped in order.
func (f *faults) steps() []step {
	return []step{
		{1. / 3, 0.36, func(context.Context) error { return f.kill("region-2") }},
		{0.45, 0.55, func(ctx context.Context) error { return f.restart(ctx, "region-2") }},
		{2. / 3, 0.80, f.killDuringRebalance},
		{0.82, 0.88, func(ctx context.Context) error { return f.restart(ctx, f.killed) }},
		{0.92, 0.97, func(ctx context.Context) error { return f.stop(ctx, "region-1") }},
	}
}

// note begins a fault: from here on it answers for what stalls.
func (f *faults) note(what string) {
	f.rec.fault(what, time.Now())
	f.say("%s", what)
}

func (f *faults) kill(name string) error {
	f.note("SIGKILL " + name)
	return f.cluster.Kill(name)
}

func (f *faults) restart(ctx context.Context, name string) error {
	f.note("start " + name + " again")
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	if err := f.cluster.Restart(ctx, name); err != nil {
		return err
	}
	return f.cluster.Ready(ctx, name)
}

func (f *faults) killDuringRebalance(ctx context.Context) error {
	f.table.settled(ctx) // Moves of an earlier fault are not those that are wanted.
	active, term, err := f.cluster.Active(ctx)
	if err != nil {
		return err
	}
	f.note("add a region")
	name, err := f.cluster.AddRegion(ctx)
	if err != nil {
		return err
	}
	f.moving = f.table.rebalance(ctx, name)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f.killed = active
	during := fmt.Sprintf("while %d shards move to %s", f.moving, name)
	if f.moving == 0 {
		during = "though no shard moves to " + name
	}
	f.note(fmt.Sprintf("SIGKILL %s, active in term %d, %s", active, term, during))
	return f.cluster.Kill(active)
}

// stop ends a process in order, which must be how it ends.
func (f *faults) stop(ctx context.Context, name string) error {
	f.note("SIGTERM " + name)
	stopping, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	if err := f.cluster.Stop(stopping, name); err != nil {
		return err
	}
	for _, p := range f.cluster.Processes() {
		if p.Name == name && p.Reason != "exit status 0" {
			return fmt.Errorf("%s did not stop in order: %s; see %s", name, p.Reason, p.Log)
		}
	}
	f.say("%s has handed its shards off and ended with %s", name, "exit status 0")
	return nil
}
