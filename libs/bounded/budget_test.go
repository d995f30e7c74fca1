package bounded_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/roost-cluster/roost/libs/bounded"
)

// drops is a body that arrives in pieces. It counts the memory that is there to read it into.
type drops struct {
	budget                *bounded.Budget
	left, arrived         int64
	buffer, least, counts int64 // the buffer at the last read; the greatest lag of the budget
}

func (d *drops) Read(p []byte) (int, error) {
	d.buffer = d.arrived + int64(len(p))
	d.counts = d.budget.Used()
	d.least = min(d.least, d.counts-d.buffer)
	n := min(int64(len(p)), d.left, 10_000)
	d.left -= n
	d.arrived += n
	if d.left == 0 {
		return int(n), io.EOF
	}
	return int(n), nil
}

func (*drops) Close() error { return nil }

// measured is a body as a node gives it to handlers.
type measured struct{ bounded.Body }

// TestBuffersCount: what a body is read into counts, and not only what has arrived. Otherwise many bodies at once take a
// multiple of the budget.
func TestBuffersCount(t *testing.T) {
	const length = 4 << 20
	h := bounded.Limits{Body: length}.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, announced := range []int64{length, -1} {
		d := &drops{budget: bounded.NewBudget(128<<20, nil), left: length}
		body := &measured{d.budget.Body(d)}
		r := httptest.NewRequest(http.MethodPost, "/twirp/roost.control.v1.Control/Call", body)
		r.ContentLength = announced
		r.Header.Set("Content-Type", "other/type") // nothing decodes it
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		h.ServeHTTP(httptest.NewRecorder(), r)
		runtime.ReadMemStats(&after)
		if d.least < 0 {
			t.Errorf("announced %d: the budget knows %d bytes less than the body takes", announced, -d.least)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > length*5/2 {
			t.Errorf("announced %d: a body of %d bytes takes %d in all", announced, length, took)
		}
		if d.arrived != length {
			t.Errorf("announced %d: %d bytes are read", announced, d.arrived)
		}
		body.Release()
		if d.budget.Used() != 0 {
			t.Errorf("%d bytes are left", d.budget.Used())
		}
	}
}

// TestOneBodyFits: the longest body fits into a budget of its length, although it is copied while it grows.
func TestOneBodyFits(t *testing.T) {
	b := bounded.NewBudget(1<<20, nil)
	one, other := &measured{b.Body(io.NopCloser(strings.NewReader(strings.Repeat("x", 1<<20))))}, &measured{b.Body(io.NopCloser(strings.NewReader("y")))}
	if text, err := bounded.ReadAll(one, 1<<20, 1<<20); err != nil || len(text) != 1<<20 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if _, err := bounded.ReadAll(other, 1, 1<<20); !errors.Is(err, bounded.ErrFull) {
		t.Errorf("in addition: %v", err)
	}
	one.Release()
	if text, err := bounded.ReadAll(other, 1, 1<<20); err != nil || string(text) != "y" {
		t.Errorf("afterwards: %q, %v", text, err)
	}
	if _, err := bounded.ReadAll(strings.NewReader("xyz"), -1, 2); !errors.Is(err, bounded.ErrTooLarge) {
		t.Errorf("a longer body: %v", err)
	}
}

// TestWhatIsRefusedTakesNothing: a body that does not fit never keeps out one that does,
// not even for a moment.
func TestWhatIsRefusedTakesNothing(t *testing.T) {
	b := bounded.NewBudget(100, nil)
	var large sync.WaitGroup
	end := make(chan struct{})
	for range 4 {
		large.Go(func() {
			body := b.Body(io.NopCloser(strings.NewReader("")))
			for {
				select {
				case <-end:
					return
				default:
				}
				if body.Take(101) {
					t.Error("a body above the budget is accepted")
				}
			}
		})
	}
	small := b.Body(io.NopCloser(strings.NewReader("")))
	for range 1_000_000 {
		if !small.Take(1) {
			t.Error("a byte within the budget is refused")
			break
		}
		small.Release()
	}
	close(end)
	large.Wait()
	if b.Used() != 0 {
		t.Errorf("%d bytes are left", b.Used())
	}
}

// TestGarbageIsCollected: when memory is short, the garbage of bodies is collected before more of them than the budget
// allows are in memory. Otherwise, and after short bodies, nothing is collected.
func TestGarbageIsCollected(t *testing.T) {
	const limit, long, one = 8 << 20, 1 << 20, 1 << 10
	for _, c := range []struct {
		name   string
		tight  bool
		length int
		wanted bool
	}{{"long bodies", true, long, true}, {"enough memory", false, long, false}, {"short bodies", true, one, false}} {
		asked := 0
		b := bounded.NewBudget(limit, func() bool { asked++; return c.tight })
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 3 * limit / c.length {
			body := &measured{b.Body(io.NopCloser(strings.NewReader(strings.Repeat("x", c.length))))}
			if _, err := bounded.ReadAll(body, int64(c.length), int64(c.length)); err != nil {
				t.Fatal(err)
			}
			body.Release()
		}
		runtime.ReadMemStats(&after)
		if forced := after.NumForcedGC - before.NumForcedGC; c.wanted && forced < 2 || !c.wanted && forced > 0 || forced > 10 {
			t.Errorf("%s: garbage was collected %d times (asked %d times whether memory is short)", c.name, forced, asked)
		}
	}
}
