//go:build linux

package netns

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/roost-cluster/roost/libs/test/servertest"
)

const (
	// networks is the most networks on one machine at a time. Each has a part of
	// 198.18.0.0/15, which is reserved for tests of networks (RFC 2544).
	networks = 256
	// machines is the number of machines of a network that fit into a /24 with the test's own.
	machines = 250
	// nowhere is a hardware address that no machine has.
	nowhere = "02:00:00:00:00:00"
)

// User is the owner of a network, mostly a test.
type User interface {
	Helper()
	Cleanup(func())
	Skip(args ...any)
	Skipf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Net is a switch with machines. Its methods may be called from any goroutine.
type Net struct {
	tb     User
	ip     string     // path of the program
	fabric *os.File   // the namespace of the switch
	test   netip.Addr // the address of the test's own process

	mu       sync.Mutex
	machines map[string]*machine
	cuts     map[cut]bool
}

type machine struct {
	address   netip.Addr
	namespace *os.File
}

// cut is a direction in which packets are dropped.
type cut struct{ from, to string }

// New returns a network that exists until the test ends, or skips the test with the reason. See [servertest.Missing] for a machine without the program ip.
func New(tb User) *Net {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("only root can cut networks")
	}
	ip, err := exec.LookPath("ip")
	if err != nil {
		servertest.Missing(tb, "program ip, which makes networks,", "on Debian: apt-get install iproute2")
	}
	n := &Net{tb: tb, ip: ip, machines: map[string]*machine{}, cuts: map[cut]bool{}}
	tb.Cleanup(n.close)
	if n.fabric, err = namespace(); err != nil {
		tb.Skipf("network namespaces cannot be made here: %v", err)
	}
	if err := n.run(n.fabric, "link add name switch type bridge", "link set switch up"); err != nil {
		tb.Skipf("networks cannot be made here: %v", err)
	}
	if err := n.connect(); err != nil {
		tb.Skipf("networks cannot be made here: %v", err)
	}
	return n
}

// connect connects the test's own process to the switch, with a part of the address range
// that no other network has: the name of the interface decides.
func (n *Net) connect() (err error) {
	for i := range networks {
		device := fmt.Sprint("roost", i)
		if err = n.run(nil, fmt.Sprintf("link add name %s type veth peer name test netns %s", device, path(n.fabric))); err != nil {
			continue
		}
		n.test = netip.AddrFrom4([4]byte{198, 18, byte(i), 1})
		return errors.Join(
			n.run(n.fabric, "link set test master switch", "link set test up"),
			n.run(nil, fmt.Sprintf("addr add %s/24 dev %s", n.test, device), "link set "+device+" up"))
	}
	return err
}

func (n *Net) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.machines {
		_ = m.namespace.Close()
	}
	if n.fabric != nil {
		// The interfaces end with it.
		_ = n.fabric.Close()
	}
}

// Address returns the IP address of a machine, which is made if there is none of that name.
func (n *Net) Address(name string) string { return n.machine(name).address.String() }

func (n *Net) machine(name string) *machine {
	n.tb.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if m := n.machines[name]; m != nil {
		return m
	}
	if len(n.machines) == machines {
		n.tb.Fatalf("%d machines are in the network, %s is one too many", machines, name)
	}
	number := len(n.machines) + 2 // the test's own is the first
	address := n.test.As4()
	address[3] = byte(number)
	m := &machine{address: netip.AddrFrom4(address)}
	var err error
	if m.namespace, err = namespace(); err != nil {
		n.tb.Fatal(err)
	}
	n.machines[name] = m
	port := fmt.Sprint("port", number)
	if err := errors.Join(
		n.run(n.fabric, fmt.Sprintf("link add name %s type veth peer name eth0 netns %s", port, path(m.namespace)),
			"link set "+port+" master switch", "link set "+port+" up"),
		n.run(m.namespace, "link set lo up", fmt.Sprintf("addr add %s/24 dev eth0", m.address), "link set eth0 up"),
	); err != nil {
		n.tb.Fatal(err)
	}
	return m
}

// Start starts a command on a machine, which is made if there is none of that
// name.
func (n *Net) Start(name string, cmd *exec.Cmd) error {
	n.tb.Helper()
	return in(n.machine(name).namespace, cmd.Start)
}

// Cut drops everything between a machine and each of the others, in both directions.
func (n *Net) Cut(machine string, others ...string) {
	n.tb.Helper()
	for _, other := range others {
		n.CutOneWay(machine, other)
		n.CutOneWay(other, machine)
	}
}

// CutOneWay drops what from sends to any of the machines to. What they send to from arrives.
func (n *Net) CutOneWay(from string, to ...string) {
	n.tb.Helper()
	for _, to := range to {
		m := n.machine(from)
		if err := n.run(m.namespace, fmt.Sprintf("neigh replace %s lladdr %s nud permanent dev eth0", n.Address(to), nowhere)); err != nil {
			n.tb.Fatal(err)
		}
		n.mu.Lock()
		n.cuts[cut{from, to}] = true
		n.mu.Unlock()
	}
}

// Heal ends all cuts.
func (n *Net) Heal() {
	n.tb.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.cuts {
		if err := n.run(n.machines[c.from].namespace, fmt.Sprintf("neigh del %s dev eth0", n.machines[c.to].address)); err != nil {
			n.tb.Fatal(err)
		}
	}
	clear(n.cuts)
}

// run runs commands of ip in a namespace; nil: the test's own.
func (n *Net) run(namespace *os.File, commands ...string) error {
	for _, c := range commands {
		cmd := exec.Command(n.ip, strings.Fields(c)...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		start := cmd.Start
		if namespace != nil {
			start = func() error { return in(namespace, cmd.Start) }
		}
		if err := start(); err != nil {
			return err
		}
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", c, err, bytes.TrimSpace(stderr.Bytes()))
		}
	}
	return nil
}

// path returns a path that other processes can use to open a namespace.
func path(namespace *os.File) string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), namespace.Fd())
}

// namespace makes a network namespace.
func namespace() (made *os.File, err error) {
	err = onLockedThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare: %w", err)
		}
		made, err = currentNamespace()
		return err
	})
	return made, err
}

// in calls f on a thread in a namespace. Processes that f starts and sockets that it opens
// stay there.
func in(namespace *os.File, f func() error) error {
	return onLockedThread(func() error {
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("setns: %w", err)
		}
		return f()
	})
}

// onLockedThread calls f, which may move the thread to another namespace, and moves it back.
// It is the thread of the caller, because a process may be set to die with the thread that
// started it.
func onLockedThread(f func() error) error {
	runtime.LockOSThread()
	home, err := currentNamespace()
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer func() { _ = home.Close() }()
	err = f()
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		// The thread stays locked, and ends with its goroutine.
		return errors.Join(err, fmt.Errorf("a thread cannot return from another namespace: %w", back))
	}
	runtime.UnlockOSThread()
	return err
}

// currentNamespace returns the namespace of the calling thread.
func currentNamespace() (*os.File, error) { return os.Open("/proc/thread-self/ns/net") }
