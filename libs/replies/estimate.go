package replies

import "github.com/roost-cluster/roost/libs/sharding"

// Overhead is the size of a reply beyond its payload and message, in bytes: it bounds
// the number of replies.
const Overhead = 256

// Size returns the size of a reply as the budget counts it.
func Size(r *sharding.Reply) int { return Overhead + len(r.Code) + len(r.Message) + len(r.Payload) }

// SizeEstimate estimates the size of the next reply to one kind of command, for example to
// one command of one entity type. It learns from the earlier replies; the zero value has
// seen none.
type SizeEstimate struct{ size int }

// Expect returns the expected size of the next reply: a little less than the largest
// recent one; unknown if there was none.
func (e *SizeEstimate) Expect(unknown int) int {
	if e.size == 0 {
		return unknown
	}
	return e.size
}

// Learn records the size of a reply. The estimate rises at once and falls slowly:
// one that is too low costs memory, one that is too high only a wait.
func (e *SizeEstimate) Learn(size int) {
	if size >= e.size || e.size == 0 {
		e.size = size
		return
	}
	e.size -= (e.size - size + 15) / 16
}
