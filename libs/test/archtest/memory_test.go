package archtest

import "testing"

// failures counts instead of failing.
type failures struct {
	testing.TB
	n int
}

func (f *failures) Helper()               {}
func (f *failures) Errorf(string, ...any) { f.n++ }

var sink []byte

func TestMemory(t *testing.T) {
	take := func(n int) func() { return func() { sink = make([]byte, n) } }
	for _, c := range []struct {
		input, takes int
		want         int // failures
	}{
		{0, 0, 0}, {0, MemoryBase - 4<<10, 0}, {0, MemoryBase + 4<<10, 1},
		{1 << 20, 8 << 20, 0}, {1 << 20, 8<<20 + MemoryBase + 8<<10, 1},
	} {
		f := failures{TB: t}
		if Memory(&f, MemoryFactor, c.input, take(c.takes)); f.n != c.want {
			t.Errorf("%d bytes for %d: %d failures, want %d", c.takes, c.input, f.n, c.want)
		}
	}
	once := 0
	f := failures{TB: t}
	Memory(&f, MemoryFactor, 0, func() { // another one, in between
		if once++; once == 1 {
			sink = make([]byte, 1<<20)
		}
	})
	if f.n != 0 || once != 2 {
		t.Errorf("%d failures after %d runs", f.n, once)
	}
}
