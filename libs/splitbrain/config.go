package splitbrain

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/setting"
)

// The names of the strategies.
const (
	keepMajorityName  = "keep-majority"
	keepOldestName    = "keep-oldest"
	staticQuorumName  = "static-quorum"
	downAllName       = "down-all"
	leaseMajorityName = "lease-majority"
	// Names of [Config.Open] that are no strategies.
	autoDownName = "auto-down"
	offName      = "off"
)

var names = []string{leaseMajorityName, keepMajorityName, keepOldestName, staticQuorumName, downAllName, autoDownName, offName}

// Config chooses a strategy. All members of a cluster must use the same one
// with the same settings, or both sides of a partition may stay. The tags belong
// to package setting.
type Config struct {
	// Strategy is lease-majority, keep-majority, keep-oldest, static-quorum or
	// down-all. [Config.Open] knows two more: auto-down is [gossip.AutoDown],
	// which bears no partitions; with off only operators down members. Default:
	// keep-majority, which needs nothing; lease-majority in the services.
	Strategy string `key:"downing" help:"strategy that decides which side stays after a partition: lease-majority, keep-majority, keep-oldest, static-quorum or down-all. auto-down is unsafe: it declares members down by time alone, so both sides may stay. off: operators decide. Must be the same on all members"`
	// StableAfter is the time without changes in membership and reachability before anything is
	// decided. Long enough for all nodes of a side to see the same, whatever the size of the
	// cluster. Default 20 s, as in Akka.
	StableAfter time.Duration `key:"stable_after" range:"0.." help:"time without changes of reachability before members are declared down"`
	// DownAllWhenUnstable is the time after StableAfter that reachability may keep changing. Then
	// all members down themselves, because none of them can know what the others see. With
	// lease-majority, the lease decides then, and the side that holds it stays. Default [On]: three
	// quarters of StableAfter, at least 4 s.
	DownAllWhenUnstable Span `key:"down_all_when_unstable" help:"if reachability keeps changing for {.stable_after} plus this duration, all members go down; with lease-majority, the lease decides instead. on: 3/4 of {.stable_after}, at least 4s. off: members do not go down for this reason" expert:"true"`
	// Role restricts the members that are counted, or the candidates for the oldest, to members
	// with this role. All members of a losing side are downed, whatever their roles. Default "":
	// all members. Not for lease-majority and down-all, which count no members.
	Role string `key:"downing_role" help:"role of the members that the downing strategy counts. Empty: the strategy counts all members" expert:"true"`
	// QuorumSize is, for static-quorum, the number of members that a side needs to stay: more than
	// half of all that there will ever be. No default.
	QuorumSize int `key:"quorum_size" range:"0.." unit:"members" help:"with static-quorum, the number of members that a side needs to stay. Must be more than half of all members"`
	// DownIfAlone lets, with keep-oldest, the oldest member go when it is alone
	// against two or more. Default true.
	DownIfAlone bool `key:"down_if_alone" help:"with keep-oldest, true: the oldest member goes down if it is alone against two or more members" expert:"true"`
	// LeasePatience is the time that a side waits before it downs itself, if it cannot learn who
	// holds the lease: because no member that can see the lease is reachable, or because the lease
	// is free. Default 5 min: longer than it takes to restart all members that can see the lease.
	// Nothing durable is at stake meanwhile.
	LeasePatience time.Duration `key:"lease_patience" range:">0" help:"with lease-majority, time after which a side without coordinators stops. Until then, the side serves the shards that it has" expert:"true"`
	// YieldLeaseAfter is the time that the holder of the lease keeps it after it fell into a
	// minority, if there are candidates on the other side. Then it gives the lease up, one of the
	// candidates takes over, and the larger side stays. It must be less than StableAfter, when
	// sides decide. 0: the holder keeps the lease and its side stays, however small. Default [On],
	// a quarter of StableAfter: longer than most short troubles, and early enough for the lease to
	// have moved when the sides decide.
	YieldLeaseAfter Span `key:"yield_lease_after" help:"with lease-majority, time after which an active coordinator in a minority gives up the lease, if the other side has a coordinator. A duration must be below {.stable_after}. on: a quarter of {.stable_after}. off: the coordinator keeps the lease, and its side stays" expert:"true"`
	// DownAfter is for auto-down. Default 10 s.
	DownAfter time.Duration `key:"down_after" range:">0" help:"with auto-down, time after which an unreachable member is declared down" expert:"true"`

	// LeaseRole is the role of the members that can see the lease. Required for
	// lease-majority.
	LeaseRole string
}

// DefaultConfig returns keep-majority with the defaults named at the fields.
func DefaultConfig() Config {
	return Config{
		Strategy:            keepMajorityName,
		StableAfter:         20 * time.Second,
		DownAllWhenUnstable: On,
		DownIfAlone:         true,
		LeasePatience:       5 * time.Minute,
		YieldLeaseAfter:     On,
		DownAfter:           10 * time.Second,
	}
}

