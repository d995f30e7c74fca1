package server

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	gatewayv1 "github.com/roost-cluster/roost/proto/roost/gateway/v1"
)

// replyBytes returns how many bytes of replies the core counts.
func (g *running) replyBytes(t *testing.T) (n int) {
	t.Helper()
	if err := g.router.Inside(t.Context(), func() error { n = g.router.Core().Stats().Replies; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLargeReplies: many of them at a time arrive, and count until the client has them.
func TestLargeReplies(t *testing.T) {
	f := newFake(t, 1<<20)
	g := f.startReady(nil)
	f.reply(sharding.Reply{Outcome: sharding.Executed, Payload: []byte(`"` + strings.Repeat("x", 300_000) + `"`)})
	req := &gatewayv1.AskManyRequest{}
	for range 200 {
		req.Items = append(req.Items, &gatewayv1.AskRequest{Type: "Echo", Id: "a", Command: "Get"})
	}
	res, err := gatewayv1.NewEntitiesProtobufClient(g.url, http.DefaultClient).AskMany(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range res.Results {
		if r.Error != nil || len(r.Payload) != 300_002 {
			t.Fatalf("item %d: %v, %d bytes", i, r.Error, len(r.Payload))
		}
	}
	if a := g.do(t, http.MethodPost, "/v1/Echo/a/Do", "1"); a.status != http.StatusOK || len(a.body) < 300_002 {
		t.Errorf("%d, %d bytes", a.status, len(a.body))
	}
	eventually(t, "given back", func() bool { return g.replyBytes(t) == 0 })
}

// TestRepliesOverBudget: commands whose replies would exceed the budget are refused, and
// what a request counts is given back when its client gives up.
func TestRepliesOverBudget(t *testing.T) {
	f := newFake(t, 1<<20)
	g := f.startReady(func(c *Config) { c.Core.MaxReplyBytes = 2 << 20 })
	held := make(chan func(), 1000)
	f.answer(func(c *link.Conn, cmd link.Command) {
		held <- func() {
			_ = c.Send(link.Answer{Number: cmd.Number, Reply: sharding.Reply{Outcome: sharding.Executed, Payload: make([]byte, 1<<19)}})
		}
	})
	req := &gatewayv1.AskManyRequest{}
	for range 200 {
		req.Items = append(req.Items, &gatewayv1.AskRequest{Type: "Echo", Id: "a", Command: "Get"})
	}
	ctx, giveUp := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := gatewayv1.NewEntitiesProtobufClient(g.url, http.DefaultClient).AskMany(ctx, req)
		done <- err
	}()
	eventually(t, "full", func() bool { return g.replyBytes(t) > 2<<20-20_000 })
	a := g.do(t, http.MethodPost, "/v1/Echo/a/Do", "1")
	if a.status != http.StatusTooManyRequests || !strings.Contains(a.body, `"outcome":"not_applied"`) || !strings.Contains(a.body, "replies") {
		t.Errorf("%+v", a)
	}
	(<-held)()
	giveUp()
	if err := <-done; err == nil {
		t.Error("an answer came")
	}
	eventually(t, "given back", func() bool { return g.replyBytes(t) == 0 })
}
