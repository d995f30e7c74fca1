package main

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/journal/sqlite"
)

type located struct {
	Shard struct {
		Region, Epoch, Phase string
		Index                int
	}
}

type membership struct {
	Term    uint32
	Members []struct {
		Name, Status string
		Roles        []string
		Reachable    bool
		Shards       int
	}
}

// term is the first half of an epoch, term.counter.
func term(t *testing.T, epoch string) int {
	t.Helper()
	first, _, _ := strings.Cut(epoch, ".")
	n, err := strconv.Atoi(first)
	if err != nil {
		t.Fatalf("epoch %q: %v", epoch, err)
	}
	return n
}

func wantPost(t *testing.T, gateway, path, body, want string) {
	t.Helper()
	if got, err := post(gateway, path, body); err != nil || strings.TrimSpace(got) != want {
		t.Fatalf("%s: %s, %v; want %s", path, got, err, want)
	}
}

func TestDev(t *testing.T) {
	dir, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	d := startDev(t, dir, "--data", data, "--gateways", "2", "--set", "region-2.node.zone=b")
	if len(d.Gateways) != 2 || len(d.Admin) != 2 || len(d.Processes) != 7 || d.Term == 0 || fmt.Sprint(d.Types) != "[Counter]" {
		t.Fatalf("roost dev announced %+v", d.Ready)
	}
	wantPost(t, d.Gateways[0], "Counter/c1/Add", `{"delta":5}`, `{"value":5}`)
	wantPost(t, d.Gateways[1], "Counter/c1/Get", ``, `{"value":5}`)
	if code, out, errOut := d.roost("call", "Counter/c1", "Add", `{"delta":1}`); code != 0 || out != "{\"value\":6}\n" {
		t.Fatalf("roost call: %d %s %s", code, out, errOut)
	}

	var list struct {
		Members []struct{ Name, Zone string }
	}
	d.must(&list, "cluster", "status")
	for _, m := range list.Members {
		if (m.Zone == "b") != (m.Name == "region-2") {
			t.Errorf("%s is in the zone %q", m.Name, m.Zone)
		}
	}
	var home located
	d.must(&home, "shard", "show", "Counter", "c1")
	if home.Shard.Phase != "serving" {
		t.Fatalf("roost shard show: %+v", home)
	}
	owner := home.Shard.Region
	d.must(&map[string]any{}, "dev", "kill", owner)
	wantPost(t, d.Gateways[1], "Counter/c1/Get", ``, `{"value":6}`)
	var moved located
	d.must(&moved, "shard", "show", "Counter/c1")
	if moved.Shard.Region == owner || moved.Shard.Index != home.Shard.Index {
		t.Fatalf("after the kill of %s: %+v", owner, moved)
	}
	if code, _, errOut := d.roost("dev", "kill", owner); code != app.ExitFailed || !strings.Contains(errOut, "not running") {
		t.Errorf("second kill: %d %s", code, errOut)
	}
	d.must(&map[string]any{}, "dev", "start", owner)
	eventually(t, owner+" is a member again", func() error { return d.up(owner) })

	d.drain(moved.Shard.Region)
	d.leaves(moved.Shard.Region)
	d.strangers()
	d.exitCodes()
	if code := d.interrupt(1); code != 0 {
		t.Errorf("Ctrl-C: exit code %d\n%s", code, d.err)
	}

	again := startDev(t, dir, "--data", data)
	wantPost(t, again.API, "Counter/c1/Get", ``, `{"value":6}`)
	if again.Term <= d.Term {
		t.Errorf("the term went from %d to %d", d.Term, again.Term)
	}
	var home2 located
	again.must(&home2, "shard", "show", "Counter", "c1")
	if term(t, home2.Shard.Epoch) <= 0 || term(t, home2.Shard.Epoch) < term(t, moved.Shard.Epoch) {
		t.Errorf("the epoch went from %s to %s", moved.Shard.Epoch, home2.Shard.Epoch)
	}
	if code := again.interrupt(2); code != 0 && code != app.ExitInterrupted {
		t.Errorf("two Ctrl-C: exit code %d", code)
	}
}

// up returns the reason why a region is not a member that is up.
func (d *devRun) up(region string) error {
	var m membership
	d.must(&m, "cluster", "status")
	for _, member := range m.Members {
		if member.Name == region && member.Status == "up" && member.Reachable {
			return nil
		}
	}
	return fmt.Errorf("members: %+v", m.Members)
}

