package joiner

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/roost-cluster/roost/libs/bootstrap"
	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/setting"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Settings are the configuration keys of every member of a cluster, besides its
// discovery.url. A service embeds them in its own configuration.
type Settings struct {
	Seeds     []string         `key:"cluster.seeds" help:"coordinators through which this node joins, as host:port, instead of the coordinators that discovery.url lists. If there is no cluster, the first seed forms one"`
	Bootstrap bootstrap.Config `key:"discovery"`
	// A management listener has no TLS, so this must be set explicitly.
	ContactPort uint16 `key:"discovery.contact_port" help:"port at which this process asks contact points by plain HTTP, such as their management port. 0: the listed address of each contact point" expert:"true"`
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings { return Settings{Bootstrap: bootstrap.DefaultConfig()} }

// Validate returns an error that names every invalid key and how to correct it.
func (s *Settings) Validate() error {
	errs := []error{setting.Ranges(s)}
	for _, seed := range s.Seeds {
		if _, ok := bootstrap.ParseContactPoint(seed); !ok {
			errs = append(errs, setting.Errorf("cluster.seeds", "names %.80q, which is not host:port", seed))
		}
	}
	return errors.Join(errs...)
}

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
		g.JoinInterval = announceEvery(j.cfg.Bootstrap.StableMargin)
	}
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
	return "http://" + net.JoinHostPort(host, strconv.Itoa(int(c.ContactPort))) + Path
}
