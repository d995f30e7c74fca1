package passivation

import "math/bits"

// sketch estimates how often entities were touched, also those that are not active: a
// count-min sketch whose counters are halved from time to time, so that it forgets.
type sketch struct {
	table    []uint64 // the rows, one after the other
	rowWords int
	mask     uint32 // of a counter's index in its row
	perWord  uint32 // log2 of the counters of a word
	bits     uint32 // log2 of the bits of a counter
	highest  uint64 // value of a counter
	// rowCounts is, by row, the sum of its counters.
	rowCounts []int
	// count is the number of increments that changed a counter. At resetAt all counters
	// are halved.
	count, resetAt int
	seeds          []uint64
}

// rowSeeds are the seeds of the first rows: large primes.
var rowSeeds = [4]uint64{0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xCBF29CE484222325}

// newSketch returns a sketch for a number of entities.
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

// scramble makes every bit of the result depend on every bit of the hash. The hashes of
// similar ids may be similar.
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

// counter returns the word in which the counter is, and how far it must be shifted.
func (s *sketch) counter(row int, scrambled uint32) (word *uint64, shift uint32) {
	i := s.index(row, scrambled)
	return &s.table[row*s.rowWords+int(i>>s.perWord)], i & (1<<s.perWord - 1) << s.bits
}

// estimate returns about how often an entity with the hash was touched: not less, except
// for the halving and the highest value of a counter.
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
