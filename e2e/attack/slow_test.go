package attack

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// slowClients: thousands of clients that stop in the middle keep out no other client, and are cut off. HTTP/2 with its floods is
// not spoken.
func slowClients(t *testing.T, r *rig) {
	files := map[string]int{}
	for _, name := range []string{"gateway-2", "coordinator-1", "region-1"} {
		files[name] = r.files(t, name)
	}
	_, quiet := r.legitimate(t, 400)
	stalls := r.stalls(t)
	open := 0
	for _, s := range stalls {
		open += s.clients
	}
	type stalled struct {
		net.Conn
		how string
	}
	conns, dialled := make(chan stalled, open), sync.WaitGroup{}
	for _, s := range stalls {
		share := make(chan struct{}, 16) // dial so many at a time
		for range s.clients {
			dialled.Go(func() {
				share <- struct{}{}
				defer func() { <-share }()
				if conn := s.dial(); conn != nil {
					_, _ = conn.Write([]byte(s.says)) // one that was cut off already is wanted
					conns <- stalled{conn, s.how}
				}
			})
		}
	}
	dialled.Wait()
	_, attacked := r.legitimate(t, 400)
	close(conns)
	cut, patience := 0, time.Now().Add(time.Minute)
	for conn := range conns {
		must(t, conn.SetDeadline(patience))
		if text, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("a client that stops %s is not cut off; it was told %.200q", conn.how, text)
		}
		_ = conn.Close()
		cut++
	}
	if cut < open*9/10 {
		t.Errorf("only %d of %d slow clients had a connection", cut, open)
	}
	r.neverRead(t)
	for name, before := range files {
		r.filesReturn(t, name, before)
	}
	t.Logf("%d clients stop in a handshake, a header, a body or before a link: all are cut off, and no other client is refused (%s)", cut, compare(quiet, attacked))
	r.floods(t)
}

// stall is a way to stop in the middle.
type stall struct {
	how     string
	clients int
	dial    func() net.Conn
	says    string
}

func (r *rig) stalls(t *testing.T) []stall {
	public := &tls.Config{RootCAs: r.public.Pool(), ServerName: "127.0.0.1", ClientSessionCache: tls.NewLRUClientSessionCache(8)}
	peer := r.role(t, "gateway")
	plain := func(addr string) func() net.Conn {
		return func() net.Conn {
			conn, err := net.DialTimeout("tcp", addr, 30*time.Second)
			if err != nil {
				t.Error(err)
				return nil
			}
			return conn
		}
	}
	secure := func(addr string, config *tls.Config) func() net.Conn {
		return func() net.Conn {
			conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 30 * time.Second}, "tcp", addr, config)
			if err != nil {
				t.Error(err)
				return nil
			}
			return conn
		}
	}
	gateway, coordinator, region := r.processes["gateway-2"], r.processes["coordinator-1"], r.processes["region-1"]
	peers := r.gatewayTarget(t, "gateway-2")
	header := "POST /v1/Counter/slow/Add HTTP/1.1\r\nHost: 127.0.0.1\r\n"
	return []stall{
		{"in a handshake with a gateway", 900, plain(gateway.Service), "\x16\x03\x01\x02\x00\x01\x00"}, // the beginning of a ClientHello
		{"in a header", 600, secure(gateway.Service, public), header + "X-Slow: "},
		{"in a body", 200, secure(gateway.Service, public), header + "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"del"},
		{"in a handshake with a coordinator", 100, plain(coordinator.Service), "\x16\x03\x01\x02\x00\x01\x00"},
		{"in a body for a coordinator", 100, secure(coordinator.Service, peer), "POST " + callPath + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/protobuf\r\nContent-Length: 100\r\n\r\n"},
		{"in a handshake with a gateway's listener for peers", 100, plain(peers.addr), "\x16\x03\x01\x02\x00\x01\x00"},
		{"in a body for a gateway's listener for peers", 100, secure(peers.addr, peers.peer), "POST " + peers.path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/protobuf\r\nContent-Length: 100\r\n\r\n"},
		{"before a link", 100, secure(region.Service, peer), "GET /link HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: roost-link/1\r\n\r\n"},
	}
}

// neverRead: a client that sends and never reads its answers, with the smallest window, is cut off.
func (r *rig) neverRead(t *testing.T) {
	t.Helper()
	items := strings.TrimSuffix(strings.Repeat(`{"type":"Counter","id":"unread","command":"Get","payload":"eyJ4IjoxfQ=="},`, 1000), ",")
	request := fmt.Sprintf("POST /twirp/roost.gateway.v1.Entities/AskMany HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{\"items\":[%s]}", len(items)+12, items)
	dialer := &net.Dialer{Timeout: 30 * time.Second, Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 1) })
	}}
	const most = 2000 // their answers are far more than buffers of the kernel take
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			conn, err := tls.DialWithDialer(dialer, "tcp", r.processes["gateway-2"].Service, &tls.Config{RootCAs: r.public.Pool(), ServerName: "127.0.0.1"})
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			// Until the buffers of the kernel are full, each request is answered: that takes as long as the machine needs.
			sent := 0
			for ; err == nil && sent < most; sent++ {
				_ = conn.SetDeadline(time.Now().Add(time.Minute))
				_, err = conn.Write([]byte(request))
			}
			if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a client that never reads is not cut off after %d requests", sent)
			}
		})
	}
	all.Wait()
}

