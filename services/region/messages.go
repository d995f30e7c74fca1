package region

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/purge"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/libs/wakeup"
)

// ControlInput is one message to the control core. The set is closed.
type ControlInput interface{ controlInput() }

// ControlOutput is one thing that the driver of the control core must do, in order. The
// set is closed.
type ControlOutput interface{ controlOutput() }

// ShardInput is one message to a shard core. The set is closed.
type ShardInput interface{ shardInput() }

// ShardOutput is one thing that the driver of a shard core must do, besides those that
// the entity core wants. The set is closed.
type ShardOutput interface{ shardOutput() }

// Order is an input of a shard core that comes from the control core.
type Order interface {
	ShardInput
	order()
}

// Event is what a shard core tells the control core.
type Event interface{ event() }

// Inputs of the control core.
type (
	// Received is a control message. From is the address of its sender, if known, and UID its
	// incarnation. A message with a Call is answered by a Reply.
	Received struct {
		From string
		UID  sharding.NodeUID
		Call control.Call
		Msg  control.Message
	}
	// Replied is the answer of the process at From to Asked, a Send that is a call. A
	// nil Msg: there is none.
	Replied struct {
		From       string
		Asked, Msg control.Message
	}
	// Coordinators is what membership and discovery say: where coordinators
	// may be.
	Coordinators struct{ Addrs []string }
	// Probed answers ProbeJournal. The verdict on a load is Durable if the journal
	// answered it, even with no record.
	Probed struct {
		Path    JournalPath
		Number  uint64
		Verdict sharding.Verdict
	}
	// JournalHeartbeatRead answers ReadJournalHeartbeat: the last heartbeat in the
	// journal, zero if there is none. Not OK: it cannot be read.
	JournalHeartbeatRead struct {
		Number    uint64
		Heartbeat sharding.JournalHeartbeat
		OK        bool
		// Generation is that of the journal, whether or not it answered.
		Generation sharding.Generation
	}
	// FromCore is an event of a shard core.
	FromCore struct {
		Core  int
		Event Event
	}
	// Leave: drain all shards and leave (SIGTERM). The answer is Left. The control core
	// passes Leave on to the shard cores, which take no shard from then on.
	Leave struct{}
	// FeedRouter: an entity of this region has sent its first command. From now on the
	// router is told of the route table, by Feed.
	FeedRouter struct{}
	// NodeMeasured is what the process has and uses now. It comes every second or so.
	NodeMeasured struct{ Load control.NodeLoad }
	// Tick lets time pass; the driver sends one to every core every 20 ms or so.
	Tick struct{}
)

// Outputs of the control core.
type (
	// Send sends a control message to the process at an address. If it is a call, it is
	// answered by Replied. Any other may get lost, and the core repeats it.
	// UID is the incarnation that is meant; 0: whichever is there.
	Send struct {
		To  string
		UID sharding.NodeUID
		Msg control.Message
	}
	// Reply answers a Received with a Call.
	Reply struct {
		Call control.Call
		Msg  control.Message
	}
	// ToCore is an order for a shard core.
	ToCore struct {
		Core  int
		Order Order
	}
	// ReadJournalHeartbeat asks to which cluster the journal belongs. Answered by
	// JournalHeartbeatRead.
	ReadJournalHeartbeat struct{ Number uint64 }
	// Registered says that the coordinator of a term has taken this region in.
	Registered struct {
		With string
		Term sharding.Term
	}
	// ProbeJournal asks the journal something that has no effect, on the way that
	// claims and appends take, or on that of loads. Answered by Probed.
	ProbeJournal struct {
		Path   JournalPath
		Number uint64
	}
	// JournalChanged says, once, that this region judges its journal differently.
	// Nothing has succeeded there since Heard.
	JournalChanged struct {
		State sharding.JournalState
		Heard time.Time
	}
	// Feed is an input of the region's router, as a Table of package router: what the route table has
	// gained since the Feed before, and the address of the active coordinator.
	Feed struct {
		Delta  sharding.TableDelta
		Active string
	}
	// Left: all shards are handed off, or the time for that is over. The region may
	// leave the membership.
	Left struct{}
	// Fail: the region cannot go on (its registration was refused). The
	// process stops with the reason.
	Fail struct{ Reason string }
)

