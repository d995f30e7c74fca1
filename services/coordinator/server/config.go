package server

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	journalopen "github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/node/member"
	"github.com/roost-cluster/roost/libs/setting"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// Config is the configuration of a coordinator process.
type Config struct {
	node.Config
	member.Settings
	Journal    string        `key:"journal.url" secret:"url" help:"URL of the journal, in which coordinators store the route table, such as sqlite:/var/lib/roost/journal.db or postgres://roost@db/roost. All regions and coordinators of a cluster must use the same journal"`
	Databases  []string      `key:"journal.databases" secret:"true" help:"the databases of the journal beside that of journal.url, with their numbers, such as 2=postgres://roost@db2/roost,3=postgres://roost@db3/roost. All regions and coordinators of a cluster need all of them. See docs/databases.md"`
	Lease      string        `key:"lease.url" secret:"url" help:"URL of the lease, which decides which coordinator is active, such as sqlite:/var/lib/roost/lease.db. The lease can also be at postgres://, etcd://, consul:// or kubernetes: addresses. A lease in SQLite needs a file of its own"`
	LeaseTTL   time.Duration `key:"lease.ttl" help:"time for which the lease is valid without renewal. After the active coordinator has died, no coordinator decides anything for this time"`
	LeaseRenew time.Duration `key:"lease.renew" help:"time between two renewals of the lease"`
	MinRegions int           `key:"coordinator.min_regions" unit:"regions" help:"number of regions that must have registered before the coordinator allocates the first shard"`
	// Allocation holds the default strategy and the limits of all strategies.
	Allocation allocation.Config `key:"allocation"`
	Types      map[string]string `key:"allocation.types" nested:"true" help:"by entity type, the strategy, and those limits that differ from the other allocation keys, such as Cart=threshold max_simultaneous=5,Order=least-shards. In the configuration file, each type can be a section, such as Cart: {strategy: threshold}. See docs/placement.md"`
	// Budget limits how many shards may move at a time.
	Budget
	MaxForms         int           `key:"coordinator.max_forms" unit:"forms" help:"the most forms in which the events of one entity type may be stored over the whole life of the type. A form is the name, version and fields of an event. The coordinator never forgets a form"`
	Unhosted         time.Duration `key:"coordinator.unhosted_after" help:"if no region has hosted an entity type for this time, commands for the type are refused at once instead of at their deadline"`
	Rebalance        time.Duration `key:"coordinator.rebalance_interval" help:"time between two decisions about which shards should move"`
	QueryTimeout     time.Duration `key:"coordinator.query_timeout" help:"time that regions have to answer a question of an operator, such as what keeps failing. The answer to the operator names the regions that did not answer in time"`
	ShowPayloads     bool          `key:"coordinator.show_payloads" help:"whether operators may see what entities store: the payloads of events, and the state of entities, for which region.show_payloads must be set too (roost entity show --payloads, --state). See docs/operating.md"`
	TryCommands      bool          `key:"coordinator.try_commands" help:"whether operators may send any command to an entity through the coordinator, as the form of the dashboard does. Otherwise only built-in commands, such as that of roost entity delete. These commands have no subject, so regions with auth.policy refuse them. See docs/dashboard.md"`
	DecisionsMiB     int           `key:"coordinator.decisions_mib" unit:"MiB" help:"the largest size of the stored decisions of the coordinators, which roost why shows. Beyond this size, the coordinator removes the oldest decisions from the journal"`
	QuarantineAfter  int           `key:"coordinator.quarantine_after" unit:"crashes" help:"number of crashes of regions, with evidence that they were not killed from outside, after which an entity that ran at each of them is quarantined. 0: no entity is quarantined without an operator. See docs/repair.md"`
	QuarantineWindow time.Duration `key:"coordinator.quarantine_window" help:"time within which these crashes count. A suspect is forgotten if no region has ended for this time while it ran"`
	CrashPatience    time.Duration `key:"coordinator.crash_patience" help:"if coordinator.quarantine_after owners of a shard were lost, one soon after the other, the shard waits for this time at most until they have started again and say which entities ran. After each further loss it waits twice as long, up to 16 times this time. Then the next region gets the shard"`
	DrainTimeout     time.Duration `key:"coordinator.handoff_timeout" help:"time that a region has to hand off a shard. Must be the same as region.drain_timeout"`
}

