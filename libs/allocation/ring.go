package allocation

import (
	"cmp"
	"math/bits"
	"slices"
	"sort"
)

// The ring of consistent hashing is a circle of 2^32 points. Each region has several of
// them, its virtual nodes, and a key belongs to the region of the first point at or after
// the key's own. The hash is the Murmur variant that Akka's router and sharding use, so that
// the same names and keys give the same ring. It is not MurmurHash3 as published: the
// constants that a value is multiplied with change from value to value.
const (
	ringSeed     = 0x971e137b // mixed into the seed of each hash
	ringText     = 0xf7ca7fd2 // times the length of a text: its seed
	ringMix      = 0x52dce729
	ringFactorA  = 0x95543787 // the factors of the first value
	ringFactorB  = 0x2ad7eb25
	ringStepA    = 0x7b7d159c // from one factor to the next: times 5, plus this
	ringStepB    = 0x6bce6396
	ringFinishA  = 0x85ebca6b
	ringFinishB  = 0xc2b2ae35
	ringRotation = 11
)

// mixIn extends a hash by a value.
func mixIn(hash, value, a, b uint32) uint32 {
	return (hash^bits.RotateLeft32(value*a, ringRotation)*b)*3 + ringMix
}

// finish distributes the bits of a hash.
func finish(hash uint32) uint32 {
	hash ^= hash >> 16
	hash *= ringFinishA
	hash ^= hash >> 13
	hash *= ringFinishB
	return hash ^ hash>>16
}

// hashText returns the point of a text. It mixes in two bytes at a time.
func hashText(text string) uint32 {
	hash := uint32(len(text))*ringText ^ ringSeed
	a, b := uint32(ringFactorA), uint32(ringFactorB)
	for i := 0; i < len(text); i += 2 {
		value := uint32(text[i])
		if i+1 < len(text) {
			value = value<<16 + uint32(text[i+1])
		}
		hash = mixIn(hash, value, a, b)
		a, b = a*5+ringStepA, b*5+ringStepB
	}
	return finish(hash)
}

// virtualNode returns a point of the region whose name has the hash; n counts from 1.
func virtualNode(hash uint32, n int) uint32 {
	return finish(mixIn(hash^ringSeed, uint32(n), ringFactorA, ringFactorB))
}

// distance returns how far behind a key the first virtual node of a region is.
func distance(r *Region, key uint32, virtualNodes int) uint32 {
	hash := hashText(r.label())
	nearest := virtualNode(hash, 1) - key
	for n := 2; n <= virtualNodes; n++ {
		nearest = min(nearest, virtualNode(hash, n)-key)
	}
	return nearest
}

// ringPoint is a virtual node of the region with an index.
type ringPoint struct {
	at     uint32
	region int
}

// newRing returns the virtual nodes of all regions in order.
func newRing(regions []Region, virtualNodes int) []ringPoint {
	ring := make([]ringPoint, 0, len(regions)*virtualNodes)
	for i := range regions {
		hash := hashText(regions[i].label())
		for n := 1; n <= virtualNodes; n++ {
			ring = append(ring, ringPoint{virtualNode(hash, n), i})
		}
	}
	slices.SortFunc(ring, func(p, q ringPoint) int { return cmp.Or(cmp.Compare(p.at, q.at), cmp.Compare(p.region, q.region)) })
	return ring
}

// walk returns the first region at or after a key that is accepted, or -1.
func walk(ring []ringPoint, key uint32, accept func(region int) bool) int {
	start := sort.Search(len(ring), func(i int) bool { return ring[i].at >= key })
	for n := range ring {
		if p := ring[(start+n)%len(ring)]; accept(p.region) {
			return p.region
		}
	}
	return -1
}