// drain moves everything off a region that has the entity c1.
func (d *devRun) drain(region string) {
	d.t.Helper()
	d.must(&map[string]any{}, "region", "drain", region)
	var home located
	d.must(&home, "shard", "show", "Counter", "c1")
	if home.Shard.Region == region {
		d.t.Errorf("after the drain of %s: %+v", region, home)
	}
	var left struct{ Shards []any }
	d.must(&left, "shard", "ls", "--region", region)
	if len(left.Shards) != 0 {
		d.t.Errorf("after the drain %s has %v", region, left.Shards)
	}
	wantPost(d.t, d.API, "Counter/c1/Get", ``, `{"value":6}`)
	d.must(&map[string]any{}, "region", "drain", region, "--undo")
}

// leaves makes a region leave: that is not a death.
func (d *devRun) leaves(region string) {
	d.t.Helper()
	d.must(&map[string]any{}, "cluster", "leave", region)
	eventually(d.t, region+" is stopped", func() error {
		var list []cluster.Process
		d.must(&list, "dev", "ps")
		for _, p := range list {
			if p.Name == region && p.State != cluster.Stopped {
				return fmt.Errorf("roost dev ps says %s", p.State)
			}
		}
		return nil
	})
	if said := d.err.String(); !strings.Contains(said, region+" stopped") || strings.Contains(said, "died") {
		d.t.Errorf("after %s has left, roost dev says:\n%s", region, said)
	}
	d.must(&map[string]any{}, "dev", "start", region)
}

// strangers queries the wrong processes; each reports its kind.
func (d *devRun) strangers() {
	d.t.Helper()
	at := map[string]cluster.Process{}
	for _, p := range d.Processes {
		at[p.Role] = p
	}
	for _, test := range []struct {
		says string
		args []string
	}{
		{"that is the public API of a gateway", []string{"cluster", "status", "--admin", d.API}},
		{"that is the public API of a gateway", []string{"cluster", "events", "--admin", d.API}},
		{"that is the management listener of a gateway", []string{"shard", "ls", "--admin", at[cluster.Gateway].Management}},
		{"that is the management listener of a region", []string{"cluster", "status", "--admin", at[cluster.Region].Management}},
		{"that is the service listener of a region", []string{"cluster", "status", "--admin", at[cluster.Region].Service}},
		{"that is the service listener of a coordinator", []string{"cluster", "leave", "region-1", "--admin", at[cluster.Coordinator].Service}},
		{"that is the management listener of a coordinator", []string{"call", "Counter/c1", "Get", "--gateway", d.Admin[0]}},
	} {
		if code, _, errOut := d.roost(test.args...); code != app.ExitUsage || !strings.Contains(errOut, test.says) {
			d.t.Errorf("roost %s: exit code %d; it said: %s", strings.Join(test.args, " "), code, errOut)
		}
	}
}

// Mistakes are refused as such before anything is started or asked.
func TestUsage(t *testing.T) {
	d := &devRun{t: t, bin: binaries(t), dir: t.TempDir()}
	for _, test := range []struct {
		says string
		args []string
	}{
		{"usage: roost entity explain TYPE/ID", []string{"entity", "explain"}},
		{"is not the name of an entity", []string{"shard", "show", "", ""}},
		{"is not the name of an entity", []string{"shard", "show", "Counter", ""}},
		{"is not the name of an entity", []string{"call", "Counter/", "Get"}},
		{"bad name: type", []string{"shard", "show", "Coun ter", "x"}},
		{"control character", []string{"call", "Counter/a\nb", "Get"}},
		{"the command", []string{"call", "Counter/a", "Ge t"}},
		{"--timeout is 0s", []string{"call", "Counter/a", "Get", "--timeout", "0s"}},
		{"--idempotency-key is empty", []string{"call", "Counter/a", "Get", "--idempotency-key", ""}},
		{"the name is empty", []string{"region", "drain", ""}},
		{"the name is empty", []string{"cluster", "leave", " "}},
		{"the name is empty", []string{"cluster", "down", ""}},
		{"the name is empty", []string{"cluster", "down", "--force", ""}},
		{"the name is empty", []string{"dev", "kill", ""}},
		{"usage: roost dev stop NAME", []string{"dev", "stop"}},
		{"from 1 to 9", []string{"dev", "--coordinators", "0"}},
		{"random or fixed", []string{"dev", "--ports", "weird"}},
		{`log level "loud": write debug`, []string{"dev", "--ports", "random", "--log.level", "loud"}},
	} {
		if code, _, errOut := d.roost(test.args...); code != app.ExitUsage || !strings.Contains(errOut, test.says) {
			t.Errorf("roost %q: exit code %d; it said: %s", test.args, code, errOut)
		}
	}
	if code, _, errOut := d.roost("dev", "--ports", "random", "--data", "/dev/null/x"); code != app.ExitFailed || !strings.Contains(errOut, "directory /dev/null/x cannot be used") {
		t.Errorf("an impossible --data: exit code %d; it said: %s", code, errOut)
	}
	// Another program is not taken for a cluster either.
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusNotImplemented) }))
	defer stranger.Close()
	for _, command := range []string{"status", "events"} {
		if code, _, errOut := d.roost("cluster", command, "--admin", stranger.URL); code != app.ExitUsage || !strings.Contains(errOut, "another service answers there") {
			t.Errorf("roost cluster %s of a web server: exit code %d; it said: %s", command, code, errOut)
		}
	}
}

