package link

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/roost-cluster/roost/libs/sharding"
)

// hello is the client's handshake.
type hello struct {
	minVersion, maxVersion uint64
	cluster                string
	self                   sharding.NodeID
	peer                   sharding.NodeUID // the incarnation that the client wants to reach
	lane, lanes            uint64
	session                uint64 // orders the links of one client process
	maxPayload             uint64
	generation             sharding.Generation // of the journal that holds the client's table; 0: not known
}

// welcome is the server's handshake.
type welcome struct {
	version    uint64
	cluster    string
	self       sharding.NodeID
	maxPayload uint64
}

// Codes of a refusal, for programs; its text is for people.
const (
	refusedOther     = 1
	refusedOtherNode = 2
)

// Handshake frames may grow at the end: readers ignore what follows the fields
// they know.

func (h *hello) append(b []byte) []byte {
	start := len(b)
	b = begin(b, kindHello)
	b = binary.AppendUvarint(b, h.minVersion)
	b = binary.AppendUvarint(b, h.maxVersion)
	b = sharding.AppendString(b, h.cluster)
	b = binary.BigEndian.AppendUint64(b, uint64(h.self.UID))
	b = sharding.AppendString(b, h.self.Addr)
	b = binary.BigEndian.AppendUint64(b, uint64(h.peer))
	b = binary.AppendUvarint(b, h.lane)
	b = binary.AppendUvarint(b, h.lanes)
	b = binary.AppendUvarint(b, h.session)
	b = binary.AppendUvarint(b, h.maxPayload)
	return end(binary.BigEndian.AppendUint64(b, uint64(h.generation)), start)
}

func readHello(body []byte) (h hello, err error) {
	d := decoder{b: body}
	h.minVersion = d.uvarint("lowest version")
	h.maxVersion = d.uvarint("highest version")
	h.cluster = d.id("cluster", sharding.MaxClusterLen)
	h.self.UID = sharding.NodeUID(d.uint64("uid"))
	h.self.Addr = d.string("address", sharding.MaxAddrLen)
	h.peer = sharding.NodeUID(d.uint64("peer uid"))
	h.lane = d.uvarint("lane")
	h.lanes = d.uvarint("lanes")
	h.session = d.uvarint("session")
	h.maxPayload = d.uvarint("payload limit")
	h.generation = sharding.Generation(d.uint64("generation"))
	if h.minVersion > h.maxVersion || h.self.UID == 0 || h.lane >= h.lanes || h.lanes > MaxLanes || h.maxPayload == 0 {
		d.fail("versions %d to %d, uid %x, lane %d of %d, payloads up to %d bytes",
			h.minVersion, h.maxVersion, uint64(h.self.UID), h.lane, h.lanes, h.maxPayload)
	}
	return h, d.bad
}

// refuse returns why a server refuses this client; reason is empty if it does not.
func (h *hello) refuse(cfg *Config) (code byte, reason string) {
	switch {
	case h.cluster != cfg.Cluster:
		return refusedOther, fmt.Sprintf("this is cluster %q, not %q", cfg.Cluster, h.cluster)
	case h.peer != cfg.Self.UID:
		return refusedOtherNode, fmt.Sprintf("this is node %v, not #%x", cfg.Self, uint64(h.peer))
	case cfg.Generation != nil && h.generation.Other(cfg.Generation()): //mutant:false link-generation
		return refusedOther, fmt.Sprintf("the journal here has generation %s, and the table of the caller is of generation %s: the journal was restored or replaced; restart the process that is older than that", cfg.Generation(), h.generation)
	case h.minVersion > MaxVersion || h.maxVersion < MinVersion:
		return refusedOther, fmt.Sprintf("protocol versions %d to %d are spoken here, not %d to %d",
			MinVersion, MaxVersion, h.minVersion, h.maxVersion)
	}
	return 0, ""
}

func (w *welcome) append(b []byte) []byte {
	start := len(b)
	b = begin(b, kindWelcome)
	b = binary.AppendUvarint(b, w.version)
	b = sharding.AppendString(b, w.cluster)
	b = binary.BigEndian.AppendUint64(b, uint64(w.self.UID))
	b = sharding.AppendString(b, w.self.Addr)
	return end(binary.AppendUvarint(b, w.maxPayload), start)
}

func appendRefuse(b []byte, code byte, reason string) []byte {
	start := len(b)
	b = append(begin(b, kindRefuse), code)
	return end(append(b, clipMessage(reason)...), start)
}

// readWelcome decodes the server's handshake. A refusal is returned as an error.
func readWelcome(kind byte, body []byte) (w welcome, err error) {
	d := decoder{b: body}
	switch kind {
	case kindRefuse:
		code := d.byte("refusal")
		reason := clipMessage(string(d.b))
		switch {
		case d.bad != nil:
			return w, d.bad
		case code == refusedOtherNode:
			return w, fmt.Errorf("%w: %w: %s", ErrRefused, ErrOtherNode, reason)
		}
		return w, fmt.Errorf("%w: %s", ErrRefused, reason)
	case kindWelcome:
	default:
		return w, fmt.Errorf("%w: kind %d is not a handshake", ErrMalformed, kind)
	}
	w.version = d.uvarint("version")
	w.cluster = d.id("cluster", sharding.MaxClusterLen)
	w.self.UID = sharding.NodeUID(d.uint64("uid"))
	w.self.Addr = d.string("address", sharding.MaxAddrLen)
	if w.maxPayload = d.uvarint("payload limit"); w.maxPayload == 0 {
		d.fail("payload limit is 0")
	}
	return w, d.bad
}

// accept checks a welcome against the client's hello.
func (w *welcome) accept(h *hello) error {
	switch {
	case w.cluster != h.cluster:
		return fmt.Errorf("%w: cluster %q answers, not %q", ErrRefused, w.cluster, h.cluster)
	case w.self.UID != h.peer:
		return fmt.Errorf("%w: %w: %v", ErrRefused, ErrOtherNode, w.self)
	case w.version < h.minVersion || w.version > h.maxVersion:
		return fmt.Errorf("%w: it speaks version %d, not %d to %d", ErrRefused, w.version, h.minVersion, h.maxVersion)
	}
	return nil
}

// readHandshake reads one handshake frame of a peer that is not known yet.
func readHandshake(r *bufio.Reader) (kind byte, body []byte, err error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, fmt.Errorf("handshake: %w", err)
	}
	n := binary.BigEndian.Uint32(header[:])
	if n == 0 || n > maxHandshake {
		return 0, nil, fmt.Errorf("%w: handshake of %d bytes, 1 to %d are allowed", ErrMalformed, n, maxHandshake)
	}
	body = make([]byte, n-1)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, fmt.Errorf("handshake: %w", err)
	}
	return header[4], body, nil
}

// buffered returns the bytes that a reader has read but not returned.
func buffered(r *bufio.Reader) []byte {
	b, _ := r.Peek(r.Buffered())
	return b
}
