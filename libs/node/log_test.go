package node

import (
	"bytes"
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
