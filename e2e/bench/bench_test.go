package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/e2e/bench/baseline"
	"github.com/roost-cluster/roost/e2e/bench/report"
	"github.com/roost-cluster/roost/libs/test/testbin"
)

// asBaselines makes the test binary serve the baselines.
const asBaselines = "ROOST_BENCH_BASELINES"

// asProgram is the argument that makes the test binary the program of a peer, and failing makes it a program that fails.
const (
	asProgram = "program-of-a-peer"
	failing   = "program-that-fails"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == asProgram || os.Args[1] == failing) {
		if os.Args[1] == failing {
			fmt.Fprintln(os.Stderr, "first line\nit does not work")
			os.Exit(1)
		}
		for _, callers := range []int{1, 64} {
			fmt.Printf("{\"name\":%q,\"measure\":\"%d in flight\",\"unit\":\"asks/s\",\"value\":%d}\n", os.Args[2], callers, 10*callers)
		}
		os.Exit(0)
	}
	if os.Getenv(asBaselines) != "" {
		if err := baseline.Serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestHarness runs every suite with tiny sizes. It checks that figures are reported, not
// their values.
func TestHarness(t *testing.T) {
	bin := testbin.Build(t, "services/coordinator/cmd/coordinator", "services/gateway/cmd/gateway", "e2e/bench/cmd/bench-region")
	o := DefaultOptions()
	o.Bin, o.Dir, o.Rounds, o.Length = bin, t.TempDir(), 1, 20*time.Millisecond
	o.Sizes = Sizes{Entities: 10, Accounts: 10, Idle: 100, Activations: 100, Replay: 100, Claims: 16, PlanShards: 300, TableShards: 200, FaultRate: 50, FaultTime: 300 * time.Millisecond, Kills: 1, Times: 1, NewShards: 2, Watchers: 3, Changes: 2, Clerks: 1, Overload: time.Second, Rest: time.Second,
		ManyEntities: 200, Connections: 20, ConnectedFor: 200 * time.Millisecond, Soak: 2 * time.Second}
	o.Baselines, o.Env, o.Progress = []string{os.Args[0]}, []string{asBaselines + "=1"}, t.Output()
	seen := map[string]bool{}
	for _, kind := range []string{"make bench", "make bench-faults", "make bench-scale"} {
		o.Faults, o.Scale = kind == "make bench-faults", kind == "make bench-scale"
		r, err := Run(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range r.Rows {
			if row.Value < 0 && row.Unit != "%" || kind == "make bench" && row.Value == 0 && !row.Target.None && row.Unit != "% of one processor" || row.Baseline != nil && row.Baseline.Value <= 0 {
				t.Errorf("no figure: %+v", row)
			}
			name := row.Section + ": " + row.Measure
			if seen[name] {
				t.Errorf("%s is there twice", name)
			}
			seen[name] = true
		}
		if kind != "make bench" {
			checkSections(t, r, kind)
		}
	}
	if left, _ := os.ReadDir(o.Dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// checkSections checks that the page of the documentation has a place for every section.
func checkSections(t *testing.T, r *report.Report, kind string) {
	raw, err := os.ReadFile("../../docs/inside/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(t.TempDir(), "performance.md")
	if err := os.WriteFile(page, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.RewriteSections(page, kind); err != nil {
		t.Error(err)
	}
}

// TestFailedSuite: a suite that fails, here because its programs are missing, is named, and the others are measured.
func TestFailedSuite(t *testing.T) {
	o := DefaultOptions()
	o.Bin, o.Dir, o.Rounds, o.Length, o.Run = t.TempDir(), t.TempDir(), 1, time.Millisecond, regexp.MustCompile("^(link|claims)$")
	o.Sizes.Claims = 16
	o.Baselines, o.Env, o.Progress = []string{os.Args[0]}, []string{asBaselines + "=1"}, t.Output()
	r, err := Run(t.Context(), o)
	if err == nil || !strings.HasPrefix(err.Error(), "link: ") {
		t.Errorf("%v, want that link has failed", err)
	}
	if r == nil || len(r.Rows) != 1 || !strings.HasPrefix(r.Rows[0].Measure, "16 claims") {
		t.Errorf("reported is %+v", r)
	}
}

// TestPeers: rows are by measure, with Roost first, and a peer that fails is named and keeps no other one from being measured.
func TestPeers(t *testing.T) {
	o := DefaultOptions()
	o.Dir, o.Rounds, o.Run = t.TempDir(), 3, regexp.MustCompile("^remote-asks$")
	o.Roost = []string{os.Args[0], asProgram, "Roost"}
	o.Peers = [][]string{{os.Args[0], failing}, {os.Args[0], asProgram, "other"}}
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range r.Rows {
		got = append(got, fmt.Sprint(row.Measure, " ", row.Value))
	}
	if want := []string{"1 in flight: Roost 10", "1 in flight: other 10", "64 in flight: Roost 640", "64 in flight: other 640"}; !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
	if len(r.Skipped) != 1 || !strings.HasSuffix(r.Skipped[0], ": it does not work") {
		t.Errorf("not measured: %q", r.Skipped)
	}
	o.Roost[1] = failing
	if _, err := Run(context.Background(), o); err == nil {
		t.Error("Roost's own program fails, and there is a report")
	}
	raw, err := os.ReadFile("../../docs/inside/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range comparisons {
		if !strings.Contains(string(raw), "<!-- "+c.section+": begin, written by make bench-peers -->") {
			t.Errorf("docs/inside/performance.md has no place for %q", c.section)
		}
	}
}

// TestRoostProgram takes the measures that Roost shares with its peers. One takes long by design: volatile entities wait until a
// region has been declared down.
func TestRoostProgram(t *testing.T) {
	bin := testbin.Build(t, "services/coordinator/cmd/coordinator", "services/gateway/cmd/gateway", "e2e/bench/cmd/bench-region")
	for _, name := range PeerNames() {
		if name == "failover" {
			continue
		}
		var out bytes.Buffer
		entities := "10"
		if strings.HasSuffix(name, "tells") {
			entities = "1000" // with fewer, regions refuse what the mailbox of an entity has no room for
		}
		if err := RoostProgram().Run(t.Context(), []string{
			"-measure", name, "-callers", "2", "-length", "20ms", "-entities", entities, "-idle", "100", "-dir", t.TempDir(), "-bin", bin,
		}, &out); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(out.String(), `"name":"Roost`) {
			t.Errorf("%s: no figure of Roost: %s", name, out.String())
		}
	}
}
