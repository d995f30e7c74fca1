package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/carttest"
	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/factstream"
	"github.com/roost-cluster/roost/libs/journal"
	journalopen "github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/sharding"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
)

// TestRepair damages an entity, and repairs it: what is lost is said before, and kept, and each mistake is refused
// before anything is changed.
func TestRepair(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	t.Setenv("ROOST_JOURNAL_URL", "sqlite:"+in("j.db"))
	t.Setenv("ROOST_ADMIN", "")
	carttest.Store(t, "sqlite:"+in("j.db"))
	at := []string{"--dir", in("none")}
	try := func(code int, args []string, says ...string) string {
		t.Helper()
		var out, errOut bytes.Buffer
		if got := run(t.Context(), append(args, at...), &out, &errOut); got != code {
			t.Fatalf("roost %v: exit code %d, want %d\n%s%s", args, got, code, &out, &errOut)
		}
		for _, s := range says {
			if !strings.Contains(out.String()+errOut.String(), s) {
				t.Errorf("roost %v does not say %q:\n%s%s", args, s, &out, &errOut)
			}
		}
		return out.String()
	}
	try(app.ExitOK, []string{"journal", "repair", "find"}, "0 of 1 entity are damaged")
	try(app.ExitOK, []string{"journal", "repair", "ls"}, "nothing was repaired")
	try(app.ExitOK, []string{"journal", "repair", "record", "Cart/dora"}, "Nothing is damaged.")
	carttest.Damage(t, in("j.db"))
	try(app.ExitFailed, []string{"journal", "repair", "find"}, "Cart/dora", "no", "record 3 does not match its checksum")
	try(app.ExitOK, []string{"journal", "repair", "record", "Cart/dora"}, "it cannot be loaded", "roost journal repair record Cart/dora --back-to 2", "roost journal repair record Cart/dora --skip 3", "roost journal restore FILE")
	try(app.ExitUsage, []string{"journal", "repair", "ls", "--limit", "0"}, "--limit is 0")
	try(app.ExitUsage, []string{"journal", "repair", "facts"}, "--reason is missing")
	try(app.ExitUsage, []string{"journal", "repair", "facts", "--all"}, "--reason is missing")
	try(app.ExitUsage, []string{"journal", "repair", "facts", "--reason", "a\nb"}, "--reason", "control character")
	try(app.ExitUsage, []string{"journal", "repair", "facts", "--reason", strings.Repeat("x", journal.MaxReason+1)}, "--reason")
	try(app.ExitUsage, []string{"journal", "repair", "record", "Cart"}, "TYPE/ID")
	try(app.ExitUsage, []string{"journal", "repair", "record", "Cart/dora", "--back-to", "2"}, "--reason")
	try(app.ExitUsage, []string{"journal", "repair", "record", "Cart/dora", "--back-to", "2", "--skip", "3"}, "--back-to and --skip")
	try(app.ExitUsage, []string{"journal", "repair", "record", "Cart/dora", "--back-to=-2", "--reason", "x"}, "--back-to is -2")
	try(app.ExitUsage, []string{"journal", "repair", "record", "Cart/dora", "--back-to", "2", "--reason", "x"}, "--out")
	try(app.ExitUsage, []string{"journal", "repair", "record", "Cart/dora", "--back-to", "2", "--reason", "x", "--out", in("j.db")}, "exists already")
	try(app.ExitFailed, []string{"journal", "repair", "record", "Cart/dora", "--back-to", "3", "--reason", "x", "--out", in("a")}, "--back-to 2")
	try(app.ExitFailed, []string{"journal", "repair", "record", "Cart/dora", "--skip", "3", "--shard", "1", "--reason", "x", "--out", in("a")}, "--shard")
	try(app.ExitFailed, []string{"journal", "repair", "snapshot", "Cart/dora", "--reason", "x", "--out", in("a")}, "no snapshot")
	if _, err := os.Stat(in("a")); err == nil {
		t.Error("a repair that was refused has left a file")
	}
	try(app.ExitOK, []string{"journal", "repair", "record", "Cart/dora", "--back-to", "2", "--dry-run"}, "Nothing was changed", "set aside   2 records", "item-added", "nothing of it is damaged")
	try(app.ExitOK, []string{"journal", "repair", "ls"}, "nothing was repaired")
	try(app.ExitOK, []string{"journal", "repair", "record", "Cart/dora", "--back-to", "2", "--reason", "ticket 4711", "--out", in("aside")}, "is repaired", "kept in     "+in("aside"), "is served again when its region notices")
	checkAside(t, in("aside"))
	content, err := os.ReadFile(in("aside"))
	if err != nil {
		t.Fatal(err)
	}
	try(app.ExitOK, []string{"journal", "repair", "ls"}, "Cart/dora", "went back to record 2", "ticket 4711", in("aside"))
	try(app.ExitOK, []string{"journal", "repair", "ls", "-o", "json"}, fmt.Sprintf("%x", sha256.Sum256(content)))
	storeFactRepair(t, in("j.db"))
	list := try(app.ExitOK, []string{"journal", "repair", "ls"}, "Cart/dora", "roost.coordinator/facts", "repaired the facts, 2 things damaged", "bad disk", "ops@host")
	if strings.Index(list, "roost.coordinator/facts") > strings.Index(list, "Cart/dora") {
		t.Errorf("the newest repair is not the first:\n%s", list)
	}
	if list := try(app.ExitOK, []string{"journal", "repair", "ls", "--limit", "1"}, "bad disk"); strings.Contains(list, "Cart/dora") {
		t.Errorf("with --limit 1:\n%s", list)
	}
	try(app.ExitFailed, []string{"entity", "reminders", "drop", "Cart/dora", "pray", "--reason", "cancelled", "--journal.url", "sqlite:" + in("j.db")}, "Cart/dora has no reminder pray; it has pay")
	try(app.ExitOK, []string{"entity", "reminders", "drop", "Cart/dora", "pay", "--dry-run", "--journal.url", "sqlite:" + in("j.db")}, "Nothing was changed")
	try(app.ExitOK, []string{"entity", "reminders", "drop", "Cart/dora", "pay", "--reason", "cancelled", "--journal.url", "sqlite:" + in("j.db")}, "it has no reminder pay any more")
	try(app.ExitFailed, []string{"entity", "reminders", "drop", "Cart/dora", "pay", "--reason", "cancelled", "--journal.url", "sqlite:" + in("j.db")}, "has no reminder")
	try(app.ExitOK, []string{"journal", "repair", "record", "Cart/dora", "--delete", "--reason", "gone"}, "it is deleted")
	try(app.ExitOK, []string{"journal", "repair", "find"}, "0 of 1 entity are damaged")
	damageFacts(t, in("j.db"))
	try(app.ExitOK, []string{"journal", "repair", "ls", "--limit", "3"}, "Cart/dora", "went back to record 2")
}

