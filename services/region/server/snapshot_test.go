package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
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

// TestSnapshotOfAnotherVersion: it is not read; all events are.
func TestSnapshotOfAnotherVersion(t *testing.T) {
	drive(t, abaci(&slowCut{}), func(t *testing.T, d *driven) {
		d.storeEvents(sharding.Event{Name: "counted", Version: 1, Payload: []byte(`{"By":3}`)}, sharding.Event{Name: "counted", Version: 1, Payload: []byte(`{"By":4}`)})
		d.store.Inspect(func(l *memory.Ledger) {
			l.Apply(journal.Moment{Wall: time.Now()}, []journal.Op{{Snapshot: &journal.WriteSnapshot{
				Shard: drivenShard, Epoch: drivenEpoch, Entity: drivenEntity,
				Snapshot: journal.Snapshot{Seq: 1, Form: sharding.SnapshotForm{Version: 9}, Payload: []byte("100")},
			}}})
		})
		if a := d.answer(d.send("Get", "")); string(a.Reply.Payload) != "7" || d.script.loads != 2 {
			t.Errorf("answer %+v after %d loads", a, d.script.loads)
		}
	})
}

// TestSnapshotOfAnotherVersionWhenTrimmed: there is nothing else to read, and it is not tried
// again and again.
func TestSnapshotOfAnotherVersionWhenTrimmed(t *testing.T) {
	drive(t, abaci(&slowCut{}), func(t *testing.T, d *driven) {
		d.storeEvents(sharding.Event{Name: "counted", Version: 1, Payload: []byte(`{"By":3}`)}, sharding.Event{Name: "counted", Version: 1, Payload: []byte(`{"By":4}`)})
		d.store.Inspect(func(l *memory.Ledger) {
			l.Apply(journal.Moment{Wall: time.Now()}, []journal.Op{{Snapshot: &journal.WriteSnapshot{
				Shard: drivenShard, Epoch: drivenEpoch, Entity: drivenEntity, Cut: 1,
				Snapshot: journal.Snapshot{Seq: 1, Form: sharding.SnapshotForm{Version: 9}, Payload: []byte("100")},
			}}})
		})
		if a := d.answer(d.send("Get", "")); a.Reply.Code != sharding.DataLoss || !strings.Contains(a.Reply.Message, "run a version that reads the snapshot") || d.script.loads != 2 {
			t.Errorf("answer %+v after %d loads", a, d.script.loads)
		}
	})
}

// TestKeepEvents: the snapshots of such a type have the journal trim its entities, and an entity
// that is loaded again has the state of its snapshot.
func TestKeepEvents(t *testing.T) {
	drive(t, abaci(&slowCut{}, entity.KeepEvents(1)), func(t *testing.T, d *driven) {
		for i := range 7 {
			if a := d.answer(d.send("Add", "1")); string(a.Reply.Payload) != strconv.Itoa(i+1) {
				t.Fatalf("answer %+v", a)
			}
		}
		found, err := d.store.Load(t.Context(), journal.LoadRequest{Entity: drivenEntity})
		if err != nil || found.Snapshot.Seq != 6 || found.Cut != 5 || len(found.Records) != 1 || string(found.Snapshot.Payload) != "6" {
			t.Errorf("stored %+v, %v", found, err)
		}
		if _, err := d.store.Load(t.Context(), journal.LoadRequest{Entity: drivenEntity, WithoutSnapshot: true}); !errors.Is(err, journal.ErrTrimmed) {
			t.Errorf("without its snapshot: %v", err)
		}
	})
}

// TestNoSnapshotOfAPartlyReadState: what this version ignores is not lost by a snapshot.
func TestNoSnapshotOfAPartlyReadState(t *testing.T) {
	drive(t, abaci(&slowCut{}), func(t *testing.T, d *driven) {
		d.storeEvents(sharding.Event{Name: "counted", Version: 2, ReadableBy: 1, Payload: []byte(`{"By":3,"Why":"x"}`)})
		for range 4 {
			d.answer(d.send("Add", "1"))
		}
		found, err := d.store.Load(t.Context(), journal.LoadRequest{Entity: drivenEntity})
		if err != nil || found.Snapshot.Seq != 0 || found.LastSeq != 5 {
			t.Errorf("stored %+v, %v", found, err)
		}
	})
}
