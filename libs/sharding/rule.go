package sharding

import (
	"errors"
	"fmt"
	"strings"
)

// Limits of shard rules.
const (
	// MaxSeparatorLen is the longest separator of a [ShardRule], in bytes.
	MaxSeparatorLen = 16
	// MaxPart is the largest index of a part: an id of MaxIDLen separators has one part more.
	MaxPart = MaxIDLen
)

// ShardRule finds the shard of an entity: it selects a text of the id, the shard key, and turns that into a
// number. Entities of one type with the same shard key are in the same shard. There are only these
// rules, and a rule is data: gateways, coordinators and tools compute shards too, and do not have
// the code of a type. The zero ShardRule hashes the whole id.
type ShardRule struct {
	// Separator divides an id into parts, from its beginning; empty: the rule takes the whole id.
	Separator string
	// Part is the index of the part that is the shard key, from 0. Part 0 is the prefix up to
	// the first separator.
	Part int
	// Method turns the shard key into the index of a shard.
	Method ShardMethod
}

// ShardMethod turns a shard key into the index of one of n shards.
type ShardMethod uint8

const (
	// ByHash takes the key's xxh64 with seed 0, modulo n.
	ByHash ShardMethod = iota
	// ByNumber takes the decimal number that the key consists of, modulo n.
	ByNumber
	// ByMurmur2 takes the key's murmur2 as Kafka's Java client computes it, without its sign bit, modulo n.
	ByMurmur2
	shardMethods
)

// String is "hash", "number" or "murmur2".
func (m ShardMethod) String() string {
	switch m {
	case ByHash:
		return "hash"
	case ByNumber:
		return "number"
	case ByMurmur2:
		return "murmur2"
	}
	return fmt.Sprintf("method %d", uint8(m))
}

// Key returns the shard key of an id. An id that does not have the part is hashed whole. That is
// as safe as any other choice: the key depends on nothing but the id and the rule, so everybody
// finds the same shard, and an id does not change. Such an id is only not together with others.
// A part may be empty: all ids in which it is empty are in one shard.
func (r ShardRule) Key(id EntityID) string {
	if r.Separator == "" {
		return string(id)
	}
	rest := string(id)
	for range r.Part {
		_, after, found := strings.Cut(rest, r.Separator)
		if !found {
			return string(id)
		}
		rest = after
	}
	key, _, _ := strings.Cut(rest, r.Separator)
	return key
}

// String is such as "the whole id", "the prefix up to "/"" or "part 1 at "-", as a number".
func (r ShardRule) String() string {
	of := "the whole id"
	switch {
	case r.Separator == "":
	case r.Part == 0:
		of = fmt.Sprintf("the prefix up to %q", r.Separator)
	default:
		of = fmt.Sprintf("part %d at %q", r.Part, r.Separator)
	}
	switch r.Method {
	case ByHash:
		return of
	case ByNumber:
		return of + ", as a number"
	}
	return of + ", by " + r.Method.String()
}

// Check returns an error for a rule that cannot be declared.
func (r ShardRule) Check() error {
	switch {
	case r.Method >= shardMethods:
		return fmt.Errorf("%w: the shard rule has %s, which this program does not know; upgrade it", ErrBadName, r.Method)
	case r.Separator == "" && r.Part == 0:
		return nil
	case r.Part < 0 || r.Part > MaxPart:
		return fmt.Errorf("%w: the shard rule takes part %d of an id, must be 0 to %d", ErrBadName, r.Part, MaxPart)
	}
	return CheckID("separator of the shard rule", r.Separator, MaxSeparatorLen)
}

// ShardOf returns the shard of an entity of the type: the number that the type's rule makes of the id's shard
// key, modulo the number of shards, which must not be 0. Nothing else computes a shard from an id.
func (t *TypeDesc) ShardOf(id EntityID) ShardID {
	return ShardID{Type: t.Type, Index: t.Rule.index(id, t.Shards)}
}

func (r ShardRule) index(id EntityID, shards uint32) uint32 {
	key := r.Key(id)
	switch r.Method {
	case ByNumber:
		if n, err := remainder(key, shards); err == nil {
			return n
		}
		key = string(id) // hashed whole, as an id without the part is
	case ByMurmur2:
		return (murmur2(key) & 0x7fffffff) % shards
	}
	return uint32(EntityID(key).Hash() % uint64(shards))
}

var errNoNumber = errors.New("not a decimal number")

// remainder returns the decimal number s modulo n, however long s is.
func remainder(s string, n uint32) (uint32, error) {
	if s == "" {
		return 0, errNoNumber
	}
	var rest uint64
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, errNoNumber
		}
		rest = (rest*10 + uint64(s[i]-'0')) % uint64(n)
	}
	return uint32(rest), nil
}

// murmur2 is MurmurHash2 (Austin Appleby, 2008) in 32 bits with the seed of Kafka's Java client.
func murmur2(s string) uint32 {
	const (
		seed  = 0x9747b28c
		mix   = 0x5bd1e995
		shift = 24
	)
	h := seed ^ uint32(len(s))
	for ; len(s) >= 4; s = s[4:] {
		k := uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
		k *= mix
		k ^= k >> shift
		h = h*mix ^ k*mix
	}
	if len(s) > 0 {
		for i := len(s) - 1; i >= 0; i-- {
			h ^= uint32(s[i]) << (8 * i)
		}
		h *= mix
	}
	h ^= h >> 13
	h *= mix
	return h ^ h>>15
}
