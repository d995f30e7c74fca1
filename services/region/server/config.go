package server

import (
	"errors"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/journal"
	journalopen "github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/node/config"
	"github.com/roost-cluster/roost/libs/node/member"
	"github.com/roost-cluster/roost/libs/node/security"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/setting"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/region"
	"github.com/roost-cluster/roost/services/region/suspects"
)

// Config is the configuration of a region process.
type Config struct {
	config.Config
	member.Settings
	// Core has the settings of the cores. Some of its fields are computed, see [Config.core].
	Core region.Config
	// Routed limits the commands that entities of this region send to other entities.
	Routed router.Config `key:"region.routed" omit:"timeout,max_timeout,deferred_share" expert:"true"`
	// Journal is the address of the journal; Stored limits what it keeps of commands.
	Journal journalopen.At `key:"journal"`
	Stored  journal.Config `key:"region"`
	// Auth names the policy file of the gateways.
	Auth security.PolicySettings `key:"auth"`

	AppVersion   string            `key:"app.version" help:"version of your entities' code, which roost cluster status shows. Empty: the version that the binary was built with or, if there is none, the version of its main module"`
	Types        []string          `key:"region.types" help:"entity types of this binary that this process hosts. Empty: all types of the binary. With this key, regions that run the same binary can host different types"`
	Passivation  map[string]string `key:"region.passivation" help:"by entity type, the strategy that decides which entities the region stops to free memory, such as Cart=lru limit=10000 idle=10m,Order=idle=5m. A strategy given here replaces the strategy in the code of the type. A limit in a strategy holds for this region. A change of the configuration file takes effect without a restart. See docs/using/memory.md"`
	HeapShare    float64           `key:"region.heap_share" range:"0..1" help:"share (0 to 1) of the memory limit that the live heap may use. The memory limit is GOMEMLIMIT, or 90% of the container's memory limit. If the live heap is larger, the region stops entities to free memory, even if their strategies would keep them. The region never stops entities of a type with the strategy none. 0: the live heap is not limited; without a memory limit, it is not limited either. See docs/using/memory.md"`
	Labels       map[string]string `key:"region.labels" help:"labels that tell operators and placement about this region, such as disk=ssd. roost cluster status -o json shows the labels"`
	Inbox        int               `key:"region.inbox" unit:"messages" range:"1.." help:"the most messages that may wait for the region's shard cores. Each shard core has an equal part of this limit. While the part of a core is full, the region reads no more commands for that core from its connections" expert:"true"`
	ShowPayloads bool              `key:"region.show_payloads" help:"whether operators may see the state of entities (roost entity show --state). coordinator.show_payloads must be set too. See docs/running/operating.md"`
	CrashDir     string            `key:"region.crash_dir" help:"directory of the files in which the region notes the turns that run. If the process ends without leaving, the next process of the same name reads there which entity may have ended it. The directory should outlive the process, such as an emptyDir volume in Kubernetes. Empty: roost-UID within the system's directory for temporary files. See docs/running/repair.md" expert:"true"`
	LastExit     string            `key:"region.last_exit" help:"how the process before this one has ended, from a parent that waits for processes, such as roost dev or systemd (a region in a container is its own parent): exit status 3, signal: killed, exited 3 or killed KILL. A process that was killed from outside has no culprit. Empty: unknown. See docs/running/repair.md" expert:"true"`
	StopTimeout  time.Duration     `key:"region.stop_timeout" range:">0" help:"time that the stop hook of an entity has" expert:"true"`
	Failures     int               `key:"region.failure_log" unit:"lines/s" range:"1.." help:"the most log lines per second about failed turns, tells, loads and snapshots. The region leaves out further lines, and the next line has the number of lines left out" expert:"true"`
}

// maxLabels is the most labels that a coordinator accepts from one region.
const maxLabels = 64

// labels returns the labels in the order in which a region registers them.
func (c *Config) labels() (list []control.Label) {
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		list = append(list, control.Label{Name: name, Value: c.Labels[name]})
	}
	return list
}

// DefaultConfig is the configuration before file, environment and flags.
func DefaultConfig() Config {
	c := Config{
		Config:      config.Default(":25520"),
		Settings:    member.DefaultSettings(),
		Core:        region.DefaultConfig(sharding.NodeID{}, ""),
		Routed:      router.DefaultConfig(),
		Stored:      journal.DefaultConfig(),
		HeapShare:   0.5, // between two collections, the heap grows to twice the live heap
		Inbox:       65536,
		StopTimeout: 5 * time.Second,
		Failures:    100, // 100 lines show what is wrong, and do not fill a disk
	}
	c.Core.ShardCores = min(max(1, runtime.GOMAXPROCS(0)/4), region.MaxShardCores)
	r := &c.Routed
	r.Process, r.ReplyKey, r.Fed = "region", "region.routed.reply_bytes", true
	r.AnswerReserve = 0 // an ask already has an earlier deadline than its turn
	r.MaxTotal = 20_000 // twice region.waiting_turns
	r.LinkIdle = 5 * time.Minute
	return c
}

// core returns the configuration of the cores with the values that are computed from several settings.
func (c *Config) core() region.Config {
	core := c.Core
	core.Turn.HeapBytes = heapBytes(c.HeapShare)
	core.Zone, core.Labels = c.Zone, c.labels()
	core.Sends.AgeLimit = outbox.LongestAge(c.Stored.DedupeAge)
	core.Turn.KeyAge = core.Sends.AgeLimit
	core.FitShardCores()
	return core
}

// Tools returns the help text for the tools that the binary of a region contains.
func (c *Config) Tools() string {
	return "Tools of this binary, each with a --help of its own:\n\n" +
		"  journal check    read all that is stored with this binary's code, before it is rolled out\n" +
		"  snapshot drop    drop snapshots, so that entities are rebuilt from their events\n"
}

// Validate returns an error that names every key with an unusable value.
func (c *Config) Validate() error {
	fitted := *c
	fitted.Core.FitShardCores() // small limits are no mistake because the machine has many processors
	errs := []error{
		setting.Ranges(&fitted), c.checkPassivation(),
		setting.Prefix("region.routed", c.Routed.CheckRoom(sharding.MaxPayload)),
		setting.Prefix("region.sends", c.Core.Sends.CheckAge(c.Stored.DedupeAge, "region.dedupe_age")),
	}
	bad := func(key setting.Key, format string, args ...any) {
		errs = append(errs, setting.Errorf(key, format, args...))
	}
	if c.Journal.URL == "" {
		bad("journal.url", "is empty; give the journal of the cluster, such as sqlite:/var/lib/roost/journal.db or postgres://roost@db/roost")
	}
	if c.Routed.LinkIdle == 0 { // a gateway may have a link to each region, but not each region to each other one
		bad("region.routed.link_idle", "is 0, must be above %s, the longest time that a command has", c.Routed.MaxTimeout)
	}
	if _, err := suspects.ParseExit(c.LastExit); err != nil {
		bad("region.last_exit", "%w", err)
	}
	if c.AppVersion != "" {
		errs = append(errs, sharding.CheckText("app.version", c.AppVersion, sharding.MaxTypeLen))
	}
	if len(c.Labels) > maxLabels {
		bad("region.labels", "has %d labels, at most %d are allowed", len(c.Labels), maxLabels)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		errs = append(errs, sharding.CheckText("a name in region.labels", name, sharding.MaxTypeLen), sharding.CheckText("region.labels "+name, c.Labels[name], sharding.MaxTypeLen))
	}
	return errors.Join(errs...)
}
