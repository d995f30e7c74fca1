package gossip

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/phi"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Profile configures how a node watches others.
type Profile struct {
	// Interval is the time between heartbeats to each of them.
	Interval time.Duration
	// Phi configures the default detector: it judges by how regularly the replies
	// came so far.
	Phi phi.Config
	// Deadline replaces Phi unless it is zero: it judges by the time since the
	// last reply.
	Deadline phi.DeadlineConfig
}

// ProfileOf is the normal or the fast profile with the detector of the given
// name: "phi"; "cloud", which is more patient with machines that share their
// hosts (see [phi.CloudConfig]); "deadline", which allows for the same pause.
func ProfileOf(fast bool, detector string) (Profile, error) {
	p := NormalProfile()
	if fast {
		p = FastProfile()
	}
	switch detector {
	case "phi":
	case "cloud":
		p.Phi.Threshold = phi.CloudConfig().Threshold
	case "deadline":
		p.Deadline = phi.DeadlineConfig{Interval: p.Interval, Pause: p.Phi.Pause}
	default:
		return p, fmt.Errorf("%q is not a failure detector: choose phi, cloud or deadline", detector)
	}
	return p, nil
}

// detector makes a detector of the configured kind.
func (p *Profile) detector() phi.Detector {
	if p.Deadline != (phi.DeadlineConfig{}) {
		return phi.NewDeadline(p.Deadline)
	}
	return phi.New(p.Phi)
}

// NormalProfile beats every second and accepts a pause of 3 s: a dead node is
// suspected after about 4.5 s.
func NormalProfile() Profile {
	return Profile{Interval: time.Second, Phi: phi.DefaultConfig()}
}

// FastProfile beats every 200 ms and accepts a pause of 800 ms: a dead node is
// suspected after about 1.3 s. It is for nodes whose false alarms do no harm.
func FastProfile() Profile {
	p := phi.DefaultConfig()
	p.Pause = 800 * time.Millisecond
	p.MinStdDev = 50 * time.Millisecond
	p.FirstInterval = 200 * time.Millisecond
	return Profile{Interval: 200 * time.Millisecond, Phi: p}
}

// RoleMinimum is the number of members of a role that must have joined before the first member
// comes up.
type RoleMinimum struct {
	Role    string
	Members int
}

