package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/roost-cluster/roost/examples/flights"
	"github.com/roost-cluster/roost/sdk/client"
	"github.com/roost-cluster/roost/sdk/entity"
)

const (
	// patience bounds the retries of a command before the demonstration gives up, far longer than any
	// failover.
	patience = 60 * time.Second
	// attemptTime is the timeout of one attempt, with the client's own repeats. After that
	// the command is sent again with the same key. It is longer than the timeout of a
	// handoff.
	attemptTime = 15 * time.Second
	// attemptPause is the pause between two attempts. The client pauses itself, except after
	// errors that it does not retry.
	attemptPause = 50 * time.Millisecond
	// legs is the number of commands for a flight.
	legs = 3
)

// legNames are part of the idempotency keys: they must never change.
var legNames = [legs]string{"depart", "arrive", "fly"}

// stream sends the commands of all flights, in the order of the file, each at
// most once at a time. Command i is leg i%3 of flight i/3.
type stream struct {
	in          *input
	via         entity.Caller
	concurrency int
	rec         *recorder

	next atomic.Int64 // the command to send next
	done atomic.Int64 // commands that succeeded
	gate gate
}

func (s *stream) total() int64 { return legs * int64(len(s.in.flights)) }

// run sends everything. It ends with the first error.
func (s *stream) run(ctx context.Context) error {
	workers, ctx := errgroup.WithContext(ctx)
	for range s.concurrency {
		workers.Go(func() error {
			for {
				i := s.next.Add(1) - 1
				if i >= s.total() {
					return nil
				}
				if err := s.gate.pass(ctx, i); err != nil {
					return err
				}
				if err := s.carry(ctx, i); err != nil {
					return err
				}
			}
		})
	}
	return workers.Wait()
}

// carry sends one command until it has succeeded.
func (s *stream) carry(ctx context.Context, i int64) error {
	f, leg := &s.in.flights[i/legs], int(i%legs)
	airport := [legs]int32{f.origin, f.destination, -1}[leg]
	began := time.Now()
	s.rec.begin(airport, began)
	for {
		err := s.attempt(ctx, f, leg)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !retryable(err) || time.Since(began) > patience {
			return fmt.Errorf("%s:%d: %s was not carried after %s: %w",
				s.in.name, f.line, legNames[leg], time.Since(began).Round(time.Millisecond), err)
		}
		pause := time.NewTimer(attemptPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
	s.rec.done(airport, began, time.Now())
	s.done.Add(1)
	return nil
}

// attempt sends a command once; the client itself repeats what it can. Every error is counted
// once.
func (s *stream) attempt(ctx context.Context, f *flight, leg int) error {
	var seen error
	ctx = client.WithObserver(ctx, func(r client.Attempt) {
		seen = r.Err
		s.rec.retry(string(entity.CodeOf(r.Err)))
	})
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	err := s.send(ctx, f, leg)
	if err != nil && err != seen {
		s.rec.retry(string(entity.CodeOf(err)))
	}
	return err
}

func (s *stream) send(ctx context.Context, f *flight, leg int) (err error) {
	key := entity.Key(s.in.digest + "-" + strconv.Itoa(int(f.line)) + "-" + legNames[leg])
	switch leg {
	case 0:
		_, err = flights.Depart.Call(ctx, s.via, s.in.airports[f.origin], flights.Departure{Delay: int64(f.delay)}, key)
	case 1:
		_, err = flights.Arrive.Call(ctx, s.via, s.in.airports[f.destination], flights.Nothing{}, key)
	default:
		_, err = flights.Fly.Call(ctx, s.via, s.in.routes[f.route], flights.Leg{Miles: int64(f.distance)}, key)
	}
	return err
}

// again reports whether an error may be transient. A refusal of the command itself is not.
func retryable(err error) bool {
	switch entity.CodeOf(err) {
	case entity.InvalidArgument, entity.AlreadyExists, entity.PermissionDenied,
		entity.FailedPrecondition, entity.OutOfRange, entity.Unimplemented:
		return false
	}
	return true
}

// newClient spreads calls over the gateways, on connections that stay open.
func newClient(gateways []string, concurrency int) (*client.Client, error) {
	return client.New(gateways, client.HTTP(&http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: concurrency, IdleConnTimeout: 90 * time.Second, DisableCompression: true,
		DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
	}}))
}

// gate holds commands back until the faults before them have happened, so that all happen
// even with a small file. The zero gate holds back everything.
type gate struct {
	mu     sync.Mutex
	limit  int64 // commands below it may pass
	opened chan struct{}
}

// open lets commands below limit pass.
func (g *gate) open(limit int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit = max(g.limit, limit)
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

// pass returns when command i may be sent, or ctx ends.
func (g *gate) pass(ctx context.Context, i int64) error {
	for {
		g.mu.Lock()
		if i < g.limit {
			g.mu.Unlock()
			return ctx.Err()
		}
		if g.opened == nil {
			g.opened = make(chan struct{})
		}
		opened := g.opened
		g.mu.Unlock()
		select {
		case <-opened:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
