package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/agent"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	"github.com/roost-cluster/roost/sdk/entity"
)

// The entity of these tests.
type (
	counter struct{ N int64 }
	added   struct{ Delta int64 }
)

func (c *counter) Add(ctx *entity.Ctx, delta int64) (int64, error) {
	if delta < 0 {
		panic("negative")
	}
	ctx.Persist(added{delta})
	return c.N, nil
}

func (c *counter) Get(*entity.Ctx, struct{}) (int64, error) { return c.N, nil }

// Hang holds its turn until no caller waits any more.
func (c *counter) Hang(ctx *entity.Ctx, _ struct{}) (struct{}, error) {
	<-ctx.Done()
	return struct{}{}, ctx.Err()
}

func (c *counter) Close(ctx *entity.Ctx, _ struct{}) (struct{}, error) {
	ctx.Passivate()
	return struct{}{}, nil
}

func (c *counter) OnStop(ctx *entity.Ctx, why entity.StopReason) {
	if ctx.ID() == "stubborn" && why == entity.Passivated {
		select {} // never ends
	}
}

const shards = 4

var addCommand = entity.Command[int64, int64]("Counter", "Add", entity.Stored())

// AddLater adds 7 when some milliseconds have passed.
func (c *counter) AddLater(ctx *entity.Ctx, ms int64) (string, error) {
	addCommand.Remind(ctx, ctx.Now().Add(time.Duration(ms)*time.Millisecond), "add", 7)
	return "later", nil
}

func counters() entity.Definition {
	return entity.Define("Counter", func(string) *counter { return &counter{} },
		entity.On(addCommand, (*counter).Add),
		entity.On(entity.Command[int64, string]("Counter", "AddLater"), (*counter).AddLater),
		entity.On(entity.Command[struct{}, int64]("Counter", "Get", entity.ReadOnly()), (*counter).Get),
		entity.On(entity.Command[struct{}, struct{}]("Counter", "Hang"), (*counter).Hang),
		entity.On(entity.Command[struct{}, struct{}]("Counter", "Close"), (*counter).Close),
		entity.Event("added", func(c *counter, event added) { c.N += event.Delta }),
		entity.With[counter](entity.Shards(shards), entity.SnapshotEvery(3)),
	)
}

// await polls until done says true; the test fails after a while.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// noneLeft fails the test if goroutines of ours outlive it.
func noneLeft(t *testing.T) {
	t.Cleanup(func() {
		var left string
		ours := func() bool {
			left = ""
			buf := make([]byte, 1<<20)
			for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
				if strings.Contains(g, "roost-cluster/roost/") && !strings.Contains(g, ".noneLeft") &&
					!strings.Contains(g, "OnStop") && !strings.Contains(g, "stopHook") && !strings.Contains(g, "testing.(*M)") {
					left += g + "\n\n"
				}
			}
			return left == ""
		}
		for end := time.Now().Add(10 * time.Second); !ours() && time.Now().Before(end); {
			runtime.Gosched()
		}
		if left != "" {
			t.Errorf("goroutines are left:\n%s", left)
		}
	})
}

// fake is a coordinator that does what the test says.
type fake struct {
	addr  string
	agent *agent.Agent

	mu       sync.Mutex
	journals []control.JournalOwner // whose, says the region
	version  string                 // of the last one that registered
	// onRegister returns a refusal; nil: none.
	onRegister func() string
	term       sharding.Term
	unwilling  error // Register fails
	shutdowns  int
	remaining  int
	due        int
	started    map[sharding.Epoch]bool
	stopped    map[sharding.Epoch]bool
	refused    map[sharding.Epoch]sharding.Epoch
	table      sharding.TableDelta // N is 0: empty
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{term: 1, started: map[sharding.Epoch]bool{}, stopped: map[sharding.Epoch]bool{}, refused: map[sharding.Epoch]sharding.Epoch{}}
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	f.addr = srv.Listener.Addr().String()
	g := gossip.DefaultConfig()
	g.Watch = gossip.FastProfile() // as regions have it, or they are refused
	g.Self, g.Name, g.Roles, g.Seeds = sharding.NodeID{Addr: f.addr, UID: 77}, "coordinator", []string{"coordinator"}, []string{f.addr}
	g.IgnoreSettings = []string{"gossip.heartbeat_interval", "gossip.acceptable_pause", "gossip.downing"} // the settings of the tests differ
	client := &http.Client{Transport: &http.Transport{}}
	var err error
	if f.agent, err = agent.New(agent.Config{Core: g, Cluster: "dev", Client: client}); err != nil {
		t.Fatal(err)
	}
	mux.Handle(rpc.PathPrefix, rpc.Handler("dev", g.Self, control.Coordinator, nil, f, slog.New(slog.DiscardHandler)))
	mux.Handle(f.agent.PathPrefix(), f.agent.Handler())
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = f.agent.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		srv.Close()
		client.CloseIdleConnections()
	})
	return f
}

