package replies

import "github.com/roost-cluster/roost/libs/sharding"

// Overhead is what a reply takes beside its payload and message, in bytes: it
// bounds the number of replies.
const Overhead = 256

// Size is what a reply counts.
func Size(r *sharding.Reply) int { return Overhead + len(r.Code) + len(r.Message) + len(r.Payload) }

// Kind is a kind of command, such as one command of one entity type: it learns how
// large the replies are. The zero Kind has seen none.
type Kind struct{ size int }

// Expect is what the next reply is expected to count: a little less than the
// largest one lately; unknown if there was none.
func (k *Kind) Expect(unknown int) int {
	if k.size == 0 {
		return unknown
	}
	return k.size
}

// Learn takes in how large a reply was. What is expected rises at once and falls
// slowly: too little costs memory, too much only a wait.
func (k *Kind) Learn(size int) {
	if size >= k.size || k.size == 0 {
		k.size = size
		return
	}
	k.size -= (k.size - size + 15) / 16
}
