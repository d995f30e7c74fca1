package server

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/agent"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/splitbrain"
)

// await polls until done says true; the test fails after a while.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
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
				if strings.Contains(g, "roost-cluster/roost/") && !strings.Contains(g, ".noneLeft") && !strings.Contains(g, "testing.(*M)") {
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

// freeAddr is an address without a listener, for a process that must know the
// address of another one before that exists.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// running is a coordinator in this process.
type running struct {
	t      *testing.T
	addr   string
	server *Server
	node   *node.Node
	client *http.Client
	stop   context.CancelFunc
	done   chan error
}

// start runs a coordinator until it is ready.
func start(t *testing.T, dir, addr, discovery string, change func(*Config)) *running {
	t.Helper()
	r := launch(t, dir, addr, discovery, change)
	await(t, "the coordinator is ready", func() bool { return strings.HasPrefix(r.get("/readyz"), "ok") })
	return r
}

// launch runs a coordinator that may never be ready.
func launch(t *testing.T, dir, addr, discovery string, change func(*Config)) *running {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Listen, cfg.Management.Listen, cfg.Discovery.URL = addr, "127.0.0.1:0", discovery
	cfg.Bootstrap.StableMargin, cfg.Bootstrap.QueryInterval = 100*time.Millisecond, 20*time.Millisecond
	cfg.Journal.URL, cfg.LeaseURL, cfg.LogLevel = "sqlite:"+dir+"/journal.db", "sqlite:"+dir+"/lease.db", slog.LevelError+1
	if change != nil {
		change(&cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, addr: addr, stop: cancel, done: make(chan error, 1), client: &http.Client{Transport: &http.Transport{}}}
	set := make(chan error, 1)
	go func() {
		r.done <- node.Run(ctx, "coordinator", &cfg, func(n *node.Node) (err error) {
			r.node = n
			r.server, err = New(n, &cfg)
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

func (r *running) end() {
	r.t.Helper()
	r.stop()
	select {
	case err := <-r.done:
		if err != nil {
			r.t.Errorf("the coordinator ended with %v", err)
		}
	case <-time.After(30 * time.Second):
		r.t.Fatal("the coordinator does not end")
	}
	r.client.CloseIdleConnections()
}

// api is a client of a coordinator for a region.
func api(cluster string, self sharding.NodeID, client *http.Client) *rpc.Client {
	return &rpc.Client{Cluster: cluster, Self: self, Reach: rpc.Via(client, nil), Timeout: 10 * time.Second}
}

// call asks as a gateway.
func (r *running) call(m control.Message) (control.Message, error) {
	return api("dev", sharding.NodeID{}, r.client).Call(context.Background(), r.addr, m)
}

// send sends messages as a gateway.
func (r *running) send(msgs ...control.Message) {
	r.t.Helper()
	if err := api("dev", sharding.NodeID{}, r.client).Send(context.Background(), sharding.NodeID{Addr: r.addr}, msgs); err != nil {
		r.t.Fatal(err)
	}
}

// watch asks for the table. A standby answers with who is active.
func (r *running) watch(v sharding.Version) (table sharding.TableDelta, standby *control.NotActive) {
	r.t.Helper()
	m, err := r.call(control.WatchTable{Version: v})
	switch m := m.(type) {
	case control.TableChanged:
		return m.Delta, nil
	case control.NotActive:
		return table, &m
	}
	r.t.Fatal(err)
	return table, nil
}

// acts reports whether the coordinator is active.
func (r *running) acts() bool {
	_, standby := r.watch(sharding.Version{})
	return standby == nil
}

// serving polls the full table until n rows serve.
func (r *running) serving(n int) (term sharding.Term) {
	r.t.Helper()
	await(r.t, "the shards are served", func() bool {
		table, standby := r.watch(sharding.Version{})
		if standby != nil {
			return false
		}
		got := 0
		for _, row := range table.Rows {
			if row.Phase == sharding.Serving {
				got++
			}
		}
		term = table.Version.Term
		return got == n
	})
	return term
}

// members is a region as a coordinator sees it: a member that fulfils requests at
// once.
type fakeRegion struct {
	self  sharding.NodeID
	types []sharding.TypeDesc
	api   *rpc.Client
	mux   *http.ServeMux
}

func newRegion(t *testing.T, seeds []string, types ...sharding.TypeDesc) *fakeRegion {
	t.Helper()
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	f := &fakeRegion{self: sharding.NodeID{Addr: srv.Listener.Addr().String(), UID: 55}, types: types, mux: mux}
	client := &http.Client{Transport: &http.Transport{}}
	f.api = api("dev", f.self, client)
	g := gossip.DefaultConfig()
	downing, err := splitbrain.LeaseConfig("coordinator").Open()
	if err != nil {
		t.Fatal(err)
	}
	g.Downing = downing
	g.Self, g.Name, g.Roles, g.Seeds, g.Watch = f.self, "region-1", []string{"region"}, seeds, gossip.FastProfile()
	g.IgnoreSettings = []string{"gossip.heartbeat_interval", "gossip.acceptable_pause", "gossip.downing"} // the settings of the tests differ
	a, err := agent.New(agent.Config{Core: g, Cluster: "dev", Client: client})
	if err != nil {
		t.Fatal(err)
	}
	mux.Handle(a.PathPrefix(), a.Handler())
	mux.Handle(rpc.PathPrefix, rpc.Handler("dev", f.self, control.Region, nil, f, slog.New(slog.DiscardHandler)))
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = a.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		srv.Close()
		client.CloseIdleConnections()
	})
	return f
}

func (f *fakeRegion) Receive(ctx context.Context, from sharding.NodeID, msgs []control.Message, _ int) error {
	var done []control.Message
	for _, m := range msgs {
		switch m := m.(type) {
		case control.HostShard:
			done = append(done, control.ShardStarted{Shard: m.Shard, Epoch: m.Epoch})
		case control.HandOff:
			done = append(done, control.ShardStopped{Shard: m.Shard, Epoch: m.Epoch})
		}
	}
	return f.api.Send(ctx, sharding.NodeID{Addr: from.Addr}, done)
}

func (f *fakeRegion) Answer(context.Context, sharding.NodeID, control.Message, int) (control.Message, error) {
	return control.TableChanged{}, nil
}

// follow has the region follow the route table of a coordinator, until the test ends.
func (f *fakeRegion) follow(t *testing.T, at string) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		var known sharding.Version
		for ctx.Err() == nil {
			m, _ := f.api.Call(ctx, at, control.WatchTable{Version: known})
			if table, ok := m.(control.TableChanged); ok {
				known = table.Delta.Version
			}
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
}

// register announces the region until it is acknowledged.
func (f *fakeRegion) register(t *testing.T, at string) (ack control.RegisterAck) {
	t.Helper()
	await(t, "the region is registered", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		m, _ := f.api.Call(ctx, at, control.Register{Name: "region-1", Types: f.types, Version: "1.2.3"})
		var ok bool
		ack, ok = m.(control.RegisterAck)
		return ok
	})
	return ack
}

// commit makes the journal of a coordinator do operations, which must all hold.
func (r *running) commit(ops ...journal.Op) {
	r.t.Helper()
	results := make(chan journal.Result, len(ops))
	for _, op := range ops {
		r.server.journal.Submit(op, func(res journal.Result) { results <- res })
	}
	for range ops {
		if res := <-results; res.Verdict != sharding.Durable {
			r.t.Fatalf("%+v", res)
		}
	}
}
