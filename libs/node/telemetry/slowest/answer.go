package slowest

import (
	"math"
	"strings"

	"github.com/roost-cluster/roost/libs/sharding"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// MaxAnswer is the largest number of commands in an answer to a coordinator.
const MaxAnswer = 1000

// Answer lists the newest entries for a coordinator, at most limit of them, the newest first.
func (l *Log) Answer(limit uint32) *inspectionv1.SlowResponse {
	out := &inspectionv1.SlowResponse{}
	for _, e := range l.List(int(min(limit, MaxAnswer))) {
		out.Commands = append(out.Commands, &inspectionv1.SlowCommand{
			AtUnixMs: e.At.UnixMilli(), Region: e.Region, Type: ValidText(string(e.Entity.Type)), Id: ValidText(string(e.Entity.ID)), Command: ValidText(e.Command),
			Trace: ValidText(e.Trace), Attempts: uint32(min(e.Attempts, math.MaxInt32)), Code: ValidText(e.Code), TotalUs: e.Total.Microseconds(),
			MailboxUs: e.Timing.Mailbox.Microseconds(), HandlerUs: e.Timing.Handler.Microseconds(), JournalUs: e.Timing.Journal.Microseconds(),
			Origin: e.Origin, From: ValidText(e.From),
		})
	}
	return out
}

// ValidText returns a text of a client or of an entity as a valid string of bounded length: it may have any
// bytes, and be as long as a header.
func ValidText(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), sharding.MaxIDLen)], "\ufffd")
}

// TraceID returns the id of the trace in a traceparent header.
func TraceID(traceparent string) string {
	_, rest, _ := strings.Cut(traceparent, "-")
	id, _, _ := strings.Cut(rest, "-")
	return id
}
