package sharding

import "time"

// CommandID identifies one command of one client: it is the idempotency key, or an
// id that the gateway generated for a command without one.
type CommandID string

// ReservedPrefix begins the ids that Roost generates itself, for commands without
// key, for timers, and for commands between entities. A client's key must not begin with it.
const ReservedPrefix = "roost:"

// Encoding is the encoding of a payload. Roost never interprets payloads.
type Encoding uint8

const (
	// JSON is the default encoding.
	JSON Encoding = iota
	// Protobuf is the binary protobuf encoding.
	Protobuf
)

// Envelope is one command on its way to one entity.
type Envelope struct {
	Entity  Entity
	Command string
	ID      CommandID // never empty once a gateway has admitted the command
	// Keyed is true if the client chose ID: the command is stored with its reply and may be sent
	// again.
	Keyed bool
	// Tell is true if the client does not wait for the reply, only until the command is accepted
	// (without key) or durable (with key).
	Tell     bool
	Encoding Encoding
	Payload  []byte
	// Version and ReadableBy come from the stored [Input] of a command that an entity has sent; 0:
	// a caller has sent it, whose input has no version.
	Version, ReadableBy uint16
	// Deadline is the time when the client stops waiting, by the local clock. On the wire it is the
	// remaining time. The zero value means no deadline.
	Deadline time.Time
	// Principal identifies the caller, as the gateway has authenticated it; empty: anonymous. A
	// stored reply is only for the principal that sent the command.
	Principal string
	// Trace is the W3C traceparent of the sender's span, or empty.
	Trace string
	// Chain are the entities that wait for the answer: the one that has asked comes last, and
	// before it the one that waits for its answer in turn. Empty: a command from outside.
	Chain []Entity
}

// Size is the envelope's size as limits in bytes count it.
func (e *Envelope) Size() int {
	n := 96 + len(e.Entity.Type) + len(e.Entity.ID) + len(e.Command) + len(e.ID) + len(e.Principal) + len(e.Payload)
	for i := range e.Chain {
		n += 32 + len(e.Chain[i].Type) + len(e.Chain[i].ID)
	}
	return n
}

// Hash returns the [CommandHash] of the command.
func (e *Envelope) Hash() Hash { return CommandHash(e.Principal, e.Command, e.Payload) }

// Outcome describes the effects of a command, as far as they are known.
type Outcome uint8

const (
	// Executed: the handler ran, and what it staged is durable. The reply may still
	// be a business error.
	Executed Outcome = iota + 1
	// NotApplied: the command was definitely not applied.
	NotApplied
	// Unknown: the command may or may not have been applied.
	Unknown
)

// String returns the outcome as it is in answers, metrics and logs: "executed", "not_applied" or "unknown".
func (o Outcome) String() string {
	switch o {
	case Executed:
		return "executed"
	case NotApplied:
		return "not_applied"
	case Unknown:
		return "unknown"
	}
	return "invalid"
}

// MarshalText implements [encoding.TextMarshaler], for JSON.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// Code is the reason why a command has no plain reply, in the vocabulary of Twirp and gRPC. The
// empty code is success.
type Code string

// The codes that Roost itself uses; entities may use all of them.
const (
	InvalidArgument    Code = "invalid_argument"
	NotFound           Code = "not_found"
	AlreadyExists      Code = "already_exists"
	Unauthenticated    Code = "unauthenticated"
	Aborted            Code = "aborted"
	PermissionDenied   Code = "permission_denied"
	FailedPrecondition Code = "failed_precondition"
	OutOfRange         Code = "out_of_range"
	ResourceExhausted  Code = "resource_exhausted"
	// ReplyLost comes with the outcome Executed: the command ran, but there was no capacity
	// for its reply. It is internal; gateways show another code to clients.
	ReplyLost Code = "roost_reply_lost"
	// KeyExpired comes with the outcome Unknown: the idempotency key is older than the keys that
	// the entity remembers, so it is not known any more whether the command ran. A repeat gets the
	// same answer. It is internal; gateways show Aborted to clients.
	KeyExpired Code = "roost_key_expired"
	// UnknownCommand comes from a region with the outcome NotApplied: its version of the
	// type does not have the command. What no version has is refused by gateways
	// themselves, as Unimplemented. It is internal; gateways show Unavailable to clients.
	UnknownCommand Code = "roost_unknown_command"
	// EntityQuarantined comes from a region with the outcome NotApplied: the entity is quarantined, because its
	// commands ended processes. It is internal; gateways show FailedPrecondition to clients.
	EntityQuarantined Code = "roost_quarantined"
	Unimplemented     Code = "unimplemented"
	Unavailable       Code = "unavailable"
	DeadlineExceeded  Code = "deadline_exceeded"
	DataLoss          Code = "data_loss"
	Internal          Code = "internal"
)

// Final reports whether a command that was rejected with this code would be rejected again. All
// else may change: a version that knows the command is rolled out, the target has room again.
func (c Code) Final() bool {
	switch c {
	case InvalidArgument, AlreadyExists, Unauthenticated, PermissionDenied, FailedPrecondition, OutOfRange:
		return true
	}
	return false
}

// Codes returns the codes that entities may use. They may make up others, perhaps one
// for each reply: what counts replies by code counts those as [Internal].
func Codes() []Code {
	return []Code{
		InvalidArgument, NotFound, AlreadyExists, Aborted, Unauthenticated, PermissionDenied, FailedPrecondition, OutOfRange,
		ResourceExhausted, Unimplemented, Unavailable, DeadlineExceeded, DataLoss, Internal,
	}
}

// Reply is the result of a command.
type Reply struct {
	Outcome  Outcome
	Code     Code   // empty: success
	Message  string // for people; set with Code
	Encoding Encoding
	Payload  []byte
	// Timing breaks down the time spent in the region. It is not stored.
	Timing Timing
}

// Timing splits the time a command spent in its region.
type Timing struct {
	Mailbox time.Duration // from arrival to the start of its last turn
	Handler time.Duration // in the entity's code
	Journal time.Duration // from the end of the turn to durability
}

// Reject returns a reply to a command that was definitely not applied.
func Reject(code Code, message string) Reply {
	return Reply{Outcome: NotApplied, Code: code, Message: message}
}

// Doubt returns a reply to a command that may or may not have been applied.
func Doubt(code Code, message string) Reply {
	return Reply{Outcome: Unknown, Code: code, Message: message}
}
