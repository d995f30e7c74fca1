package control

import (
	"time"

	"github.com/roost-cluster/roost/libs/latency"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Kinds are all kinds of messages but those that only answer calls.
var Kinds = []Kind{
	{Zero: WatchTable{}, From: Region | Gateway, To: Coordinator | Region, Answers: []Message{TableChanged{}, NotActive{}}},
	{Zero: Register{}, From: Region, To: Coordinator, Answers: []Message{RegisterAck{}, NotActive{}}},
	{Zero: GracefulShutdown{}, From: Region, To: Coordinator, Answers: []Message{ShutdownAck{}, NotActive{}}},
	{Zero: CountDue{}, From: Region, To: Coordinator, Answers: []Message{DueAck{}, NotActive{}}},
	{Zero: ReportLoad{}, From: Region, To: Coordinator, Answers: []Message{LoadAck{}, NotActive{}}},
	{Zero: GetShardHome{}, From: Region | Gateway, To: Coordinator},
	{Zero: FindShards{}, From: Region | Gateway, To: Region, Answers: []Message{ShardsFound{}}},
	{Zero: HostShard{}, From: Coordinator | Region, To: Region},
	{Zero: HandOff{}, From: Coordinator, To: Region},
	{Zero: ShardStarted{}, From: Region, To: Coordinator | Region},
	{Zero: HostRefused{}, From: Region, To: Coordinator | Region},
	{Zero: ShardStopped{}, From: Region, To: Coordinator},
	{Zero: JournalReport{}, From: Region, To: Coordinator},
}

// MaxFindShards bounds the shards that a FindShards names; a region does not answer for more.
const MaxFindShards = 1024

// The watch of the table.
type (
	// WatchTable asks for what changed after Version. A coordinator answers as soon as
	// its table is newer, at the latest after about a second. A region answers at once.
	WatchTable struct {
		Version sharding.Version
		// Copy is true if the copy of a region will do. Without it only a coordinator answers with the
		// table, and a region answers NotActive, as a standby does. So a region at an address where a
		// coordinator was expected is never taken for one.
		Copy bool
		// Card is a gateway's, periodically.
		Card Card
	}
	// Card describes how the clients of a gateway have fared since its last card. Span is the length of
	// that time; 0: there is no card.
	Card struct {
		// Management is the address at which operators reach the gateway.
		Management string
		// Peers is the address at which the gateway answers other processes by TLS. Empty: it does not.
		Peers string
		Span  time.Duration
		// Commands counts commands that have ended. Refused counts the ended commands that were not
		// executed for lack of room, of a region or of time, or that ended with an unknown outcome.
		Commands, Refused uint64
		// Latencies are the latencies of commands whose client has waited for a region.
		Latencies latency.Sketch
	}
	// TableChanged answers WatchTable.
	TableChanged struct{ Delta sharding.TableDelta }
	// NotActive is a standby's answer to every call. It names the coordinator that holds
	// the lease, as far as the standby knows, and its term. A zero Active: none is known.
	// The active coordinator answers NotActive with a zero Active if the call must be made
	// again later.
	NotActive struct {
		Active sharding.NodeID
		Term   sharding.Term
	}
)

// The life of a region in the cluster.
type (
	// Register announces a region with the types that it hosts.
	Register struct {
		Name  string
		Types []sharding.TypeDesc
		// Version is the application version of the region's binary, or empty.
		Version string
		// Last is the term in which this incarnation was registered before, or 0. By it
		// a coordinator tells a cluster that runs from one that starts.
		Last    sharding.Term
		Journal JournalOwner
		// Zone is the region's location, such as an availability zone, or empty.
		Zone string
		// Labels say more about the region, sorted by name.
		Labels []Label
		// Capacity is the most shards, of all types, that the region wants; 0: it does not
		// say.
		Capacity uint32
		// Crash is how the process that ran before this one has ended.
		Crash Crash
	}
	// Crash is how a process of a region has ended without leaving. A zero Of: that is not known.
	Crash struct {
		Of sharding.NodeUID
		// Ago is the time between that end and the region's registration.
		Ago time.Duration
		// Cause is the runtime's message when it ended the process, such as "panic: ...". Empty: nothing.
		Cause string
		// Evidence shows, without a Cause, that the process was not killed from outside: its exit status,
		// or the fill level of its memory, if the kernel may have ended it for that reason.
		Evidence string
		// Turns are those that ran then.
		Turns []CrashedTurn
	}
	// CrashedTurn is a turn that ran when its process ended.
	CrashedTurn struct {
		Entity sharding.Entity
		// Command is empty if the entity was brought to life, or stopped.
		Command string
		// Alone is true if the entity was a suspect, and no other suspect ran at the same time: see
		// sharding.Quarantined.
		Alone bool
		// Clean is the number of turns of the same command that the suspect had run alone before, in that
		// process.
		Clean uint32
		// Ended is true if the turn had just ended. A goroutine that it has started may have ended the
		// process.
		Ended bool
	}
	// Label is one thing that a region says about itself, such as disk: ssd.
	Label struct{ Name, Value string }
	// JournalOwner is the cluster that a region's journal belongs to, by the last journal heartbeat there;
	// 0: there is none.
	JournalOwner struct {
		Known   bool
		Cluster sharding.ClusterID
		// Generation is the journal's, even if its cluster is not known; 0: not known.
		Generation sharding.Generation
	}
	// RegisterAck answers Register. A Refusal names the necessary change, and is final.
	RegisterAck struct {
		Term    sharding.Term
		Refusal string
	}
	// GracefulShutdown asks for all shards of the region to be handed off.
	GracefulShutdown struct{}
	// ShutdownAck answers GracefulShutdown with the number of shards that the table
	// still gives to the region.
	ShutdownAck struct {
		Term      sharding.Term
		Remaining int
	}
	// CountDue asks how many shards are about to come to the region because of a rollout.
	// A region asks until there are none, and is then ready.
	CountDue struct{}
	// DueAck answers CountDue. It counts the rows that are starting at the region, and the rows of leaving
	// or lost regions that the region could take. It is 0 if no rollout is on, or if the coordinator does
	// not allocate shards yet.
	DueAck struct {
		Term sharding.Term
		Due  int
	}
	// ReportLoad reports the load of a region's shards: the busiest ones individually, and all others
	// together. A report with a lower Number than an earlier one is outdated and is ignored.
	ReportLoad struct {
		Number uint64
		// Full: Shards are all that are reported by themselves. Otherwise they are those that
		// have changed since the report with the Number before, and the others are as they
		// were then.
		Full   bool
		Shards []ShardLoad
		// Rest is the load of the shards that are not reported by themselves.
		Rest sharding.Load
		Node NodeLoad
	}
	// ShardLoad is the load of a shard. A zero Load: the shard is part of the rest from now on,
	// or is not in the region any more.
	ShardLoad struct {
		Shard sharding.ShardID
		Load  sharding.Load
	}
	// NodeLoad is the load and the limits of a region's process.
	NodeLoad struct {
		Processors  uint32 // that its code may use
		MilliGC     uint32 // thousandths of its processor time that go to collecting garbage
		MemoryUsed  uint64 // bytes
		MemoryLimit uint64 // bytes; 0: there is none
	}
	// LoadAck answers ReportLoad: the coordinator of the term has taken the report.
	LoadAck struct{ Term sharding.Term }
	// JournalReport is a region's judgement of its journal. A report with a lower
	// Number than an earlier one is outdated and is ignored.
	JournalReport struct {
		Number uint64
		State  sharding.JournalState
	}
)

// The life of a shard.
type (
	// GetShardHome asks for an allocation, which the table will show. Refused is the
	// epoch at which a region refused a command, or 0.
	GetShardHome struct {
		Shard   sharding.ShardID
		Refused sharding.Epoch
	}
	// FindShards asks the region that a row names as the owner for the newest rows that it knows of
	// these shards. A region may know that a shard is served, or by whom, before a coordinator
	// does.
	FindShards struct{ Shards []sharding.ShardID }
	// ShardsFound answers FindShards with the rows that are known.
	ShardsFound struct{ Rows []sharding.Row }
	// HostShard asks the owner of a starting row to claim the shard and serve it; or the successor
	// of a shard that its owner has released, at the epoch that is reserved for it.
	HostShard struct {
		Term  sharding.Term
		Shard sharding.ShardID
		Epoch sharding.Epoch
		// Previous has the states of the entities, if their type keeps them on moves.
		Previous Previous
		// Released is true if the sender is the region that has released the shard. Term is the HandOff's
		// term then.
		Released bool
		// Table: the region takes the shard only when its copy of the table is at least this new. So
		// it knows which entities are quarantined before it runs any. The sender repeats the message.
		Table sharding.Version
	}
	// Previous is the region that has kept the states of a shard's entities, and the epoch at which it
	// stopped the shard. Zero: no region has.
	Previous struct {
		Owner sharding.NodeID
		Epoch sharding.Epoch
	}
	// ShardStarted: the shard is claimed at the epoch, or its fence is damaged and the
	// region refuses all commands for that reason.
	ShardStarted struct {
		Shard sharding.ShardID
		Epoch sharding.Epoch
	}
	// HostRefused: the region cannot take the shard at the epoch. Above is the epoch
	// that stands in the way; the next allocation is above it. The region has stored nothing
	// at the epoch, or has released the shard since. Row is for a region that has given it the shard:
	// the newest row that is known, if its epoch is not below Epoch.
	HostRefused struct {
		Shard sharding.ShardID
		Epoch sharding.Epoch
		Above sharding.Epoch
		Row   sharding.Row
	}
	// HandOff asks the owner of a row to finish all accepted work, and to stop and
	// release the shard. If it names a successor, the owner then sends HostShard to it.
	HandOff struct {
		Term  sharding.Term
		Shard sharding.ShardID
		Epoch sharding.Epoch
		// Successor gets the shard next, at the epoch Next, which is reserved for it. Zero: the
		// coordinator gives the shard away when it is released.
		Successor sharding.NodeID
		Next      sharding.Epoch
		// Table is for the HostShard to the successor: what the owner knows may be older.
		Table sharding.Version
	}
	// ShardStopped: nothing of the shard at this or a lower epoch is alive in the
	// region.
	ShardStopped struct {
		Shard sharding.ShardID
		Epoch sharding.Epoch
		// Wrote are the forms that this incarnation has stored in the shard, or has tried to, as indexes
		// into the Writes of its registration of the type.
		Wrote sharding.FormSet
		// Keeps is true if the region has kept the states of the shard's entities, for the next owner.
		Keeps bool
	}
)

func (WatchTable) name() string       { return "WatchTable" }
func (TableChanged) name() string     { return "TableChanged" }
func (NotActive) name() string        { return "NotActive" }
func (Register) name() string         { return "Register" }
func (RegisterAck) name() string      { return "RegisterAck" }
func (GracefulShutdown) name() string { return "GracefulShutdown" }
func (ShutdownAck) name() string      { return "ShutdownAck" }
func (CountDue) name() string         { return "CountDue" }
func (DueAck) name() string           { return "DueAck" }
func (ReportLoad) name() string       { return "ReportLoad" }
func (LoadAck) name() string          { return "LoadAck" }
func (JournalReport) name() string    { return "JournalReport" }
func (GetShardHome) name() string     { return "GetShardHome" }
func (FindShards) name() string       { return "FindShards" }
func (ShardsFound) name() string      { return "ShardsFound" }
func (HostShard) name() string        { return "HostShard" }
func (ShardStarted) name() string     { return "ShardStarted" }
func (HostRefused) name() string      { return "HostRefused" }
func (HandOff) name() string          { return "HandOff" }
func (ShardStopped) name() string     { return "ShardStopped" }

// About returns no shard.
func (WatchTable) About() About { return About{} }

// About returns the rows that changed.
func (m TableChanged) About() About { return About{Term: m.Delta.Version.Term, Rows: m.Delta.Rows} }

// About returns no term: a standby has none.
func (NotActive) About() About { return About{} }

// About returns no shard.
func (Register) About() About { return About{} }

// About returns the term that took the region in.
func (m RegisterAck) About() About { return About{Term: m.Term} }

// About returns no shard.
func (GracefulShutdown) About() About { return About{} }

// About returns the term that hands the shards off.
func (m ShutdownAck) About() About { return About{Term: m.Term} }

// About returns no shard.
func (CountDue) About() About { return About{} }

// About returns the term that counts.
func (m DueAck) About() About { return About{Term: m.Term} }

// About returns no shard: loads are estimates.
func (ReportLoad) About() About { return About{} }

// About returns the term that has taken the report.
func (m LoadAck) About() About { return About{Term: m.Term} }

// About returns no shard.
func (JournalReport) About() About { return About{} }

// About returns the shard, whatever the state of its row.
func (m GetShardHome) About() About { return About{Shard: m.Shard, Epoch: m.Refused} }

// About returns no shard: the message names several.
func (FindShards) About() About { return About{} }

// About returns the rows that are known.
func (m ShardsFound) About() About { return About{Rows: m.Rows} }

// About returns the row that is given to the region. If a region sends the message, it has no term, and the
// row may be handed off at a lower epoch still.
func (m HostShard) About() About {
	if m.Released {
		return About{Shard: m.Shard, Epoch: m.Epoch}
	}
	return About{Term: m.Term, Shard: m.Shard, Epoch: m.Epoch, Phase: sharding.Starting}
}

// About returns the row that the message concerns while it starts: it serves from then on.
func (m ShardStarted) About() About {
	return About{Shard: m.Shard, Epoch: m.Epoch, Phase: sharding.Starting}
}

// About returns the row that the message concerns while it starts or serves.
func (m HostRefused) About() About {
	return About{Shard: m.Shard, Epoch: m.Epoch, Phase: sharding.Serving}
}

// About returns the row that is handed off.
func (m HandOff) About() About {
	return About{Term: m.Term, Shard: m.Shard, Epoch: m.Epoch, Phase: sharding.HandingOff}
}

// About returns the row that the message concerns, in any phase.
func (m ShardStopped) About() About {
	return About{Shard: m.Shard, Epoch: m.Epoch, Phase: sharding.HandingOff}
}
