package link

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/roost-cluster/roost/libs/sharding"
)

// raw opens a lane without a Client and returns the client's end of the connection.
func raw(t *testing.T, p *pipes, h hello) (net.Conn, *bufio.Reader, error) {
	t.Helper()
	nc, err := p.dial(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	w, first, err := handshake(nc, "region:1", &h)
	if err == nil && (w.version != min(h.maxVersion, MaxVersion) || len(first) > 0) {
		t.Fatalf("%+v %x", w, first)
	}
	return nc, bufio.NewReader(nc), err
}

func goodHello() hello {
	return hello{
		minVersion: MinVersion, maxVersion: MaxVersion, cluster: "test", self: testGateway, peer: testRegion.UID,
		lanes: 2, session: sessions.Add(1), maxPayload: 1 << 20,
	}
}

func TestHandshakeRefusals(t *testing.T) {
	p := newPipes()
	cfg := testConfig(testRegion)
	cfg.Generation = func() sharding.Generation { return 7 }
	s := serve(t, p, cfg, echo, nil)
	for name, tt := range map[string]struct {
		change func(*hello)
		text   string
	}{
		"cluster":  {func(h *hello) { h.cluster = "prod" }, `this is cluster "test", not "prod"`},
		"uid":      {func(h *hello) { h.peer = 99 }, "this is node region:1#a, not #63"},
		"too new":  {func(h *hello) { h.minVersion, h.maxVersion = 7, 9 }, fmt.Sprintf("versions 1 to %d are spoken here, not 7 to 9", MaxVersion)},
		"too old":  {func(h *hello) { h.minVersion, h.maxVersion = 0, 0 }, "not 0 to 0"},
		"lane":     {func(h *hello) { h.lane = 2 }, "lane 2 of 2"},
		"lanes":    {func(h *hello) { h.lanes = 1000 }, "of 1000"},
		"nobody":   {func(h *hello) { h.self.UID = 0 }, "uid 0"},
		"no limit": {func(h *hello) { h.maxPayload = 0 }, "up to 0 bytes"},
		"journal":  {func(h *hello) { h.generation = 8 }, "restart the process that is older"},
	} {
		h := goodHello()
		tt.change(&h)
		_, _, err := raw(t, p, h)
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tt.text) || errors.Is(err, ErrOtherNode) != (name == "uid") {
			t.Errorf("%s: %v", name, err)
		}
	}
	h := goodHello()
	h.maxVersion = 8
	if _, _, err := raw(t, p, h); err != nil {
		t.Errorf("a newer client that still speaks these versions: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Close(ctx) // a refusal is counted after the client has heard of it
	<-s.empty
	if got := s.Stats().Refused; got != 9 {
		t.Errorf("%d refused", got)
	}
}

func TestClientRefusesOtherServers(t *testing.T) {
	h := goodHello()
	good := welcome{version: 1, cluster: "test", self: testRegion, maxPayload: 1}
	if err := good.accept(&h); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*welcome){
		"cluster": func(w *welcome) { w.cluster = "prod" },
		"uid":     func(w *welcome) { w.self.UID = 99 },
		"version": func(w *welcome) { w.version = MaxVersion + 1 },
	} {
		w := good
		change(&w)
		if err := w.accept(&h); !errors.Is(err, ErrRefused) || errors.Is(err, ErrOtherNode) != (name == "uid") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPlainHTTPIsTold(t *testing.T) {
	s, err := NewServer(testConfig(testRegion), echo, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := newPipes()
	hs := &http.Server{Handler: s}
	go func() { _ = hs.Serve(p) }()
	defer hs.Close()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) { return p.dial(ctx, addr) }}}
	defer client.CloseIdleConnections()
	res, err := client.Get("http://region/link")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusUpgradeRequired || !strings.Contains(string(text), Protocol) {
		t.Errorf("%s %s", res.Status, text)
	}
	// and a link client at another HTTP server gets the status as the reason
	q := newPipes()
	other := &http.Server{Handler: http.NotFoundHandler()}
	go func() { _ = other.Serve(q) }()
	defer other.Close()
	if _, _, err := raw(t, q, goodHello()); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "404") {
		t.Error(err)
	}
}

