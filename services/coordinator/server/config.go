package server

import (
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/node"
)

// Config is the configuration of a coordinator process.
type Config struct {
	node.Config
	Discovery    string        `key:"discovery.url" help:"where the coordinators are, this one included, such as static://host:port,host:port; the first may form the cluster"`
	Journal      string        `key:"journal.url" help:"where the table is kept, such as sqlite:/var/lib/roost/journal.db or postgres://roost@db/roost; the regions' journal"`
	Lease        string        `key:"lease.url" help:"where it is decided who is active, such as sqlite:/var/lib/roost/lease.db; a file of its own"`
	LeaseTTL     time.Duration `key:"lease.ttl" help:"time for which nobody decides after the active coordinator has died"`
	LeaseRenew   time.Duration `key:"lease.renew" help:"time between two renewals"`
	MinRegions   int           `key:"coordinator.min_regions" unit:"regions" help:"regions that must have registered before the first shard is allocated"`
	Rebalance    time.Duration `key:"coordinator.rebalance_interval" help:"time between two looks whether shards should move"`
	DrainTimeout time.Duration `key:"coordinator.handoff_timeout" help:"time a region has to hand a shard off; the same as region.drain_timeout"`
	FastWatch    bool          `key:"gossip.fast" help:"beat every 200 ms and suspect after 800 ms, instead of 1 s and 3 s"`
	DownAfter    time.Duration `key:"gossip.down_after" help:"an unreachable member is declared down after this"`
}

// DefaultConfig is the configuration before file, environment and flags.
func DefaultConfig() Config {
	return Config{
		Config:       node.DefaultConfig(":25521"),
		Discovery:    "static://127.0.0.1:25521",
		LeaseTTL:     2 * time.Second,
		LeaseRenew:   500 * time.Millisecond,
		MinRegions:   1,
		Rebalance:    500 * time.Millisecond,
		DrainTimeout: 10 * time.Second,
		FastWatch:    true,
		DownAfter:    10 * time.Second,
	}
}

// Validate refuses what cannot work; it names every key.
func (c *Config) Validate() error {
	var errs []error
	for key, v := range map[string]string{"journal.url": c.Journal, "lease.url": c.Lease, "discovery.url": c.Discovery} {
		if v == "" {
			errs = append(errs, fmt.Errorf("%s is empty; give one, such as sqlite:/var/lib/roost/%s.db or static://127.0.0.1:25521", key, key[:len(key)-4]))
		}
	}
	if c.Journal != "" && c.Journal == c.Lease {
		errs = append(errs, errors.New("lease.url is the journal's; the lease needs a file of its own, so that a writer paused inside a transaction cannot stop it"))
	}
	if c.LeaseRenew*2 >= c.LeaseTTL {
		errs = append(errs, fmt.Errorf("lease.renew %s must be below half of lease.ttl %s", c.LeaseRenew, c.LeaseTTL))
	}
	if c.MinRegions < 1 || c.Rebalance <= 0 || c.DrainTimeout <= 0 || c.DownAfter <= 0 {
		errs = append(errs, errors.New("coordinator.min_regions, coordinator.rebalance_interval, coordinator.handoff_timeout and gossip.down_after must be above 0"))
	}
	return errors.Join(errs...)
}
