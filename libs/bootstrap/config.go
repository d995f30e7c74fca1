package bootstrap

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Config holds what a node knows from the start. [DefaultConfig] sets the defaults. Durations and
// numbers that Akka Management has, too, have the same defaults as there.
type Config struct {
	// Self is this incarnation of this node, by the address at which others
	// reach it.
	Self sharding.NodeID
	// Roles are the roles of this node.
	Roles []string
	// Cluster is the name of the cluster. Contact points of other clusters are
	// ignored.
	Cluster string
	// FormingRole is the role of the nodes that form a cluster: only they count as
	// contact points, and only one of them may form it. Default "coordinator".
	FormingRole string

	// Required is the number of contact points that must have answered before a cluster is formed.
	// Default 1; set it to the number of nodes that start together.
	Required int
	// StableMargin is the time that discovery must have listed the same contact points. It must be
	// longer than discovery may show different lists to different nodes, and longer than a message
	// to a process that has ended can be on its way. Default 5 s.
	StableMargin time.Duration
	// ContactAll requires an answer of every listed contact point before a cluster
	// is formed. Default true.
	ContactAll bool
	// NewCluster allows this node to form a cluster. Default true; without the
	// FormingRole a node never does.
	NewCluster bool
	// Decider makes the decision. Default: [LowestAddress] of the fields above.
	Decider JoinDecider

	// QueryInterval is the time between two queries of one contact point. Default
	// 1 s.
	QueryInterval time.Duration
	// QueryJitter is the fraction, from 0 to 1, that every interval may be lengthened by, at
	// random. Default 0.2.
	QueryJitter float64
	// QueryTimeout bounds the wait for an answer, and the age of an answer, counted
	// from its query. Default 3 s.
	QueryTimeout time.Duration
	// GiveUp is the time that a node looks for a cluster before it gives up. Default 0: it never
	// does.
	GiveUp time.Duration
	// MaxContacts bounds the contact points, and so the queries per interval.
	// Default 100: a cluster is formed by a few nodes.
	MaxContacts int
	// Port, if not 0, selects the contact point of a host with several; see
	// [OnPort].
	Port uint16
	// Seed seeds the jitter.
	Seed uint64
}

// DefaultConfig returns everything but Self, Roles, Cluster and Seed.
func DefaultConfig() Config {
	return Config{
		FormingRole: "coordinator", Required: 1, StableMargin: 5 * time.Second, ContactAll: true, NewCluster: true,
		QueryInterval: time.Second, QueryJitter: 0.2, QueryTimeout: 3 * time.Second, MaxContacts: 100,
	}
}

// Validate names every invalid field, and how to fix it.
func (c *Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if _, ok := ParseContactPoint(c.Self.Addr); !ok || c.Self.UID == 0 {
		bad("Self: %q with UID %d is not a node; give host:port and a UID", c.Self.Addr, c.Self.UID)
	}
	if c.Cluster == "" || c.FormingRole == "" {
		bad("Cluster %q and FormingRole %q: name the cluster and the role that forms it", c.Cluster, c.FormingRole)
	}
	if c.Required < 1 || c.Required > c.MaxContacts {
		bad("Required is %d: choose from 1 to MaxContacts %d", c.Required, c.MaxContacts)
	}
	if c.StableMargin < 0 || c.GiveUp < 0 {
		bad("StableMargin %v and GiveUp %v: choose 0 or more", c.StableMargin, c.GiveUp)
	}
	if c.GiveUp > 0 && c.GiveUp <= c.StableMargin {
		bad("GiveUp %v is over before StableMargin %v: choose more, or 0 for never", c.GiveUp, c.StableMargin)
	}
	if c.QueryInterval <= 0 || c.QueryTimeout < c.QueryInterval {
		bad("QueryInterval %v must be above 0 and at most QueryTimeout %v, else no answer is ever fresh", c.QueryInterval, c.QueryTimeout)
	}
	if !(c.QueryJitter >= 0 && c.QueryJitter <= 1) {
		bad("QueryJitter is %v: choose from 0 to 1", c.QueryJitter)
	}
	return errors.Join(errs...)
}

// decider is the configured one, or the default.
func (c *Config) decider() JoinDecider {
	if c.Decider != nil {
		return c.Decider
	}
	return LowestAddress{
		Required: c.Required, StableMargin: c.StableMargin, ContactAll: c.ContactAll,
		NewCluster: c.NewCluster && slices.Contains(c.Roles, c.FormingRole),
	}
}

// queryDelay is the time to the next query, for a random number in [0, 1).
func (c *Config) queryDelay(random float64) time.Duration {
	return c.QueryInterval + time.Duration(random*c.QueryJitter*float64(c.QueryInterval))
}