// Config holds what a node knows from the start.
type Config struct {
	// Self is this incarnation of this node. Uids must be random: they decide the
	// places on the ring and the parts in which states are compared.
	Self sharding.NodeID
	// Name is the node's name for people; it may be empty.
	Name string
	// Roles say what the node is for. The order does not matter.
	Roles []string
	// Zone and Version describe the node and its application; both may be empty.
	// See [Member].
	Zone, Version string
	// Seeds are the addresses to join through. The first one may form a cluster if none of the
	// others knows of one; all nodes need the same first one. A node without seeds forms a cluster
	// alone, unless DriverDecides is set.
	Seeds []string
	// DriverDecides leaves the choice of a cluster to the driver: until [SetSeeds] or
	// [Form] comes, the node only joins a cluster that announces itself to it.
	DriverDecides bool
	// Seed seeds the random choices of this node; it may be the same for all. The
	// agent draws it if it is 0.
	Seed uint64
	// Watch is how this node watches the others. Default: normal.
	Watch Profile
	// MonitoredBy is the number of observers of each member, on a ring of all; in
	// smaller clusters all others watch it. Default 9, as in Akka: more than fail
	// together by chance. All nodes need the same.
	MonitoredBy int
	// WatchRoles are roles: this node itself watches every member with one of them, because it must
	// not rely on other observers. Default: none.
	WatchRoles []string
	// Downing declares unreachable members down. Default: [AutoDown] after 10 s,
	// which is safe for crashes, but not for partitions; see package splitbrain.
	// Nil: only [DownNode] does. The machine uses its own clone.
	Downing Downing

	// MinMembers is the number of members, of any status, that must have joined before the first
	// one comes up. Default 1. All nodes need the same.
	MinMembers int
	// MinOfRole is the same for single roles. Default: none.
	MinOfRole []RoleMinimum
	// WeaklyUpAfter is the time that a leader waits for convergence, which unreachable members
	// prevent, before it makes reachable joining members weakly up. Default 7 s, as in Akka; 0:
	// never.
	WeaklyUpAfter time.Duration

	// IgnoreSettings names settings that are not compared, neither when this node
	// joins nor when it admits others. They are protocol, heartbeat,
	// downing, min-members, weakly-up-after, max-members and tombstones. To change
	// a setting node by node, restart each with the new value and its name here;
	// when all have the value, remove the name.
	IgnoreSettings []string
	// RetryRefused keeps asking after a refusal that is final, such as for
	// different settings. Default: stop with [JoinFailed], so that an operator
	// notices.
	RetryRefused bool
	// JoinGiveUp is the time that a node tries to join before it stops with [JoinFailed]. Default
	// 0: forever.
	JoinGiveUp time.Duration

	// SeedTimeout is the time that the first seed looks for a cluster before it forms one, when
	// other seeds do not answer. Default 5 s, as in Akka.
	SeedTimeout time.Duration
	// SeedNackTimeout is the same if all other seeds answered that they know of
	// none. It must leave members time to announce the cluster to a restarted seed.
	// Default 1.5 s.
	SeedNackTimeout time.Duration
	// JoinInterval is the time between attempts to join, and between announcements
	// of the cluster to seeds that are not members. Default 500 ms.
	JoinInterval time.Duration
	// JoinTimeout is the time that a node tries to join through one member before it asks the seeds
	// again. Default 3 s.
	JoinTimeout time.Duration
	// GossipInterval is the time between rounds of gossip when nothing changes.
	// Default 1 s.
	GossipInterval time.Duration
	// BusyInterval is the time between rounds of gossip while a change spreads: while a
	// member is down, or fewer than half of the members have seen the newest state. On
	// the leader, and in clusters in which all watch each other, it applies until all
	// have seen that state. Default a third of GossipInterval, as in Akka. In a round of
	// this kind a member sends to two others, and the leader to ten. One of these is
	// chosen by PreferUnseen, the others have not seen the state.
	BusyInterval time.Duration
	// PreferUnseen is the probability that a round of gossip goes to a member that
	// has not seen the newest state, if there is any. Default 0.8.
	PreferUnseen float64
	// PreferUnseenUpTo is the number of members beyond which PreferUnseen
	// decreases, to a tenth at three times the number. Default 400. Both as in
	// Akka.
	PreferUnseenUpTo int
	// GossipTTL is the longest time that gossip may wait in this process before it is dropped: on a
	// node that cannot keep up, newer gossip is queued after it. Default 2 s, as in Akka.
	GossipTTL time.Duration
	// DowningInterval is the time between two calls of Downing while any member is
	// unreachable. Default 500 ms: much shorter than the times after which members
	// are downed.
	DowningInterval time.Duration
	// LeaveTimeout is the time that a leaving node waits for all members to agree that it leaves,
	// before it stops anyway. They may never agree: if the members that decide who is down have
	// crashed, no member declares them down. Default 30 s: longer than downing usually takes.
	LeaveTimeout time.Duration
	// ExitTimeout is the time that an exiting node waits for its removal before it stops anyway.
	// Default 5 s.
	ExitTimeout time.Duration
	// LateTick is the shortest time between two ticks that counts as a pause of this process. After
	// a pause, it does not suspect others for their silence. It must be several times the tick
	// period of the driver. Default 400 ms.
	LateTick time.Duration
	// TombstoneTTL is the duration of an era while there are tombstones; each is kept for one to
	// two eras. It only bounds memory: a node that was cut off for longer does not bring removed
	// nodes back, see [Era]. Default 24 h.
	TombstoneTTL time.Duration
	// MaxMembers bounds the cluster, and with it memory and messages.
	// Default 5000: twice the largest that is simulated.
	MaxMembers int
	// MaxTombstones bounds the tombstones. From a quarter of it on, eras are as
	// short as possible. At MaxTombstones no node is admitted any more, so there
	// are never more than MaxTombstones plus MaxMembers. Default 10000.
	MaxTombstones int
	// MaxBanned bounds the banned incarnations, which are kept for
	// TombstoneTTL; the oldest are forgotten first. Default 1000.
	MaxBanned int
}

// DefaultConfig has everything but Self, Name, Roles and Seeds.
func DefaultConfig() Config {
	return Config{
		Watch:            NormalProfile(),
		MonitoredBy:      9,
		Downing:          AutoDown{After: 10 * time.Second},
		MinMembers:       1,
		WeaklyUpAfter:    7 * time.Second,
		SeedTimeout:      5 * time.Second,
		SeedNackTimeout:  1500 * time.Millisecond,
		JoinInterval:     500 * time.Millisecond,
		JoinTimeout:      3 * time.Second,
		GossipInterval:   time.Second,
		BusyInterval:     time.Second / 3,
		PreferUnseen:     0.8,
		PreferUnseenUpTo: 400,
		GossipTTL:        2 * time.Second,
		DowningInterval:  500 * time.Millisecond,
		LeaveTimeout:     30 * time.Second,
		ExitTimeout:      5 * time.Second,
		LateTick:         400 * time.Millisecond,
		TombstoneTTL:     24 * time.Hour,
		MaxMembers:       5000,
		MaxTombstones:    10_000,
		MaxBanned:        1000,
	}
}

