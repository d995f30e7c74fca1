package joiner

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/roost-cluster/roost/libs/bootstrap"
	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Settings are the configuration keys of every member of a cluster, besides its
// discovery.url. A service embeds them in its own configuration.
type Settings struct {
	Seeds      []string      `key:"cluster.seeds" help:"coordinators through which this node joins, as host:port, instead of the coordinators that discovery.url lists. If there is no cluster, the first seed forms one"`
	Required   int           `key:"discovery.required_contacts" unit:"coordinators" help:"number of coordinators that must have answered before a cluster is formed. Set it to the number of coordinators that start together"`
	StableFor  time.Duration `key:"discovery.stable_for" help:"minimum time that discovery must list the same coordinators before a cluster is formed"`
	ContactAll bool          `key:"discovery.contact_all" help:"true: a cluster is formed only when every listed coordinator has answered"`
	FormNew    bool          `key:"discovery.form_new_cluster" help:"true: this process may form a cluster; false: the process waits for a cluster that it can join"`
	GiveUp     time.Duration `key:"discovery.give_up" help:"if the process is in no cluster after this time, the process exits. 0: the process never exits for this reason"`
	Interval   time.Duration `key:"discovery.interval" help:"time between two lookups, and between two requests to one contact point"`
	Timeout    time.Duration `key:"discovery.timeout" help:"time that a lookup, or the answer of a contact point, may take. An answer that is older than this time does not count"`
	Port       int           `key:"discovery.port" help:"if discovery lists a host with several ports, this process uses only this port. 0: all listed ports"`
	// Decider, if set, decides which members to join and which node forms a cluster,
	// instead of the rule that the keys above configure. It has no key: the main of
	// your own binary sets it.
	Decider bootstrap.JoinDecider
	// A management listener has no TLS, so this must be set explicitly.
	ContactPort int `key:"discovery.contact_port" help:"port at which this process asks contact points by plain HTTP, such as their management port. 0: the listed address of each contact point"`
}

// DefaultSettings returns the defaults. [bootstrap.Config] gives the reasons for them.
func DefaultSettings() Settings {
	b := bootstrap.DefaultConfig()
	return Settings{
		Required: b.Required, StableFor: b.StableMargin, ContactAll: b.ContactAll, FormNew: b.NewCluster,
		GiveUp: b.GiveUp, Interval: b.QueryInterval, Timeout: b.QueryTimeout,
	}
}

// Validate returns an error that names every invalid key and how to correct it.
func (s *Settings) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, seed := range s.Seeds {
		if _, ok := bootstrap.ParseContactPoint(seed); !ok {
			bad("cluster.seeds names %.80q, which is not host:port", seed)
		}
	}
	if most := bootstrap.DefaultConfig().MaxContacts; s.Required < 1 || s.Required > most {
		bad("discovery.required_contacts is %d; choose from 1 to %d", s.Required, most)
	}
	if s.StableFor < 0 || s.GiveUp < 0 || s.GiveUp > 0 && s.GiveUp <= s.StableFor {
		bad("discovery.stable_for %v must not be negative, and discovery.give_up %v must be above it, or 0 for never", s.StableFor, s.GiveUp)
	}
	if s.Interval < minInterval || s.Timeout < s.Interval || s.Timeout > time.Minute {
		bad("discovery.interval %v must be at least %v and at most discovery.timeout %v, and that at most 1m", s.Interval, minInterval, s.Timeout)
	}
	for key, port := range map[string]int{"discovery.port": s.Port, "discovery.contact_port": s.ContactPort} {
		if port < 0 || port > 65535 {
			bad("%s is %d; choose a port, or 0", key, port)
		}
	}
	return errors.Join(errs...)
}

// minInterval keeps a mistake in the unit from causing load.
const minInterval = 10 * time.Millisecond

// Config configures a Joiner.
type Config struct {
	Settings
	// URL is the value of discovery.url.
	URL string
	// Cluster is the name of the cluster.
	Cluster string
	// Self is this incarnation of the node; Roles are its roles.
	Self  sharding.NodeID
	Roles []string
	// Client sends requests to contact points, at the base URL that PeerURL returns
	// for their address. It must not follow redirects.
	Client  *http.Client
	PeerURL func(addr string) string
	// Log gets the reason for waiting whenever that changes.
	Log *slog.Logger
	// Changed, if set, is called when discovery returns another list. It must not
	// block.
	Changed func()
}

// Membership is the part of the membership that a Joiner uses.
type Membership interface {
	// Members returns the current view.
	Members() gossip.View
	// SetSeeds sets the addresses to join through or to announce the cluster to.
	SetSeeds([]string)
	// Form forms a cluster of this node alone, unless it is in one.
	Form()
}

// announceEvery returns how often a member announces its cluster to seeds that are not
// members: several times within the stable margin, so that a node that looks for a
// cluster learns of it before it forms one, and at least as often as gossip would without
// a margin.
func announceEvery(stableFor time.Duration) time.Duration {
	return min(max(stableFor/4, 50*time.Millisecond), gossip.DefaultConfig().JoinInterval)
}

// Configure configures a membership to wait for the Joiner, or to join through the
// configured seeds.
func (j *Joiner) Configure(g *gossip.Config) {
	g.Seeds, g.DriverDecides = j.cfg.Seeds, len(j.cfg.Seeds) == 0
	if g.DriverDecides {
		g.JoinInterval = announceEvery(j.cfg.StableFor)
	}
}

// core returns the configuration of the core.
func (c *Config) core() bootstrap.Config {
	b := bootstrap.DefaultConfig()
	b.Self, b.Roles, b.Cluster = c.Self, c.Roles, c.Cluster
	b.Required, b.StableMargin, b.ContactAll, b.NewCluster = c.Required, c.StableFor, c.ContactAll, c.FormNew
	b.QueryInterval, b.QueryTimeout, b.GiveUp = c.Interval, c.Timeout, c.GiveUp
	b.Decider, b.Port, b.Seed = c.Decider, uint16(c.Port), uint64(c.Self.UID)
	return b
}

// contactURL returns the URL of the contact point at a listed address.
func (c *Config) contactURL(addr string) string {
	if c.ContactPort == 0 {
		return c.PeerURL(addr) + Path
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil { // the core accepts no such address
		host = addr
	}
	return "http://" + net.JoinHostPort(host, strconv.Itoa(c.ContactPort)) + Path
}
