// Package flights has the entities of the flights demonstration: airports and
// routes that count what happens at them.
//
// An [Airport] counts departures and arrivals, a [Route] counts flights. Both are
// event-sourced: their state is the sum of their events.
//
//	_, err := flights.Depart.Ask(ctx, client, "PHX", flights.Departure{Delay: 14}, entity.Key(key))
//	totals, err := flights.AirportTotals.Ask(ctx, client, "PHX", flights.Nothing{})
//
// # What this does not do
//
// The entities know flights only by the idempotency keys of their commands: a flight that is
// sent under two keys counts twice. They do not check that what departed arrives.
package flights

import "github.com/roost-cluster/roost/sdk/entity"

// snapshotEvery is after how many events the state of an entity is stored. A demonstration
// that is run again loads often, because a repeated command of an earlier incarnation makes
// its entity load again. Measured: such a run takes a third less processor time with 100
// than with 500; 50 or 20 gain little more. A first run shows no difference.
const snapshotEvery = 100

// Nothing is the input of commands that need none, and the reply of commands that return
// nothing.
type Nothing struct{}

// Commands of an airport, whose id is its code, such as "PHX".
var (
	Depart        = entity.Command[Departure, Nothing]("Airport", "Depart")
	Arrive        = entity.Command[Nothing, Nothing]("Airport", "Arrive")
	AirportTotals = entity.Command[Nothing, AirportCount]("Airport", "Totals", entity.ReadOnly())
)

// Commands of a route, whose id is made by [RouteID].
var (
	Fly         = entity.Command[Leg, Nothing]("Route", "Fly")
	RouteTotals = entity.Command[Nothing, RouteCount]("Route", "Totals", entity.ReadOnly())
)

// Entity types, for the main of a region.
var (
	Airports = entity.Define("Airport", func(string) *Airport { return &Airport{} },
		entity.On(Depart, (*Airport).Depart),
		entity.On(Arrive, (*Airport).Arrive),
		entity.On(AirportTotals, (*Airport).Totals),
		entity.Event("Departed", func(a *Airport, e Departed) {
			a.Departures++
			a.DepartureDelayMinutes += e.Delay
		}),
		entity.Event("Arrived", func(a *Airport, _ Arrived) { a.Arrivals++ }),
		entity.With[Airport](entity.SnapshotEvery(snapshotEvery)),
	)

	Routes = entity.Define("Route", func(string) *Route { return &Route{} },
		entity.On(Fly, (*Route).Fly),
		entity.On(RouteTotals, (*Route).Totals),
		entity.Event("Flown", func(r *Route, e Flown) {
			r.Flights++
			r.Miles += e.Miles
		}),
		entity.With[Route](entity.SnapshotEvery(snapshotEvery)),
	)
)

// RouteID returns the id of the route between two airports, such as "ORD-LAX".
func RouteID(origin, destination string) string { return origin + "-" + destination }

// AirportCount holds the counts of an airport.
type AirportCount struct {
	Departures int64 `json:"departures"`
	Arrivals   int64 `json:"arrivals"`
	// DepartureDelayMinutes is the sum over all departures; early ones count
	// below zero.
	DepartureDelayMinutes int64 `json:"departure_delay_minutes"`
}

// Airport counts departures and arrivals.
type Airport struct{ AirportCount }

// Departure is the input of Depart.
type Departure struct {
	// Delay in minutes; negative: early.
	Delay int64 `json:"delay"`
}

// Departed is the event of a departure.
type Departed struct {
	Delay int64 `json:"delay"`
}

// Arrived is the event of an arrival.
type Arrived struct{}

// Depart counts a departure.
func (a *Airport) Depart(ctx *entity.Ctx, in Departure) (Nothing, error) {
	ctx.Persist(Departed(in))
	return Nothing{}, nil
}

// Arrive counts an arrival.
func (a *Airport) Arrive(ctx *entity.Ctx, _ Nothing) (Nothing, error) {
	ctx.Persist(Arrived{})
	return Nothing{}, nil
}

// Totals returns what the airport has counted.
func (a *Airport) Totals(*entity.Ctx, Nothing) (AirportCount, error) { return a.AirportCount, nil }

// RouteCount holds the counts of a route.
type RouteCount struct {
	Flights int64 `json:"flights"`
	Miles   int64 `json:"miles"`
}

// Route counts flights and miles.
type Route struct{ RouteCount }

// Leg is the input of Fly.
type Leg struct {
	Miles int64 `json:"miles"`
}

// Flown is the event of a flight.
type Flown struct {
	Miles int64 `json:"miles"`
}

// Fly counts a flight. Miles below zero are refused.
func (r *Route) Fly(ctx *entity.Ctx, in Leg) (Nothing, error) {
	if in.Miles < 0 {
		return Nothing{}, entity.Errorf(entity.InvalidArgument, "%d miles: a flight cannot be shorter than 0", in.Miles)
	}
	ctx.Persist(Flown(in))
	return Nothing{}, nil
}

// Totals returns what the route has counted.
func (r *Route) Totals(*entity.Ctx, Nothing) (RouteCount, error) { return r.RouteCount, nil }