// Validate names every invalid field, and how to fix it.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	self := c.selfAs(Joining)
	if why := self.check(); why != "" {
		bad("Self, Name, Roles, Zone or Version: %s", why)
	}
	if c.MinMembers < 1 || c.MinMembers > c.MaxMembers {
		bad("MinMembers is %d: choose 1 to MaxMembers %d", c.MinMembers, c.MaxMembers)
	}
	for _, least := range c.MinOfRole {
		if least.Role == "" || least.Members < 1 || least.Members > c.MaxMembers {
			bad("MinOfRole has %d of %q: name a role, and choose 1 to MaxMembers %d", least.Members, least.Role, c.MaxMembers)
		}
	}
	if c.WeaklyUpAfter < 0 {
		bad("WeaklyUpAfter is %v: choose 0 for never, or more", c.WeaklyUpAfter)
	}
	for _, s := range c.Seeds {
		if s == "" || len(s) > sharding.MaxAddrLen {
			bad("Seeds: %.40q is not host:port", s)
		}
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"Watch.Interval", c.Watch.Interval}, {"SeedTimeout", c.SeedTimeout}, {"SeedNackTimeout", c.SeedNackTimeout},
		{"JoinInterval", c.JoinInterval}, {"JoinTimeout", c.JoinTimeout}, {"GossipInterval", c.GossipInterval},
		{"BusyInterval", c.BusyInterval}, {"LeaveTimeout", c.LeaveTimeout}, {"ExitTimeout", c.ExitTimeout}, {"LateTick", c.LateTick},
		{"TombstoneTTL", c.TombstoneTTL}, {"GossipTTL", c.GossipTTL}, {"DowningInterval", c.DowningInterval},
	} {
		if d.d <= 0 {
			bad("%s is %v: choose more than 0", d.name, d.d)
		}
	}
	if err := c.Watch.Phi.Validate(); err != nil {
		bad("Watch.Phi: %w", err)
	}
	if c.Watch.Deadline != (phi.DeadlineConfig{}) {
		if err := c.Watch.Deadline.Validate(); err != nil {
			bad("Watch.Deadline: %w", err)
		}
	}
	if c.SeedNackTimeout > c.SeedTimeout {
		bad("SeedNackTimeout %v is longer than SeedTimeout %v: choose at most that", c.SeedNackTimeout, c.SeedTimeout)
	}
	if c.SeedNackTimeout < 2*c.JoinInterval {
		bad("SeedNackTimeout %v is too short to hear announcements: choose at least twice JoinInterval %v", c.SeedNackTimeout, c.JoinInterval)
	}
	if c.MonitoredBy < 1 {
		bad("MonitoredBy is %d: choose at least 1", c.MonitoredBy)
	}
	if !(c.PreferUnseen >= 0 && c.PreferUnseen <= 1) || c.PreferUnseenUpTo < 1 {
		bad("PreferUnseen is %v: choose 0 to 1; PreferUnseenUpTo is %d: choose at least 1", c.PreferUnseen, c.PreferUnseenUpTo)
	}
	if c.MaxMembers < 1 || c.MaxTombstones < 1 || c.MaxBanned < 1 {
		bad("MaxMembers %d, MaxTombstones %d and MaxBanned %d: choose at least 1", c.MaxMembers, c.MaxTombstones, c.MaxBanned)
	}
	if c.JoinGiveUp < 0 {
		bad("JoinGiveUp is %v: choose 0 for never, or more", c.JoinGiveUp)
	}
	if why := checkSettings(c.settings()); why != "" {
		bad("%s, of those that nodes compare on joining", why)
	}
	return errors.Join(errs...)
}

func (c *Config) selfAs(s Status) Member {
	roles := slices.Clone(c.Roles)
	slices.Sort(roles)
	return Member{
		Node: c.Self, Name: c.Name, Roles: slices.Compact(roles), Zone: c.Zone, Version: c.Version, Status: s,
	}
}
