package history

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Stored is a record of the journal, as far as the history of a list needs it.
type Stored struct {
	List    string
	Seq     int64
	Epoch   uint64
	Command string  // the idempotency key, or an id from the gateway
	Values  []int64 // what its events added, in their order
}

// Record is a record of the journal, whatever entity it is of.
type Record struct {
	Epoch   uint64
	Stored  time.Time // by the clock of the region
	Command string    // the idempotency key, or an id from the gateway
	Events  []Event
	// More holds the parts after the events: wake-ups and sends.
	More []byte
	// Wakes, Sends and Deletes are decoded from More: the number of wake-ups that are set, the
	// sends to other entities, and whether the record deletes its entity.
	Wakes   int
	Sends   []Send
	Deletes bool
}

// Send is a command that a record sends to another entity.
type Send struct {
	Type, ID, Command string
	Payload           []byte
}

// Event is one of a record.
type Event struct {
	Name    string
	Payload []byte
}

// DecodeRecord reads a record's stored form, which package journal documents:
//
//	crc(4) epoch stored-at-ms hash(16) command
//	count { name version readable-by encoding(1) payload }
//	count { kind(1) name number due-ms period-ms input }
//	count { type id input reply-to timeout-ms retry-min-ms retry-max-ms max-age-ms }
//	[ flags ]
//	input: command version readable-by shape(8) encoding(1) payload
//
// Numbers are unsigned varints, strings and bytes are preceded by their length. Of the flags, 1
// means that the record deletes its entity.
func DecodeRecord(body []byte) (Record, error) {
	d := decoder{rest: body}
	var r Record
	d.skip(4)
	r.Epoch = d.number()
	r.Stored = time.UnixMilli(int64(d.number()))
	d.skip(16)
	r.Command = string(d.bytes())
	for range d.number() {
		e := Event{Name: string(d.bytes())}
		d.number()
		d.number()
		d.skip(1)
		e.Payload = d.bytes()
		if d.short {
			break
		}
		r.Events = append(r.Events, e)
	}
	r.More = d.rest
	d.more(&r)
	if d.short || len(d.rest) > 0 {
		return r, fmt.Errorf("a malformed record: %.200q", body)
	}
	return r, nil
}

// Decode reads a record of a list. It has no wake-ups and no sends: two counts of 0.
func Decode(list string, seq int64, body []byte) (Stored, error) {
	r, err := DecodeRecord(body)
	if err != nil || !bytes.Equal(r.More, []byte{0, 0}) {
		return Stored{}, fmt.Errorf("record %d of %s is malformed: %q", seq, list, body)
	}
	s := Stored{List: list, Seq: seq, Epoch: r.Epoch, Command: r.Command}
	for _, e := range r.Events {
		var added struct{ Value, Number *int64 } // version 1 and version 2
		if err := json.Unmarshal(e.Payload, &added); err != nil || e.Name != "Added" || (added.Value == nil) == (added.Number == nil) {
			return Stored{}, fmt.Errorf("record %d of %s has an event %q that is not an Added: %q", seq, list, e.Name, e.Payload)
		}
		s.Values = append(s.Values, *cmp.Or(added.Value, added.Number))
	}
	return s, nil
}

// decoder reads a stored form; short is true if it was too short.
type decoder struct {
	rest  []byte
	short bool
}

func (d *decoder) skip(n uint64) (skipped []byte) {
	if n > uint64(len(d.rest)) {
		d.short, d.rest = true, nil
		return nil
	}
	skipped, d.rest = d.rest[:n], d.rest[n:]
	return skipped
}

func (d *decoder) number() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.short, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) bytes() []byte { return d.skip(d.number()) }

// more reads what comes behind the events of a record.
func (d *decoder) more(r *Record) {
	for n := d.number(); n > 0 && !d.short; n-- {
		d.skip(1)
		d.bytes()
		d.number()
		d.number()
		d.number()
		d.input()
		r.Wakes++
	}
	for n := d.number(); n > 0 && !d.short; n-- {
		s := Send{Type: string(d.bytes()), ID: string(d.bytes())}
		s.Command, s.Payload = d.input()
		d.bytes()
		for range 4 {
			d.number()
		}
		r.Sends = append(r.Sends, s)
	}
	if len(d.rest) > 0 {
		flags := d.number()
		r.Deletes = flags == 1
		d.short = d.short || flags != 1 && flags != 2 // of an operator
	}
}

