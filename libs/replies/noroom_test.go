package replies

import (
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
)

// TestNoRoom: the error, and that it reports whether the command had effects.
func TestNoRoom(t *testing.T) {
	for _, c := range []struct {
		outcome  sharding.Outcome
		readOnly bool
		want     sharding.Outcome
		code     sharding.Code
		message  string
	}{
		{sharding.Executed, false, sharding.Executed, sharding.ReplyLost, "the command ran"},
		{sharding.Executed, true, sharding.NotApplied, sharding.ResourceExhausted, "the command is read-only"},
		{sharding.Unknown, false, sharding.Unknown, sharding.ResourceExhausted, "the command's answer"},
	} {
		r := NoRoom(&sharding.Reply{Outcome: c.outcome, Payload: make([]byte, 10)}, c.readOnly, "why")
		if r.Outcome != c.want || r.Code != c.code || len(r.Payload) > 0 || !strings.HasPrefix(r.Message, c.message) {
			t.Errorf("%+v: %+v", c, r)
		}
	}
}
