//go:build linux

package postgrestest

import (
	"bufio"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/roost-cluster/roost/libs/test/servertest"
)

// Pooler is a running pgbouncer before a server.
type Pooler struct{ dir string }

// NewPooler starts a pgbouncer that works in a mode (session, transaction) and lives until the test ends.
func (s *Server) NewPooler(tb testing.TB, mode string) *Pooler {
	tb.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // not in everybody's PATH
	}
	if _, err := os.Stat(program); err != nil {
		servertest.Missing(tb, "pgbouncer", "on Debian: apt-get install pgbouncer")
	}
	dir := filepath.Join(s.dir, "pooler-"+mode)
	if err := os.Mkdir(dir, 0o700); err != nil {
		tb.Fatal(err)
	}
	config, users := filepath.Join(dir, "pgbouncer.ini"), filepath.Join(dir, "users")
	text := fmt.Sprintf("[databases]\n* = host=%s port=%s\n[pgbouncer]\npool_mode = %s\nlisten_addr =\nlisten_port = %s\nunix_socket_dir = %s\nauth_type = trust\nauth_file = %s\n",
		s.dir, port, mode, port, dir, users)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(users, []byte(fmt.Sprintf("%q \"\"\n", Superuser)), 0o600); err != nil {
		tb.Fatal(err)
	}
	if c := s.attr.Credential; c != nil { // it refuses to run as root, too
		for _, path := range []string{dir, config, users} {
			if err := os.Chown(path, int(c.Uid), int(c.Gid)); err != nil {
				tb.Fatal(err)
			}
		}
	}
	cmd := exec.Command(program, config)
	attr := *s.attr
	attr.Pdeathsig = syscall.SIGKILL // it must not outlive a test that panics
	cmd.Dir, cmd.SysProcAttr = dir, &attr
	stderr, err := cmd.StderrPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	ready, ended := make(chan struct{}), make(chan struct{})
	var log strings.Builder // read after ended
	go func() {
		up := false
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if !up && strings.Contains(lines.Text(), "process up") {
				up = true
				close(ready)
			}
			log.WriteString(lines.Text() + "\n")
		}
		_ = cmd.Wait() // it was killed
		close(ended)
	}()
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	select {
	case <-ready:
	case <-ended:
		tb.Fatalf("the pooler does not start:\n%s", log.String())
	}
	return &Pooler{dir: dir}
}

// URL leads the superuser to a database through the pooler.
func (p *Pooler) URL(database string) string {
	return (&url.URL{Scheme: "postgres", User: url.User(Superuser), Path: "/" + database, RawQuery: url.Values{"host": {p.dir}}.Encode()}).String()
}
