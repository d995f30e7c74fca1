package region

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Input is one message to the region core. The set is closed.
type Input interface{ input() }

// Output is one thing the driver must do, in order: one of the outputs below, or
// one of package turn, NotMine, Fenced and Drained excepted.
type Output = turn.Output

// Inputs.
type (
	// Command came over a link: routed here by a table that may be stale. The
	// answer is exactly one Answer or one NotMine.
	Command struct {
		Request turn.RequestID
		Epoch   sharding.Epoch
		// Env is copied where it is kept.
		Env *sharding.Envelope
	}
	// HostShard: the coordinator of Term gives the shard to this region. From
	// is its address; empty: answer to the one that is watched.
	HostShard struct {
		From  string
		Term  sharding.Term
		Shard sharding.ShardID
		Epoch sharding.Epoch
	}
	// HandOff: the coordinator of Term wants the shard back.
	HandOff struct {
		From  string
		Term  sharding.Term
		Shard sharding.ShardID
		Epoch sharding.Epoch
	}
	// Claimed answers Claim.
	Claimed struct {
		Shard   sharding.ShardID
		Epoch   sharding.Epoch
		Verdict sharding.Verdict
		Fence   sharding.Fence
	}
	// RegisterAck answers Register. A Refusal is final.
	RegisterAck struct {
		Term    sharding.Term
		Refusal string
	}
	// ShutdownAck answers GracefulShutdown.
	ShutdownAck struct {
		Term      sharding.Term
		Remaining int
	}
	// TableChanged is the answer to a Watch.
	TableChanged struct {
		From  string
		Delta sharding.TableDelta
	}
	// NotActive is the answer of a standby to a Watch.
	NotActive struct {
		From   string
		Active sharding.NodeID
		Term   sharding.Term
	}
	// WatchFailed: no answer to a Watch.
	WatchFailed struct{ From string }
	// Coordinators is what membership and discovery say: where coordinators
	// may be.
	Coordinators struct{ Addrs []string }
	// Probed answers ProbeJournal. The verdict on a load is Durable if it has
	// brought something or nothing.
	Probed struct {
		Path    JournalPath
		Number  uint64
		Verdict sharding.Verdict
	}
	// Leave: drain all shards, then be done (SIGTERM). The answer is Left.
	Leave struct{}
	// Turn carries an answer of the driver to the entity core.
	Turn struct{ Input turn.Input }
	// Tick lets time pass; the driver sends one every 20 ms or so.
	Tick struct{}
)

// Outputs. The messages to the coordinator go to the address the core watches
// (field To).
type (
	// Register announces this region; repeated until acknowledged. Last is the
	// term that acknowledged it before, or 0.
	Register struct {
		To   string
		Last sharding.Term
	}
	// ShardStarted: the claim of the shard at the epoch holds, or its fence is damaged
	// and commands are refused for that.
	ShardStarted struct {
		To    string
		Shard sharding.ShardID
		Epoch sharding.Epoch
	}
	// HostRefused: the shard cannot be taken at the epoch; Above is in the way.
	HostRefused struct {
		To    string
		Shard sharding.ShardID
		Epoch sharding.Epoch
		Above sharding.Epoch
	}
	// ShardStopped: nothing of the shard at this or a lower epoch is alive.
	ShardStopped struct {
		To    string
		Shard sharding.ShardID
		Epoch sharding.Epoch
	}
	// GracefulShutdown asks for all shards to be handed off.
	GracefulShutdown struct{ To string }
	// Claim takes the shard in the journal. Answered by Claimed.
	Claim struct {
		Shard sharding.ShardID
		Epoch sharding.Epoch
	}
	// ProbeJournal asks the journal something that has no effect, on the way that
	// claims and appends take, or on that of loads. Answered by Probed.
	ProbeJournal struct {
		Path   JournalPath
		Number uint64
	}
	// JournalChanged says, once, that this region makes something else of its
	// journal. Nothing has succeeded there since Heard.
	JournalChanged struct {
		State sharding.JournalState
		Heard time.Time
	}
	// ReportJournal tells the coordinator what this region makes of its journal,
	// at every change and again and again while it does not answer. A report with
	// a lower number than another is older.
	ReportJournal struct {
		To     string
		Number uint64
		State  sharding.JournalState
	}
	// Watch polls the table at an address.
	Watch struct {
		To      string
		Version sharding.Version
	}
	// NotMine refuses a command; it was definitely not applied here.
	NotMine struct {
		Request turn.RequestID
		Refused sharding.Epoch
		// Row is as known here. Nothing is known at epoch zero; the shard is named
		// even then, unless this region does not know its type.
		Row sharding.Row
	}
	// Refuse answers a command that was definitely not delivered.
	Refuse struct {
		Request turn.RequestID
		Reply   sharding.Reply
	}
	// Left: all shards are handed off or the time is over; the region may
	// leave the membership.
	Left struct{}
	// Fail: the region cannot go on (its registration was refused). The
	// process stops with the reason.
	Fail struct{ Reason string }
)

// String shows the command, not where it is kept: traces must be the same
// every time.
func (c Command) String() string {
	return fmt.Sprintf("{Request:%d Epoch:%v Env:%+v}", c.Request, c.Epoch, *c.Env)
}

func (Command) input()      {}
func (HostShard) input()    {}
func (HandOff) input()      {}
func (Claimed) input()      {}
func (RegisterAck) input()  {}
func (ShutdownAck) input()  {}
func (TableChanged) input() {}
func (NotActive) input()    {}
func (WatchFailed) input()  {}
func (Coordinators) input() {}
func (Probed) input()       {}
func (Leave) input()        {}
func (Turn) input()         {}
func (Tick) input()         {}

func (Register) Output()         {}
func (ShardStarted) Output()     {}
func (HostRefused) Output()      {}
func (ShardStopped) Output()     {}
func (GracefulShutdown) Output() {}
func (Claim) Output()            {}
func (ProbeJournal) Output()     {}
func (JournalChanged) Output()   {}
func (ReportJournal) Output()    {}
func (Watch) Output()            {}
func (NotMine) Output()          {}
func (Refuse) Output()           {}
func (Left) Output()             {}
func (Fail) Output()             {}
