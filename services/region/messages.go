package region

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/purge"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/storeclock"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/libs/wakeup"
)

// ControlInput is an input of the control core. Only this package defines inputs.
type ControlInput interface{ controlInput() }

// ControlOutput is an output of the control core. The driver performs the outputs in their order. Only this
// package defines outputs.
type ControlOutput interface{ controlOutput() }

// ShardInput is an input of a shard core: an [Order], another one of the inputs below, or an input of a part of the core
// as that part defines it: a [turn.Input], [wakeup.Page], [purge.Page], [purge.Purged], [outbox.Page],
// [outbox.Answered] or [outbox.Acked]. [ShardCore.Step] panics if it gets anything else.
type ShardInput any

// ShardOutput is an output of a shard core. The outputs of its entity core are a list of their own, see
// [Outputs]. Only this package defines outputs.
type ShardOutput interface{ shardOutput() }

// Order is an input of a shard core that comes from the control core.
type Order interface{ order() }

// Event is a message from a shard core to the control core.
type Event interface{ event() }

// Inputs of the control core.
type (
	// Received brings a control message. From is the address of the sender, if it is known, and UID is the
	// sender's incarnation. A message with a Call is answered by a Reply.
	Received struct {
		From string
		UID  sharding.NodeUID
		Call control.Call
		Msg  control.Message
	}
	// Replied brings the answer of the process at From to a Send that is a call. Asked is the message of
	// that Send. If there is no answer, Msg is nil.
	Replied struct {
		From       string
		Asked, Msg control.Message
	}
	// Coordinators has the addresses of possible coordinators, from membership and discovery.
	Coordinators struct{ Addrs []string }
	// JournalTested answers TestJournal. The verdict on a load is Durable if the journal
	// answered it, even with no record.
	JournalTested struct {
		Path    JournalPath
		Number  uint64
		Verdict sharding.Verdict
	}
	// JournalHeartbeatRead answers ReadJournalHeartbeat. Heartbeat is the last journal heartbeat; zero:
	// there is none. If OK is false, it could not be read.
	JournalHeartbeatRead struct {
		Number    uint64
		Heartbeat sharding.JournalHeartbeat
		OK        bool
		// Generation is the generation of the journal. It is known even if OK is false.
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
	// FeedRouter reports that an entity of this region has sent the region's first command. From now on the
	// router gets the route table, by Feed.
	FeedRouter struct{}
	// NodeMeasured has what the machine has, and what the process uses of it now. It comes about once a
	// second.
	NodeMeasured struct{ Load control.NodeLoad }
	// Tick lets time pass; the driver sends one to every core every 20 ms or so, and more rarely while
	// nothing happens.
	Tick struct{}
)

// Outputs of the control core.
type (
	// Send sends a control message to the process at an address. If the message is a call, the Send is
	// answered by Replied. Any other message may get lost, and the core repeats it. UID is the incarnation
	// that must get the message; 0: any incarnation.
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
	// ReadJournalHeartbeat asks which cluster the journal belongs to. Answered by JournalHeartbeatRead.
	ReadJournalHeartbeat struct{ Number uint64 }
	// Registered reports that the coordinator of a term has registered this region.
	Registered struct {
		With string
		Term sharding.Term
	}
	// TestJournal sends the journal a request that has no effect, on one of two paths: the path of claims and
	// appends, or the path of loads. Answered by JournalTested.
	TestJournal struct {
		Path   JournalPath
		Number uint64
	}
	// JournalChanged reports that the state of the journal has changed, as this region sees it. Heard is the
	// time of the journal's last answer.
	JournalChanged struct {
		State sharding.JournalState
		Heard time.Time
	}
	// Feed becomes a TableChange of package router, for the region's router. It has the changes of the route
	// table since the Feed before it, and the address of the active coordinator.
	Feed struct {
		Delta  sharding.TableDelta
		Active string
	}
	// Left reports that all shards are handed off, or that the time for this is over. The region may leave the
	// membership. Held is the number of shards that it still holds.
	Left struct{ Held int }
	// Fail reports that the region cannot go on, because its registration was refused. The process stops, and
	// reports the reason.
	Fail struct{ Reason string }
)

// Orders of the control core to its shard cores.
type (
	// Host gives the shard to this region. From is the address of the coordinator, or of the region that has
	// released the shard.
	Host struct {
		From  string
		Shard sharding.ShardID
		Epoch sharding.Epoch
		// Previous names the region that has kept the states of the entities; zero: no region has.
		Previous control.Previous
		// Released is true if From is a region.
		Released bool
	}
	// HandOff orders the region to release the shard. From is the address of the coordinator.
	HandOff struct {
		From  string
		Shard sharding.ShardID
		Epoch sharding.Epoch
	}
	// Rows has the rows of the route table that have changed.
	Rows struct{ Rows []sharding.Row }
	// DrainAll releases all shards, after Leave.
	DrainAll struct{}
	// Grant answers RequestRoom: the core may use N more of the resource.
	Grant struct {
		Resource Resource
		N        int
	}
	// Reclaim asks the core to give back what it does not use of the resource. It also gives back all that
	// is above Keep, as soon as that is no longer in use.
	Reclaim struct {
		Resource Resource
		Keep     int
	}
)

// Other inputs of a shard core.
type (
	// Command is a command that a router has sent to this region, perhaps by an outdated row. Each Command
	// ends with exactly one Answer, NotMine or Refuse.
	Command struct {
		Request turn.RequestID
		Epoch   sharding.Epoch
		// Env is the command. The core copies it if it keeps it.
		Env *sharding.Envelope
	}
	// Claimed answers Claim.
	Claimed struct {
		Shard   sharding.ShardID
		Epoch   sharding.Epoch
		Verdict sharding.Verdict
		// Fence is the stored fence of the shard before the claim.
		Fence sharding.Fence
	}
	// KeptFetched answers FetchKept. If there are no states, or they could not be fetched, Kept is empty.
	KeptFetched struct {
		Shard sharding.ShardID
		Epoch sharding.Epoch
		Kept  []turn.Kept
	}
	// GiveKept asks for the states that this region has kept since it stopped the shard at the epoch
	// Stopped. The region that owns the shard at Epoch has asked for them. Answered by Kept.
	GiveKept struct {
		Call    control.Call
		Shard   sharding.ShardID
		Epoch   sharding.Epoch
		Stopped sharding.Epoch
	}
	// KeptSent follows each Kept that has states: the states have been sent, or sending them has
	// failed. Bytes is the field of that Kept.
	KeptSent struct{ Bytes int }
	// StoreClock has the readings so far of the journal store's clock. The driver sends it to every core before
	// the first command: see [ShardCore.StoreClock].
	StoreClock struct{ Clock storeclock.Clock }
	// SetPassivation gives a type another strategy. The limit in the strategy is for the whole region.
	SetPassivation struct {
		Type     sharding.EntityType
		Strategy passivation.Strategy
	}
)

// Outputs of a shard core.
type (
	// Claim claims the shard in the journal. Answered by Claimed.
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
		// Within bounds the time of the driver. When it is over, the driver answers with the states that have
		// come.
		Within time.Duration
	}
	// Kept answers GiveKept. The core does not keep the states any longer: if they get lost on the way, no
	// region has them. If States is not empty, the driver must answer with KeptSent.
	Kept struct {
		Call   control.Call
		States []turn.Kept
		Bytes  int // of the states
	}
	// ReadWakes reads wake-ups of the shards. Answered by wakeup.Page.
	ReadWakes struct{ Read wakeup.Read }
	// ReadPurges reads the purges that are due: which lives of the shards' entities have ended.
	// Answered by purge.Page.
	ReadPurges struct{ Read purge.Read }
	// Purge purges a life. Answered by purge.Purged.
	Purge struct{ journal.Purge }
	// NotMine refuses a command, which was definitely not applied here.
	NotMine struct {
		Request turn.RequestID
		// Refused is the epoch at which the command was routed, or at which the
		// region served the shard until now.
		Refused sharding.Epoch
		// Row is the newest row of the shard that this region knows. If it knows none, Epoch is 0, and only
		// Shard is set. If the region does not host the type, Shard is not set either.
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
	// Report sends a message to the coordinator at To. If To is empty, it goes to the active coordinator.
	Report struct {
		To  string
		Msg control.Message
	}
	// Held reports the number of shards that the core holds now, and whether it is leaving. A core that
	// is leaving takes no more shards. Kept is the number of shards whose kept states a next owner may
	// still fetch.
	Held struct {
		Shards  int
		Leaving bool
		Kept    int
	}
	// JournalAnswered reports that the journal has answered an operation, the last time at At.
	JournalAnswered struct {
		Path JournalPath
		At   time.Time
	}
	// Measured has the loads of the core's shards.
	Measured struct{ ShardLoads }
	// RequestRoom requests more of a resource that is running low in the core. It is answered by Grant, when
	// something can be granted.
	RequestRoom struct{ Resource Resource }
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

// String leaves out Previous if no region has kept states.
func (h Host) String() string {
	if h.Released {
		return fmt.Sprintf("{From:%s Shard:%v Epoch:%v Released:true}", h.From, h.Shard, h.Epoch)
	}
	if h.Previous == (control.Previous{}) {
		return fmt.Sprintf("{From:%s Shard:%v Epoch:%v}", h.From, h.Shard, h.Epoch)
	}
	return fmt.Sprintf("{From:%s Shard:%v Epoch:%v Previous:%+v}", h.From, h.Shard, h.Epoch, h.Previous)
}

// String leaves out Kept if it is 0.
func (h Held) String() string {
	if h.Kept == 0 {
		return fmt.Sprintf("{Shards:%d Leaving:%t}", h.Shards, h.Leaving)
	}
	return fmt.Sprintf("{Shards:%d Leaving:%t Kept:%d}", h.Shards, h.Leaving, h.Kept)
}

func (Received) controlInput()             {}
func (Replied) controlInput()              {}
func (Coordinators) controlInput()         {}
func (JournalTested) controlInput()        {}
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
func (TestJournal) controlOutput()          {}
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

func (Claim) shardOutput()      {}
func (ReadWakes) shardOutput()  {}
func (FetchKept) shardOutput()  {}
func (Kept) shardOutput()       {}
func (ReadPurges) shardOutput() {}
func (Purge) shardOutput()      {}
func (NotMine) shardOutput()    {}
func (Refuse) shardOutput()     {}

func (Report) event()          {}
func (Held) event()            {}
func (JournalAnswered) event() {}
func (Measured) event()        {}
func (RequestRoom) event()     {}
func (Return) event()          {}
