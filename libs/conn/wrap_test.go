package conn

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// pair returns both ends of a connection, as they come from package net.
func pair(t *testing.T, network, addr string) (client, server net.Conn) {
	t.Helper()
	ln, err := net.Listen(network, addr)
	if err != nil {
		t.Skip(err) // there are no Unix sockets
	}
	defer func() { _ = ln.Close() }()
	if client, err = net.Dial(network, ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return client, server
}

func each(t *testing.T, test func(t *testing.T, client, server net.Conn)) {
	for network, addr := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		t.Run(network, func(t *testing.T) {
			client, server := pair(t, network, addr)
			test(t, Wrap(client), Wrap(server))
		})
	}
}

// TestCopies sends more than the system buffers, both ways at the same time, and then the end.
func TestCopies(t *testing.T) {
	each(t, func(t *testing.T, client, server net.Conn) {
		sent := bytes.Repeat([]byte("0123456789"), 1<<20)
		go func() {
			_, _ = io.Copy(struct{ io.Writer }{server}, struct{ io.Reader }{server})
			_ = server.Close()
		}()
		go func() {
			if n, err := client.Write(sent); n != len(sent) || err != nil {
				t.Errorf("written %d, %v", n, err)
			}
			if err := client.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
				t.Error(err)
			}
		}()
		got, err := io.ReadAll(client)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes come back of %d: %v", len(got), len(sent), err)
		}
		if n, err := client.Read(nil); n != 0 || err != nil {
			t.Errorf("nothing read at the end is %d, %v", n, err)
		}
	})
}

// TestErrors compares errors with package net's.
func TestErrors(t *testing.T) {
	each(t, func(t *testing.T, client, server net.Conn) {
		check := func(what string, err error, op string, is error) {
			t.Helper()
			var e *net.OpError
			if !errors.As(err, &e) || e.Op != op || e.Net != client.LocalAddr().Network() || e.Addr == nil || !errors.Is(err, is) {
				t.Errorf("%s: %#v, want %s: %v", what, err, op, is)
			}
		}
		_ = client.SetReadDeadline(time.Now().Add(-time.Second))
		_, err := client.Read(make([]byte, 1))
		check("a read after its deadline", err, "read", os.ErrDeadlineExceeded)
		_ = client.SetReadDeadline(time.Time{})
		_ = client.SetWriteDeadline(time.Now().Add(-time.Second))
		_, err = client.Write([]byte("a"))
		check("a write after its deadline", err, "write", os.ErrDeadlineExceeded)
		_ = client.SetWriteDeadline(time.Time{})

		read := make(chan error)
		go func() {
			_, err := server.Read(make([]byte, 1))
			read <- err
		}()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-read; !errors.Is(err, net.ErrClosed) && err != io.EOF {
			t.Errorf("a read of a connection that is closed: %v", err)
		}
		_, err = server.Write([]byte("a"))
		check("a write to a closed connection", err, "write", net.ErrClosed)
		for err = nil; err == nil; { // what the other end refuses takes a moment to come back
			_, err = client.Write([]byte("a"))
		}
		var e *net.OpError
		var number *os.SyscallError
		if !errors.As(err, &e) || e.Op != "write" || !errors.As(err, &number) || number.Syscall != "write" {
			t.Errorf("a write that the other end refuses: %#v", err)
		}
	})
}

func TestAllocatesNothing(t *testing.T) {
	each(t, func(t *testing.T, client, server net.Conn) {
		buf := make([]byte, 10)
		if n := testing.AllocsPerRun(100, func() {
			_, err := client.Write(buf)
			if err == nil {
				_, err = server.Read(buf)
			}
			if err != nil {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

func TestPlain(t *testing.T) {
	client, _ := pair(t, "tcp", "127.0.0.1:0")
	tcp := client.(*net.TCPConn)
	if Plain(tcp) != tcp || Plain(Wrap(tcp)) != tcp {
		t.Error("a TCP connection is not found")
	}
	if Plain(tls.Client(Wrap(tcp), &tls.Config{})) != nil {
		t.Error("TLS is passed by")
	}
	for _, other := range []net.Conn{&net.UDPConn{}, struct{ net.Conn }{tcp}} {
		if Plain(other) != nil || Wrap(other) != other {
			t.Errorf("%T", other)
		}
	}
}
