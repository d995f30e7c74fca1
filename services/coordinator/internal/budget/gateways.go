package budget

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/latency"
	"github.com/roost-cluster/roost/libs/sharding"
)

// A card is a gateway's report about the commands of its clients. Cards are not stored as facts: a
// card describes the last seconds only, and a new coordinator gets new cards soon. Cards are added up
// over a window, which lasts [Config.BrakeWindow].

// gateways holds the reports of all gateways.
type gateways struct {
	list []gateway // sorted by node
	// since is the time when the window began; zero: there is no window, because no gateway is known.
	since time.Time
	all   latency.Histogram // the latencies of this window
}

// gateway is a gateway that has sent cards.
type gateway struct {
	node       sharding.NodeID
	management string
	peers      string
	heardAt    time.Time
	// The sums of the cards of this window.
	span              time.Duration
	commands, refused uint64
	latencies         latency.Histogram
	last              GatewayView // the view of the previous window
}

// GatewayView describes a gateway by its cards of the last whole window.
type GatewayView struct {
	Node sharding.NodeID
	// Management is the gateway's management address, for operators.
	Management string
	// Peers is the address at which the gateway answers other processes by TLS; empty: it does not.
	Peers string
	// Commands is the number of commands that ended per second. Refused is the number of these that were not executed
	// or have an unknown outcome. A command is not executed for lack of room, of a region, or of time.
	Commands, Refused float64
	// P50 and P99 are percentiles of the latency of commands; 0: there was no command.
	P50, P99 time.Duration
	// HeardAt is the time when the gateway's last card arrived.
	HeardAt time.Time
}

// TakeCard takes the card of a gateway.
func (b *Budget) TakeCard(now time.Time, cfg *Config, from sharding.NodeID, c control.Card) {
	if c.Span <= 0 {
		return
	}
	g := &b.gateways
	if g.since.IsZero() {
		g.since, b.brake.moved = now, b.moving > 0
	}
	g.all.Merge(c.Latencies)
	i, found := slices.BinarySearchFunc(g.list, from, func(g gateway, n sharding.NodeID) int { return g.node.Compare(n) })
	if !found && len(g.list) >= cfg.MaxGateways || from.IsZero() || c.Management == "" || !fitsAddress(c.Management) || !fitsAddress(c.Peers) {
		return // its latencies are counted nevertheless
	}
	if !found {
		g.list = slices.Insert(g.list, i, gateway{node: from})
	}
	of := &g.list[i]
	of.management, of.peers, of.heardAt = c.Management, c.Peers, now
	of.span += c.Span
	of.commands += c.Commands
	of.refused += c.Refused
	of.latencies.Merge(c.Latencies)
}

// fitsAddress reports whether an address of a card is empty, or no longer than addresses are.
func fitsAddress(addr string) bool {
	return addr == "" || sharding.CheckText("address", addr, sharding.MaxTypeLen) == nil
}

// EndWindow ends the window of the cards when its time is over. It reports whether the state or the rate of the brake
// has changed.
func (b *Budget) EndWindow(now time.Time, cfg *Config) (changed bool) {
	g, k := &b.gateways, &b.brake
	changed = k.tick(now, cfg)
	if !g.since.IsZero() && now.Sub(g.since) >= cfg.BrakeWindow {
		if cfg.Brake {
			w := window{samples: g.all.Count(), p99: g.all.Percentile(99)}
			changed = k.windowEnded(now, g.since, w, b.moving, cfg) || changed
		}
		g.roll(now, cfg.GatewayForgotten)
		if len(g.list) > 0 || !k.idle() {
			g.since = now
		}
	}
	return changed
}

// roll begins the next window, and forgets gateways that have sent no card for a long time.
func (g *gateways) roll(now time.Time, forgotten time.Duration) {
	g.list = slices.DeleteFunc(g.list, func(of gateway) bool { return now.Sub(of.heardAt) >= forgotten })
	for i := range g.list {
		of := &g.list[i]
		v := GatewayView{Node: of.node, Management: of.management, Peers: of.peers}
		if s := of.span.Seconds(); s > 0 {
			v.Commands, v.Refused = float64(of.commands)/s, float64(of.refused)/s
			v.P50, v.P99 = of.latencies.Percentile(50), of.latencies.Percentile(99)
		}
		*of = gateway{node: of.node, management: of.management, peers: of.peers, heardAt: of.heardAt, last: v}
	}
	g.all, g.since = latency.Histogram{}, time.Time{}
}

// views describes all gateways by their cards of the last whole window.
func (g *gateways) views() (list []GatewayView) {
	for i := range g.list {
		of := &g.list[i]
		v := of.last
		v.Node, v.Management, v.Peers, v.HeardAt = of.node, of.management, of.peers, of.heardAt
		list = append(list, v)
	}
	return list
}
