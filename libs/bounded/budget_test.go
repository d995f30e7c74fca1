package bounded_test

import (
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/roost-cluster/roost/libs/bounded"
)

// TestWhatIsRefusedTakesNothing: a body that does not fit never keeps out one that does,
// not even for a moment.
func TestWhatIsRefusedTakesNothing(t *testing.T) {
	b := bounded.NewBudget(100)
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
