package link

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Kinds of frames. Those below 16 carry no messages.
const (
	kindHello     = 1 // client to server, first
	kindWelcome   = 2 // server to client, first
	kindRefuse    = 3 // server to client, first and last
	kindHeartbeat = 4 // the sender is alive; no body
	kindClose     = 5 // the sender ends the link; body: why, empty if it closes cleanly (Server.Close)
	kindCommand   = 16
	kindAnswer    = 17
	kindNotMine   = 18
)

// Flags of a command.
const (
	flagKeyed     = 1 << 0
	flagTell      = 1 << 1
	flagDeadline  = 1 << 2
	flagTrace     = 1 << 3
	flagProto     = 1 << 4
	flagPrincipal = 1 << 5
	flagChain     = 1 << 6
	flagStored    = 1 << 7 // the input is a stored input: it has a version
	commandFlags  = 1<<8 - 1
)

// Flags of an answer; the lowest two bits are the outcome.
const (
	maskOutcome     = 3
	flagCode        = 1 << 2
	flagMessage     = 1 << 3
	flagTiming      = 1 << 4
	flagAnswerProto = 1 << 5 // flagProto of an answer
	answerFlags     = 1<<6 - 1
)

// Flags of a NotMine frame.
const (
	flagShard    = 1 << 0
	flagOwner    = 1 << 1
	flagReason   = 1 << 2
	notMineFlags = 1<<3 - 1
)

const frameHeader = 5 // length and kind

// begin appends a frame header; the function end fills in its length later.
func begin(b []byte, kind byte) []byte { return append(b, 0, 0, 0, 0, kind) }

// end fills in the length of the frame that begins at the given offset of b.
func end(b []byte, offset int) []byte {
	binary.BigEndian.PutUint32(b[offset:], uint32(len(b)-offset-4))
	return b
}

// nameTable numbers the names that were sent in one direction of a connection, from 1 on.
// The sender and the receiver build the same table. Where a frame has a name, it has a
// reference, which is one of three things:
//
//   - the number of a name that was sent before;
//   - the next number, followed by the name: the name gets this number;
//   - 0, followed by the name: the table is full, and the name gets no number.
type nameTable struct {
	list []string
	// ids has the number of each name. Only the sender has this map. The receiver has none,
	// because a peer that sends only short names could make the map take far more memory than
	// the names. The receiver searches list instead, but only when a name is defined, to refuse a
	// second definition.
	ids map[string]uint64
	// recent has, for each kind of name, the number that was sent last. It is a cache, because the
	// same name often follows.
	recent [nameKinds]uint64
	copies copies // of the data that the receiver reads besides names
}

// Kinds of names.
const (
	typeName = iota
	commandName
	codeName
	nameKinds
)

func (n *nameTable) add(s string) {
	if n.ids == nil {
		n.ids = make(map[string]uint64)
	}
	n.list = append(n.list, s)
	n.ids[s] = uint64(len(n.list))
}

// number returns the number of a name; 0 if it has none.
func (n *nameTable) number(kind int, s string) uint64 {
	if last := n.recent[kind]; last != 0 && n.list[last-1] == s {
		return last
	}
	id := n.ids[s]
	if id != 0 {
		n.recent[kind] = id
	}
	return id
}

// append appends a reference to a name.
func (n *nameTable) append(b []byte, kind int, s string) []byte {
	if id := n.number(kind, s); id != 0 {
		return binary.AppendUvarint(b, id)
	}
	if len(n.list) == maxNames {
		return sharding.AppendString(append(b, 0), s)
	}
	n.add(s)
	return sharding.AppendString(binary.AppendUvarint(b, uint64(len(n.list))), s)
}

