package node

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary runs itself as a service, or as the parent of one.
const roleVariable = "TEST_NODE_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "service":
		os.Exit(Main("region", newService(), setupPrinting))
	case "parent":
		os.Exit(parent())
	}
	os.Exit(m.Run())
}

// setupPrinting adds a stage that prints what happens to it.
func setupPrinting(n *Node) error {
	hang := os.Getenv("TEST_NODE_HANG") != ""
	n.Stage(Stage{
		Name: "printing",
		Start: func(context.Context) error {
			if os.Getenv(floodVariable) != "" {
				logMuch(n.Log())
			}
			fmt.Println("up")
			return nil
		},
		Stop: func(context.Context) error {
			fmt.Println("draining")
			if hang {
				<-make(chan struct{})
			}
			fmt.Println("drained")
			return nil
		},
	})
	return nil
}

// parent starts a service that shares its stdout, and waits to be killed.
func parent() int {
	child := exec.Command(os.Args[0], serviceArgs("--node.exit-with-parent")...)
	child.Env = append(os.Environ(), roleVariable+"=service")
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Run(); err != nil {
		fmt.Println(err)
	}
	return 1
}

func serviceArgs(more ...string) []string {
	return append(more, "--management.listen=127.0.0.1:0")
}

type process struct {
	*exec.Cmd
	lines  *bufio.Scanner
	stderr bytes.Buffer
}

func start(t *testing.T, role string, args, env []string) *process {
	t.Helper()
	return launch(t, role, args, env, nil)
}

// launch starts this binary with another standard error.
func launch(t *testing.T, role string, args, env []string, stderr io.Writer) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0], args...)}
	p.Env = append(append(os.Environ(), roleVariable+"="+role), env...)
	if p.Stderr = stderr; stderr == nil {
		p.Stderr = &p.stderr
	}
	p.WaitDelay = time.Second // do not wait for other processes that have stderr open
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	// Far longer than any test needs, so that a hang becomes a failure.
	timer := time.AfterFunc(time.Minute, func() { p.Process.Kill() })
	t.Cleanup(func() {
		timer.Stop()
		p.Process.Kill()
		p.Wait()
	})
	return p
}

func (p *process) expect(t *testing.T, want string) {
	t.Helper()
	if !p.lines.Scan() || p.lines.Text() != want {
		t.Fatalf("got %q, want %q; stderr:\n%s", p.lines.Text(), want, p.stderr.String())
	}
}

func (p *process) signal(t *testing.T, signal os.Signal) {
	t.Helper()
	if err := p.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

func TestSignalDrains(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		p := start(t, "service", serviceArgs(), nil)
		p.expect(t, "up")
		p.signal(t, signal)
		p.expect(t, "draining")
		p.expect(t, "drained")
		if err := p.Wait(); err != nil {
			t.Errorf("%v: %v; stderr:\n%s", signal, err, p.stderr.String())
		}
	}
}

func TestSecondSignal(t *testing.T) {
	p := start(t, "service", serviceArgs(), []string{"TEST_NODE_HANG=1"})
	p.expect(t, "up")
	p.signal(t, syscall.SIGTERM)
	p.expect(t, "draining")
	p.signal(t, syscall.SIGTERM)
	p.Wait()
	if code := p.ProcessState.ExitCode(); code != 128+int(syscall.SIGTERM) {
		t.Errorf("exit code %d, want %d", code, 128+int(syscall.SIGTERM))
	}
}

func TestStopOutOfTime(t *testing.T) {
	p := start(t, "service", serviceArgs("--shutdown.timeout=10ms"), []string{"TEST_NODE_HANG=1"})
	p.expect(t, "up")
	p.signal(t, syscall.SIGTERM)
	p.expect(t, "draining")
	p.Wait()
	if code := p.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
}

func TestExitWithParent(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no process there learns of its parent's death")
	}
	p := start(t, "parent", nil, nil)
	p.expect(t, "up")
	p.signal(t, os.Kill)
	// The child holds stdout open, so reading ends when the child does.
	done := make(chan struct{})
	go func() {
		for p.lines.Scan() {
		}
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Error("the child outlives its killed parent")
	}
}

func TestMainPrints(t *testing.T) {
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--help"}, 0, "--region.passivate-after"},
		{[]string{"--version"}, 0, "roost-region"},
		{[]string{"--print-config"}, 0, "region.mailbox"},
		{[]string{"--print-config", "--region.mailbox=many"}, 2, "region.mailbox"},
		{[]string{"--print-config", "--log.level=loud"}, 2, "log.format"}, // all values, even if one is wrong
		{[]string{"--print-config", "--log.level=Warn"}, 0, "warn"},
		{[]string{"--bananas"}, 2, "roost-region: flag --bananas is unknown"},
		{[]string{"--management.listen=127.0.0.1:99999"}, 1, "management.listen"},
	} {
		cmd := exec.Command(os.Args[0], test.args...)
		cmd.Env = append(os.Environ(), roleVariable+"=service")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = io.Writer(&out), io.Writer(&out)
		cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != test.code || !strings.Contains(out.String(), test.want) {
			t.Errorf("%q: code %d, want %d with %q:\n%s", test.args, code, test.code, test.want, out.String())
		}
	}
}

// floodVariable makes the service of this test binary log more than any pipe and the queue have room for.
const floodVariable = "TEST_NODE_FLOOD"

func logMuch(log *slog.Logger) {
	for range 3 << 20 / 100 {
		log.Info(strings.Repeat("x", 100))
	}
}

// TestLogIsNotRead: a process whose log is not read starts, works and stops; when it is read again, it reports the
// number of missing lines.
func TestLogIsNotRead(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	p := launch(t, "service", serviceArgs("--log.format=json"), []string{floodVariable + "=1"}, write)
	write.Close()
	p.expect(t, "up")
	var reported bool
	lines := bufio.NewScanner(read)
	for !reported && lines.Scan() {
		reported = strings.Contains(lines.Text(), `"msg":"log lines were dropped","lines":`)
	}
	if !reported {
		t.Error("dropped lines are not reported")
	}
	p.signal(t, syscall.SIGTERM)
	p.expect(t, "draining")
	p.expect(t, "drained")
	var last string
	for lines.Scan() {
		last = lines.Text()
	}
	if err := p.Wait(); err != nil || !strings.Contains(last, `"msg":"stopped"`) {
		t.Errorf("%v; the last line is %s", err, last)
	}
}

// TestReaderOfLogEnds: a process does not end because the reader of its log has ended.
func TestReaderOfLogEnds(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	p := launch(t, "service", serviceArgs(), []string{floodVariable + "=1"}, write)
	write.Close()
	p.expect(t, "up")
	p.signal(t, syscall.SIGTERM)
	p.expect(t, "draining")
	p.expect(t, "drained")
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
}
