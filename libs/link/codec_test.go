package link

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
)

var testNow = time.Unix(1_000_000_000, 0)

const testPayload = 1 << 10

func sampleCommands() []Command {
	return []Command{
		{Number: 1, Epoch: sharding.MakeEpoch(3, 7), Envelope: sharding.Envelope{
			Entity: sharding.Entity{Type: "Airport", ID: "PHX"}, Command: "Depart", ID: "k-1", Keyed: true,
			Payload: []byte(`{"delay":5}`), Deadline: testNow.Add(1500 * time.Millisecond),
			Principal: "spiffe://example.org/tower",
			Trace:     "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		}},
		{Number: math.MaxUint64, Epoch: math.MaxUint64, Envelope: sharding.Envelope{
			Entity: sharding.Entity{Type: "Airport", ID: "Zürich"}, Command: "Depart", ID: "k-2", Tell: true,
			Encoding: sharding.Protobuf, Principal: "alice",
		}},
		{Envelope: sharding.Envelope{
			Entity: sharding.Entity{Type: "Route", ID: "PHX-LAX"}, Command: "Fly", ID: "k-3", Deadline: testNow,
		}},
		{Number: 3, Envelope: sharding.Envelope{
			Entity: sharding.Entity{Type: "Route", ID: "PHX-LAX"}, Command: "Fly", Keyed: true, Payload: []byte("{}"),
			ID:    sharding.DerivedKey(sharding.AskPrefix, testNow, "k-4"),
			Chain: []sharding.Entity{{Type: "Airport", ID: "PHX"}, {Type: "Airport", ID: "Zürich"}},
		}},
	}
}

func sampleAnswers() []Answer {
	return []Answer{
		{Number: 1, Reply: sharding.Reply{Outcome: sharding.Executed, Payload: []byte("done"),
			Timing: sharding.Timing{Mailbox: 1, Handler: 2 * time.Microsecond, Journal: 3 * time.Millisecond}}},
		{Number: 2, Reply: sharding.Reject(sharding.ResourceExhausted, "mailbox full")},
		{Number: 3, Reply: sharding.Doubt(sharding.ResourceExhausted, "mailbox full")},
		{Number: 4, NotMine: &NotMine{}},
		{Number: 5, NotMine: &NotMine{Refused: 9, Row: sharding.Row{
			Shard: sharding.ShardID{Type: "Airport", Index: 1023}, Owner: sharding.NodeID{Addr: "10.0.0.1:80", UID: 77},
			Epoch: sharding.MakeEpoch(4, 1), Phase: sharding.Serving}}},
		{Number: 6, Reply: sharding.Reply{Outcome: sharding.Executed, Encoding: sharding.Protobuf}},
		{Number: 7, NotMine: &NotMine{Refused: 9, Row: sharding.Row{
			Shard: sharding.ShardID{Type: "Airport", Index: 1023}, Epoch: sharding.MakeEpoch(4, 2), Phase: sharding.Starting, Reason: sharding.Unreadable}}},
	}
}

func encode(cs []Command, as []Answer) []byte {
	var cn, an nameTable
	var b []byte
	for i := range cs {
		b = cn.appendCommand(b, &cs[i], cs[i].Envelope.Deadline.Sub(testNow))
	}
	for i := range as {
		a := fit(as[i], testPayload)
		b = an.appendAnswer(b, &a)
	}
	return b
}

// decodeAll reads a stream that carries both directions.
func decodeAll(b []byte) (cs []Command, as []Answer, err error) {
	var cn, an nameTable
	f := newFrameReader(64, testPayload+headerRoom, nil)
	src := fewBytes{bytes.NewReader(b)}
	for {
		kind, body, ok, err := f.next()
		if err != nil {
			return cs, as, err
		}
		if !ok {
			if err := f.fill(src); err == io.EOF {
				return cs, as, nil
			} else if err != nil {
				return cs, as, err
			}
			continue
		}
		var c Command
		var a Answer
		switch kind {
		case kindCommand:
			if err = cn.readCommand(body, testNow, testPayload, &c); err == nil {
				cs = append(cs, c)
			}
		case kindAnswer:
			if err = an.readAnswer(body, testPayload, &a); err == nil {
				as = append(as, a)
			}
		case kindNotMine:
			if err = an.readNotMine(body, &a); err == nil {
				as = append(as, a)
			}
		default:
			err = ErrMalformed
		}
		if err != nil {
			return cs, as, err
		}
	}
}

// fewBytes returns a few bytes per Read, to cut frames anywhere.
type fewBytes struct{ r io.Reader }

func (o fewBytes) Read(p []byte) (int, error) { return o.r.Read(p[:min(len(p), 7)]) }

func TestRoundTrip(t *testing.T) {
	b := encode(sampleCommands(), sampleAnswers())
	cs, as, err := decodeAll(b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(cs, sampleCommands()) {
		t.Errorf("commands came back as %+v", cs)
	}
	if !reflect.DeepEqual(as, sampleAnswers()) {
		t.Errorf("answers came back as %+v", as)
	}
	if again := encode(cs, as); !bytes.Equal(again, b) {
		t.Errorf("encoded again:\n%x\n%x", again, b)
	}
}

func TestNamesAreSentOnce(t *testing.T) {
	c := sampleCommands()[0]
	var n nameTable
	first := len(n.appendCommand(nil, &c, 0))
	second := len(n.appendCommand(nil, &c, 0))
	if saved := first - second; saved != len("Airport")+len("Depart")+2 {
		t.Errorf("the second frame saves %d bytes", saved)
	}
}

func TestNamesBeyondTheTable(t *testing.T) {
	var cs []Command
	for i := range maxNames + 3 {
		c := sampleCommands()[0]
		c.Envelope.Command = "C" + strings.Repeat("x", i%50) + string(rune('a'+i%26)) + strings.Repeat("y", i/50)
		cs = append(cs, c, c)
	}
	b := encode(cs, nil)
	got, _, err := decodeAll(b)
	if err != nil || !reflect.DeepEqual(got, cs) {
		t.Fatalf("%d of %d commands came back, %v", len(got), len(cs), err)
	}
	if !bytes.Equal(encode(got, nil), b) {
		t.Error("encoding is not canonical")
	}
}

func TestDeadlineIsCut(t *testing.T) {
	for _, tt := range []struct{ sent, want time.Time }{
		{testNow.Add(-time.Hour), testNow},
		{testNow.Add(1999 * time.Nanosecond), testNow.Add(time.Microsecond)},
		{testNow.Add(100 * 365 * 24 * time.Hour), testNow.Add(MaxTimeLeft)},
		{time.Time{}, time.Time{}},
	} {
		c := sampleCommands()[0]
		c.Envelope.Deadline = tt.sent
		got, _, err := decodeAll(encode([]Command{c}, nil))
		if err != nil || !got[0].Envelope.Deadline.Equal(tt.want) {
			t.Errorf("%v came as %v, %v", tt.sent, got, err)
		}
	}
}

func TestBadTraceIsLeftOut(t *testing.T) {
	for _, trace := range []string{"a\nb", strings.Repeat("x", MaxTraceLen+1), "ü"} {
		c := sampleCommands()[0]
		c.Envelope.Trace = trace
		got, _, err := decodeAll(encode([]Command{c}, nil))
		if err != nil || got[0].Envelope.Trace != "" {
			t.Errorf("%q came as %v, %v", trace, got, err)
		}
	}
}

func TestUnfitAnswersKeepTheirOutcome(t *testing.T) {
	for name, r := range map[string]sharding.Reply{
		"payload":  {Outcome: sharding.Executed, Payload: make([]byte, testPayload+1)},
		"encoding": {Outcome: sharding.Executed, Encoding: 9},
		"code":     {Outcome: sharding.Executed, Code: "no name!"},
	} {
		_, as, err := decodeAll(encode(nil, []Answer{{Number: 1, Reply: r}}))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := as[0].Reply
		if got.Outcome != sharding.Executed || got.Code != sharding.Internal || got.Payload != nil || got.Message == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	_, as, err := decodeAll(encode(nil, []Answer{
		{Reply: sharding.Reply{}},
		{Reply: sharding.Reply{Outcome: sharding.Unknown, Message: strings.Repeat("ü", MaxMessageLen) + "\xff", Timing: sharding.Timing{Handler: -1}}},
		{NotMine: &NotMine{Row: sharding.Row{Phase: 9}, Refused: 5}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	if as[0].Reply.Outcome != sharding.Unknown {
		t.Errorf("no outcome became %v", as[0].Reply)
	}
	if m := as[1].Reply.Message; m != strings.Repeat("ü", MaxMessageLen/2) {
		t.Errorf("long message came as %d bytes", len(m))
	}
	if got := as[2].NotMine; got.Refused != 5 || got.Row != (sharding.Row{}) {
		t.Errorf("bad row came as %+v", got)
	}
}

func TestMalformed(t *testing.T) {
	frame := func(kind byte, body ...byte) []byte {
		return end(append(begin(nil, kind), body...), 0)
	}
	good := encode(sampleCommands()[:1], nil)
	long := bytes.Clone(good)
	long = append(long, make([]byte, testPayload)...)
	binary.BigEndian.PutUint32(long, uint32(len(long)-4))
	reserved := slices.Concat([]byte{0, 1, 1, 1, 7}, []byte("Roost.x"), []byte{2, 1, 'A', 1, 'i', 1, 'k'})
	longPrincipal := slices.Concat([]byte{flagPrincipal, 1, 1, 1, 1, 'A', 2, 1, 'B', 1, 'i', 1, 'k', 0x81, 2}, bytes.Repeat([]byte{'p'}, sharding.MaxPrincipalLen+1))
	for name, b := range map[string][]byte{
		"empty frame":         {0, 0, 0, 0},
		"giant frame":         {255, 255, 255, 255, kindCommand},
		"unknown kind":        frame(99),
		"command, no body":    frame(kindCommand),
		"unknown flags":       frame(kindCommand, 0xff, 1, 1),
		"long number":         frame(kindCommand, 0, 0x81, 0x00, 1, 1, 1, 'A', 2, 1, 'B', 1, 'i', 1, 'k'),
		"number over 64 bit":  frame(kindCommand, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2),
		"no such name":        frame(kindCommand, 0, 1, 1, 2, 1, 'A'),
		"inline too early":    frame(kindCommand, 0, 1, 1, 0, 1, 'A'),
		"defined twice":       frame(kindCommand, 0, 1, 1, 1, 1, 'A', 2, 1, 'A', 1, 'i', 1, 'k'),
		"bad name":            frame(kindCommand, 0, 1, 1, 1, 1, '!', 2, 1, 'A', 1, 'i', 1, 'k'),
		"reserved type":       frame(kindCommand, reserved...),
		"empty id":            frame(kindCommand, 0, 1, 1, 1, 1, 'A', 2, 1, 'B', 0, 1, 'k'),
		"id not UTF-8":        frame(kindCommand, 0, 1, 1, 1, 1, 'A', 2, 1, 'B', 1, 0xff, 1, 'k'),
		"id longer than body": frame(kindCommand, 0, 1, 1, 1, 1, 'A', 2, 1, 'B', 200, 1, 'k'),
		"no command id":       frame(kindCommand, 0, 1, 1, 1, 1, 'A', 2, 1, 'B', 1, 'i', 0),
		"time left too long":  frame(kindCommand, flagDeadline, 1, 1, 255, 255, 255, 255, 255, 255, 255, 1, 1, 1, 'A', 2, 1, 'B', 1, 'i', 1, 'k'),
		"empty principal":     frame(kindCommand, flagPrincipal, 1, 1, 1, 1, 'A', 2, 1, 'B', 1, 'i', 1, 'k', 0),
		"bad principal":       frame(kindCommand, flagPrincipal, 1, 1, 1, 1, 'A', 2, 1, 'B', 1, 'i', 1, 'k', 1, 0),
		"long principal":      frame(kindCommand, longPrincipal...),
		"empty trace":         frame(kindCommand, flagTrace, 1, 1, 1, 1, 'A', 2, 1, 'B', 1, 'i', 1, 'k', 0),
		"payload too large":   long,
		"answer, no outcome":  frame(kindAnswer, 0, 1),
		"bad code":            frame(kindAnswer, 1|flagCode, 1, 1, 1, '!'),
		"bad type of a row":   frame(kindNotMine, flagShard, 1, 0, 1, 1, '!', 0, 0, 0),
		"reserved type of it": frame(kindNotMine, slices.Concat([]byte{flagShard, 1, 0, 1, 7}, []byte("Roost.x"), []byte{0, 0, 0})...),
		"empty message":       frame(kindAnswer, 1|flagMessage, 1, 0),
		"empty timing":        frame(kindAnswer, 1|flagTiming, 1, 0, 0, 0),
		"row too long":        frame(kindNotMine, 0, 1, 0, 0, 0, 7),
		"row phase":           frame(kindNotMine, 0, 1, 0, 0, 4),
		"row owner empty":     frame(kindNotMine, flagOwner, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	} {
		cs, as, err := decodeAll(b)
		if !errors.Is(err, ErrMalformed) || len(cs)+len(as) > 0 {
			t.Errorf("%s: %v %v %v", name, cs, as, err)
		}
	}
}

// TestDecoderRefusesBadNames: a client that does not check its names is refused, however
// often the connection has carried good ones.
func TestDecoderRefusesBadNames(t *testing.T) {
	for what, e := range shardingtest.BadNames() {
		cs := append(sampleCommands(), Command{Envelope: e})
		got, _, err := decodeAll(encode(cs, nil))
		if !errors.Is(err, ErrMalformed) || len(got) != len(cs)-1 {
			t.Errorf("%s: %d commands, %v", what, len(got), err)
		}
	}
}

func TestHandshakeOfUnknownPeerIsBounded(t *testing.T) {
	for _, b := range [][]byte{{0x3f, 0xff, 0xff, 0xff, kindHello}, {0, 0, 0, 0, kindHello}} {
		if _, _, err := readHandshake(bufio.NewReader(bytes.NewReader(b))); !errors.Is(err, ErrMalformed) {
			t.Errorf("%x: %v", b, err)
		}
	}
}

// TestClaimedLengthAllocatesNothing: memory for a frame grows with the bytes that have
// arrived, not with the length that the frame claims.
func TestClaimedLengthAllocatesNothing(t *testing.T) {
	f := newFrameReader(4<<10, 1<<30, nil)
	src := bytes.NewReader(append([]byte{0x3f, 0xff, 0xff, 0xff}, make([]byte, 10_000)...))
	for f.fill(src) == nil {
		if _, _, ok, err := f.next(); ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if len(f.buf) > 32<<10 {
		t.Errorf("buffer of %d bytes for 10,000", len(f.buf))
	}
}

func TestFrameReaderShrinks(t *testing.T) {
	f := newFrameReader(4<<10, 1<<20, nil)
	big := end(append(begin(nil, kindAnswer), make([]byte, 100_000)...), 0)
	src := bytes.NewReader(append(big, appendHeartbeat(nil)...))
	seen := 0
	for seen < 2 {
		_, _, ok, err := f.next()
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			seen++
		} else if err := f.fill(src); err != nil {
			t.Fatal(err)
		}
	}
	_ = f.fill(bytes.NewReader(nil))
	if len(f.buf) != 4<<10 {
		t.Errorf("buffer keeps %d bytes", len(f.buf))
	}
}

func TestUnsentFindsNumbers(t *testing.T) {
	b := appendHeartbeat(nil)
	b = append(b, encode(sampleCommands(), nil)...)
	b = appendClose(b, "")
	if got := unsentCommands(b, nil); !reflect.DeepEqual(got, []uint64{1, math.MaxUint64, 0, 3}) {
		t.Error(got)
	}
}

func TestRandomCommandsRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	text := func(max int) string {
		b := make([]byte, 1+rng.IntN(max))
		for i := range b {
			b[i] = byte('a' + rng.IntN(26))
		}
		return string(b)
	}
	for range 300 {
		var cs []Command
		for range 1 + rng.IntN(10) {
			c := Command{Number: rng.Uint64() >> rng.IntN(64), Epoch: sharding.Epoch(rng.Uint64() >> rng.IntN(64))}
			c.Envelope = sharding.Envelope{
				Entity: sharding.Entity{Type: sharding.EntityType(text(3)), ID: sharding.EntityID(text(sharding.MaxIDLen))}, Command: text(3),
				ID: sharding.CommandID(text(sharding.MaxCommandIDLen)), Keyed: rng.IntN(2) == 0, Tell: rng.IntN(2) == 0,
				Encoding: sharding.Encoding(rng.IntN(2)), Payload: []byte(text(testPayload)),
			}
			if rng.IntN(2) == 0 {
				c.Envelope.Deadline = testNow.Add(time.Duration(rng.Int64N(1e9)) * time.Microsecond)
			}
			if rng.IntN(2) == 0 {
				c.Envelope.Trace = text(MaxTraceLen)
			}
			if rng.IntN(2) == 0 {
				c.Envelope.Principal = text(sharding.MaxPrincipalLen)
			}
			cs = append(cs, c)
		}
		got, _, err := decodeAll(encode(cs, nil))
		if err != nil || !reflect.DeepEqual(got, cs) {
			t.Fatalf("seed %d: %v\nsent %+v\ngot  %+v", seed, err, cs, got)
		}
	}
}
