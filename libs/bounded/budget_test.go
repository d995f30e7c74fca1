package bounded_test

import (
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/roost-cluster/roost/libs/bounded"
)

// TestWhatIsRefusedTakesNothing: a body for which there is no room does not keep out
// another one for which there is, not even for a moment.
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
					t.Error("there is no room for as much")
				}
			}
		})
	}
	small := b.Body(io.NopCloser(strings.NewReader("")))
	for range 1_000_000 {
		if !small.Take(1) {
			t.Error("there is room for one byte")
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
