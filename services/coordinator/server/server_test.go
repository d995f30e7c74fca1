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

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/agent"
	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/splitbrain"
	"github.com/roost-cluster/roost/libs/wire"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
	regionv1 "github.com/roost-cluster/roost/proto/roost/region/v1"
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

// freeAddr is an address nobody listens at, for a process that must know the
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
func start(t *testing.T, dir, addr, discovery string) *running {
	t.Helper()
	r := launch(t, dir, addr, discovery, nil)
	await(t, "the coordinator is ready", func() bool { return strings.HasPrefix(r.get("/readyz"), "ok") })
	return r
}

// launch runs a coordinator that may never be ready.
func launch(t *testing.T, dir, addr, discovery string, change func(*Config)) *running {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Listen, cfg.Management, cfg.Discovery = addr, "127.0.0.1:0", discovery
	cfg.StableFor, cfg.Interval = 100*time.Millisecond, 20*time.Millisecond
	cfg.Journal, cfg.Lease, cfg.LogLevel = "sqlite:"+dir+"/journal.db", "sqlite:"+dir+"/lease.db", slog.LevelError+1
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

func (r *running) api() coordinatorv1.Coordinator {
	return coordinatorv1.NewCoordinatorProtobufClient("http://"+r.addr, r.client)
}

// watch asks for the table.
func (r *running) watch(v *coordinatorv1.Version) *coordinatorv1.WatchTableResponse {
	r.t.Helper()
	w, err := r.api().WatchTable(context.Background(), &coordinatorv1.WatchTableRequest{Cluster: "dev", BootUid: 5, Version: v})
	if err != nil {
		r.t.Fatal(err)
	}
	return w
}

// serving polls the full table until n rows serve.
func (r *running) serving(n int) (term uint32) {
	r.t.Helper()
	await(r.t, "the shards are served", func() bool {
		w, err := r.api().WatchTable(context.Background(), &coordinatorv1.WatchTableRequest{Cluster: "dev"})
		if err != nil || w.NotActive != nil {
			return false
		}
		got := 0
		for _, row := range w.Rows {
			if row.Phase == coordinatorv1.Phase_PHASE_SERVING {
				got++
			}
		}
		term = w.Version.GetTerm()
		return got == n
	})
	return term
}

// members is a region as a coordinator sees it: a member that does at once what
// it is asked for.
type fakeRegion struct {
	self  sharding.NodeID
	types []*coordinatorv1.Type
	reach map[string]coordinatorv1.Coordinator
}

func newRegion(t *testing.T, seeds []string, types ...*coordinatorv1.Type) *fakeRegion {
	t.Helper()
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	f := &fakeRegion{
		self:  sharding.NodeID{Addr: srv.Listener.Addr().String(), UID: 55},
		types: types, reach: map[string]coordinatorv1.Coordinator{},
	}
	client := &http.Client{Transport: &http.Transport{}}
	for _, s := range seeds {
		f.reach[s] = coordinatorv1.NewCoordinatorProtobufClient("http://"+s, client)
	}
	g := gossip.DefaultConfig()
	downing, err := splitbrain.LeaseConfig("coordinator").Open()
	if err != nil {
		t.Fatal(err)
	}
	g.Downing = downing
	g.Self, g.Name, g.Roles, g.Seeds, g.Watch = f.self, "region-1", []string{"region"}, seeds, gossip.FastProfile()
	g.IgnoreSettings = []string{"heartbeat", "downing"} // those of the tests differ
	a, err := agent.New(agent.Config{Core: g, Cluster: "dev", Client: client})
	if err != nil {
		t.Fatal(err)
	}
	mux.Handle(a.PathPrefix(), a.Handler())
	mux.Handle(regionv1.RegionPathPrefix, regionv1.NewRegionServer(f))
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

func (f *fakeRegion) node() *coordinatorv1.Node { return wire.ToNode(f.self) }

func (f *fakeRegion) Shards(_ context.Context, req *regionv1.ShardsRequest) (*regionv1.ShardsResponse, error) {
	_, err := f.reach[req.From].ReportShards(context.Background(), &coordinatorv1.ReportShardsRequest{
		Cluster: req.Cluster, Region: f.node(), Started: req.Host, Stopped: req.HandOff,
	})
	return &regionv1.ShardsResponse{}, err
}

func (f *fakeRegion) WatchTable(context.Context, *coordinatorv1.WatchTableRequest) (*coordinatorv1.WatchTableResponse, error) {
	return &coordinatorv1.WatchTableResponse{}, nil
}

// register announces the region until it is acknowledged.
func (f *fakeRegion) register(t *testing.T, at string) (ack *coordinatorv1.RegisterResponse) {
	t.Helper()
	await(t, "the region is registered", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		var err error
		ack, err = f.reach[at].Register(ctx, &coordinatorv1.RegisterRequest{
			Cluster: "dev", Region: f.node(), Name: "region-1", Types: f.types, AppVersion: "1.2.3",
		})
		return err == nil
	})
	return ack
}
