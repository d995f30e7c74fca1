package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/roost-cluster/roost/e2e/bench/baseline"
	"github.com/roost-cluster/roost/e2e/bench/report"
	"github.com/roost-cluster/roost/libs/testbin"
)

// asBaselines makes the test binary serve the baselines.
const asBaselines = "ROOST_BENCH_BASELINES"

func TestMain(m *testing.M) {
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
	raw, err := os.ReadFile("../../docs/performance.md")
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