// DefaultConfig is the configuration before file, environment and flags.
func DefaultConfig() Config {
	return Config{
		Config:       node.DefaultConfig(":25521"),
		Settings:     member.DefaultSettings(),
		LeaseTTL:     2 * time.Second,
		LeaseRenew:   500 * time.Millisecond,
		MinRegions:   1,
		MaxForms:     coordinator.DefaultConfig().MaxForms,
		Unhosted:     coordinator.DefaultConfig().UnhostedAfter,
		Allocation:   allocation.DefaultConfig(),
		Budget:       defaultBudget(),
		Rebalance:    500 * time.Millisecond,
		QueryTimeout: 500 * time.Millisecond,
		DecisionsMiB: coordinator.DefaultExplanationLimits().MaxBytes >> 20,
		DrainTimeout: 10 * time.Second,

		QuarantineAfter:  coordinator.DefaultConfig().QuarantineCrashes,
		QuarantineWindow: coordinator.DefaultConfig().QuarantineWindow,
		CrashPatience:    coordinator.DefaultConfig().CrashPatience,
	}
}

// maxQueryTimeout is the longest QueryTimeout. A command line waits longer than QueryTimeout and
// listTime together; listTime is the time for which the coordinator reads the journal.
const maxQueryTimeout = 900 * time.Millisecond

// maxDecisionsMiB is the largest DecisionsMiB. The coordinator can read this much within whyTime.
const maxDecisionsMiB = 256

// checkLease returns an error if the lease would refuse its configuration. The error names the keys.
func (c *Config) checkLease() error {
	l := lease.DefaultConfig()
	longest := min(100*l.Margin, time.Hour) // a clock may drift by a hundredth
	switch room := l.OpTimeout + l.Margin; {
	case c.LeaseTTL <= room || c.LeaseTTL > longest:
		return fmt.Errorf("lease.ttl is %s; choose a time above %s and at most %s", c.LeaseTTL, room, longest)
	case c.LeaseRenew <= 0:
		return fmt.Errorf("lease.renew is %s; it must be above 0", c.LeaseRenew)
	case c.LeaseRenew*2 >= c.LeaseTTL:
		return fmt.Errorf("lease.renew %s must be below half of lease.ttl %s", c.LeaseRenew, c.LeaseTTL)
	case c.LeaseRenew+room >= c.LeaseTTL:
		return fmt.Errorf("lease.renew %s must be shorter than lease.ttl %s by more than %s, or one lost reply loses the lease", c.LeaseRenew, c.LeaseTTL, room)
	}
	return nil
}

// core returns the configuration of the core.
func (c *Config) core() (coordinator.Config, error) {
	core := coordinator.DefaultConfig()
	strategy, err := allocation.New(c.Allocation)
	if err != nil {
		return core, setting.Prefix("allocation", err)
	}
	core.Strategy = strategy
	if core.Strategies, err = c.strategies(); err != nil {
		return core, err
	}
	core.MinRegions, core.RebalanceInterval, core.HandoffTimeout = c.MinRegions, c.Rebalance, c.DrainTimeout
	core.LoadCooldown = c.Allocation.LoadCooldown
	core.MaxForms, core.UnhostedAfter = c.MaxForms, c.Unhosted
	core.QuarantineCrashes, core.QuarantineWindow, core.CrashPatience = c.QuarantineAfter, c.QuarantineWindow, c.CrashPatience
	c.Budget.set(&core)
	core.LeaseEnd = min(core.LeaseEnd, c.LeaseTTL/4) // lease.renew is below half of it
	core.JournalHeartbeatPatience = max(core.JournalHeartbeatPatience, 2*c.LeaseTTL)
	return core, core.Validate()
}

