//go:build linux

// Package postgrestest runs a PostgreSQL server of its own for a test, from the
// programs that Debian's package postgresql installs.
//
// # What this does not do
//
// It installs nothing: see [servertest.Missing]. Without a [Place] the server listens on
// a Unix socket only. It trusts everybody who can reach it, and is gone with its data
// when the test ends.
package postgrestest

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/roost-cluster/roost/libs/test/servertest"
)

// Superuser is the role that may do anything.
const Superuser = "postgres"

// port is the port of a server that has an address of its own.
const port = "5432"

// Place is the place of a server that listens on TCP, for example in its own network.
type Place struct {
	// Address is the IP address to listen at. Every client that reaches it is trusted.
	Address string
	// Start starts a command there.
	Start func(*exec.Cmd) error
}

// Server is a running server. It is not safe for concurrent use, except for
// NewDatabase and URL.
type Server struct {
	tb        testing.TB
	bin, dir  string
	attr      *syscall.SysProcAttr
	place     *Place // nil: here, on a Unix socket only
	cmd       *exec.Cmd
	ended     chan struct{} // the process is gone
	databases atomic.Int64
}

// Start makes a server that lives until the test ends. See
// [servertest.Missing] for a machine without the programs.
func Start(tb testing.TB) *Server {
	tb.Helper()
	return start(tb, nil)
}

// StartAt makes a server like Start does, which listens on TCP too.
func StartAt(tb testing.TB, place Place) *Server {
	tb.Helper()
	return start(tb, &place)
}

// Data makes the data of a server that listens on TCP, for a caller that runs the server
// elsewhere. It returns the folders of the server's programs and of its data. The latter is
// removed when the test ends.
func Data(tb testing.TB) (bin, data string) {
	tb.Helper()
	s := prepare(tb, &Place{})
	return s.bin, filepath.Join(s.dir, "data")
}

func start(tb testing.TB, place *Place) *Server {
	tb.Helper()
	s := prepare(tb, place)
	s.Run()
	tb.Cleanup(s.Kill)
	return s
}

// prepare makes the data of a server that does not run yet.
func prepare(tb testing.TB, place *Place) *Server {
	tb.Helper()
	bin := programs()
	if bin == "" {
		servertest.Missing(tb, "PostgreSQL server", "on Debian: apt-get install postgresql")
	}
	// Not TempDir: its parent is closed to other users, and the path of a
	// socket must be short.
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &Server{tb: tb, bin: bin, dir: dir, attr: &syscall.SysProcAttr{}, place: place}
	// The server refuses to run as root.
	if os.Geteuid() == 0 {
		uid, gid, err := somebody()
		if err != nil {
			servertest.Missing(tb, "user but root", fmt.Sprint("PostgreSQL does not run as root: ", err))
		}
		if err := os.Chown(dir, uid, gid); err != nil {
			tb.Fatal(err)
		}
		s.attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	if err := s.initialize(); err != nil {
		tb.Fatal(err)
	}
	if place != nil {
		if err := trust(filepath.Join(dir, "data", "pg_hba.conf")); err != nil {
			tb.Fatal(err)
		}
	}
	return s
}

// file is a file or a folder of the data of a server that has never run.
type file struct {
	path    string
	mode    fs.FileMode
	content []byte
}

// template holds the output of initdb, for all servers of this process: running initdb takes a
// second, copying its output a moment. It is in memory, so that nothing is left behind.
var template struct {
	sync.Mutex
	files []file
}

// initialize makes the data.
func (s *Server) initialize() error {
	template.Lock()
	defer template.Unlock()
	data := filepath.Join(s.dir, "data")
	if template.files != nil {
		return s.copyTo(data)
	}
	cmd := s.command("initdb", "-D", data, "-U", Superuser, "--auth=trust", "--data-checksums", "--encoding=UTF8", "--locale=C", "--no-sync")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	var files []file
	err := filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		f := file{mode: info.Mode()}
		if f.path, err = filepath.Rel(data, path); err == nil && !entry.IsDir() {
			f.content, err = os.ReadFile(path)
		}
		files = append(files, f)
		return err
	})
	if err == nil {
		template.files = files
	}
	return err
}

// copyTo writes the template, as the user that the server runs as.
func (s *Server) copyTo(data string) error {
	for _, f := range template.files { // folders come before what is in them
		path, err := filepath.Join(data, f.path), error(nil)
		if f.mode.IsDir() {
			err = os.Mkdir(path, f.mode.Perm())
		} else {
			err = os.WriteFile(path, f.content, f.mode.Perm())
		}
		if err == nil && s.attr.Credential != nil {
			err = os.Chown(path, int(s.attr.Credential.Uid), int(s.attr.Credential.Gid))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// programs is the folder of the newest server installed, empty if there is none.
func programs() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	slices.SortFunc(found, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1])
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path)
	}
	return ""
}

func somebody() (uid, gid int, err error) {
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return 0, 0, err
		}
	}
	if uid, err = strconv.Atoi(u.Uid); err != nil {
		return 0, 0, err
	}
	gid, err = strconv.Atoi(u.Gid)
	return uid, gid, err
}

// trust lets everybody in who comes over the network.
func trust(file string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("host all all all trust\n")
	return errors.Join(err, f.Close())
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir, cmd.SysProcAttr = s.dir, s.attr
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	return cmd
}

