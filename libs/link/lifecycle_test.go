package link

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"io"
	"math/big"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// TestAnswersAreHeld: a client that reads late gets answers of any number and size,
// and is not disconnected because of them.
func TestAnswersAreHeld(t *testing.T) {
	p := newPipes()
	cfg := testConfig(testRegion)
	cfg.MaxPendingMessages, cfg.MaxPayload, cfg.MaxPendingBytes = 10, 100_000, 200_000
	conns := make(chan *Conn, 1)
	const batches, each = 50, 7
	s := serve(t, p, cfg, func(c *Conn, cs []Command) {
		for range batches {
			as := make([]Answer, each)
			for i := range as {
				as[i] = Answer{Number: 1, Reply: sharding.Reply{Outcome: sharding.Executed, Payload: make([]byte, 50_000)}}
			}
			if err := c.SendBatch(as); err != nil {
				t.Error(err)
			}
		}
		conns <- c
	}, nil)
	hello := goodHello()
	hello.maxPayload = 100_000
	nc, br, err := raw(t, p, hello)
	if err != nil {
		t.Fatal(err)
	}
	var n nameTable
	_, _ = nc.Write(n.appendCommand(nil, command(1, ""), 0))
	c := get(t, conns)
	if got := c.Unsent(); got < (batches*each-1)*50_000 {
		t.Errorf("%d bytes are held", got)
	}
	head := make([]byte, 5)
	for i := range batches * each {
		if _, err := io.ReadFull(br, head); err != nil || head[4] != kindAnswer {
			t.Fatalf("answer %d: kind %d, %v", i, head[4], err)
		}
		if _, err := io.CopyN(io.Discard, br, int64(binary.BigEndian.Uint32(head))-1); err != nil {
			t.Fatal(err)
		}
	}
	for c.Unsent() > 0 { // until the writer has noticed
		runtime.Gosched()
	}
	if got := s.Stats(); got.SlowReaders != 0 || got.Links != 1 {
		t.Errorf("%+v", got)
	}
}

// TestWaitingCallbackWrites: the answers of a callback are written before it returns
// if it announces that it is going to wait.
func TestWaitingCallbackWrites(t *testing.T) {
	networks(t, func(t *testing.T, l net.Listener, cfg Config, to sharding.NodeID) {
		read := make(chan struct{})
		serve(t, l, testConfig(testRegion), func(c *Conn, cs []Command) {
			echo(c, cs)
			c.Waiting()
			get(t, read)
			echo(c, cs)
			get(t, read)
		}, nil)
		e, _ := connect(t, cfg, to)
		if err := get(t, e.up).Send(0, command(1, "")); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			get(t, e.answers)
			read <- struct{}{}
		}
	})
}

// TestSlowClientIsHeldBack: while a client does not read its answers, no more of its
// commands are delivered; it is not disconnected.
func TestSlowClientIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		cfg := testConfig(testRegion)
		cfg.MaxPendingMessages = 10
		var handed int
		serve(t, p, cfg, func(c *Conn, cs []Command) { handed += len(cs); echo(c, cs) }, nil)
		nc, br, err := raw(t, p, goodHello())
		if err != nil {
			t.Fatal(err)
		}
		const sent = 100
		go func() {
			var n nameTable
			for i := range uint64(sent) {
				_, _ = nc.Write(n.appendCommand(nil, command(i, ""), 0))
			}
		}()
		synctest.Wait()
		if handed < 10 || handed > 21 { // ten wait, and up to ten are being written
			t.Errorf("%d commands were handed over", handed)
		}
		for i := range sent {
			if kind, _, err := readHandshake(br); err != nil || kind != kindAnswer {
				t.Fatalf("answer %d: kind %d, %v", i, kind, err)
			}
		}
		if handed != sent {
			t.Errorf("%d commands were handed over", handed)
		}
	})
}

// TestSlowReaderIsCutInTime: after Timeout, one unread answer is enough.
func TestSlowReaderIsCutInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		closed := make(chan error, 1)
		cfg := testConfig(testRegion)
		serve(t, p, cfg, echo, func(_ *Conn, err error) { closed <- err })
		nc, _, err := raw(t, p, goodHello())
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { // it beats, but does not read
			defer close(done)
			for {
				if _, err := nc.Write(appendHeartbeat(nil)); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		var n nameTable
		start := time.Now()
		_, _ = nc.Write(n.appendCommand(nil, command(1, ""), 0))
		var stalled *Stalled
		if err := <-closed; !errors.Is(err, ErrSlowReader) || !errors.As(err, &stalled) || stalled.Pending == 0 || stalled.For != cfg.Timeout {
			t.Error(err)
		}
		if d := time.Since(start); d < cfg.Timeout || d > cfg.Timeout+cfg.Beat {
			t.Errorf("after %v", d)
		}
		<-done
	})
}