// input reads the stored input of a command.
func (d *decoder) input() (command string, payload []byte) {
	command = string(d.bytes())
	d.number()
	d.number()
	d.skip(9)
	return command, d.bytes()
}

// CheckStored checks a history against the records of the journal, each list's in the order
// of their sequence numbers. It returns an error for every violation.
func CheckStored(ops []Op, stored []Stored) error {
	c := &storedCheck{last: map[string]Stored{}, length: map[string]int64{}, at: map[int64]storedAt{}, commands: map[[2]string]int64{}}
	for i := range stored {
		c.record(&stored[i])
	}
	for i := range ops {
		if o := &ops[i]; o.Kind == Add {
			c.op(o)
		}
	}
	if len(c.findings) > 0 {
		shown := c.findings[:min(maxFindings, len(c.findings))]
		return fmt.Errorf("%d findings in the journal: %w", len(c.findings), errors.Join(shown...))
	}
	return nil
}

// storedAt is the position of a value in the journal.
type storedAt struct {
	place
	command string
}

type storedCheck struct {
	last     map[string]Stored // by list
	length   map[string]int64
	at       map[int64]storedAt
	commands map[[2]string]int64 // list and command, to a sequence number
	findings []error
}

func (c *storedCheck) found(format string, args ...any) {
	c.findings = append(c.findings, fmt.Errorf(format, args...))
}

func (c *storedCheck) record(s *Stored) {
	last := c.last[s.List]
	if s.Seq != last.Seq+1 {
		c.found("a gap: record %d of %s follows %d", s.Seq, s.List, last.Seq)
	}
	if s.Epoch < last.Epoch {
		c.found("epochs fall: record %d of %s is of epoch %d, the one before of %d", s.Seq, s.List, s.Epoch, last.Epoch)
	}
	c.last[s.List] = *s
	if seq, twice := c.commands[[2]string{s.List, s.Command}]; twice {
		c.found("one effect twice: command %q has records %d and %d of %s", s.Command, seq, s.Seq, s.List)
	}
	c.commands[[2]string{s.List, s.Command}] = s.Seq
	for _, v := range s.Values {
		c.length[s.List]++
		if p, twice := c.at[v]; twice {
			c.found("double: %d is at %s[%d] and at %s[%d]", v, p.list, p.position, s.List, c.length[s.List])
		}
		c.at[v] = storedAt{place{s.List, c.length[s.List]}, s.Command}
	}
}

// op checks an Add against the journal.
func (c *storedCheck) op(o *Op) {
	p, there := c.at[o.Value]
	if seq, stored := c.commands[[2]string{o.List, o.Key}]; o.Key != "" && o.Outcome == NotApplied && stored {
		c.found("refused and stored: %v is record %d", o, seq)
	}
	switch {
	case there && o.Outcome == NotApplied:
		c.found("refused and stored: %v is at %s[%d]", o, p.list, p.position)
	case there && p.list != o.List:
		c.found("astray: %v is at %s[%d]", o, p.list, p.position)
	case there && o.Key != "" && p.command != o.Key:
		c.found("another's: %v with the key %q is stored as command %q", o, o.Key, p.command)
	case o.Outcome == Executed && !there:
		c.found("lost: %v", o)
	case o.Outcome == Executed && p.position != o.Reply.Length:
		c.found("moved: %v is at [%d]", o, p.position)
	}
}

// CheckRead compares the lists as read at the end with the records of the journal.
func CheckRead(final map[string][]int64, stored []Stored) error {
	values := map[string][]int64{}
	for i := range stored {
		values[stored[i].List] = append(values[stored[i].List], stored[i].Values...)
	}
	var findings []error
	for list, read := range final {
		if !slices.Equal(read, values[list]) {
			findings = append(findings, fmt.Errorf("another list: %s was read as %v, and the journal has %v", list, read, values[list]))
		}
	}
	return errors.Join(findings...)
}
