package telemetry

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestRepeated: a warning is logged at once, then seldom, and every reason is counted.
func TestRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		log := slog.New(slog.NewTextHandler(&b, nil))
		var full Repeated
		for range 3 {
			full.Warn(log, "full", "to", "a")
		}
		time.Sleep(RepeatedEvery)
		full.Warn(log, "full", "to", "b")
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		if len(lines) != 2 || !strings.HasSuffix(lines[0], "to=a times=1") || !strings.HasSuffix(lines[1], "to=b times=3") {
			t.Error(b.String())
		}
	})
}

// TestLogWithoutPasswords: errors of libraries may contain a URL, log lines must not.
func TestLogWithoutPasswords(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var out strings.Builder
		log := NewLogger(&out, slog.LevelInfo, format).With("url", "etcd://u:hush@h/x")
		err := fmt.Errorf("open: %w", errors.New("dial postgres://roost:hush@db/x?sslmode=disable"))
		log.Error("no postgres://roost:hush@db/x", "error", err, "count", 1, slog.Group("g", "u", "consul://h/x?token=hush"))
		if strings.Contains(out.String(), "hush") || !strings.Contains(out.String(), "roost:xxxxx@db/x?sslmode=disable") {
			t.Errorf("%s: the password shows:\n%s", format, out.String())
		}
	}
}

// evil is a value whose methods panic. The panic's own value does so too, which package slog
// does not survive.
type evil struct{ what string }

func (e *evil) Error() string {
	_ = e.what // as a nil pointer it panics here
	panic(e)
}

type evilText struct{ evil }

func (e *evilText) Error()         {} // hides the method of evil
func (e *evilText) String() string { panic(&e.evil) }

type evilValue struct{}

func (evilValue) LogValue() slog.Value { panic("evil LogValue") }

type evilMarshaler struct{}

func (evilMarshaler) MarshalText() ([]byte, error) { panic("evil MarshalText") }

// TestEvilValues: a line is logged whatever the methods of its values do, including values that were given before.
func TestEvilValues(t *testing.T) {
	var none *evil
	var noText *evilText
	for _, format := range []string{"text", "json"} {
		for _, c := range []struct {
			value any
			want  string
		}{
			{none, "<nil>"},
			{fmt.Errorf("open: %w", none), "open: "},
			{&evil{"a"}, "the Error method of a *telemetry.evil panicked: a *telemetry.evil"},
			{noText, "<nil>"},
			{&evilText{}, "the String method of a *telemetry.evilText panicked: a *telemetry.evil"},
			{[]any{&evil{"a"}}, "panicked: a *telemetry.evil"},
			{evilValue{}, "LogValue panicked"},
			{evilMarshaler{}, "evil MarshalText"},
			{slog.GroupValue(slog.Any("in", &evil{"a"})), "the Error method of a *telemetry.evil panicked"},
		} {
			if _, nilText := c.value.(*evilText); nilText && format == "json" && c.value == noText {
				c.want = "null" // package json asks no method for it
			}
			var out strings.Builder
			log := NewLogger(&out, slog.LevelInfo, format)
			log.With("value", c.value).Info("before")
			log.Info("now", "value", c.value)
			if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 2 || !strings.Contains(lines[0], c.want) || !strings.Contains(lines[1], c.want) {
				t.Errorf("%s, %T: %.500s", format, c.value, out.String())
			}
		}
	}
}
