package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
)

const (
	// redraw is the interval at which the bar is drawn, lineEvery the interval of lines if there is no
	// terminal.
	redraw    = 250 * time.Millisecond
	lineEvery = 5 * time.Second
	// rateOver is the time over which the rate is measured.
	rateOver = 2 * time.Second
	// barWidth is the length of the bar, so that a line fits 80 columns.
	barWidth = 24
	// clearLine clears the current line of a terminal.
	clearLine = "\r\x1b[K"
)

// progress shows the progress of the stream and the faults.
type progress struct {
	out      io.Writer
	terminal bool
	begun    time.Time
	total    int64
	done     func() int64
	retried  func() int64

	mu     sync.Mutex
	drawn  bool // the terminal's last line is the bar
	points []point
	lined  time.Time
}

// point is the progress at a time.
type point struct {
	at   time.Time
	done int64
}

// say writes a line above the bar.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintf(p.out, "%s  %s\n", clock(time.Since(p.begun)), fmt.Sprintf(format, args...))
}

func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.out, clearLine)
		p.drawn = false
	}
}

// show shows the bar until stopped is closed.
func (p *progress) show(stopped <-chan struct{}) {
	ticker := time.NewTicker(redraw)
	defer ticker.Stop()
	p.lined = time.Now()
	for {
		select {
		case <-stopped:
			p.mu.Lock()
			p.clear()
			p.mu.Unlock()
			return
		case now := <-ticker.C:
			p.tick(now)
		}
	}
}

// tick draws the bar, or writes a line when it is time.
func (p *progress) tick(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	done := p.done()
	p.points = append(p.points, point{now, done})
	for len(p.points) > 2 && now.Sub(p.points[1].at) >= rateOver {
		p.points = p.points[1:]
	}
	first := p.points[0]
	rate := 0.0
	if seconds := now.Sub(first.at).Seconds(); seconds > 0 {
		rate = float64(done-first.done) / seconds
	}
	switch {
	case p.terminal:
		fmt.Fprint(p.out, clearLine, bar(done, p.total), p.figures(done, rate))
		p.drawn = true
	case now.Sub(p.lined) >= lineEvery:
		p.lined = now
		fmt.Fprintf(p.out, "%s %s\n", clock(now.Sub(p.begun)), p.figures(done, rate))
	}
}

func (p *progress) figures(done int64, rate float64) string {
	return fmt.Sprintf(" %3d%%  %s/s  %s of %s", percent(done, p.total), humanize.Comma(int64(rate)), humanize.Comma(done), humanize.Comma(p.total)) +
		fmt.Sprintf("  retried %s", humanize.Comma(p.retried()))
}

func percent(done, total int64) int64 {
	if total == 0 {
		return 100
	}
	return 100 * done / total
}

func bar(done, total int64) string {
	full := int(percent(done, total)) * barWidth / 100
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", barWidth-full) + "]"
}

// clock returns a time as minutes and seconds.
func clock(d time.Duration) string {
	seconds := int(d.Seconds())
	return fmt.Sprintf("%02d:%02d", seconds/60, seconds%60)
}
