package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/roost-cluster/roost/cli/internal/dev"
	"github.com/roost-cluster/roost/libs/test/testbin"
)

// The root of the repository.
const root = "../../.."

// binaries is the directory of the services and the roost command.
func binaries(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("runs real processes")
	}
	return testbin.Build(t, "services/coordinator/cmd/coordinator", "services/region/cmd/region", "services/gateway/cmd/gateway", "cli/cmd/roost")
}

// A devRun is a running roost dev.
type devRun struct {
	t   *testing.T
	bin string
	dir string
	cmd *exec.Cmd
	err *lockedBuffer
	dev.Ready
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// limit is the time that any one thing may take in these tests.
const limit = time.Minute

// startDev runs roost dev and waits until it reports that it is ready.
func startDev(t *testing.T, dir string, args ...string) *devRun {
	t.Helper()
	d := &devRun{t: t, bin: binaries(t), dir: dir, err: &lockedBuffer{}}
	args = append([]string{"dev", "--dir", dir, "-o", "json", "--ports", "random"}, args...)
	d.cmd = exec.Command(filepath.Join(d.bin, "roost"), args...)
	d.cmd.Stderr = d.err
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.cleanUp)
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(out).ReadString('\n')
		line <- text
		_, _ = io.Copy(io.Discard, out)
	}()
	select {
	case text := <-line:
		if err := json.Unmarshal([]byte(text), &d.Ready); err != nil {
			t.Fatalf("roost dev printed %q: %v\n%s", text, err, d.err)
		}
	case <-time.After(2 * limit):
		t.Fatalf("roost dev did not get ready\n%s", d.err)
	}
	return d
}

// cleanUp ends what a failed test left, and shows what was printed.
func (d *devRun) cleanUp() {
	if d.t.Failed() {
		d.t.Logf("roost dev said:\n%s", d.err)
		for _, p := range d.Processes {
			if log, err := os.ReadFile(p.Log); err == nil {
				d.t.Logf("%s:\n%s", p.Name, log[max(0, len(log)-6000):])
			}
		}
	}
	if d.cmd.ProcessState == nil {
		_ = d.cmd.Process.Kill()
		_ = d.cmd.Wait()
	}
}

// interrupt is Ctrl-C; it returns the exit code when all processes are gone.
func (d *devRun) interrupt(times int) int {
	d.t.Helper()
	for range times {
		if err := d.cmd.Process.Signal(syscall.SIGINT); err != nil {
			d.t.Fatal(err)
		}
	}
	done := make(chan struct{})
	go func() {
		_ = d.cmd.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(limit):
		d.t.Fatalf("roost dev did not stop\n%s", d.err)
	}
	d.nobodyLeft()
	return d.cmd.ProcessState.ExitCode()
}

// nobodyLeft waits until no process of the cluster is alive.
func (d *devRun) nobodyLeft() {
	d.t.Helper()
	for _, p := range d.Processes {
		eventually(d.t, p.Name+" is gone", func() error {
			if testbin.Alive(p.PID) {
				return fmt.Errorf("%s (pid %d) is alive", p.Name, p.PID)
			}
			return nil
		})
	}
}

// roost runs another roost command against the cluster.
func (d *devRun) roost(args ...string) (code int, out, errOut string) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 2*limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, "roost"), append(args, "--dir", d.dir)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// must runs another roost command that must work, and reads its JSON.
func (d *devRun) must(into any, args ...string) {
	d.t.Helper()
	code, out, errOut := d.roost(append(args, "-o", "json")...)
	if code != 0 {
		d.t.Fatalf("roost %s: exit code %d, %s", strings.Join(args, " "), code, errOut)
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		d.t.Fatalf("roost %s printed %q: %v", strings.Join(args, " "), out, err)
	}
}

// post sends a command through a gateway, once, with the time to wait for a
// shard that moves.
func post(gateway, path, body string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, gateway+"/v1/"+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Roost-Timeout", "20s")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s %v", res.Status, answer, err)
	}
	return string(answer), nil
}

// eventually tries until it works or the limit is over.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	over := time.After(limit)
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-poll.C:
		case <-over:
			t.Fatalf("not within %s: %s: %v", limit, what, err)
		}
	}
}
