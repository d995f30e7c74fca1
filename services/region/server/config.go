package server

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/node/member"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/purge"
	"github.com/roost-cluster/roost/libs/replies"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/region"
)

// Config is the configuration of a region process.
type Config struct {
	node.Config
	member.Settings
	Journal      string            `key:"journal.url" secret:"url" help:"where entities are kept, such as sqlite:/var/lib/roost/journal.db or postgres://roost@db/roost; all regions and coordinators use the same"`
	AppVersion   string            `key:"app.version" help:"version of your entities' code, as roost members shows it; empty: the one that the binary was built with, or that of its main module"`
	Types        []string          `key:"region.types" help:"entity types of this binary that this process hosts; empty: all. In this way regions that run the same binary can host different types"`
	Passivation  map[string]string `key:"region.passivation" help:"by entity type: which entities are stopped to free memory, instead of what their code says; such as Cart=lru limit=10000 idle=10m,Order=idle=5m. See docs/memory.md for the strategies. A limit is for this region. When the file has changed, it takes effect without a restart"`
	HeapShare    float64           `key:"region.heap_share" help:"share of the memory limit (GOMEMLIMIT, or 90% of that of the container) that may be live heap; above it entities are stopped to free memory, whatever their strategies say, except entities of types with the strategy none, which are never stopped; 0: no bound, as without a memory limit. See docs/memory.md"`
	Labels       map[string]string `key:"region.labels" help:"what operators and placement should know about this region, such as disk=ssd; shown by roost members -o json"`
	Capacity     int               `key:"region.capacity" unit:"shards" help:"the most shards, of all types, that this region is given as long as others have room; if all regions have a capacity, zones share the shards of a type in proportion to the capacities of their regions; 0: not limited"`
	Inbox        int               `key:"region.inbox" unit:"messages" help:"messages that may wait for the region's shard cores, divided equally among the cores; when that many wait, nothing more is read from links"`
	ShardCores   int               `key:"region.shard_cores" unit:"shard cores" help:"parts into which the shards of this process are divided; what does not run entities (admission, mailboxes, deduplication, gates) is done for each part by one thread at a time. Limits are for all of them together; there are fewer parts where the share of a part in one of these limits would be less than 5 commands, 10MiB of commands or 5 loads. More than one part helps only if this work keeps many processors busy"`
	Mailbox      int               `key:"region.mailbox" unit:"commands" help:"commands that may wait for one entity; more are refused as resource_exhausted"`
	MailboxShare float64           `key:"region.mailbox_share" help:"share of a command's time that the turns before it may take, judged by how long recent turns of its entity took; a command that would wait longer is refused at once as resource_exhausted"`
	Commands     int               `key:"region.commands" unit:"commands" help:"commands that may wait for all entities; more are refused as resource_exhausted"`
	CommandBytes node.Bytes        `key:"region.command_bytes" help:"size of all waiting commands; more are refused as resource_exhausted"`
	ReplyBytes   node.Bytes        `key:"region.reply_bytes" help:"size of all replies that are owed: those that gateways have not taken, and those that accepted commands may still produce; commands for which there is no room wait, and are refused as resource_exhausted after half of their time"`
	LinkReplies  node.Bytes        `key:"region.link_reply_bytes" help:"the same for one connection of a gateway; at most half of region.reply_bytes"`
	DrainTimeout time.Duration     `key:"region.drain_timeout" help:"time a handed-off shard has to finish what it accepted; then running turns are cancelled"`
	LeaveTimeout time.Duration     `key:"region.leave_timeout" help:"time a stopping region waits for its shards to be handed off"`
	KeptWait     time.Duration     `key:"region.kept_wait" help:"for volatile types with KeepOnMoves: time for which a shard, and its commands, wait for the states that the previous owner has kept; then the entities begin empty"`
	KeptBytes    node.Bytes        `key:"region.kept_bytes" help:"for volatile types with KeepOnMoves: size of all states that are kept for the next owners of shards; each state is kept until it is fetched, for region.leave_timeout at most. An entity whose state finds no room begins empty at its next owner"`
	LoadInterval time.Duration     `key:"region.load_interval" help:"time between two reports of what the shards of this region cost it (handler time, memory and so on), for coordinators with allocation.strategy load and for roost members; 0: nothing is measured and reported. See docs/placement.md"`
	LoadHalfLife time.Duration     `key:"region.load_half_life" help:"half-life of the measurements: in the rates that are reported of a shard, a measurement of this age has half the weight of a new one"`
	StopTimeout  time.Duration     `key:"region.stop_timeout" help:"time an entity's stop hook has"`
	Failures     int               `key:"region.failure_log" unit:"lines/s" help:"log lines about failed turns, tells, loads and snapshots; what exceeds it is left out and counted in the next line"`
	// Limits of loads, of turns that wait, and of the command ids that are in memory; and when snapshots
	// are taken.
	EntityLoads   int           `key:"region.entity_loads" unit:"loads" help:"loads of one entity that may run at a time, including loads that nobody waits for any more; a command that would need one more is refused as unavailable. Each load may keep a goroutine until it ends, and a start hook that ignores its context may never end"`
	Loads         int           `key:"region.loads" unit:"loads" help:"loads of all entities together that may run at a time; enough for the entities that have commands waiting when many shards arrive at once"`
	WaitingTurns  int           `key:"region.waiting_turns" unit:"turns" help:"turns that may wait for the answers of other entities, divided equally among the shard cores; each keeps a goroutine with its stack. When that many wait, what an entity asks is refused as resource_exhausted"`
	LookupTimeout time.Duration `key:"region.lookup_timeout" help:"time for which the repeat of a recent command, and the commands behind it, wait until the journal has said whether that command is stored, which takes some milliseconds; then the repeat has a turn like any other command"`
	RecentIDs     int           `key:"region.recent_ids" unit:"ids" help:"ids of recent commands that are kept in memory, for all entities together, at eight bytes each. The repeat of a command whose id is in memory is answered from the journal; any other repeat costs a turn and a reload; 0: none"`
	SnapshotBytes node.Bytes    `key:"region.snapshot_bytes" help:"a snapshot is taken when the records since the last one have this size, however few events they have. So to load an entity, little more than this is read after its snapshot. The default is half of the largest possible snapshot, so that large states are not written all the time"`
	// Limits of the router, for the commands that entities here send to others.
	Routed           int           `key:"region.routed_commands" unit:"commands" help:"commands that entities of this region have sent to other entities, here or elsewhere, and that are not answered; more are refused as resource_exhausted"`
	RoutedBytes      node.Bytes    `key:"region.routed_command_bytes" help:"size of all these commands; more are refused as resource_exhausted"`
	RoutedReplies    node.Bytes    `key:"region.routed_reply_bytes" help:"size of the replies that these commands are expected to bring; more commands are refused as resource_exhausted"`
	RoutedShard      int           `key:"region.routed_shard_commands" unit:"commands" help:"commands of entities here under way to one shard, so that one hot or moving shard cannot use up the others' room"`
	RoutedShardBytes node.Bytes    `key:"region.routed_shard_bytes" help:"size of the commands of entities here under way to one shard"`
	RoutedLinkIdle   time.Duration `key:"region.routed_link_idle" help:"a link to another region is closed when no entity here has sent a command over it for this time; above 1m, the longest time that a command has"`
	SendsMaxAge      time.Duration `key:"region.sends_max_age" help:"how long the delivery of a command that an entity has sent to another one is tried; after that the command is a dead letter, unless the sender takes the answer. At least an hour less than region.dedupe_age, for which entities remember which commands they have executed"`
	// Reminders and remembered entities.
	Remember  RememberConfig
	Reminders ReminderConfig
	// Health of the journal, as the core judges it.
	JournalPatience time.Duration `key:"journal.patience" help:"time for which the journal leaves commits, or loads, unanswered before this region counts as cut off from it: it is not ready then, and its journaled shards move to other regions; 0: never"`
	// What is stored of entities that were deleted, and of keys.
	DedupeAge       time.Duration `key:"region.dedupe_age" help:"time for which the idempotency key of a command is remembered at least; after that a repeat may be refused as expired. What is stored of a deleted entity is removed when its keys are that old"`
	PurgeRate       int           `key:"region.purge_rate" unit:"entities/s" help:"the most deleted entities that this process checks or removes from the journal; others wait"`
	PurgeInterval   time.Duration `key:"region.purge_interval" help:"time between two looks at a shard for deleted entities that can be removed"`
	JournalRecovery time.Duration `key:"journal.recovery" help:"time for which the journal must answer again before this region is given shards again"`
}