// TestMalformedHarmsNoOther: a malformed frame ends its connection, and the reason is
// sent; the commands before it and other connections are served.
func TestMalformedHarmsNoOther(t *testing.T) {
	p := newPipes()
	closed := make(chan error, 10)
	s := serve(t, p, testConfig(testRegion), echo, func(_ *Conn, err error) { closed <- err })
	cfg := testConfig(sharding.NodeID{UID: 0xc})
	cfg.Dial = p.dial
	e, _ := connect(t, cfg, testRegion)
	l := get(t, e.up)
	for _, bad := range [][]byte{{0, 0, 0, 0}, {0xff, 0xff, 0xff, 0xff}, {0, 0, 0, 1, 77}, {0, 0, 0, 1, kindAnswer}, {0, 0, 0, 2, kindCommand, 0xff}} {
		nc, br, err := raw(t, p, goodHello())
		if err != nil {
			t.Fatal(err)
		}
		var n nameTable
		go func() { _, _ = nc.Write(append(n.appendCommand(nil, command(1, "first"), 0), bad...)) }()
		kind, _, err := readHandshake(br)
		if err != nil || kind != kindAnswer {
			t.Fatalf("%x: %d %v", bad, kind, err)
		}
		kind, reason, err := readHandshake(br)
		if err != nil || kind != kindClose || !strings.Contains(string(reason), ErrMalformed.Error()) {
			t.Errorf("%x: kind %d, %q, %v", bad, kind, reason, err)
		}
		if _, err := br.ReadByte(); err != io.EOF {
			t.Errorf("%x: %v", bad, err)
		}
		if err := get(t, closed); !errors.Is(err, ErrMalformed) {
			t.Errorf("%x: closed with %v", bad, err)
		}
	}
	if err := l.Send(0, command(5, "alive")); err != nil {
		t.Fatal(err)
	}
	if a := get(t, e.answers); a.Number != 5 {
		t.Errorf("%+v", a)
	}
	if got := s.Stats(); got.Malformed != 5 {
		t.Errorf("%+v", got)
	}
}

// TestClientIsToldWhyItWasClosed uses TCP, where closing too early would discard the
// reason.
func TestClientIsToldWhyItWasClosed(t *testing.T) {
	ln := listen(t)
	serve(t, ln, testConfig(testRegion), echo, nil)
	cfg := testConfig(testGateway)
	cfg.Lanes = 1
	e, _ := connect(t, cfg, sharding.NodeID{Addr: ln.Addr().String(), UID: testRegion.UID})
	s := &get(t, e.up).lanes[0].stream
	s.mu.Lock()
	s.pending = append(end(append(begin(s.pending, kindAnswer), "nonsense"...), 0), make([]byte, 1<<20)...)
	s.leaveToWriter(1)
	s.mu.Unlock()
	if d := get(t, e.down); !strings.Contains(d.Reason.Error(), "a client does not send kind 17") {
		t.Error(d.Reason)
	}
	get(t, e.up) // and it may come back
}

func TestMalformedAnswerCutsTheLink(t *testing.T) {
	p := newPipes()
	serve(t, p, testConfig(testRegion), func(c *Conn, _ []Command) {
		c.stream.mu.Lock()
		c.stream.pending = append(c.stream.pending, 0, 0, 0, 2, kindAnswer, 0xff)
		c.stream.leaveToWriter(1)
		c.stream.mu.Unlock()
	}, nil)
	cfg := testConfig(testGateway)
	cfg.Dial = p.dial
	e, _ := connect(t, cfg, testRegion)
	if err := get(t, e.up).Send(0, command(1, "")); err != nil {
		t.Fatal(err)
	}
	if d := get(t, e.down); !errors.Is(d.Reason, ErrMalformed) {
		t.Error(d.Reason)
	}
}

// TestReadsOneLinkOfALane: a new connection of the same client and lane is
// read only after the older one's callback has returned, and what the older
// one had not delivered by then is dropped.
func TestReadsOneLinkOfALane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		hold := make(chan struct{})
		var got []string
		s := serve(t, p, testConfig(testRegion), func(_ *Conn, cs []Command) {
			for _, c := range cs {
				got = append(got, string(c.Envelope.Payload))
			}
			if got[len(got)-1] == "old 1" {
				<-hold
			}
		}, nil)
		write := func(nc net.Conn, payloads ...string) {
			var n nameTable
			var b []byte
			for i, payload := range payloads {
				b = n.appendCommand(b, command(uint64(i), payload), 0)
			}
			go func() { _, _ = nc.Write(b) }()
			synctest.Wait()
		}
		old, _, err := raw(t, p, goodHello())
		if err != nil {
			t.Fatal(err)
		}
		var n nameTable // one write per frame, so that the second is never decoded
		frame := n.appendCommand(nil, command(1, "old 1"), 0)
		second := n.appendCommand(nil, command(2, "old 2"), 0)
		go func() { _, _ = old.Write(frame); _, _ = old.Write(second) }()
		synctest.Wait()

		stale := goodHello()
		opened := make(chan net.Conn)
		fresh := goodHello()
		go func() {
			nc, _, err := raw(t, p, fresh)
			if err != nil {
				t.Error(err)
			}
			opened <- nc
		}()
		synctest.Wait()
		select {
		case <-opened:
			t.Fatal("welcomed while the older link is being read")
		default:
		}
		if _, _, err := raw(t, p, stale); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "newer link") {
			t.Errorf("an older link may overtake: %v", err)
		}
		otherLane := goodHello()
		otherLane.lane = 1
		if _, _, err := raw(t, p, otherLane); err != nil {
			t.Errorf("another lane has to wait: %v", err)
		}
		close(hold)
		write(<-opened, "new 1", "new 2")
		if want := "[old 1 new 1 new 2]"; fmt.Sprint(got) != want {
			t.Errorf("got %v, want %v", got, want)
		}
		if n := s.Stats().Superseded; n != 1 {
			t.Errorf("%d superseded", n)
		}
	})
}

