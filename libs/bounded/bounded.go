// Package bounded keeps untrusted messages from taking memory out of proportion to
// their size. Two bytes of protobuf, an empty message in a list, become a struct, an
// element of a growing slice, and another struct that it is converted to: a body
// of 4 MiB can take 500 MiB. [Limits.Check] walks over the bytes before anything is
// allocated and adds up how much memory they would take; [Limits.Handler] and
// [Limits.Transport] do so for the requests and answers of Twirp services, and expand compressed
// requests, within the same limits. A [Budget] bounds the bodies of all requests, and the decoded
// messages, together.
//
// # What this does not do
//
// It does not validate messages; that is the decoder's responsibility. Only names of fields in JSON are
// checked, if [Limits.KnownFields] is set, because Twirp's decoder ignores those that it does not know. [Limits] bounds
// one message; a [Budget] bounds what all messages that are decoded at once take. Error responses, and responses from
// paths outside Twirp services, are bounded in length alone.
package bounded

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Factor is the number of bytes of memory that a byte of input may take, beyond [Limits.Slack]. The
// messages of Roost's services take less: rows of the route table six, members seven.
const Factor = 8

// Limits bounds what is decoded. The zero Limits allows nothing but small
// messages: choose a Body.
//
// Invariant: the messages of unknown peers take memory only in proportion to their length. A message on a link may take
// 8 times its length, plus 64 KiB. A Twirp message may take 8 times its length, plus 2 MiB.
// Guarded by: `bounded.Limits` checks messages before they are decoded: every Twirp request at the listeners of `node`,
// and every answer of a peer. `bounded.Budget` counts all bodies of a listener together, as they arrive. `link` has
// limits of its own.
type Limits struct {
	// Body is the longest body, in bytes, after expansion of a compressed one.
	Body int64
	// Slack is the number of bytes that a message may take beyond [Factor] times its length, for
	// legitimate lists of very short elements. Default 2 MiB: little for a process, and enough for
	// 10,000 empty elements.
	Slack int64
	// Lists bounds the elements of lists by the full name of their field, such
	// as roost.cluster.v1.State.members, each time such a list occurs. In JSON, only lists of messages
	// in the outermost message are counted.
	Lists map[protoreflect.FullName]int
	// KnownFields has [Limits.Handler] refuse requests in JSON with fields that their message does not
	// have: people write these requests, and misspell fields. Protobuf is not concerned, because programs of
	// a later version may send fields that this one does not know.
	KnownFields bool
}

const defaultSlack = 2 << 20

// ErrTooLarge is wrapped by errors about messages that exceed a limit.
var ErrTooLarge = errors.New("message exceeds a limit")

// Check returns an error unless b can be decoded as a message of the given kind
// within the limits. Its own memory does not grow with b. Malformed protobuf is
// refused too.
func (l Limits) Check(b []byte, kind protoreflect.MessageDescriptor) error {
	_, err := l.check(b, kind)
	return err
}

// check is Check. It also returns the memory that decoding takes, in bytes.
func (l Limits) check(b []byte, kind protoreflect.MessageDescriptor) (int, error) {
	if l.Body > 0 && int64(len(b)) > l.Body {
		return 0, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrTooLarge, len(b), l.Body)
	}
	s := shapeOf(kind)
	c := check{remaining: l.budget(len(b)) - s.size - s.noun, lists: l.Lists}
	if err := c.message(b, s); err != nil {
		return 0, fmt.Errorf("%s of %d bytes: %w", kind.FullName(), len(b), err)
	}
	return l.budget(len(b)) - c.remaining, nil
}

// budget returns how much memory an input of n bytes may take.
func (l Limits) budget(n int) int {
	slack := l.Slack
	if slack == 0 {
		slack = defaultSlack
	}
	return Factor*n + int(slack)
}

// maxDepth bounds the nesting of messages, and with it the stack.
const maxDepth = 100

// check is the state of one walk over a message.
type check struct {
	remaining int // bytes of memory
	depth     int
	lists     map[protoreflect.FullName]int
}

var (
	errDense     = fmt.Errorf("%w: its elements are so short that it takes more than %d times its length in memory: send it in parts", ErrTooLarge, Factor)
	errMalformed = errors.New("not a valid protobuf message of this type")
)

func (c *check) message(b []byte, s *shape) error {
	if err := c.count(b, s); err != nil {
		return err
	}
	for len(b) > 0 {
		number, wire, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errMalformed
		}
		whole := protowire.ConsumeFieldValue(number, wire, b[n:])
		if whole < 0 {
			return errMalformed
		}
		value := b[n : n+whole]
		f := s.fields[number]
		if f != nil && wire == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
		}
		if c.remaining -= f.cost(wire, n, value); c.remaining < 0 {
			return errDense
		}
		if f != nil && f.below != nil && wire == protowire.BytesType {
			if c.depth++; c.depth > maxDepth {
				return errMalformed
			}
			if err := c.message(value, f.below); err != nil {
				return err
			}
			c.depth--
		}
		b = b[n+whole:]
	}
	return nil
}

// count returns an error if a list of the message itself is too long.
func (c *check) count(b []byte, s *shape) error {
	if len(c.lists) == 0 {
		return nil
	}
	for _, list := range s.lists {
		most, limited := c.lists[list.name]
		for rest, found := b, 0; limited && len(rest) > 0; {
			number, _, n := protowire.ConsumeField(rest)
			if n < 0 {
				return errMalformed
			}
			if number == list.number {
				found++
			}
			if found > most {
				return fmt.Errorf("%w: %s has more than %d elements: send it in parts", ErrTooLarge, list.name, most)
			}
			rest = rest[n:]
		}
	}
	return nil
}