// read reads a reference, with the name that it may define, and returns the name. The caller
// must check the name, because what is allowed depends on the kind.
func (n *nameTable) read(d *decoder, field string) string {
	ref := d.uvarint(field)
	switch {
	case d.bad != nil:
		return ""
	case ref >= 1 && ref <= uint64(len(n.list)):
		return n.list[ref-1]
	case ref == 0 && len(n.list) < maxNames: // only a full table lets names go without a number
		d.fail("%s: a name has no number, although the table has room", field)
		return ""
	case ref > uint64(len(n.list)+1), ref > maxNames:
		d.fail("%s: no name has number %d", field, ref)
		return ""
	}
	s := d.string(field, sharding.MaxTypeLen) // the limit of all kinds of names
	if d.bad != nil {
		return ""
	}
	if slices.Contains(n.list, s) {
		d.fail("%s: %q is defined twice", field, s)
		return ""
	}
	if ref != 0 {
		n.list = append(n.list, s)
	}
	return s
}

// appendCommand appends the frame of a command with valid names. timeLeft is the
// time until its deadline, if it has one.
func (n *nameTable) appendCommand(b []byte, c *Command, timeLeft time.Duration) []byte {
	e := &c.Envelope
	start := len(b)
	b = begin(b, kindCommand)
	var flags byte
	if e.Keyed {
		flags |= flagKeyed
	}
	if e.Tell {
		flags |= flagTell
	}
	if !e.Deadline.IsZero() {
		flags |= flagDeadline
	}
	trace := goodTrace(e.Trace)
	if trace {
		flags |= flagTrace
	}
	if e.Encoding == sharding.Protobuf {
		flags |= flagProto
	}
	if e.Principal != "" {
		flags |= flagPrincipal
	}
	if len(e.Chain) > 0 {
		flags |= flagChain
	}
	if e.Version != 0 {
		flags |= flagStored
	}
	b = append(b, flags)
	b = binary.AppendUvarint(b, c.Number)
	b = binary.AppendUvarint(b, uint64(c.Epoch))
	if flags&flagDeadline != 0 {
		timeLeft = min(max(timeLeft, 0), MaxTimeLeft)
		b = binary.AppendUvarint(b, uint64(timeLeft/time.Microsecond))
	}
	b = n.append(b, typeName, string(e.Entity.Type))
	b = n.append(b, commandName, e.Command)
	b = sharding.AppendString(b, string(e.Entity.ID))
	b = sharding.AppendString(b, string(e.ID))
	if e.Principal != "" {
		b = sharding.AppendString(b, e.Principal)
	}
	if trace {
		b = sharding.AppendString(b, e.Trace)
	}
	if len(e.Chain) > 0 {
		b = binary.AppendUvarint(b, uint64(len(e.Chain)))
		for i := range e.Chain {
			b = sharding.AppendString(n.append(b, typeName, string(e.Chain[i].Type)), string(e.Chain[i].ID))
		}
	}
	if e.Version != 0 {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(e.Version)), uint64(e.ReadableBy))
	}
	return end(append(b, e.Payload...), start)
}

// readCommand decodes the body of a command frame.
func (n *nameTable) readCommand(body []byte, now time.Time, maxPayload int, c *Command) error {
	d := decoder{b: body, copies: &n.copies}
	e := &c.Envelope
	flags := d.byte("flags")
	if flags&^commandFlags != 0 {
		d.fail("flags %#x are not known", flags)
	}
	e.Keyed = flags&flagKeyed != 0
	e.Tell = flags&flagTell != 0
	if flags&flagProto != 0 {
		e.Encoding = sharding.Protobuf
	}
	c.Number = d.uvarint("number")
	c.Epoch = sharding.Epoch(d.uvarint("epoch"))
	if flags&flagDeadline != 0 {
		left := d.uvarint("time left")
		if left > uint64(MaxTimeLeft/time.Microsecond) {
			d.fail("time left of %d µs is too long", left)
		} else {
			e.Deadline = now.Add(time.Duration(left) * time.Microsecond)
		}
	}
	e.Entity.Type = sharding.EntityType(n.read(&d, "type"))
	e.Command = n.read(&d, "command")
	e.Entity.ID, e.ID = d.ids()
	if flags&flagPrincipal != 0 {
		e.Principal = d.string("principal", sharding.MaxPrincipalLen)
	}
	if flags&flagTrace != 0 {
		if e.Trace = d.string("trace", MaxTraceLen); !goodTrace(e.Trace) {
			d.fail("trace is empty or not printable")
		}
	}
	if flags&flagChain != 0 {
		n.readChain(&d, e)
	}
	switch {
	case d.bad != nil:
	case e.ID == "":
		d.fail("command id is empty")
	case flags&flagPrincipal != 0 && e.Principal == "":
		d.fail("principal is empty")
	default:
		d.failOn(e.CheckFromPeer())
	}
	if flags&flagStored != 0 {
		if e.Version, e.ReadableBy = d.uint16("version"), d.uint16("readable by"); e.Version == 0 {
			d.fail("version is 0")
		}
	}
	e.Payload = d.rest("payload", maxPayload)
	return d.bad
}

