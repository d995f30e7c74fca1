package main

import (
	"context"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/cli/cluster"
)

const (
	// stepPoll is the interval at which a fault checks whether its time has come.
	stepPoll = 10 * time.Millisecond
	// startWait bounds how long a started process may take until it is ready, and stopWait
	// how long a region may take to hand its shards off. Both are many times what a loaded
	// machine needs.
	startWait = 30 * time.Second
	stopWait  = 40 * time.Second
)

// step is one fault.
type step struct {
	// begin is the share of all commands after which it begins. No command beyond the share
	// hold is sent before it is done.
	begin, hold float64
	do          func(context.Context) error
}

// play runs the steps one after the other, and lets the stream continue as far as they
// allow.
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

// faults injects faults into a cluster.
type faults struct {
	cluster *cluster.Cluster
	table   *table
	rec     *recorder
	say     func(format string, args ...any)
	// moving is the number of shards that were moving when the coordinator was killed.
	moving int
	killed string // the coordinator
}

// steps returns the plan. A region is killed at a third and started again. At two thirds a
// region is added, the active coordinator is killed while shards move to it, and started
// again. Near the end a region is stopped by SIGTERM.
func (f *faults) steps() []step {
	return []step{
		{1. / 3, 0.36, func(context.Context) error { return f.kill("region-2") }},
		{0.45, 0.55, func(ctx context.Context) error { return f.restart(ctx, "region-2") }},
		{2. / 3, 0.80, f.killDuringRebalance},
		{0.82, 0.88, func(ctx context.Context) error { return f.restart(ctx, f.killed) }},
		{0.92, 0.97, func(ctx context.Context) error { return f.stop(ctx, "region-1") }},
	}
}

// note records the beginning of a fault. Stalls are attributed to it from here on.
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
	f.table.settled(ctx) // moves of an earlier fault do not count
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

// stop stops a process by SIGTERM. It must end with exit status 0.
func (f *faults) stop(ctx context.Context, name string) error {
	f.note("SIGTERM " + name)
	stopping, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	if err := f.cluster.Stop(stopping, name); err != nil {
		return err
	}
	for _, p := range f.cluster.Processes() {
		if p.Name == name && p.Reason != "exit status 0" {
			return fmt.Errorf("%s did not stop gracefully: %s; see %s", name, p.Reason, p.Log)
		}
	}
	f.say("%s has handed its shards off and ended with %s", name, "exit status 0")
	return nil
}
