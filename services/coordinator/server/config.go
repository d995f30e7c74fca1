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
	"github.com/roost-cluster/roost/libs/node/config"
	"github.com/roost-cluster/roost/libs/node/member"
	"github.com/roost-cluster/roost/libs/setting"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// Config is the configuration of a coordinator process.
type Config struct {
	config.Config
	member.Settings
	// Core has the settings of the core. Some of its fields are computed, see [Config.core].
	Core coordinator.Config
	// Journal is the address of the journal. Coordinators declare no types.
	Journal journalopen.At `key:"journal" omit:"types"`

	LeaseURL string       `key:"lease.url" secret:"url" help:"URL of the lease, which decides which coordinator is active, such as sqlite:/var/lib/roost/lease.db. The lease can also be at postgres://, etcd://, consul:// or kubernetes: addresses. A lease in SQLite needs a file of its own"`
	Lease    lease.Config `key:"lease"`
	// Allocation holds the default strategy and the limits of all strategies.
	Allocation   allocation.Config `key:"allocation"`
	Types        map[string]string `key:"allocation.types" nested:"true" help:"by entity type, the strategy, and those limits that differ from the other allocation keys, such as Cart=threshold max_simultaneous=5,Order=least-shards. In the configuration file, each type can be a section, such as Cart: {strategy: threshold}. See docs/running/placement.md"`
	QueryTimeout time.Duration     `key:"coordinator.query_timeout" range:">0..900ms" why:"the command line waits two seconds for an answer, and the coordinator reads the journal meanwhile" help:"time that regions have to answer a question of an operator, such as what keeps failing. The answer to the operator names the regions that did not answer in time" expert:"true"`
	ShowPayloads bool              `key:"coordinator.show_payloads" help:"whether operators may see stored data of entities: the payloads of events, and their state, which also needs region.show_payloads (roost entity show --payloads, --state). See docs/running/operating.md"`
	TryCommands  bool              `key:"coordinator.try_commands" help:"whether operators may send any command to an entity through the coordinator, as the form of the dashboard does. Otherwise only built-in commands, for example of roost entity delete. These commands have no subject, so regions with auth.policy refuse them. See docs/running/dashboard.md"`
	DecisionsMiB int               `key:"coordinator.decisions_mib" unit:"MiB" range:"1..256" why:"roost shard show reads all of them" help:"the largest size of the stored decisions of the coordinators, which roost shard show shows. Beyond this size, the coordinator removes the oldest decisions from the journal" expert:"true"`
}

// DefaultConfig is the configuration before file, environment and flags.
func DefaultConfig() Config {
	return Config{
		Config:       config.Default(":25521"),
		Settings:     member.DefaultSettings(),
		Core:         coordinator.DefaultConfig(),
		Lease:        lease.DefaultConfig(),
		Allocation:   allocation.DefaultConfig(),
		QueryTimeout: 500 * time.Millisecond,
		DecisionsMiB: coordinator.DefaultExplanationLimits().MaxBytes >> 20,
	}
}

// core returns the configuration of the core with the values that are computed from several settings.
func (c *Config) core() (coordinator.Config, error) {
	core := c.Core
	strategy, err := allocation.New(c.Allocation)
	if err != nil {
		return core, setting.Prefix("allocation", err)
	}
	core.Strategy = strategy
	if core.Strategies, err = c.strategies(); err != nil {
		return core, err
	}
	core.LoadCooldown = c.Allocation.LoadCooldown
	core.GatewayForgotten = max(core.GatewayForgotten, 2*core.BrakeWindow)
	core.LeaseEnd = min(core.LeaseEnd, c.Lease.TTL/4) // lease.renew is below half of lease.ttl
	core.JournalHeartbeatPatience = max(core.JournalHeartbeatPatience, 2*c.Lease.TTL)
	return core, core.Validate()
}

// Validate returns an error that names every key with an unusable value.
func (c *Config) Validate() error {
	errs := []error{setting.Ranges(c)}
	bad := func(key setting.Key, format string, args ...any) {
		errs = append(errs, setting.Errorf(key, format, args...))
	}
	if c.Journal.URL == "" {
		bad("journal.url", "is empty; give one, such as sqlite:/var/lib/roost/journal.db or postgres://roost@db/roost")
	}
	if c.Lease.RenewEvery >= c.Lease.TTL/2 { // or a healthy lease would be in the time that core names LeaseEnd
		bad("lease.renew", "is %s, must be below half of %s (%s)", c.Lease.RenewEvery, setting.Key("lease.ttl"), c.Lease.TTL)
	}
	if c.LeaseURL == "" {
		bad("lease.url", "is empty; give one, such as sqlite:/var/lib/roost/lease.db or etcd://127.0.0.1:2379/roost")
	}
	if c.Journal.URL == c.LeaseURL && strings.HasPrefix(c.LeaseURL, "sqlite:") {
		bad("lease.url", "is the journal's; the lease needs a file of its own, so that a writer paused inside a transaction cannot stop it")
	}
	_, err := c.strategies()
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
	if err := config.SetWords(&own, text); err != nil {
		return nil, err
	}
	if own.LoadCooldown != c.Allocation.LoadCooldown || own.Weights() != c.Allocation.Weights() {
		return nil, errors.New("allocation.cooldown, allocation.command_cost and the weights are for all types: a region has one load; set them in the section allocation")
	}
	strategy, err := allocation.New(own)
	return strategy, setting.Prefix("allocation", err)
}
