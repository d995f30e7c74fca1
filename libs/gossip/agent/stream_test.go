package agent

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/sharding"
	pb "github.com/roost-cluster/roost/proto/roost/cluster/v1"
)

// host is an agent behind a listener, which counts the posts to it.
type host struct {
	*Agent
	addr  string
	posts atomic.Int64
}

// startHost runs an agent. wrap may put something between the listener and the agent.
func startHost(t *testing.T, seed string, uid sharding.NodeUID, wrap func(http.Handler) http.Handler, change ...func(*Config)) *host {
	t.Helper()
	h := &host{}
	server := httptest.NewUnstartedServer(nil)
	h.addr = server.Listener.Addr().String()
	if seed == "" {
		seed = h.addr
	}
	core := gossip.DefaultConfig()
	core.Self, core.Name = sharding.NodeID{Addr: h.addr, UID: uid}, fmt.Sprint("node-", uid)
	core.Seeds, core.Watch, core.BusyInterval = []string{seed}, gossip.FastProfile(), 50*time.Millisecond
	core.Watch.Interval = 20 * time.Millisecond // many heartbeats in a short time
	cfg := Config{Core: core, Cluster: "test", TickEvery: 5 * time.Millisecond}
	for _, f := range change {
		f(&cfg)
	}
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.Agent = a
	handler := a.Handler()
	if wrap != nil {
		handler = wrap(handler)
	}
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			h.posts.Add(1)
		}
		handler.ServeHTTP(w, r)
	})
	server.Start()
	t.Cleanup(server.Close)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = a.Run(t.Context())
	}()
	t.Cleanup(func() { <-ended })
	return h
}

// until polls until done, at most for 15 s.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(15 * time.Second); !done(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within 15 s: %s", what)
		}
	}
}

func together(a, b *host) bool {
	return a.Members().Converged && len(a.Members().Members) == 2 && b.Members().Converged && len(b.Members().Members) == 2
}

func (h *host) streamsIn() int {
	h.streams.mu.Lock()
	defer h.streams.mu.Unlock()
	return len(h.streams.conns)
}

// TestStreams: members that watch each other soon post no more, and go on to hear from each other.
func TestStreams(t *testing.T) {
	a := startHost(t, "", 1, nil)
	b := startHost(t, a.addr, 2, nil)
	until(t, "both have a stream", func() bool { return together(a, b) && a.streamsIn() == 1 && b.streamsIn() == 1 })
	posts, received := a.posts.Load()+b.posts.Load(), a.Stats().Received
	until(t, "100 messages more", func() bool { return a.Stats().Received >= received+100 })
	if n := a.posts.Load() + b.posts.Load() - posts; n > 2 { // one each may have been on its way
		t.Errorf("%d posts with 100 messages on streams", n)
	}
}

// TestNoStreams: a node that does not say that it accepts streams, or has too many, gets posts.
func TestNoStreams(t *testing.T) {
	silent := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				http.NotFound(w, r)
				return
			}
			answer := httptest.NewRecorder()
			next.ServeHTTP(answer, r)
			w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
			w.WriteHeader(answer.Code) // the answer to a post was empty
		})
	}
	t.Run("a node that does not say so", func(t *testing.T) {
		a := startHost(t, "", 1, nil)
		b := startHost(t, a.addr, 2, silent)
		until(t, "they are together, and one has a stream", func() bool { return together(a, b) && a.streamsIn() == 1 })
		posts := b.posts.Load()
		until(t, "posts to the other", func() bool { return b.posts.Load() >= posts+20 })
	})
	t.Run("too many", func(t *testing.T) {
		a := startHost(t, "", 1, nil)
		b := startHost(t, a.addr, 2, nil, func(c *Config) { c.Streams = 1 })
		until(t, "they are together, and both have a stream", func() bool { return together(a, b) && b.streamsIn() == 1 })
		conn, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := upgrade(conn, b.addr); err == nil {
			t.Error("one stream more than may be")
		}
	})
}

