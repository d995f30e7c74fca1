package sim

import "testing"

// TestCircleClosedAgain: a circle that the same command closes a second time ends by the youngest turn of that time.
func TestCircleClosedAgain(t *testing.T) {
	for _, again := range []bool{true, false} {
		w := newWorld(classic, 1, nil)
		a, b := &ask{asker: &op{}}, &ask{asker: &op{}}
		waits := []*ask{a, b}
		b.gaveUp = []gaveUp{{at: 1, circle: waits, youngest: b}}
		a.gaveUp = []gaveUp{{at: 2, circle: waits, youngest: a}}
		if !again {
			a.gaveUp[0].youngest = b
		}
		w.checkCircle(waits, b)
		if (w.broken == nil) != again {
			t.Errorf("the youngest turn gives up the second time: %t, and the check says %v", again, w.broken)
		}
	}
}
