package node

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// floodVariable makes the service of this test binary log more than any pipe and the queue have room for.
const floodVariable = "TEST_NODE_FLOOD"

func flood(log *slog.Logger) {
	for range 3 * logRoom / 100 {
		log.Info(strings.Repeat("x", 100))
	}
}

// TestLogIsNotRead: a process whose log is not read starts, works and stops; when it is read again, it says how many
// lines are missing.
func TestLogIsNotRead(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	p := launch(t, "service", serviceArgs("--log.format=json"), []string{floodVariable + "=1"}, write)
	write.Close()
	p.expect(t, "up")
	var reported bool
	lines := bufio.NewScanner(read)
	for !reported && lines.Scan() {
		reported = strings.Contains(lines.Text(), `"msg":"log lines were dropped","lines":`)
	}
	if !reported {
		t.Error("dropped lines are not reported")
	}
	p.signal(t, syscall.SIGTERM)
	p.expect(t, "draining")
	p.expect(t, "drained")
	var last string
	for lines.Scan() {
		last = lines.Text()
	}
	if err := p.Wait(); err != nil || !strings.Contains(last, `"msg":"stopped"`) {
		t.Errorf("%v; the last line is %s", err, last)
	}
}

// TestReaderOfLogEnds: a process does not end because the reader of its log has ended.
func TestReaderOfLogEnds(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	p := launch(t, "service", serviceArgs(), []string{floodVariable + "=1"}, write)
	write.Close()
	p.expect(t, "up")
	p.signal(t, syscall.SIGTERM)
	p.expect(t, "draining")
	p.expect(t, "drained")
	if err := p.Wait(); err != nil {
		t.Error(err)
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
		log := newLogger(q, &Config{LogFormat: "text"})
		start := time.Now()
		flood(log)
		log.Info("too late")
		if waited := time.Since(start); waited != logWait {
			t.Errorf("lines waited for %s", waited)
		}
		a := &audit{log: log, recent: nil}
		if err := a.write(auditLine{}); !errors.Is(err, errLogFull) {
			t.Errorf("an audit line without room: %v", err)
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
		log.Info("nobody reads this")
		if err := a.write(auditLine{}); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("an audit line that cannot be written: %v", err)
		}
		w.fail = nil
		log.Info("read again")
		if text := w.text.String(); !strings.Contains(text, "read again") || !strings.HasSuffix(strings.TrimSpace(text), `lines=2 hint="the reader of the log is too slow or has ended"`) || q.lost() != lost+2 {
			t.Errorf("after a failure, %d lost: %s", q.lost(), text[len(text)-300:])
		}
	})
}

// TestAuditLineIsWritten: a line of the audit that waits behind others counts when it is written, and not before.
func TestAuditLineIsWritten(t *testing.T) {
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
				a := &audit{log: newLogger(&logQueue{w: w}, &Config{LogFormat: "text"}).With("node", "a")}
				a.log.Info("before") // nobody reads it
				if c.open > 0 {
					time.AfterFunc(c.open, func() { close(w.open) })
				}
				start := time.Now()
				err := a.write(auditLine{ID: 7})
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
		log := newLogger(&out, &Config{LogFormat: format}).With("with", long)
		log.Info(long, "text", long, "error", errors.New(long), "bytes", []byte(long), "list", []string{long}, slog.Group("group", "in", long))
		if n := out.Len(); n > 8*maxLogged || !strings.Contains(out.String(), "ä… (cut, of 2097152 bytes)") {
			t.Errorf("%s: %d bytes, %.100s", format, n, out.String())
		}
		out.Reset()
		log.Info("short", "list", []int{1, 2}, "audit", whole(long))
		if n := out.Len(); n < len(long) || strings.Contains(out.String(), "cut, of 9") {
			t.Errorf("%s: %d bytes", format, n)
		}
	}
	// A password that is cut in the middle is not shown.
	if shown := shownText(strings.Repeat("x", maxLogged-10) + " postgres://roost:hush-hush-hush@db/x"); strings.Contains(shown, "hush") {
		t.Errorf("the password shows: %s", shown[maxLogged-20:])
	}
}
