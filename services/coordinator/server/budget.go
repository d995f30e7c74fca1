package server

import (
	"errors"
	"fmt"
	"math"
	"time"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// Budget limits how many shards may move at a time. The brake stops voluntary moves while commands
// are slow.
type Budget struct {
	MaxHandoffs          int           `key:"allocation.max_handoffs" unit:"shards" help:"the most shards that are handed off at a time in the whole cluster, whatever the reason. Further handoffs wait"`
	MaxHandoffsPerRegion int           `key:"allocation.max_handoffs_per_region" unit:"shards" help:"the most shards that one region hands off at a time, and the most shards that are handed off to one region at a time. Shards of a region that leaves are exempt. 0: not limited"`
	MaxMovesPerMinute    int           `key:"allocation.max_moves_per_minute" unit:"shards" help:"the most voluntary moves of shards that begin within any minute. A move is voluntary if its reason is balance, load, a pin, a capacity, a zone or roost shard move. 0: not limited"`
	Brake                bool          `key:"allocation.brake" help:"whether the coordinator holds voluntary moves back while commands are much slower than usual. See docs/placement.md"`
	BrakeWindow          time.Duration `key:"allocation.brake_window" help:"length of a window. For this time, the coordinator gathers the latencies that gateways report; then it judges whether commands are slow. roost cluster status shows the latencies of a window"`
	BrakeWindows         int           `key:"allocation.brake_windows" unit:"windows" help:"number of slow windows in a row after which the coordinator stops voluntary moves"`
	BrakeSamples         int           `key:"allocation.brake_samples" unit:"commands" help:"the fewest commands that a window must have. A window with fewer commands is never slow, and does not change the usual p99"`
	BrakeFactor          float64       `key:"allocation.brake_factor" help:"a window is slow only if the p99 of its commands is at least this many times the usual p99; see also allocation.brake_excess"`
	BrakeExcess          time.Duration `key:"allocation.brake_excess" help:"a window is slow only if the p99 of its commands is above the usual p99 by at least this time; see also allocation.brake_factor"`
	BrakePause           time.Duration `key:"allocation.brake_pause" help:"time for which voluntary moves are stopped before the coordinator tries one move. If that move does not slow commands down, further moves follow at half the rate"`
	BrakeRise            int           `key:"allocation.brake_rise" unit:"windows" help:"approximate number of windows until the usual p99 has risen to a larger p99"`
	BrakeFall            int           `key:"allocation.brake_fall" unit:"windows" help:"approximate number of windows until the usual p99 has fallen to a smaller p99"`
}

// defaultBudget returns the budget of the core's default configuration.
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

// maxMovesPerMinute is the largest MaxMovesPerMinute. The core remembers the time of each voluntary
// move for a minute.
const maxMovesPerMinute = 100_000

// validate returns an error that names every key with an unusable value.
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
		State: b.State.String(), Part: uint32(b.Part), SinceUnixMs: unixMs(b.Since), NextUnixMs: unixMs(b.Next), Probes: uint32(b.Trials),
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
