// Package slowest keeps the slowest commands of the last minutes in memory, so that operators see where
// the time of a slow command went although nothing collects traces.
//
// Of each [Window], the [PerWindow] slowest commands are kept: there is always something to look at, and no
// threshold must be chosen. All other commands cost a comparison.
//
// # What this does not do
//
// It measures nothing, and it does not replace traces: it has one line for each command.
package slowest

import (
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sorted"
)

const (
	// Window is the length of the time that the slowest commands are selected from: as long as it
	// takes to look.
	Window = 10 * time.Second
	// PerWindow is the number of commands of a window that are kept.
	PerWindow = 8
	// MaxEntries and MaxBytes bound what is kept of all windows: half an hour of a few slow commands,
	// or some minutes of a busy process.
	MaxEntries, MaxBytes = 512, 256 << 10
)

// Where a command has come from. What clients send is kept by gateways, all else by regions.
const (
	OriginClient   = ""         // a client, through a gateway
	OriginAsk      = "ask"      // a turn of another entity, which waits for the answer
	OriginSend     = "send"     // a send of another entity: one attempt to deliver it
	OriginAnswer   = "answer"   // the answer to a send of the entity itself
	OriginReminder = "reminder" // a reminder of the entity itself
	OriginTimer    = "timer"    // a timer of the entity itself
	OriginTell     = "tell"     // a sender that does not wait: what is kept is the run, not the sending
)

// Entry is a command that has ended.
type Entry struct {
	At      time.Time // when it came
	Entity  sharding.Entity
	Command string
	Trace   string // hexadecimal id; empty: it has none
	Origin  string // one of the Origin constants
	// From says more about the origin: the address of the client, the entity that has asked or sent, the name of the
	// reminder, or the entity that has answered. It is empty for timers and tells.
	From     string
	Region   string // address of the region that answered; empty: none did
	Attempts int
	Code     string // of its error; empty: it succeeded
	Total    time.Duration
	Timing   sharding.Timing
}

// size is about how much memory an entry takes.
func (e *Entry) size() int {
	return 256 + len(e.Entity.Type) + len(e.Entity.ID) + len(e.Command) + len(e.Trace) + len(e.Region) + len(e.Code) + len(e.From)
}

// Log keeps the slowest commands. Its zero value is empty. It is safe for concurrent use.
type Log struct {
	// floor is the time that a command must exceed to be kept until the window ends at end, in Unix
	// nanoseconds. Both are read without the lock.
	floor, end atomic.Int64

	mu      sync.Mutex
	current []Entry // of this window, the slowest first
	kept    []Entry // of earlier windows, the oldest first
	bytes   int     // of kept
}

// Wants reports whether a command that has ended now would be kept. It takes no lock.
func (l *Log) Wants(now time.Time, total time.Duration) bool {
	return int64(total) > l.floor.Load() || now.UnixNano() >= l.end.Load()
}

// Add keeps a command that has ended now, if it is one of the slowest of its window. Its texts are copied.
func (l *Log) Add(now time.Time, e Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.roll(now)
	at, _ := slices.BinarySearchFunc(l.current, e.Total, func(x Entry, total time.Duration) int {
		if x.Total >= total {
			return -1
		}
		return 1
	})
	if at >= PerWindow {
		return
	}
	for _, text := range []*string{(*string)(&e.Entity.Type), (*string)(&e.Entity.ID), &e.Command, &e.Trace, &e.Region, &e.Code, &e.From} {
		*text = strings.Clone(*text) // it may be a part of a long message
	}
	l.current = slices.Insert(l.current, at, e)
	l.current = l.current[:min(len(l.current), PerWindow)]
	if len(l.current) == PerWindow {
		l.floor.Store(int64(l.current[PerWindow-1].Total))
	}
}

// roll begins a new window if the time of the present one is over.
func (l *Log) roll(now time.Time) {
	if now.UnixNano() < l.end.Load() {
		return
	}
	sorted.By(l.current, func(a, b Entry) int { return a.At.Compare(b.At) })
	for i := range l.current {
		l.bytes += l.current[i].size()
	}
	l.kept = append(l.kept, l.current...)
	drop := 0
	for len(l.kept)-drop > MaxEntries || l.bytes > MaxBytes {
		l.bytes -= l.kept[drop].size()
		drop++
	}
	l.kept = slices.Delete(l.kept, 0, drop)
	l.current = l.current[:0]
	l.floor.Store(math.MinInt64)
	l.end.Store(now.Add(Window).UnixNano())
}

// List returns the newest entries, at most n of them, the newest first.
func (l *Log) List(n int) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := append(slices.Clone(l.kept), l.current...)
	sorted.StableBy(all, func(a, b Entry) int { return b.At.Compare(a.At) })
	return all[:min(n, len(all))]
}
