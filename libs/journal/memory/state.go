package memory

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// AppendState appends a canonical description of everything that determines the
// ledger's future answers, with times relative to now: two ledgers with the same
// description behave the same.
func (l *Ledger) AppendState(b []byte, now time.Time) []byte {
	b = sharding.AppendString(b, l.facts.Cluster)
	for _, t := range l.facts.Types {
		b = sharding.AppendString(b, string(t.Type))
		b = binary.AppendUvarint(b, uint64(t.Shards))
	}
	b = append(b, 0xff)
	for _, s := range slices.SortedFunc(maps.Keys(l.fences), sharding.ShardID.Compare) {
		b = sharding.AppendString(b, string(s.Type))
		b = binary.AppendUvarint(b, uint64(s.Index))
		b = binary.AppendUvarint(b, uint64(l.fences[s].Epoch))
		b = binary.AppendUvarint(b, uint64(l.fences[s].Owner))
		b = appendTime(b, l.expired[s], now)
	}
	b = append(b, 0xff)
	for _, id := range l.ids() {
		b = l.entities[id].appendState(sharding.AppendString(sharding.AppendString(b, string(id.Type)), string(id.ID)), now)
	}
	return b
}

func (e *entity) appendState(b []byte, now time.Time) []byte {
	b = binary.AppendUvarint(b, e.snapshot.Seq)
	b = binary.AppendUvarint(b, e.life)
	b = binary.AppendUvarint(b, e.cut)
	b = binary.AppendUvarint(b, e.stripped)
	b = binary.AppendUvarint(b, e.swept)
	b = append(b, byte(e.snapshot.Encoding))
	b = sharding.AppendString(b, string(e.snapshot.Payload))
	b = binary.AppendUvarint(b, uint64(e.expireIndex))
	b = binary.AppendUvarint(b, uint64(e.neverDropped))
	last := e.stamp()
	b = binary.AppendUvarint(b, last.Writer)
	b = binary.AppendVarint(b, last.Elapsed)
	b = appendTime(b, e.dropped, now)
	b = binary.AppendUvarint(b, uint64(len(e.damaged)))
	for _, seq := range e.damaged {
		b = binary.AppendUvarint(b, seq)
	}
	b = binary.AppendUvarint(b, uint64(len(e.entries)))
	for i := range e.entries {
		x := &e.entries[i]
		b = binary.AppendUvarint(b, uint64(x.epoch))
		b = binary.AppendVarint(b, int64(last.Age-x.stamp.Age))
		b = appendTime(b, x.wall, now)
		b = appendRecord(b, &x.record, now)
	}
	return e.appendRows(b, now)
}

func appendRecord(b []byte, r *sharding.Record, now time.Time) []byte {
	b = binary.AppendUvarint(b, r.Seq)
	b = sharding.AppendString(b, string(r.Command))
	b = append(b, r.Hash[:]...)
	b = append(b, byte(r.Reply.Outcome), byte(r.Reply.Encoding))
	b = sharding.AppendString(b, string(r.Reply.Code))
	b = sharding.AppendString(b, r.Reply.Message)
	b = sharding.AppendString(b, string(r.Reply.Payload))
	b = binary.AppendUvarint(b, uint64(len(r.Events)))
	for i := range r.Events {
		b = append(sharding.AppendString(b, r.Events[i].Name), byte(r.Events[i].Encoding))
		b = sharding.AppendString(b, string(r.Events[i].Payload))
	}
	for _, w := range r.Wakes {
		if w.Due != 0 {
			w.Due -= now.UnixMilli()
		}
		b = fmt.Append(b, w)
	}
	if len(r.Sends) > 0 {
		b = fmt.Append(b, r.Sends)
	}
	if r.Delete {
		b = append(b, "delete"...)
	}
	return b
}

func appendTime(b []byte, t, now time.Time) []byte {
	if t.IsZero() {
		return append(b, 0)
	}
	return binary.AppendVarint(append(b, 1), int64(now.Sub(t)))
}