// TestDecodedBatchOfAnOldLinkIsDropped: commands that were read but not delivered when
// the link was replaced are dropped.
func TestDecodedBatchOfAnOldLinkIsDropped(t *testing.T) {
	p := newPipes()
	s := serve(t, p, testConfig(testRegion), func(*Conn, []Command) { t.Error("handed over") }, nil)
	c := &Conn{server: s, batch: []Command{*command(1, "")}}
	here, there := net.Pipe()
	defer there.Close()
	c.stream.open(here, &s.cfg, 100, true)
	c.stream.fail(ErrSuperseded)
	c.flush(new(error))
	if len(c.batch) != 0 {
		t.Error("batch is kept")
	}
}

// TestOnlyTheNewestWaits: while a callback does not return, newer connections
// replace each other and the last one gets the lane, or gives up in time.
func TestOnlyTheNewestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		hold := make(chan struct{})
		s := serve(t, p, testConfig(testRegion), func(*Conn, []Command) { <-hold }, nil)
		old, _, err := raw(t, p, goodHello())
		if err != nil {
			t.Fatal(err)
		}
		var n nameTable
		_, _ = old.Write(n.appendCommand(nil, command(1, ""), 0))
		synctest.Wait() // for the callback
		results := make(chan error, 3)
		for range 3 {
			h := goodHello()
			go func() { _, _, err := raw(t, p, h); results <- err }()
			synctest.Wait()
		}
		for range 2 {
			if err := <-results; err == nil {
				t.Error("an older one got the lane")
			}
		}
		if err := <-results; err == nil { // the handshake timeout
			t.Error("got the lane while another one is being read")
		}
		close(hold)
		synctest.Wait()
		if _, _, err := raw(t, p, goodHello()); err != nil {
			t.Error(err)
		}
		if n := len(s.readers.lanes); n != 1 {
			t.Errorf("%d lanes", n)
		}
	})
}

func TestMaxLinks(t *testing.T) {
	p := newPipes()
	cfg := testConfig(testRegion)
	cfg.MaxLinks = 1
	serve(t, p, cfg, echo, nil)
	if _, _, err := raw(t, p, goodHello()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := raw(t, p, goodHello()); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "1 links already") {
		t.Error(err)
	}
}

// TestEndedBeforeTheNextReads: a connection has ended before the next one of its lane
// brings commands, although its client is still told why. Waiting messages of the first
// may be sent again on the next, so they must not be read after it.
func TestEndedBeforeTheNextReads(t *testing.T) {
	ln := listen(t)
	ended := make(chan bool, 1)
	var first *Conn
	serve(t, ln, testConfig(testRegion), func(c *Conn, _ []Command) {
		if first == nil {
			first = c // and is not answered
		} else {
			ended <- first.Ended()
		}
	}, nil)
	for _, bad := range [][]byte{{0, 0, 0, 1, 77}, nil} {
		nc, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = nc.Close() }()
		h := goodHello()
		if _, _, err := handshake(nc, "region:1", &h); err != nil {
			t.Fatal(err)
		}
		var n nameTable
		if _, err := nc.Write(append(n.appendCommand(nil, command(1, "a"), 0), bad...)); err != nil {
			t.Fatal(err)
		}
		if bad != nil { // else the second could come before it is read
			if _, _, err := readHandshake(bufio.NewReader(nc)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !get(t, ended) {
		t.Error("the first connection has not ended, and the next one reads")
	}
}