// Run starts the server again, after Stop or Kill, and waits until it accepts
// connections.
func (s *Server) Run() {
	s.tb.Helper()
	address, start := "", (*exec.Cmd).Start
	if s.place != nil {
		address, start = s.place.Address, s.place.Start
	}
	s.cmd = s.command("postgres", "-D", filepath.Join(s.dir, "data"), "-k", s.dir, "-c", "listen_addresses="+address, "-p", port,
		"-c", "max_connections=200", "-c", "log_min_messages=log", "-c", "deadlock_timeout=100ms")
	// It must not outlive a test that panics.
	attr := *s.attr
	attr.Pdeathsig = syscall.SIGQUIT
	s.cmd.SysProcAttr = &attr
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		s.tb.Fatal(err)
	}
	if err := start(s.cmd); err != nil {
		s.tb.Fatal(err)
	}
	ready := make(chan struct{})
	ended, cmd := make(chan struct{}), s.cmd
	s.ended = ended
	var log strings.Builder // read after ended
	go func() {
		up := false
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if !up && strings.Contains(lines.Text(), "database system is ready to accept") {
				up = true
				close(ready)
			} else if !up {
				log.WriteString(lines.Text() + "\n")
			}
		}
		_ = cmd.Wait() // how it ended is the test's affair
		close(ended)
	}()
	select {
	case <-ready:
	case <-ended:
		s.tb.Fatalf("the server does not start:\n%s", log.String())
	}
}

// Stop shuts the server down: it ends the connections and rolls back what they
// were doing.
func (s *Server) Stop() { s.end(syscall.SIGINT) }

// Kill stops the server as a power cut would stop its process, in the middle of
// whatever it does.
func (s *Server) Kill() { s.end(syscall.SIGQUIT) }

// Pause stops the clock of all its processes: connections stay, and no process answers, until
// Resume.
func (s *Server) Pause() { s.signalAll(syscall.SIGSTOP) }

// Resume lets it go on.
func (s *Server) Resume() { s.signalAll(syscall.SIGCONT) }

// signalAll signals the server and the processes that it has for connections
// and housekeeping: each is in a session of its own.
func (s *Server) signalAll(signal syscall.Signal) {
	s.tb.Helper()
	pid := strconv.Itoa(s.cmd.Process.Pid)
	children, err := os.ReadFile(filepath.Join("/proc", pid, "task", pid, "children"))
	if err != nil {
		s.tb.Fatal(err)
	}
	// The server itself first, so that it makes no more of them. One that
	// waits for its client stops before it looks at what comes.
	for _, field := range append([]string{pid}, strings.Fields(string(children))...) {
		if n, err := strconv.Atoi(field); err == nil {
			_ = syscall.Kill(n, signal) // one may have ended meanwhile
		}
	}
}

func (s *Server) end(signal syscall.Signal) {
	_ = s.cmd.Process.Signal(signal) // it may be gone already
	<-s.ended
}

// Path returns the path of a file of the server's data, as pg_relation_filepath names it.
func (s *Server) Path(file string) string { return filepath.Join(s.dir, "data", file) }

// Standby makes a server that follows this one, from a base backup. Until it is promoted, it can only be read. From now
// on, a commit here returns when the standby has it on its disk as well.
func (s *Server) Standby() *Server {
	s.tb.Helper()
	standby := prepare(s.tb, nil)
	data := filepath.Join(standby.dir, "data")
	if err := os.RemoveAll(data); err != nil {
		s.tb.Fatal(err)
	}
	if out, err := s.command("pg_basebackup", "-D", data, "-R", "-X", "stream", "-c", "fast", "-h", s.dir, "-p", port, "-U", Superuser).CombinedOutput(); err != nil {
		s.tb.Fatalf("pg_basebackup: %v\n%s", err, out)
	}
	standby.Run()
	s.tb.Cleanup(standby.Kill)
	for _, statement := range []string{"ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"} {
		if err := s.Exec("postgres", statement); err != nil {
			s.tb.Fatal(err)
		}
	}
	return standby
}

// Promote makes a standby a server that can be written. The server that it followed must not run any more.
func (s *Server) Promote() {
	s.tb.Helper()
	if err := s.Exec("postgres", "SELECT pg_promote()"); err != nil {
		s.tb.Fatal(err)
	}
}

// NewDatabase makes an empty database and returns its name.
func (s *Server) NewDatabase() (string, error) {
	name := fmt.Sprint("db", s.databases.Add(1))
	return name, s.Exec("postgres", "CREATE DATABASE "+name)
}

// URL leads a role to a database.
func (s *Server) URL(role, database string) string {
	if s.place != nil {
		return (&url.URL{Scheme: "postgres", User: url.User(role), Host: net.JoinHostPort(s.place.Address, port), Path: "/" + database}).String()
	}
	return (&url.URL{Scheme: "postgres", User: url.User(role), Path: "/" + database, RawQuery: url.Values{"host": {s.dir}}.Encode()}).String()
}

// Exec runs statements as the superuser.
func (s *Server) Exec(database, statements string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.URL(Superuser, database))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, statements, pgx.QueryExecModeSimpleProtocol)
	return err
}