// TestFrames: what a stream brings is checked as posts are. It ends with the first frame that its sender may not send.
func TestFrames(t *testing.T) {
	h := startHost(t, "", 1, nil)
	until(t, "a cluster of one", func() bool { return h.Members().Converged && len(h.Members().Members) == 1 })
	from := &pb.Node{Addr: "127.0.0.1:1", Uid: 77}
	beat := &pb.Message{Kind: &pb.Message_Heartbeat{Heartbeat: &pb.Heartbeat{Seq: 1}}}
	frame := func(req *pb.PostRequest) []byte {
		b, err := proto.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
	}
	good := frame(&pb.PostRequest{Cluster: "test", From: from, Messages: []*pb.Message{beat}})
	for name, c := range map[string]struct {
		frame []byte
		ends  bool
	}{
		"good":          {good, false},
		"empty message": {frame(&pb.PostRequest{Cluster: "test", From: from, Messages: []*pb.Message{{}}}), false}, // of a later release
		"other cluster": {frame(&pb.PostRequest{Cluster: "prod", From: from, Messages: []*pb.Message{beat}}), true},
		"no sender":     {frame(&pb.PostRequest{Cluster: "test"}), true},
		"too long":      {binary.BigEndian.AppendUint32(nil, maxFrame+1), true},
		"no protobuf":   {[]byte{0, 0, 0, 2, 0xff, 0xff}, true},
	} {
		conn, err := net.Dial("tcp", h.addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := upgrade(conn, h.addr); err != nil {
			t.Fatal(name, err)
		}
		received := h.Stats().Received
		_, _ = conn.Write(c.frame)
		_, _ = conn.Write(good)
		if c.ends {
			_ = conn.SetReadDeadline(time.Now().Add(15 * time.Second))
			if _, err := bufio.NewReader(conn).ReadByte(); err == nil || isTimeout(err) {
				t.Errorf("%s: the stream continues: %v", name, err)
			}
			if h.Stats().Received != received {
				t.Errorf("%s: what followed was received", name)
			}
		} else {
			until(t, name+": the stream continues", func() bool { return h.Stats().Received > received })
		}
		_ = conn.Close()
		until(t, name+": all that was sent has been received", func() bool { return h.streamsIn() == 0 })
	}
}

func isTimeout(err error) bool {
	timeout, is := err.(net.Error)
	return is && timeout.Timeout()
}

// peerServer is a node that accepts posts and streams, and counts them. It hands over the connection of each stream.
func peerServer(t *testing.T, posts, streams *atomic.Int64, take func(net.Conn)) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			posts.Add(1)
			b, _ := proto.Marshal(&pb.PostResponse{Streams: streamVersion})
			w.Header().Set("Content-Type", "application/protobuf")
			_, _ = w.Write(b)
			return
		}
		streams.Add(1)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+streamProtocol+"\r\n\r\n")
		take(conn)
	}))
	t.Cleanup(server.Close)
	return server
}

// TestStall: if nothing comes from an address, its stream is given up, and messages are posted again. If the stream is
// ended there, another one is opened; if that is refused, the process is gone.
func TestStall(t *testing.T) {
	var posts, streams atomic.Int64
	conns := make(chan net.Conn, 100)
	server := peerServer(t, &posts, &streams, func(conn net.Conn) {
		conns <- conn
		_, _ = io.Copy(io.Discard, conn)
	})
	cfg := Config{Cluster: "test", Core: gossip.DefaultConfig(), SendTimeout: 100 * time.Millisecond}.withDefaults()
	cfg.Core.Watch.Interval = time.Millisecond
	gone := make(chan sharding.NodeID, 1)
	s := newSenders(cfg, &counters{}, func(n sharding.NodeID) {
		select {
		case gone <- n:
		default:
		}
	})
	s.reopenAfter = time.Millisecond // on a busy machine a stream may end before it has lasted
	defer s.close()
	to := sharding.NodeID{Addr: server.Listener.Addr().String(), UID: 7}
	send := func() { s.send(gossip.Send{To: to, Msg: gossip.Heartbeat{}}) }
	until(t, "a stream", func() bool { send(); return streams.Load() == 1 })
	until(t, "it stalls, and another one is opened", func() bool { send(); return streams.Load() >= 2 })
	if posts.Load() < 2 {
		t.Errorf("%d posts", posts.Load())
	}

	// lasts returns when a stream has lasted for a while.
	lasts := func() {
		n, since := streams.Load(), time.Now()
		until(t, "nothing stalls while something is heard", func() bool {
			s.heard(to.Addr)
			send()
			if more := streams.Load(); more != n {
				n, since = more, time.Now()
			}
			return time.Since(since) > 2*cfg.SendTimeout
		})
	}
	lasts()
	n := streams.Load()
	endAll := func() {
		for len(conns) > 0 {
			_ = (<-conns).Close()
		}
	}
	endAll()
	until(t, "another stream", func() bool { send(); return streams.Load() > n })
	lasts()
	_ = server.Listener.Close()
	until(t, "the process is gone", func() bool { endAll(); send(); return len(gone) > 0 })
	if got := <-gone; got != to {
		t.Errorf("%v is gone", got)
	}
}