// checkAside checks the file with what was set aside.
func checkAside(t *testing.T, file string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	type asideLine struct {
		Reason, Problem string
		Seq             uint64
		Command         string `json:"idempotency_key"`
		Events          []struct{ JSON json.RawMessage }
		Body            []byte
	}
	var lines []asideLine
	for d := json.NewDecoder(bytes.NewReader(content)); d.More(); {
		var l asideLine
		if err := d.Decode(&l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	if len(lines) != 3 || lines[0].Reason != "ticket 4711" || lines[1].Seq != 3 || lines[1].Problem == "" || len(lines[1].Body) == 0 || lines[2].Seq != 4 || string(lines[2].Events[0].JSON) != `{"sku":"tea"}` || lines[2].Command != "k4" {
		t.Errorf("what was set aside: %s", content)
	}
}

// storeFactRepair stores that the coordinators' facts were repaired in an hour.
func storeFactRepair(t *testing.T, file string) {
	t.Helper()
	d, err := journalopen.Open(t.Context(), "sqlite:"+file, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	b, err := proto.Marshal(&coordinatorv1.RepairedFact{
		Note: &coordinatorv1.Note{AtUnixMs: time.Now().Add(time.Hour).UnixMilli(), By: "ops@host", Reason: "bad disk"}, Damaged: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	shard, at := sharding.ShardID{Type: wire.FactsEntity.Type}, sharding.MakeEpoch(1, 0)
	for _, op := range []journal.Op{
		{Claim: &sharding.Claim{Shard: shard, Epoch: at, Owner: 5}},
		{Append: &sharding.Append{Shard: shard, Epoch: at, Entity: wire.FactsEntity, Records: []sharding.Record{
			{Seq: 1, Events: []sharding.Event{{Name: factstream.RepairedName, Encoding: sharding.Protobuf, Payload: b}}},
		}}},
	} {
		if r, err := d.Commit(t.Context(), []journal.Op{op}); err != nil || r[0].Verdict != sharding.Durable {
			t.Fatalf("%s: %v, %v", op.Kind(), r, err)
		}
	}
}