// Orders of the control core, and what they are for.
type (
	// Host: the coordinator at From gives the shard to this region; or the region at From, which
	// has released it.
	Host struct {
		From  string
		Shard sharding.ShardID
		Epoch sharding.Epoch
		// Previous names the region that has kept the states of the entities; zero: none has.
		Previous control.Previous
		// Released says that From is a region.
		Released bool
	}
	// HandOff: the coordinator at From wants the shard back.
	HandOff struct {
		From  string
		Shard sharding.ShardID
		Epoch sharding.Epoch
	}
	// Rows has the rows of the route table that have changed.
	Rows struct{ Rows []sharding.Row }
	// DrainAll releases all shards, after Leave.
	DrainAll struct{}
	// Grant answers Want: the core may use that much more.
	Grant struct {
		Resource Resource
		N        int
	}
	// Reclaim asks the core to give back what it does not use, and all that is above Keep as
	// soon as it is not used any more.
	Reclaim struct {
		Resource Resource
		Keep     int
	}
)

// Other inputs of a shard core.
type (
	// Command came over a link: routed here by a table that may be stale. It ends with
	// exactly one Answer, NotMine or Refuse.
	Command struct {
		Request turn.RequestID
		Epoch   sharding.Epoch
		// Env is copied where it is kept.
		Env *sharding.Envelope
	}
	// Claimed answers Claim.
	Claimed struct {
		Shard   sharding.ShardID
		Epoch   sharding.Epoch
		Verdict sharding.Verdict
		Fence   sharding.Fence
	}
	// KeptFetched answers FetchKept: with no states if there are none, or if they cannot be
	// had.
	KeptFetched struct {
		Shard sharding.ShardID
		Epoch sharding.Epoch
		Kept  []turn.Kept
	}
	// GiveKept: the region that owns the shard at Epoch asks for the states that this region has
	// kept since it stopped the shard at the epoch Stopped. Answered by Kept.
	GiveKept struct {
		Call    control.Call
		Shard   sharding.ShardID
		Epoch   sharding.Epoch
		Stopped sharding.Epoch
	}
	// KeptSent follows each Kept that has states: the states have been sent, or sending them has
	// failed. Bytes is the field of that Kept.
	KeptSent struct{ Bytes int }
	// WakesRead answers ReadWakes.
	WakesRead struct{ Page wakeup.Page }
	// DeletedRead answers ReadDeleted.
	DeletedRead struct{ Page purge.Page }
	// Purged answers Purge.
	Purged struct{ purge.Purged }
	// SetPassivation gives a type another strategy. Its limit is the region's.
	SetPassivation struct {
		Type     sharding.EntityType
		Strategy passivation.Strategy
	}
	// Collected is turn.Collected.
	Collected struct{ Cycle, Live uint64 }
	// Turn carries an answer of the driver to the entity core.
	Turn struct{ Input turn.Input }
)

// Outputs of a shard core.
type (
	// Claim takes the shard in the journal. Answered by Claimed.
	Claim struct {
		Shard sharding.ShardID
		Epoch sharding.Epoch
	}
	// FetchKept asks the previous owner for the states that it has kept. Answered by one
	// KeptFetched.
	FetchKept struct {
		Shard    sharding.ShardID
		Epoch    sharding.Epoch
		Previous control.Previous
		// Within is how long the driver may take. After that it answers with the states that
		// have come by then.
		Within time.Duration
	}
	// Kept answers GiveKept. The core does not keep the states any longer: if they get lost on
	// the way, nobody has them. If there are any, KeptSent must follow.
	Kept struct {
		Call   control.Call
		States []turn.Kept
		Bytes  int // of the states
	}
	// ReadWakes reads wake-ups of the shards. Answered by WakesRead.
	ReadWakes struct{ Read wakeup.Read }
	// ReadDeleted reads which lives of the shards' entities have ended and are due to be purged.
	// Answered by DeletedRead.
	ReadDeleted struct{ Read purge.Read }
	// Purge purges these lives. Answered by Purged.
	Purge struct{ purge.Purge }
	// NotMine refuses a command; it was definitely not applied here.
	NotMine struct {
		Request turn.RequestID
		// Refused is the epoch at which the command was routed, or at which the
		// region served the shard until now.
		Refused sharding.Epoch
		// Row is the newest one known, with zero Epoch if there is none. Its Shard
		// is set even then, unless this region does not know its type.
		Row sharding.Row
	}
	// Refuse answers a command that was definitely not delivered.
	Refuse struct {
		Request turn.RequestID
		Reply   sharding.Reply
	}
)

