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
	journalopen "github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/node/member"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/purge"
	"github.com/roost-cluster/roost/libs/replies"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/setting"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/region"
	"github.com/roost-cluster/roost/services/region/suspects"
)

// Config is the configuration of a region process.
type Config struct {
	node.Config
	member.Settings
	Journal      string            `key:"journal.url" secret:"url" help:"URL of the journal, which stores the entities, such as sqlite:/var/lib/roost/journal.db or postgres://roost@db/roost. All regions and coordinators of a cluster must use the same journal"`
	Databases    []string          `key:"journal.databases" secret:"true" help:"the databases of the journal beside that of journal.url, with their numbers, such as 2=postgres://roost@db2/roost,3=postgres://roost@db3/roost. All regions and coordinators of a cluster need all of them. See docs/databases.md"`
	Placed       map[string]string `key:"journal.types" help:"by entity type, the number of the database in which the type is put when a region first declares it, such as Order=2. Other types are put into the database of journal.url, which is 1. A type never changes its database. See docs/databases.md"`
	AppVersion   string            `key:"app.version" help:"version of your entities' code, which roost members shows. Empty: the version that the binary was built with or, if there is none, the version of its main module"`
	Types        []string          `key:"region.types" help:"entity types of this binary that this process hosts. Empty: all types of the binary. With this key, regions that run the same binary can host different types"`
	Passivation  map[string]string `key:"region.passivation" help:"by entity type, the strategy that decides which entities the region stops to free memory, such as Cart=lru limit=10000 idle=10m,Order=idle=5m. A strategy given here replaces the strategy in the code of the type. A limit in a strategy holds for this region. A change of the configuration file takes effect without a restart. See docs/memory.md"`
	HeapShare    float64           `key:"region.heap_share" help:"share (0 to 1) of the memory limit that the live heap may use. The memory limit is GOMEMLIMIT, or 90% of the container's memory limit. If the live heap is larger, the region stops entities to free memory, even if their strategies would keep them. The region never stops entities of a type with the strategy none. 0: the live heap is not limited; without a memory limit, it is not limited either. See docs/memory.md"`
	Policy       string            `key:"auth.policy" help:"file that says which principals may send which commands to which entities, as the gateways have it. The region checks each command from a gateway again. The file is read again when it changes. Empty: the gateways alone decide. See docs/security.md"`
	Labels       map[string]string `key:"region.labels" help:"labels that tell operators and placement about this region, such as disk=ssd. roost members -o json shows the labels"`
	Capacity     int               `key:"region.capacity" unit:"shards" help:"the most shards, of all types together, that this region should have. The region is given more shards only if no other region has room for them. If all regions have a capacity, zones share the shards of a type in proportion to the capacities of their regions. 0: the number of shards is not limited"`
	Inbox        int               `key:"region.inbox" unit:"messages" help:"the most messages that may wait for the region's shard cores. Each shard core has an equal part of this limit. While the part of a core is full, the region reads no more commands for that core from its connections"`
	ShardCores   int               `key:"region.shard_cores" unit:"shard cores" help:"number of shard cores, among which the shards of this process are divided. The default is a quarter of the processors, at least 1 and at most 64. A shard core does the work outside of entities (admission, mailboxes, deduplication, gates) for its shards, in one thread at a time. More than one core helps only if this work keeps many processors busy. All cores share the limits of the region. If the share of one core would be less than 5 commands, 10MiB of commands or 5 loads, the region uses fewer cores"`
	Mailbox      int               `key:"region.mailbox" unit:"commands" help:"the most commands that one entity may have accepted and not yet answered. The region refuses further commands as resource_exhausted"`
	MailboxShare float64           `key:"region.mailbox_share" help:"share (above 0, at most 1) of a command's time that the command may wait for earlier turns of its entity. The region estimates the wait from the entity's recent turns. If the estimate is longer than this share, the region refuses the command at once as resource_exhausted"`
	Commands     int               `key:"region.commands" unit:"commands" help:"the most commands that all entities together may have accepted and not yet answered. A fifth of this limit is reserved for commands whose sender is a waiting entity. The region refuses further commands as resource_exhausted"`
	CommandBytes setting.Bytes     `key:"region.command_bytes" help:"the largest total size of the commands that all entities have accepted and not yet answered. A fifth of this limit is reserved for commands whose sender is a waiting entity. The region refuses further commands as resource_exhausted"`
	ReplyBytes   setting.Bytes     `key:"region.reply_bytes" help:"the largest total size of unsent replies: replies that gateways have not taken yet, and expected replies of accepted commands. A command without room for its reply waits; after half of its time, the region refuses the command as resource_exhausted"`
	LinkReplies  setting.Bytes     `key:"region.link_reply_bytes" help:"the largest total size of unsent replies on one connection of a gateway: replies that the gateway has not taken yet, and expected replies of accepted commands. A command without room for its reply waits; after half of its time, the region refuses the command as resource_exhausted. At most half of region.reply_bytes"`
	DrainTimeout time.Duration     `key:"region.drain_timeout" help:"time that a shard has to finish its accepted commands when it is handed off. After this time, the region cancels the running turns of the shard"`
	LeaveTimeout time.Duration     `key:"region.leave_timeout" help:"longest time for which a stopping region waits until its shards have been handed off. After this time, the region stops even if it still has shards"`
	KeptWait     time.Duration     `key:"region.kept_wait" help:"for volatile types with KeepOnMoves: longest time for which a moved shard, and its commands, wait for the states that the previous owner has kept. After this time, the entities begin empty"`
	KeptBytes    setting.Bytes     `key:"region.kept_bytes" help:"for volatile types with KeepOnMoves: the largest total size of the states that this region keeps for the next owners of its shards. The region keeps a state until the next owner fetches it, but at most for region.leave_timeout. If there is no room for the state of an entity, the entity begins empty at the next owner"`
	LoadInterval time.Duration     `key:"region.load_interval" help:"time between two reports of the load of this region's shards (handler time, memory and so on). Coordinators with allocation.strategy load, and roost members, use the reports. 0: the region neither measures nor reports load. See docs/placement.md"`
	LoadHalfLife time.Duration     `key:"region.load_half_life" help:"half-life of load measurements. In the reported rates of a shard, a measurement of this age has half the weight of a new measurement"`
	ShowPayloads bool              `key:"region.show_payloads" help:"whether operators may see the state of entities (roost entity show --state). coordinator.show_payloads must be set too. See docs/operating.md"`
	CrashDir     string            `key:"region.crash_dir" help:"directory of the files in which the region notes the turns that run. If the process ends without leaving, the next process of the same name reads there which entity may have ended it. The directory should outlive the process, such as an emptyDir volume in Kubernetes. Empty: roost-UID within the system's directory for temporary files. See docs/repair.md"`
	LastExit     string            `key:"region.last_exit" help:"how the process before this one has ended, from a parent that waits for processes, such as roost dev or systemd (a region in a container is its own parent): exit status 3, signal: killed, exited 3 or killed KILL. A process that was killed from outside has no culprit. Empty: nobody knows. See docs/repair.md"`
	StopTimeout  time.Duration     `key:"region.stop_timeout" help:"time that the stop hook of an entity has"`
	Failures     int               `key:"region.failure_log" unit:"lines/s" help:"the most log lines per second about failed turns, tells, loads and snapshots. The region leaves out further lines, and the next line says how many were left out"`
	// The next keys limit loads, waiting turns, and command ids in memory. They also set when a
	// snapshot is taken.
	EntityLoads   int           `key:"region.entity_loads" unit:"loads" help:"the most loads of one entity that may run at a time. Abandoned loads count until they end, because each running load may hold a goroutine, and a start hook that ignores its context may never end. If a command needs one more load, the region refuses the command as unavailable"`
	Loads         int           `key:"region.loads" unit:"loads" help:"the most loads of all entities together that may run at a time. When many shards arrive at once, each entity with waiting commands needs one load. A fifth of this limit is reserved for commands whose sender is a waiting entity. If a command needs one more load, the region refuses the command as unavailable"`
	WaitingTurns  int           `key:"region.waiting_turns" unit:"turns" help:"the most turns that may wait for answers of other entities. Each waiting turn holds a goroutine with its stack. Each shard core has an equal part of this limit. While the part is used up, the region refuses further asks of its entities as resource_exhausted"`
	LookupTimeout time.Duration `key:"region.lookup_timeout" help:"longest time for which a repeated command waits until the journal reports whether the command is stored. The commands behind it in the mailbox wait as well. Usually the journal needs some milliseconds. After this time, the repeated command has a turn like any other command"`
	RecentIDs     int           `key:"region.recent_ids" unit:"ids" help:"number of recent command ids that the region keeps in memory, for all entities together. Each id takes eight bytes. If the id of a repeated command is in memory, the journal answers the command. Any other repeated command costs a turn and a reload. 0: the region keeps no ids"`
	SnapshotBytes setting.Bytes `key:"region.snapshot_bytes" help:"size of new records after which the region takes a snapshot of an entity, even if the records have few events. So a load of the entity reads little more than this size after the snapshot. The default is half of the largest possible snapshot, so that the region does not write large states all the time"`
	// The next keys limit the commands that entities of this region send to other entities.
	Routed           int           `key:"region.routed_commands" unit:"commands" help:"the most unanswered commands that entities of this region have sent to other entities, in this region or elsewhere. The region refuses further commands of its entities as resource_exhausted"`
	RoutedBytes      setting.Bytes `key:"region.routed_command_bytes" help:"the largest total size of the unanswered commands that entities of this region have sent to other entities. The region refuses further commands of its entities as resource_exhausted"`
	RoutedReplies    setting.Bytes `key:"region.routed_reply_bytes" help:"the largest total size of the expected replies to commands that entities of this region have sent to other entities. The region refuses further commands of its entities as resource_exhausted"`
	RoutedShard      int           `key:"region.routed_shard_commands" unit:"commands" help:"the most unanswered commands that entities of this region have sent to one shard. So one hot or moving shard cannot use up region.routed_commands. The region refuses further commands to that shard as resource_exhausted"`
	RoutedShardBytes setting.Bytes `key:"region.routed_shard_bytes" help:"the largest total size of the unanswered commands that entities of this region have sent to one shard. The region refuses further commands to that shard as resource_exhausted"`
	RoutedLinkIdle   time.Duration `key:"region.routed_link_idle" help:"if no entity of this region has sent a command over a link for this time, the region closes the link. Must be above 1m, the longest time that a command has"`
	SendsMaxAge      time.Duration `key:"region.sends_max_age" help:"longest time for which the region tries to deliver a command that one entity has sent to another. After this time, the command becomes a dead letter, unless a command of the sender takes the answer. A command may have its own (MaxAge). Must be below region.dedupe_age by at least an hour, or by half of region.dedupe_age if that is less, because targets remember executed commands only for region.dedupe_age"`
	SendsTimeout     time.Duration `key:"region.sends_timeout" help:"longest time that one attempt to deliver a send may take, with the handler of its target. After this time, the context of the handler ends, and the region tries again. At most 1m, the longest time that a command has. A command may have its own (Timeout)"`
	SendsRetryMin    time.Duration `key:"region.sends_retry_min" help:"pause after the first failed attempt to deliver a send. The pause doubles with each further failure. A random part of at most half is subtracted. A command may have its own (Retry)"`
	SendsRetryMax    time.Duration `key:"region.sends_retry_max" help:"longest pause between two attempts to deliver a send. Attempts come earlier when the shard of the target is served anew, when the target is released from quarantine, and by roost sends retry. A command may have its own (Retry)"`
	FiringTimeout    time.Duration `key:"region.firing_timeout" help:"longest time that the command of a timer, of a reminder, or one that takes the answer to a send may take, from the moment at which it is due. After this time, the context of its handler ends, and the turn is undone. A command may have its own (Timeout)"`
	// Remember and Reminders limit remembered entities and reminders.
	Remember  RememberConfig
	Reminders ReminderConfig
	// JournalPatience and JournalRecovery say when the core counts the region as cut off from the journal.
	JournalPatience time.Duration `key:"journal.patience" help:"longest time for which the journal may leave commits, or loads, unanswered. After this time, the region counts as cut off from the journal: the region is not ready, and its journaled shards move to other regions. 0: the region never counts as cut off"`
	// DedupeAge is how long keys are remembered, and DedupeCount how many of an entity's newest keys are
	// remembered longer. PurgeRate and PurgeInterval limit how fast the records of deleted entities are removed.
	DedupeAge       time.Duration `key:"region.dedupe_age" help:"least time for which the journal remembers the idempotency key of a command. A later repeat of the command may be refused as expired. The records of a deleted entity are removed when its keys have this age"`
	DedupeCount     int           `key:"region.dedupe_count" unit:"keys" help:"how many of an entity's newest idempotency keys the journal remembers however old they are. The others are forgotten when they have the age region.dedupe_age: with the next snapshot of the entity, or within its next 1024 records. 0: only the age counts, and the journal takes less space for entities that had many commands"`
	PurgeRate       int           `key:"region.purge_rate" unit:"entities/s" help:"the most deleted entities per second that this process checks, or removes from the journal. Further deleted entities wait"`
	PurgeInterval   time.Duration `key:"region.purge_interval" help:"time between two searches of a shard for deleted entities whose records can be removed"`
	JournalRecovery time.Duration `key:"journal.recovery" help:"time for which the journal must answer again before a region that was cut off from the journal is given shards again"`
}

