package bootstrap

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/setting"
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
	Required int `key:"required_contacts" unit:"coordinators" range:"1.." help:"number of coordinators that must have answered before a cluster is formed. Set it to the number of coordinators that start together"`
	// StableMargin is the time that discovery must have listed the same contact points. It must be
	// longer than discovery may show different lists to different nodes, and longer than a message
	// to a process that has ended can be on its way. Default 5 s.
	StableMargin time.Duration `key:"stable_for" range:"0.." help:"minimum time that discovery must list the same coordinators before a cluster is formed" expert:"true"`
	// ContactAll requires an answer of every listed contact point before a cluster
	// is formed. Default true.
	ContactAll bool `key:"contact_all" help:"true: a cluster is formed only when every listed coordinator has answered" expert:"true"`
	// NewCluster allows this node to form a cluster. Default true; without the
	// FormingRole a node never does.
	NewCluster bool `key:"form_new_cluster" help:"true: this process may form a cluster; false: the process waits for a cluster that it can join" expert:"true"`
	// Decider decides which members to join and which node forms a cluster. It has no key: the main of
	// your own binary sets it. Default: [LowestAddress] of the fields above.
	Decider JoinDecider

	// QueryInterval is the time between two queries of one contact point. Default
	// 1 s. Its range keeps a mistake in the unit from causing load.
	QueryInterval time.Duration `key:"interval" range:"10ms.." help:"time between two lookups, and between two requests to one contact point" expert:"true"`
	// QueryJitter is the fraction, from 0 to 1, that every interval may be lengthened by, at
	// random. Default 0.2.
	QueryJitter float64 `range:"0..1"`
	// QueryTimeout bounds the wait for an answer, and the age of an answer, counted
	// from its query. Default 3 s.
	QueryTimeout time.Duration `key:"timeout" range:">0..1m" help:"time that a lookup, or the answer of a contact point, may take. An answer that is older than this time does not count" expert:"true"`
	// GiveUp is the time that a node looks for a cluster before it gives up. Default 0: it never
	// does.
	GiveUp time.Duration `key:"give_up" range:"0.." help:"if the process is in no cluster after this time, the process exits. 0: the process never exits for this reason" expert:"true"`
	// MaxContacts bounds the contact points, and so the queries per interval.
	// Default 100: a cluster is formed by a few nodes.
	MaxContacts int `range:"1.."`
	// Port, if not 0, selects the contact point of a host with several; see
	// [OnPort].
	Port uint16 `key:"port" help:"if discovery lists a host with several ports, this process uses only this port. 0: all listed ports" expert:"true"`
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

// Validate returns an error that names every setting and field with an unusable value. It does not look at Self and
// Cluster, which a process knows later than its settings; [New] does.
func (c *Config) Validate() error {
	errs := []error{setting.Ranges(c)}
	bad := func(key setting.Key, format string, args ...any) {
		errs = append(errs, setting.Errorf(key, format, args...))
	}
	if c.Required > c.MaxContacts {
		bad("required_contacts", "is %d, must be at most %d", c.Required, c.MaxContacts)
	}
	if c.GiveUp > 0 && c.GiveUp <= c.StableMargin {
		bad("give_up", "is %s, must be above %s (%s), or 0 for never", c.GiveUp, setting.Key("stable_for"), c.StableMargin)
	}
	if c.QueryTimeout < c.QueryInterval {
		bad("timeout", "is %s, must not be below %s (%s), or no answer is ever fresh", c.QueryTimeout, setting.Key("interval"), c.QueryInterval)
	}
	return errors.Join(errs...)
}

// check is [Config.Validate] with the fields that are no settings.
func (c *Config) check() error {
	errs := []error{c.Validate()}
	if _, ok := ParseContactPoint(c.Self.Addr); !ok || c.Self.UID == 0 {
		errs = append(errs, fmt.Errorf("Self: %q with UID %d is not a node; give host:port and a UID", c.Self.Addr, c.Self.UID))
	}
	if c.Cluster == "" || c.FormingRole == "" {
		errs = append(errs, fmt.Errorf("Cluster %q and FormingRole %q: name the cluster and the role that forms it", c.Cluster, c.FormingRole))
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