// TestUnwantedStream: a receiver that ends each stream at once gets posts, and is not asked for another stream with each
// of them.
func TestUnwantedStream(t *testing.T) {
	var posts, streams atomic.Int64
	server := peerServer(t, &posts, &streams, func(conn net.Conn) { _ = conn.Close() })
	cfg := Config{Cluster: "test", Core: gossip.DefaultConfig(), SendTimeout: 10 * time.Second}.withDefaults()
	s := newSenders(cfg, &counters{}, func(sharding.NodeID) {})
	defer s.close()
	to := sharding.NodeID{Addr: server.Listener.Addr().String(), UID: 7}
	until(t, "posts", func() bool { s.send(gossip.Send{To: to, Msg: gossip.Heartbeat{}}); return posts.Load() >= 20 })
	if n := streams.Load(); n != 1 {
		t.Errorf("%d streams with 20 posts", n)
	}
}

// TestEndedStream: nothing is written to a stream that the receiver has ended, for it would be lost. It is posted.
func TestEndedStream(t *testing.T) {
	s := newSenders(Config{Cluster: "test", Core: gossip.DefaultConfig()}.withDefaults(), &counters{}, func(sharding.NodeID) {})
	defer s.close()
	here, there := net.Pipe()
	defer there.Close()
	go func() { _, _ = io.Copy(io.Discard, there) }()
	o := &outStream{conn: here, opened: time.Now(), ended: make(chan struct{})}
	to := &sender{addr: "127.0.0.1:1", stream: o, lastServed: 7}
	batch := []gossip.Send{{To: sharding.NodeID{Addr: to.addr, UID: 7}, Msg: gossip.Heartbeat{}}}
	if !s.stream(to, batch) {
		t.Fatal("nothing is written to a stream")
	}
	close(o.ended)
	if s.stream(to, batch) || to.stream != nil {
		t.Error("a stream that has ended is used")
	}
}

// TestNoStreamWithoutNeed: none is opened where heartbeats neither go nor are answered, and none is requested repeatedly
// where it is refused.
func TestNoStreamWithoutNeed(t *testing.T) {
	for name, c := range map[string]struct {
		msg  gossip.Msg
		want int64
	}{"no heartbeats": {gossip.InitJoin{}, 0}, "refused": {gossip.Heartbeat{}, 1}} {
		var posts, streams atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				streams.Add(1)
				http.NotFound(w, r)
				return
			}
			posts.Add(1)
			b, _ := proto.Marshal(&pb.PostResponse{Streams: streamVersion})
			w.Header().Set("Content-Type", "application/protobuf")
			_, _ = w.Write(b)
		}))
		t.Cleanup(server.Close)
		s := newSenders(Config{Cluster: "test", Core: gossip.DefaultConfig()}.withDefaults(), &counters{}, func(sharding.NodeID) {})
		to := sharding.NodeID{Addr: server.Listener.Addr().String(), UID: 7}
		until(t, "posts", func() bool { s.send(gossip.Send{To: to, Msg: c.msg}); return posts.Load() >= 20 })
		s.close()
		if n := streams.Load(); n != c.want {
			t.Errorf("%s: asked for %d streams with 20 posts, want %d", name, n, c.want)
		}
	}
}

// TestFullInbox: a message that finds no room is lost, and its stream continues.
func TestFullInbox(t *testing.T) {
	core := gossip.DefaultConfig()
	core.Self, core.Name = sharding.NodeID{Addr: "127.0.0.1:1", UID: 1}, "node-1"
	a, err := New(Config{Core: core, Cluster: "test", Inbox: 1}) // it does not run, so nothing is taken out
	if err != nil {
		t.Fatal(err)
	}
	frame, err := proto.Marshal(NewPost("test", sharding.NodeID{Addr: "127.0.0.1:2", UID: 2}, []gossip.Send{{Msg: gossip.Heartbeat{Seq: 1}}}))
	if err != nil {
		t.Fatal(err)
	}
	here, there := net.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- service{a}.receive(t.Context(), there, bufio.NewReader(there)) }()
	const frames = 5
	for range frames {
		_ = here.SetDeadline(time.Now().Add(15 * time.Second))
		if _, err := here.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)); err != nil {
			t.Fatal(err)
		}
	}
	_ = here.Close()
	if err := <-ended; err != io.EOF {
		t.Errorf("the stream has ended with %v", err)
	}
	if got := a.Stats(); got.Received != 1 || got.Refused != frames-1 {
		t.Errorf("%+v", got)
	}
}

// TestStreamsEnd: when a node ends, the streams to it end, and it accepts no other one.
func TestStreamsEnd(t *testing.T) {
	s := &inStreams{limit: 10}
	here, there := net.Pipe()
	defer here.Close()
	if !s.add(there) || s.full() {
		t.Fatal("a stream is refused")
	}
	s.close()
	if _, err := here.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a read from a stream that the other side has ended: %v", err)
	}
	if other, _ := net.Pipe(); s.add(other) || !s.full() {
		t.Error("a stream is accepted after the end")
	}
}
