package sharding

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"
)

// Prefixes of the idempotency keys that regions derive for commands between entities. What
// follows is a UUID.
const (
	// AskPrefix begins the key of a command that a turn has sent, and whose answer it waits for.
	AskPrefix = ReservedPrefix + "a:"
	// SendPrefix begins the key of a command that a record has sent.
	SendPrefix = ReservedPrefix + "s:"
)

const uuidLen = 36

// ProbeCommand is the command that regions use to detect turns that wait for each other in a
// circle. Every type has it. It has no turn of its own.
const ProbeCommand = BuiltinPrefix + "probe"

// DerivedKey returns a key with a prefix that is always the same for the same parts: a UUID of
// version 7 with the given time and, as the rest, a hash of the parts. With the zero time it is a
// UUID of version 8 and has no time; see [KeyTime].
func DerivedKey(prefix string, at time.Time, parts ...string) CommandID {
	h := sha256.New()
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p))) // no two lists of parts are hashed alike
		h.Write(n[:])
		h.Write([]byte(p))
	}
	u := h.Sum(nil)[:16]
	version := byte(0x80)
	if !at.IsZero() {
		version = 0x70
		var ms [8]byte
		binary.BigEndian.PutUint64(ms[:], uint64(at.UnixMilli())<<16)
		copy(u, ms[:6])
	}
	u[6] = u[6]&0x0f | version
	u[8] = u[8]&0x3f | 0x80
	b := make([]byte, 0, len(prefix)+uuidLen)
	b = hex.AppendEncode(append(b, prefix...), u[:4])
	for _, part := range [][]byte{u[4:6], u[6:8], u[8:10], u[10:]} {
		b = hex.AppendEncode(append(b, '-'), part)
	}
	return CommandID(b)
}

// IsSend reports whether the id is the key of a command that a record has sent.
func (id CommandID) IsSend() bool { return strings.HasPrefix(string(id), SendPrefix) }

// derived reports whether a reserved key has the form of [DerivedKey].
func derived(id CommandID) bool {
	rest, ok := strings.CutPrefix(string(id), AskPrefix)
	if !ok {
		rest, ok = strings.CutPrefix(string(id), SendPrefix)
	}
	if !ok {
		return false
	}
	_, ok = parseUUID(rest)
	return ok
}

// KeyTime returns the time inside a command id that is a UUID of version 7 in its
// usual form (RFC 9562 §5.7), in whole milliseconds, with or without the prefix of a
// [DerivedKey]. Other ids have none.
func KeyTime(id CommandID) (time.Time, bool) {
	s := string(id)
	if len(s) == len(AskPrefix)+uuidLen && (strings.HasPrefix(s, AskPrefix) || strings.HasPrefix(s, SendPrefix)) {
		s = s[len(AskPrefix):]
	}
	raw, ok := parseUUID(s)
	if !ok || raw[6]>>4 != 7 || raw[8]&0xc0 != 0x80 {
		return time.Time{}, false
	}
	ms := binary.BigEndian.Uint64(raw[:8]) >> 16
	return time.UnixMilli(int64(ms)).UTC(), true
}

// parseUUID returns the bytes of a UUID in its usual form.
func parseUUID(s string) (raw [16]byte, ok bool) {
	if len(s) != uuidLen || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return raw, false
	}
	var digits [32]byte
	copy(digits[0:], s[0:8])
	copy(digits[8:], s[9:13])
	copy(digits[12:], s[14:18])
	copy(digits[16:], s[19:23])
	copy(digits[20:], s[24:36])
	_, err := hex.Decode(raw[:], digits[:])
	return raw, err == nil
}
