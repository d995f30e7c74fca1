package passivation

import "math/bits"

// sketch estimates how often entities were touched, whether they are active or not. It is a
// count-min sketch: every entity has one counter in each row, which it shares with others, and
// the lowest of its counters is the estimate. From time to time all counters are halved, so
// that the sketch forgets what was long ago.
type sketch struct {
	table    []uint64 // the words of all rows, row by row; a word has several counters
	rowWords int      // words of a row
	mask     uint32   // the bits that the index of a counter in its row may have
	perWord  uint32   // log2 of the number of counters in a word
	bits     uint32   // log2 of the number of bits of a counter
	highest  uint64   // the highest value of a counter
	// rowCounts is, by row, the sum of its counters.
	rowCounts []int
	// count is the number of increments that changed a counter. When it is resetAt, all
	// counters are halved.
	count, resetAt int
	seeds          []uint64 // of the hash functions of the rows
}

// rowSeeds are the seeds of the first four rows: large primes.
var rowSeeds = [4]uint64{0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xCBF29CE484222325}

// newSketch returns a sketch for a shard in which capacity entities may be active.
func newSketch(f Filter, capacity int) *sketch {
	width := f.WidthMultiplier << bits.Len(uint(max(1, capacity)-1))
	words := max(1, width*f.CounterBits/64)
	s := &sketch{
		table:     make([]uint64, f.Depth*words),
		rowWords:  words,
		mask:      uint32(width - 1),
		perWord:   uint32(bits.TrailingZeros(uint(64 / f.CounterBits))),
		bits:      uint32(bits.TrailingZeros(uint(f.CounterBits))),
		highest:   1<<f.CounterBits - 1,
		rowCounts: make([]int, f.Depth),
		resetAt:   max(1, int(f.ResetMultiplier*float64(capacity))),
		seeds:     rowSeeds[:min(f.Depth, len(rowSeeds)):min(f.Depth, len(rowSeeds))],
	}
	for len(s.seeds) < f.Depth {
		s.seeds = append(s.seeds, s.seeds[len(s.seeds)-1]*6364136223846793005+1442695040888963407|1)
	}
	return s
}

// scramble makes every bit of the result depend on every bit of the hash. It is needed because
// similar ids may have similar hashes.
func scramble(hash uint32) uint32 {
	hash = (hash>>15 ^ hash) * 0xD168AAAD
	hash = (hash>>15 ^ hash) * 0xAF723597
	return hash>>15 ^ hash
}

// index returns the index, in a row, of the counter of a scrambled hash.
func (s *sketch) index(row int, scrambled uint32) uint32 {
	x := (uint64(int64(int32(scrambled))) + s.seeds[row]) * s.seeds[row]
	return uint32(x+x>>32) & s.mask
}

// counter returns the word that has the counter of a hash, and by how many bits the word must
// be shifted right to read it.
func (s *sketch) counter(row int, scrambled uint32) (word *uint64, shift uint32) {
	i := s.index(row, scrambled)
	return &s.table[row*s.rowWords+int(i>>s.perWord)], i & (1<<s.perWord - 1) << s.bits
}

// estimate returns about how often an entity with the hash was touched. It may be too high, as
// other entities share the counters. It is too low only because counters are halved, and have a
// highest value.
func (s *sketch) estimate(hash uint32) uint64 {
	hash = scramble(hash)
	least := s.highest
	for row := range s.rowCounts {
		word, shift := s.counter(row, hash)
		least = min(least, *word>>shift&s.highest)
	}
	return least
}

func (s *sketch) increment(hash uint32) {
	hash = scramble(hash)
	changed := false
	for row := range s.rowCounts {
		word, shift := s.counter(row, hash)
		if full := s.highest << shift; *word&full != full {
			*word += 1 << shift
			s.rowCounts[row]++
			changed = true
		}
	}
	if !changed {
		return
	}
	if s.count++; s.count == s.resetAt {
		s.halve()
	}
}

// halve halves all counters, rounding down.
func (s *sketch) halve() {
	var odd uint64 // the lowest bit of each counter
	for shift := 0; shift < 64; shift += 1 << s.bits {
		odd |= 1 << shift
	}
	most := 0
	for row := range s.rowCounts {
		lost := 0
		words := s.table[row*s.rowWords:][:s.rowWords]
		for i, w := range words {
			lost += bits.OnesCount64(w & odd)
			words[i] = w &^ odd >> 1
		}
		s.rowCounts[row] = (s.rowCounts[row] - lost) / 2
		most = max(most, s.rowCounts[row])
	}
	s.count = most
}
