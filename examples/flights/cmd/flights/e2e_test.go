package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/test/testbin"
)

// build returns the directory of all binaries.
func build(t *testing.T) string {
	t.Helper()
	return testbin.Build(t, "services/coordinator/cmd/coordinator", "services/gateway/cmd/gateway",
		"examples/flights/cmd/flights", "examples/flights/cmd/flights-region")
}

// command runs the demonstration as a process.
func command(t *testing.T, args ...string) (cmd *exec.Cmd, output *bytes.Buffer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	output = &bytes.Buffer{}
	cmd = exec.CommandContext(ctx, filepath.Join(build(t), "flights"), args...)
	cmd.Stdout, cmd.Stderr = output, output
	return cmd, output
}

// demand runs the demonstration, and fails the test unless it ends with the code.
func demand(t *testing.T, code int, args ...string) string {
	t.Helper()
	cmd, output := command(t, args...)
	err := cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("flights %q: exit code %d (%v), want %d\n%s", args, got, err, code, output)
	}
	return output.String()
}

// countText counts independently of the program.
func countText(t *testing.T, text string) (airports, routes string) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	perAirport, perRoute := map[string][3]int{}, map[string][2]int{}
	for _, row := range rows[1:] {
		delay, _ := strconv.Atoi(row[1])
		miles, _ := strconv.Atoi(row[2])
		a := perAirport[row[3]]
		perAirport[row[3]] = [3]int{a[0] + 1, a[1], a[2] + delay}
		b := perAirport[row[4]]
		perAirport[row[4]] = [3]int{b[0], b[1] + 1, b[2]}
		r := perRoute[row[3]+"-"+row[4]]
		perRoute[row[3]+"-"+row[4]] = [2]int{r[0] + 1, r[1] + miles}
	}
	airports, routes = "airport,departures,arrivals,departure_delay_minutes\n", "route,flights,miles\n"
	for _, code := range slices.Sorted(maps.Keys(perAirport)) {
		c := perAirport[code]
		airports += fmt.Sprintf("%s,%d,%d,%d\n", code, c[0], c[1], c[2])
	}
	for _, id := range slices.Sorted(maps.Keys(perRoute)) {
		c := perRoute[id]
		routes += fmt.Sprintf("%s,%d,%d\n", id, c[0], c[1])
	}
	return airports, routes
}

func write(t *testing.T, path string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCarriesFlightsThroughFaultsTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster of processes")
	}
	t.Parallel()
	dir := t.TempDir()
	text := generated(rand.New(rand.NewPCG(11, 11)), 300)
	file := write(t, filepath.Join(dir, "in.csv.gz"), zipped(t, text))
	at := func(name string) string { return filepath.Join(dir, name) }
	airports, routes := countText(t, text)
	for _, faults := range []string{"all", "none"} { // the second run repeats every command
		out := demand(t, 0, "-flights", file, "-faults", faults, "-data", at("data"), "-concurrency", "16",
			"-totals", at("totals.csv"), "-routes", at("routes.csv"), "-report", at("report.json"))
		if !strings.Contains(out, "\nEQUAL: ") {
			t.Errorf("no verdict:\n%s", out)
		}
		for name, want := range map[string]string{"totals.csv": airports, "routes.csv": routes} {
			if got, err := os.ReadFile(at(name)); err != nil || string(got) != want {
				t.Errorf("-faults %s: %s, %v:\n%s\nwant:\n%s", faults, name, err, got, want)
			}
		}
		var r report
		content, err := os.ReadFile(at("report.json"))
		if err != nil || json.Unmarshal(content, &r) != nil {
			t.Fatalf("%v\n%s", err, content)
		}
		if !r.Equal || r.Commands != 900 || r.Latency.Max <= 0 {
			t.Errorf("report: %s", content)
		}
		happened := []string{calm}
		if faults == "all" {
			happened = append(happened, "SIGKILL region-2", "start region-2 again", "add a region", "SIGKILL coordinator-", "start coordinator-", "SIGTERM region-1")
			if r.Moved == 0 {
				t.Error("no shard has moved")
			}
		}
		for i, s := range r.Stalls {
			if len(r.Stalls) != len(happened) || !strings.HasPrefix(s.Fault, happened[i]) {
				t.Errorf("-faults %s: fault %d of %d is %q, want %q", faults, i, len(r.Stalls), s.Fault, happened)
			}
		}
	}
	other := write(t, at("other.csv"), []byte(text+"01010001,1,1,PHX,LAX\n"))
	if out := demand(t, 1, "-flights", other, "-data", at("data")); !strings.Contains(out, "holds the flights of") {
		t.Errorf("another file in the same -data:\n%s", out)
	}
}

func TestAMalformedRowStopsBeforeAnythingIsSent(t *testing.T) {
	if testing.Short() {
		t.Skip("builds binaries")
	}
	dir := t.TempDir()
	text := generated(rand.New(rand.NewPCG(5, 5)), 50) + "01010001,soon,1,PHX,LAX\n"
	file := write(t, filepath.Join(dir, "in.csv"), []byte(text))
	out := demand(t, 1, "-flights", file, "-data", filepath.Join(dir, "data"))
	if !strings.Contains(out, file+`:52: delay "soon"`) {
		t.Errorf("the error does not name file, line and reason:\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was started: %v", err)
	}
	demand(t, 2, "-faults", "some")
	demand(t, 2, "-totals", filepath.Join(dir, "missing", "t.csv"))
}

func TestInterruptLeavesNoProcess(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("starts a cluster of processes and looks for them in /proc")
	}
	t.Parallel()
	for _, tc := range []struct {
		signal os.Signal
		code   int
	}{{os.Interrupt, 130}, {syscall.SIGKILL, -1}} {
		data := filepath.Join(t.TempDir(), "data")
		cmd, _ := command(t, "-data", data)
		cmd.Stderr = nil
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(stderr)
		for lines.Scan() && !strings.Contains(lines.Text(), "of 693,249") { // well in progress
		}
		if n := len(processesWith(data)); n != coordinators+regions+gateways {
			t.Errorf("%d processes before the interrupt", n)
		}
		if err := cmd.Process.Signal(tc.signal); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != tc.code {
			t.Errorf("exit code %d after %s, want %d", code, tc.signal, tc.code)
		}
		// The kernel ends the processes of a killed launcher, which takes a moment.
		deadline := time.Now().Add(10 * time.Second)
		left := processesWith(data)
		for ; len(left) > 0 && tc.signal == syscall.SIGKILL && time.Now().Before(deadline); left = processesWith(data) {
			runtime.Gosched()
		}
		if len(left) > 0 {
			t.Errorf("left behind after %s: %v", tc.signal, left)
		}
	}
}

// processesWith lists the processes whose command line names the directory.
func processesWith(dir string) (found []string) {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		line, err := os.ReadFile(path)
		if err == nil && bytes.Contains(line, []byte("--node.name=")) && bytes.Contains(line, []byte(dir)) {
			found = append(found, string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
		}
	}
	return found
}