// Events of a shard core.
type (
	// Report is a message to the coordinator at To, or to the watched one if To is empty.
	Report struct {
		To  string
		Msg control.Message
	}
	// Held says how many shards the core holds now, and whether it is leaving. A core that is
	// leaving takes no more shards. Kept is of how many shards the core has states that the
	// next owner may still fetch.
	Held struct {
		Shards  int
		Leaving bool
		Kept    int
	}
	// JournalAnswered: the journal has answered an operation, the last one at At.
	JournalAnswered struct {
		Path JournalPath
		At   time.Time
	}
	// Measured has the loads of the core's shards.
	Measured struct{ ShardLoads }
	// Want asks for more of what is almost used up. Answered by Grant, once there is
	// something to grant.
	Want struct{ Resource Resource }
	// Return gives back what was granted.
	Return struct {
		Resource Resource
		N        int
	}
)

// String shows the command, not where it is kept: traces must be the same
// every time.
func (c Command) String() string {
	return fmt.Sprintf("{Request:%d Epoch:%v Env:%+v}", c.Request, c.Epoch, *c.Env)
}

// String leaves out who has kept states, if nobody has.
func (h Host) String() string {
	if h.Released {
		return fmt.Sprintf("{From:%s Shard:%v Epoch:%v Released:true}", h.From, h.Shard, h.Epoch)
	}
	if h.Previous == (control.Previous{}) {
		return fmt.Sprintf("{From:%s Shard:%v Epoch:%v}", h.From, h.Shard, h.Epoch)
	}
	return fmt.Sprintf("{From:%s Shard:%v Epoch:%v Previous:%+v}", h.From, h.Shard, h.Epoch, h.Previous)
}

// String leaves out what is kept, if that is nothing.
func (h Held) String() string {
	if h.Kept == 0 {
		return fmt.Sprintf("{Shards:%d Leaving:%t}", h.Shards, h.Leaving)
	}
	return fmt.Sprintf("{Shards:%d Leaving:%t Kept:%d}", h.Shards, h.Leaving, h.Kept)
}

func (Received) controlInput()             {}
func (Replied) controlInput()              {}
func (Coordinators) controlInput()         {}
func (Probed) controlInput()               {}
func (JournalHeartbeatRead) controlInput() {}
func (FromCore) controlInput()             {}
func (Leave) controlInput()                {}
func (FeedRouter) controlInput()           {}
func (NodeMeasured) controlInput()         {}
func (Tick) controlInput()                 {}

func (Send) controlOutput()                 {}
func (Reply) controlOutput()                {}
func (ToCore) controlOutput()               {}
func (ReadJournalHeartbeat) controlOutput() {}
func (Registered) controlOutput()           {}
func (ProbeJournal) controlOutput()         {}
func (JournalChanged) controlOutput()       {}
func (Feed) controlOutput()                 {}
func (Left) controlOutput()                 {}
func (Fail) controlOutput()                 {}

func (Host) order()     {}
func (HandOff) order()  {}
func (Rows) order()     {}
func (Leave) order()    {}
func (DrainAll) order() {}
func (Grant) order()    {}
func (Reclaim) order()  {}

func (Host) shardInput()        {}
func (HandOff) shardInput()     {}
func (Rows) shardInput()        {}
func (Leave) shardInput()       {}
func (DrainAll) shardInput()    {}
func (Grant) shardInput()       {}
func (Reclaim) shardInput()     {}
func (Command) shardInput()     {}
func (Claimed) shardInput()     {}
func (WakesRead) shardInput()   {}
func (KeptFetched) shardInput() {}
func (GiveKept) shardInput()    {}
func (KeptSent) shardInput()    {}
func (DeletedRead) shardInput() {}
func (Purged) shardInput()      {}
func (Turn) shardInput()        {}
func (Tick) shardInput()        {}

func (Claim) shardOutput()       {}
func (ReadWakes) shardOutput()   {}
func (FetchKept) shardOutput()   {}
func (Kept) shardOutput()        {}
func (ReadDeleted) shardOutput() {}
func (Purge) shardOutput()       {}
func (NotMine) shardOutput()     {}
func (Refuse) shardOutput()      {}

func (Report) event()          {}
func (Held) event()            {}
func (JournalAnswered) event() {}
func (Measured) event()        {}
func (Want) event()            {}
func (Return) event()          {}
