package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roost-cluster/roost/cli/internal/app"
)

// peersFile is a file with peers.
func peersFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "peers")
	writePeers(t, path, text)
	return path
}

func writePeers(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestDiscoveryLs(t *testing.T) {
	path := peersFile(t, "region@b:2\ncoordinator@a:1\nc:3\n")
	var out, errOut bytes.Buffer
	if code := run(t.Context(), []string{"cluster", "discovery", "file:" + path}, &out, &errOut); code != app.ExitOK {
		t.Fatalf("exit code %d: %s", code, errOut.String())
	}
	want := "ROLE         ADDRESS\ncoordinator  a:1\nregion       b:2\n-            c:3\n3 peers, asked in "
	if !strings.HasPrefix(out.String(), want) {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	t.Setenv("ROOST_DISCOVERY_URL", "static:")
	if code := run(t.Context(), []string{"cluster", "discovery", "-o", "json"}, &out, &errOut); code != app.ExitOK || !strings.Contains(out.String(), `"url":"static:","peers":[]`) {
		t.Errorf("exit code %d: %s%s", code, out.String(), errOut.String())
	}
}

func TestDiscoveryMistakes(t *testing.T) {
	t.Setenv("ROOST_DISCOVERY_URL", "")
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"", app.ExitUsage, "ROOST_DISCOVERY_URL"},
		{"etcd://a:1/x?colour=red", app.ExitUsage, `unknown parameter "colour"; etcd takes ca, cert`},
		{"zookeeper://a:1/x", app.ExitUsage, "kubernetes"},
		{"file:/nonexistent/peers", app.ExitFailed, "/nonexistent/peers"},
		{"--watch static:a", app.ExitUsage, "host:port"},
		{"--test static:a:1 --timeout 0s", app.ExitFailed, "discovery does not work"},
		{"--test --watch static:a:1", app.ExitUsage, "--test cannot be combined with --watch"},
		{"--write static:a:1", app.ExitUsage, "--write is for --test"},
	} {
		var out, errOut bytes.Buffer
		code := run(t.Context(), append([]string{"cluster", "discovery"}, strings.Fields(c.args)...), &out, &errOut)
		if code != c.code || !strings.Contains(errOut.String(), c.says) {
			t.Errorf("%s: exit code %d, %s; want %d, %q", c.args, code, errOut.String(), c.code, c.says)
		}
	}
}

func TestDiscoveryTest(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for _, c := range []struct {
		peers string
		code  int
		says  []string
	}{
		{"coordinator@" + l.Addr().String(), app.ExitOK, []string{"ok    answer    1 peer", "ok    peers     1 coordinator", "ok    changes", "ok    write     no process enters itself there", "ok    reach     all"}},
		{"region@127.0.0.1:1", app.ExitOK, []string{"warn  peers     1 region", "next:", "there is no coordinator", "warn  reach     1 of 1"}},
		{"", app.ExitOK, []string{"warn  peers     no peer is listed", "one host:port per line"}},
		{"nonsense", app.ExitFailed, []string{"fail  answer", ":1:", "next:"}},
	} {
		var out, errOut bytes.Buffer
		code := run(t.Context(), []string{"cluster", "discovery", "--test", "--write", "file:" + peersFile(t, c.peers)}, &out, &errOut)
		if code != c.code {
			t.Errorf("%q: exit code %d, %s", c.peers, code, errOut.String())
		}
		for _, s := range c.says {
			if !strings.Contains(out.String(), s) {
				t.Errorf("%q does not say %q:\n%s", c.peers, s, out.String())
			}
		}
	}
	var out, errOut bytes.Buffer
	// No process listens there.
	code := run(t.Context(), []string{"cluster", "discovery", "--test", "-o", "json", "consul://127.0.0.1:1/roost"}, &out, &errOut)
	var res struct {
		OK     bool
		Checks []struct{ Next string }
	}
	if err := json.Unmarshal(out.Bytes(), &res); err != nil || code != app.ExitFailed || res.OK || len(res.Checks) != 1 || !strings.Contains(res.Checks[0].Next, "host and port") {
		t.Errorf("exit code %d, %v: %s", code, err, out.String())
	}
}

// lines is output that a test waits for.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) wait(t *testing.T, want string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		l.mu.Lock()
		text := l.text.String()
		l.mu.Unlock()
		if strings.Contains(text, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %q in\n%s", want, text)
		}
		pause := time.NewTimer(10 * time.Millisecond)
		<-pause.C
	}
}

func TestDiscoveryWatch(t *testing.T) {
	path := peersFile(t, "a:1\nregion@b:2\n")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out lines
	var errOut bytes.Buffer
	ended := make(chan int)
	go func() { ended <- run(ctx, []string{"cluster", "discovery", "--watch", "file:" + path}, &out, &errOut) }()
	out.wait(t, "  +  -            a:1\n")
	out.wait(t, "  +  region       b:2\n")
	writePeers(t, path, "a:1\nc:3\n")
	out.wait(t, "  -  region       b:2\n")
	out.wait(t, "  +  -            c:3\n")
	writePeers(t, path, "nonsense")
	out.wait(t, "  !  discovery lookup")
	writePeers(t, path, "")
	out.wait(t, "  =  no peers\n")
	out.wait(t, "  !  answers again\n")
	cancel()
	if code := <-ended; code != app.ExitInterrupted || errOut.Len() > 0 {
		t.Errorf("exit code %d, %s", code, errOut.String())
	}
}
