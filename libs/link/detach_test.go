package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/roost-cluster/roost/libs/sharding"
)

// slow is a server whose callback blocks at commands with the payload "hold" until
// release is closed.
type slow struct {
	mu      sync.Mutex
	got     []string
	calls   []uint64 // of those that are held up
	conn    *Conn
	release chan struct{}
}

func (s *slow) onCommands(c *Conn, cs []Command) {
	held := false
	s.mu.Lock()
	for i := range cs {
		s.got = append(s.got, string(cs[i].Envelope.Payload))
		held = held || string(cs[i].Envelope.Payload) == "hold"
	}
	if held {
		s.conn, s.calls = c, append(s.calls, c.Call())
	}
	s.mu.Unlock()
	if held {
		<-s.release
	}
	echo(c, cs)
}

// want checks which commands have been delivered so far.
func (s *slow) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if fmt.Sprint(s.got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", s.got, want)
	}
}

// frames returns the frames of commands with these payloads, as n writes them.
func frames(n *nameTable, payloads ...string) (b []byte) {
	for i, payload := range payloads {
		b = n.appendCommand(b, command(uint64(i), payload), 0)
	}
	return b
}

// TestDetach: another goroutine delivers the commands behind a slow callback, in
// order, one callback at a time; a late Detach does nothing.
func TestDetach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		s := &slow{release: make(chan struct{})}
		serve(t, p, testConfig(testRegion), s.onCommands, nil)
		nc, br, err := raw(t, p, goodHello())
		if err != nil {
			t.Fatal(err)
		}
		var n nameTable
		write := func(payloads ...string) {
			b := frames(&n, payloads...)
			go func() { _, _ = nc.Write(b) }()
			synctest.Wait()
		}
		write("hold")
		write("1", "2")
		s.want(t, "hold")
		s.conn.Detach(0)
		s.conn.Detach(s.calls[0] + 1)
		s.want(t, "hold")
		s.conn.Detach(s.calls[0])
		s.want(t, "hold", "1", "2")
		write("hold")
		write("3")
		s.conn.Detach(s.calls[0]) // it is not the reader any more
		s.want(t, "hold", "1", "2", "hold")
		s.conn.Detach(s.calls[1])
		s.conn.Detach(s.calls[1])
		s.want(t, "hold", "1", "2", "hold", "3")
		close(s.release)
		synctest.Wait()
		s.conn.Detach(s.calls[1])
		write("4")
		s.want(t, "hold", "1", "2", "hold", "3", "4")
		for range 6 {
			if kind, _, err := readHandshake(br); err != nil || kind != kindAnswer {
				t.Fatal(kind, err)
			}
		}
	})
}

// TestEndBehindASlowCallback: after Detach the new reader notices the end of the
// connection, and onClose is called after all callbacks.
func TestEndBehindASlowCallback(t *testing.T) {
	for name, tt := range map[string]struct {
		last []byte
		want error
	}{
		"closed":    {appendClose(nil, ""), errClosed},
		"malformed": {[]byte{0, 0, 0, 2, kindCommand, 0xff}, ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPipes()
				s := &slow{release: make(chan struct{})}
				closed := make(chan error, 1)
				server := serve(t, p, testConfig(testRegion), s.onCommands, func(_ *Conn, err error) { closed <- err })
				nc, br, err := raw(t, p, goodHello())
				if err != nil {
					t.Fatal(err)
				}
				go func() { _, _ = io.Copy(io.Discard, br) }()
				var n nameTable
				_, _ = nc.Write(append(frames(&n, "1", "hold"), tt.last...))
				synctest.Wait()
				s.conn.Detach(s.calls[0])
				ended := make(chan error, 1)
				go func() { ended <- server.Close(context.Background()) }()
				synctest.Wait()
				if len(closed) > 0 || len(ended) > 0 {
					t.Error("closed before the callback has returned")
				}
				close(s.release)
				if err := <-closed; !errors.Is(err, tt.want) {
					t.Error(err)
				}
				if err := <-ended; err != nil {
					t.Error(err)
				}
				s.want(t, "1", "hold")
			})
		})
	}
}

// TestAnswersGather: the answers of a callback are written when it returns, when it is
// detached, or when there are many.
func TestAnswersGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		cfg := testConfig(testRegion)
		cfg.MaxPendingMessages = 10
		calls := make(chan uint64, 4)
		conns := make(chan *Conn, 4)
		release := make(chan struct{})
		serve(t, p, cfg, func(c *Conn, cs []Command) {
			for range len(cs[0].Envelope.Payload) {
				echo(c, cs)
			}
			conns <- c
			calls <- c.Call()
			<-release
		}, nil)
		cfg = testConfig(testGateway)
		cfg.Dial, cfg.Lanes = p.dial, 1
		e, _ := connect(t, cfg, testRegion)
		l := <-e.up
		send := func(payload string, want int) {
			t.Helper()
			if err := l.Send(0, command(1, payload)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got := len(e.answers); got != want {
				t.Errorf("%d answers, want %d", got, want)
			}
		}
		send("a", 0)
		(<-conns).Detach(<-calls)
		synctest.Wait()
		if len(e.answers) != 1 {
			t.Error("not sent when another goroutine read on")
		}
		send(strings.Repeat("a", 10), 11)
		close(release)
		send("a", 12)
	})
}

