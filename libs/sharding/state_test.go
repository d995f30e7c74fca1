package sharding

import "testing"

// TestDraw: the numbers of splitmix64, as published with the generator for the state 0
// (Vigna, splitmix64.c), and others for another member.
func TestDraw(t *testing.T) {
	for n, want := range map[uint64]uint64{1: 0xe220a8397b1dcdaf, 2: 0x6e789e6aa1b965f4, 3: 0x06c45d188009454f} {
		if got := Draw(0, 0, n); got != want {
			t.Errorf("number %d is %#x, want %#x", n, got, want)
		}
		if Draw(0, 1, n) == want || Draw(1, 0, n) == want {
			t.Errorf("number %d is the same for another member or seed", n)
		}
	}
}

func TestAppendString(t *testing.T) {
	if got := string(AppendString([]byte("x"), "abc")); got != "x\x03abc" {
		t.Errorf("%q", got)
	}
}
