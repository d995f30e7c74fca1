package server

import (
	"errors"
	"fmt"
	"math"
	"time"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// Budget says how many shards may move at a time, and what holds them back.
type Budget struct {
	MaxHandoffs          int           `key:"allocation.max_handoffs" unit:"shards" help:"shards that are handed off at a time in the whole cluster, for whatever reason"`
	MaxHandoffsPerRegion int           `key:"allocation.max_handoffs_per_region" unit:"shards" help:"shards that one region hands off at a time, and that are handed off to one region, unless their region leaves; 0: no limit"`
	MaxMovesPerMinute    int           `key:"allocation.max_moves_per_minute" unit:"shards" help:"shards that begin to move voluntarily within any minute: for balance, load, pins, capacities and zones, and by roost move; 0: no limit"`
	Brake                bool          `key:"allocation.brake" help:"hold voluntary moves back while commands are much slower than usual; see docs/placement.md"`
	BrakeWindow          time.Duration `key:"allocation.brake_window" help:"how long what gateways say of their commands is gathered before it is judged, and shown by roost members"`
	BrakeWindows         int           `key:"allocation.brake_windows" unit:"windows" help:"slow windows in a row after which moves are stopped"`
	BrakeSamples         int           `key:"allocation.brake_samples" unit:"commands" help:"commands that a window must have to be slow, or to say what is usual"`
	BrakeFactor          float64       `key:"allocation.brake_factor" help:"a window is slow if the p99 of its commands is at least so many times the usual one"`
	BrakeExcess          time.Duration `key:"allocation.brake_excess" help:"and if it is above the usual one by at least this time"`
	BrakePause           time.Duration `key:"allocation.brake_pause" help:"time for which moves are stopped before one is tried; if it makes nothing worse, others follow at half the rate"`
	BrakeRise            int           `key:"allocation.brake_rise" unit:"windows" help:"windows in which the usual p99 follows a larger one, about"`
	BrakeFall            int           `key:"allocation.brake_fall" unit:"windows" help:"windows in which it follows a smaller one, about"`
}

// defaultBudget is that of the core.
func defaultBudget() Budget {
	c := coordinator.DefaultConfig()
	return Budget{
		MaxHandoffs: c.MaxHandoffs, MaxHandoffsPerRegion: c.MaxHandoffsPerRegion, MaxMovesPerMinute: c.MaxMovesPerMinute,
		Brake: c.Brake, BrakeWindow: c.BrakeWindow, BrakeWindows: c.BrakeWindows, BrakeSamples: c.BrakeSamples,
		BrakeFactor: c.BrakeFactor, BrakeExcess: c.BrakeExcess, BrakePause: c.BrakePause, BrakeRise: c.BrakeRise, BrakeFall: c.BrakeFall,
	}
}

// set gives the core the budget.
func (b *Budget) set(c *coordinator.Config) {
	c.MaxHandoffs, c.MaxHandoffsPerRegion, c.MaxMovesPerMinute = b.MaxHandoffs, b.MaxHandoffsPerRegion, b.MaxMovesPerMinute
	c.Brake, c.BrakeWindow, c.BrakeWindows, c.BrakeSamples = b.Brake, b.BrakeWindow, b.BrakeWindows, b.BrakeSamples
	c.BrakeFactor, c.BrakeExcess, c.BrakePause, c.BrakeRise, c.BrakeFall = b.BrakeFactor, b.BrakeExcess, b.BrakePause, b.BrakeRise, b.BrakeFall
	c.GatewayForgotten = max(c.GatewayForgotten, 2*b.BrakeWindow)
}

// maxMovesPerMinute is the largest MaxMovesPerMinute: the time of each such move is remembered.
const maxMovesPerMinute = 100_000

// validate names every key that makes no sense.
func (b *Budget) validate() error {
	var errs []error
	for _, f := range []struct {
		key                string
		value, least, most int
	}{
		{"max_handoffs", b.MaxHandoffs, 1, math.MaxInt}, {"max_handoffs_per_region", b.MaxHandoffsPerRegion, 0, math.MaxInt},
		{"max_moves_per_minute", b.MaxMovesPerMinute, 0, maxMovesPerMinute},
		{"brake_windows", b.BrakeWindows, 1, math.MaxInt}, {"brake_samples", b.BrakeSamples, 1, math.MaxInt},
		{"brake_rise", b.BrakeRise, 1, math.MaxInt}, {"brake_fall", b.BrakeFall, 1, math.MaxInt},
	} {
		if f.value < f.least || f.value > f.most {
			text := fmt.Sprintf("allocation.%s is %d, must be at least %d", f.key, f.value, f.least)
			if f.most != math.MaxInt {
				text += fmt.Sprintf(" and at most %d", f.most)
			}
			errs = append(errs, errors.New(text))
		}
	}
	if b.BrakeWindow <= 0 || b.BrakeExcess <= 0 || b.BrakePause <= 0 {
		errs = append(errs, errors.New("allocation.brake_window, allocation.brake_excess and allocation.brake_pause must be above 0"))
	}
	if !(b.BrakeFactor > 1 && b.BrakeFactor <= 1000) {
		errs = append(errs, fmt.Errorf("allocation.brake_factor is %v, must be above 1 and at most 1000", b.BrakeFactor))
	}
	return errors.Join(errs...)
}

func toBrake(b coordinator.BrakeView) *adminv1.Brake {
	if b.Since.IsZero() {
		return nil
	}
	return &adminv1.Brake{
		State: b.State.String(), Part: uint32(b.Part), SinceUnixMs: unixMs(b.Since), NextUnixMs: unixMs(b.Next), Probes: uint32(b.Probes),
		SlowUs: b.Slow.Microseconds(), UsualUs: b.Usual.Microseconds(), P99Us: b.P99.Microseconds(), BaselineUs: b.Baseline.Microseconds(), Why: b.Why(),
	}
}

func toGateway(g coordinator.GatewayView) *adminv1.Gateway {
	return &adminv1.Gateway{
		Addr: g.Node.Addr, Uid: fmt.Sprintf("%x", uint64(g.Node.UID)), Management: g.Management, Commands: g.Commands, Refused: g.Refused,
		P50Us: g.P50.Microseconds(), P99Us: g.P99.Microseconds(), HeardUnixMs: unixMs(g.HeardAt),
	}
}

// brakeLog says for the log what the brake does now.
func brakeLog(o coordinator.BrakeChanged) string {
	if why := coordinator.BrakeView(o).Why(); why != "" {
		return why
	}
	return "voluntary moves have the whole budget again"
}
