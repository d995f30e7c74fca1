package bounded

import (
	"errors"
	"io"
	"sync/atomic"
)

// ErrFull is wrapped by errors about a body that exceeds a [Budget]. Nothing was done
// with the request: it may be sent again.
var ErrFull = errors.New("too many bytes of requests are held")

// Budget bounds the bytes of all bodies that are held at a time, and of what they are decoded
// to. A body counts with the bytes that have arrived, not with its Content-Length: an announced
// length alone uses nothing. Create one with [NewBudget].
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget returns a budget of limit bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Used returns the number of bytes that are held.
func (b *Budget) Used() int64 { return b.used.Load() }

// Body returns a body that counts what is read from r.
func (b *Budget) Body(r io.ReadCloser) Body { return Body{ReadCloser: r, budget: b} }

// Body is a request body whose bytes count in a [Budget] until Release.
type Body struct {
	io.ReadCloser
	budget *Budget
	held   int64
}

// Read reads what has arrived. It fails with [ErrFull] if that exceeds the budget.
func (b *Body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if !b.Take(int64(n)) {
		return 0, ErrFull
	}
	return n, err
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
	if !b.budget.take(n, limit) {
		return false
	}
	b.held += n
	return true
}

func (b *Budget) take(n, limit int64) bool {
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
	b.held = 0
}

// taker is a body that can count its expanded bytes, and those that it is decoded to.
type taker interface {
	Take(n int64) bool
	TakeDecoded(n int64) bool
}
