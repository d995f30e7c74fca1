package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/foreign"
)

// maxLogged bounds a logged message or value. Errors and panics of handlers may contain an input of a client, so
// without a bound clients could fill the disk. 4 KiB is enough for the stack of a usual panic.
const maxLogged = 4 << 10

// NewLogger returns a logger that writes to w in a format, text or json, without the
// passwords and tokens of URLs, and with long values cut. A record that is logged within a span has its trace_id
// and span_id.
func NewLogger(w io.Writer, level slog.Level, format string) *slog.Logger {
	q, queued := w.(*logQueue)
	if queued {
		q.mu.Lock()
		q.report = func(w io.Writer, dropped int64) {
			slog.New(newHandler(w, level, format)).Warn("log lines were dropped", "lines", dropped, "hint", "the reader of the log is too slow or has ended")
		}
		q.mu.Unlock()
	}
	return slog.New(traced{newHandler(w, level, format), q})
}

func newHandler(w io.Writer, level slog.Level, format string) slog.Handler {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: printable}
	if format == "json" {
		return slog.NewJSONHandler(w, options)
	}
	return slog.NewTextHandler(w, options)
}

// Uncut is a logged text that is not cut.
type Uncut string

// printable redacts and cuts a message or an attribute: a library's error may contain the URL
// that it was given. A handler of an entity logs values of its own, whose methods may panic.
func printable(_ []string, attr slog.Attr) (shown slog.Attr) {
	defer func() {
		if recover() != nil {
			text := "<nil>" // as package slog shows it: a typed nil is common
			if !foreign.IsNil(attr.Value.Any()) {
				text = shownText(foreign.Text(attr.Value.Any()))
			}
			shown = slog.String(attr.Key, text)
		}
	}()
	text := ""
	switch attr.Value.Kind() {
	case slog.KindString:
		text = attr.Value.String()
	case slog.KindAny:
		switch value := attr.Value.Any().(type) {
		case Uncut:
			attr.Value = slog.StringValue(backendurl.RedactText(string(value)))
			return attr
		case error:
			text = value.Error()
		case *slog.Source, slog.Level, time.Time:
			return attr
		default: // shown by the handler in its own way, unless it must be changed
			text = fmt.Sprintf("%+v", value)
		}
	default:
		return attr
	}
	if shown := shownText(text); shown != text {
		attr.Value = slog.StringValue(shown)
	}
	return attr
}

// shownText redacts and cuts a text. Not much more than what is shown is redacted, because that takes time.
func shownText(text string) string {
	head := firstBytes(text, 2*maxLogged)
	shown := backendurl.RedactText(head)
	if len(head) == len(text) && len(shown) <= maxLogged {
		return shown
	}
	return fmt.Sprintf("%s… (cut, of %d bytes)", firstBytes(shown, maxLogged), len(text))
}

// firstBytes returns the characters within the first n bytes of a text.
func firstBytes(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for end := n; end > n-utf8.UTFMax; end-- {
		if utf8.RuneStart(text[end]) {
			return text[:end]
		}
	}
	return text[:n]
}

// traced adds the ids of the current span.
type traced struct {
	slog.Handler
	queue *logQueue // of the lines; nil: they are written at once
}

// LogSurely writes a record to log, whatever its level. It returns an error unless the line is written: one that only
// waits may be lost.
func LogSurely(ctx context.Context, log *slog.Logger, record slog.Record) error {
	if t, ok := log.Handler().(traced); ok {
		return t.handleSurely(ctx, record)
	}
	return log.Handler().Handle(ctx, record)
}

// handleSurely is Handle that returns an error unless the line is written.
func (t traced) handleSurely(ctx context.Context, record slog.Record) error {
	if t.queue == nil {
		return t.Handle(ctx, record)
	}
	return t.queue.surely(func() error { return t.Handle(ctx, record) })
}

func (t traced) Handle(ctx context.Context, record slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		record = record.Clone()
		record.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return t.Handler.Handle(ctx, record)
}

func (t traced) WithAttrs(attrs []slog.Attr) slog.Handler {
	return traced{t.Handler.WithAttrs(attrs), t.queue}
}

func (t traced) WithGroup(name string) slog.Handler {
	return traced{t.Handler.WithGroup(name), t.queue}
}

// RepeatedEvery is the least time between two lines of a [Repeated].
const RepeatedEvery = 10 * time.Second

// Repeated is a warning that may have a reason again and again. It is logged at most once in
// [RepeatedEvery]. The zero value is ready for use, by any goroutine.
type Repeated struct {
	mu     sync.Mutex
	since  int // reasons since the last line
	logged time.Time
}

// Warn logs the warning, with the number of times that there was a reason for it since the
// last line, or only counts.
func (r *Repeated) Warn(log *slog.Logger, text string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since++
	if now := time.Now(); r.logged.IsZero() || now.Sub(r.logged) >= RepeatedEvery {
		log.Warn(text, append(args, "times", r.since)...)
		r.since, r.logged = 0, now
	}
}
