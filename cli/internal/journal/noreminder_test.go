package journal

import (
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
)

// TestNoReminder: the error about a reminder that does not stand names those that do, up to ten.
func TestNoReminder(t *testing.T) {
	standing := make([]string, 12)
	for i := range standing {
		standing[i] = string(rune('a' + i))
	}
	want := "Cart/dora has no reminder z; it has a, b, c, d, e, f, g, h, i, j and 2 more; roost entity reminders Cart/dora lists all (nothing was changed)"
	if err := NoReminder(sharding.Entity{Type: "Cart", ID: "dora"}, "z", standing); err.Error() != want {
		t.Error(err)
	}
}
