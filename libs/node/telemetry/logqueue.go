package telemetry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

const (
	// logRoom bounds the log lines that wait for the reader of the log. 1 MiB is some thousands of lines: more than a
	// reader that restarts leaves waiting.
	logRoom = 1 << 20
	// logWait bounds the wait for a line before which no other line waits. Without it, a line that is logged just before
	// os.Exit or a crash would be lost. If the reader takes longer, later lines do not wait at all.
	logWait = 10 * time.Millisecond
	// logFlush bounds the wait for the last lines at the end of a process, and for a line of the audit.
	logFlush = time.Second
)

// Errors of log lines.
var (
	// errLogFull: a line finds no room.
	errLogFull = errors.New("the log is not read, and as many lines as it has room for wait; read it, or set management.audit")
	// errLogWaits: a line that must be written is not written in time. It may be written later.
	errLogWaits = fmt.Errorf("the log is not read: a line is not written within %s; read it, or set management.audit", logFlush)
)

var stderr = &logQueue{w: os.Stderr}

// Stderr is the log of a service. It never waits long for the reader of the log, see [FlushLog].
var Stderr io.Writer = stderr

// FlushLog waits until the last lines of the log are written, at most for a second. A process calls it at its end.
func FlushLog() { stderr.flush(logFlush) }

// logQueue is a bounded queue of log lines. The reader of a log may stop reading, for example because its disk is full:
// then a write to a pipe blocks forever, and with it every goroutine that logs. So a goroutine of the queue writes, and
// lines without room are dropped, counted and reported.
type logQueue struct {
	w io.Writer

	mu      sync.Mutex
	waiting []byte        // whole lines
	size    int           // of these and of the lines that are being written, in bytes
	idle    chan struct{} // closed when all lines are written; nil: they are
	failed  error         // of the last write; nil: it succeeded
	begun   int           // writes, also those that have ended
	ended   int           // writes
	failure failure       // of writes
	wrote   chan struct{} // closed when the write in progress ends; nil: no writer waits for that
	dropped int64         // lines that are not reported yet
	total   int64         // dropped lines since the start
	report  func(w io.Writer, dropped int64)
}

// failure holds the last of the errors of writes, and their number.
type failure struct {
	times int
	err   error
}

// Write queues a line. It waits for the reader for [logWait] at most, and returns an error if the line is dropped
// meanwhile.
func (q *logQueue) Write(line []byte) (int, error) {
	q.mu.Lock()
	if q.size > 0 && q.size+len(line) > logRoom { // one line always has room, however long it is
		q.drop(1)
		q.mu.Unlock()
		return 0, errLogFull
	}
	q.waiting = append(q.waiting, line...)
	q.size += len(line)
	if q.idle != nil {
		q.mu.Unlock()
		return len(line), nil
	}
	q.idle = make(chan struct{})
	go q.drain(q.idle)
	q.mu.Unlock()
	q.flush(logWait)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.idle == nil && q.failed != nil {
		return 0, unwritten(q.failed)
	}
	return len(line), nil
}

func unwritten(err error) error {
	return fmt.Errorf("the log cannot be written; mend that, or set management.audit: %w", err)
}

// surely calls write, which queues lines, and returns an error unless they are written within [logFlush]. It also
// returns one if other lines cannot be written meanwhile.
func (q *logQueue) surely(write func() error) error {
	q.mu.Lock()
	before := q.failure.times
	q.mu.Unlock()
	if err := write(); err != nil {
		return err
	}
	timer := time.NewTimer(logFlush)
	defer timer.Stop()
	q.mu.Lock()
	defer q.mu.Unlock()
	last := q.begun // the write that has the lines, or a later one
	if len(q.waiting) > 0 {
		last++
	}
	for q.ended < last {
		if q.wrote == nil {
			q.wrote = make(chan struct{})
		}
		wrote := q.wrote
		q.mu.Unlock()
		late := false
		select {
		case <-wrote:
		case <-timer.C:
			late = true
		}
		q.mu.Lock()
		if late && q.ended < last {
			return errLogWaits
		}
	}
	if q.failure.times != before {
		return unwritten(q.failure.err)
	}
	return nil
}

func (q *logQueue) drop(lines int) {
	q.dropped += int64(lines)
	q.total += int64(lines)
}

// drain writes lines until none wait, and then reports those that were dropped meanwhile.
func (q *logQueue) drain(idle chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		lines, reported := q.waiting, int64(0)
		if len(lines) == 0 && q.dropped > 0 && q.report != nil {
			var line bytes.Buffer
			q.report(&line, q.dropped)
			lines, reported = line.Bytes(), q.dropped
		}
		if len(lines) == 0 {
			break
		}
		q.waiting = nil
		q.begun++
		q.mu.Unlock()
		n, err := q.w.Write(lines)
		q.mu.Lock()
		q.size, q.failed = len(q.waiting), err
		q.ended++
		if err != nil {
			q.failure = failure{q.failure.times + 1, err}
		}
		if q.wrote != nil {
			close(q.wrote)
			q.wrote = nil
		}
		if err == nil {
			q.dropped -= reported
			continue
		}
		if reported == 0 { // the reader has ended, or the disk is full
			q.drop(bytes.Count(lines[n:], []byte("\n")))
		}
		if len(q.waiting) == 0 {
			break // the next line tries again, and then reports
		}
	}
	close(idle)
	q.idle = nil
}

// flush waits until all lines are written, at most for the given time.
func (q *logQueue) flush(within time.Duration) {
	q.mu.Lock()
	idle := q.idle
	q.mu.Unlock()
	if idle == nil {
		return
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}

// lost returns the number of dropped lines since the start.
func (q *logQueue) lost() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total
}
