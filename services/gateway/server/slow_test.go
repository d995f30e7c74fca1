package server

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// TestSlowCommands: the slowest commands are kept with where their time went, whatever their clients have named
// them. What a call that was given up may still be written is not read.
func TestSlowCommands(t *testing.T) {
	s := &Server{cfg: &Config{}, self: sharding.NodeID{UID: 77}}
	s.cfg.ClusterName = "dev"
	c := &call{arrived: time.Now().Add(-time.Second)}
	c.Env = sharding.Envelope{
		Entity: sharding.Entity{Type: "Cart", ID: "a\xff"}, Command: "Add", Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	c.finish = router.Finish{Region: sharding.NodeID{Addr: "10.0.0.1:1"}, Reply: sharding.Reply{Timing: sharding.Timing{Mailbox: time.Millisecond, Handler: 2 * time.Millisecond, Journal: 3 * time.Millisecond}}}
	c.from = "[::ffff:10.0.0.7]:4711"
	s.keepSlow(c, nil, 2)
	gone := &call{arrived: time.Now().Add(-2 * time.Second), finish: c.finish}
	gone.Env.Entity = sharding.Entity{Type: "Cart", ID: sharding.EntityID(strings.Repeat("x", 2*sharding.MaxIDLen))}
	s.keepSlow(gone, &failure{code: sharding.Unavailable}, 0)

	i := inspection{s}
	res, err := i.Slow(t.Context(), &inspectionv1.SlowRequest{Cluster: "dev", To: 77, Limit: 5000})
	if err != nil || len(res.Commands) != 2 {
		t.Fatal(res, err)
	}
	if x := res.Commands[0]; x.Id != "a\ufffd" || x.Region != "10.0.0.1:1" || x.Attempts != 2 || x.Trace != "0af7651916cd43dd8448eb211c80319c" || x.TotalUs < 900_000 || x.MailboxUs != 1000 || x.HandlerUs != 2000 || x.JournalUs != 3000 || x.Code != "" || x.Origin != "" || x.From != "10.0.0.7" {
		t.Errorf("the newest is %v", x)
	}
	if x := res.Commands[1]; len(x.Id) > sharding.MaxIDLen || x.Region != "" || x.JournalUs != 0 || x.Code != "unavailable" || x.From != "" {
		t.Errorf("the one that was given up is %v", x)
	}
	for _, req := range []*inspectionv1.SlowRequest{{Cluster: "other", To: 77}, {Cluster: "dev", To: 78}} {
		_, err := i.Slow(t.Context(), req)
		if e, ok := err.(twirp.Error); !ok || e.Code() != twirp.FailedPrecondition {
			t.Errorf("%v: %v", req, err)
		}
	}
}

// TestSlowClient: what is kept names the client, by both APIs. Behind a proxy that is trusted, that is not the proxy.
func TestSlowClient(t *testing.T) {
	g := newFake(t, 1<<20).startReady(func(c *Config) { c.TrustedProxies = []string{"127.0.0.1"} })
	g.do(t, "POST", "/v1/Echo/a/Do", `"x"`)
	g.do(t, "POST", "/v1/Echo/b/Do", `"x"`, "X-Forwarded-For", "10.0.0.7")
	g.do(t, "POST", "/twirp/roost.gateway.v1.Entities/Ask", `{"type":"Echo","id":"c","command":"Do","payload":"IngK"}`, "Content-Type", "application/json", "X-Forwarded-For", "10.0.0.8")
	g.do(t, "POST", "/twirp/roost.gateway.v1.Entities/AskMany", `{"items":[{"type":"Echo","id":"d","command":"Do","payload":"IngK"}]}`, "Content-Type", "application/json", "X-Forwarded-For", "2001:db8::1")
	from := map[sharding.EntityID]string{}
	for _, e := range g.slow.List(100) {
		from[e.Entity.ID] = e.From
	}
	if want := map[sharding.EntityID]string{"a": "127.0.0.1", "b": "10.0.0.7", "c": "10.0.0.8", "d": "2001:db8::1"}; !maps.Equal(from, want) {
		t.Errorf("the clients are %v, want %v", from, want)
	}
}
