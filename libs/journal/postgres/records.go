package postgres

import (
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// recordArgs are the records of appends, by column.
type recordArgs struct {
	entity      []int32
	seq         []int64
	command     [][]byte
	time        []*int64
	forever     []bool
	body, reply [][]byte

	forms []byte // what body and reply point into
}

// newRecordArgs has room for the records of the appends at some places of ops.
func newRecordArgs(ops []journal.Op, places []int) recordArgs {
	n, size := 0, 0
	for _, i := range places {
		if a := ops[i].Append; a != nil {
			n += len(a.Records)
			size += ops[i].Size()
		}
	}
	return recordArgs{
		entity: make([]int32, 0, n), seq: make([]int64, 0, n), command: make([][]byte, 0, n), time: make([]*int64, 0, n),
		forever: make([]bool, 0, n), body: make([][]byte, 0, n), reply: make([][]byte, 0, n), forms: make([]byte, 0, size),
	}
}

// add adds the records of an append. It returns how many of their keys may expire some day, and
// the oldest time in the keys in Unix milliseconds, nil if there is none.
func (x *recordArgs) add(a *sharding.Append, entity int32, wall time.Time, cfg *journal.Config) (keys int32, oldest *int64) {
	for n := range a.Records {
		r := &a.Records[n]
		var command []byte
		var at *int64
		if r.Command != "" {
			command, at = []byte(r.Command), keyMillis(r.Command)
		}
		if at != nil && (oldest == nil || *at < *oldest) {
			oldest = at
		}
		forever := cfg.Ahead(wall, r.Command)
		if r.Command != "" && !forever {
			keys++
		}
		x.entity, x.seq, x.command = append(x.entity, entity), append(x.seq, int64(r.Seq)), append(x.command, command)
		x.time, x.forever = append(x.time, at), append(x.forever, forever)
		start := len(x.forms)
		x.forms = journal.AppendRecord(x.forms, a.Entity, a.Epoch, wall, r)
		end := len(x.forms)
		x.body = append(x.body, x.forms[start:end:end])
		x.forms = journal.AppendReply(x.forms, a.Entity, r)
		var reply []byte // null if there is none
		if len(x.forms) > end {
			reply = x.forms[end:len(x.forms):len(x.forms)]
		}
		x.reply = append(x.reply, reply)
	}
	return keys, oldest
}

// keyMillis is the time inside a key in Unix milliseconds, nil if it has none.
func keyMillis(c sharding.CommandID) *int64 {
	t, ok := journal.KeyTime(c)
	if !ok {
		return nil
	}
	ms := t.UnixMilli()
	return &ms
}
