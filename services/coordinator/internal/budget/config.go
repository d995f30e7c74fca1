package budget

import (
	"time"
)

// Config has the settings of a [Budget]. Every field except MaxHandoffsPerRegion and MaxMovesPerMinute must be set.
type Config struct {
	// MaxHandoffs bounds the shards that are handed off at the same time, in the
	// whole cluster. Default 256: as many as a rebalance round moves.
	MaxHandoffs int `key:"allocation.max_handoffs" unit:"shards" range:"1.." help:"the most shards that are handed off at a time in the whole cluster, whatever the reason. Further handoffs wait"`
	// MaxHandoffsPerRegion bounds the shards that one region hands off at the same time. It
	// also bounds the shards that are handed off to one region at the same time. Shards of a
	// region that leaves are exempt. 0: no limit. Default 0: a region hands off hundreds of
	// shards in less than a second.
	MaxHandoffsPerRegion int `key:"allocation.max_handoffs_per_region" unit:"shards" range:"0.." help:"the most shards that one region hands off at a time, and the most shards that are handed off to one region at a time. Shards of a region that leaves are exempt. 0: not limited" expert:"true"`
	// MaxMovesPerMinute bounds the voluntary moves that begin within any minute. 0: no
	// limit. Default 0: the brake finds out how many moves the users can bear.
	MaxMovesPerMinute int `key:"allocation.max_moves_per_minute" unit:"shards" range:"0..100000" why:"the time of each voluntary move is remembered for a minute" help:"the most voluntary moves of shards that begin within any minute. A move is voluntary if its reason is balance, load, a pin, a capacity, a zone or roost shard move. 0: not limited" expert:"true"`
	// Brake is true if the coordinator holds voluntary moves back while commands are slow. Default
	// true.
	Brake bool `key:"allocation.brake" help:"whether the coordinator holds voluntary moves back while commands are much slower than usual. See docs/running/placement.md"`
	// BrakeWindow is the length of a window. In a window, the coordinator gathers the latencies
	// that gateways report; at its end, it judges them. Default 5 s: a window has a few hundred
	// commands even if there are few users. With two BrakeWindows, moves stop ten to fifteen
	// seconds after they have begun to slow commands down.
	BrakeWindow time.Duration `key:"allocation.brake_window" range:">0" help:"length of a window. For this time, the coordinator gathers the latencies that gateways report; then it judges whether commands are slow. roost cluster status shows the latencies of a window" expert:"true"`
	// BrakeWindows is the number of slow windows in a row that stop the moves. Default 2: a single
	// slow window may be an accident.
	BrakeWindows int `key:"allocation.brake_windows" unit:"windows" range:"1.." help:"number of slow windows in a row after which the coordinator stops voluntary moves" expert:"true"`
	// BrakeSamples is the number of latencies that a window must have to be slow, or to change the
	// baseline. Default 200: two of 200 latencies are above the p99.
	BrakeSamples int `key:"allocation.brake_samples" unit:"commands" range:"1.." help:"the fewest commands that a window must have. A window with fewer commands is never slow, and does not change the usual p99" expert:"true"`
	// A window is slow if its p99 is at least BrakeFactor times the baseline, and exceeds the
	// baseline by at least BrakeExcess. Defaults 2 and 50 ms: smaller differences are the noise of
	// a quick cluster, and users do not notice them.
	BrakeFactor float64       `key:"allocation.brake_factor" range:">1..1000" why:"usual latencies are not slow" help:"a window is slow only if the p99 of its commands is at least this many times the usual p99; see also allocation.brake_excess" expert:"true"`
	BrakeExcess time.Duration `key:"allocation.brake_excess" range:">0" help:"a window is slow only if the p99 of its commands is above the usual p99 by at least this time; see also allocation.brake_factor" expert:"true"`
	// BrakePause is the time from the stop to the next move. With this move, the coordinator
	// finds out whether moves slow commands down. Default 30 s: by then, the effects of the last
	// moves are over.
	BrakePause time.Duration `key:"allocation.brake_pause" range:">0" help:"pause of voluntary moves before the coordinator tries one move. If that move does not slow commands down, further moves follow at half the rate" expert:"true"`
	// BrakeRise is the approximate number of windows until the baseline has risen to a larger p99.
	// BrakeFall is the approximate number of windows until the baseline has fallen to a smaller
	// p99. Defaults 8 and 2: the baseline soon returns to what was once usual.
	BrakeRise int `key:"allocation.brake_rise" unit:"windows" range:"1.." help:"approximate number of windows until the usual p99 has risen to a larger p99" expert:"true"`
	BrakeFall int `key:"allocation.brake_fall" unit:"windows" range:"1.." help:"approximate number of windows until the usual p99 has fallen to a smaller p99" expert:"true"`
	// MaxGateways bounds the gateways that are listed. Default 1024: these take some 1.5 MB. The
	// latencies of further gateways still count.
	MaxGateways int `range:"1.."`
	// GatewayForgotten is the time that a gateway is listed after its last card. Default 30 s.
	GatewayForgotten time.Duration `range:">0"`
}

// DefaultConfig returns the defaults named at the fields.
func DefaultConfig() Config {
	return Config{
		MaxHandoffs:      256,
		Brake:            true,
		BrakeWindow:      5 * time.Second,
		BrakeWindows:     2,
		BrakeSamples:     200,
		BrakeFactor:      2,
		BrakeExcess:      50 * time.Millisecond,
		BrakePause:       30 * time.Second,
		BrakeRise:        8,
		BrakeFall:        2,
		MaxGateways:      1024,
		GatewayForgotten: 30 * time.Second,
	}
}
