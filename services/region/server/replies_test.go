package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
)

// blob is an entity whose replies are as large as the command asks for, and whose turns hang
// on request.
type blob struct{ n int }

func blobs(hang <-chan struct{}) entity.Definition {
	return entity.Define("Blob", func(string) *blob { return &blob{} },
		entity.On(entity.Command[int, string]("Blob", "Fill", entity.ReadOnly()), func(_ *blob, _ *entity.Ctx, n int) (string, error) {
			return strings.Repeat("x", n-2), nil // and two quotes
		}),
		entity.On(entity.Command[int, int]("Blob", "Hang"), func(_ *blob, _ *entity.Ctx, n int) (int, error) {
			<-hang
			return n, nil
		}),
		entity.On(entity.Command[int, int]("Blob", "Note"), func(b *blob, _ *entity.Ctx, n int) (int, error) {
			b.n += n
			return b.n, nil
		}),
		entity.With[blob](entity.Volatile()),
	)
}

// site is a region without a coordinator: a runner behind links over TCP.
type site struct {
	*Runner
	node  sharding.NodeID
	links *link.Server
	mu    sync.Mutex
	ended []error // of connections
	// unhang ends the turns that hang.
	unhang func()
}

func runBlobs(t *testing.T, limits func(*region.Config)) *site {
	t.Helper()
	hang := make(chan struct{})
	let := sync.OnceFunc(func() { close(hang) })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{node: sharding.NodeID{Addr: ln.Addr().String(), UID: 1}, unhang: let}
	var started sync.WaitGroup // shards
	if s.Runner, err = NewRunner(RunnerConfig{
		Self: s.node, Name: "blobs", Types: []entity.Definition{blobs(hang)}, Core: coreWith(limits),
		Inbox: 10_000, StopTimeout: time.Second, Log: slog.New(slog.DiscardHandler), Outside: func(o region.ControlOutput) {
			if o, ok := o.(region.Send); ok && control.Name(o.Msg) == control.Name(control.ShardStarted{}) {
				started.Done()
			}
		},
	}); err != nil {
		t.Fatal(err)
	}
	b, err := open.Open(t.Context(), "memory:", journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	j, err := commit.Open(t.Context(), b, journal.Declaration{Cluster: "test", Types: []sharding.TypeDesc{s.Types()[0].Desc}}, journal.DefaultConfig(), s.Observer())
	if err != nil {
		t.Fatal(err)
	}
	s.Use(j)
	cfg := link.DefaultConfig()
	cfg.Cluster, cfg.Self = "test", s.node
	if s.links, err = link.NewServer(cfg, func(c *link.Conn, cmds []link.Command) {
		call := c.Call()
		s.Serve(c, cmds, func() { c.Detach(call) })
	}, func(c *link.Conn, reason error) {
		s.Forget(c)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = append(s.ended, reason)
	}); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(link.Path, s.links)
	hs := &http.Server{Handler: mux}
	var run sync.WaitGroup
	run.Go(func() { _ = hs.Serve(ln) })
	run.Go(s.Run)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.unhang()
		s.End()
		_ = s.links.Close(ctx)
		_ = hs.Close()
		run.Wait()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	for i := range s.Types()[0].Desc.Shards {
		started.Add(1)
		s.Put(region.Received{From: "coordinator:1", Msg: control.HostShard{Term: 1, Shard: sharding.ShardID{Type: "Blob", Index: i}, Epoch: sharding.MakeEpoch(1, 1)}})
	}
	started.Wait()
	return s
}

// gatewayEnd is a gateway that sends commands, and reads answers once it may.
type gatewayEnd struct {
	t       *testing.T
	shards  uint32
	link    *link.Link
	reads   chan struct{} // closed: it may
	answers chan link.Answer
	number  uint64
	timeout time.Duration // of commands; 0: none
}

func (s *site) dial(t *testing.T, uid sharding.NodeUID, reads bool) *gatewayEnd {
	t.Helper()
	g := &gatewayEnd{t: t, shards: s.Types()[0].Desc.Shards, reads: make(chan struct{}), answers: make(chan link.Answer, 10_000)}
	if reads {
		close(g.reads)
	}
	cfg := link.DefaultConfig()
	cfg.Cluster, cfg.Self, cfg.Lanes = "test", sharding.NodeID{UID: uid}, 1
	up := make(chan *link.Link, 16)
	down := sync.OnceFunc(func() { close(g.answers) }) // the client connects again, and may be cut off again
	client, err := link.NewClient(cfg, s.node, link.Events{
		Up:     func(l *link.Link) { up <- l },
		Down:   func(*link.Link, link.Down) { down() },
		Failed: func(error, bool) {},
		Answers: func(_ *link.Link, as []link.Answer) {
			<-g.reads
			for _, a := range as {
				g.answers <- a
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		select {
		case <-g.reads:
		default:
			close(g.reads)
		}
		client.Close()
	})
	g.link = <-up
	return g
}

// ask sends commands to as many entities.
func (g *gatewayEnd) ask(count int, command string, n int) {
	g.t.Helper()
	for i := range count {
		g.number++
		id := sharding.EntityID(fmt.Sprintf("b%d", i))
		shard := shardingtest.ShardOf(id, g.shards)
		var deadline time.Time
		if g.timeout > 0 {
			deadline = time.Now().Add(g.timeout)
		}
		if err := g.link.Queue(shard, &link.Command{Number: g.number, Epoch: sharding.MakeEpoch(1, 1), Envelope: sharding.Envelope{
			Entity: sharding.Entity{Type: "Blob", ID: id}, Command: command, ID: sharding.CommandID(fmt.Sprintf("c%d", g.number)),
			Payload: fmt.Append(nil, n), Deadline: deadline,
		}}); err != nil {
			g.t.Fatal(err)
		}
	}
	g.link.Flush()
}

// get reads answers, and fails if one is none that was wished for.
func (g *gatewayEnd) get(count int) (bytes int) {
	g.t.Helper()
	for range count {
		select {
		case a, ok := <-g.answers:
			if !ok {
				g.t.Fatal("the link is down")
			}
			if a.NotMine != nil || a.Reply.Outcome != sharding.Executed || a.Reply.Code != "" {
				g.t.Fatalf("%+v", a)
			}
			bytes += len(a.Reply.Payload)
		case <-time.After(time.Minute):
			g.t.Fatal("no answer came")
		}
	}
	return bytes
}

// TestLargeRepliesBreakNoLink: replies that exceed the room of the connection
// wait, and so do the later commands; none fails, and no link.
func TestLargeRepliesBreakNoLink(t *testing.T) {
	s := runBlobs(t, nil)
	g := s.dial(t, 7, true)
	for range 3 {
		g.ask(48, "Fill", 1_000_000)
		g.ask(26, "Note", 1)
		g.ask(200, "Fill", 300_000)
		if got := g.get(274); got < 108_000_000 {
			t.Errorf("%d bytes came", got)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ended) > 0 {
		t.Error(s.ended)
	}
}

// TestSilentGatewaysAreBounded: gateways that read nothing get as much as the
// limits allow and no more, one that reads continues meanwhile, and when they do
// read all their answers come.
func TestSilentGatewaysAreBounded(t *testing.T) {
	const total = 40 << 20
	s := runBlobs(t, func(c *region.Config) { c.Replies.Total, c.Replies.Connection = total, 4<<20 })
	reader := s.dial(t, 7, true)
	reader.ask(1, "Fill", 1_000_000)
	reader.get(1)
	var silent []*gatewayEnd
	for i := range 6 {
		g := s.dial(t, sharding.NodeUID(100+i), false)
		g.ask(30, "Fill", 1_000_000)
		silent = append(silent, g)
	}
	used := func() int {
		s.inbox.mu.Lock()
		defer s.inbox.mu.Unlock()
		return s.inbox.budget.Used()
	}
	await(t, "silent gateways fill what they may", func() bool { return used() > 12<<20 })
	for range 5 {
		reader.ask(20, "Note", 1)
		reader.ask(20, "Fill", 1_000_000)
		reader.get(40)
		if got := used(); got > total {
			t.Errorf("%d bytes are owed", got)
		}
	}
	for _, g := range silent {
		close(g.reads)
		if got := g.get(30); got != 30_000_000 {
			t.Errorf("%d bytes came", got)
		}
	}
	await(t, "all is taken", func() bool { return used() == 0 })
}

// TestSmallCommandsPass: commands with small replies do not wait for large ones that
// find no room on the same connection.
func TestSmallCommandsPass(t *testing.T) {
	s := runBlobs(t, func(c *region.Config) { c.Replies.Total, c.Replies.Connection = 40<<20, 4<<20 })
	reader, silent := s.dial(t, 7, true), s.dial(t, 8, false)
	reader.ask(1, "Fill", 1_000_000)
	reader.ask(1, "Note", 0)
	reader.get(2)
	silent.ask(30, "Fill", 1_000_000)
	await(t, "large ones wait", func() bool { return s.waitForRoom() > 0 })
	for range 10 {
		silent.number++
		if err := silent.link.Queue(0, &link.Command{Number: silent.number, Epoch: sharding.MakeEpoch(1, 1), Envelope: sharding.Envelope{
			Entity: sharding.Entity{Type: "Blob", ID: "small"}, Command: "Note", ID: sharding.CommandID(fmt.Sprint(silent.number)), Payload: []byte("1"),
		}}); err != nil {
			t.Fatal(err)
		}
	}
	silent.link.Flush()
	await(t, "small ones run", func() bool {
		reader.number++
		if err := reader.link.Send(0, &link.Command{Number: reader.number, Epoch: sharding.MakeEpoch(1, 1), Envelope: sharding.Envelope{
			Entity: sharding.Entity{Type: "Blob", ID: "small"}, Command: "Note", ID: sharding.CommandID(fmt.Sprint("r", reader.number)), Payload: []byte("0"),
		}}); err != nil {
			t.Fatal(err)
		}
		a := <-reader.answers
		return string(a.Reply.Payload) == "10"
	})
	if s.waitForRoom() == 0 {
		t.Error("the large ones should still wait")
	}
	close(silent.reads)
	silent.get(40)
}

// TestAHungEntityLeavesRoom: commands for an entity whose turns do not end take only a part
// of the connection's reply budget. The others are answered meanwhile, and in the end all.
func TestAHungEntityLeavesRoom(t *testing.T) {
	s := runBlobs(t, func(c *region.Config) { c.Replies.Total, c.Replies.Connection = 40<<20, 4<<20 })
	g := s.dial(t, 7, true)
	shard := shardingtest.ShardOf("hung", g.shards)
	const hung = 200 // of an unknown kind: 64 KiB are expected for each
	for range hung {
		g.number++
		if err := g.link.Queue(shard, &link.Command{Number: g.number, Epoch: sharding.MakeEpoch(1, 1), Envelope: sharding.Envelope{
			Entity: sharding.Entity{Type: "Blob", ID: "hung"}, Command: "Hang", ID: sharding.CommandID(fmt.Sprint(g.number)), Payload: []byte("1"),
		}}); err != nil {
			t.Fatal(err)
		}
	}
	g.link.Flush()
	await(t, "most of them wait", func() bool { return s.waitForRoom() > hung/2 })
	for range 3 {
		g.ask(20, "Note", 1)
		g.ask(2, "Fill", 1_000_000)
		g.get(22)
	}
	s.unhang()
	g.get(hung)
}

// waitForRoom returns the number of commands that wait for room for their replies.
func (s *site) waitForRoom() int {
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	return s.inbox.budget.Waiting()
}

// TestWhatWaitsIsRefusedInTime: a command that finds no room is refused as not run,
// well before its sender gives it up.
func TestWhatWaitsIsRefusedInTime(t *testing.T) {
	s := runBlobs(t, func(c *region.Config) { c.Replies.Total, c.Replies.Connection = 40<<20, 4<<20 })
	reader, silent := s.dial(t, 7, true), s.dial(t, 8, false)
	reader.ask(1, "Fill", 1_000_000)
	reader.get(1)
	silent.timeout = 400 * time.Millisecond
	silent.ask(30, "Fill", 1_000_000)
	await(t, "large ones wait", func() bool { return s.waitForRoom() > 0 })
	await(t, "nothing waits any more", func() bool { return s.waitForRoom() == 0 })
	close(silent.reads)
	ran, refused := 0, 0
	for range 30 {
		switch a := <-silent.answers; {
		case a.Reply.Outcome == sharding.Executed:
			ran++
		case a.Reply.Outcome == sharding.NotApplied && a.Reply.Code == sharding.ResourceExhausted:
			refused++
		default:
			t.Errorf("%+v", a)
		}
	}
	if ran == 0 || refused == 0 { // how many depends on what the network holds
		t.Errorf("%d ran and %d were refused", ran, refused)
	}
}

// TestCommandsThatFoundRoomAreKnown: a waiting command is counted as admitted once
// it finds room, or only the next tick would see it.
func TestCommandsThatFoundRoomAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := oneInbox(1)
		var got batch
		taken := 0
		take := func(cores) {
			b.take(0, &got)
			taken += len(got.arrivals)
			got = batch{}
		}
		b.arrive(nowhere{}, make([]link.Command, 5), nil, nil, take)
		if take(0); taken != 5 {
			t.Errorf("%d of 5 commands were taken in", taken)
		}
	})
}

type nowhere struct{}

func (nowhere) SendBatch([]link.Answer) error { return nil }
func (nowhere) Unsent() int                   { return 0 }
func (nowhere) Ended() bool                   { return false }
func (nowhere) Waiting()                      {}
