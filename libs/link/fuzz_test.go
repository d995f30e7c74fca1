package link

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/test/archtest"
)

// manyNames is the most expensive input for a reader: short frames that all define names.
func manyNames() []byte {
	var cs []Command
	for i := range maxNames / 2 {
		cs = append(cs, Command{Envelope: sharding.Envelope{
			Entity: sharding.Entity{Type: sharding.EntityType(fmt.Sprintf("t%d", i)), ID: "i"}, Command: fmt.Sprintf("c%d", i), ID: "k",
		}})
	}
	return encode(cs, nil)
}

// discard decodes a stream that carries both directions and discards the messages.
func discard(b []byte) error {
	var cn, an nameTable
	f := newFrameReader(64, testPayload+headerRoom, nil)
	src := fewBytes{bytes.NewReader(b)}
	for {
		kind, body, ok, err := f.next()
		if err == nil && !ok {
			err = f.fill(src)
		} else if err == nil {
			var c Command
			var a Answer
			switch kind {
			case kindCommand:
				err = cn.readCommand(body, testNow, testPayload, &c)
			case kindAnswer:
				err = an.readAnswer(body, testPayload, &a)
			case kindNotMine:
				err = an.readNotMine(body, &a)
			}
		}
		if err != nil {
			return err
		}
	}
}

// FuzzDecode: no input causes a panic or takes much memory, and every accepted
// message has exactly one encoding.
func FuzzDecode(f *testing.F) {
	f.Add(encode(sampleCommands(), sampleAnswers()))
	f.Add(encode(sampleCommands()[:1], nil))
	f.Add(encode(nil, sampleAnswers()))
	f.Add([]byte{0, 0, 0, 1, kindCommand})
	f.Add(bytes.Repeat(appendHeartbeat(nil), 9))
	f.Add(bytes.Repeat((&nameTable{}).appendNotMine(nil, 0, &NotMine{}), 2000))
	f.Add(manyNames())
	f.Fuzz(func(t *testing.T, b []byte) {
		archtest.Memory(t, archtest.MemoryFactor, len(b), func() { _ = discard(b) })
		cs, as, err := decodeAll(b)
		if err != nil || len(cs) > 0 && len(as) > 0 {
			return
		}
		if again := encode(cs, as); !bytes.Equal(again, b) {
			t.Errorf("%x\ndecodes to %+v %+v\nencodes to %x", b, cs, as, again)
		}
	})
}

// FuzzHandshake: no input causes a panic or takes much memory, and what is accepted
// survives a round trip.
func FuzzHandshake(f *testing.F) {
	h := hello{minVersion: 1, maxVersion: MaxVersion, cluster: "c", self: sharding.NodeID{Addr: "a:1", UID: 3}, peer: 4, lane: 1, lanes: 2, session: 9, maxPayload: 5}
	w := welcome{version: 1, cluster: "c", self: sharding.NodeID{Addr: "a:1", UID: 3}, maxPayload: 5}
	f.Add(h.append(nil)[4:])
	f.Add(w.append(nil)[4:])
	f.Add(appendRefuse(nil, refusedOtherNode, "no")[4:])
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		archtest.Memory(t, archtest.MemoryFactor, len(b), func() {
			_, _ = readHello(b[1:])
			_, _ = readWelcome(b[0], b[1:])
			frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
			_, _, _ = readHandshake(bufio.NewReader(bytes.NewReader(frame)))
		})
		if h, err := readHello(b[1:]); err == nil {
			if again, err := readHello(h.append(nil)[frameHeader:]); err != nil || again != h {
				t.Errorf("%+v came back as %+v, %v", h, again, err)
			}
		}
		if w, err := readWelcome(b[0], b[1:]); err == nil {
			if again, err := readWelcome(kindWelcome, w.append(nil)[frameHeader:]); err != nil || again != w {
				t.Errorf("%+v came back as %+v, %v", w, again, err)
			}
		}
	})
}
