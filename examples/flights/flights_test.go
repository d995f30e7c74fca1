package flights_test

import (
	"context"
	"testing"

	"github.com/roost-cluster/roost/examples/flights"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/sdk/entitytest"
)

func TestAirportCountsDeparturesAndArrivals(t *testing.T) {
	k, ctx := entitytest.New(t, flights.Airports), context.Background()
	for key, delay := range map[string]int64{"a": 14, "b": -20, "c": 0} {
		for range 2 { // the second one is a repeat, and is not counted
			if _, err := flights.Depart.Call(ctx, k, "PHX", flights.Departure{Delay: delay}, entity.Key(key)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := flights.Arrive.Call(ctx, k, "PHX", flights.Nothing{}, entity.Key("d")); err != nil {
		t.Fatal(err)
	}
	k.Restart()
	got, err := flights.AirportTotals.Call(ctx, k, "PHX", flights.Nothing{})
	if want := (flights.AirportCount{Departures: 3, Arrivals: 1, DepartureDelayMinutes: -6}); err != nil || got != want {
		t.Errorf("PHX has %+v, %v; want %+v", got, err, want)
	}
	got, err = flights.AirportTotals.Call(ctx, k, "LAX", flights.Nothing{})
	if err != nil || got != (flights.AirportCount{}) {
		t.Errorf("LAX has %+v, %v; want nothing", got, err)
	}
}

func TestRouteCountsFlightsAndMiles(t *testing.T) {
	k, ctx := entitytest.New(t, flights.Routes), context.Background()
	id := flights.RouteID("ORD", "LAX")
	for _, miles := range []int64{1745, 0} {
		if _, err := flights.Fly.Call(ctx, k, id, flights.Leg{Miles: miles}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := flights.Fly.Call(ctx, k, id, flights.Leg{Miles: -1}); entity.CodeOf(err) != entity.InvalidArgument {
		t.Errorf("miles below zero: %v; want %s", err, entity.InvalidArgument)
	}
	k.Entity(flights.Routes, "ORD-LAX").WantEvents(flights.Flown{Miles: 1745}, flights.Flown{Miles: 0})
	got, err := flights.RouteTotals.Call(ctx, k, id, flights.Nothing{})
	if want := (flights.RouteCount{Flights: 2, Miles: 1745}); err != nil || got != want {
		t.Errorf("%s has %+v, %v; want %+v", id, got, err, want)
	}
}

func TestSnapshotsReplaceEvents(t *testing.T) {
	k, ctx := entitytest.New(t, flights.Airports, flights.Routes), context.Background()
	const n = 1203
	for range n {
		if _, err := flights.Depart.Call(ctx, k, "LAS", flights.Departure{Delay: 2}); err != nil {
			t.Fatal(err)
		}
		if _, err := flights.Fly.Call(ctx, k, "LAS-PHX", flights.Leg{Miles: 256}); err != nil {
			t.Fatal(err)
		}
	}
	k.Restart()
	a, err := flights.AirportTotals.Call(ctx, k, "LAS", flights.Nothing{})
	if err != nil || a.Departures != n || a.DepartureDelayMinutes != 2*n {
		t.Errorf("LAS has %+v, %v", a, err)
	}
	r, err := flights.RouteTotals.Call(ctx, k, "LAS-PHX", flights.Nothing{})
	if err != nil || r.Flights != n || r.Miles != 256*n {
		t.Errorf("LAS-PHX has %+v, %v", r, err)
	}
}

// TestSchema: stored data stays readable.
func TestSchema(t *testing.T) { entitytest.Schema(t, flights.Airports, flights.Routes) }
