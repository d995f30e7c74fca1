package loop

import (
	"errors"
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

// evil is a panic value whose text ends the goroutine that asks for it.
type evil struct{}

func (evil) Error() string { runtime.Goexit(); return "" }

// TestApartTakesTheText: the caller does not ask the panic's value, because its methods are code of users.
func TestApartTakesTheText(t *testing.T) {
	if Apart(func() { panic(evil{}) }) {
		t.Error("it returned")
	}
	defer func() {
		if p, ok := recover().(string); !ok || p != "why" {
			t.Errorf("panics with %v", p)
		}
	}()
	Apart(func() { panic(errors.New("why")) })
}
