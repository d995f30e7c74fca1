package sharding

import (
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

// ShardRule selects the text of an entity's id that is hashed to find the entity's shard: the shard
// key. Entities of one type with the same shard key are in the same shard. There are only these
// rules, and a rule is data: gateways, coordinators and tools compute shards too, and do not have
// the code of a type. The zero ShardRule takes the whole id.
type ShardRule struct {
	// Separator divides an id into parts, from its beginning; empty: the rule takes the whole id.
	Separator string
	// Part is the index of the part that is the shard key, from 0. Part 0 is the prefix up to
	// the first separator.
	Part int
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

// String is "the whole id", "the prefix up to "/"" or "part 1 at "-"".
func (r ShardRule) String() string {
	switch {
	case r == ShardRule{}:
		return "the whole id"
	case r.Part == 0:
		return fmt.Sprintf("the prefix up to %q", r.Separator)
	}
	return fmt.Sprintf("part %d at %q", r.Part, r.Separator)
}

// Check returns an error for a rule that cannot be declared.
func (r ShardRule) Check() error {
	switch {
	case r == ShardRule{}:
		return nil
	case r.Part < 0 || r.Part > MaxPart:
		return fmt.Errorf("%w: the shard rule takes part %d of an id, must be 0 to %d", ErrBadName, r.Part, MaxPart)
	}
	return CheckID("separator of the shard rule", r.Separator, MaxSeparatorLen)
}

// ShardOf returns the shard of an entity of the type: the hash of the id's shard key, modulo the
// number of shards, which must not be 0. Nothing else computes a shard from an id.
func (t *TypeDesc) ShardOf(id EntityID) ShardID {
	return ShardID{Type: t.Type, Index: uint32(EntityID(t.Rule.Key(id)).Hash() % uint64(t.Shards))}
}