func (f *fake) Answer(ctx context.Context, _ sharding.NodeID, m control.Message, _ int) (control.Message, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch m := m.(type) {
	case control.Register:
		if f.unwilling != nil {
			return nil, f.unwilling
		}
		f.version = m.Version
		if f.journals = append(f.journals, m.Journal); f.onRegister != nil {
			return control.RegisterAck{Term: f.term, Refusal: f.onRegister()}, nil
		}
		return control.RegisterAck{Term: f.term}, nil
	case control.GracefulShutdown:
		f.shutdowns++
		return control.ShutdownAck{Term: f.term, Remaining: f.remaining}, nil
	case control.CountDue:
		return control.DueAck{Term: f.term, Due: f.due}, nil
	case control.WatchTable:
		term := f.term
		if n := f.table.Version.N; n > 0 && m.Version.N != n {
			return control.TableChanged{Delta: f.table}, nil
		}
		if m.Version.Term == term {
			f.mu.Unlock()
			hold := time.NewTimer(200 * time.Millisecond)
			select {
			case <-hold.C:
			case <-ctx.Done():
			}
			hold.Stop()
			f.mu.Lock()
		}
		if f.table.Version.N > 0 {
			return control.TableChanged{Delta: f.table}, nil
		}
		return control.TableChanged{Delta: sharding.TableDelta{Version: sharding.Version{Term: term, N: 1}}}, nil
	}
	return nil, errors.New("no call")
}

func (f *fake) Receive(_ context.Context, _ sharding.NodeID, msgs []control.Message, _ int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range msgs {
		switch m := m.(type) {
		case control.ShardStarted:
			f.started[m.Epoch] = true
		case control.ShardStopped:
			f.stopped[m.Epoch] = true
		case control.HostRefused:
			f.refused[m.Epoch] = m.Above
		}
	}
	return nil
}

// look reads what the coordinator was told.
func (f *fake) look(read func() bool) func() bool {
	return func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return read()
	}
}

// running is a region in this process.
type running struct {
	t      *testing.T
	f      *fake
	server *Server
	node   *node.Node
	client *http.Client
	stop   context.CancelFunc
	done   chan error
}

// TestSmallLimits: small limits are not refused because there are many shard cores; the
// region has fewer.
func TestSmallLimits(t *testing.T) {
	f := newFake(t)
	r := start(t, f, "memory:", func(c *Config) { c.Core.ShardCores, c.Core.Turn.TotalLoads = 16, 10 })
	if got := r.server.runner.cfg.ShardCores; got != 2 {
		t.Errorf("10 loads are divided among %d shard cores, want 2", got)
	}
}

// TestStartsWithoutJournal: a region whose journal does not answer yet says at once that it
// is not ready, and why.
func TestStartsWithoutJournal(t *testing.T) {
	r := launch(t, newFake(t), "postgres://roost@127.0.0.1:1/roost?sslmode=disable", nil)
	await(t, "the region starts", func() bool { return strings.HasPrefix(r.get("/readyz"), "[-] ") })
	await(t, "readyz says in one line that the journal does not answer", func() bool {
		lines := strings.Split(r.get("/readyz"), "\n")
		return strings.HasPrefix(lines[0], "[-] node: starting: the journal does not answer yet, trying again: ") && lines[1] == "failed"
	})
	r.stop()
	<-r.done
}