// maxLabels is how many labels a coordinator takes from one region.
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
	return Config{
		Config:       node.DefaultConfig(":25520"),
		Settings:     member.DefaultSettings(),
		HeapShare:    0.5, // the runtime needs as much again between two collections
		Inbox:        65536,
		ShardCores:   min(max(1, runtime.GOMAXPROCS(0)/4), region.MaxShardCores),
		Mailbox:      1000,
		MailboxShare: 0.5,
		Commands:     100_000,
		CommandBytes: 256 << 20,
		ReplyBytes:   node.Bytes(replies.DefaultConfig().Total),
		LinkReplies:  node.Bytes(replies.DefaultConfig().Connection),
		DrainTimeout: 10 * time.Second,
		LeaveTimeout: 20 * time.Second,
		KeptWait:     time.Second,
		KeptBytes:    256 << 20,
		LoadInterval: 5 * time.Second,
		LoadHalfLife: 15 * time.Second,
		StopTimeout:  5 * time.Second,
		Failures:     100, // enough to see what is wrong, too few to fill a disk

		EntityLoads:   4, // a single load that hangs does not make the entity unavailable
		Loads:         20_000,
		WaitingTurns:  10_000,
		LookupTimeout: time.Second,
		RecentIDs:     65_536, // a minute of retries at 1,000 commands per second
		SnapshotBytes: 8 << 20,
		SendsMaxAge:   23 * time.Hour,
		Remember:      defaultRemember(),
		Reminders:     defaultReminders(),

		Routed:           20_000, // twice as many as turns may wait for answers
		RoutedBytes:      64 << 20,
		RoutedReplies:    256 << 20, // 16,000 of unknown size
		RoutedShard:      1000,
		RoutedShardBytes: 8 << 20,
		RoutedLinkIdle:   5 * time.Minute,

		JournalPatience: 5 * time.Second,
		JournalRecovery: 10 * time.Second,

		DedupeAge:     journal.DefaultConfig().DedupeAge,
		PurgeRate:     purge.DefaultConfig().Rate,
		PurgeInterval: purge.DefaultConfig().Interval,
	}
}

