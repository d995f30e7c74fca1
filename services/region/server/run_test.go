package server

import (
	"context"
	"log/slog"
	"testing"
)

// TestRun: a region runs in a test's own process, and ends with its context.
func TestRun(t *testing.T) {
	f := newFake(t)
	cfg := DefaultConfig()
	if err := Run(t.Context(), cfg, counters()); err == nil {
		t.Fatal("a configuration without a journal is accepted")
	}
	cfg.Listen, cfg.Management.Listen, cfg.Advertise = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1"
	cfg.Journal.URL, cfg.Seeds, cfg.LogLevel = "memory:", []string{f.addr}, slog.LevelError+1
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, cfg, counters()) }()
	await(t, "the region registers", f.look(func() bool { return len(f.journals) > 0 }))
	cancel()
	if err := <-done; err != nil {
		t.Errorf("it ends with %v", err)
	}
}