// start runs a region until it has registered.
func start(t *testing.T, f *fake, journal string, change func(*Config)) *running {
	t.Helper()
	r := launch(t, f, journal, change)
	await(t, "the region is ready", func() bool { return strings.Contains(r.get("/readyz"), "ok") })
	return r
}

// launch runs a region that may never be ready.
func launch(t *testing.T, f *fake, journal string, change func(*Config)) *running {
	t.Helper()
	return launchWith(t, f, journal, change, counters())
}

// launchWith runs a region that hosts other types.
func launchWith(t *testing.T, f *fake, journal string, change func(*Config), types ...entity.Definition) *running {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Core.ShardCores = 3 // tests of the runner alone have one, too
	cfg.Listen, cfg.Management.Listen, cfg.Advertise = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1"
	cfg.Journal.URL, cfg.Seeds, cfg.LogLevel = journal, []string{f.addr}, slog.LevelError+1
	if change != nil {
		change(&cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, f: f, stop: cancel, done: make(chan error, 1), client: &http.Client{Transport: &http.Transport{}}}
	set := make(chan error, 1)
	go func() {
		r.done <- node.Run(ctx, "region", &cfg, func(n *node.Node) (err error) {
			r.node = n
			r.server, err = New(n, &cfg, types...)
			set <- err
			return err
		})
	}()
	t.Cleanup(func() { cancel(); r.client.CloseIdleConnections() })
	if err := <-set; err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *running) get(path string) string {
	res, err := r.client.Get("http://" + r.node.ManagementAddr() + path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	b, _ := io.ReadAll(res.Body)
	return string(b)
}

// end stops the region and waits for it.
func (r *running) end() {
	r.t.Helper()
	r.stop()
	select {
	case err := <-r.done:
		if err != nil {
			r.t.Errorf("the region ended with %v", err)
		}
	case <-time.After(30 * time.Second):
		r.t.Fatal("the region does not end")
	}
	r.done <- nil
}

// order sends messages as the coordinator.
func (r *running) order(msgs ...control.Message) error {
	return r.send("dev", r.server.self.UID, msgs...)
}

func (r *running) send(cluster string, to sharding.NodeUID, msgs ...control.Message) error {
	c := rpc.Client{Cluster: cluster, Self: sharding.NodeID{Addr: r.f.addr, UID: 77}, Reach: rpc.Via(r.client, nil), Timeout: 10 * time.Second}
	return c.Send(context.Background(), sharding.NodeID{Addr: r.node.ServiceAddr(), UID: to}, msgs)
}

// counterShard is a shard of the type that is hosted.
func counterShard(i uint32) sharding.ShardID { return sharding.ShardID{Type: "Counter", Index: i} }

// host lets the region host all shards at an epoch.
func (r *running) host(counter uint32) sharding.Epoch {
	r.t.Helper()
	e := sharding.MakeEpoch(1, counter)
	var orders []control.Message
	for i := range uint32(shards) {
		orders = append(orders, control.HostShard{Term: 1, Shard: counterShard(i), Epoch: e + sharding.Epoch(i)})
	}
	if err := r.order(orders...); err != nil {
		r.t.Fatal(err)
	}
	for i := range sharding.Epoch(shards) {
		await(r.t, "the shard is started", r.f.look(func() bool { return r.f.started[e+i] }))
	}
	return e
}

// gateway is the other end of a link.
type gateway struct {
	principal string // of the commands
	t         *testing.T
	client    *link.Client
	up        chan *link.Link
	link      *link.Link
	number    uint64

	mu      sync.Mutex
	answers map[uint64]link.Answer
}

func (r *running) dial() *gateway {
	r.t.Helper()
	g := &gateway{t: r.t, up: make(chan *link.Link, 16), answers: map[uint64]link.Answer{}}
	cfg := link.DefaultConfig()
	cfg.Cluster, cfg.Self = "dev", sharding.NodeID{UID: 99}
	var err error
	g.client, err = link.NewClient(cfg, r.server.self, link.Events{
		Up: func(l *link.Link) { g.up <- l }, Down: func(*link.Link, link.Down) {}, Failed: func(error, bool) {},
		Answers: func(_ *link.Link, as []link.Answer) {
			g.mu.Lock()
			defer g.mu.Unlock()
			for _, a := range as {
				if _, twice := g.answers[a.Number]; twice {
					r.t.Errorf("command %d is answered twice", a.Number)
				}
				g.answers[a.Number] = a
			}
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(g.client.Close)
	g.link = <-g.up
	return g
}

// send sends a command at the epoch that host gave to its shard.
func (g *gateway) send(e sharding.Epoch, id, command, payload string) uint64 {
	g.t.Helper()
	return g.post(e, id, command, "", payload)
}

// keyed sends a command with a key and waits for its answer.
func (g *gateway) keyed(e sharding.Epoch, id, command, key, payload string) link.Answer {
	g.t.Helper()
	return g.answer(g.post(e, id, command, key, payload))
}

func (g *gateway) post(e sharding.Epoch, id, command, key, payload string) uint64 {
	g.t.Helper()
	g.number++
	index := shardingtest.ShardOf(sharding.EntityID(id), shards)
	env := sharding.Envelope{
		Principal: g.principal,
		Entity:    sharding.Entity{Type: "Counter", ID: sharding.EntityID(id)}, Command: command, ID: sharding.CommandID(key),
		Keyed: key != "", Payload: []byte(payload), Deadline: time.Now().Add(time.Minute),
	}
	if key == "" {
		env.ID = sharding.CommandID(fmt.Sprint("unkeyed-", g.number))
	}
	if err := g.link.Send(index, &link.Command{Number: g.number, Epoch: e + sharding.Epoch(index), Envelope: env}); err != nil {
		g.t.Fatal(err)
	}
	return g.number
}

func (g *gateway) answer(number uint64) (a link.Answer) {
	g.t.Helper()
	await(g.t, fmt.Sprintf("answer %d", number), func() (ok bool) {
		g.mu.Lock()
		defer g.mu.Unlock()
		a, ok = g.answers[number]
		return ok
	})
	return a
}

func (g *gateway) want(a link.Answer, outcome sharding.Outcome, payload string) {
	g.t.Helper()
	if a.NotMine != nil || a.Reply.Outcome != outcome || string(a.Reply.Payload) != payload {
		g.t.Errorf("got %+v %s, want %s %s", a, a.Reply.Payload, outcome, payload)
	}
}

// TestWhyNotRegistered: a region that no coordinator takes names the reason in its
// readiness, until one does.
func TestWhyNotRegistered(t *testing.T) {
	f := newFake(t)
	f.unwilling = twirp.ResourceExhausted.Error("a message too large")
	r := launch(t, f, "memory:", nil)
	await(t, "the reason is reported", func() bool { return strings.Contains(r.get("/readyz?verbose"), "a message too large") })
	f.mu.Lock()
	f.unwilling = nil
	f.mu.Unlock()
	await(t, "the region is ready", func() bool { return strings.HasSuffix(strings.TrimSpace(r.get("/readyz?verbose")), "ok") })
	r.end()
}

// TestReadyInRollout: a region is ready when the shards that a rollout brings to it have
// come, and stays so when the coordinator is lost.
func TestReadyInRollout(t *testing.T) {
	f := newFake(t)
	f.due = 3
	r := launch(t, f, "memory:", nil)
	ready := func() bool { return strings.HasSuffix(strings.TrimSpace(r.get("/readyz?verbose")), "ok") }
	await(t, "it waits for shards", func() bool {
		return strings.Contains(r.get("/readyz?verbose"), "3 shards of a rollout are on their way")
	})
	f.mu.Lock()
	f.due = 0
	f.mu.Unlock()
	await(t, "the region is ready", ready)
	f.mu.Lock()
	f.term, f.due, f.unwilling = 2, 3, twirp.ResourceExhausted.Error("a message too large")
	f.mu.Unlock()
	await(t, "the next coordinator does not take it", func() (refused bool) {
		if err := r.server.inspect(t.Context(), func() error {
			_, term, registered := r.server.runner.control.core.Coordinator()
			refused = term == 2 && !registered
			return nil
		}); err != nil {
			t.Error(err)
		}
		return refused
	})
	if !ready() {
		t.Errorf("it is not ready any more: %s", r.get("/readyz?verbose"))
	}
	f.mu.Lock()
	f.unwilling = nil
	f.mu.Unlock()
	r.end()
}
