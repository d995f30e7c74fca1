package gateway

import "github.com/roost-cluster/roost/libs/sharding"

// Input is one message to the gateway core. The set is closed.
type Input interface{ input() }

// Output is one thing the driver must do, in order.
type Output interface{ output() }

// RequestID names one admitted command of one client, chosen by the driver,
// never reused while the process lives.
type RequestID uint64

// Attempt names one sending of one command, chosen by the core, never reused
// while the process lives. It is the correlation number on the link.
type Attempt uint64

// Inputs.
type (
	// Submit is a new command. The answer is exactly one Finish.
	Submit struct {
		Request RequestID
		Env     sharding.Envelope
	}
	// Cancel: the client has gone. The core forgets the request; there is no
	// Finish for it any more. Its effects, if sent, are not undone.
	Cancel struct{ Request RequestID }
	// Delivered: clients have replies that counted so much ([Finish].Held), or
	// nobody waits for them any more.
	Delivered struct{ Bytes int }
	// LinkUp: a link to the region incarnation is usable. Link names this link
	// among those of the region, chosen by the driver; a later link of the same
	// region has another number.
	LinkUp struct {
		Region sharding.NodeID
		Link   uint64
	}
	// LinkDown: the link was lost; what was written to it and not answered is
	// in doubt. It comes after the last Answer and SendFailed of that link.
	LinkDown struct {
		Region sharding.NodeID
		Link   uint64
	}
	// Answer ends an attempt with the region's reply.
	Answer struct {
		Attempt Attempt
		Reply   sharding.Reply
	}
	// NotMine refuses an attempt: the region does not serve the shard at that
	// epoch; the command was definitely not applied by it. Row is what the
	// region knows of the shard: possibly nothing but its name, or not even that.
	// What a refusal says of a shard counts even if the attempt is over.
	NotMine struct {
		Attempt Attempt
		Refused sharding.Epoch
		Row     sharding.Row
	}
	// SendFailed: the attempt was definitely never written to a link (no link,
	// another link by now, its buffer is full, or it ended with the attempt in
	// its buffer). A command that no link would ever take is not SendFailed: the
	// driver gives it a rejecting Answer.
	SendFailed struct{ Attempt Attempt }
	// TableChanged is the answer to a Watch.
	TableChanged struct {
		From  string // address asked
		Delta sharding.TableDelta
	}
	// NotActive is the answer of a standby to a Watch.
	NotActive struct {
		From   string
		Active sharding.NodeID // zero: unknown
		Term   sharding.Term
	}
	// WatchFailed: no answer to a Watch (connection refused, time-out).
	WatchFailed struct{ From string }
	// Coordinators is what discovery says: where coordinators may be, and
	// regions that serve their copy of the table, for a start while no
	// coordinator is alive. Regions named by rows need not be listed.
	Coordinators struct {
		Addrs   []string
		Regions []string
	}
	// Tick lets time pass; the driver sends one every 20 ms or so.
	Tick struct{}
)

// Outputs.
type (
	// Send writes a command to the region's link, on the lane of its shard, if
	// the [Sender] allows it.
	Send struct {
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
		// RetryAfter, for replies after which the command may be sent again, in
		// milliseconds; 0: do not say.
		RetryAfter int
		// Region that gave the reply, and the number of attempts made.
		Region   sharding.NodeID
		Attempts int
		// Held is what the reply counts until the client has it, or is gone: the
		// driver gives it back by [Delivered].
		Held int
	}
	// Connect opens a link to a region incarnation and keeps it up.
	Connect struct{ Region sharding.NodeID }
	// Disconnect closes the link: no row names the incarnation any more.
	Disconnect struct{ Region sharding.NodeID }
	// Watch polls the table at an address.
	Watch struct {
		To      string
		Version sharding.Version
	}
	// GetShardHome asks the coordinator at To for an allocation.
	GetShardHome struct {
		To      string
		Shard   sharding.ShardID
		Refused sharding.Epoch
	}
)

func (Submit) input()       {}
func (Cancel) input()       {}
func (Delivered) input()    {}
func (LinkUp) input()       {}
func (LinkDown) input()     {}
func (Answer) input()       {}
func (NotMine) input()      {}
func (SendFailed) input()   {}
func (TableChanged) input() {}
func (NotActive) input()    {}
func (WatchFailed) input()  {}
func (Coordinators) input() {}
func (Tick) input()         {}

func (Send) output()         {}
func (Finish) output()       {}
func (Connect) output()      {}
func (Disconnect) output()   {}
func (Watch) output()        {}
func (GetShardHome) output() {}
