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