// TestCloseInOrder: everything sent before the server closes is answered, on
// all lanes, and nothing is in doubt.
func TestCloseInOrder(t *testing.T) {
	p := newPipes()
	var queue []func()
	ready := make(chan struct{}, 100)
	turn := make(chan struct{}, 1)
	turn <- struct{}{}
	s := serve(t, p, testConfig(testRegion), func(c *Conn, cs []Command) {
		<-turn
		for _, cmd := range cs {
			queue = append(queue, func() { echo(c, []Command{cmd}) })
			ready <- struct{}{}
		}
		turn <- struct{}{}
	}, nil)
	cfg := testConfig(testGateway)
	cfg.Dial = p.dial
	e, _ := connect(t, cfg, testRegion)
	l := get(t, e.up)
	for i := range uint32(20) {
		if err := l.Send(i, command(uint64(i), "")); err != nil {
			t.Fatal(err)
		}
	}
	closed := make(chan error)
	go func() { closed <- s.Close(context.Background()) }()
	for range 20 {
		get(t, ready)
	}
	for i := 0; ; i++ { // until the client has heard of it
		if err := l.Send(0, command(100+uint64(i), "")); errors.Is(err, ErrDown) {
			break
		}
		get(t, ready)
	}
	<-turn
	for _, answer := range queue {
		answer()
	}
	if err := get(t, closed); err != nil {
		t.Error(err)
	}
	if d := get(t, e.down); !errors.Is(d.Reason, errClosed) || len(d.Unsent) > 0 {
		t.Errorf("%+v", d)
	}
	if len(e.answers) != len(queue) {
		t.Errorf("%d answers to %d commands", len(e.answers), len(queue))
	}
	if f := get(t, e.failed); !errors.Is(f.err, ErrRefused) || !strings.Contains(f.err.Error(), "closing") {
		t.Errorf("dialled again: %v", f.err)
	}
}

func TestCloseGivesUpWithTheContext(t *testing.T) {
	p := newPipes()
	s := serve(t, p, testConfig(testRegion), func(*Conn, []Command) {}, nil) // answers nothing
	cfg := testConfig(testGateway)
	cfg.Dial = p.dial
	e, _ := connect(t, cfg, testRegion)
	_ = get(t, e.up).Send(0, command(1, ""))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	get(t, e.down)
}

// brokenPipe fails to write when told to, and can still be read.
type brokenPipe struct {
	net.Conn
	broken atomic.Bool
}

func (b *brokenPipe) Write(p []byte) (int, error) {
	if b.broken.Load() {
		return 0, syscall.EPIPE
	}
	return b.Conn.Write(p)
}

// TestAnswersAreReadAfterAFailedWrite: answers that the region sent before it
// ended are not lost.
func TestAnswersAreReadAfterAFailedWrite(t *testing.T) {
	p := newPipes()
	conns := make(chan *Conn, 1)
	serve(t, p, testConfig(testRegion), func(c *Conn, _ []Command) { conns <- c }, nil)
	cfg := testConfig(testGateway)
	var b *brokenPipe
	cfg.Lanes = 1
	cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
		nc, err := p.dial(ctx, addr)
		b = &brokenPipe{Conn: nc}
		return b, err
	}
	e, _ := connect(t, cfg, testRegion)
	l := get(t, e.up)
	_ = l.Send(0, command(1, ""))
	c := get(t, conns)
	b.broken.Store(true)
	_ = l.Send(0, command(2, ""))
	<-l.lanes[0].stream.down
	if err := c.Send(Answer{Number: 1, Reply: sharding.Reply{Outcome: sharding.Executed}}); err != nil {
		t.Error(err)
	}
	if a := get(t, e.answers); a.Number != 1 {
		t.Errorf("%+v", a)
	}
	if d := get(t, e.down); !errors.Is(d.Reason, syscall.EPIPE) {
		t.Error(d.Reason)
	}
}