// journalAt says where the journal is. Coordinators declare no types.
func (c *Config) journalAt() journalopen.At {
	return journalopen.At{URL: c.Journal, Databases: c.Databases}
}

// Validate returns an error that names every key with an unusable value.
func (c *Config) Validate() error {
	errs := []error{c.Settings.Validate()}
	for _, url := range []struct{ key, value, example string }{
		{"journal.url", c.Journal, "sqlite:/var/lib/roost/journal.db or postgres://roost@db/roost"},
		{"lease.url", c.Lease, "sqlite:/var/lib/roost/lease.db or etcd://127.0.0.1:2379/roost"},
	} {
		if url.value == "" {
			errs = append(errs, fmt.Errorf("%s is empty; give one, such as %s", url.key, url.example))
		}
	}
	if c.Journal == c.Lease && strings.HasPrefix(c.Lease, "sqlite:") {
		errs = append(errs, errors.New("lease.url is the journal's; the lease needs a file of its own, so that a writer paused inside a transaction cannot stop it"))
	}
	at := c.journalAt()
	errs = append(errs, at.Validate(), c.checkLease(), c.Budget.validate())
	if c.MinRegions < 1 || c.Rebalance <= 0 || c.DrainTimeout <= 0 || c.MaxForms < 1 || c.Unhosted <= 0 {
		errs = append(errs, errors.New("coordinator.min_regions, coordinator.rebalance_interval, coordinator.handoff_timeout, coordinator.max_forms and coordinator.unhosted_after must be above 0"))
	}
	if c.QuarantineAfter < 0 || c.QuarantineWindow <= 0 || c.CrashPatience <= 0 {
		errs = append(errs, errors.New("coordinator.quarantine_after must not be below 0 (0: never), and coordinator.quarantine_window and coordinator.crash_patience must be above 0"))
	}
	if c.QueryTimeout <= 0 || c.QueryTimeout > maxQueryTimeout {
		errs = append(errs, fmt.Errorf("coordinator.query_timeout is %s, must be above 0 and at most %s: the command line waits two seconds for an answer", c.QueryTimeout, maxQueryTimeout))
	}
	if c.DecisionsMiB < 1 || c.DecisionsMiB > maxDecisionsMiB {
		errs = append(errs, fmt.Errorf("coordinator.decisions_mib is %d, must be 1 to %d: roost why reads all of them", c.DecisionsMiB, maxDecisionsMiB))
	}
	_, err := allocation.New(c.Allocation)
	errs = append(errs, setting.Prefix("allocation", err))
	_, err = c.strategies()
	return errors.Join(append(errs, err)...)
}

// strategies returns the strategies of the types that have one of their own.
func (c *Config) strategies() (map[sharding.EntityType]allocation.Strategy, error) {
	var errs []error
	all := map[sharding.EntityType]allocation.Strategy{}
	for _, name := range slices.Sorted(maps.Keys(c.Types)) {
		s, err := c.strategyOf(c.Types[name])
		if err = errors.Join(sharding.CheckEntityType("a name in allocation.types", sharding.EntityType(name)), err); err != nil {
			errs = append(errs, fmt.Errorf("allocation.types of %s: %w", name, err))
		}
		all[sharding.EntityType(name)] = s
	}
	return all, errors.Join(errs...)
}

// strategyOf returns the strategy that is written such as "threshold max_simultaneous=5".
func (c *Config) strategyOf(text string) (allocation.Strategy, error) {
	if first, _, _ := strings.Cut(strings.TrimSpace(text), " "); !strings.Contains(first, "=") {
		text = "strategy=" + text
	}
	own := c.Allocation
	if err := node.SetWords(&own, text); err != nil {
		return nil, err
	}
	if own.LoadCooldown != c.Allocation.LoadCooldown || own.Weights() != c.Allocation.Weights() {
		return nil, errors.New("allocation.cooldown, allocation.command_cost and the weights are for all types: a region has one load; set them in the section allocation")
	}
	strategy, err := allocation.New(own)
	return strategy, setting.Prefix("allocation", err)
}
