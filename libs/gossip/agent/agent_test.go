package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/agent"
	"github.com/roost-cluster/roost/libs/sharding"
	pb "github.com/roost-cluster/roost/proto/roost/cluster/v1"
)

// process is an agent with a listener of its own, as a process would have.
type process struct {
	*agent.Agent
	id     sharding.NodeID
	ended  chan struct{}
	err    error // of Run, once ended
	server *http.Server
	cancel context.CancelFunc

	mu     sync.Mutex
	events []gossip.Event
}

var lastUID sharding.NodeUID

// listen binds an address; "" means any port of the loopback.
func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// start runs an agent that joins through seeds, itself included if it is one.
func start(t *testing.T, l net.Listener, cluster string, seeds ...string) *process {
	t.Helper()
	lastUID++
	core := gossip.DefaultConfig()
	core.Self = sharding.NodeID{Addr: l.Addr().String(), UID: lastUID}
	core.Name, core.Seeds, core.Watch = fmt.Sprint("node-", lastUID), seeds, gossip.FastProfile()
	core.SeedNackTimeout, core.JoinInterval, core.BusyInterval = 200*time.Millisecond, 100*time.Millisecond, 50*time.Millisecond
	a, err := agent.New(agent.Config{Core: core, Cluster: cluster, TickEvery: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(a.PathPrefix(), a.Handler())
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{Agent: a, id: core.Self, ended: make(chan struct{}), server: &http.Server{Handler: mux}, cancel: cancel}
	a.Subscribe(func(e gossip.Event) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.events = append(p.events, e)
	})
	go func() { _ = p.server.Serve(l) }()
	go func() {
		defer close(p.ended)
		p.err = a.Run(ctx)
	}()
	t.Cleanup(p.kill)
	return p
}

// kill ends the process as SIGKILL would: connections and listener vanish.
func (p *process) kill() {
	_ = p.server.Close()
	p.cancel()
	<-p.ended
}

func (p *process) saw(e gossip.Event) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.events, func(x gossip.Event) bool {
		return fmt.Sprint(x) == fmt.Sprint(e) && fmt.Sprintf("%T", x) == fmt.Sprintf("%T", e)
	})
}

// eventually polls until done, at most for 15 s.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(15 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-deadline:
			t.Fatalf("not within 15 s: %s", what)
		case <-tick.C:
		}
	}
}

func agreed(processes ...*process) func() bool {
	return func() bool {
		for _, p := range processes {
			v := p.Members()
			if !v.Converged || len(v.Members) != len(processes) {
				return false
			}
			for _, o := range processes {
				if m, ok := v.Member(o.id); !ok || m.Status != gossip.Up || !m.Reachable {
					return false
				}
			}
		}
		return true
	}
}

func TestLifeOfACluster(t *testing.T) {
	l1, l2, l3 := listen(t, ""), listen(t, ""), listen(t, "")
	seeds := []string{l1.Addr().String(), l2.Addr().String()}
	a, b := start(t, l1, "test", seeds...), start(t, l2, "test", seeds...)
	c := start(t, l3, "test", seeds...)
	eventually(t, "three nodes agree", agreed(a, b, c))

	// Evidence comes long before the failure detector could suspect anything,
	// and without a reporter.
	began := time.Now()
	c.kill()
	eventually(t, "evidence", func() bool { return a.saw(gossip.NodeGone{Node: c.id}) })
	t.Logf("evidence after %v", time.Since(began))
	eventually(t, "unreachable by me", func() bool {
		return a.saw(gossip.ReachabilityChanged{Node: c.id, Reachable: false, ByMe: true})
	})

	// A new incarnation at the same address replaces the old one at once.
	d := start(t, listen(t, c.id.Addr), "test", seeds...)
	eventually(t, "the new incarnation is in, the old one out", agreed(a, b, d))
	if !a.saw(gossip.NewIncarnation{Old: c.id, New: d.id}) && !b.saw(gossip.NewIncarnation{Old: c.id, New: d.id}) {
		t.Error("no member reported the new incarnation")
	}

	// A subscriber that comes late gets the membership as it is first.
	got := make(chan gossip.Event, 100)
	a.Subscribe(func(e gossip.Event) { got <- e })
	var up []sharding.NodeID
	eventually(t, "a late subscriber knows all", func() bool {
		select {
		case e := <-got:
			if e, ok := e.(gossip.MemberUp); ok {
				up = append(up, e.Member.Node)
			}
		default:
		}
		return len(up) == 3
	})

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := d.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, "two are left", agreed(a, b))

	b.Down(a.id)
	<-a.ended
	if !errors.Is(a.err, agent.ErrDowned) {
		t.Errorf("a downed node's Run returns %v", a.err)
	}
}

func post(t *testing.T, p *process, req *pb.PostRequest) error {
	t.Helper()
	_, err := pb.NewClusterProtobufClient("http://"+p.id.Addr, http.DefaultClient).Post(t.Context(), req)
	return err
}

func TestBadPosts(t *testing.T) {
	p := start(t, listen(t, ""), "test")
	eventually(t, "a node without seeds forms a cluster", agreed(p))
	from := &pb.Node{Addr: "127.0.0.1:1", Uid: 77}
	beat := &pb.Message{Kind: &pb.Message_Heartbeat{Heartbeat: &pb.Heartbeat{Seq: 1}}}
	for name, c := range map[string]struct {
		req  *pb.PostRequest
		want string
	}{
		"other cluster":  {&pb.PostRequest{Cluster: "prod", From: from}, "this is cluster"},
		"no sender":      {&pb.PostRequest{Cluster: "test"}, "from"},
		"empty message":  {&pb.PostRequest{Cluster: "test", From: from, Messages: []*pb.Message{{}}}, "no known kind"},
		"unknown status": {&pb.PostRequest{Cluster: "test", From: from, Messages: []*pb.Message{beat, unknownStatus()}}, "unknown status"},
		"good":           {&pb.PostRequest{Cluster: "test", From: from, Messages: []*pb.Message{beat}}, ""},
	} {
		err := post(t, p, c.req)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if s := p.Stats(); s.Received != 2 || s.Refused != 2 {
		t.Errorf("stats are %+v", s)
	}
	big := bytes.NewReader(make([]byte, 5<<20))
	r, err := http.Post("http://"+p.id.Addr+p.PathPrefix()+"Post", "application/protobuf", big)
	if err == nil {
		_ = r.Body.Close()
		if r.StatusCode < 400 {
			t.Errorf("5 MiB are answered %v", r.Status)
		}
	}
	if !agreed(p)() {
		t.Error("bad posts did harm")
	}
}

func unknownStatus() *pb.Message {
	state := &pb.State{Members: []*pb.Member{{Node: &pb.Node{Addr: "x:1", Uid: 1}, Status: 99}}}
	return &pb.Message{Kind: &pb.Message_Gossip{Gossip: &pb.Gossip{State: state}}}
}

func TestConfig(t *testing.T) {
	_, err := agent.New(agent.Config{Core: gossip.DefaultConfig(), TickEvery: time.Second})
	for _, want := range []string{"Cluster is empty", "TickEvery", "Self"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}

func TestLeaveWithoutRun(t *testing.T) {
	core := gossip.DefaultConfig()
	core.Self = sharding.NodeID{Addr: "127.0.0.1:1", UID: 1}
	a, err := agent.New(agent.Config{Core: core, Cluster: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Leave(t.Context()); err != nil {
		t.Error(err)
	}
}
