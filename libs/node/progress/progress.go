// Package progress shows on a terminal, or in a log, how far a command is that takes long.
//
// # What this does not do
//
// It says nothing about work that ends soon, and it does not estimate when work will end.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

const (
	barWidth = 30
	// barEvery and lineEvery are the times between two states of a progress bar, and
	// between two lines where there is no terminal.
	barEvery  = 100 * time.Millisecond
	lineEvery = 5 * time.Second
)

// Bar shows how far work is: as a bar on a terminal, as lines elsewhere.
type Bar struct {
	w        io.Writer
	what     string
	count    func(int64) string
	terminal bool
	every    time.Duration
	last     time.Time
	drawn    bool // there is a bar on the terminal
}

// New returns a Bar that writes to w. what names the work, in the past tense, and count writes an
// amount of it, for example [Plain] or [Bytes].
func New(w io.Writer, what string, count func(int64) string) *Bar {
	b := &Bar{w: w, what: what, count: count, every: lineEvery, last: time.Now()}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		b.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	if b.terminal {
		b.every = barEvery
	}
	return b
}

// Show draws the state if it is time to. It is called by one goroutine at a time.
func (b *Bar) Show(done, total int64) {
	now := time.Now()
	if now.Sub(b.last) < b.every {
		return
	}
	b.last = now
	if !b.terminal {
		fmt.Fprintf(b.w, "%s: %s of %s\n", b.what, b.count(done), b.count(total))
		return
	}
	full := int(min(done, total) * barWidth / max(total, 1))
	fmt.Fprintf(b.w, "\r%s [%s%s] %s of %s", b.what, strings.Repeat("#", full), strings.Repeat(".", barWidth-full), b.count(done), b.count(total))
	b.drawn = true
}

// End removes the bar.
func (b *Bar) End() {
	if b.drawn {
		fmt.Fprint(b.w, "\r\x1b[K")
	}
}

// Plain writes a number as it is.
func Plain(n int64) string { return fmt.Sprint(n) }

// Bytes writes a number of bytes: 1.5 MiB.
func Bytes(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	x, unit := float64(n)/(1<<10), 0
	for x >= 1<<10 && unit < 3 {
		x, unit = x/(1<<10), unit+1
	}
	return fmt.Sprintf("%.1f %ciB", x, "KMGT"[unit])
}
