package turn_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

var (
	aliceShard = sharding.ShardID{Type: "T", Index: 1}
	alice      = sharding.Entity{Type: "T", ID: "alice"}
)

// aliceSends is a record whose first send is pending, and whose second one is a dead letter.
func aliceSends() journal.SendEntry {
	row := journal.SendEntry{Shard: aliceShard, Entity: alice, Seq: 7, At: time.UnixMilli(1000), States: make(journal.SendStates, 1), Sends: make([]sharding.Send, 3)}
	for i := range row.Sends {
		row.Sends[i].Input.Command = string(rune('a' + i))
	}
	row.States.Deliver(3, &sharding.Delivered{Seq: 7, Sends: []uint16{1}, As: sharding.SendRefused})
	row.States.Deliver(3, &sharding.Delivered{Seq: 7, Sends: []uint16{2}, As: sharding.SendDone})
	return row
}

// TestSendRead: a send is looked for twice only if the first read finds it done.
func TestSendRead(t *testing.T) {
	away := errors.New("away")
	for _, c := range []struct {
		name  string
		place uint16
		dead  bool
		page  journal.SendsPage
		err   error
		state sharding.SendState
		code  sharding.Code
		last  bool
	}{
		{"pending", 0, false, journal.SendsPage{Entries: []journal.SendEntry{aliceSends()}}, nil, sharding.SendPending, "", true},
		{"a dead letter", 1, true, journal.SendsPage{Entries: []journal.SendEntry{aliceSends()}}, nil, sharding.SendRefused, "", true},
		{"not pending", 2, false, journal.SendsPage{Entries: []journal.SendEntry{aliceSends()}}, nil, sharding.SendDone, "", false},
		{"done", 2, true, journal.SendsPage{Entries: []journal.SendEntry{aliceSends()}}, nil, sharding.SendDone, "", true},
		{"no answer", 0, false, journal.SendsPage{}, away, sharding.SendDone, sharding.Unavailable, true},
		{"a damaged shard", 0, false, journal.SendsPage{Damaged: []journal.Damaged{{Err: journal.ErrCorrupt}}}, nil, sharding.SendDone, sharding.DataLoss, true},
	} {
		o := turn.ReadSend{Entity: alice, Shard: aliceShard, Seq: 7, Place: c.place}
		out, last := o.Answer(c.dead, c.page, c.err)
		if out.State != c.state || out.Code != c.code || last != c.last || (out.Err == "") != (c.code == "") {
			t.Errorf("%s: %+v, last %t", c.name, out, last)
		}
	}
}

// TestNotLoaded: what is damaged, or was trimmed, is not read again; everything else is.
func TestNotLoaded(t *testing.T) { notLoaded(t) }

func notLoaded(t testing.TB) {
	for _, c := range []struct {
		err   error
		code  sharding.Code
		retry bool
		text  string
	}{
		{fmt.Errorf("%w: T/alice, record 3", journal.ErrCorrupt), sharding.DataLoss, false, "is damaged"},
		{fmt.Errorf("%w: T/alice", journal.ErrTrimmed), sharding.DataLoss, false, "run a version that reads the snapshot"},
		{errors.New("connection refused"), sharding.Unavailable, true, "connection refused"},
		{context.DeadlineExceeded, sharding.Unavailable, true, "deadline"},
	} {
		in := turn.Loaded{Entity: alice}
		if in.NotFound(c.err); in.Entity != alice || in.Code != c.code || in.Retry != c.retry || !strings.Contains(in.Err, c.text) {
			t.Errorf("%v: %+v, want %s, retry %t, and %q", c.err, in, c.code, c.retry, c.text)
		}
	}
}
