package server

import (
	"log/slog"
	"sync"
	"time"
)

// inboxLimits bound the calls from outside that wait for the loop. Those that the
// loop has taken and not done count no more: they are as many again at most.
type inboxLimits struct {
	// calls is their number.
	calls int
	// bytes is their size as they came over the wire; decoded they take up to
	// eight times as much.
	bytes int
}

// defaultInbox is far more than a loop that runs leaves waiting. 16,384 calls are
// four for each watcher that may wait, and 16 MiB are four of the longest requests
// that service.max_body allows by default.
var defaultInbox = inboxLimits{calls: 16_384, bytes: 16 << 20}

// inbox gathers what the loop will do next. What comes from outside is refused
// while too much of it waits. The results of our own jobs never are: no more of
// them can come than were begun.
type inbox struct {
	mu     sync.Mutex
	items  []func()
	limits inboxLimits
	calls  int // from outside, among the items
	bytes  int // their size
	wake   chan struct{}
}

func newInbox(limits inboxLimits) *inbox {
	return &inbox{limits: limits, wake: make(chan struct{}, 1)}
}

// put adds what our own jobs bring, and what ends a call that was taken on.
func (b *inbox) put(f func()) {
	b.mu.Lock()
	b.items = append(b.items, f)
	b.mu.Unlock()
	b.signal()
}

// offer adds a call from outside of so many bytes. It reports whether there was
// room.
func (b *inbox) offer(size int, f func()) bool {
	b.mu.Lock()
	if b.calls >= b.limits.calls || b.bytes+size > b.limits.bytes && b.calls > 0 {
		b.mu.Unlock()
		return false
	}
	b.calls++
	b.bytes += size
	b.items = append(b.items, f)
	b.mu.Unlock()
	b.signal()
	return true
}

func (b *inbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *inbox) take() []func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.items
	b.items, b.calls, b.bytes = nil, 0, 0
	return items
}

// overflow logs that something is full, at most once in troubleEvery, with how
// often that was so since the last line.
type overflow struct {
	mu     sync.Mutex
	since  int
	logged time.Time
}

func (o *overflow) say(log *slog.Logger, text string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.since++
	if now := time.Now(); o.logged.IsZero() || now.Sub(o.logged) >= troubleEvery {
		log.Warn(text, append(args, "times", o.since)...)
		o.since, o.logged = 0, now
	}
}