// frame is one of HTTP/2 (RFC 9113).
func frame(kind, flags byte, stream uint32, payload string) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	return string(binary.BigEndian.AppendUint32(append(b, flags), stream)) + payload
}

// floods: no listener speaks HTTP/2, whose frames would be cheap to send and expensive to take. Neither is it negotiated,
// nor begun without being asked, nor upgraded to.
func (r *rig) floods(t *testing.T) {
	t.Helper()
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	settings := frame(4, 0, 0, "")
	many := func(n int, f func(n uint32) string) string {
		var b strings.Builder
		for i := range uint32(n) {
			b.WriteString(f(i))
		}
		return b.String()
	}
	attacks := map[string]string{
		"rapid reset": settings + many(10_000, func(n uint32) string {
			return frame(1, 5, 2*n+1, "\x82\x86\x84") + frame(3, 0, 2*n+1, "\x00\x00\x00\x08")
		}),
		"CONTINUATION flood": settings + frame(1, 0, 1, "\x82") + many(10_000, func(uint32) string { return frame(9, 0, 1, strings.Repeat("x", 64)) }),
		"PING flood":         settings + many(10_000, func(uint32) string { return frame(6, 0, 0, "12345678") }),
		"SETTINGS flood":     many(10_000, func(uint32) string { return settings }),
		"tiny windows":       frame(4, 0, 0, "\x00\x04\x00\x00\x00\x01") + many(1000, func(n uint32) string { return frame(1, 5, 2*n+1, "\x82\x86\x84") }),
	}
	peer := r.role(t, "region")
	listeners := map[string]func() (net.Conn, error){}
	for name, p := range r.processes {
		config := peer
		if strings.HasPrefix(name, "gateway") {
			config = &tls.Config{RootCAs: r.public.Pool(), ServerName: "127.0.0.1"}
		}
		listeners[name] = func() (net.Conn, error) { return tls.Dial("tcp", p.Service, config) }
		listeners["management of "+name] = func() (net.Conn, error) { return net.Dial("tcp", p.Management) }
		if strings.HasPrefix(name, "gateway") {
			peers := r.gatewayTarget(t, name)
			listeners["peers of "+name] = func() (net.Conn, error) { return tls.Dial("tcp", peers.addr, peers.peer) }
		}
		second := config.Clone()
		second.NextProtos = []string{"h2"}
		if conn, err := tls.Dial("tcp", p.Service, second); err == nil {
			t.Errorf("%s takes a client that speaks only HTTP/2: %q", name, conn.ConnectionState().NegotiatedProtocol)
			_ = conn.Close()
		}
	}
	for name, dial := range listeners {
		for what, frames := range attacks {
			if text, closed := exchange(t, dial, preface+frames); !closed || strings.Contains(text, " 200 ") || strings.Contains(text, settings) {
				t.Errorf("%s answers HTTP/2 (%s), closed %v: %.200q", name, what, closed, text)
			}
		}
		upgrade := "GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
		if text, _ := exchange(t, dial, upgrade); strings.Contains(text, " 101 ") {
			t.Errorf("%s upgrades to HTTP/2: %.200q", name, text)
		}
	}
	long := "GET /v1/Counter/a/Get HTTP/1.1\r\nHost: 127.0.0.1\r\n" + strings.Repeat("X-Many: "+strings.Repeat("x", 1000)+"\r\n", 200) + "\r\n"
	if text, _ := exchange(t, listeners["gateway-2"], long); !strings.Contains(text, " "+fmt.Sprint(http.StatusRequestHeaderFieldsTooLarge)+" ") {
		t.Errorf("a header of 200 kB is answered %.200q", text)
	}
	t.Logf("HTTP/2 is spoken by none of %d listeners: its %d floods end with their connections", len(listeners), len(attacks))
}

// exchange sends bytes, and returns what comes back, and whether the other side has closed the connection.
func exchange(t *testing.T, dial func() (net.Conn, error), payload string) (text string, closed bool) {
	t.Helper()
	conn, err := dial()
	must(t, err)
	defer func() { _ = conn.Close() }()
	must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	var sent sync.WaitGroup
	sent.Go(func() { _, _ = conn.Write([]byte(payload)) }) // it may be closed before everything is sent
	all, err := io.ReadAll(io.LimitReader(conn, 1<<20))
	_ = conn.Close()
	sent.Wait()
	return string(all), !errors.Is(err, os.ErrDeadlineExceeded)
}
