package history

import (
	"fmt"
	"slices"
	"time"
)

// Kind is what an operation does.
type Kind uint8

const (
	// Add appends Op.Value to the list.
	Add Kind = iota + 1
	// Get reads length and hash.
	Get
)

// Outcome is what a client knows about the effects of an operation.
type Outcome uint8

const (
	// OK: it took effect, once, and Op.Reply is its answer.
	OK Outcome = iota + 1
	// Rejected: it took no effect and never will.
	Rejected
	// Unknown: it may take effect, at any time after its call, or never.
	Unknown
)

// String is the outcome in capitals.
func (o Outcome) String() string {
	switch o {
	case OK:
		return "OK"
	case Rejected:
		return "REJECTED"
	case Unknown:
		return "UNKNOWN"
	}
	return fmt.Sprintf("Outcome(%d)", o)
}

// Reply is the answer of a list: its state after an Add, or at a Get.
type Reply struct {
	Length int64  `json:"length"`
	Hash   uint64 `json:"hash"`
}

// Op is one operation of a client, however often it was sent.
type Op struct {
	Client int
	List   string
	Kind   Kind
	// Value is what Add adds; no two operations of a history add the same.
	Value int64
	// Key is the idempotency key that it was sent with, if any.
	Key string
	// Call and Return are since the start of the history. Return of an Unknown
	// operation does not matter.
	Call, Return time.Duration
	Outcome      Outcome
	Reply        Reply
	// Repeats are the answers to the same idempotency key, sent again.
	Repeats []Reply
	// Batch numbers the batch that the operation was part of, from 1; 0: none.
	// Operations of one batch and list take effect in the order of Index.
	Batch, Index int
}

func (o *Op) String() string {
	what := "Get"
	if o.Kind == Add {
		what = fmt.Sprintf("Add(%d)", o.Value)
	}
	return fmt.Sprintf("%s.%s by client %d, %v to %v, %v %+v", o.List, what, o.Client, o.Call.Round(time.Microsecond), o.Return.Round(time.Microsecond), o.Outcome, o.Reply)
}

// Hash is the hash of a list with one more value at its end: FNV-1a, 64 bit,
// over the bytes of all values, lowest first. The empty list has the hash 0.
func Hash(list uint64, value int64) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	if list == 0 {
		list = offset
	}
	for shift := 0; shift < 64; shift += 8 {
		list = (list ^ (uint64(value) >> shift & 0xff)) * prime
	}
	return list
}

// Longest is the longest time, over all lists, in which no operation on a list
// returned OK between start and end. It includes the pauses between calls.
func Longest(ops []Op, start, end time.Duration) time.Duration {
	returns := map[string][]time.Duration{}
	for i := range ops {
		o := &ops[i]
		at := returns[o.List]
		if o.Outcome == OK {
			at = append(at, o.Return)
		}
		returns[o.List] = at
	}
	var longest time.Duration
	for _, at := range returns {
		at = append(at, end)
		slices.Sort(at)
		last := start
		for _, t := range at {
			if t = min(t, end); t > last {
				longest = max(longest, t-last)
				last = t
			}
		}
	}
	return longest
}
