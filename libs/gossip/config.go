package gossip

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/phi"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Profile is how a node watches the others.
type Profile struct {
	// Interval is the time between heartbeats to each of them.
	Interval time.Duration
	// Phi judges by their replies.
	Phi phi.Config
}

// NormalProfile beats every second and accepts a pause of 3 s: a dead node is
// suspected after about 4.5 s.
func NormalProfile() Profile {
	return Profile{Interval: time.Second, Phi: phi.DefaultConfig()}
}

// FastProfile beats every 200 ms and accepts a pause of 800 ms: a dead node is
// suspected after about 1.3 s. For nodes whose false alarms do no harm.
func FastProfile() Profile {
	p := phi.DefaultConfig()
	p.Pause = 800 * time.Millisecond
	p.MinStdDev = 50 * time.Millisecond
	p.FirstInterval = 200 * time.Millisecond
	return Profile{Interval: 200 * time.Millisecond, Phi: p}
}

// Downing decides which members are gone for good. Decide is asked at every
// tick while anybody is unreachable, must answer from its arguments alone, and
// may name nodes that are down already.
type Downing interface {
	Decide(now time.Time, v View) []sharding.NodeID
}

// AutoDown downs whoever has been unreachable for a time, if asked on the
// leader. During a partition both sides do that to each other; afterwards the
// nodes of the junior side stop (see [Claim]). A link cut between two nodes
// that others still reach costs both of them.
type AutoDown struct {
	// After is how long somebody must have been unreachable.
	After time.Duration
}

// Decide implements [Downing].
func (d AutoDown) Decide(now time.Time, v View) []sharding.NodeID {
	if v.Leader != v.Self {
		return nil
	}
	var gone []sharding.NodeID
	for _, m := range v.Members {
		if !m.Reachable && m.Status != Down && now.Sub(m.UnreachableSince) >= d.After {
			gone = append(gone, m.Node)
		}
	}
	return gone
}

// Config is what a node knows from the start.
type Config struct {
	// Self is this incarnation of this node.
	Self sharding.NodeID
	// Name is what people call the node; it may be empty.
	Name string
	// Roles say what the node is for. The order does not matter.
	Roles []string
	// Seeds are the addresses to join through. The first one may form a
	// cluster if nobody knows of one; give all nodes the same first one. A node
	// without seeds forms a cluster by itself.
	Seeds []string
	// Watch is how this node watches the others. Default: normal.
	Watch Profile
	// Downing declares unreachable members down. Default: after 10 s. Nil:
	// only [DownNode] does.
	Downing Downing

	// SeedTimeout is how long the first seed looks for a cluster before it
	// forms one, when other seeds do not answer. Default 5 s, as in Akka.
	SeedTimeout time.Duration
	// SeedNackTimeout is the same for when all other seeds answered that they
	// know of none. It must leave members time to announce the cluster to a
	// seed that came back. Default 1.5 s.
	SeedNackTimeout time.Duration
	// JoinInterval is the time between attempts to join, and between
	// announcements of the cluster to seeds that are no members. Default 500 ms.
	JoinInterval time.Duration
	// JoinTimeout is how long a node insists on joining through one member
	// before it asks the seeds again. Default 3 s.
	JoinTimeout time.Duration
	// GossipInterval is the time between rounds of gossip when all is calm.
	// Default 1 s.
	GossipInterval time.Duration
	// BusyInterval is the same while somebody has not seen the newest state.
	// Default 200 ms.
	BusyInterval time.Duration
	// ExitTimeout is how long an exiting node waits to be removed before it
	// goes anyway. Default 5 s.
	ExitTimeout time.Duration
	// LateTick is the time between two ticks that shows that this process was
	// paused: then it does not hold the silence against others. Must be
	// several times the tick period of the driver. Default 400 ms.
	LateTick time.Duration
	// TombstoneTTL is how long removed nodes are remembered. A node cut off
	// for longer could bring them back. Default 24 h.
	TombstoneTTL time.Duration
	// MaxMembers bounds the cluster, and with it memory and messages.
	// Default 1000.
	MaxMembers int
	// MaxTombstones bounds the memory of removed nodes; the oldest are
	// forgotten first. Default 10000.
	MaxTombstones int
}

// DefaultConfig has everything but Self, Name, Roles and Seeds.
func DefaultConfig() Config {
	return Config{
		Watch:           NormalProfile(),
		Downing:         AutoDown{After: 10 * time.Second},
		SeedTimeout:     5 * time.Second,
		SeedNackTimeout: 1500 * time.Millisecond,
		JoinInterval:    500 * time.Millisecond,
		JoinTimeout:     3 * time.Second,
		GossipInterval:  time.Second,
		BusyInterval:    200 * time.Millisecond,
		ExitTimeout:     5 * time.Second,
		LateTick:        400 * time.Millisecond,
		TombstoneTTL:    24 * time.Hour,
		MaxMembers:      1000,
		MaxTombstones:   10_000,
	}
}

// Validate names every field that makes no sense, with the fix.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	self := c.selfAs(Joining)
	if why := self.check(); why != "" {
		bad("Self, Name or Roles: %s", why)
	}
	for _, s := range c.Seeds {
		if s == "" || len(s) > maxAddrLen {
			bad("Seeds: %.40q is no host:port", s)
		}
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"Watch.Interval", c.Watch.Interval}, {"SeedTimeout", c.SeedTimeout}, {"SeedNackTimeout", c.SeedNackTimeout},
		{"JoinInterval", c.JoinInterval}, {"JoinTimeout", c.JoinTimeout}, {"GossipInterval", c.GossipInterval},
		{"BusyInterval", c.BusyInterval}, {"ExitTimeout", c.ExitTimeout}, {"LateTick", c.LateTick},
		{"TombstoneTTL", c.TombstoneTTL},
	} {
		if d.d <= 0 {
			bad("%s is %v: choose more than 0", d.name, d.d)
		}
	}
	if err := c.Watch.Phi.Validate(); err != nil {
		bad("Watch.Phi: %w", err)
	}
	if c.SeedNackTimeout > c.SeedTimeout {
		bad("SeedNackTimeout %v is longer than SeedTimeout %v: choose at most that", c.SeedNackTimeout, c.SeedTimeout)
	}
	if c.SeedNackTimeout < 2*c.JoinInterval {
		bad("SeedNackTimeout %v is too short to hear announcements: choose at least twice JoinInterval %v", c.SeedNackTimeout, c.JoinInterval)
	}
	if c.MaxMembers < 1 || c.MaxTombstones < 1 {
		bad("MaxMembers %d and MaxTombstones %d: choose at least 1", c.MaxMembers, c.MaxTombstones)
	}
	return errors.Join(errs...)
}

func (c *Config) selfAs(s Status) Member {
	roles := slices.Clone(c.Roles)
	slices.Sort(roles)
	return Member{Node: c.Self, Name: c.Name, Roles: slices.Compact(roles), Status: s}
}
