package coordinator

import "github.com/roost-cluster/roost/libs/sharding"

// Input is one message to the coordinator. The set is closed.
type Input interface{ input() }

// Output is one thing the driver must do. Outputs are performed in order;
// every output after a [Persist], answers to watches included, is held until
// the fact is durable, while Step goes on. If a Persist is refused by the
// fence the driver steps down ([Deposed]); if its outcome is unknown the
// process stops: the next coordinator folds what is true.
type Output interface{ output() }

// Inputs from the driver: lease, membership, time.
type (
	// Elected: the lease is held in Term, the fact stream is claimed with it,
	// and Facts are what it holds, oldest first.
	Elected struct {
		Term  sharding.Term
		Facts []Fact
		// Cluster is what the journal says by now about whose it is; 0: nothing.
		Cluster sharding.ClusterID
	}
	// Deposed: the lease is lost, past its time, or the stream was fenced.
	// From here on nothing is answered except who is active.
	Deposed struct{}
	// Stored: the oldest so many of the facts that Persist gave out in this term,
	// and of which it was not said before, are durable.
	Stored struct{ Facts int }
	// Active tells a standby who holds the lease; the latest one counts. A zero
	// Node: nobody known.
	Active struct {
		Node sharding.NodeID
		Term sharding.Term
	}
	// Member is what membership says of a region: sent at every change, and
	// for every member before the first Elected.
	Member struct {
		Node sharding.NodeID
		Name string
		// Reachable is the verdict of this node's own detector (fast profile)
		// together with evidence of a dead process.
		Reachable bool
		// Joining says that the member is not up yet, weakly up included: it is
		// given no shards, because others may not know of it.
		Joining bool
		// Leaving says that the member is on its way out.
		Leaving bool
	}
	// MemberGone: removed from the membership, downed, or replaced by a new
	// incarnation at the same address.
	MemberGone struct{ Node sharding.NodeID }
	// Tick lets time pass; the driver sends one every 50 ms or so.
	Tick struct{}
)

// Inputs from regions and watchers.
type (
	// Register announces a region with the types it hosts, at its start and
	// again at every new term.
	Register struct {
		Region sharding.NodeID
		Name   string
		Types  []sharding.TypeDesc
		// Version is the application version of the region binary, or empty.
		Version string
		// Last is the term in which this incarnation was registered before, or 0:
		// it tells a cluster that runs from one that starts.
		Last sharding.Term
		// Journal is whose the region's journal is, as Elected.Cluster; nil: not known.
		Journal *sharding.ClusterID
	}
	// GetShardHome asks for an allocation. It is answered by the table change
	// it causes. Refused is the epoch that refused the command, or 0.
	GetShardHome struct {
		Shard   sharding.ShardID
		Refused sharding.Epoch
	}
	// WatchTable asks for what changed after Version. It is answered by
	// TableChanged, at the latest after Config.WatchHold.
	WatchTable struct {
		Watch   WatchID
		Version sharding.Version
	}
	// WatchEnded: whoever asked does not wait for the answer any more.
	WatchEnded struct{ Watch WatchID }
	// ShardStarted: the region holds the claim of the shard at the epoch.
	ShardStarted struct {
		Region sharding.NodeID
		Shard  sharding.ShardID
		Epoch  sharding.Epoch
	}
	// HostRefused: the region could not take the shard: its floor is higher or
	// the journal refused the claim. Above is the epoch that stands in the way;
	// the next allocation is above it.
	HostRefused struct {
		Region sharding.NodeID
		Shard  sharding.ShardID
		Epoch  sharding.Epoch
		Above  sharding.Epoch
	}
	// ShardStopped: the region has let go of the shard at the epoch.
	ShardStopped struct {
		Region sharding.NodeID
		Shard  sharding.ShardID
		Epoch  sharding.Epoch
	}
	// GracefulShutdown: the region wants to leave and asks for its shards to
	// be handed off. Repeated until acknowledged with nothing left.
	GracefulShutdown struct{ Region sharding.NodeID }
	// JournalReport is what a region makes of its journal: at every change, and
	// again and again while it does not answer. One that is older than another, by
	// its number, counts nothing.
	JournalReport struct {
		Region sharding.NodeID
		Number uint64
		State  sharding.JournalState
	}
	// JournalProbed answers ProbeJournal.
	JournalProbed struct{ Verdict sharding.Verdict }
	// DrainRegion hands all shards of a region off without its leaving; Resume
	// ends that. Operator's wish; it outlives the term.
	DrainRegion struct {
		Region sharding.NodeID
		Resume bool
	}
)

// WatchID names one waiting poll of one watcher, chosen by the driver.
type WatchID uint64

// Outputs.
type (
	// Persist stores a fact. It is applied already.
	Persist struct{ Fact Fact }
	// HostShard asks the owner of a starting row to claim and serve.
	HostShard struct {
		To    sharding.NodeID
		Term  sharding.Term
		Shard sharding.ShardID
		Epoch sharding.Epoch
	}
	// HandOff asks the owner of a row to finish, stop and let go.
	HandOff struct {
		To    sharding.NodeID
		Term  sharding.Term
		Shard sharding.ShardID
		Epoch sharding.Epoch
	}
	// TableChanged answers a watch.
	TableChanged struct {
		Watch WatchID
		Delta sharding.TableDelta
	}
	// NotActive answers a watch at a standby: who is active, as far as known.
	NotActive struct {
		Watch  WatchID
		Active sharding.NodeID
		Term   sharding.Term
	}
	// RegisterAck answers Register. A Refusal says what to change.
	RegisterAck struct {
		To      sharding.NodeID
		Term    sharding.Term
		Refusal string
	}
	// ShutdownAck answers GracefulShutdown with the number of shards that the
	// table still gives to the region.
	ShutdownAck struct {
		To        sharding.NodeID
		Term      sharding.Term
		Remaining int
	}
	// ProbeJournal asks the journal something that has no effect. Answered by
	// JournalProbed.
	ProbeJournal struct{}
)

// Fact is one durable change of the table. State changes only in apply(fact),
// live and in replay.
type Fact interface{ fact() }

type (
	// RowFact: the shard's row is now Row.
	RowFact struct{ Row sharding.Row }
	// TypeFact: the type is declared with this descriptor; its number of
	// shards never changes.
	TypeFact struct{ Desc sharding.TypeDesc }
	// DrainFact: the operator wants the region empty; Resume: not any more. It
	// is about this incarnation only, and ends with it.
	DrainFact struct {
		Region sharding.NodeID
		Resume bool
	}
)

func (Elected) input()          {}
func (Deposed) input()          {}
func (Stored) input()           {}
func (WatchEnded) input()       {}
func (Active) input()           {}
func (Member) input()           {}
func (MemberGone) input()       {}
func (Tick) input()             {}
func (Register) input()         {}
func (GetShardHome) input()     {}
func (WatchTable) input()       {}
func (ShardStarted) input()     {}
func (HostRefused) input()      {}
func (ShardStopped) input()     {}
func (GracefulShutdown) input() {}
func (JournalReport) input()    {}
func (JournalProbed) input()    {}
func (DrainRegion) input()      {}

func (Persist) output()      {}
func (HostShard) output()    {}
func (HandOff) output()      {}
func (TableChanged) output() {}
func (NotActive) output()    {}
func (RegisterAck) output()  {}
func (ShutdownAck) output()  {}
func (ProbeJournal) output() {}

func (RowFact) fact()   {}
func (TypeFact) fact()  {}
func (DrainFact) fact() {}
