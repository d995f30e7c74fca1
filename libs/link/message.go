package link

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Command is one command on its way to a region. Every command gets exactly
// one [Answer], unless the link goes down first.
type Command struct {
	// Number identifies the command on its link. The client chooses it, and the answer carries it back.
	Number uint64
	// Epoch is the epoch of the shard in the client's route table.
	Epoch sharding.Epoch
	// Envelope is the command. The sender has checked its names and its encoding, see
	// [sharding.Envelope.Check]; the receiving side checks them, because it knows
	// nothing of its peers. The deadline is transmitted as remaining time in
	// microseconds. On the receiving side all strings and the payload are copies
	// and may be kept. Short ones share their memory, 1 KiB at a time: clone one that
	// must outlive the command by long.
	Envelope sharding.Envelope
}

// Answer is the end of a command on this link: a reply, or NotMine.
type Answer struct {
	// Number is the number of the command.
	Number uint64
	// Reply is meaningless when NotMine is set. The receiver owns the payload.
	Reply sharding.Reply
	// NotMine is set if the region does not serve the shard at the command's epoch: the command was
	// definitely not applied. Nil otherwise.
	NotMine *NotMine
}

// NotMine is the refusal of a region that is not the owner.
type NotMine struct {
	// Row is the shard's row as the region knows it; zero if it knows none.
	Row sharding.Row
	// Refused is the epoch that was refused.
	Refused sharding.Epoch
}

// goodTrace reports whether a trace can be sent.
func goodTrace(s string) bool {
	return s != "" && len(s) <= MaxTraceLen && sharding.PrintableASCII(s)
}

// fits reports whether an answer can be sent as it is. known are names that passed
// the check before.
func (a *Answer) fits(maxPayload int, known *nameTable) bool {
	if a.NotMine != nil {
		return false // rare: fit checks it
	}
	r := &a.Reply
	return r.Outcome >= sharding.Executed && r.Outcome <= sharding.Unknown &&
		len(r.Payload) <= maxPayload && r.Encoding <= sharding.Protobuf && r.Message == "" &&
		(r.Code == "" || known.number(codeName, string(r.Code)) != 0) &&
		r.Timing.Mailbox >= 0 && r.Timing.Handler >= 0 && r.Timing.Journal >= 0
}

// fit returns the answer in a form that can be sent. A reply that breaks a limit of the protocol
// keeps its outcome, which describes what happened to the command; its content is replaced by an
// error message.
func fit(a Answer, maxPayload int) Answer {
	if a.NotMine != nil {
		a.Reply = sharding.Reply{}
		if s := a.NotMine.Row; !rowFits(s) {
			a.NotMine = &NotMine{Refused: a.NotMine.Refused}
		}
		return a
	}
	r := &a.Reply
	if r.Outcome < sharding.Executed || r.Outcome > sharding.Unknown {
		*r = sharding.Doubt(sharding.Internal, "reply without an outcome")
	}
	switch {
	case len(r.Payload) > maxPayload:
		unfit(r, fmt.Sprintf("reply payload has %d bytes, at most %d are allowed", len(r.Payload), maxPayload))
	case r.Encoding > sharding.Protobuf:
		unfit(r, fmt.Sprintf("reply encoding %d is not known", r.Encoding))
	case r.Code != "" && !goodCode(r.Code):
		unfit(r, fmt.Sprintf("reply code %.40q is not a name", string(r.Code)))
	}
	if r.Message != "" {
		r.Message = clipMessage(r.Message)
	}
	r.Timing.Mailbox = max(r.Timing.Mailbox, 0)
	r.Timing.Handler = max(r.Timing.Handler, 0)
	r.Timing.Journal = max(r.Timing.Journal, 0)
	return a
}

func unfit(r *sharding.Reply, why string) {
	if r.Outcome == sharding.Executed {
		why = "the command ran, but its " + why
	}
	r.Code, r.Message, r.Payload, r.Encoding = sharding.Internal, why, nil, sharding.JSON
}

func goodCode(c sharding.Code) bool { return sharding.CheckType("code", string(c)) == nil }

func rowFits(r sharding.Row) bool {
	typeOK := r.Shard == sharding.ShardID{} || sharding.CheckEntityType("type", r.Shard.Type) == nil
	return typeOK && r.Shard.Index < sharding.MaxShards && r.Phase <= sharding.HandingOff &&
		len(r.Owner.Addr) <= sharding.MaxAddrLen && utf8.ValidString(r.Owner.Addr)
}

// clipMessage returns s as valid UTF-8 of at most MaxMessageLen bytes.
func clipMessage(s string) string {
	if len(s) <= MaxMessageLen && utf8.ValidString(s) {
		return s
	}
	s = strings.ToValidUTF8(s[:min(len(s), 2*MaxMessageLen)], "?")
	if len(s) > MaxMessageLen {
		cut := MaxMessageLen
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut]
	}
	return s
}
