//go:build linux

package netns

import (
	"bytes"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// waitLimit bounds waiting for what must happen. It does not judge speed.
const waitLimit = 30 * time.Second

// socket opens a UDP socket on a machine.
func socket(t *testing.T, n *Net, machine string) net.PacketConn {
	t.Helper()
	address := n.Address(machine)
	var s net.PacketConn
	if err := in(n.machines[machine].namespace, func() (err error) {
		s, err = net.ListenPacket("udp", net.JoinHostPort(address, "7000"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func send(t *testing.T, from, to net.PacketConn, what string) {
	t.Helper()
	if _, err := from.WriteTo([]byte(what), to.LocalAddr()); err != nil {
		t.Fatal(err)
	}
}

// next returns the next packet that arrives.
func next(t *testing.T, s net.PacketConn) string {
	t.Helper()
	_ = s.SetReadDeadline(time.Now().Add(waitLimit))
	buf := make([]byte, 100)
	n, _, err := s.ReadFrom(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

// TestCuts: packets over a cut never arrive, and everything else does. Packets arrive
// in the order in which they were sent, so the first one to arrive after a cut shows whether
// the cut was effective.
func TestCuts(t *testing.T) {
	n := New(t)
	a, b, c := socket(t, n, "a"), socket(t, n, "b"), socket(t, n, "c")
	expect := func(s net.PacketConn, want string) {
		t.Helper()
		if got := next(t, s); got != want {
			t.Errorf("%v received %q, want %q", s.LocalAddr(), got, want)
		}
	}
	send(t, a, b, "hello b")
	expect(b, "hello b")

	n.CutOneWay("a", "b")
	send(t, a, b, "lost")
	send(t, b, a, "against a one-way cut")
	expect(a, "against a one-way cut")
	n.Heal()
	send(t, a, b, "after")
	expect(b, "after")

	n.Cut("a", "b")
	send(t, a, b, "lost")
	send(t, b, a, "lost")
	send(t, a, c, "past the cut")
	expect(c, "past the cut")
	send(t, c, b, "on the other side")
	expect(b, "on the other side")
	n.Cut("a", "b") // a second time is not an error
	n.Heal()
	n.Heal()
	send(t, b, a, "after")
	expect(a, "after")
	send(t, a, b, "after")
	expect(b, "after")
}

// TestConnectionsHang: a connection over a cut is not reset, and continues when the cut is
// healed.
func TestConnectionsHang(t *testing.T) {
	n := New(t)
	address := net.JoinHostPort(n.Address("a"), "7000")
	var l net.Listener
	if err := in(n.machines["a"].namespace, func() (err error) {
		l, err = net.Listen("tcp", address)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	n.Address("b")
	var client net.Conn
	if err := in(n.machines["b"].namespace, func() (err error) {
		client, err = net.DialTimeout("tcp", address, waitLimit)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	n.CutOneWay("b", "a")
	if _, err := client.Write([]byte("late")); err != nil {
		t.Fatal(err)
	}
	_ = server.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	buf := make([]byte, 4)
	if _, err := io.ReadFull(server, buf); err == nil || !err.(net.Error).Timeout() {
		t.Errorf("over a cut came %q, %v", buf, err)
	}
	n.Heal()
	_ = server.SetReadDeadline(time.Now().Add(waitLimit))
	if _, err := io.ReadFull(server, buf); err != nil || string(buf) != "late" {
		t.Errorf("after the cut came %q, %v", buf, err)
	}
}

// TestStart: a process runs on its machine, and the test's own process stays where it was.
func TestStart(t *testing.T) {
	n := New(t)
	addresses := func(start func(cmd *exec.Cmd) error) string {
		cmd := exec.Command(n.ip, "-o", "-4", "addr")
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := start(cmd); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	a := n.Address("a")
	if got := addresses(func(cmd *exec.Cmd) error { return n.Start("a", cmd) }); !strings.Contains(got, a+"/") {
		t.Errorf("a process on %s has the addresses %s", a, got)
	}
	if got := addresses((*exec.Cmd).Start); strings.Contains(got, a+"/") || !strings.Contains(got, n.test.String()+"/") {
		t.Errorf("a process of the test's own machine %v has the addresses %s", n.test, got)
	}
	if b := n.Address("b"); b == a || n.Address("a") != a {
		t.Errorf("machines a and b have the addresses %s and %s, and later %s", a, b, n.Address("a"))
	}
}