func TestVersion(t *testing.T) {
	d := &devRun{t: t, bin: binaries(t), dir: t.TempDir()}
	code, out, errOut := d.roost("--version")
	if _, short, _ := d.roost("-v"); code != 0 || !strings.HasPrefix(out, "roost ") || out != short {
		t.Errorf("roost --version: %d %q %q; roost -v: %q", code, out, errOut, short)
	}
	var v struct{ Go string }
	if d.must(&v, "--version"); v.Go == "" {
		t.Errorf("roost --version -o json: %+v", v)
	}
}

func (d *devRun) exitCodes() {
	d.t.Helper()
	for _, test := range []struct {
		code int
		args []string
		says string
	}{
		{app.ExitOK, []string{"cluster", "status"}, ""},
		{app.ExitOK, []string{"shard", "ls", "--type", "Counter"}, ""},
		{app.ExitOK, []string{"dev", "ps"}, ""},
		{app.ExitNotFound, []string{"shard", "show", "Nothing", "x"}, "no entity type Nothing"},
		{app.ExitNotFound, []string{"shard", "ls", "--region", "region-77"}, "no region region-77"},
		{app.ExitNotFound, []string{"region", "drain", "region-77"}, "no region region-77"},
		{app.ExitNotFound, []string{"dev", "kill", "region-77"}, "region-77"},
		{app.ExitNotFound, []string{"call", "Nothing/x", "Get"}, "not_found"},
		{app.ExitFailed, []string{"call", "Counter/x", "Jump"}, "unimplemented"},
		{app.ExitFailed, []string{"call", "Counter/x", "Add", `{"delta":0}`}, "delta must not be 0"},
		{app.ExitFailed, []string{"dev", "--dir", d.dir}, "running already"},
	} {
		code, _, errOut := d.roost(test.args...)
		if code != test.code || !strings.Contains(errOut, test.says) {
			d.t.Errorf("roost %s: exit code %d, want %d; it said: %s", strings.Join(test.args, " "), code, test.code, errOut)
		}
	}
}

