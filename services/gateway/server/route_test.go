package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/latency"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/setting/settingtest"
	"github.com/roost-cluster/roost/libs/sharding"
	gatewayv1 "github.com/roost-cluster/roost/proto/roost/gateway/v1"
)

func (g *running) entities() gatewayv1.Entities {
	return gatewayv1.NewEntitiesProtobufClient(g.url, noRedirect)
}

func TestEntities(t *testing.T) {
	f := newFake(t, 1<<20)
	g := f.startReady(func(c *Config) { c.MaxItems = 50 })
	ctx, api := context.Background(), g.entities()
	ask := func(id, payload string) *gatewayv1.AskRequest {
		return &gatewayv1.AskRequest{Type: "Echo", Id: id, Command: "Do", Payload: []byte(payload), Encoding: gatewayv1.Encoding_ENCODING_PROTOBUF}
	}
	if r, err := api.Ask(ctx, ask("a", "x")); err != nil || string(r.Payload) != "x" || r.Encoding != gatewayv1.Encoding_ENCODING_PROTOBUF {
		t.Errorf("Ask: %v, %v", r, err)
	}
	keyed := ask("a", "x")
	keyed.IdempotencyKey, keyed.TimeoutMs = "k", 3000
	if _, err := api.Tell(ctx, keyed); err != nil {
		t.Error(err)
	}
	cmds := f.seen()
	if e := cmds[len(cmds)-1].Envelope; !e.Tell || !e.Keyed || e.ID != "k" || time.Until(e.Deadline) > 3*time.Second {
		t.Errorf("Tell sent %+v", e)
	}
	odd := ask("a", "x")
	odd.Encoding = 7
	if _, err := api.Ask(ctx, odd); err == nil || err.(twirp.Error).Code() != twirp.InvalidArgument || !strings.Contains(err.Error(), "encoding") {
		t.Errorf("an unknown encoding: %v", err)
	}

	before := len(f.seen())
	many := &gatewayv1.AskManyRequest{}
	for i := range 50 {
		many.Items = append(many.Items, ask(fmt.Sprint("e", i%5), fmt.Sprint(i)))
	}
	many.Items[7].Id = ""
	r, err := api.AskMany(ctx, many)
	if err != nil {
		t.Fatal(err)
	}
	for i, item := range r.Results {
		if i == 7 {
			if item.Error.GetCode() != "invalid_argument" || item.Error.GetOutcome() != "not_applied" {
				t.Errorf("item 7: %v", item)
			}
		} else if item.Error != nil || string(item.Payload) != fmt.Sprint(i) {
			t.Errorf("item %d: %v", i, item)
		}
	}
	last := map[sharding.EntityID]int{}
	for _, c := range f.seen()[before:] {
		var n int
		_ = json.Unmarshal(c.Envelope.Payload, &n)
		if before, ok := last[c.Envelope.Entity.ID]; ok && n < before {
			t.Errorf("%s: item %d came after %d", c.Envelope.Entity.ID, n, before)
		}
		last[c.Envelope.Entity.ID] = n
	}
	many.Items = append(many.Items, ask("a", "x"))
	if _, err := api.AskMany(ctx, many); err == nil || err.(twirp.Error).Code() != twirp.InvalidArgument {
		t.Errorf("51 items: %v", err)
	}

	f.reply(sharding.Reject(sharding.ResourceExhausted, "full"))
	_, err = api.Ask(ctx, ask("a", "x"))
	if e, ok := err.(twirp.Error); !ok || e.Code() != twirp.ResourceExhausted || e.Meta("outcome") != "not_applied" || e.Meta("retry_after_ms") != "200" {
		t.Errorf("Ask of a full region: %v", err)
	}
}

// TestNotMine: a refused epoch is reported to the coordinator, and the command is sent
// again at the next one.
func TestNotMine(t *testing.T) {
	f := newFake(t, 1<<20)
	var refused sharding.Epoch
	f.answer(func(c *link.Conn, cmd link.Command) {
		if refused == 0 || cmd.Epoch == refused {
			refused = cmd.Epoch
			_ = c.Send(link.Answer{Number: cmd.Number, NotMine: &link.NotMine{Refused: cmd.Epoch}})
			return
		}
		_ = c.Send(link.Answer{Number: cmd.Number, Reply: sharding.Reply{Outcome: sharding.Executed, Payload: []byte("{}")}})
	})
	g := f.startReady(nil)
	if got := g.do(t, http.MethodPost, "/v1/Echo/a/Do", "{}"); got.status != 200 {
		t.Fatalf("%+v", got)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.asked)
	if n < 2 || f.asked[0].Refused != 0 || f.asked[n-1].Refused != refused {
		t.Errorf("the coordinator was asked %v; refused was %v", f.asked, refused)
	}
}

