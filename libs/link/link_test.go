package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

var (
	testRegion  = sharding.NodeID{Addr: "region:1", UID: 0xa}
	testGateway = sharding.NodeID{Addr: "gateway:1", UID: 0xb}
)

func testConfig(self sharding.NodeID) Config {
	cfg := DefaultConfig()
	cfg.Cluster, cfg.Self, cfg.Lanes = "test", self, 2
	return cfg
}

// pipes is a network of net.Pipe connections: it has no buffers and no ports, and
// works with virtual time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes {
	return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case nc := <-p.conns:
		return nc, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

func (p *pipes) dial(ctx context.Context, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// networks runs a test over pipes, where the writer goroutine writes everything, and
// over TCP. cfg is the client's.
func networks(t *testing.T, test func(t *testing.T, l net.Listener, cfg Config, to sharding.NodeID)) {
	t.Run("pipes", func(t *testing.T) {
		p, cfg := newPipes(), testConfig(testGateway)
		cfg.Dial = p.dial
		test(t, p, cfg, testRegion)
	})
	t.Run("TCP", func(t *testing.T) {
		ln := listen(t)
		test(t, ln, testConfig(testGateway), sharding.NodeID{Addr: ln.Addr().String(), UID: testRegion.UID})
	})
}

// serve runs a server on a listener until the test ends.
func serve(t testing.TB, l net.Listener, cfg Config, onCommands func(*Conn, []Command), onClose func(*Conn, error)) *Server {
	t.Helper()
	s, err := NewServer(cfg, onCommands, onClose)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(Path, s)
	hs := &http.Server{Handler: mux}
	done := make(chan struct{})
	go func() { defer close(done); _ = hs.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Close(ctx)
		<-s.empty
		_ = hs.Close()
		<-done
	})
	return s
}

// events records what a Client reports.
type events struct {
	up      chan *Link
	down    chan Down
	failed  chan failure
	answers chan Answer
}

type failure struct {
	err  error
	gone bool
}