func TestDevKilled(t *testing.T) {
	dir := t.TempDir()
	d := startDev(t, dir, "--regions", "1", "--gateways", "1", "--coordinators", "1")
	left, _ := filepath.Glob(filepath.Join(dir, "tmp-*"))
	if len(left) != 1 {
		t.Errorf("data directories: %v", left)
	}
	if err := d.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = d.cmd.Wait()
	d.nobodyLeft()
	if code, _, errOut := d.roost("cluster", "status"); code != app.ExitUnreachable {
		t.Errorf("roost cluster status without a cluster: %d %s", code, errOut)
	}
	if code, _, errOut := d.roost("call", "Counter/c1", "Get", "--timeout", "200ms"); code != app.ExitUnreachable {
		t.Errorf("roost call without a cluster: %d %s", code, errOut)
	}

	// A signal in the middle of a start ends what has started.
	half := &devRun{t: t, bin: d.bin, dir: dir, err: &lockedBuffer{}}
	half.cmd = exec.Command(filepath.Join(d.bin, "roost"), "dev", "--dir", dir, "--ports", "random")
	half.cmd.Stderr = half.err
	if err := half.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(half.cleanUp)
	eventually(t, "a process of the next cluster", func() error {
		state, err := cluster.ReadState(filepath.Join(dir, "cluster.json"))
		if err == nil && state.PID != half.cmd.Process.Pid {
			return fmt.Errorf("the state is of %d", state.PID)
		} else if err == nil {
			half.Processes = state.Processes
		}
		return err
	})
	if code := half.interrupt(1); code != app.ExitInterrupted || half.err.String() != "" {
		t.Errorf("Ctrl-C in the middle of a start: exit code %d\n%s", code, half.err)
	}

	// The next start removes what the killed one left, and its own at the end.
	again := startDev(t, dir, "--regions", "1", "--gateways", "1", "--coordinators", "1")
	if code := again.interrupt(1); code != 0 {
		t.Errorf("Ctrl-C: exit code %d\n%s", code, again.err)
	}
	if left, _ = filepath.Glob(filepath.Join(dir, "tmp-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := os.Stat(filepath.Join(dir, "cluster.json")); err == nil {
		t.Error("cluster.json is left behind")
	}
}

func TestDevRefuses(t *testing.T) {
	d := &devRun{t: t, bin: binaries(t), dir: t.TempDir()}
	for _, of := range []string{"region-9=v2", "gateway-1=v2", "region-1=v\u202e2"} {
		if code, _, errOut := d.roost("dev", "--ports", "random", "--app.version", of); code != app.ExitUsage || !strings.Contains(errOut, "--app.version") {
			t.Errorf("--app.version %s: exit code %d, %s", of, code, errOut)
		}
	}
	for set, want := range map[string]string{
		"region-9.node.zone=a":  `this cluster has no process "region-9"`,
		"region-01.node.zone=a": `this cluster has no process "region-01"`,
		"node.zone=a":           `this cluster has no process "node"`,
		"region-1":              "write PROCESS.KEY=VALUE",
		"region-1.node.zone":    "write PROCESS.KEY=VALUE",
	} {
		if code, _, errOut := d.roost("dev", "--ports", "random", "--set", set); code != app.ExitUsage || !strings.Contains(errOut, "--set "+set+": "+want) {
			t.Errorf("--set %s: exit code %d, %s", set, code, errOut)
		}
	}
	if code, _, errOut := d.roost("dev", "--ports", "random", "--set", "region-2.tls.cert=r.pem"); code != app.ExitUsage || !strings.Contains(errOut, "use --tls") {
		t.Errorf("--set of a certificate: exit code %d, %s", code, errOut)
	}
	code, _, errOut := d.roost("dev", "--ports", "random", "--set", "region-2.node.zon=a")
	if code != app.ExitFailed || !strings.Contains(errOut, "node.zon") {
		t.Errorf("a key that no region has: %d %s", code, errOut)
	}
	code, _, errOut = d.roost("dev", "--ports", "random", "--regions", "0")
	if code != app.ExitUsage || !strings.Contains(errOut, "at least one region") {
		t.Errorf("without regions: %d %s", code, errOut)
	}
	code, _, errOut = d.roost("dev", "--ports", "random", "--region", "./nothing")
	if code != app.ExitFailed || !strings.Contains(errOut, "nothing") {
		t.Errorf("with a region binary that is missing: %d %s", code, errOut)
	}
	code, _, errOut = d.roost("dev", "--ports", "random", "--bin", t.TempDir())
	if code != app.ExitFailed || !strings.Contains(errOut, "make build") {
		t.Errorf("without binaries: %d %s", code, errOut)
	}
	unlock, err := cluster.Lock(filepath.Join(d.dir, "dev.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if code, _, errOut = d.roost("dev"); code != app.ExitFailed || !strings.Contains(errOut, "running already") {
		t.Errorf("with another dev cluster: %d %s", code, errOut)
	}
}

// TestDevWarns: if the facts of the coordinators are damaged, roost dev says so and what to do, while it waits.
func TestDevWarns(t *testing.T) {
	dir, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	args := []string{"--data", data, "--regions", "1", "--gateways", "1", "--coordinators", "1"}
	d := startDev(t, dir, args...)
	if code := d.interrupt(1); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	damageFacts(t, filepath.Join(data, "journal.db"))

	again := &devRun{t: t, bin: d.bin, dir: dir, err: &lockedBuffer{}}
	again.cmd = exec.Command(filepath.Join(d.bin, "roost"), append([]string{"dev", "--dir", dir, "--ports", "random"}, args...)...)
	again.cmd.Stderr = again.err
	if err := again.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.cleanUp)
	eventually(t, "a warning of the coordinator", func() error {
		if said := again.err.String(); !strings.Contains(said, "coordinator-1 warns: journal: ") || !strings.Contains(said, "roost journal check --facts") || !strings.Contains(said, "roost journal repair facts") {
			return fmt.Errorf("roost dev said %s", said)
		}
		return nil
	})
	again.interrupt(1)
}

// damageFacts damages the last record of the coordinators' facts.
func damageFacts(t *testing.T, journal string) {
	t.Helper()
	if err := sqlite.RegisterVFS(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+journal+"?vfs="+sqlite.VFS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	r, err := db.ExecContext(t.Context(), `UPDATE record SET body = CAST(CASE substr(body, 1, 1) WHEN x'00' THEN x'ff' ELSE x'00' END || substr(body, 2) AS BLOB) WHERE (entity, seq) = (
		SELECT entity, max(seq) FROM record WHERE entity = (SELECT id FROM entity WHERE type = ? AND name = CAST(? AS TEXT)))`,
		string(wire.FactsEntity.Type), string(wire.FactsEntity.ID))
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := r.RowsAffected(); n != 1 {
		t.Fatalf("%d records are damaged", n)
	}
}