// TestSlowCallbackDoesNotHoldTheLane: after Detach, a newer connection of the lane
// waits for the new reader only, not for the slow callback.
func TestSlowCallbackDoesNotHoldTheLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		s := &slow{release: make(chan struct{})}
		serve(t, p, testConfig(testRegion), s.onCommands, nil)
		old, _, err := raw(t, p, goodHello())
		if err != nil {
			t.Fatal(err)
		}
		var n, m nameTable
		_, _ = old.Write(frames(&n, "hold"))
		synctest.Wait()
		s.conn.Detach(s.calls[0])
		fresh, _, err := raw(t, p, goodHello())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fresh.Write(frames(&m, "new"))
		s.want(t, "hold", "new")
		close(s.release)
	})
}

// TestCallbackPanics: a panic ends its own connection and no other one, whichever
// goroutine it happens on.
func TestCallbackPanics(t *testing.T) {
	for name, reading := range map[string]bool{"first reader": false, "reads on": true} {
		t.Run(name, func(t *testing.T) {
			closed := make(chan *Conn, 1)
			ended := make(chan struct{})
			s, err := NewServer(testConfig(testRegion), func(c *Conn, cs []Command) {
				if reading && string(cs[0].Envelope.Payload) == "1" {
					c.Detach(c.Call())
					<-ended
					return
				}
				panic("oh no")
			}, func(c *Conn, _ error) { closed <- c })
			if err != nil {
				t.Fatal(err)
			}
			here, there := net.Pipe()
			defer there.Close()
			c := &Conn{server: s}
			c.stream.open(here, &s.cfg, 100, true)
			go func() {
				var n nameTable
				_, _ = there.Write(frames(&n, "1"))
				_, _ = there.Write(n.appendCommand(nil, command(1, "2"), 0))
				<-c.stream.down
				close(ended)
			}()
			func() {
				defer func() {
					if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), "oh no") {
						t.Errorf("recovered %v", p)
					}
				}()
				c.run(nil)
			}()
			if get(t, closed) != c || !errors.Is(c.stream.reason(), ErrDown) {
				t.Error(c.stream.reason())
			}
		})
	}
}

// TestDetachRaces calls Detach at any moment: every command is delivered once, in
// order.
func TestDetachRaces(t *testing.T) { networks(t, testDetachRaces) }

func testDetachRaces(t *testing.T, ln net.Listener, cfg Config, to sharding.NodeID) {
	const all = 2000
	var mu sync.Mutex
	var got []uint64
	var late sync.WaitGroup
	defer late.Wait()
	serve(t, ln, testConfig(testRegion), func(c *Conn, cs []Command) {
		call := c.Call()
		mu.Lock()
		for i := range cs {
			got = append(got, cs[i].Number)
		}
		mu.Unlock()
		for range 2 {
			late.Go(func() { c.Detach(call) })
		}
		echo(c, cs)
	}, nil)
	cfg.Lanes = 1
	e, _ := connect(t, cfg, to)
	l := get(t, e.up)
	for number := range uint64(all) {
		if err := l.Send(0, command(number, "")); err != nil {
			t.Fatal(err)
		}
		if number%3 == 0 {
			get(t, e.answers)
		}
	}
	for range all - (all+2)/3 {
		get(t, e.answers)
	}
	for i, number := range got {
		if number != uint64(i) {
			t.Fatalf("command %d came at %d", number, i)
		}
	}
}

// TestCallbackEndsItsGoroutine: a callback that is detached and then ends its goroutine by runtime.Goexit leaves the
// connection to the reader that came after it. One that is not detached ends the connection.
func TestCallbackEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		var mu sync.Mutex
		var got []string
		var ended []error
		serve(t, p, testConfig(testRegion), func(c *Conn, cs []Command) {
			mu.Lock()
			payload := string(cs[0].Envelope.Payload)
			got = append(got, payload)
			mu.Unlock()
			switch payload {
			case "detach":
				c.Detach(c.Call())
				runtime.Goexit()
			case "exit":
				runtime.Goexit()
			}
		}, func(_ *Conn, err error) { mu.Lock(); ended = append(ended, err); mu.Unlock() })
		nc, _, err := raw(t, p, goodHello())
		if err != nil {
			t.Fatal(err)
		}
		var n nameTable
		for _, payload := range []string{"detach", "1", "detach", "2", "exit"} {
			b := frames(&n, payload)
			go func() { _, _ = nc.Write(b) }()
			synctest.Wait()
			mu.Lock()
			if want := payload == "exit"; (len(ended) > 0) != want {
				t.Errorf("after %q: %v", payload, ended)
			}
			mu.Unlock()
		}
		if fmt.Sprint(got) != "[detach 1 detach 2 exit]" {
			t.Errorf("got %v", got)
		}
	})
}
