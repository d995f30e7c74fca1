package cluster_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/libs/test/testbin"
)

// bins makes a directory in which the services are the test binary.
func bins(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"coordinator", "region", "gateway", "launcher"} {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// watch collects the changes of processes.
type watch struct {
	mu      sync.Mutex
	changes []cluster.Process
	news    chan struct{}
}

func newWatch() *watch { return &watch{news: make(chan struct{}, 1)} }

func (w *watch) changed(p cluster.Process) {
	w.mu.Lock()
	w.changes = append(w.changes, p)
	w.mu.Unlock()
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// wait waits for a change of a process to a state.
func (w *watch) wait(t *testing.T, name, state string) cluster.Process {
	t.Helper()
	for {
		w.mu.Lock()
		for _, p := range w.changes {
			if p.Name == name && p.State == state {
				w.mu.Unlock()
				return p
			}
		}
		w.mu.Unlock()
		select {
		case <-w.news:
		case <-t.Context().Done():
			t.Fatalf("%s never was %s", name, state)
		}
	}
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, o cluster.Options) *cluster.Cluster {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	o.BinDir = bins(t)
	c, err := cluster.Start(deadline(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = c.Close(ctx)
	})
	return c
}

// TestElsewhere: processes listen at the given addresses, and are started by
// a caller that knows how to start one there, and over restarts.
func TestElsewhere(t *testing.T) {
	var mu sync.Mutex
	started := map[string]int{}
	c := start(t, cluster.Options{
		Coordinators: 1, Regions: 2,
		Address: func(name string) string {
			if name == "region-2" {
				return "127.0.0.2"
			}
			return "127.0.0.1"
		},
		Start: func(name string, cmd *exec.Cmd) error {
			mu.Lock()
			started[name]++
			mu.Unlock()
			return cmd.Start()
		},
	})
	if err := c.Ready(deadline(t)); err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Processes() {
		want := "127.0.0.1:"
		if p.Name == "region-2" {
			want = "127.0.0.2:"
		}
		if !strings.HasPrefix(p.Service, want) || !strings.HasPrefix(p.Management, want) {
			t.Errorf("%s listens at %s and %s, want %s", p.Name, p.Service, p.Management, want)
		}
	}
	if err := c.Restart(deadline(t), "region-1"); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if started["coordinator-1"] != 1 || started["region-1"] != 2 || started["region-2"] != 1 {
		t.Errorf("started %v", started)
	}
}

func get(t *testing.T, c *cluster.Cluster, name string) cluster.Process {
	t.Helper()
	for _, p := range c.Processes() {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no %s in %v", name, c.Processes())
	return cluster.Process{}
}

func setMood(t *testing.T, dir, name, mood string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "run", name+".mood"), []byte(mood), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestLife(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state", "cluster.json")
	w := newWatch()
	c := start(t, cluster.Options{
		Coordinators: 2, Regions: 2, Gateways: 1, Dir: dir, StateFile: state, Changed: w.changed,
		Control: cluster.Control{URL: "http://x", Token: "secret"},
		Args:    map[string][]string{cluster.Region: {"--region.mailbox=7"}},
	})
	ctx := deadline(t)
	if err := c.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	before := get(t, c, "region-2")
	if before.State != cluster.Running || !testbin.Alive(before.PID) {
		t.Fatalf("region-2 is %+v", before)
	}

	if err := c.Kill("region-2"); err != nil {
		t.Fatal(err)
	}
	if p := get(t, c, "region-2"); p.State != cluster.Killed || p.PID != 0 || testbin.Alive(before.PID) {
		t.Fatalf("after Kill region-2 is %+v", p)
	}
	if err := c.Kill("region-2"); err == nil {
		t.Fatal("a dead process was killed again")
	}
	if err := c.Restart(ctx, "region-2"); err != nil {
		t.Fatal(err)
	}
	after := get(t, c, "region-2")
	if after.Service != before.Service || after.Management != before.Management || after.PID == before.PID || after.State != cluster.Running {
		t.Fatalf("before the restart %+v, after it %+v", before, after)
	}
	if err := c.Stop(ctx, "region-1"); err != nil {
		t.Fatal(err)
	}
	if p := get(t, c, "region-1"); p.State != cluster.Stopped {
		t.Fatalf("after Stop region-1 is %+v", p)
	}
	if err := c.Ready(ctx); err != nil {
		t.Fatalf("a stopped process is not an obstacle: %v", err)
	}
	if name, err := c.AddRegion(ctx); err != nil || name != "region-3" {
		t.Fatalf("AddRegion: %s, %v", name, err)
	}
	if err := c.Kill("region-9"); !errors.Is(err, cluster.ErrUnknown) {
		t.Fatalf("Kill of an unknown process: %v", err)
	}

	s, err := cluster.ReadState(state)
	if err != nil || len(s.Processes) != 6 || s.Control.Token != "secret" || len(s.Gateways()) != 1 || len(s.Admin()) != 2 {
		t.Fatalf("state %+v, %v", s, err)
	}
	args := arguments(t, after)
	seeds := "static:" + get(t, c, "coordinator-1").Service + "," + get(t, c, "coordinator-2").Service
	if args["--discovery.url"] != seeds || args["--region.mailbox"] != "7" || args["--node.exit_with_parent"] != "true" {
		t.Fatalf("region-2 was started with %v", args)
	}
	// A process that comes back waits for the cluster to announce itself; the processes of the first start form it.
	first := arguments(t, get(t, c, "coordinator-1"))
	if args["--discovery.stable_for"] != "500ms" || first["--discovery.stable_for"] != "0s" {
		t.Errorf("stable_for is %s at a later start, %s at the first one", args["--discovery.stable_for"], first["--discovery.stable_for"])
	}

	if err := c.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Processes() {
		if p.PID != 0 || p.State != cluster.Stopped {
			t.Errorf("after Close %+v", p)
		}
	}
	if _, err := cluster.ReadState(state); !errors.Is(err, cluster.ErrNoCluster) {
		t.Errorf("the state file after Close: %v", err)
	}
	if _, err := c.AddRegion(ctx); err == nil {
		t.Error("a closed cluster took a new region")
	}
	inOrder(t, w)
}

// inOrder checks that gateways ended first and coordinators last.
func inOrder(t *testing.T, w *watch) {
	t.Helper()
	rank := map[string]int{cluster.Gateway: 0, cluster.Region: 1, cluster.Coordinator: 2}
	last := 0
	closing := false
	for _, p := range w.changes {
		closing = closing || p.Role == cluster.Gateway && p.State == cluster.Stopping
		if closing && p.State == cluster.Stopped {
			if rank[p.Role] < last {
				t.Errorf("%s ended after a %s", p.Name, []string{"gateway", "region", "coordinator"}[last])
			}
			last = rank[p.Role]
		}
	}
}

func arguments(t *testing.T, p cluster.Process) map[string]string {
	t.Helper()
	res, err := http.Get("http://" + p.Management + "/args")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var args map[string]string
	if err := json.NewDecoder(res.Body).Decode(&args); err != nil {
		t.Fatal(err)
	}
	return args
}

func TestUnexpectedDeath(t *testing.T) {
	w := newWatch()
	c := start(t, cluster.Options{Coordinators: 1, Regions: 1, Changed: w.changed})
	pid := get(t, c, "region-1").PID
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p := w.wait(t, "region-1", cluster.Died)
	if p.Reason != "signal: killed" || strings.Join(p.LastLines, "|") != "hello from region-1" {
		t.Errorf("death told as %+v", p)
	}
	if err := c.Ready(deadline(t)); err == nil || !strings.Contains(err.Error(), "region-1 died") {
		t.Errorf("Ready with a dead region: %v", err)
	}
}

func TestDeathAtStart(t *testing.T) {
	dir := t.TempDir()
	setMood(t, dir, "gateway-1", "die")
	w := newWatch()
	_, err := cluster.Start(deadline(t), cluster.Options{
		Coordinators: 1, Regions: 1, Gateways: 1, Dir: dir, BinDir: bins(t), Changed: w.changed,
	})
	if err == nil || !strings.Contains(err.Error(), "gateway-1") || !strings.Contains(err.Error(), "bad mood") || !strings.Contains(err.Error(), "exit status 3") {
		t.Fatalf("Start said %v", err)
	}
	for _, p := range w.changes {
		if p.PID != 0 && testbin.Alive(p.PID) {
			t.Errorf("%s was left behind", p.Name)
		}
	}
}

func TestNotReady(t *testing.T) {
	dir := t.TempDir()
	setMood(t, dir, "region-1", "unready")
	c := start(t, cluster.Options{Coordinators: 1, Regions: 1, Dir: dir})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := c.Ready(ctx); err == nil || !strings.Contains(err.Error(), "region-1: 503") || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("Ready said %v", err)
	}
	if err := c.Ready(ctx, "coordinator-1"); err != nil {
		t.Errorf("Ready of the coordinator alone: %v", err)
	}
}

// TestWarnings: warnings of a process are reported although the process is ready.
func TestWarnings(t *testing.T) {
	dir := t.TempDir()
	setMood(t, dir, "coordinator-1", "warning")
	setMood(t, dir, "region-1", "unready")
	c := start(t, cluster.Options{Coordinators: 1, Regions: 1, Dir: dir})
	got := c.Warnings(t.Context(), cluster.Coordinator)
	if want := []cluster.Warning{{Process: "coordinator-1", Check: "journal", Text: "it is damaged: look there"}}; !slices.Equal(got, want) {
		t.Errorf("coordinators warn of %+v, want %+v", got, want)
	}
	if got := c.Warnings(t.Context(), cluster.Region); len(got) > 0 {
		t.Errorf("regions warn of %+v", got)
	}
}

func TestStubbornIsKilled(t *testing.T) {
	dir := t.TempDir()
	setMood(t, dir, "region-1", "stubborn")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := start(t, cluster.Options{Coordinators: 1, Regions: 1, Gateways: 1, Dir: dir, Changed: func(p cluster.Process) {
		if p.State == cluster.Stopping && p.Name == "region-1" {
			cancel() // The time for a stop in order is over.
		}
	}})
	pid := get(t, c, "region-1").PID
	if err := c.Close(ctx); err == nil || !strings.Contains(err.Error(), "region-1 was killed") {
		t.Errorf("Close said %v", err)
	}
	if testbin.Alive(pid) {
		t.Error("region-1 was left behind")
	}
	if p := get(t, c, "gateway-1"); p.State != cluster.Stopped {
		t.Errorf("gateway-1, which obeys, is %+v", p)
	}
}

func TestPaused(t *testing.T) {
	c := start(t, cluster.Options{Coordinators: 1, Regions: 1})
	pid := get(t, c, "region-1").PID
	if err := c.Signal("region-1", syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := c.Kill("region-1"); err != nil {
		t.Fatal(err)
	}
	if testbin.Alive(pid) {
		t.Error("a paused process survived Kill")
	}
}

func TestPortTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:8558")
	if err != nil {
		t.Skip("another process has port 8558")
	}
	defer taken.Close()
	_, err = cluster.Start(deadline(t), cluster.Options{
		Coordinators: 1, Dir: t.TempDir(), BinDir: bins(t), Ports: cluster.Fixed,
	})
	var port *cluster.PortError
	// Another process may have 25521 too.
	if !errors.As(err, &port) || port.Process != "coordinator-1" {
		t.Errorf("Start said %v", err)
	}
}

func TestBadOptions(t *testing.T) {
	dir := bins(t)
	for name, test := range map[string]struct {
		options cluster.Options
		want    string
	}{
		"no coordinator": {cluster.Options{BinDir: dir, Dir: t.TempDir()}, "0 coordinators"},
		"no dir":         {cluster.Options{BinDir: dir, Coordinators: 1}, "Dir is empty"},
		"ports":          {cluster.Options{BinDir: dir, Dir: t.TempDir(), Coordinators: 1, Ports: "some"}, "random or fixed"},
		"no binaries":    {cluster.Options{BinDir: t.TempDir(), Dir: t.TempDir(), Coordinators: 1}, "no coordinator, region, gateway in"},
		"no region": {cluster.Options{BinDir: dir, Dir: t.TempDir(), Coordinators: 1, RegionBinary: "./none"},
			"none: no such file"},
	} {
		c, err := cluster.Start(deadline(t), test.options)
		if err == nil {
			_ = c.Close(deadline(t))
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: Start said %v", name, err)
		}
	}
}

func TestOneClusterPerDir(t *testing.T) {
	dir := t.TempDir()
	c := start(t, cluster.Options{Coordinators: 1, Dir: dir})
	o := cluster.Options{Coordinators: 1, Dir: dir, BinDir: bins(t)}
	if _, err := cluster.Start(deadline(t), o); !errors.Is(err, cluster.ErrLocked) {
		t.Fatalf("a second cluster in the same directory: %v", err)
	}
	if err := c.Close(deadline(t)); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(c.Processes()[0].Log)
	if err != nil || len(before) == 0 {
		t.Fatalf("the log of the first: %q, %v", before, err)
	}
	c, err = cluster.Start(deadline(t), o)
	if err != nil {
		t.Fatalf("after the end of the first: %v", err)
	}
	if after, err := os.ReadFile(c.Processes()[0].Log); err != nil || !bytes.HasPrefix(after, before) || len(after) == len(before) {
		t.Errorf("the log of the first is not kept: %q, %v", after, err)
	}
	if err := c.Close(deadline(t)); err != nil {
		t.Fatal(err)
	}
}

// launch is a launcher that tells its processes and then waits for its own
// death.
func launch(dir string) {
	c, err := cluster.Start(context.Background(), cluster.Options{
		Coordinators: 1, Regions: 2, Gateways: 1, Dir: dir, BinDir: filepath.Dir(os.Args[0]),
	})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	// Threads come and go; the processes must not go with them.
	var threads sync.WaitGroup
	for range 8 {
		threads.Go(runtime.LockOSThread)
	}
	threads.Wait()
	for _, p := range c.Processes() {
		fmt.Println(p.PID)
	}
	fmt.Println("end")
	select {}
}

func TestLauncherKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only the Linux kernel kills the processes of a killed launcher")
	}
	launcher := exec.CommandContext(deadline(t), filepath.Join(bins(t), "launcher"), t.TempDir())
	launcher.Args[0] = launcher.Path
	out, err := launcher.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := launcher.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "end" {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(lines.Text())
		}
		pids = append(pids, pid)
	}
	if len(pids) != 4 {
		t.Fatalf("the launcher has %d processes", len(pids))
	}
	for _, pid := range pids {
		if !testbin.Alive(pid) {
			t.Fatalf("process %d did not live", pid)
		}
	}
	if err := launcher.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = launcher.Wait()
	ctx := deadline(t)
	for _, pid := range pids {
		for testbin.Alive(pid) {
			if ctx.Err() != nil {
				t.Fatalf("process %d survived the launcher", pid)
			}
			runtime.Gosched()
		}
	}
}