// TestSilence: heartbeats keep an idle link open; without them either side closes it.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		closed := make(chan error, 4)
		cfg := testConfig(testRegion)
		serve(t, p, cfg, echo, func(_ *Conn, err error) { closed <- err })
		client := testConfig(sharding.NodeID{UID: 0xc})
		client.Dial = p.dial
		e, _ := connect(t, client, testRegion)
		<-e.up
		start := time.Now()
		nc, _, err := raw(t, p, goodHello())
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, nc) }() // reads, but never beats
		if err := <-closed; !errors.Is(err, ErrSilent) {
			t.Error(err)
		}
		if d := time.Since(start); d < cfg.Timeout || d > cfg.Timeout+cfg.Beat {
			t.Errorf("after %v", d)
		}
		time.Sleep(10 * cfg.Timeout)
		if len(e.down) > 0 || len(closed) > 0 {
			t.Error("an idle link with heartbeats was closed")
		}
	})
}

// TestHoldingBackIsNotSilence: a region that is alive but does not read for long
// keeps its link.
func TestHoldingBackIsNotSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		cfg := testConfig(testRegion)
		serve(t, p, cfg, func(c *Conn, cs []Command) { time.Sleep(10 * cfg.Timeout); echo(c, cs) }, nil)
		client := testConfig(testGateway)
		client.Dial = p.dial
		e, _ := connect(t, client, testRegion)
		l := <-e.up
		for number := range uint64(2) {
			if err := l.Send(0, command(number, "")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		for range 2 {
			<-e.answers
		}
		if len(e.down) > 0 {
			t.Error(<-e.down)
		}
	})
}

// TestClientReconnects: a lost link is reported once and opened again.
func TestClientReconnects(t *testing.T) {
	p := newPipes()
	conns := make(chan *Conn, 10)
	serve(t, p, testConfig(testRegion), func(c *Conn, cs []Command) { echo(c, cs); conns <- c }, nil)
	cfg := testConfig(testGateway)
	cfg.Dial, cfg.RetryMin = p.dial, time.Millisecond
	e, _ := connect(t, cfg, testRegion)
	for i := range uint64(3) {
		l := get(t, e.up)
		if err := l.Send(uint32(i), command(i, "")); err != nil {
			t.Fatal(err)
		}
		get(t, e.answers)
		get(t, conns).Close()
		get(t, e.down)
		if err := l.Send(0, command(9, "")); !errors.Is(err, ErrDown) {
			t.Error(err)
		}
	}
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// TestGone: a refused dial and another incarnation at the address are evidence
// that the process is gone; another cluster or a silent address are not.
func TestGone(t *testing.T) {
	ln := listen(t)
	addr := ln.Addr().String()
	serve(t, ln, testConfig(testRegion), echo, nil)
	cfg := testConfig(testGateway)
	e, _ := connect(t, cfg, sharding.NodeID{Addr: addr, UID: 99})
	if f := get(t, e.failed); !f.gone || !errors.Is(f.err, ErrOtherNode) {
		t.Errorf("%+v", f)
	}
	other := cfg
	other.Cluster = "prod"
	e, _ = connect(t, other, sharding.NodeID{Addr: addr, UID: testRegion.UID})
	if f := get(t, e.failed); f.gone || !errors.Is(f.err, ErrRefused) {
		t.Errorf("%+v", f)
	}
	closed := listen(t)
	_ = closed.Close()
	e, _ = connect(t, cfg, sharding.NodeID{Addr: closed.Addr().String(), UID: 99})
	if f := get(t, e.failed); !f.gone || errors.Is(f.err, ErrRefused) {
		t.Errorf("%+v", f)
	}
	silent := listen(t)
	defer silent.Close()
	cfg.HandshakeTimeout = 20 * time.Millisecond
	e, _ = connect(t, cfg, sharding.NodeID{Addr: silent.Addr().String(), UID: 99})
	if f := get(t, e.failed); f.gone {
		t.Errorf("%+v", f)
	}
}

func TestTLS(t *testing.T) {
	cert, pool := certificate(t)
	ln := tls.NewListener(listen(t), &tls.Config{Certificates: []tls.Certificate{cert}})
	serve(t, ln, testConfig(testRegion), echo, nil)
	cfg := testConfig(testGateway)
	cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
		d := tls.Dialer{Config: &tls.Config{RootCAs: pool, NextProtos: []string{"http/1.1"}}}
		return d.DialContext(ctx, "tcp", addr)
	}
	e, peer := connect(t, cfg, sharding.NodeID{Addr: ln.Addr().String(), UID: testRegion.UID})
	l := get(t, e.up)
	payload := strings.Repeat("x", 100_000)
	for i := range uint64(20) {
		if err := l.Send(uint32(i), command(i, payload)); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		if a := get(t, e.answers); string(a.Reply.Payload) != payload {
			t.Fatalf("%d bytes", len(a.Reply.Payload))
		}
	}
	peer.Close()
	get(t, e.down)
}

func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}
