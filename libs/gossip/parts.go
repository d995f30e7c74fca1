package gossip

import (
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/vclock"
)

// A state is compared and sent in parts, so that nodes whose states differ in
// a few records need not send all the others. A part is what belongs to the
// nodes whose uid falls into it: their records as members, what they observe,
// their tombstones, their clock entries. Two nodes compare the sums of as many
// parts as suits the one with the question; a part of a coarser division is
// the sum of neighbours of a finer one.

// maxParts is the finest division: sums of 4 bytes make 1 KiB.
const maxParts = 256

// membersPerPart balances the sums of parts, 4 bytes each, with what is sent
// for a part in which one record differs, some 60 bytes for each member.
const membersPerPart = 8

// partsFor is the division for a number of members: a power of two.
func partsFor(members int) int {
	n := 1
	for n < maxParts && n*membersPerPart < members {
		n *= 2
	}
	return n
}

// partOf is the part of a node in the finest division. Founders may count
// their uids, so these are mixed first.
func partOf(u sharding.NodeUID) int { return int(uint64(u) * 0x9e3779b97f4a7c15 >> 56) }

// sums are the hashes of a state: for each part of the finest division the sum
// of the hashes of its records. Sums do not depend on the order of records and
// follow changes at the cost of the records that change.
type sums [maxParts]uint64

// digest is the hash of everything but the seen set: equal digests mean equal
// states.
func (p *sums) digest(c ClusterID) uint64 {
	b := make([]byte, 0, 8*maxParts+16)
	b = binary.LittleEndian.AppendUint64(b, uint64(c.Founded))
	b = binary.LittleEndian.AppendUint64(b, uint64(c.Founder))
	for _, sum := range p {
		b = binary.LittleEndian.AppendUint64(b, sum)
	}
	return xxhash.Sum64(b)
}

// part is the sum of one part of a division.
func (p *sums) part(i, parts int) uint64 {
	var sum uint64
	for _, s := range p[i*maxParts/parts : (i+1)*maxParts/parts] {
		sum += s
	}
	return sum
}

// short are the sums of all parts of a division as they are told to others.
func (p *sums) short(parts int) []uint32 {
	out := make([]uint32, parts)
	for i := range out {
		out[i] = uint32(p.part(i, parts) >> 32)
	}
	return out
}

// update follows the change of a state.
func (p *sums) update(old, now *State) {
	differences(old.Members, now.Members, memberOrder, func(a, b *Member) bool { return a.equal(b) }, func(m *Member, sign uint64) {
		p[partOf(m.Node.UID)] += sign * m.hash()
	})
	differences(old.Reach, now.Reach, rowOrder, func(a, b *Row) bool {
		return a.Version == b.Version && (identical(a.Records, b.Records) || slices.Equal(a.Records, b.Records))
	}, func(r *Row, sign uint64) {
		p[partOf(r.Observer.UID)] += sign * r.hash()
	})
	differences(old.Tombstones, now.Tombstones, tombstoneOrder, func(a, b *Tombstone) bool { return *a == *b }, func(t *Tombstone, sign uint64) {
		p[partOf(t.Node.UID)] += sign * t.hash()
	})
	differences(old.Version, now.Version, clockOrder, func(a, b *clockEntry) bool { return *a == *b }, func(e *clockEntry, sign uint64) {
		p[partOf(e.Node)] += sign * hashOfEntry(e)
	})
}

func (s *State) sums() sums {
	var p sums
	p.update(&State{}, s)
	return p
}

func (s *State) digest() uint64 {
	p := s.sums()
	return p.digest(s.Cluster)
}

type clockEntry = vclock.Entry[sharding.NodeUID]

func clockOrder(a, b *clockEntry) int {
	switch {
	case a.Node < b.Node:
		return -1
	case a.Node > b.Node:
		return 1
	}
	return 0
}

// Records of different kinds never hash alike: each begins with a byte of its
// own.
const (
	ofMember byte = iota + 1
	ofRow
	ofTombstone
	ofEntry
)

func (m *Member) hash() uint64 {
	var buf [256]byte
	return xxhash.Sum64(appendMember(append(buf[:0], ofMember), m))
}

