package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/cluster/history"
	"github.com/roost-cluster/roost/libs/testbin"
)

// TestUpgrades: a running cluster is upgraded from an earlier release, process by process
// and in every order, goes back, is upgraded again, and then activated. The history of the
// clients is correct, and none of their commands fails.
func TestUpgrades(t *testing.T) {
	revision := os.Getenv("UPGRADE_FROM")
	if revision == "" {
		t.Skip("takes minutes: make e2e-upgrade")
	}
	earlier := testbin.BuildRevision(t, revision, upgradable...)
	var scenarios []scenario
	for _, order := range [][]string{
		{launcher.Coordinator, launcher.Region, launcher.Gateway},
		{launcher.Region, launcher.Gateway, launcher.Coordinator},
		{launcher.Gateway, launcher.Coordinator, launcher.Region},
	} {
		scenarios = append(scenarios, scenario{
			name: order[0] + "-first", length: 10 * time.Second, short: []string{onSQLite},
			prepare: func(r *run, o *launcher.Options) { runRelease(r, o, earlier) },
			faults:  func(r *run) { upgrade(r, earlier, order) },
			check:   nothingUnknownButByEarlierGateways,
		})
	}
	runScenarios(t, scenarios)
}

// upgradable are the programs of a cluster of the history tests.
var upgradable = []string{"services/coordinator/cmd/coordinator", "services/gateway/cmd/gateway", "services/region/cmd/region", "e2e/cluster/cmd/list-region"}

// programs are their binaries by role.
var programs = map[string]string{launcher.Coordinator: "coordinator", launcher.Gateway: "gateway", launcher.Region: version1}

// runRelease starts a cluster of an earlier release.
func runRelease(r *run, o *launcher.Options, dir string) {
	o.BinDir = filepath.Join(r.dir, "release")
	r.must(os.MkdirAll(o.BinDir, 0o777))
	for _, p := range upgradable {
		r.install(dir, filepath.Base(p))
	}
	o.RegionBinary = filepath.Join(o.BinDir, programs[launcher.Region])
}

// install makes processes that start from now on run a program of a release.
func (r *run) install(dir, program string) {
	r.Helper()
	link := filepath.Join(r.dir, "release", program)
	r.must(os.RemoveAll(link))
	r.must(os.Symlink(filepath.Join(dir, program), link))
}

// upgrade expands the journal, installs this release role by role, and restarts the
// processes one after the other. Then one process of each role goes back to the earlier release and forward again,
// and then all go back. In the end all run this release again, and the journal is activated
// for it, after which one process of each role that opens the journal is restarted.
func upgrade(r *run, earlier string, order []string) {
	now := binaries(r.T)
	r.wait(time.Second)
	r.changeJournal(now, "upgrade")
	for _, role := range order {
		r.replaceRole(role, now, "")
	}
	for _, role := range order {
		r.replaceRole(role, earlier, role+"-1")
		r.replaceRole(role, now, role+"-1")
	}
	for _, role := range order {
		r.replaceRole(role, earlier, "")
	}
	for _, role := range order {
		r.replaceRole(role, now, "")
	}
	r.changeJournal(now, "activate")
	for _, role := range order {
		if role != launcher.Gateway { // gateways have no journal
			r.replaceRole(role, now, role+"-1")
		}
	}
	r.figure("%s, back, and again; activated", strings.Join(order, ", "))
}

// nothingUnknownButByEarlierGateways: no process of this release leaves an operation in doubt when it stops. A gateway of
// release 1 resets connections that it has not accepted yet when it stops; what came on them is in doubt.
func nothingUnknownButByEarlierGateways(r *run) {
	excused := 0
	for _, o := range r.load.Ops() {
		if o.Outcome == history.Unknown && slices.ContainsFunc(r.earlierStops, func(s [2]time.Duration) bool { return o.Call >= s[0] && o.Call <= s[1] }) {
			excused++
		}
	}
	if r.unknown > excused && len(r.void) == 0 {
		r.Errorf("%d operations of unknown outcome, %d of them while a gateway of the earlier release stopped; attempts failed for %v", r.unknown, excused, r.load.Reasons)
	}
	if excused > 0 {
		r.Logf("%d operations are in doubt since a gateway of the earlier release stopped", excused)
	}
}

// changeJournal runs a command of this release that changes the journal, while processes use
// it, and again, when there is nothing left to do. If the release has the format of the earlier
// one, that is so from the beginning.
func (r *run) changeJournal(dir, command string) {
	r.Helper()
	for _, want := range []string{"", "nothing to do"} {
		out, err := exec.CommandContext(r.Context(), filepath.Join(dir, "roost"), "journal", command, "--journal.url="+r.journalURL).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			r.Fatalf("roost journal %s: %v\n%s", command, err, out)
		}
		r.Logf("roost journal %s: %s", command, strings.TrimSpace(string(out)))
	}
}

// replaceRole restarts the processes of a role, or one of them, with a release's program.
func (r *run) replaceRole(role, dir, only string) {
	r.Helper()
	r.install(dir, programs[role])
	for _, p := range r.cluster.Processes() {
		if p.Role == role && (only == "" || p.Name == only) {
			began, ran := r.load.Now(), r.runs[p.Name]
			r.must(r.cluster.Restart(r.Context(), p.Name))
			r.must(r.cluster.Ready(r.Context(), p.Name))
			if role == launcher.Gateway && ran != binaries(r.T) {
				r.earlierStops = append(r.earlierStops, [2]time.Duration{began, r.load.Now()})
			}
			if r.runs == nil {
				r.runs = map[string]string{}
			}
			r.runs[p.Name] = dir
			r.wait(500 * time.Millisecond)
		}
	}
}
