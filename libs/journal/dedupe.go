package journal

import (
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// KeyTime is the time inside a command id that is a UUID of version 7 in its
// usual form (RFC 9562 §5.7), in whole milliseconds. Other ids have none.
func KeyTime(id sharding.CommandID) (time.Time, bool) {
	if len(id) != 36 || id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' || id[14] != '7' {
		return time.Time{}, false
	}
	var digits [32]byte
	copy(digits[0:], id[0:8])
	copy(digits[8:], id[9:13])
	copy(digits[12:], id[14:18])
	copy(digits[16:], id[19:23])
	copy(digits[20:], id[24:36])
	var raw [16]byte
	if _, err := hex.Decode(raw[:], digits[:]); err != nil || raw[8]&0xc0 != 0x80 {
		return time.Time{}, false
	}
	ms := binary.BigEndian.Uint64(raw[:8]) >> 16
	return time.UnixMilli(int64(ms)).UTC(), true
}

// Expired says whether a key is so old that the entity may have dropped its
// entry: it has a time, and that is not after the newest time dropped.
func Expired(dropped time.Time, id sharding.CommandID) bool {
	t, ok := KeyTime(id)
	return ok && !dropped.IsZero() && !t.After(dropped)
}

// Drop decides whether the dedupe entry of a command, stored at some time, is
// old enough to be dropped, and which time the entity must remember then (the
// zero time for keys without one). That the entry is not among the newest
// [Config.DedupeCount] is for the caller to see to.
//
// A key may be made by a clock that is ahead of ours. Its entry is kept until
// the key's own time is old too, or else the time to remember would refuse keys
// that are made now. A key that is ahead by more than DedupeAge is treated as
// one without a time.
func (c *Config) Drop(now, stored time.Time, id sharding.CommandID) (remember time.Time, ok bool) {
	limit := now.Add(-c.DedupeAge)
	if !stored.Before(limit) {
		return time.Time{}, false
	}
	t, timed := KeyTime(id)
	if !timed || t.After(stored.Add(c.DedupeAge)) {
		return time.Time{}, true
	}
	return t, t.Before(limit)
}
