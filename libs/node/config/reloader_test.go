package config

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"
)

// TestReload: the keys that can change are applied when the file has changed, others are
// named. A file that cannot be used changes nothing, and flags stay above it.
func TestReload(t *testing.T) {
	file := writeFile(t, "roost.yaml", "region: {passivate_after: 3m, mailbox: 3}\n")
	started := newExample()
	sources, err := Load(started, []string{"--config=" + file, "--region.small=5"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	var applied []time.Duration
	r := NewReloader(sources, slog.New(slog.NewTextHandler(&log, nil)), []string{"region.passivate_after"}, func() Configured { return newExample() }, func(c Configured) error {
		applied = append(applied, c.(*exampleConfig).Region.PassivateAfter)
		return nil
	})
	for _, step := range []struct {
		content string
		applied int
		log     string // part of it; empty: nothing is logged
	}{
		{"region: {passivate_after: 3m, mailbox: 3}\n", 0, ""},
		{"region: {passivate_after: 4m, mailbox: 3}  \n", 1, "applied=[region.passivate_after] need_restart=[]"},
		{"region: {passivate_after: 4m, mailbox: 4, small: 6}\n", 2, "applied=[] need_restart=[region.mailbox]"},
		{"region: {passivate_after: 4m, mailbox: 0}\n", 2, "region.mailbox is 0, must be at least 1"},
		{"region: {passivate_af", 2, "keeping old settings"},
		{"", 3, "applied=[region.passivate_after] need_restart=[region.mailbox]"},
	} {
		log.Reset()
		if step.log != "" {
			if err := os.WriteFile(file, []byte(step.content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if r.Reload(); len(applied) != step.applied {
			t.Fatalf("after %q: applied %v\n%s", step.content, applied, &log)
		}
		if got := log.String(); step.log == "" && got != "" || !strings.Contains(got, step.log) {
			t.Errorf("after %q: log %s, want %s", step.content, got, step.log)
		}
	}
	if want := 4 * time.Minute; applied[0] != want || applied[2] != 2*time.Minute {
		t.Errorf("applied %v", applied)
	}
}
