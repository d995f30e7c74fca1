package gossip

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/vclock"
)

// A state is compared and sent in parts, so that nodes whose states differ in a
// few entries need not send all the others. Every node belongs to a part by its
// uid. The part contains the member itself, its observations, its
// tombstone and its clock entry. The node that asks chooses how many parts two
// nodes compare; the sum of a part in a coarser division is the sum of its
// neighbours in a finer one.

// maxParts is the finest division: sums of 4 bytes make 1 KiB.
const maxParts = 256

// membersPerPart balances the sums of parts, 4 bytes each, with the data sent for a part in which one entry
// differs, some 60 bytes for each member.
const membersPerPart = 8

// partsFor is the division for a number of members: a power of two.
func partsFor(members int) int {
	n := 1
	for n < maxParts && n*membersPerPart < members {
		n *= 2
	}
	return n
}

// partOf is the part of a node in the finest division. Uids are drawn at random.
func partOf(u sharding.NodeUID) int { return int(u >> 56) }

// sums are the hashes of a state: for each part of the finest division the sum of
// the hashes of its entries. A sum does not depend on their order, and updating it
// costs only as much as the entries that change.
type sums [maxParts]uint64

// digest is the hash of everything but the seen set: equal digests mean equal
// states.
func (p *sums) digest(c Founding, e Era) uint64 {
	b := make([]byte, 0, 8*maxParts+40)
	for _, n := range [...]uint64{uint64(c.Founded), uint64(c.Founder), e.Number, uint64(e.By), uint64(e.Before)} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
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

// partSums are the sums of all parts of a division, shortened as they are sent.
func (p *sums) partSums(parts int) []uint32 {
	out := make([]uint32, parts)
	for i := range out {
		out[i] = uint32(p.part(i, parts) >> 32)
	}
	return out
}

// update applies the change from one state to the next.
func (p *sums) update(old, now *State) {
	differences(old.Members, now.Members, memberOrder, (*Member).equal, func(was, is *Member) {
		if was != nil {
			p[partOf(was.Node.UID)] -= was.hash()
		}
		if is != nil {
			p[partOf(is.Node.UID)] += is.hash()
		}
	})
	differences(old.Reach, now.Reach, observerOrder, sameObserver, func(was, is *Observer) {
		if was != nil {
			p[partOf(was.Node.UID)] -= was.hash()
		}
		if is != nil {
			p[partOf(is.Node.UID)] += is.hash()
		}
	})
	differences(old.Tombstones, now.Tombstones, tombstoneOrder, nil, func(was, is Tombstone) {
		p[partOf(was.Node.UID)] -= was.hash()
		p[partOf(is.Node.UID)] += is.hash()
	})
	differences(old.Version, now.Version, clockOrder, nil, func(was, is clockEntry) {
		p[partOf(was.Node)] -= hashOfEntry(was)
		p[partOf(is.Node)] += hashOfEntry(is)
	})
}

func sameObserver(a, b *Observer) bool {
	return a.Version == b.Version && (identical(a.Verdicts, b.Verdicts) || slices.Equal(a.Verdicts, b.Verdicts))
}

func (s *State) sums() sums {
	var p sums
	p.update(&State{}, s)
	return p
}

func (s *State) digest() uint64 {
	p := s.sums()
	return p.digest(s.Cluster, s.Era)
}

type clockEntry = vclock.Entry[sharding.NodeUID]

func clockOrder(a, b clockEntry) int {
	switch {
	case a.Node < b.Node:
		return -1
	case a.Node > b.Node:
		return 1
	}
	return 0
}

func higherEntry(a, b clockEntry) clockEntry {
	if a.Count >= b.Count {
		return a
	}
	return b
}

// Entries of different kinds never hash alike: each begins with a byte of its
// own.
const (
	ofMember byte = iota + 1
	ofObserver
	ofTombstone
	ofEntry
)

func (m *Member) hash() uint64 {
	var buf [256]byte
	return xxhash.Sum64(appendMember(append(buf[:0], ofMember), m))
}

func (r *Observer) hash() uint64 {
	var buf [256]byte
	return xxhash.Sum64(appendObserver(append(buf[:0], ofObserver), r))
}

// The zero tombstone and the zero entry stand for none, and hash to 0.
func (t Tombstone) hash() uint64 {
	if t == (Tombstone{}) {
		return 0
	}
	var buf [128]byte
	return xxhash.Sum64(appendTombstone(append(buf[:0], ofTombstone), t))
}

func hashOfEntry(e clockEntry) uint64 {
	if e == (clockEntry{}) {
		return 0
	}
	var buf [17]byte
	b := binary.LittleEndian.AppendUint64(append(buf[:0], ofEntry), uint64(e.Node))
	return xxhash.Sum64(binary.LittleEndian.AppendUint64(b, e.Count))
}

// differences calls f for every element that differs between two sorted lists;
// the zero element stands for none. Two elements do not differ if they are equal,
// or if same, unless it is nil, returns true.
func differences[S ~[]T, T comparable](old, now S, order func(a, b T) int, same func(a, b T) bool, f func(was, is T)) {
	if identical(old, now) {
		return
	}
	var none T
	i, j := 0, 0
	for i < len(old) || j < len(now) {
		c := 0
		switch {
		case i == len(old):
			c = 1
		case j == len(now):
			c = -1
		case old[i] == now[j]:
			i, j = i+1, j+1
			continue
		default:
			c = order(old[i], now[j])
		}
		switch {
		case c < 0:
			f(old[i], none)
			i++
		case c > 0:
			f(none, now[j])
			j++
		default:
			if same == nil || !same(old[i], now[j]) {
				f(old[i], now[j])
			}
			i, j = i+1, j+1
		}
	}
}

// identical reports whether two lists share the same memory.
func identical[S ~[]T, T any](a, b S) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// fragment returns the content of some parts of a division, as a state that can be merged. Its verdicts may
// be about nodes of other parts.
func (s *State) fragment(parts int, which Bits) State {
	return State{
		Cluster:    s.Cluster,
		Era:        s.Era,
		Members:    within(s.Members, parts, which, func(m *Member) sharding.NodeUID { return m.Node.UID }),
		Reach:      within(s.Reach, parts, which, func(r *Observer) sharding.NodeUID { return r.Node.UID }),
		Tombstones: within(s.Tombstones, parts, which, func(t Tombstone) sharding.NodeUID { return t.Node.UID }),
		Version:    within(s.Version, parts, which, func(e clockEntry) sharding.NodeUID { return e.Node }),
	}
}

// within returns the elements of a list that are in some parts of a division: one range for each run of
// neighbouring parts.
func within[S ~[]T, T any](list S, parts int, which Bits, uid func(T) sharding.NodeUID) S {
	at := 0
	begin := func(part int) int { // the place in the list at which a part begins
		at, _ = placeIn(list, at, part*(maxParts/parts), func(x T, first int) int { return cmp.Compare(partOf(uid(x)), first) })
		return at
	}
	var out S
	for i := 0; i < parts && len(list) > 0; i++ {
		if !which.Has(i) {
			continue
		}
		from := i
		for i++; which.Has(i); i++ {
		}
		stretch := list[begin(from):begin(i)]
		if out == nil {
			out = slices.Clip(stretch)
		} else {
			out = append(out, stretch...)
		}
	}
	return out
}

// Bits is a set of small numbers, eight to a byte, the lowest in the lowest
// bit. It is a value: methods return a new one. Numbers beyond its end are not
// in it.
type Bits []byte

// Has reports whether a number is in the set.
func (b Bits) Has(i int) bool { return i>>3 < len(b) && b[i>>3]&(1<<(i&7)) != 0 }

// count returns the size of the set.
func (b Bits) count() int {
	n := 0
	for _, x := range b {
		n += bits.OnesCount8(x)
	}
	return n
}

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

// Includes reports whether everything in o is in b.
func (b Bits) Includes(o Bits) bool {
	for i := range o {
		if i >= len(b) && o[i] != 0 || i < len(b) && o[i]&^b[i] != 0 {
			return false
		}
	}
	return true
}

// Below reports whether all numbers in the set are below n.
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