// TestLinkLost: when a link is lost, a keyed command is sent again on the next one, any
// other is in doubt.
func TestLinkLost(t *testing.T) {
	f := newFake(t, 1<<20)
	g := f.startReady(nil)
	if got := g.do(t, http.MethodPost, "/v1/Echo/a/Do", "{}"); got.status != 200 {
		t.Fatalf("%+v", got)
	}
	cut := func(c *link.Conn, cmd link.Command) { f.answer(nil); c.Close() }
	f.answer(cut)
	if got := g.do(t, http.MethodPost, "/v1/Echo/a/Do", "{}", "Idempotency-Key", "k"); got.status != 200 {
		t.Errorf("with a key: %+v", got)
	}
	f.answer(cut)
	if got := g.do(t, http.MethodPost, "/v1/Echo/a/Do", "{}"); got.status != 503 || !strings.Contains(got.body, `"outcome":"unknown"`) {
		t.Errorf("without: %+v", got)
	}
	if got := g.do(t, http.MethodPost, "/v1/Echo/a/Do", "{}"); got.status != 200 {
		t.Errorf("on the next link: %+v", got)
	}
}

// TestCards: the coordinator learns where the gateway's operators reach it, and how its clients fare.
func TestCards(t *testing.T) {
	f := newFake(t, 1<<20)
	g := f.startReady(nil)
	for range 3 {
		if got := g.do(t, http.MethodPost, "/v1/Echo/a/Do", "{}"); got.status != 200 {
			t.Fatalf("%+v", got)
		}
	}
	g.turnedAway.Add(2)
	eventually(t, "all commands are reported", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		var commands, refused uint64
		var latencies latency.Histogram
		for _, c := range f.cards {
			commands, refused = commands+c.Commands, refused+c.Refused
			latencies.Merge(c.Latencies)
			if "http://"+c.Management != g.management {
				t.Fatalf("the management address is %s, want %s", c.Management, g.management)
			}
		}
		return commands == 5 && refused == 2 && latencies.Count() == 3
	})
}

