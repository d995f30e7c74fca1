package replies

import "github.com/roost-cluster/roost/libs/sharding"

// Overhead is the size of a reply beyond its payload and message, in bytes: it bounds
// the number of replies.
const Overhead = 256

// Size returns the size of a reply as the budget counts it.
func Size(r *sharding.Reply) int { return Overhead + len(r.Code) + len(r.Message) + len(r.Payload) }

// Kind is a kind of command, such as one command of one entity type: it learns how
// large the replies are. The zero Kind has seen none.
type Kind struct{ size int }

// Expect returns the expected size of the next reply: a little less than the largest
// recent one; unknown if there was none.
func (k *Kind) Expect(unknown int) int {
	if k.size == 0 {
		return unknown
	}
	return k.size
}

// Learn records the size of a reply. The expectation rises at once and falls slowly:
// if it is too low it costs memory, if it is too high only a wait.
func (k *Kind) Learn(size int) {
	if size >= k.size || k.size == 0 {
		k.size = size
		return
	}
	k.size -= (k.size - size + 15) / 16
}
