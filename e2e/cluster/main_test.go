package cluster

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"testing"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/libs/test/testbin"
)

// binaries returns the directory of the binaries.
func binaries(t *testing.T) string {
	t.Helper()
	return testbin.Build(t, "services/coordinator/cmd/coordinator", "services/region/cmd/region", "services/gateway/cmd/gateway",
		"cli/cmd/roost", "e2e/cluster/cmd/list-region", "e2e/cluster/cmd/list-region-v2", "e2e/cluster/cmd/pair-region")
}

func TestMain(m *testing.M) {
	if err := checkSet(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(failIfNothingRan(m.Run()))
}

// ran is set when a scenario runs, or is skipped for what this machine lacks.
var ran atomic.Bool

// failIfNothingRan turns a success into a failure if scenarios were asked for and none
// matched: such a run proves nothing.
func failIfNothingRan(code int) int {
	set := os.Getenv("E2E")
	if code != 0 || set == "" || ran.Load() {
		return code
	}
	fmt.Fprintf(os.Stderr, "no scenario of the %s set matches %s (make e2e RUN=…): nothing was run\n", set, flag.Lookup("test.run").Value)
	return 1
}

// checkSet refuses an unknown set of scenarios.
func checkSet() error {
	switch set := os.Getenv("E2E"); set {
	case "", "full", "short":
		return nil
	default:
		return fmt.Errorf("E2E (make e2e SET=…) is %q; choose full or short", set)
	}
}

// start runs a cluster until the test ends. Its logs are shown if the test fails.
func start(t *testing.T, o launcher.Options) *launcher.Cluster {
	t.Helper()
	o.BinDir = cmp.Or(o.BinDir, binaries(t))
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	c, err := launcher.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*waitLimit)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("closing the cluster: %v", err)
		}
		if t.Failed() {
			showLogs(t, o.Dir)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*waitLimit)
	defer cancel()
	if err := c.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

// report matches the last metrics of a process, which are left out of the logs shown.
var report = regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(reportBegins) + `.*\n`)

func showLogs(t *testing.T, dir string) {
	logs, _ := filepath.Glob(filepath.Join(dir, "logs", "*.log"))
	for _, l := range logs {
		raw, _ := os.ReadFile(l)
		raw = report.ReplaceAll(raw, nil)
		if len(raw) > 4000 {
			raw = raw[len(raw)-4000:]
		}
		t.Logf("%s:\n%s", filepath.Base(l), raw)
	}
}
