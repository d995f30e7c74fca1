package passivation

// Bound lowers the limit of a policy while the process uses too much memory, and raises it
// again afterwards. Each policy of a process has a Bound of its own, and all of them have the
// same bytes. So every policy gives up the same part of its entities.
type Bound struct {
	bytes     uint64
	limit     int    // the configured limit
	effective int    // the limit that the policy is to have
	cycle     uint64 // the number of the last garbage collection, when effective changed
}

// NewBound returns the bound of a policy with the limit. bytes is the live heap, in bytes,
// above which the limit is lowered; 0: never.
func NewBound(bytes uint64, limit int) *Bound {
	return &Bound{bytes: bytes, limit: limit, effective: limit}
}

const (
	// boundTarget is the part of the bytes that the heap should have after the limit was
	// lowered. It is below 1, so that a little growth does not lower the limit again.
	boundTarget = 0.9
	// boundLow is the part of the bytes below which the limit is raised. It is below
	// boundTarget, so that a limit which was just lowered is not raised again.
	boundLow = 0.7
	// boundGrowth is the factor that raises the limit. Even if the whole heap consists of entities,
	// it then stays below boundTarget: 0.7 * 1.25 < 0.9.
	boundGrowth = 1.25
	// boundCycles is the number of garbage collections that must end between two changes. One is
	// not enough: it may have begun before the entities were gone.
	boundCycles = 2
)

// Observe returns the limit that the policy is to have. cycle is the number of the last garbage
// collection, live the bytes that were live after it, and active the number of active entities
// of the policy.
func (b *Bound) Observe(cycle, live uint64, active int) int {
	if b.bytes == 0 || cycle < b.cycle+boundCycles {
		return b.effective
	}
	before := b.effective
	switch {
	case live > b.bytes:
		// A limit above the number of active entities would save nothing, so it is lowered from
		// that number on. At most half of the entities go at a time, because the heap has other
		// things than entities, too.
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

// Limit returns the limit that the policy is to have.
func (b *Bound) Limit() int { return b.effective }

// SetLimit changes the configured limit; it must be above 0. If the Bound has lowered the limit,
// and the configured one is now higher, the limit stays lowered. SetLimit returns the limit
// that the policy is to have.
func (b *Bound) SetLimit(limit int) int {
	if b.effective == b.limit || b.effective > limit {
		b.effective = limit
	}
	b.limit = limit
	return b.effective
}
