package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// tally is a counter.
type tally struct {
	noop.Int64Counter
	n int64
}

func (c *tally) Add(_ context.Context, n int64, _ ...metric.AddOption) { c.n += n }

// TestSnapshotThatIsNotStored: it is logged and counted, one that is superseded
// is not. There are not more lines per second than failures may write.
func TestSnapshotThatIsNotStored(t *testing.T) {
	var text bytes.Buffer
	var counter tally
	s := &shardLoop{shared: &shared{log: slog.New(slog.NewTextHandler(&text, nil)), ctx: t.Context(), failures: failures{limit: 2}}}
	s.telemetry.noSnapshot = &counter
	of := sharding.Entity{Type: "Box", ID: "b"}
	for _, v := range []sharding.Verdict{sharding.Durable, sharding.RefusedEpoch, sharding.RefusedSeq} {
		s.snapshotStored(of, journal.Result{Verdict: v})
	}
	if text.Len() > 0 || counter.n > 0 {
		t.Errorf("counted %d, logged: %s", counter.n, text.String())
	}
	for _, v := range []sharding.Verdict{sharding.RefusedFull, sharding.UnknownOutcome, sharding.RefusedDamaged} {
		s.snapshotStored(of, journal.Result{Verdict: v, Err: errors.New("too large")})
	}
	if got := strings.Count(text.String(), "entity.id=b error=\"too large\""); got != 2 || counter.n != 3 {
		t.Errorf("counted %d, logged %d of 2: %s", counter.n, got, text.String())
	}
}
