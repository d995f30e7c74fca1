package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/roost-cluster/roost/examples/flights"
	"github.com/roost-cluster/roost/sdk/entity"
)

// readers is the number of totals that are read at a time.
const readers = 32

// totals are the counts of the entities, by the indexes of the input.
type totals struct {
	airports []flights.AirportCount
	routes   []flights.RouteCount
}

// readTotals asks every airport and every route of the input.
func readTotals(ctx context.Context, via entity.Caller, in *input) (*totals, error) {
	out := &totals{make([]flights.AirportCount, len(in.airports)), make([]flights.RouteCount, len(in.routes))}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for i, id := range in.airports {
		group.Go(func() (err error) {
			out.airports[i], err = ask(ctx, flights.AirportTotals, via, id)
			return err
		})
	}
	for i, id := range in.routes {
		group.Go(func() (err error) {
			out.routes[i], err = ask(ctx, flights.RouteTotals, via, id)
			return err
		})
	}
	return out, group.Wait()
}

func ask[T any](ctx context.Context, totals *entity.Handle[flights.Nothing, T], via entity.Caller, id string) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	for {
		got, err := totals.Call(ctx, via, id, flights.Nothing{})
		if err == nil {
			return got, nil
		}
		if ctx.Err() != nil || !retryable(err) {
			return got, fmt.Errorf("the totals of %s could not be read within %s: %w", id, time.Since(began).Round(time.Millisecond), err)
		}
	}
}

// difference is a total that differs from the direct count.
type difference struct {
	Entity string `json:"entity"`
	Want   any    `json:"want"`
	Got    any    `json:"got"`
}

// compare returns every difference between the direct count and the entities.
func compare(in *input, got *totals) []difference {
	found := []difference{}
	for i, want := range in.airportCounts {
		if got.airports[i] != want {
			found = append(found, difference{"Airport " + in.airports[i], want, got.airports[i]})
		}
	}
	for i, want := range in.routeCounts {
		if got.routes[i] != want {
			found = append(found, difference{"Route " + in.routes[i], want, got.routes[i]})
		}
	}
	return found
}