// router is the configuration of the core of the router.
func (c *Config) router() router.Config {
	core := router.DefaultConfig()
	core.Process, core.ReplyKey, core.Fed = "region", "region.routed_reply_bytes", true
	core.LinkIdle = c.RoutedLinkIdle
	core.AnswerReserve = 0 // the deadline of an ask already leaves a part of its turn's time unused
	core.MaxTotal, core.MaxTotalBytes = c.Routed, int(c.RoutedBytes)
	core.MaxWaiting, core.MaxWaitingBytes = c.RoutedShard, int(c.RoutedShardBytes)
	core.MaxReplyBytes = int(c.RoutedReplies)
	return core
}

// Tools says what the binary of a region can do besides being one.
func (c *Config) Tools() string {
	return "Tools of this binary, each with a --help of its own:\n\n" +
		"  journal check    read all that is stored with this binary's code, before it is rolled out\n" +
		"  snapshot drop    drop snapshots, so that entities are rebuilt from their events\n"
}

// Validate refuses what cannot work; it names every key.
func (c *Config) Validate() error {
	errs := []error{c.Settings.Validate(), c.checkPassivation()}
	if c.Journal == "" {
		errs = append(errs, errors.New("journal.url is empty; give the journal of the cluster, such as sqlite:/var/lib/roost/journal.db or postgres://roost@db/roost"))
	}
	if c.AppVersion != "" {
		errs = append(errs, sharding.CheckText("app.version", c.AppVersion, sharding.MaxTypeLen))
	}
	if c.Capacity < 0 || c.Capacity > 1_000_000 {
		errs = append(errs, fmt.Errorf("region.capacity is %d, must be 0 to 1000000 shards; 0: not limited", c.Capacity))
	}
	if len(c.Labels) > maxLabels {
		errs = append(errs, fmt.Errorf("region.labels has %d labels, at most %d are allowed", len(c.Labels), maxLabels))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		errs = append(errs, sharding.CheckText("a name in region.labels", name, sharding.MaxTypeLen), sharding.CheckText("region.labels "+name, c.Labels[name], sharding.MaxTypeLen))
	}
	for key, v := range map[string]int{
		"region.inbox": c.Inbox, "region.mailbox": c.Mailbox, "region.commands": c.Commands,
		"region.command_bytes": int(c.CommandBytes), "region.drain_timeout": int(c.DrainTimeout),
		"region.entity_loads": c.EntityLoads, "region.loads": c.Loads, "region.waiting_turns": c.WaitingTurns,
		"region.lookup_timeout": int(c.LookupTimeout), "region.snapshot_bytes": int(c.SnapshotBytes),
		"region.kept_wait": int(c.KeptWait), "region.kept_bytes": int(c.KeptBytes),
		"region.purge_rate": c.PurgeRate, "region.purge_interval": int(c.PurgeInterval), "region.sends_max_age": int(c.SendsMaxAge),
		"region.stop_timeout": int(c.StopTimeout), "region.failure_log": c.Failures,
	} {
		if v <= 0 {
			errs = append(errs, fmt.Errorf("%s must be above 0", key))
		}
	}
	sends := outbox.Config{MaxAge: c.SendsMaxAge}
	errs = append(errs, sends.CheckAge(c.DedupeAge))
	if c.ShardCores < 1 || c.ShardCores > region.MaxShardCores {
		errs = append(errs, fmt.Errorf("region.shard_cores is %d, must be 1 to %d", c.ShardCores, region.MaxShardCores))
	}
	least := 2 * replies.DefaultConfig().Largest
	if int(c.LinkReplies) < least {
		errs = append(errs, fmt.Errorf("region.link_reply_bytes %s must be at least %d bytes, or the longest reply never finds room", c.LinkReplies, least))
	}
	if c.ReplyBytes < 2*c.LinkReplies {
		errs = append(errs, fmt.Errorf("region.reply_bytes %s must be at least twice region.link_reply_bytes (%s), or one connection could take all of it", c.ReplyBytes, c.LinkReplies))
	}
	if !(c.HeapShare >= 0 && c.HeapShare <= 1) {
		errs = append(errs, fmt.Errorf("region.heap_share is %v, must be 0 to 1; 0 is no bound", c.HeapShare))
	}
	if !(c.MailboxShare > 0 && c.MailboxShare <= 1) {
		errs = append(errs, fmt.Errorf("region.mailbox_share is %v, must be above 0 and at most 1", c.MailboxShare))
	}
	errs = append(errs, c.validateWakeups())
	if c.RecentIDs < 0 {
		errs = append(errs, fmt.Errorf("region.recent_ids is %d, must not be negative; 0 remembers none", c.RecentIDs))
	}
	if least := node.Bytes(2 * sharding.MaxPayload); c.RoutedReplies < least {
		errs = append(errs, fmt.Errorf("region.routed_reply_bytes %s must be at least %s, twice the longest reply, or large ones never find room", c.RoutedReplies, least))
	}
	if c.RoutedShard <= 0 || c.RoutedShardBytes <= sharding.MaxPayload {
		errs = append(errs, fmt.Errorf("region.routed_shard_commands must be above 0, and region.routed_shard_bytes above %s, or the longest command never finds room", node.Bytes(sharding.MaxPayload)))
	}
	if c.Routed < c.RoutedShard || c.RoutedBytes < c.RoutedShardBytes {
		errs = append(errs, errors.New("region.routed_commands and region.routed_command_bytes must not be below region.routed_shard_commands and region.routed_shard_bytes"))
	}
	if longest := router.DefaultConfig().MaxTimeout; c.RoutedLinkIdle <= longest {
		errs = append(errs, fmt.Errorf("region.routed_link_idle is %s, must be above %s, the longest time that a command has", c.RoutedLinkIdle, longest))
	}
	if c.JournalPatience < 0 {
		errs = append(errs, fmt.Errorf("journal.patience is %s, must not be negative; 0 means never", c.JournalPatience))
	}
	if c.DedupeAge < time.Second {
		errs = append(errs, fmt.Errorf("region.dedupe_age is %s, must be at least 1s", c.DedupeAge))
	}
	if c.JournalRecovery <= 0 {
		errs = append(errs, fmt.Errorf("journal.recovery is %s, must be above 0", c.JournalRecovery))
	}
	if c.KeptWait > region.MaxKeptWait {
		errs = append(errs, fmt.Errorf("region.kept_wait is %s, must be at most %s: a shard that is not served for longer goes to another region", c.KeptWait, region.MaxKeptWait))
	}
	if c.LoadInterval < 0 || c.LoadInterval > region.MaxLoadInterval || c.LoadHalfLife <= 0 {
		errs = append(errs, fmt.Errorf("region.load_interval is %s, must be 0 (nothing is reported) to %s, and region.load_half_life %s must be above 0", c.LoadInterval, region.MaxLoadInterval, c.LoadHalfLife))
	}
	if c.LeaveTimeout <= c.DrainTimeout {
		errs = append(errs, fmt.Errorf("region.leave_timeout %s must be above region.drain_timeout %s", c.LeaveTimeout, c.DrainTimeout))
	}
	return errors.Join(errs...)
}
