package server

import (
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// TestOperateUnusedShard: an operator's command has the shard of its entity allocated, as the
// command of a gateway has. What no region took is answered as not applied, with the reason.
func TestOperateUnusedShard(t *testing.T) {
	r, _, admin := standing(t)
	t.Cleanup(r.end) // while its region is there: it would wait for one that has gone
	where := func() *adminv1.Shard {
		t.Helper()
		res, err := admin.Where(t.Context(), &adminv1.WhereRequest{Type: "U", Id: "new"})
		if err != nil {
			t.Fatal(err)
		}
		return res.Shard
	}
	if s := where(); s.Region != "" {
		t.Fatalf("the shard has an owner: %v", s)
	}
	res, err := admin.Command(t.Context(), &adminv1.CommandRequest{
		Type: "U", Id: "new", Command: sharding.DeleteCommand, IdempotencyKey: "k", Reason: "test", TimeoutMs: 1000,
	})
	if err != nil || res.Outcome != "rejected" || res.Code != "deadline_exceeded" || !strings.Contains(res.Message, "not applied within its time: ") {
		t.Errorf("a region without a link has answered %v, %v", res, err)
	}
	if s := where(); s.Region != "region-1" || s.Phase != "serving" {
		t.Errorf("the shard is not served: %v", s)
	}
}

// TestSendAgainToNobody: a dead letter is not sent again to a type that no region declares.
func TestSendAgainToNobody(t *testing.T) {
	r, _, admin := standing(t)
	t.Cleanup(r.end)
	from := sharding.Entity{Type: "T", ID: "lost"}
	shard := sharding.ShardID{Type: "T", Index: sharding.ShardOf(from.ID, 3)}
	sends := []sharding.Send{
		{To: sharding.Entity{Type: "Zoo", ID: "z"}, Input: sharding.Input{Command: "Take"}},
		{To: sharding.Entity{Type: "U", ID: "u"}, Input: sharding.Input{Command: "Take"}},
	}
	r.commit(journal.Op{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: from, Records: []sharding.Record{{Seq: 1, Sends: sends}}}})
	r.commit(journal.Op{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: from, Delivered: []sharding.Delivered{{Seq: 1, Sends: []uint16{0, 1}, As: sharding.SendRefused}}}})
	for _, test := range []struct{ command, input, want string }{
		{sharding.SendAgainCommand, `{"record":1,"place":0}`, "rejected not_found not applied: the target is Zoo/z, and no region declares the type Zoo; declared are [T U V]"},
		{sharding.SendAgainCommand, `{"record":1,"place":1}`, "rejected deadline_exceeded"}, // the fake region executes nothing
		{sharding.SendDropCommand, `{"record":1,"place":0}`, "rejected deadline_exceeded"},
	} {
		res, err := admin.Command(t.Context(), &adminv1.CommandRequest{
			Type: "T", Id: "lost", Command: test.command, Payload: []byte(test.input), IdempotencyKey: "k", Reason: "test", TimeoutMs: 500,
		})
		if err != nil || !strings.HasPrefix(res.Outcome+" "+res.Code+" "+res.Message, test.want) {
			t.Errorf("%s %s: %v, %v; want %s", test.command, test.input, res, err, test.want)
		}
	}
}
