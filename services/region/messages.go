package region

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/control"
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
	// Received is a control message. From is the address of who sent it, if known. One
	// with a Call is answered by a Reply.
	Received struct {
		From string
		Call control.Call
		Msg  control.Message
	}
	// Replied is the answer of the process at From to Asked, a Send that is a call. A
	// nil Msg: there is none.
	Replied struct {
		From       string
		Asked, Msg control.Message
	}
	// Claimed answers Claim.
	Claimed struct {
		Shard   sharding.ShardID
		Epoch   sharding.Epoch
		Verdict sharding.Verdict
		Fence   sharding.Fence
	}
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
	// SignRead answers ReadSign: the sign of life of the last active coordinator in the
	// journal, zero if there is none. Not OK: it cannot be read.
	SignRead struct {
		Number uint64
		Sign   sharding.Sign
		OK     bool
	}
	// Leave: drain all shards, then be done (SIGTERM). The answer is Left.
	Leave struct{}
	// Turn carries an answer of the driver to the entity core.
	Turn struct{ Input turn.Input }
	// Tick lets time pass; the driver sends one every 20 ms or so.
	Tick struct{}
)

// Outputs.
type (
	// Send sends a control message to the process at an address. If it is a call, its
	// end is told by Replied; any other may get lost, and the core repeats it.
	Send struct {
		To  string
		Msg control.Message
	}
	// Reply answers a Received with a Call.
	Reply struct {
		Call control.Call
		Msg  control.Message
	}
	// ReadSign asks whose the journal is. Answered by SignRead.
	ReadSign struct{ Number uint64 }
	// Registered says that the coordinator of a term has taken this region in.
	Registered struct {
		With string
		Term sharding.Term
	}
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
func (Received) input()     {}
func (Replied) input()      {}
func (Claimed) input()      {}
func (Coordinators) input() {}
func (SignRead) input()     {}
func (Probed) input()       {}
func (Leave) input()        {}
func (Turn) input()         {}
func (Tick) input()         {}

func (Send) Output()           {}
func (Reply) Output()          {}
func (ReadSign) Output()       {}
func (Registered) Output()     {}
func (Claim) Output()          {}
func (ProbeJournal) Output()   {}
func (JournalChanged) Output() {}
func (NotMine) Output()        {}
func (Refuse) Output()         {}
func (Left) Output()           {}
func (Fail) Output()           {}
