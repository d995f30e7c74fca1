package journaltest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// testHistory: the newest records come first, with their times and sizes, in pages that have neither
// too many records nor too many bytes, through a handle that writes and through one that reads.
func testHistory(e *env) {
	who := sharding.Entity{Type: "History", ID: "h"}
	other := sharding.Entity{Type: "History", ID: "g"}
	s := sharding.ShardID{Type: who.Type, Index: 3}
	e.commit(claim(s, epoch, 1))
	for seq := uint64(1); seq <= 9; seq++ {
		for _, of := range []sharding.Entity{other, who} {
			r := record(seq, sharding.CommandID(fmt.Sprint("c", seq)))
			r.Events = []sharding.Event{{Name: "Added", Payload: bytes.Repeat([]byte{'x'}, 1000)}}
			e.one(durable, journal.Op{Append: &sharding.Append{Shard: s, Epoch: epoch, Entity: of, Records: []sharding.Record{r}}})
		}
	}
	e.one(durable, journal.Op{Snapshot: &journal.WriteSnapshot{
		Shard: s, Epoch: epoch, Entity: who, Snapshot: journal.Snapshot{Seq: 7, Payload: bytes.Repeat([]byte{'s'}, 500)},
	}})
	for what, r := range map[string]journal.Reader{"backend": e.b, "reader": e.openReader()} { // order-free: each one separately
		for _, x := range []struct {
			before       uint64
			limit, bytes int
			want         []uint64
			more         bool
		}{
			{0, 100, 1 << 20, []uint64{9, 8, 7, 6, 5, 4, 3, 2, 1}, false},
			{0, 9, 1 << 20, []uint64{9, 8, 7, 6, 5, 4, 3, 2, 1}, false},
			{0, 3, 1 << 20, []uint64{9, 8, 7}, true},
			{7, 3, 1 << 20, []uint64{6, 5, 4}, true},
			{2, 3, 1 << 20, []uint64{1}, false},
			{1, 3, 1 << 20, nil, false},
			{0, 100, 1, []uint64{9}, true},
			{0, 100, 2000, []uint64{9, 8}, true},
			{math.MaxUint64, 1, 1, []uint64{9}, true},
		} {
			h, err := r.History(e.Context(), journal.HistoryRequest{Entity: who, Before: x.before, Limit: x.limit, Bytes: x.bytes})
			if err != nil {
				e.Fatalf("%s: history of %+v: %v", what, x, err)
			}
			var got []uint64
			for i := range h.Records {
				y := &h.Records[i]
				got = append(got, y.Seq)
				if y.Err != nil || y.Record.Seq != y.Seq || y.Epoch != epoch || y.At.IsZero() || y.Bytes < 1000 || y.Bytes > 1200 ||
					len(y.Record.Events) != 1 || len(y.Record.Events[0].Payload) != 1000 || y.Record.Command != sharding.CommandID(fmt.Sprint("c", y.Seq)) {
					e.Errorf("%s: record %+v", what, y)
				}
			}
			if !slices.Equal(got, x.want) || h.More != x.more || h.LastSeq != 9 || h.SnapshotSeq != 7 || h.SnapshotBytes < 500 || h.SnapshotBytes > 700 {
				e.Errorf("%s: %+v: got records %v, more %v, last %d, snapshot at %d of %d bytes", what, x, got, h.More, h.LastSeq, h.SnapshotSeq, h.SnapshotBytes)
			}
		}
		h, err := r.History(e.Context(), journal.HistoryRequest{Entity: sharding.Entity{Type: "History", ID: "none"}, Limit: 5, Bytes: 5})
		if err != nil || h.LastSeq != 0 || len(h.Records) > 0 || h.More {
			e.Errorf("%s: history of an entity that is not stored: %+v, %v", what, h, err)
		}
	}
	if e.store.Damage == nil {
		return
	}
	if err := e.store.Damage(who, 8); err != nil {
		e.Fatal(err)
	}
	h, err := e.openReader().History(e.Context(), journal.HistoryRequest{Entity: who, Limit: 3, Bytes: 1 << 20})
	if err != nil || len(h.Records) != 3 || h.Records[0].Err != nil || !errors.Is(h.Records[1].Err, journal.ErrCorrupt) || h.Records[2].Err != nil {
		e.Errorf("with a damaged record: %+v, %v", h, err)
	}
}
