package server

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
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
	if err != nil || res.Outcome != "not_applied" || res.Code != "deadline_exceeded" || !strings.Contains(res.Message, "not applied within its time: ") {
		t.Errorf("a region without a link has answered %v, %v", res, err)
	}
	if s := where(); s.Region != "region-1" || s.Phase != "serving" {
		t.Errorf("the shard is not served: %v", s)
	}
}

// TestOperateInDoubt: an attempt that the region has taken and not answered leaves a doubt, which a
// refusal of the next one, under the same key, does not remove.
func TestOperateInDoubt(t *testing.T) {
	r, f, admin := standing(t)
	t.Cleanup(r.end)
	cfg := link.DefaultConfig()
	cfg.Cluster, cfg.Self = "dev", f.self
	var mu sync.Mutex
	var keys []sharding.CommandID
	server, err := link.NewServer(cfg, func(c *link.Conn, commands []link.Command) {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, commands[0].Envelope.ID)
		if len(keys) == 1 {
			c.Close()
			return
		}
		_ = c.Send(link.Answer{Number: commands[0].Number, Reply: sharding.Reject(sharding.FailedPrecondition, "sold out")})
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.mux.Handle(link.Path, server)
	t.Cleanup(func() { _ = server.Close(context.WithoutCancel(t.Context())) })
	res, err := admin.Command(t.Context(), &adminv1.CommandRequest{
		Type: "U", Id: "new", Command: sharding.DeleteCommand, IdempotencyKey: "k", Reason: "test", TimeoutMs: 20_000,
	})
	if err != nil || res.Outcome != "unknown" || res.Code != "failed_precondition" || res.Region != "region-1" || !strings.Contains(res.Message, "send it again under the same key: sold out") {
		t.Errorf("%v, %v", res, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(keys, []sharding.CommandID{"k", "k"}) {
		t.Errorf("the keys of the attempts are %v, want k twice", keys)
	}
}

// TestOperateRefusesInput: what is wrong with a request is said with the field and its limit.
func TestOperateRefusesInput(t *testing.T) {
	good := func() *adminv1.CommandRequest {
		return &adminv1.CommandRequest{Type: "U", Id: "new", Command: sharding.DeleteCommand, IdempotencyKey: "k", Reason: "test"}
	}
	if _, err := toOperation(&adminv1.CommandRequest{Type: "T", Id: "e", Command: "Add", IdempotencyKey: "k", Reason: "why"}, true); err != nil {
		t.Errorf("with coordinator.try_commands, any command can be sent: %v", err)
	}
	if _, err := toOperation(good(), false); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*adminv1.CommandRequest){
		"timeout_ms is 4611686018427387904; choose at most 50000, or 0 for 10000": func(r *adminv1.CommandRequest) { r.TimeoutMs = 1 << 62 },
		"payload has 1048577 bytes, at most 1048576 are allowed":                  func(r *adminv1.CommandRequest) { r.Payload = make([]byte, 1<<20+1) },
		`"Add" is not a built-in command`:                                         func(r *adminv1.CommandRequest) { r.Command = "Add" },
	} {
		req := good()
		change(req)
		if _, err := toOperation(req, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestSendAgainToNobody: a dead letter is not sent again to a type that no region declares.
func TestSendAgainToNobody(t *testing.T) {
	r, _, admin := standing(t)
	t.Cleanup(r.end)
	from := sharding.Entity{Type: "T", ID: "lost"}
	shard := sharding.ShardID{Type: "T", Index: shardingtest.ShardOf(from.ID, 3)}
	sends := []sharding.Send{
		{To: sharding.Entity{Type: "Zoo", ID: "z"}, Input: sharding.Input{Command: "Take"}},
		{To: sharding.Entity{Type: "U", ID: "u"}, Input: sharding.Input{Command: "Take"}},
	}
	r.commit(journal.Op{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: from, Records: []sharding.Record{{Seq: 1, Sends: sends}}}})
	r.commit(journal.Op{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: from, Delivered: []sharding.Delivered{{Seq: 1, Sends: []uint16{0, 1}, As: sharding.SendRefused}}}})
	for _, test := range []struct{ command, input, want string }{
		{sharding.SendAgainCommand, `{"record":1,"place":0}`, "not_applied not_found not applied: the target is Zoo/z, and no region declares the type Zoo; declared are T, U, V"},
		{sharding.SendAgainCommand, `{"record":1,"place":1}`, "not_applied deadline_exceeded"}, // the fake region executes nothing
		{sharding.SendDropCommand, `{"record":1,"place":0}`, "not_applied deadline_exceeded"},
	} {
		res, err := admin.Command(t.Context(), &adminv1.CommandRequest{
			Type: "T", Id: "lost", Command: test.command, Payload: []byte(test.input), IdempotencyKey: "k", Reason: "test", TimeoutMs: 500,
		})
		if err != nil || !strings.HasPrefix(res.Outcome+" "+res.Code+" "+res.Message, test.want) {
			t.Errorf("%s %s: %v, %v; want %s", test.command, test.input, res, err, test.want)
		}
	}
}
