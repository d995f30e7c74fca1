package server

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/sharding"
)

// fake is a cluster in one process: a coordinator and a region, at one address each, whose
// behaviour the test sets.
type fake struct {
	t                   *testing.T
	coordinator, region *httptest.Server
	links               *link.Server
	owner               sharding.NodeID

	mu       sync.Mutex
	version  uint64
	epoch    sharding.Epoch
	asked    []control.GetShardHome
	cards    []control.Card
	rows     []sharding.Row
	changed  chan struct{} // closed at the next change
	served   map[string]int
	conns    []*link.Conn
	commands []link.Command
	onCmd    func(*link.Conn, link.Command) // answers; nil: echo
}

// newFake starts a cluster that hosts type Echo, with the commands Do, and Get
// which is read-only. Its regions take payloads up to maxPayload.
func newFake(t *testing.T, maxPayload int) *fake {
	f := &fake{t: t, version: 1, epoch: 1 << 32, changed: make(chan struct{}), served: map[string]int{}}
	mux := http.NewServeMux()
	f.region = httptest.NewServer(mux)
	t.Cleanup(f.region.Close)
	f.owner = sharding.NodeID{Addr: strings.TrimPrefix(f.region.URL, "http://"), UID: 77}
	cfg := link.DefaultConfig()
	cfg.Cluster, cfg.Self, cfg.MaxPayload = "test", f.owner, maxPayload
	var err error
	if f.links, err = link.NewServer(cfg, f.onCommands, nil); err != nil {
		t.Fatal(err)
	}
	mux.Handle(link.Path, f.links)
	mux.Handle(rpc.PathPrefix, rpc.Handler("test", f.owner, control.Region, nil, fakeRegion{f}, slog.New(slog.DiscardHandler)))
	mux = http.NewServeMux()
	mux.Handle(rpc.PathPrefix, rpc.Handler("test", sharding.NodeID{}, control.Coordinator, nil, f, slog.New(slog.DiscardHandler)))
	f.coordinator = httptest.NewServer(mux)
	t.Cleanup(f.coordinator.Close)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = f.links.Close(ctx)
	})
	return f
}

func (f *fake) onCommands(conn *link.Conn, cmds []link.Command) {
	f.mu.Lock()
	f.conns = append(f.conns, conn)
	f.commands = append(f.commands, cmds...)
	answer := f.onCmd
	f.mu.Unlock()
	for _, c := range cmds {
		if answer != nil {
			answer(conn, c)
			continue
		}
		_ = conn.Send(link.Answer{Number: c.Number, Reply: sharding.Reply{
			Outcome: sharding.Executed, Encoding: c.Envelope.Encoding, Payload: c.Envelope.Payload,
			Timing: sharding.Timing{Mailbox: time.Microsecond, Handler: 2 * time.Microsecond, Journal: 3 * time.Microsecond},
		}})
	}
}

// reply makes the region answer all commands with r.
func (f *fake) reply(r sharding.Reply) {
	f.answer(func(c *link.Conn, cmd link.Command) { _ = c.Send(link.Answer{Number: cmd.Number, Reply: r}) })
}

func (f *fake) answer(do func(*link.Conn, link.Command)) {
	f.mu.Lock()
	f.onCmd = do
	f.mu.Unlock()
}

func (f *fake) seen() []link.Command {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]link.Command(nil), f.commands...)
}

// host makes the region serve a shard at a new epoch. f.mu is held.
func (f *fake) host(index uint32) {
	f.epoch++
	f.version++
	f.rows = append(f.rows, sharding.Row{
		Shard: sharding.ShardID{Type: "Echo", Index: index}, Epoch: f.epoch, Phase: sharding.Serving, Owner: f.owner,
	})
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fake) table(by string) control.Message {
	f.served[by]++
	return control.TableChanged{Delta: sharding.TableDelta{
		Version: sharding.Version{Term: 1, N: f.version}, Full: true, Rows: slices.Clone(f.rows),
		Types: []sharding.TypeDesc{{Type: "Echo", Shards: 4, Commands: []sharding.CommandDesc{{Name: "Do"}, {Name: "Get", ReadOnly: true}}}},
	}}
}

