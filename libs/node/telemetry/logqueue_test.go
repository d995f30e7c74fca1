package telemetry

import (
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func flood(log *slog.Logger) {
	for range 3 * logRoom / 100 {
		log.Info(strings.Repeat("x", 100))
	}
}

// stalledWriter writes only while it is open.
type stalledWriter struct {
	open chan struct{}
	text strings.Builder
	fail error
}

func (w *stalledWriter) Write(p []byte) (int, error) {
	<-w.open
	if w.fail != nil {
		return 0, w.fail
	}
	return w.text.Write(p)
}

func TestLogQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &stalledWriter{open: make(chan struct{})}
		q := &logQueue{w: w}
		log := NewLogger(q, slog.LevelInfo, "text")
		start := time.Now()
		flood(log)
		log.Info("too late")
		if waited := time.Since(start); waited != logWait {
			t.Errorf("lines waited for %s", waited)
		}
		// Not by the logger, which hides the error; the audit needs it.
		line := func() error {
			return log.Handler().Handle(t.Context(), slog.NewRecord(start, slog.LevelInfo, "line", 0))
		}
		if err := line(); !errors.Is(err, errLogFull) {
			t.Errorf("a line without room: %v", err)
		}
		lost := q.lost()
		q.flush(logFlush)
		if waited := time.Since(start); waited != logWait+logFlush || lost == 0 {
			t.Errorf("ended after %s, %d lost", waited, lost)
		}
		close(w.open)
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(w.text.String()), "\n")
		if last := lines[len(lines)-1]; !strings.Contains(last, `msg="log lines were dropped" lines=`) || strings.Contains(w.text.String(), "too late") {
			t.Errorf("the last line is %s", last)
		}
		if size := len(w.text.String()); size > logRoom+1000 {
			t.Errorf("%d bytes have waited", size)
		}
		w.fail = io.ErrClosedPipe
		log.Info("this is never read")
		if err := line(); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("a line that cannot be written: %v", err)
		}
		w.fail = nil
		log.Info("read again")
		if text := w.text.String(); !strings.Contains(text, "read again") || !strings.HasSuffix(strings.TrimSpace(text), `lines=2 hint="the reader of the log is too slow or has ended"`) || q.lost() != lost+2 {
			t.Errorf("after a failure, %d lost: %s", q.lost(), text[len(text)-300:])
		}
	})
}

// TestLogSurely: a line that waits after others counts when it is written, and not before.
func TestLogSurely(t *testing.T) {
	for _, c := range []struct {
		name string
		open time.Duration // when the writer writes; 0: not at all
		fail error
		want error
	}{
		{"written", 500 * time.Millisecond, nil, nil},
		{"fails", 500 * time.Millisecond, io.ErrClosedPipe, io.ErrClosedPipe},
		{"waits", 0, nil, errLogWaits},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &stalledWriter{open: make(chan struct{}), fail: c.fail}
				log := NewLogger(&logQueue{w: w}, slog.LevelInfo, "text").With("node", "a")
				log.Info("before") // no reader takes it
				if c.open > 0 {
					time.AfterFunc(c.open, func() { close(w.open) })
				}
				start := time.Now()
				record := slog.NewRecord(time.Now(), slog.LevelInfo, "audit", 0)
				record.Add("id", 7)
				err := LogSurely(t.Context(), log, record)
				if wrote := strings.Contains(w.text.String(), "id=7"); !errors.Is(err, c.want) || wrote != (c.want == nil) {
					t.Errorf("after %s: %v, written %t", time.Since(start), err, wrote)
				}
				if waited := time.Since(start); c.open == 0 && waited != logFlush || c.open > 0 && waited != c.open {
					t.Errorf("waited %s", waited)
				}
				if c.open == 0 {
					close(w.open)
				}
			})
		})
	}
}

// TestLongValuesAreCut: a client's input that comes back in an error cannot fill the disk.
func TestLongValuesAreCut(t *testing.T) {
	long := strings.Repeat("ä", 1<<20)
	for _, format := range []string{"text", "json"} {
		var out strings.Builder
		log := NewLogger(&out, slog.LevelInfo, format).With("with", long)
		log.Info(long, "text", long, "error", errors.New(long), "bytes", []byte(long), "list", []string{long}, slog.Group("group", "in", long))
		if n := out.Len(); n > 8*maxLogged || !strings.Contains(out.String(), "ä… (cut, of 2097152 bytes)") {
			t.Errorf("%s: %d bytes, %.100s", format, n, out.String())
		}
		out.Reset()
		log.Info("short", "list", []int{1, 2}, "audit", Uncut(long))
		if n := out.Len(); n < len(long) || strings.Contains(out.String(), "cut, of 9") {
			t.Errorf("%s: %d bytes", format, n)
		}
	}
	// A password that is cut in the middle is not shown.
	if shown := shownText(strings.Repeat("x", maxLogged-10) + " postgres://roost:hush-hush-hush@db/x"); strings.Contains(shown, "hush") {
		t.Errorf("the password shows: %s", shown[maxLogged-20:])
	}
}
