package server

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// The test binary runs itself as the first process of a container that does what the role says.
const (
	containedRole = "TEST_CONTAINED_ROLE"
	containedDir  = "TEST_CONTAINED_DIR"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(containedRole); role != "" {
		if code, ok := asParent(); ok {
			os.Exit(code)
		}
		os.Exit(contained(role))
	}
	os.Exit(m.Run())
}

// contained opens the box, prints how the process before this one has ended, and plays its role in the turn of a suspect.
func contained(role string) int {
	switch role {
	case "leaves-orphan": // prints the id of a process that continues, and ends before it
		orphan := containedCommand("orphan")
		in, _, err := os.Pipe()
		if err != nil {
			return 1
		}
		orphan.Stdin = in // ends with this process
		if err := orphan.Start(); err != nil {
			return 1
		}
		fmt.Println(orphan.Process.Pid)
		return 0
	case "orphan":
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	}
	cfg := DefaultConfig()
	cfg.ClusterName, cfg.Journal.URL, cfg.CrashDir = "test", "sqlite:none", os.Getenv(containedDir)
	n := newNoter()
	crash := n.openBox(&cfg, sharding.NodeID{Addr: "here", UID: sharding.NodeUID(time.Now().UnixNano())}, "region-1", slog.New(slog.DiscardHandler))
	_ = json.NewEncoder(os.Stdout).Encode(crash.Crash) // a test that reads nothing fails
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP)
	turn := n.begin(sharding.Entity{Type: "T", ID: "x"}, "Do", true)
	switch role {
	case "exits":
		os.Exit(3)
	case "reaps":
		orphan, err := containedCommand("leaves-orphan").Output()
		if err != nil {
			return 1
		}
		pid, _ := strconv.Atoi(strings.TrimSpace(string(orphan)))
		for syscall.Kill(pid, 0) == nil { // until it is not a zombie either
			time.Sleep(time.Millisecond)
		}
		fmt.Println("reaped")
	}
	fmt.Println(os.Getpid(), syscall.Getpgrp())
	fmt.Println(<-signals)
	fmt.Println(<-signals)
	n.end(&turn, time.Now())
	if err := n.box.Close(); err != nil {
		return 1
	}
	return 7
}

func containedCommand(role string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), containedRole+"="+role)
	return cmd
}

// container is the first process of a process namespace.
type container struct {
	*exec.Cmd
	out *bufio.Scanner
}

func startContainer(t *testing.T, dir, role string) *container {
	t.Helper()
	c := &container{Cmd: containedCommand(role)}
	c.Env = append(c.Env, containedDir+"="+dir)
	c.Stderr = os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Geteuid() != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSPC) {
		t.Skipf("this user may not make a process namespace: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	timer := time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() }) // a hang becomes a failure
	t.Cleanup(func() {
		timer.Stop()
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return c
}

func (c *container) line(t *testing.T) string {
	t.Helper()
	if !c.out.Scan() {
		t.Fatalf("the process says no more: %v", c.out.Err())
	}
	return c.out.Text()
}

// crash reads how the process before has ended.
func (c *container) crash(t *testing.T) (r control.Crash) {
	t.Helper()
	if err := json.Unmarshal([]byte(c.line(t)), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// ends waits for the end of a container, and returns its exit code.
func (c *container) ends(t *testing.T) int {
	t.Helper()
	for c.out.Scan() {
	}
	_ = c.Wait() // the code says it
	return c.ProcessState.ExitCode()
}

// region returns the process id of the region in a container, as it is outside.
func (c *container) region(t *testing.T) int {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", c.Process.Pid)) // any thread may have started it
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		if text, err := os.ReadFile(list); err == nil && len(text) > 0 {
			pid, err := strconv.Atoi(strings.Fields(string(text))[0])
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatal("the first process has no child")
	return 0
}

// TestContainer: the first process of a container waits for the region, and the next one knows how the region has
// ended. The container has the exit code of the region.
func TestContainer(t *testing.T) {
	dir := t.TempDir()
	c := startContainer(t, dir, "exits")
	if r := c.crash(t); r.Of != 0 {
		t.Errorf("before the first process: %+v", r)
	}
	if code := c.ends(t); code != 3 {
		t.Errorf("exit code %d, the region ended with 3", code)
	}

	c = startContainer(t, dir, "waits")
	if r := c.crash(t); r.Evidence != "exit status 3" || r.Cause != "" || len(r.Turns) != 1 || r.Turns[0].Entity.ID != "x" || !r.Turns[0].Alone {
		t.Errorf("after os.Exit(3) in the turn of x: %+v", r)
	}
	c.line(t)
	if err := syscall.Kill(c.region(t), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := c.ends(t); code != 128+int(syscall.SIGKILL) {
		t.Errorf("exit code %d after SIGKILL", code)
	}

	c = startContainer(t, dir, "waits")
	if r := c.crash(t); r.Of == 0 || r.Evidence != "" || r.Cause != "" || len(r.Turns) != 0 {
		t.Errorf("after SIGKILL from outside: %+v", r)
	}
	c.line(t)
	if err := c.Process.Kill(); err != nil { // the kernel ends all of the container
		t.Fatal(err)
	}
	c.ends(t)

	c = startContainer(t, dir, "waits")
	if r := c.crash(t); r.Evidence != "" || len(r.Turns) != 1 {
		t.Errorf("after SIGKILL of the container: %+v", r)
	}
	ids := c.line(t)
	if pid, group, _ := strings.Cut(ids, " "); pid == "1" || pid != group {
		t.Errorf("process and group are %s, want a group of its own: a terminal would interrupt it twice", ids)
	}
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		if err := c.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		if got := c.line(t); got != s.String() {
			t.Errorf("%v arrives as %s", s, got)
		}
	}
	if code := c.ends(t); code != 7 {
		t.Errorf("exit code %d, the region ended with 7", code)
	}

	c = startContainer(t, dir, "reaps")
	if r := c.crash(t); r.Of != 0 {
		t.Errorf("after a region that has left: %+v", r)
	}
	if got := c.line(t); got != "reaped" {
		t.Errorf("%s, want that a process without a parent does not stay as a zombie", got)
	}
}

// TestParentFile: only a pipe is taken for one that leads to a parent.
func TestParentFile(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{strconv.Itoa(int(f.Fd())), "-1", "many"} {
		t.Setenv(parentEnv, value)
		tellParent("/a/box")
		if _, set := os.LookupEnv(parentEnv); set {
			t.Errorf("%s=%s stays for the processes that the region starts", parentEnv, value)
		}
	}
	if info, err := f.Stat(); err != nil || info.Size() > 0 {
		t.Errorf("%v bytes were written to a file", info.Size())
	}
}
