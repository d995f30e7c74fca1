package loop

import (
	"runtime"
	"testing"
)

// TestApart: the caller continues, however the function ends.
func TestApart(t *testing.T) {
	ran := 0
	if !Apart(func() { ran++ }) || Apart(func() { ran++; runtime.Goexit() }) || ran != 2 {
		t.Error("ran", ran)
	}
	defer func() {
		if p := recover(); p != "why" {
			t.Errorf("panics with %v", p)
		}
	}()
	Apart(func() { panic("why") })
	t.Error("the panic does not go on")
}
