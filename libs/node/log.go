package node

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/roost-cluster/roost/libs/backendurl"
)

// newLogger returns a logger that writes to w in the configured format, without the
// passwords and tokens of URLs. A record that is logged within a span has its trace_id
// and span_id.
func newLogger(w io.Writer, config *Config) *slog.Logger {
	options := &slog.HandlerOptions{Level: config.LogLevel, ReplaceAttr: withoutSecrets}
	var handler slog.Handler = slog.NewTextHandler(w, options)
	if config.LogFormat == "json" {
		handler = slog.NewJSONHandler(w, options)
	}
	return slog.New(traced{handler})
}

// withoutSecrets redacts a message or an attribute: a library's error may contain the URL
// that it was given.
func withoutSecrets(_ []string, attr slog.Attr) slog.Attr {
	text := ""
	switch attr.Value.Kind() {
	case slog.KindString:
		text = attr.Value.String()
	case slog.KindAny:
		err, ok := attr.Value.Any().(error)
		if !ok {
			return attr
		}
		text = err.Error()
	default:
		return attr
	}
	if redacted := backendurl.RedactText(text); redacted != text {
		attr.Value = slog.StringValue(redacted)
	}
	return attr
}

// traced adds the ids of the current span.
type traced struct{ slog.Handler }

func (t traced) Handle(ctx context.Context, record slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		record = record.Clone()
		record.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return t.Handler.Handle(ctx, record)
}

func (t traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{t.Handler.WithAttrs(attrs)} }
func (t traced) WithGroup(name string) slog.Handler       { return traced{t.Handler.WithGroup(name)} }

// RepeatedEvery is the least time between two lines of a [Repeated].
const RepeatedEvery = 10 * time.Second

// Repeated is a warning for which there may be a reason again and again. It is logged at
// most once in [RepeatedEvery]. The zero value is ready for use, by any goroutine.
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
