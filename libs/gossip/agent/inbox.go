package agent

import (
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
)

// item is one thing for the loop: an input for the core, or a function to call between
// two steps.
type item struct {
	in gossip.Input
	do func()
	at time.Time // of arrival, if in is a message
}

// withWait is the input, with the time that it waited if it is a message.
func (i item) withWait(now time.Time) gossip.Input {
	if r, ok := i.in.(gossip.Receive); ok {
		r.Waited = now.Sub(i.at)
		return r
	}
	return i.in
}