// TestFallback: without a coordinator, the table of a region is used.
func TestFallback(t *testing.T) {
	f := newFake(t, 1<<20)
	f.mu.Lock()
	for i := range uint32(4) {
		f.host(i)
	}
	f.mu.Unlock()
	f.coordinator.Close()
	g := f.startReady(func(c *Config) { c.Discovery.URL += ",region@" + f.owner.Addr })
	if got := g.do(t, http.MethodPost, "/v1/Echo/a/Do", "{}"); got.status != 200 {
		t.Errorf("%+v", got)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.served["region"] == 0 || f.served["coordinator"] != 0 {
		t.Errorf("served by %v", f.served)
	}
}

func TestReadiness(t *testing.T) {
	f := newFake(t, 1<<20)
	f.coordinator.Close()
	g := f.start(nil)
	eventually(t, "alive", func() bool {
		res, err := http.Get(g.management + "/livez")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == 200
	})
	ask := func() (err error) {
		if e := g.router.Inside(context.Background(), func() error { err = g.readiness(); return nil }); e != nil {
			t.Fatal(e)
		}
		return err
	}
	if err := ask(); err == nil || !strings.Contains(err.Error(), "no route table") {
		t.Errorf("without table: %v", err)
	}
	row := sharding.Row{Shard: sharding.ShardID{Type: "Echo"}, Epoch: sharding.MakeEpoch(1, 1), Phase: sharding.Serving, Owner: sharding.NodeID{Addr: "127.0.0.1:1", UID: 3}}
	change := func(d sharding.TableDelta) {
		_ = g.router.Inside(context.Background(), func() error {
			in := router.Replied{From: "x:1", Asked: control.WatchTable{}, Msg: control.TableChanged{Delta: d}}
			g.router.Step(in)
			g.answered(in, nil)
			return nil
		})
	}
	change(sharding.TableDelta{Version: sharding.Version{Term: 1, N: 1}})
	if err := ask(); err == nil || !strings.Contains(err.Error(), "no region has registered") {
		t.Errorf("without types: %v", err)
	}
	change(sharding.TableDelta{Version: sharding.Version{Term: 1, N: 2}, Types: []sharding.TypeDesc{{Type: "Echo", Shards: 4}}})
	if err := ask(); err != nil {
		t.Errorf("without rows: %v", err)
	}
	change(sharding.TableDelta{Version: sharding.Version{Term: 1, N: 3}, Rows: []sharding.Row{row}})
	if err := ask(); err == nil || !strings.Contains(err.Error(), "no region can be reached") {
		t.Errorf("without links: %v", err)
	}
	g.stopping.Store(true)
	if err := ask(); err == nil || err.Error() != "draining" {
		t.Errorf("stopping: %v", err)
	}
}

// TestDrain: a gateway that stops finishes the commands that it has and refuses others.
func TestDrain(t *testing.T) {
	f := newFake(t, 1<<20)
	held := make(chan func(), 1)
	f.answer(func(c *link.Conn, cmd link.Command) {
		held <- func() {
			_ = c.Send(link.Answer{Number: cmd.Number, Reply: sharding.Reply{Outcome: sharding.Executed, Payload: []byte("{}")}})
		}
	})
	g := f.startReady(nil)
	got := make(chan answered, 1)
	go func() { got <- g.do(t, http.MethodPost, "/v1/Echo/a/Do", "{}") }()
	release := <-held
	g.stop()
	eventually(t, "stopping", func() bool { return g.stopping.Load() })
	if a := g.do(t, http.MethodPost, "/v1/Echo/a/Do", "{}"); a.status != 503 || !strings.Contains(a.body, `"outcome":"not_applied"`) {
		t.Errorf("a new command: %+v", a)
	}
	if g.isReady() {
		t.Error("ready while stopping")
	}
	release()
	if a := <-got; a.status != 200 {
		t.Errorf("the one in progress: %+v", a)
	}
}

// TestDrainOutOfTime: a command that does not end in time is answered before the gateway
// exits.
func TestDrainOutOfTime(t *testing.T) {
	f := newFake(t, 1<<20)
	arrived := make(chan struct{}, 1)
	f.answer(func(*link.Conn, link.Command) { arrived <- struct{}{} })
	g := f.startReady(func(c *Config) { c.ShutdownTimeout = drainReserve + 50*time.Millisecond })
	got := make(chan answered, 1)
	go func() { got <- g.do(t, http.MethodPost, "/v1/Echo/a/Do", "{}", "Roost-Timeout", "1m") }()
	<-arrived
	g.stop()
	if a := <-got; a.status != 503 || !strings.Contains(a.body, `"outcome":"unknown"`) {
		t.Errorf("%+v", a)
	}
}

// TestSettings: a value outside of its range is refused, and the error names the key.
func TestSettings(t *testing.T) {
	settingtest.Run(t, func() settingtest.Config { return new(DefaultConfig()) })
}

func TestConfig(t *testing.T) {
	if c := DefaultConfig(); c.Validate() != nil {
		t.Fatal(c.Validate())
	}
	for key, spoil := range map[string]func(*Config){
		"discovery.url": func(c *Config) { c.Discovery.URL = "" }, "gateway.timeout": func(c *Config) { c.Core.DefaultTimeout = 0 },
		"gateway.max_timeout": func(c *Config) { c.Core.MaxTimeout = time.Second }, "gateway.max_body": func(c *Config) { c.MaxPayload = 0 },
		"gateway.max_items": func(c *Config) { c.MaxItems = 0 }, "gateway.inbox": func(c *Config) { c.Inbox = 0 },
		"gateway.commands": func(c *Config) { c.Core.MaxTotal = 1 }, "gateway.command_bytes": func(c *Config) { c.Core.MaxTotalBytes = 1 },
		"gateway.shard_commands": func(c *Config) { c.Core.MaxWaiting = 0 }, "gateway.shard_bytes": func(c *Config) { c.Core.MaxWaitingBytes = 1 << 20 },
		"gateway.deferred_share": func(c *Config) { c.Core.DeferredShare = 1.1 },
		"gateway.refusals":       func(c *Config) { c.Refusals = -1 }, "gateway.lanes": func(c *Config) { c.Lanes = 0 },
		"service.read_timeout": func(c *Config) { c.ReadTimeout = c.Core.MaxTimeout }, "service.max_body": func(c *Config) { c.MaxBody = 1 },
	} {
		c := DefaultConfig()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
	c := DefaultConfig()
	c.MaxPayload++
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "regions take") {
		t.Errorf("payloads longer than a link carries: %v", err)
	}
}
