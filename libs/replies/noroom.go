package replies

import (
	"fmt"

	"github.com/roost-cluster/roost/libs/sharding"
)

// NoRoom returns the replacement for a reply that finds no capacity. It keeps the known outcome of
// the command's effects; a read-only command has none, and may be sent again.
func NoRoom(r *sharding.Reply, readOnly bool, why string) sharding.Reply {
	code, what := sharding.ResourceExhausted, "the command's answer"
	outcome := r.Outcome
	switch {
	case readOnly:
		outcome, what = sharding.NotApplied, "the command is read-only and changed nothing; its reply"
	case outcome == sharding.Executed:
		code, what = sharding.ReplyLost, "the command ran, but its reply"
	}
	return sharding.Reply{
		Outcome: outcome, Code: code, Timing: r.Timing,
		Message: fmt.Sprintf("%s of %d bytes finds no room: %s", what, len(r.Payload), why),
	}
}
