package router

import (
	"fmt"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Input is an input of [Machine.Step]. Only this package defines inputs.
type Input interface{ input() }

// Output is an output of [Machine.Step]. The driver performs the outputs in their order.
type Output interface{ output() }

// RequestID identifies one admitted command of one client. The driver chooses it and
// never reuses it during its process.
type RequestID uint64

// Attempt identifies one sending of one command. The core chooses it and never reuses it
// during its process. It is the command's number on the link.
type Attempt uint64

// Inputs.
type (
	// Submit is a new command. The answer is exactly one Finish, unless Cancel comes
	// first.
	Submit struct {
		Request RequestID
		// Env is copied.
		Env *sharding.Envelope
		// ReadOnly is true if the sender relies on the command to change nothing. The command is
		// refused if the table does not confirm that.
		ReadOnly bool
	}
	// Cancel reports that the client has gone. The core removes the request, and no Finish follows. If
	// the command was sent, it may take effect all the same.
	Cancel struct{ Request RequestID }
	// TurnedAway counts the commands that the driver has refused for lack of room, without submitting
	// them.
	TurnedAway struct{ Commands int }
	// Delivered reports that clients have received replies, or no longer wait for them. The replies
	// counted this many bytes ([Finish].Held).
	Delivered struct{ Bytes int }
	// LinkUp reports that a link to the region incarnation is usable. Link is the number of this link. The
	// driver chooses it; no two links of a region have the same number.
	LinkUp struct {
		Region sharding.NodeID
		Link   uint64
	}
	// LinkDown reports that a link was lost. Commands that were written to it and not answered are in
	// doubt. LinkDown comes after the last Answer and SendFailed of the link.
	LinkDown struct {
		Region sharding.NodeID
		Link   uint64
	}
	// Answer ends an attempt with the region's reply.
	Answer struct {
		Attempt Attempt
		Reply   sharding.Reply
	}
	// NotMine refuses an attempt: the region does not serve the shard at that epoch, and
	// has definitely not applied the command. Row is the newest row that the
	// region knows; perhaps it has only the shard, or nothing. Row is used even if the attempt is over.
	NotMine struct {
		Attempt Attempt
		Refused sharding.Epoch
		Row     sharding.Row
	}
	// SendFailed reports that the attempt was definitely never written to a link. There is no link, there
	// is another link by now, the link's buffer is full, or the link has ended with the attempt in its
	// buffer. A command that no link would ever accept gets a rejecting Answer instead.
	SendFailed struct{ Attempt Attempt }
	// Replied brings the answer of the process at From to a Send that is a call. Asked is the message of that
	// Send. If there is no answer (connection refused, timeout), Msg is nil.
	Replied struct {
		From       string
		Asked, Msg control.Message
	}
	// Coordinators has the addresses from discovery: possible coordinators in Addrs, regions in
	// Regions. A router that starts while no coordinator is alive gets the table from a region's
	// copy. Regions named by rows need not be listed.
	Coordinators struct {
		Addrs   []string
		Regions []string
	}
	// TableChange brings a change of the route table of another core in this process, for a router with
	// [Config].Fed. The first TableChange has the whole table.
	TableChange struct {
		Delta sharding.TableDelta
		// Active is the address of the active coordinator; empty: none is known.
		Active string
	}
	// Stop ends every command: commands in doubt as Unknown, the others as Rejected.
	Stop struct{}
	// Tick makes time pass; the driver sends one about 20 ms after [Machine.Due] or earlier.
	Tick struct{}
)

// Outputs.
type (
	// SendCommand writes a command to the region's link, on the lane of its shard, if
	// the [Sender] allows it.
	SendCommand struct {
		Region  sharding.NodeID
		Link    uint64
		Attempt Attempt
		Epoch   sharding.Epoch
		Shard   sharding.ShardID
		Env     sharding.Envelope
	}
	// Finish ends a request.
	Finish struct {
		Request RequestID
		Reply   sharding.Reply
		// RetryAfter is after how many milliseconds the command may be sent again; 0: the reply does not
		// say.
		RetryAfter int
		// Region is the region that replied; Attempts is the number of attempts.
		Region   sharding.NodeID
		Attempts int
		// Held is the number of bytes that the reply counts until the client has received it or has
		// gone. Then the driver gives them back by [Delivered].
		Held int
	}
	// Connect opens a link to a region incarnation and keeps it up.
	Connect struct{ Region sharding.NodeID }
	// Disconnect closes the link: no row names the incarnation any more, or no command
	// has needed the link for [Config].LinkIdle.
	Disconnect struct{ Region sharding.NodeID }
	// Send sends a control message to the process at an address. If the message is a call, the Send is
	// answered by Replied. Any other message may get lost, and the core repeats it.
	Send struct {
		To  string
		Msg control.Message
	}
)

// String shows the command, not its address: traces must be reproducible.
func (s Submit) String() string { return fmt.Sprintf("{Request:%d Env:%+v}", s.Request, *s.Env) }

func (Submit) input()       {}
func (Cancel) input()       {}
func (TurnedAway) input()   {}
func (Delivered) input()    {}
func (LinkUp) input()       {}
func (LinkDown) input()     {}
func (Answer) input()       {}
func (NotMine) input()      {}
func (SendFailed) input()   {}
func (Replied) input()      {}
func (Coordinators) input() {}
func (TableChange) input()  {}
func (Stop) input()         {}
func (Tick) input()         {}

func (SendCommand) output() {}
func (Finish) output()      {}
func (Connect) output()     {}
func (Disconnect) output()  {}
func (Send) output()        {}