// journal returns the configuration of the journal.
func (c *Config) journal() journal.Config {
	j := journal.DefaultConfig()
	j.DedupeAge, j.DedupeCount = c.DedupeAge, c.DedupeCount
	return j
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
	return Config{
		Config:       node.DefaultConfig(":25520"),
		Settings:     member.DefaultSettings(),
		HeapShare:    0.5, // between two collections, the heap grows to twice the live heap
		Inbox:        65536,
		ShardCores:   min(max(1, runtime.GOMAXPROCS(0)/4), region.MaxShardCores),
		Mailbox:      1000,
		MailboxShare: 0.5,
		Commands:     100_000,
		CommandBytes: 256 << 20,
		ReplyBytes:   setting.Bytes(replies.DefaultConfig().Total),
		LinkReplies:  setting.Bytes(replies.DefaultConfig().Connection),
		DrainTimeout: 10 * time.Second,
		LeaveTimeout: 20 * time.Second,
		KeptWait:     time.Second,
		KeptBytes:    256 << 20,
		LoadInterval: 5 * time.Second,
		LoadHalfLife: 15 * time.Second,
		StopTimeout:  5 * time.Second,
		Failures:     100, // 100 lines show what is wrong, and do not fill a disk

		EntityLoads:   4, // a single load that hangs does not make the entity unavailable
		Loads:         20_000,
		WaitingTurns:  10_000,
		LookupTimeout: time.Second,
		RecentIDs:     65_536, // the ids of one minute at 1,000 commands per second
		SnapshotBytes: 8 << 20,
		SendsMaxAge:   23 * time.Hour,
		SendsTimeout:  10 * time.Second, // longer than a handoff of the target's shard
		SendsRetryMin: time.Second,
		SendsRetryMax: time.Minute,
		FiringTimeout: 30 * time.Second,
		Remember:      defaultRemember(),
		Reminders:     defaultReminders(),

		Routed:           20_000, // twice WaitingTurns
		RoutedBytes:      64 << 20,
		RoutedReplies:    256 << 20, // 16,000 replies of unknown size
		RoutedShard:      1000,
		RoutedShardBytes: 8 << 20,
		RoutedLinkIdle:   5 * time.Minute,

		JournalPatience: 5 * time.Second,
		JournalRecovery: 10 * time.Second,

		DedupeAge:     journal.DefaultConfig().DedupeAge,
		DedupeCount:   journal.DefaultConfig().DedupeCount,
		PurgeRate:     purge.DefaultConfig().Rate,
		PurgeInterval: purge.DefaultConfig().Interval,
	}
}