// readChain reads the chain of a command.
func (n *nameTable) readChain(d *decoder, e *sharding.Envelope) {
	count := d.uvarint("length of the chain")
	if count == 0 || count > sharding.MaxChain {
		d.fail("chain of %d entities, must have 1 to %d", count, sharding.MaxChain)
		return
	}
	e.Chain = make([]sharding.Entity, count)
	for i := range e.Chain {
		e.Chain[i].Type = sharding.EntityType(n.read(d, "type in the chain"))
		e.Chain[i].ID = sharding.EntityID(d.string("id in the chain", sharding.MaxIDLen))
	}
}

// appendAnswer appends the frame of an answer. The answer must fit into a frame, see the
// function fit.
func (n *nameTable) appendAnswer(b []byte, a *Answer) []byte {
	if a.NotMine != nil {
		return n.appendNotMine(b, a.Number, a.NotMine)
	}
	r := &a.Reply
	start := len(b)
	b = begin(b, kindAnswer)
	flags := byte(r.Outcome)
	if r.Code != "" {
		flags |= flagCode
	}
	if r.Message != "" {
		flags |= flagMessage
	}
	if r.Timing != (sharding.Timing{}) {
		flags |= flagTiming
	}
	if r.Encoding == sharding.Protobuf {
		flags |= flagAnswerProto
	}
	b = append(b, flags)
	b = binary.AppendUvarint(b, a.Number)
	if flags&flagCode != 0 {
		b = n.append(b, codeName, string(r.Code))
	}
	if flags&flagMessage != 0 {
		b = sharding.AppendString(b, r.Message)
	}
	if flags&flagTiming != 0 {
		b = binary.AppendUvarint(b, uint64(r.Timing.Mailbox))
		b = binary.AppendUvarint(b, uint64(r.Timing.Handler))
		b = binary.AppendUvarint(b, uint64(r.Timing.Journal))
	}
	return end(append(b, r.Payload...), start)
}

// readAnswer decodes the body of an answer frame.
func (n *nameTable) readAnswer(body []byte, maxPayload int, a *Answer) error {
	d := decoder{b: body, copies: &n.copies}
	r := &a.Reply
	flags := d.byte("flags")
	if flags&^answerFlags != 0 {
		d.fail("flags %#x are not known", flags)
	}
	if r.Outcome = sharding.Outcome(flags & maskOutcome); r.Outcome == 0 {
		d.fail("no outcome")
	}
	if flags&flagAnswerProto != 0 {
		r.Encoding = sharding.Protobuf
	}
	a.Number = d.uvarint("number")
	if flags&flagCode != 0 {
		r.Code = sharding.Code(n.read(&d, "code"))
		d.failOn(sharding.CheckType("code", string(r.Code)))
	}
	if flags&flagMessage != 0 {
		if r.Message = d.string("message", MaxMessageLen); r.Message == "" || !utf8.ValidString(r.Message) {
			d.fail("message is empty or not valid UTF-8")
		}
	}
	if flags&flagTiming != 0 {
		r.Timing.Mailbox = d.duration("mailbox time")
		r.Timing.Handler = d.duration("handler time")
		r.Timing.Journal = d.duration("journal time")
		if r.Timing == (sharding.Timing{}) {
			d.fail("timing is empty")
		}
	}
	r.Payload = d.rest("payload", maxPayload)
	return d.bad
}

