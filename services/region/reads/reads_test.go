package reads_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/purge"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/region/reads"
)

var (
	shard = sharding.ShardID{Type: "T", Index: 1}
	alice = sharding.Entity{Type: "T", ID: "alice"}
	now   = time.UnixMilli(1000)
)

// sends is a record of which the first send is pending, and the second one a dead letter.
func sends() journal.SendRow {
	row := journal.SendRow{Shard: shard, Entity: alice, Seq: 7, At: now, States: make(journal.SendStates, 1), Sends: make([]sharding.Send, 3)}
	for i := range row.Sends {
		row.Sends[i].Input.Command = string(rune('a' + i))
	}
	row.States.Deliver(3, &sharding.Delivered{Seq: 7, Sends: []uint16{1}, As: sharding.SendRefused})
	row.States.Deliver(3, &sharding.Delivered{Seq: 7, Sends: []uint16{2}, As: sharding.SendDone})
	return row
}

// TestPendingSends: only what is pending is delivered, also of a record of which some has ended.
func TestPendingSends(t *testing.T) {
	o, bad := outbox.Read{Number: 3}, journal.SendRow{Shard: shard, Entity: alice, Seq: 8, Err: journal.ErrCorrupt}
	got := reads.SendsPage(o, journal.SendsPage{Now: now, Rows: []journal.SendRow{sends(), bad}, Damaged: []journal.Damaged{{Shard: shard}}}, nil)
	want := outbox.Page{Number: 3, Now: now, Failed: []sharding.ShardID{shard}, Records: []outbox.Record{
		{Shard: shard, Entity: alice, Seq: 7, At: now, Sends: []outbox.Pending{{Place: 0, Send: sends().Sends[0]}}},
		{Shard: shard, Entity: alice, Seq: 8, Err: journal.ErrCorrupt.Error()},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
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
		{"pending", 0, false, journal.SendsPage{Rows: []journal.SendRow{sends()}}, nil, sharding.SendPending, "", true},
		{"a dead letter", 1, true, journal.SendsPage{Rows: []journal.SendRow{sends()}}, nil, sharding.SendRefused, "", true},
		{"not pending", 2, false, journal.SendsPage{Rows: []journal.SendRow{sends()}}, nil, sharding.SendDone, "", false},
		{"done", 2, true, journal.SendsPage{Rows: []journal.SendRow{sends()}}, nil, sharding.SendDone, "", true},
		{"no answer", 0, false, journal.SendsPage{}, away, sharding.SendDone, sharding.Unavailable, true},
		{"a damaged shard", 0, false, journal.SendsPage{Damaged: []journal.Damaged{{Err: journal.ErrCorrupt}}}, nil, sharding.SendDone, sharding.DataLoss, true},
	} {
		out, last := reads.ReadSendDone(turn.ReadSend{Entity: alice, Shard: shard, Seq: 7, Place: c.place}, c.dead, c.page, c.err)
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
		if reads.NotLoaded(&in, c.err); in.Entity != alice || in.Code != c.code || in.Retry != c.retry || !strings.Contains(in.Err, c.text) {
			t.Errorf("%v: %+v, want %s, retry %t, and %q", c.err, in, c.code, c.retry, c.text)
		}
	}
}

// TestDeletedPage: a page that could not be read says why, and one with damaged shards names them.
func TestDeletedPage(t *testing.T) {
	if p := reads.DeletedPage(purge.Read{Number: 2}, journal.WakesPage{}, errors.New("away")); p.Number != 2 || p.Err != "away" {
		t.Errorf("%+v", p)
	}
	if p := reads.DeletedPage(purge.Read{Number: 2}, journal.WakesPage{Damaged: []journal.Damaged{{Shard: shard}}}, nil); p.Err != "" || len(p.Failed) != 1 || p.Failed[0] != shard {
		t.Errorf("%+v", p)
	}
	req := reads.Deleted(purge.Read{Until: 5, Limit: 9, Shards: []sharding.ShardID{shard}})
	if req.Until != journal.PurgeFrom+5 || req.Limit != 9 || len(req.Shards) != 1 || req.Shards[0].After.Due != journal.PurgeFrom {
		t.Errorf("%+v", req)
	}
}