// router returns the configuration of the router's core.
func (c *Config) router() router.Config {
	core := router.DefaultConfig()
	core.Process, core.ReplyKey, core.Fed = "region", "region.routed_reply_bytes", true
	core.LinkIdle = c.RoutedLinkIdle
	core.AnswerReserve = 0 // an ask already has an earlier deadline than its turn
	core.MaxTotal, core.MaxTotalBytes = c.Routed, c.RoutedBytes
	core.MaxWaiting, core.MaxWaitingBytes = c.RoutedShard, c.RoutedShardBytes
	core.MaxReplyBytes = c.RoutedReplies
	return core
}

// journalAt says where the journal is.
func (c *Config) journalAt() journalopen.At {
	return journalopen.At{URL: c.Journal, Databases: c.Databases, Types: c.Placed}
}

// setSends sets how sends are delivered that have no options of their own, and how old others may become.
func (c *Config) setSends(core *region.Config) {
	core.Sends.MaxAge, core.Sends.AttemptTimeout = c.SendsMaxAge, c.SendsTimeout
	core.Sends.RetryMin, core.Sends.RetryMax = c.SendsRetryMin, c.SendsRetryMax
	core.Sends.AgeLimit = outbox.LongestAge(c.DedupeAge)
	core.Turn.SendAgeLimit = core.Sends.AgeLimit
}