func (n *nameTable) appendNotMine(b []byte, number uint64, m *NotMine) []byte {
	start := len(b)
	b = begin(b, kindNotMine)
	var flags byte
	if m.Row.Shard != (sharding.ShardID{}) {
		flags |= flagShard
	}
	if !m.Row.Owner.IsZero() {
		flags |= flagOwner
	}
	if m.Row.Reason != 0 {
		flags |= flagReason
	}
	b = append(b, flags)
	b = binary.AppendUvarint(b, number)
	b = binary.AppendUvarint(b, uint64(m.Refused))
	if flags&flagShard != 0 {
		b = n.append(b, typeName, string(m.Row.Shard.Type))
		b = binary.AppendUvarint(b, uint64(m.Row.Shard.Index))
	}
	if flags&flagOwner != 0 {
		b = sharding.AppendString(b, m.Row.Owner.Addr)
		b = binary.BigEndian.AppendUint64(b, uint64(m.Row.Owner.UID))
	}
	b = binary.AppendUvarint(b, uint64(m.Row.Epoch))
	b = append(b, byte(m.Row.Phase))
	if flags&flagReason != 0 {
		b = append(b, byte(m.Row.Reason))
	}
	return end(b, start)
}

// readNotMine decodes the body of a NotMine frame.
func (n *nameTable) readNotMine(body []byte, a *Answer) error {
	d := decoder{b: body}
	m := &NotMine{}
	flags := d.byte("flags")
	if flags&^notMineFlags != 0 {
		d.fail("flags %#x are not known", flags)
	}
	a.Number = d.uvarint("number")
	m.Refused = sharding.Epoch(d.uvarint("refused epoch"))
	if flags&flagShard != 0 {
		m.Row.Shard.Type = sharding.EntityType(n.read(&d, "type"))
		d.failOn(sharding.CheckEntityType("type", m.Row.Shard.Type))
		index := d.uvarint("shard")
		if index >= sharding.MaxShards {
			d.fail("shard %d is too high", index)
		}
		m.Row.Shard.Index = uint32(index)
	}
	if flags&flagOwner != 0 {
		m.Row.Owner.Addr = d.string("owner", sharding.MaxAddrLen)
		m.Row.Owner.UID = sharding.NodeUID(d.uint64("owner uid"))
		if m.Row.Owner.IsZero() || !utf8.ValidString(m.Row.Owner.Addr) {
			d.fail("owner is empty or not valid UTF-8")
		}
	}
	m.Row.Epoch = sharding.Epoch(d.uvarint("epoch"))
	if m.Row.Phase = sharding.Phase(d.byte("phase")); m.Row.Phase > sharding.HandingOff {
		d.fail("phase %d is not known", m.Row.Phase)
	}
	if flags&flagReason != 0 {
		// A reason that this version does not know counts as none. Commands for the shard then
		// wait for an owner.
		if m.Row.Reason = sharding.RowReason(d.byte("reason")); m.Row.Reason > sharding.Unreadable {
			m.Row.Reason = 0
		}
	}
	d.end()
	a.NotMine = m
	return d.bad
}

// appendClose appends the frame that closes the connection; see sendClose.
func appendClose(b []byte, reason string) []byte {
	start := len(b)
	return end(append(begin(b, kindClose), clipMessage(reason)...), start)
}

// appendHeartbeat appends a heartbeat.
func appendHeartbeat(b []byte) []byte {
	start := len(b)
	return end(begin(b, kindHeartbeat), start)
}

// unsentCommands appends the numbers of the commands in frames to the list numbers, and returns the
// result. frames is a buffer of whole frames.
func unsentCommands(frames []byte, numbers []uint64) []uint64 {
	for len(frames) > frameHeader { // a last frame that has only a header is not a command
		next := 4 + int(binary.BigEndian.Uint32(frames))
		if frames[4] == kindCommand {
			number, _ := binary.Uvarint(frames[frameHeader+1 : next]) // after the flags
			numbers = append(numbers, number)
		}
		frames = frames[next:]
	}
	return numbers
}

// decoder reads a body from front to back. After the first error every value reads
// as zero.
type decoder struct {
	b      []byte
	bad    error
	copies *copies
}

// copies gives memory to the short texts and payloads that are read from a connection. Several share one
// block, because an allocation costs more than the copy. Who keeps one of them keeps its block, which is as
// small as what else a region has of a waiting command.
type copies struct{ free []byte }

