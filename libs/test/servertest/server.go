//go:build linux

// Package servertest runs real servers as processes of one test: an etcd from Debian's
// package etcd-server, or a Consul agent that "make servers" has built. They listen on
// loopback only, and are removed with their data when the test ends.
//
// # What this does not do
//
// It installs nothing: without the program the test is skipped with advice. It has no
// client: a test uses the client that it tests.
package servertest

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// startWithin bounds a start; on a busy machine an election is slow.
	startWithin = 90 * time.Second
	// lastLines is the number of lines of the server's log that a failed start shows.
	lastLines = 40
	// Ports are below the usual ephemeral range, so that no outgoing connection
	// takes the port of a server that is down for a moment.
	lowPort, highPort = 20000, 32000
	portTries         = 200
)

// Server is one server of a test. Its methods must be called from the test's goroutine,
// except Addr and URL.
type Server struct {
	tb      testing.TB
	program string
	args    []string
	addr    string
	ready   func(context.Context) error

	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended

	mu  sync.Mutex
	log []string
}

// Addr returns host:port for clients. It stays the same when the server is restarted.
func (s *Server) Addr() string { return s.addr }

// URL returns Addr as an http URL.
func (s *Server) URL() string { return "http://" + s.addr }

// Run starts the server again after Stop or Kill, with its data, and waits until it
// serves.
func (s *Server) Run() {
	s.tb.Helper()
	s.cmd = exec.Command(s.program, s.args...)
	// It must not outlive a test that panics.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // both servers take settings from the environment
	r, w, err := os.Pipe()
	if err != nil {
		s.tb.Fatal(err)
	}
	s.cmd.Stdout, s.cmd.Stderr = w, w
	if err := s.cmd.Start(); err != nil {
		s.tb.Fatal(err)
	}
	_ = w.Close() // the server has its own
	ended, cmd := make(chan struct{}), s.cmd
	s.ended = ended
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(r); lines.Scan(); {
			s.keep(lines.Text())
		}
		_ = r.Close()
		_ = cmd.Wait() // the exit status does not matter
	}()
	s.wait()
}

func (s *Server) wait() {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	every := time.NewTicker(50 * time.Millisecond)
	defer every.Stop()
	for {
		err := s.ready(ctx)
		if err == nil {
			return
		}
		select {
		case <-every.C:
		case <-s.ended:
			s.tb.Fatalf("%s does not start:\n%s", s.program, s.Log())
		case <-ctx.Done():
			s.tb.Fatalf("%s does not serve after %v: %v\n%s", s.program, startWithin, err, s.Log())
		}
	}
}

func (s *Server) keep(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, line)
	if len(s.log) > lastLines {
		s.log = s.log[1:]
	}
}

// Log returns the last lines that the server has printed.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.log, "\n")
}

// Running reports whether the server's process exists, paused or not.
func (s *Server) Running() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// Stop ends the server with SIGTERM and waits until it has ended.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

// Kill ends the server with SIGKILL and waits until it has ended.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Restart kills the server and runs it again.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Kill()
	s.Run()
}

// Pause stops the server's process with SIGSTOP until Resume: its connections stay open,
// but nothing is answered.
func (s *Server) Pause() {
	s.tb.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGSTOP) // it may be gone already
	for end := time.Now().Add(startWithin); s.Running() && !stopped(s.cmd.Process.Pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.tb.Fatalf("%s does not pause", s.program)
		}
	}
}

// stopped reports whether every thread of a process is stopped: state T,
// https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html.
func stopped(pid int) bool {
	threads, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "stat"))
	for _, file := range threads {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that has ended
		}
		// The state comes after the name, which stands in parentheses.
		if _, state, _ := strings.Cut(string(text), ") "); !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return len(threads) > 0
}

// Resume continues a paused server.
func (s *Server) Resume() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }

func (s *Server) end(signal syscall.Signal) {
	_ = s.cmd.Process.Signal(signal) // it may be gone already
	<-s.ended
}

// serve starts a server for the first time and kills it when the test ends.
func serve(tb testing.TB, s *Server) *Server {
	tb.Helper()
	s.tb = tb
	s.Run()
	tb.Cleanup(s.Kill)
	return s
}

// Program returns the path of a server's binary, from bin/ of the repository or else from
// $PATH; empty if there is none.
func Program(name string) string {
	for dir, err := os.Getwd(); err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			if path, err := exec.LookPath(filepath.Join(dir, "bin", name)); err == nil {
				return path
			}
			break
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

// ports returns n different free ports of loopback.
func ports(tb testing.TB, n int) []int {
	tb.Helper()
	var found []int
	var listeners []net.Listener
	defer func() {
		for _, l := range listeners {
			_ = l.Close()
		}
	}()
	for range portTries {
		port := lowPort + rand.N(highPort-lowPort)
		l, err := net.Listen("tcp", local(port))
		if err != nil {
			continue
		}
		listeners = append(listeners, l)
		if found = append(found, port); len(found) == n {
			return found
		}
	}
	tb.Fatalf("no %d free ports between %d and %d", n, lowPort, highPort)
	return nil
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// ask requests a URL of the server; the answer must contain want.
func ask(ctx context.Context, method, url, token, want string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("X-Consul-Token", token)
	// A new connection each time: an old one may be to the process before a restart.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	text := make([]byte, 4096)
	n, _ := res.Body.Read(text)
	if res.StatusCode != http.StatusOK || !strings.Contains(string(text[:n]), want) {
		return fmt.Errorf("%s answers %s: %.200s", url, res.Status, text[:n])
	}
	return nil
}