func connect(t testing.TB, cfg Config, to sharding.NodeID) (*events, *Client) {
	t.Helper()
	e := &events{make(chan *Link, 16), make(chan Down, 16), make(chan failure, 16), make(chan Answer, 1<<17)}
	p, err := NewClient(cfg, to, Events{
		Up:   func(l *Link) { e.up <- l },
		Down: func(_ *Link, d Down) { e.down <- d },
		Failed: func(err error, gone bool) {
			select {
			case e.failed <- failure{err, gone}:
			default:
			}
		},
		Answers: func(_ *Link, as []Answer) {
			for _, a := range as {
				e.answers <- a
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return e, p
}

// get waits for an event, and fails the test instead of hanging if none comes.
func get[T any](t testing.TB, ch chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(20 * time.Second):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func command(number uint64, payload string) *Command {
	return &Command{Number: number, Epoch: 1, Envelope: sharding.Envelope{
		Entity: sharding.Entity{Type: "Airport", ID: "PHX"}, Command: "Depart",
		ID: sharding.CommandID(fmt.Sprintf("k-%d", number)), Payload: []byte(payload),
	}}
}

// echo answers every command with its payload.
func echo(c *Conn, cs []Command) {
	as := make([]Answer, len(cs))
	for i := range cs {
		as[i] = Answer{Number: cs[i].Number, Reply: sharding.Reply{Outcome: sharding.Executed, Payload: cs[i].Envelope.Payload}}
	}
	_ = c.SendBatch(as)
}

func TestAsk(t *testing.T) {
	p := newPipes()
	s := serve(t, p, testConfig(testRegion), func(c *Conn, cs []Command) {
		for i := range cs {
			a := Answer{Number: cs[i].Number}
			switch cs[i].Number {
			case 1:
				a.Reply = sharding.Reply{Outcome: sharding.Executed, Payload: []byte(c.Peer().String() + string(cs[i].Envelope.Payload))}
			case 2:
				a.NotMine = &NotMine{Refused: cs[i].Epoch}
			case 3:
				a.Reply = sharding.Reply{Outcome: sharding.Executed, Payload: make([]byte, 1<<20+1)}
			}
			if err := c.Send(a); err != nil {
				t.Error(err)
			}
		}
	}, nil)
	cfg := testConfig(testGateway)
	cfg.Dial = p.dial
	e, peer := connect(t, cfg, testRegion)
	l := get(t, e.up)
	if l.Node() != testRegion || peer.Node() != testRegion {
		t.Error(l.Node())
	}
	for number := range uint64(3) {
		if err := l.Send(0, command(number+1, "!")); err != nil {
			t.Fatal(err)
		}
	}
	if a := get(t, e.answers); a.Number != 1 || string(a.Reply.Payload) != testGateway.String()+"!" {
		t.Errorf("%+v", a)
	}
	if a := get(t, e.answers); a.Number != 2 || a.NotMine == nil || a.NotMine.Refused != 1 {
		t.Errorf("%+v", a)
	}
	if a := get(t, e.answers); a.Number != 3 || a.Reply.Outcome != sharding.Executed || a.Reply.Code != sharding.Internal {
		t.Errorf("%+v", a)
	}
	peer.Close()
	if d := get(t, e.down); !errors.Is(d.Reason, ErrDown) || d.Unsent != nil {
		t.Errorf("%+v", d)
	}
	if err := l.Send(0, command(3, "")); !errors.Is(err, ErrDown) {
		t.Error(err)
	}
	if got := s.Stats(); got.Commands != 3 || got.Answers != 3 || got.Malformed+got.Refused+got.SlowReaders != 0 {
		t.Errorf("%+v", got)
	}
}

func TestSendRefusesLongPayloads(t *testing.T) {
	p := newPipes()
	region := testConfig(testRegion)
	region.MaxPayload = 100
	serve(t, p, region, echo, nil)
	cfg := testConfig(testGateway)
	cfg.Dial = p.dial
	e, _ := connect(t, cfg, testRegion)
	l := get(t, e.up)
	c := command(1, "")
	c.Envelope.Payload = make([]byte, 101)
	if err := l.Send(0, c); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if err := l.Send(0, command(2, "fine")); err != nil {
		t.Fatal(err)
	}
	if a := get(t, e.answers); a.Number != 2 {
		t.Errorf("%+v", a)
	}
}

// TestOrderPerShard: commands of one shard arrive in the order in which they were
// sent, whatever the number of lanes.
func TestOrderPerShard(t *testing.T) { networks(t, testOrderPerShard) }

func testOrderPerShard(t *testing.T, ln net.Listener, cfg Config, to sharding.NodeID) {
	const shards, each = 5, 400
	var mu sync.Mutex
	got := map[string][]uint64{}
	lanes := map[string]map[int]bool{}
	serve(t, ln, testConfig(testRegion), func(c *Conn, cs []Command) {
		mu.Lock()
		for _, cmd := range cs {
			id := string(cmd.Envelope.Entity.ID)
			got[id] = append(got[id], cmd.Number)
			if lanes[id] == nil {
				lanes[id] = map[int]bool{}
			}
			lanes[id][c.Lane()] = true
		}
		mu.Unlock()
		echo(c, cs)
	}, nil)
	cfg.Lanes = 3
	e, _ := connect(t, cfg, to)
	l := get(t, e.up)
	var wg sync.WaitGroup
	for shard := range uint32(shards) {
		wg.Go(func() {
			for i := range uint64(each) {
				c := command(i, "x")
				c.Envelope.Entity.ID = sharding.EntityID(fmt.Sprint(shard))
				if err := l.Send(shard, c); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for range shards * each {
		get(t, e.answers)
	}
	mu.Lock()
	defer mu.Unlock()
	for id, numbers := range got {
		if len(lanes[id]) != 1 || len(numbers) != each {
			t.Errorf("shard %s: %d commands on lanes %v", id, len(numbers), lanes[id])
		}
		for i, number := range numbers {
			if number != uint64(i) {
				t.Fatalf("shard %s: command %d came at %d", id, number, i)
			}
		}
	}
}

// TestBackpressure: when the region does not read, Send refuses commands, of whose
// bytes none is sent, and Down names the commands that were accepted but never sent.
func TestBackpressure(t *testing.T) { synctest.Test(t, testBackpressure) }

func testBackpressure(t *testing.T) {
	p := newPipes()
	hold, entered := make(chan struct{}), make(chan struct{}, 100)
	var mu sync.Mutex
	seen := map[uint64]bool{}
	serve(t, p, testConfig(testRegion), func(c *Conn, cs []Command) {
		mu.Lock()
		for _, cmd := range cs {
			seen[cmd.Number] = true
		}
		mu.Unlock()
		entered <- struct{}{}
		<-hold
	}, nil)
	cfg := testConfig(testGateway)
	cfg.Dial, cfg.Lanes, cfg.MaxPendingMessages = p.dial, 1, 10
	e, peer := connect(t, cfg, testRegion)
	l := get(t, e.up)
	if err := l.Send(0, command(0, "")); err != nil {
		t.Fatal(err)
	}
	get(t, entered)
	if err := l.Send(0, command(1, "")); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // the writer is stuck with command 1
	refused, sent := map[uint64]bool{}, uint64(2)
	for ; len(refused) == 0; sent++ {
		if err := l.Send(0, command(sent, "")); errors.Is(err, ErrBackpressure) {
			refused[sent] = true
		} else if err != nil {
			t.Fatal(err)
		}
	}
	peer.Close()
	d := get(t, e.down)
	close(hold)
	if len(d.Unsent) != 10 || d.Unsent[0] != 2 || d.Unsent[9] != 11 || sent != 13 {
		t.Errorf("unsent %v of %d", d.Unsent, sent)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, number := range d.Unsent {
		if seen[number] {
			t.Errorf("command %d is called unsent and was seen", number)
		}
	}
	if !seen[0] || seen[sent-1] {
		t.Errorf("seen %v", seen)
	}
}

func TestPendingBytesAreBounded(t *testing.T) {
	p := newPipes()
	serve(t, p, testConfig(testRegion), func(c *Conn, _ []Command) { <-c.stream.down }, nil)
	cfg := testConfig(testGateway)
	cfg.Dial, cfg.Lanes, cfg.MaxPayload, cfg.MaxPendingBytes = p.dial, 1, 1000, 20_000
	e, _ := connect(t, cfg, testRegion)
	l := get(t, e.up)
	for i := range uint64(1000) {
		err := l.Send(0, command(i, string(make([]byte, 1000))))
		s := &l.lanes[0].stream
		s.mu.Lock()
		waiting := len(s.pending)
		s.mu.Unlock()
		if waiting > 20_000 {
			t.Fatalf("%d bytes wait", waiting)
		}
		if errors.Is(err, ErrBackpressure) {
			return
		}
	}
	t.Fatal("never refused")
}

func TestConfigNamesTheField(t *testing.T) {
	good := testConfig(testRegion)
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	var zero Config
	err := zero.Validate()
	for _, field := range []string{"Cluster", "Self.UID", "Lanes", "MaxPayload", "MaxPendingBytes", "MaxPendingMessages",
		"ReadBuffer", "MaxLinks", "Beat", "HandshakeTimeout", "RetryMin", "Dial"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not named in %v", field, err)
		}
	}
	short := good
	short.Timeout = short.Beat
	if err := short.Validate(); err == nil {
		t.Error("Timeout of one Beat passes")
	}
	if _, err := NewServer(zero, echo, nil); err == nil {
		t.Error("server takes a zero config")
	}
	if _, err := NewServer(good, nil, nil); err == nil {
		t.Error("server takes no callback")
	}
	if _, err := NewClient(good, testRegion, Events{}); err == nil {
		t.Error("peer takes no events")
	}
	if _, err := NewClient(zero, testRegion, Events{}); err == nil {
		t.Error("peer takes a zero config")
	}
}