const (
	// copyBlock is the size of a block.
	copyBlock = 1 << 10
	// copyShared is the largest size that shares a block. What is larger has memory of its own.
	copyShared = copyBlock / 4
)

// bytes returns a copy of b, which the caller owns.
func (c *copies) bytes(b []byte) []byte {
	n := len(b)
	if n > copyShared {
		own := make([]byte, n)
		copy(own, b)
		return own
	}
	if n > len(c.free) {
		c.free = make([]byte, copyBlock)
	}
	own := c.free[:n:n]
	c.free = c.free[n:]
	copy(own, b)
	return own
}

// string returns a copy of b as a string.
func (c *copies) string(b []byte) string {
	own := c.bytes(b)
	return unsafe.String(unsafe.SliceData(own), len(own)) // no other code has own, so it never changes
}

// fail records an error of the body, unless one is recorded already.
func (d *decoder) fail(format string, args ...any) {
	if d.bad == nil {
		d.bad = fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
	}
	d.b = nil
}

// failOn records err, if it is not nil, as the error of the body.
func (d *decoder) failOn(err error) {
	if err != nil {
		d.fail("%v", err)
	}
}

func (d *decoder) byte(field string) byte {
	if len(d.b) == 0 {
		d.fail("%s is missing", field)
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) uvarint(field string) uint64 {
	if len(d.b) > 0 && d.b[0] < 0x80 {
		v := d.b[0]
		d.b = d.b[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(d.b)
	if n <= 0 || n > 1 && d.b[n-1] == 0 {
		d.fail("%s is not a minimal varint", field)
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) uint16(field string) uint16 {
	v := d.uvarint(field)
	if v > math.MaxUint16 {
		d.fail("%s %d is too high", field, v)
		return 0
	}
	return uint16(v)
}

func (d *decoder) uint64(field string) uint64 {
	if len(d.b) < 8 {
		d.fail("%s is missing", field)
		return 0
	}
	v := binary.BigEndian.Uint64(d.b)
	d.b = d.b[8:]
	return v
}

func (d *decoder) duration(field string) time.Duration {
	v := d.uvarint(field)
	if v > math.MaxInt64 {
		d.fail("%s is too long", field)
		return 0
	}
	return time.Duration(v)
}

// string returns a copy of a string of at most max bytes.
func (d *decoder) string(field string, max int) string { return string(d.bytes(field, max)) }

// bytes returns the bytes of a string without copying them.
func (d *decoder) bytes(field string, max int) []byte {
	n := d.uvarint(field)
	if n > uint64(max) || n > uint64(len(d.b)) {
		d.fail("%s of %d bytes: at most %d are allowed, %d remain", field, n, max, len(d.b))
		return nil
	}
	s := d.b[:n]
	d.b = d.b[n:]
	return s
}

// ids reads an entity id and the command id that follows it. In the frame, the length of the
// command id lies between the two. One copy has all three parts.
func (d *decoder) ids() (sharding.EntityID, sharding.CommandID) {
	rest := d.b
	entityLen := len(d.bytes("entity id", sharding.MaxIDLen))
	first := len(rest) - len(d.b) - entityLen
	commandLen := len(d.bytes("command id", sharding.MaxCommandIDLen))
	if d.bad != nil {
		return "", ""
	}
	end := len(rest) - len(d.b)
	both := d.copies.string(rest[first:end])
	return sharding.EntityID(both[:entityLen]), sharding.CommandID(both[len(both)-commandLen:])
}

func (d *decoder) id(field string, max int) string {
	s := d.string(field, max)
	d.failOn(sharding.CheckID(field, s, max))
	return s
}

// end fails if any bytes remain.
func (d *decoder) end() {
	if len(d.b) > 0 {
		d.fail("%d bytes remain", len(d.b))
	}
}

// rest returns a copy of the remaining bytes; nil if there are none.
func (d *decoder) rest(field string, max int) []byte {
	switch {
	case len(d.b) > max:
		d.fail("%s has %d bytes, at most %d are allowed", field, len(d.b), max)
		return nil
	case len(d.b) == 0:
		return nil
	}
	return d.copies.bytes(d.b)
}