// Tools returns the help text for the tools that the binary of a region contains.
func (c *Config) Tools() string {
	return "Tools of this binary, each with a --help of its own:\n\n" +
		"  journal check    read all that is stored with this binary's code, before it is rolled out\n" +
		"  snapshot drop    drop snapshots, so that entities are rebuilt from their events\n"
}

// Validate returns an error that names every key with an unusable value.
func (c *Config) Validate() error {
	errs := []error{c.Settings.Validate(), c.checkPassivation()}
	if c.Journal == "" {
		errs = append(errs, errors.New("journal.url is empty; give the journal of the cluster, such as sqlite:/var/lib/roost/journal.db or postgres://roost@db/roost"))
	}
	at := c.journalAt()
	errs = append(errs, at.Validate())
	if _, err := suspects.ParseExit(c.LastExit); err != nil {
		errs = append(errs, fmt.Errorf("region.last_exit %w", err))
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
		"region.sends_timeout": int(c.SendsTimeout), "region.sends_retry_min": int(c.SendsRetryMin), "region.firing_timeout": int(c.FiringTimeout),
		"region.stop_timeout": int(c.StopTimeout), "region.failure_log": c.Failures,
	} {
		if v <= 0 {
			errs = append(errs, fmt.Errorf("%s must be above 0", key))
		}
	}
	sends := outbox.Config{MaxAge: c.SendsMaxAge}
	errs = append(errs, sends.CheckAge(c.DedupeAge))
	if c.SendsTimeout > sharding.MaxSendTimeout {
		errs = append(errs, fmt.Errorf("region.sends_timeout is %s, must be at most %s, the longest time that a command has", c.SendsTimeout, sharding.MaxSendTimeout))
	}
	if c.SendsRetryMax < c.SendsRetryMin {
		errs = append(errs, fmt.Errorf("region.sends_retry_max is %s, must be at least region.sends_retry_min, which is %s", c.SendsRetryMax, c.SendsRetryMin))
	}
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
	if least := setting.Bytes(2 * sharding.MaxPayload); c.RoutedReplies < least {
		errs = append(errs, fmt.Errorf("region.routed_reply_bytes %s must be at least %s, twice the longest reply, or large ones never find room", c.RoutedReplies, least))
	}
	if c.RoutedShard <= 0 || c.RoutedShardBytes <= sharding.MaxPayload {
		errs = append(errs, fmt.Errorf("region.routed_shard_commands must be above 0, and region.routed_shard_bytes above %s, or the longest command never finds room", setting.Bytes(sharding.MaxPayload)))
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
	if c.DedupeCount < 0 {
		errs = append(errs, fmt.Errorf("region.dedupe_count is %d, must not be negative; 0 means that only region.dedupe_age counts", c.DedupeCount))
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
