package journaltest

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

const (
	durable = sharding.Durable
	byEpoch = sharding.RefusedEpoch
	bySeq   = sharding.RefusedSeq
	byID    = sharding.RefusedCommand
)

type verdicts = []sharding.Verdict

var (
	shard = sharding.ShardID{Type: "Account", Index: 3}
	alice = sharding.Entity{Type: "Account", ID: "alice"}
	bob   = sharding.Entity{Type: "Account", ID: "bob"}
	carol = sharding.Entity{Type: "Account", ID: "carol"}
)

const epoch = sharding.Epoch(7<<32 | 1)

func claim(s sharding.ShardID, e sharding.Epoch, owner sharding.NodeUID) journal.Op {
	return journal.Op{Claim: &sharding.Claim{Shard: s, Epoch: e, Owner: owner}}
}

func fence(s sharding.ShardID, e sharding.Epoch) journal.Op {
	return journal.Op{Fence: &sharding.ReadFence{Shard: s, Epoch: e}}
}

func appendAt(e sharding.Epoch, to sharding.Entity, records ...sharding.Record) journal.Op {
	return journal.Op{Append: &sharding.Append{Shard: shard, Epoch: e, Entity: to, Records: records}}
}

// add appends at the epoch that most tests claim.
func add(to sharding.Entity, records ...sharding.Record) journal.Op {
	return appendAt(epoch, to, records...)
}

// form is the form of all snapshots here.
var form = sharding.SnapshotForm{Version: 7, Shape: 1<<63 | 5}

func snapshot(e sharding.Epoch, of sharding.Entity, seq uint64, payload string) journal.Op {
	return journal.Op{Snapshot: &journal.WriteSnapshot{Shard: shard, Epoch: e, Entity: of,
		Snapshot: journal.Snapshot{Seq: seq, Encoding: sharding.Protobuf, Form: form, Payload: []byte(payload)}}}
}

// drop drops the snapshot of an entity that was read up to seq.
func drop(of sharding.Entity, seq uint64) journal.Op {
	return journal.Op{Drop: &journal.DropSnapshot{Shard: shard, Entity: of, Seq: seq}}
}

// record is a record as a turn of a keyed command leaves it.
func record(seq uint64, command sharding.CommandID) sharding.Record {
	return sharding.Record{
		Seq:     seq,
		Command: command,
		Hash:    sharding.CommandHash("", "Do", []byte(command)),
		Events:  []sharding.Event{{Name: "Done", Payload: fmt.Appendf(nil, `{"n":%d}`, seq)}},
		Reply:   sharding.Reply{Outcome: sharding.Executed, Payload: fmt.Appendf(nil, `{"seq":%d}`, seq)},
	}
}

// blank is the record that settles an unknown outcome.
func blank(seq uint64) sharding.Record { return sharding.Record{Seq: seq} }

func records(first uint64, commands ...sharding.CommandID) []sharding.Record {
	var rs []sharding.Record
	for i, c := range commands {
		rs = append(rs, record(first+uint64(i), c))
	}
	return rs
}

// key7 is a UUID of version 7 made at t; n tells keys of the same moment apart.
func key7(t time.Time, n byte) sharding.CommandID {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(t.UnixMilli())<<16)
	b[6], b[8], b[15] = 0x70, 0x80, n
	h := hex.EncodeToString(b[:])
	return sharding.CommandID(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:])
}

// withoutReplies returns records as a load returns them: it leaves their replies out.
func withoutReplies(rs ...sharding.Record) []sharding.Record {
	rs = slices.Clone(rs)
	for i := range rs {
		rs[i].Reply = sharding.Reply{}
	}
	return rs
}