func (r *Row) hash() uint64 {
	var buf [256]byte
	return xxhash.Sum64(appendRow(append(buf[:0], ofRow), r))
}

func (t *Tombstone) hash() uint64 {
	var buf [128]byte
	return xxhash.Sum64(appendTombstone(append(buf[:0], ofTombstone), t, 0))
}

func hashOfEntry(e *clockEntry) uint64 {
	var buf [17]byte
	b := binary.LittleEndian.AppendUint64(append(buf[:0], ofEntry), uint64(e.Node))
	return xxhash.Sum64(binary.LittleEndian.AppendUint64(b, e.Count))
}

// differences calls f with sign 1 for what the sorted list now has and old has
// not, and with sign -1 the other way round. Lists that share their memory are
// equal.
func differences[T any](old, now []T, order func(a, b *T) int, same func(a, b *T) bool, f func(x *T, sign uint64)) {
	if identical(old, now) {
		return
	}
	const minus = ^uint64(0)
	for len(old) > 0 || len(now) > 0 {
		c := 0
		switch {
		case len(old) == 0:
			c = 1
		case len(now) == 0:
			c = -1
		default:
			c = order(&old[0], &now[0])
		}
		switch {
		case c < 0:
			f(&old[0], minus)
			old = old[1:]
		case c > 0:
			f(&now[0], 1)
			now = now[1:]
		default:
			if !same(&old[0], &now[0]) {
				f(&old[0], minus)
				f(&now[0], 1)
			}
			old, now = old[1:], now[1:]
		}
	}
}

// identical tells whether two lists are the same memory.
func identical[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// fragment is what a state holds in some parts of a division: a state by
// itself, to be joined. Whom its rows name may be in other parts.
func (s *State) fragment(parts int, which Bits) State {
	shift := maxParts / parts
	in := func(u sharding.NodeUID) bool { return which.Has(partOf(u) / shift) }
	return State{
		Cluster:    s.Cluster,
		Members:    within(s.Members, func(m *Member) bool { return in(m.Node.UID) }),
		Reach:      within(s.Reach, func(r *Row) bool { return in(r.Observer.UID) }),
		Tombstones: within(s.Tombstones, func(t *Tombstone) bool { return in(t.Node.UID) }),
		Version:    within(s.Version, func(e *clockEntry) bool { return in(e.Node) }),
	}
}

// within is the part of a list that is in; the list itself if all of it is.
func within[S ~[]T, T any](list S, in func(*T) bool) S {
	n := 0
	for i := range list {
		if in(&list[i]) {
			n++
		}
	}
	if n == len(list) {
		return list
	}
	out := make(S, 0, n)
	for i := range list {
		if in(&list[i]) {
			out = append(out, list[i])
		}
	}
	return out
}

// Bits is a set of small numbers, eight to a byte, the lowest in the lowest
// bit. It is a value: methods return a new one. Numbers beyond its end are not
// in it.
type Bits []byte

// Has tells whether a number is in the set.
func (b Bits) Has(i int) bool { return i>>3 < len(b) && b[i>>3]&(1<<(i&7)) != 0 }

// With is the set with one more number.
func (b Bits) With(i int) Bits {
	out := make(Bits, max(len(b), i>>3+1))
	copy(out, b)
	out[i>>3] |= 1 << (i & 7)
	return out
}

// Union is everything in either of two sets.
func (b Bits) Union(o Bits) Bits {
	if len(b) < len(o) {
		b, o = o, b
	}
	out := slices.Clone(b)
	for i := range o {
		out[i] |= o[i]
	}
	return out
}

// Includes tells whether everything in o is in b.
func (b Bits) Includes(o Bits) bool {
	for i := range o {
		if i >= len(b) && o[i] != 0 || i < len(b) && o[i]&^b[i] != 0 {
			return false
		}
	}
	return true
}

// Below tells whether all numbers in the set are below n.
func (b Bits) Below(n int) bool {
	for i := range b {
		if high := n - 8*i; high < 8 && b[i]>>max(high, 0) != 0 {
			return false
		}
	}
	return true
}

// allBits is the set of all numbers below n.
func allBits(n int) Bits {
	out := make(Bits, (n+7)/8)
	for i := range n {
		out[i>>3] |= 1 << (i & 7)
	}
	return out
}
