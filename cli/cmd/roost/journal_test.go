package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/libs/test/testbin"
)

// TestJournalCheck: while a cluster runs, a program whose author has renamed a field
// is found out before it is rolled out, and one with the step is not.
func TestJournalCheck(t *testing.T) {
	binaries(t)
	bin := testbin.Build(t, "examples/shop/cmd/shop-region-v1", "examples/shop/cmd/shop-region-v2", "e2e/cluster/cmd/renamed-region")
	d := startDev(t, t.TempDir(), "--region", filepath.Join(bin, "shop-region-v1"), "--regions", "2", "--gateways", "1")
	add := func(cart string) {
		t.Helper()
		if got, err := post(d.API, "Cart/"+cart+"/Add", `{"sku":"tea","count":1,"price":450}`); err != nil || !strings.Contains(got, `"total":`) {
			t.Fatalf("Add: %s, %v", got, err)
		}
	}
	for range 12 { // with a snapshot after 10
		add("anna")
	}
	add("bert")
	wantPost(t, d.API, "Stock/tea/Receive", `{"count":5}`, `{"count":5}`)
	run := func(code int, args ...string) (out, errOut string) {
		t.Helper()
		got, out, errOut := d.roost(append([]string{"journal", "check"}, args...)...)
		if got != code {
			t.Fatalf("roost journal check %v: exit code %d, want %d\n%s%s", args, got, code, out, errOut)
		}
		return out, errOut
	}
	contains := func(text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%q is missing in\n%s", part, text)
			}
		}
	}

	out, _ := run(app.ExitOK) // with the binary that runs
	contains(out, "this program reads all of it")
	out, _ = run(1, "--region", filepath.Join(bin, "renamed-region"))
	contains(out, "Cart, event item-added of version 1: ", `"SKU"`, "V(2, entity.From(1, …))", "Cart/anna, record 1\n", "Cart/bert, record 1\n",
		"entities that this program cannot read: 2\n", "not checked: type Stock, entities: 1: this program has no such type",
		"type Cart, event item-removed, version 1, ", "the form has changed without a new version\n", "  shards in which none was found, but whose regions may store it; then a region with this program is not given them either: 3\n")
	add("anna") // no client was disturbed
	out, _ = run(app.ExitOK, "--region", filepath.Join(bin, "shop-region-v2"), "-o", "json", "--type", "Cart")
	var report struct {
		Complete bool
		Types    []struct {
			Type                        string
			Entities, Events, Snapshots int
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if c := report.Types; !report.Complete || len(c) != 1 || c[0].Type != "Cart" || c[0].Entities != 2 || c[0].Events != 14 || c[0].Snapshots != 1 {
		t.Errorf("report %s", out)
	}
	out, _ = run(1, "--region", filepath.Join(bin, "renamed-region"), "--sample", "1", "--seed", "3")
	contains(out, "--seed 3\n", "entities that this program cannot read: 1\n")

	// What can be decoded is of no use if the coordinator gives the program no such shard.
	wantPost(t, d.API, "Cart/bert/Remove", `{"sku":"tea"}`, `{"items":{},"total":0}`)
	out, _ = run(1, "--region", filepath.Join(bin, "renamed-region"))
	contains(out, "type Cart, event item-removed, version 1, ", "  fix: keep the struct as it was stored, and declare its successor with V(2, entity.From(1, …))\n  shards in which it is stored, so that a region with this program is not given them: 1\n")

	// Snapshots are dropped while the cluster runs, which continues, and makes the next one.
	drop := func(code int, says string, args ...string) {
		t.Helper()
		got, out, errOut := d.roost(append([]string{"journal", "snapshot", "drop"}, args...)...)
		if got != code || !strings.Contains(out+errOut, says) {
			t.Errorf("roost journal snapshot drop %v: exit code %d, want %d\n%s%s", args, got, code, out, errOut)
		}
	}
	drop(1, "were kept, because this program could not rebuild the entity: 1\n", "Cart", "--region", filepath.Join(bin, "renamed-region"))
	drop(app.ExitOK, "would be dropped: 1\n", "Cart/anna", "--dry-run")
	drop(app.ExitOK, "were dropped: 1\n", "Cart", "--region", filepath.Join(bin, "shop-region-v2"))
	drop(app.ExitOK, "were dropped: 0\n", "Cart")
	drop(app.ExitUnchecked, "nothing is stored of Cart/nobody", "Cart/nobody")
	for range 10 {
		add("anna")
	}
	drop(app.ExitOK, "would be dropped: 1\n", "Cart", "--dry-run")

	// The binary alone, and what keeps either of them from checking.
	cmd := exec.Command(filepath.Join(bin, "shop-region-v2"), "journal", "check", "--journal.url", "sqlite:"+filepath.Join(t.TempDir(), "none.db"))
	var problems strings.Builder
	cmd.Stderr = &problems
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != app.ExitUnchecked {
		t.Errorf("no journal: %v", err)
	}
	contains(problems.String(), "there is no such file")
	for what, args := range map[string][]string{
		"cannot be run":      {"--region", filepath.Join(bin, "nothing")},
		"no such file":       {"--journal.url", "sqlite:none.db"},
		"has no type":        {"--type", "Nothing"},
		"is not known":       {"--journal.url", "mysql://db/x"},
		"unknown flag":       {"--nothing"},
		"not a flag":         {"--region", filepath.Join(bin, "gateway")},
		"it is not a region": {"--region", "/bin/true"},
		"--sample is -1":     {"--sample", "-1"},
		"must be 1 to":       {"--sample", "2000000"},
	} {
		_, errOut := run(app.ExitUnchecked, args...)
		contains(errOut, what)
	}
	if _, err := os.Stat("none.db"); err == nil {
		t.Error("the check has made a file")
	}
}