// Answer is the coordinator's: a watch waits for a change.
func (f *fake) Answer(ctx context.Context, _ sharding.NodeID, m control.Message, _ int) (control.Message, error) {
	f.mu.Lock()
	if c := m.(control.WatchTable).Card; c.Span > 0 {
		f.cards = append(f.cards, c)
	}
	if m.(control.WatchTable).Version.N == f.version {
		changed := f.changed
		f.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
		f.mu.Lock()
	}
	defer f.mu.Unlock()
	return f.table("coordinator"), nil
}

// Receive hosts the requested shards.
func (f *fake) Receive(_ context.Context, _ sharding.NodeID, msgs []control.Message, _ int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range msgs {
		home := m.(control.GetShardHome)
		f.asked = append(f.asked, home)
		f.host(home.Shard.Index)
	}
	return nil
}

// fakeRegion answers with the table at once.
type fakeRegion struct{ f *fake }

func (r fakeRegion) Receive(context.Context, sharding.NodeID, []control.Message, int) error {
	return nil
}

func (r fakeRegion) Answer(context.Context, sharding.NodeID, control.Message, int) (control.Message, error) {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	return r.f.table("region"), nil
}

// running is a gateway under test.
type running struct {
	*Server
	url, management string
	stop            context.CancelFunc
	ended           chan error
}

// start runs a gateway in front of the cluster until the test ends.
func (f *fake) start(change func(*Config)) *running {
	f.t.Helper()
	cfg := DefaultConfig()
	cfg.ClusterName, cfg.Listen, cfg.Management.Listen, cfg.LogLevel = "test", "127.0.0.1:0", "127.0.0.1:0", slog.LevelError+1
	cfg.Discovery.URL = "static:" + strings.TrimPrefix(f.coordinator.URL, "http://")
	if change != nil {
		change(&cfg)
	}
	if err := cfg.Validate(); err != nil {
		f.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	g := &running{stop: stop, ended: make(chan error, 1)}
	ready := make(chan struct{})
	go func() {
		g.ended <- node.Run(ctx, "gateway", &cfg, func(n *node.Node) error {
			var err error
			g.Server, err = New(n, &cfg)
			g.url, g.management = "http://"+n.ServiceAddr(), "http://"+n.ManagementAddr()
			close(ready)
			return err
		})
	}()
	f.t.Cleanup(func() {
		stop()
		select {
		case err := <-g.ended:
			if err != nil {
				f.t.Errorf("the gateway ended with %v", err)
			}
		case <-time.After(20 * time.Second):
			f.t.Error("the gateway does not end")
		}
	})
	select {
	case <-ready:
	case err := <-g.ended:
		f.t.Fatal(err)
	}
	return g
}

// startReady runs a gateway and waits until it is ready.
func (f *fake) startReady(change func(*Config)) *running {
	f.t.Helper()
	g := f.start(change)
	eventually(f.t, "ready", func() bool { return g.isReady() })
	return g
}

func (g *running) isReady() bool {
	res, err := http.Get(g.management + "/readyz")
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// eventually polls until ok or a deadline.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	deadline := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("not %s in 10 s", what)
		}
	}
}

// answered is the response to a request.
type answered struct {
	status int
	header http.Header
	body   string
}

// do makes a request; headers come in pairs.
func (g *running) do(t *testing.T, method, path, body string, headers ...string) answered {
	t.Helper()
	req, err := http.NewRequest(method, g.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := noRedirect.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answered{res.StatusCode, res.Header, string(b)}
}

var noRedirect = &http.Client{
	Transport:     &http.Transport{MaxIdleConnsPerHost: 8},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}
