package main

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Range of latencies, in microseconds, and the digits that are kept.
const (
	latencyMax    = int64(10 * time.Minute / time.Microsecond)
	latencyDigits = 3
)

// calm names the time before the first fault.
const calm = "calm"

// window is the time from one fault to the next.
type window struct {
	what  string
	begin time.Time
	// longest is the longest time in which an airport with waiting commands had
	// no success, and airport its index.
	longest time.Duration
	airport int32
}

// waiting is the state of one airport's commands in flight.
type waiting struct {
	commands int
	// since is the last success, or when the first of the commands began.
	since time.Time
}

// recorder records what happens to commands. It is safe for concurrent use.
type recorder struct {
	mu       sync.Mutex
	latency  *hdrhistogram.Histogram
	airports []waiting
	windows  []window
	errors   map[string]int64 // by code
	retried  int64
}

func newRecorder(airports int, now time.Time) *recorder {
	return &recorder{
		latency:  hdrhistogram.New(1, latencyMax, latencyDigits),
		airports: make([]waiting, airports),
		windows:  []window{{what: calm, begin: now}},
		errors:   map[string]int64{},
	}
}

// fault begins a new window.
func (r *recorder) fault(what string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.windows = append(r.windows, window{what: what, begin: now})
}

// begin records that a command is sent for the first time. Commands of routes have a
// negative airport.
func (r *recorder) begin(airport int32, now time.Time) {
	if airport < 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &r.airports[airport]
	if w.commands == 0 {
		w.since = now
	}
	w.commands++
}

// done records that a command succeeded.
func (r *recorder) done(airport int32, began, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.latency.RecordValue(min(max(now.Sub(began).Microseconds(), 1), latencyMax))
	if airport < 0 {
		return
	}
	w := &r.airports[airport]
	r.gap(airport, w.since, now)
	w.commands--
	w.since = now
}

// gap attributes a time without success to the window that it overlaps most.
func (r *recorder) gap(airport int32, from, to time.Time) {
	best, most := len(r.windows)-1, time.Duration(-1)
	for i := len(r.windows) - 1; i >= 0; i-- {
		begin, end := r.windows[i].begin, to
		if i+1 < len(r.windows) && r.windows[i+1].begin.Before(to) {
			end = r.windows[i+1].begin
		}
		if begin.Before(from) {
			begin = from
		}
		if overlap := end.Sub(begin); overlap > most {
			best, most = i, overlap
		}
		if !r.windows[i].begin.After(from) {
			break // earlier windows ended before the gap began
		}
	}
	if w := &r.windows[best]; to.Sub(from) > w.longest {
		w.longest, w.airport = to.Sub(from), airport
	}
}

// retry counts an error after which the command was sent again.
func (r *recorder) retry(code string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors[code]++
	r.retried++
}

// retries returns how many errors there were so far.
func (r *recorder) retries() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.retried
}
