package bounded

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
)

// ErrFull is wrapped by errors about a body that exceeds a [Budget]. Nothing was done
// with the request: it may be sent again.
var ErrFull = errors.New("too many bytes of requests are held")

// Budget bounds the bytes of all bodies that are held at a time, and of their decoded messages. A
// body counts with the memory that is taken for it. That grows with the bytes that have arrived
// ([ReadAll]): an announced length alone uses nothing. Create one with [NewBudget].
type Budget struct {
	limit int64
	used  atomic.Int64

	tight      func() bool  // memory is short
	collecting sync.Mutex   // held while garbage is collected
	garbage    atomic.Int64 // bytes of bodies that were released since garbage was collected for them
}

// NewBudget returns a budget of limit bytes. tight reports whether the process has so much memory that as much again
// would be too much; nil: it never has.
func NewBudget(limit int64, tight func() bool) *Budget {
	if tight == nil {
		tight = func() bool { return false }
	}
	return &Budget{limit: limit, tight: tight}
}

// short is the largest length of a body that is not counted as garbage: usual commands are shorter, and the runtime
// collects what they leave.
const short = 64 << 10

// collect has the garbage of earlier bodies collected if memory is short. The runtime alone comes too late: while it marks,
// on a machine that has much else to do, each client that is refused leaves some megabytes more.
func (b *Budget) collect() {
	b.collecting.Lock()
	defer b.collecting.Unlock()
	garbage := b.garbage.Load()
	if garbage < b.limit/2 {
		return // another goroutine has run a collection
	}
	if b.tight() {
		runtime.GC()
	}
	b.garbage.Add(-garbage)
}

// Used returns the number of bytes that are held.
func (b *Budget) Used() int64 { return b.used.Load() }

// Body returns a body that counts the bytes read from r.
func (b *Budget) Body(r io.ReadCloser) Body { return Body{ReadCloser: r, budget: b} }

// Body is a request body whose bytes count in a [Budget] until Release.
type Body struct {
	io.ReadCloser
	budget *Budget
	held   int64
	room   int64 // of held: the part of a buffer into which nothing was read yet
}

// Read reads what has arrived. It fails with [ErrFull] if that exceeds the budget. Bytes that fit
// into a counted buffer ([Body.Grow]) are not counted again.
func (b *Body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	counted := min(b.room, int64(n))
	b.room -= counted
	if !b.Take(int64(n) - counted) {
		return 0, ErrFull
	}
	return n, err
}

// Grow counts a buffer of to bytes in place of the one of from bytes that is full. It reports whether
// both fit into the budget, because both are in memory while the one is copied to the other. If no other body is
// held, they always do.
func (b *Body) Grow(from, to int64) bool {
	if !b.take(to, max(b.budget.limit, b.held+to)) {
		return false
	}
	b.budget.used.Add(-from)
	if from > short {
		b.budget.garbage.Add(from)
	}
	b.held -= from
	b.room = to - from
	return true
}

// Take counts n more bytes, such as those that a compressed body expands to. It
// reports whether they fit into the budget.
func (b *Body) Take(n int64) bool { return b.take(n, b.budget.limit) }

// TakeDecoded counts the n bytes that the body is decoded to. It reports whether they fit into the
// budget. If no other body is held, they always do: otherwise a request within all limits could never
// be served.
func (b *Body) TakeDecoded(n int64) bool {
	return b.take(n, max(b.budget.limit, b.held+n))
}

func (b *Body) take(n, limit int64) bool {
	if n == 0 {
		return true
	}
	if !b.budget.take(n, limit) {
		return false
	}
	b.held += n
	return true
}

func (b *Budget) take(n, limit int64) bool {
	if b.used.Load()+b.garbage.Load() > b.limit && b.garbage.Load() >= b.limit/2 {
		b.collect()
	}
	for {
		used := b.used.Load()
		if used+n > limit {
			return false
		}
		if b.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// Release returns all bytes to the budget. It must be called once, when the request
// is over.
func (b *Body) Release() {
	b.budget.used.Add(-b.held)
	if b.held > short {
		b.budget.garbage.Add(b.held)
	}
	b.held, b.room = 0, 0
}

// taker is a body that can count the buffer that it is read into, its expanded bytes, and those that it is decoded to.
type taker interface {
	Take(n int64) bool
	TakeDecoded(n int64) bool
	Grow(from, to int64) bool
}

// firstRead is the memory for a body before any of it has arrived.
const firstRead = 4 << 10

// ReadAll reads a body of the announced length, or of an unknown one if announced is not positive. Its memory grows with
// what arrives, whatever is announced, and counts in the body's [Budget], if it has one. The error wraps
// [ErrTooLarge] if the body has more than most bytes, and [ErrFull] if the budget is used up.
//
// [io.ReadAll] takes up to five times the length for its buffers, but the budget would count it once.
func ReadAll(r io.Reader, announced, most int64) ([]byte, error) {
	if announced > most {
		return nil, tooLong(most)
	}
	if announced <= 0 {
		announced = most + 1 // one more shows that it is too long
	}
	t, counts := r.(taker)
	var b []byte
	var err error
	for err == nil && int64(len(b)) < announced {
		if len(b) == cap(b) {
			next := min(announced, max(firstRead, 2*int64(cap(b))))
			if counts && !t.Grow(int64(cap(b)), next) {
				return nil, ErrFull
			}
			grown := make([]byte, len(b), next)
			copy(grown, b)
			b = grown
		}
		var n int
		n, err = r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
	}
	if int64(len(b)) > most {
		return nil, tooLong(most)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b, nil
}

func tooLong(most int64) error { return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, most) }