// LeaseConfig returns lease-majority by a lease that members with a role compete for, with the
// defaults named at the fields.
func LeaseConfig(role string) Config {
	c := DefaultConfig()
	c.Strategy, c.LeaseRole = leaseMajorityName, role
	return c
}

// Validate names every setting that makes no sense, with the fix.
func (c Config) Validate() error {
	errs := []error{setting.Ranges(&c)}
	bad := func(key setting.Key, format string, args ...any) {
		errs = append(errs, setting.Errorf(key, format, args...))
	}
	if !slices.Contains(names, c.Strategy) {
		bad("downing", "is %.40q: choose one of %s", c.Strategy, strings.Join(names, ", "))
	}
	if c.DownAllWhenUnstable < 0 && c.DownAllWhenUnstable != On {
		bad("down_all_when_unstable", "is %v: choose a duration above 0, on or off", time.Duration(c.DownAllWhenUnstable))
	}
	if c.Strategy == staticQuorumName && c.QuorumSize < 1 {
		bad("quorum_size", "is %d: static-quorum needs the number of members of a side that may stay, more than half of all", c.QuorumSize)
	}
	if c.Strategy == leaseMajorityName && c.LeaseRole == "" {
		errs = append(errs, errors.New("LeaseRole is empty: lease-majority needs the role of the members that see the lease"))
	}
	if c.YieldLeaseAfter < 0 && c.YieldLeaseAfter != On || c.YieldLeaseAfter > 0 && time.Duration(c.YieldLeaseAfter) >= c.StableAfter {
		bad("yield_lease_after", "is %v: choose less than %s (%v), on or off", time.Duration(c.YieldLeaseAfter), setting.Key("stable_after"), c.StableAfter)
	}
	return errors.Join(errs...)
}

// String describes the settings that all members must agree on.
func (c Config) String() string {
	unstable, _ := c.DownAllWhenUnstable.MarshalText()
	s := fmt.Sprintf("%s, stable after %v, unstable %s", c.Strategy, c.StableAfter, unstable)
	switch c.Strategy {
	case keepMajorityName:
		return s + ", role " + strconv.Quote(c.Role)
	case keepOldestName:
		return fmt.Sprintf("%s, role %q, down if alone %v", s, c.Role, c.DownIfAlone)
	case staticQuorumName:
		return fmt.Sprintf("%s, role %q, quorum %d", s, c.Role, c.QuorumSize)
	case leaseMajorityName:
		yield, _ := c.YieldLeaseAfter.MarshalText()
		return fmt.Sprintf("%s, lease of role %q, patience %v, yielded %s", s, c.LeaseRole, c.LeasePatience, yield)
	}
	return s
}

// New is a resolver with one of the five strategies.
func New(c Config) (*Resolver, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := c.strategy()
	if s == nil {
		return nil, fmt.Errorf("%s is not a strategy of a resolver: use Open", c.Strategy)
	}
	return &Resolver{cfg: c, strategy: s}, nil
}

// Open returns the downing that the services plug into the membership: a resolver, or
// [gossip.AutoDown]. It is nil for "off".
func (c Config) Open() (gossip.Downing, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	switch c.Strategy {
	case autoDownName:
		return gossip.AutoDown{After: c.DownAfter}, nil
	case offName:
		return nil, nil
	}
	return New(c)
}

// strategy is the one place where strategies are listed.
func (c Config) strategy() strategy {
	switch c.Strategy {
	case keepMajorityName:
		return keepMajority{c.Role}
	case keepOldestName:
		return keepOldest{c.Role, c.DownIfAlone}
	case staticQuorumName:
		return staticQuorum{c.QuorumSize, c.Role}
	case downAllName:
		return downEverything{}
	case leaseMajorityName:
		return leaseMajority{}
	}
	return nil
}

// Span is a duration, or [On]. 0 is never.
type Span time.Duration

// On is derived from StableAfter, as said at the field.
const On Span = -1

// UnmarshalText reads on, off or a duration.
func (s *Span) UnmarshalText(text []byte) error {
	switch string(text) {
	case "on":
		*s = On
	case "off":
		*s = 0
	default:
		d, err := time.ParseDuration(string(text))
		if err != nil || d <= 0 {
			return fmt.Errorf("%.40q: write on, off or a duration such as 15s", text)
		}
		*s = Span(d)
	}
	return nil
}

// MarshalText writes what UnmarshalText reads.
func (s Span) MarshalText() ([]byte, error) {
	switch s {
	case On:
		return []byte("on"), nil
	case 0:
		return []byte("off"), nil
	}
	return []byte(time.Duration(s).String()), nil
}

// unstableAfter returns the time after StableAfter that the membership may stay unstable; 0:
// forever.
func (c *Config) unstableAfter() time.Duration {
	if c.DownAllWhenUnstable == On {
		return max(4*time.Second, c.StableAfter*3/4)
	}
	return time.Duration(c.DownAllWhenUnstable)
}

// yieldAfter returns the time that a lease is kept in a minority; 0: forever.
func (c *Config) yieldAfter() time.Duration {
	if c.YieldLeaseAfter == On {
		return c.StableAfter / 4
	}
	return time.Duration(c.YieldLeaseAfter)
}
