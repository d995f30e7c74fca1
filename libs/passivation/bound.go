package passivation

// Bound lowers the limit of a policy while the process uses too much memory, and raises it
// again afterwards. Policies of one process have a Bound each, with the same bytes: each
// gives up the same part of its entities.
type Bound struct {
	bytes     uint64
	limit     int // the configured one
	effective int
	cycle     uint64 // of the garbage collector, at the last change
}

// NewBound returns the bound of a policy with the limit. bytes is the live heap, in bytes,
// above which the limit is lowered; 0: never.
func NewBound(bytes uint64, limit int) *Bound {
	return &Bound{bytes: bytes, limit: limit, effective: limit}
}

const (
	// boundTarget is the part of the bytes that a lowered limit aims at, so that a little
	// growth does not lower it again.
	boundTarget = 0.9
	// boundLow is the part of the bytes below which the limit is raised. A limit that was
	// lowered to boundTarget stays.
	boundLow = 0.7
	// boundGrowth is the factor by which it is raised. After it the heap is below the bytes
	// even if it consists of entities: 0.7 * 1.25 < 0.9.
	boundGrowth = 1.25
	// boundCycles is how many collections must end from one change to the next. The one
	// that ends first may have begun before the entities were gone.
	boundCycles = 2
)

// Observe returns the limit that the policy is to have, given the number of the last
// collection, the heap that was live after it, and the active entities of the policy.
func (b *Bound) Observe(cycle, live uint64, active int) int {
	if b.bytes == 0 || cycle < b.cycle+boundCycles {
		return b.effective
	}
	before := b.effective
	switch {
	case live > b.bytes:
		// What is not active takes no memory: a limit above the number has no effect. No
		// more than half goes at a time, because not all of the heap is entities.
		part := max(0.5, boundTarget*float64(b.bytes)/float64(live))
		b.effective = max(1, int(part*float64(min(b.effective, active))))
	case float64(live) < boundLow*float64(b.bytes):
		b.effective = min(b.limit, int(boundGrowth*float64(b.effective))+1)
	}
	if b.effective != before {
		b.cycle = cycle
	}
	return b.effective
}

// SetLimit changes the configured limit, above 0. A limit that is lowered now stays lowered
// if the new one is higher. It returns the limit that the policy is to have.
func (b *Bound) SetLimit(limit int) int {
	if b.effective == b.limit || b.effective > limit {
		b.effective = limit
	}
	b.limit = limit
	return b.effective
}
