package progress

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

// TestLines: where there is no terminal, a line comes from time to time, and none for work that ends soon.
func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		b := New(&out, "copied", Bytes)
		for i := range int64(12) {
			b.Show(i<<20, 12<<20)
			time.Sleep(time.Second)
		}
		b.End()
		if want := "copied: 5.0 MiB of 12.0 MiB\ncopied: 10.0 MiB of 12.0 MiB\n"; out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	})
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 5 << 19: "2.5 MiB", 3 << 30: "3.0 GiB", 5000 << 40: "5000.0 TiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d bytes are %q, want %q", n, got, want)
		}
	}
}
