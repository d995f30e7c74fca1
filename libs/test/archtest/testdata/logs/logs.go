// Package logs writes messages for TestLongMessages.
package logs

import (
	"context"
	"log/slog"
)

func messages(log *slog.Logger, s struct{ log *slog.Logger }, name string) {
	log.Info("a message of eight words is not long", "hint", "what to do may have as many words as it takes")

	log.Warn("one of nine words is longer than it should")
	s.log.Error("message of " + name)
	slog.Log(context.Background(), slog.LevelInfo, "one of nine words is longer than it should")
}
