package agent

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/sharding"
	pb "github.com/roost-cluster/roost/proto/roost/cluster/v1"
)

func newAgent(t *testing.T, cfg Config) *Agent {
	t.Helper()
	members := cfg.Core.MaxMembers
	cfg.Core = gossip.DefaultConfig()
	cfg.Core.Self, cfg.Cluster = sharding.NodeID{Addr: "127.0.0.1:1", UID: 1}, "test"
	if members != 0 {
		cfg.Core.MaxMembers = members
	}
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// give hands a body to an agent that does not run.
func give(t *testing.T, a *Agent, encoding string, body []byte) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, a.PathPrefix()+"Post", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/protobuf")
	if encoding != "" {
		r.Header.Set("Content-Encoding", encoding)
	}
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, r)
	return w
}

func marshal(t *testing.T, req *pb.PostRequest) []byte {
	t.Helper()
	req.Cluster, req.From = "test", &pb.Node{Addr: "127.0.0.1:2", Uid: 2}
	b, err := proto.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestGzipBomb: a post of 256 KiB that expands to a thousand times its length
// costs far less than it might.
func TestGzipBomb(t *testing.T) {
	a := newAgent(t, Config{})
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	for zeros := make([]byte, 1<<20); bomb.Len() < 256<<10; {
		_, _ = w.Write(zeros)
	}
	_ = w.Close()
	least := uint64(1 << 60)
	for range 3 { // others may allocate meanwhile
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if got := give(t, a, "gzip", bomb.Bytes()); got.Code != http.StatusRequestEntityTooLarge {
			t.Fatalf("answered %d %s", got.Code, got.Body)
		}
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	t.Logf("a bomb of %d KiB costs %d KiB", bomb.Len()>>10, least>>10)
	if least >= 8<<20 {
		t.Errorf("a bomb of %d bytes costs %d", bomb.Len(), least)
	}
}

func TestLimits(t *testing.T) {
	a := newAgent(t, Config{Inbox: 4, Core: gossip.Config{MaxMembers: 3}})
	beat := &pb.Message{Kind: &pb.Message_Heartbeat{Heartbeat: &pb.Heartbeat{Seq: 1}}}
	members := func(n int) *pb.PostRequest {
		state := &pb.State{Members: slices.Repeat([]*pb.Member{{Status: pb.Status_STATUS_UP}}, n)}
		return &pb.PostRequest{Messages: []*pb.Message{{Kind: &pb.Message_Gossip{Gossip: &pb.Gossip{State: state}}}}}
	}
	for name, c := range map[string]struct {
		req  *pb.PostRequest
		says string
	}{
		"one message":       {&pb.PostRequest{Messages: []*pb.Message{beat}}, ""},
		"three members":     {members(3), ""},
		"four members":      {members(4), "members has more than 3"},
		"too many messages": {&pb.PostRequest{Messages: slices.Repeat([]*pb.Message{beat}, 5)}, "messages has more than 4"},
	} {
		got := give(t, a, "", marshal(t, c.req))
		if (got.Code == 200) != (c.says == "") || !strings.Contains(got.Body.String(), c.says) {
			t.Errorf("%s: %d %s", name, got.Code, got.Body)
		}
	}
}

// TestLongPostsAreCompressed: from GzipFrom on, and they arrive.
func TestLongPostsAreCompressed(t *testing.T) {
	a := newAgent(t, Config{})
	var encoding string
	var length int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		encoding, length = r.Header.Get("Content-Encoding"), r.ContentLength
		a.Handler().ServeHTTP(w, r)
	}))
	defer server.Close()
	for n, want := range map[int]string{1: "", 600: "gzip"} {
		req := &pb.PostRequest{}
		members := make([]*gossip.Member, n)
		for i := range members {
			members[i] = &gossip.Member{Node: sharding.NodeID{Addr: "10.0.0.1:25520", UID: sharding.NodeUID(i + 1)}, Status: gossip.Up}
		}
		req.Messages = append(req.Messages, toMessage(1, gossip.Gossip{State: gossip.State{Members: members}}))
		plain := len(marshal(t, req))
		before := a.Stats().Received
		if _, err := pb.NewClusterProtobufClient(server.URL, compactClient{a.cfg.Client, a.cfg.GzipFrom}).Post(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if encoding != want || a.Stats().Received != before+1 || want != "" && length >= int64(plain)/2 {
			t.Errorf("%d nodes, %d bytes: encoding %q, %d bytes", n, plain, encoding, length)
		}
	}
}
