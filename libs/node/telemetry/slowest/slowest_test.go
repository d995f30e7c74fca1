package slowest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// add ends a command as a gateway does.
func add(l *Log, now time.Time, total time.Duration, id string) {
	if l.Wants(now, total) {
		l.Add(now, Entry{At: now.Add(-total), Total: total, Entity: sharding.Entity{Type: "T", ID: sharding.EntityID(id)}})
	}
}

// TestLog: of each window the slowest are kept, however many commands there are, and the newest come first.
func TestLog(t *testing.T) {
	l, begin := &Log{}, time.Unix(1_000_000, 0)
	for i := range 1000 { // the slowest ones come early and late
		add(l, begin.Add(time.Duration(i)*time.Millisecond), time.Duration((i*37)%1000+1)*time.Millisecond, fmt.Sprint("first-", (i*37)%1000+1))
	}
	got := l.List(100)
	if len(got) != PerWindow {
		t.Fatalf("%d of one window are kept", len(got))
	}
	for i, e := range got {
		if e.Total <= (1000-PerWindow)*time.Millisecond || i > 0 && e.At.After(got[i-1].At) {
			t.Errorf("kept at place %d is one of %v", i, e.Total)
		}
	}
	later := begin.Add(Window)
	if !l.Wants(later, 1) {
		t.Error("a quick command of the next window is not wanted")
	}
	add(l, later, time.Microsecond, "quick")
	got = l.List(100)
	if len(got) != PerWindow+1 || got[0].Entity.ID != "quick" {
		t.Errorf("in the next window: %v", got)
	}
	if got = l.List(2); len(got) != 2 || got[0].Entity.ID != "quick" {
		t.Errorf("two of them: %v", got)
	}
}

// TestLogIsBounded: neither many windows nor long names take more than they may.
func TestLogIsBounded(t *testing.T) {
	l, now := &Log{}, time.Unix(1_000_000, 0)
	for range MaxEntries {
		now = now.Add(Window)
		for range PerWindow {
			add(l, now, time.Second, "x")
		}
	}
	if n := len(l.List(1 << 20)); n > MaxEntries+PerWindow || n < MaxEntries {
		t.Errorf("%d entries are kept", n)
	}
	for range 500 {
		now = now.Add(Window)
		add(l, now, time.Second, strings.Repeat("x", 1000))
	}
	if n := len(l.List(1 << 20)); n > MaxBytes/1000+PerWindow || n < MaxBytes/2000 {
		t.Errorf("%d entries with long names are kept", n)
	}
}
