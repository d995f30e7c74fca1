package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/libs/test/testbin"
)

// TestUpgrades: a running cluster is upgraded to the next release, process by process
// and in every order, goes back, is upgraded again, and then activated. The history of the
// clients is correct, and none of their commands fails. The next release is this one with a made-up
// format (build tag nextformat).
func TestUpgrades(t *testing.T) {
	if os.Getenv("UPGRADE") == "" {
		t.Skip("takes minutes: make e2e-upgrade")
	}
	earlier, next := binaries(t), testbin.BuildNext(t, append([]string{"cli/cmd/roost"}, upgradable...)...)
	var scenarios []scenario
	for _, order := range [][]string{
		{launcher.Coordinator, launcher.Region, launcher.Gateway},
		{launcher.Region, launcher.Gateway, launcher.Coordinator},
		{launcher.Gateway, launcher.Coordinator, launcher.Region},
	} {
		scenarios = append(scenarios, scenario{
			name: order[0] + "-first", length: 10 * time.Second, short: []string{onSQLite},
			prepare: func(r *run, o *launcher.Options) { runRelease(r, o, earlier) },
			faults:  func(r *run) { upgrade(r, earlier, next, order) },
			check:   func(r *run) { nothingUnknown(r); storedInBothFormats(r) },
		})
	}
	runScenarios(t, scenarios)
}

// upgradable are the programs of a cluster of the history tests.
var upgradable = []string{"services/coordinator/cmd/coordinator", "services/gateway/cmd/gateway", "services/region/cmd/region", "e2e/cluster/cmd/list-region"}

// programs are their binaries by role.
var programs = map[string]string{launcher.Coordinator: "coordinator", launcher.Gateway: "gateway", launcher.Region: version1}

// runRelease starts a cluster of a release.
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

// upgrade expands the journal, installs the next release role by role, and restarts the
// processes one after the other. Then one process of each role goes back to the earlier release and forward again,
// and then all go back. In the end all run the next release again, and the journal is activated
// for it, after which one process of each role that opens the journal is restarted.
func upgrade(r *run, earlier, now string, order []string) {
	r.wait(time.Second)
	r.changeJournal(now)
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
	if got := r.formats(); got != "1" {
		r.Errorf("before the activation, the records have the formats %s", got)
	}
	r.changeJournal(now, "--finalize")
	for _, role := range order {
		if role != launcher.Gateway { // gateways have no journal
			r.replaceRole(role, now, role+"-1")
		}
	}
	r.figure("%s, back, and again; activated", strings.Join(order, ", "))
}

// formats lists the formats of the records that are stored, as the made-up format has them.
func (r *run) formats() string {
	r.Helper()
	rows, err := r.db.QueryContext(r.Context(), "SELECT DISTINCT format FROM record ORDER BY format")
	r.must(err)
	defer rows.Close()
	var all []string
	for rows.Next() {
		var one string
		r.must(rows.Scan(&one))
		all = append(all, one)
	}
	r.must(rows.Err())
	return strings.Join(all, ",")
}

// storedInBothFormats: clients have written before the activation and after it.
func storedInBothFormats(r *run) {
	if got := r.formats(); got != "1,2" && len(r.void) == 0 {
		r.Errorf("after the activation, the records have the formats %s, want 1,2", got)
	}
}

// changeJournal upgrades the journal with the command of the next release, or finalizes that, while processes use
// it, and again, when there is nothing left to do.
func (r *run) changeJournal(dir string, flags ...string) {
	r.Helper()
	for _, want := range []string{"", "nothing to do"} {
		out, err := exec.CommandContext(r.Context(), filepath.Join(dir, "roost"), append([]string{"journal", "upgrade", "--journal.url=" + r.journalURL}, flags...)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			r.Fatalf("roost journal upgrade %v: %v\n%s", flags, err, out)
		}
		r.Logf("roost journal upgrade %v: %s", flags, strings.TrimSpace(string(out)))
	}
}

// replaceRole restarts the processes of a role, or one of them, with a release's program.
func (r *run) replaceRole(role, dir, only string) {
	r.Helper()
	r.install(dir, programs[role])
	for _, p := range r.cluster.Processes() {
		if p.Role == role && (only == "" || p.Name == only) {
			r.must(r.cluster.Restart(r.Context(), p.Name))
			r.must(r.cluster.Ready(r.Context(), p.Name))
			r.wait(500 * time.Millisecond)
		}
	}
}
