package history

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind is the kind of an operation.
type Kind uint8

const (
	// Add appends Op.Value to the list.
	Add Kind = iota + 1
	// Get reads length and hash.
	Get
	// Refuse is answered by an error of the list itself, with length and hash. It has no
	// effect, is ordered like a Get, and a repeat with its key gets the first error.
	Refuse
	// Peek is a stale read: it may return an older state, but none that never existed.
	Peek
)

// ordered reports whether operations of the kind return the state as it is at one moment
// between call and return.
func (k Kind) ordered() bool { return k == Get || k == Refuse }

// Outcome is a client's knowledge about the effects of an operation.
type Outcome uint8

const (
	// Executed: it took effect, once, and Op.Reply is its answer.
	Executed Outcome = iota + 1
	// NotApplied: it took no effect and never will.
	NotApplied
	// Unknown: it may take effect, at any time after its call, or never.
	Unknown
)

// String returns "executed", "not applied" or "unknown".
func (o Outcome) String() string {
	switch o {
	case Executed:
		return "executed"
	case NotApplied:
		return "not applied"
	case Unknown:
		return "unknown"
	}
	return fmt.Sprintf("Outcome(%d)", o)
}

// Reply is the answer of a list: its state after an Add, or at a Get.
type Reply struct {
	Length int64  `json:"length"`
	Hash   uint64 `json:"hash"`
}

// String returns the state as errors have it; see [ParseReply].
func (r Reply) String() string { return fmt.Sprintf("%d values with the hash %d", r.Length, r.Hash) }

// ParseReply parses the result of [Reply.String].
func ParseReply(text string) (r Reply, err error) {
	if _, err := fmt.Sscanf(text, "%d values with the hash %d", &r.Length, &r.Hash); err != nil {
		return Reply{}, fmt.Errorf("not the state of a list: %.200q", text)
	}
	return r, nil
}

// BigReply is a Reply that is large.
type BigReply struct {
	Reply
	Padding string `json:"padding"`
}

// Padding returns what makes the reply of a list large, derived from its hash: 300 kB, so
// that a few of them fill the buffers of a connection.
func Padding(hash uint64) string {
	return strings.Repeat(fmt.Sprintf("%020d", hash), 15_000)
}

// Op is one operation of a client, however often it was sent.
type Op struct {
	Client int
	List   string
	Kind   Kind
	// Value is the added value; no two operations of a history add the same.
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
	switch o.Kind {
	case Add:
		what = fmt.Sprintf("Add(%d)", o.Value)
	case Refuse:
		what = "Refuse"
	case Peek:
		what = "Peek"
	}
	return fmt.Sprintf("%s.%s by client %d, %v to %v, %v %+v", o.List, what, o.Client, o.Call.Round(time.Microsecond), o.Return.Round(time.Microsecond), o.Outcome, o.Reply)
}

// Hash returns the hash of a list with one more value at its end: FNV-1a, 64 bit, over the
// bytes of all values, lowest first. The empty list has the hash 0.
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

// Longest returns the longest time, over all lists, in which no operation on a list
// was executed between start and end. It includes the pauses between calls.
func Longest(ops []Op, start, end time.Duration) time.Duration {
	returns := map[string][]time.Duration{}
	for i := range ops {
		o := &ops[i]
		at := returns[o.List]
		if o.Outcome == Executed {
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
