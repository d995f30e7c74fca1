package main

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/factstream"
	"github.com/roost-cluster/roost/libs/journal"
	journalopen "github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/journal/sqlite"
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
	storeCart(t, "sqlite:"+in("j.db"))
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
	try(exitOK, []string{"repair", "find"}, "0 of 1 entity are damaged")
	try(exitOK, []string{"repair", "list"}, "nothing was repaired")
	try(exitOK, []string{"repair", "record", "Cart/dora"}, "Nothing is damaged.")
	damageBody(t, in("j.db"))
	try(exitFailed, []string{"repair", "find"}, "Cart/dora", "no", "record 3 does not match its checksum")
	try(exitOK, []string{"repair", "record", "Cart/dora"}, "it cannot be loaded", "roost repair record Cart/dora --back-to 2", "roost repair record Cart/dora --skip 3", "roost restore FILE")
	try(exitUsage, []string{"repair", "list", "--limit", "0"}, "--limit is 0")
	try(exitUsage, []string{"repair", "facts"}, "--reason is missing")
	try(exitUsage, []string{"repair", "facts", "--all"}, "--reason is missing")
	try(exitUsage, []string{"repair", "facts", "--reason", "a\nb"}, "--reason", "control character")
	try(exitUsage, []string{"repair", "facts", "--reason", strings.Repeat("x", journal.MaxReason+1)}, "--reason")
	try(exitUsage, []string{"repair", "record", "Cart"}, "TYPE/ID")
	try(exitUsage, []string{"repair", "record", "Cart/dora", "--back-to", "2"}, "--reason")
	try(exitUsage, []string{"repair", "record", "Cart/dora", "--back-to", "2", "--skip", "3"}, "--back-to and --skip")
	try(exitUsage, []string{"repair", "record", "Cart/dora", "--back-to=-2", "--reason", "x"}, "--back-to is -2")
	try(exitUsage, []string{"repair", "record", "Cart/dora", "--back-to", "2", "--reason", "x"}, "--out")
	try(exitUsage, []string{"repair", "record", "Cart/dora", "--back-to", "2", "--reason", "x", "--out", in("j.db")}, "exists already")
	try(exitFailed, []string{"repair", "record", "Cart/dora", "--back-to", "3", "--reason", "x", "--out", in("a")}, "--back-to 2")
	try(exitFailed, []string{"repair", "record", "Cart/dora", "--skip", "3", "--shard", "1", "--reason", "x", "--out", in("a")}, "--shard")
	try(exitFailed, []string{"repair", "snapshot", "Cart/dora", "--reason", "x", "--out", in("a")}, "no snapshot")
	if _, err := os.Stat(in("a")); err == nil {
		t.Error("a repair that was refused has left a file")
	}
	try(exitOK, []string{"repair", "record", "Cart/dora", "--back-to", "2", "--dry-run"}, "Nothing was changed", "set aside   2 records", "item-added", "nothing of it is damaged")
	try(exitOK, []string{"repair", "list"}, "nothing was repaired")
	try(exitOK, []string{"repair", "record", "Cart/dora", "--back-to", "2", "--reason", "ticket 4711", "--out", in("aside")}, "is repaired", "kept in     "+in("aside"), "is served again when its region notices")
	checkAside(t, in("aside"))
	content, err := os.ReadFile(in("aside"))
	if err != nil {
		t.Fatal(err)
	}
	try(exitOK, []string{"repair", "list"}, "Cart/dora", "went back to record 2", "ticket 4711", in("aside"))
	try(exitOK, []string{"repair", "list", "-o", "json"}, fmt.Sprintf("%x", sha256.Sum256(content)))
	storeFactRepair(t, in("j.db"))
	list := try(exitOK, []string{"repair", "list"}, "Cart/dora", "roost.coordinator/facts", "repaired the facts, 2 things damaged", "bad disk", "ops@host")
	if strings.Index(list, "roost.coordinator/facts") > strings.Index(list, "Cart/dora") {
		t.Errorf("the newest repair is not the first:\n%s", list)
	}
	if list := try(exitOK, []string{"repair", "list", "--limit", "1"}, "bad disk"); strings.Contains(list, "Cart/dora") {
		t.Errorf("with --limit 1:\n%s", list)
	}
	try(exitFailed, []string{"reminders", "drop", "Cart/dora", "pray", "--reason", "cancelled", "--journal.url", "sqlite:" + in("j.db")}, "Cart/dora has no reminder pray; it has pay")
	try(exitOK, []string{"reminders", "drop", "Cart/dora", "pay", "--dry-run", "--journal.url", "sqlite:" + in("j.db")}, "Nothing was changed")
	try(exitOK, []string{"reminders", "drop", "Cart/dora", "pay", "--reason", "cancelled", "--journal.url", "sqlite:" + in("j.db")}, "it has no reminder pay any more")
	try(exitFailed, []string{"reminders", "drop", "Cart/dora", "pay", "--reason", "cancelled", "--journal.url", "sqlite:" + in("j.db")}, "has no reminder")
	try(exitOK, []string{"repair", "record", "Cart/dora", "--delete", "--reason", "gone"}, "it is deleted")
	try(exitOK, []string{"repair", "find"}, "0 of 1 entity are damaged")
	damageFacts(t, in("j.db"))
	try(exitOK, []string{"repair", "list", "--limit", "3"}, "Cart/dora", "went back to record 2")
}

// checkAside checks the file with what was set aside.
func checkAside(t *testing.T, file string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
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

// storeCart makes a journal with a cart of four records.
func storeCart(t *testing.T, url string) {
	t.Helper()
	d, err := journalopen.Open(t.Context(), url, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	desc := sharding.TypeDesc{Type: "Cart", Shards: 4}
	if _, err := d.Declare(t.Context(), journal.Declaration{Cluster: "blue", Types: []sharding.TypeDesc{desc}}); err != nil {
		t.Fatal(err)
	}
	cart := sharding.Entity{Type: "Cart", ID: "dora"}
	shard, epoch := desc.ShardOf(cart.ID), sharding.MakeEpoch(3, 1)
	ops := []journal.Op{{Claim: &sharding.Claim{Shard: shard, Epoch: epoch, Owner: 5}}}
	for seq := uint64(1); seq <= 4; seq++ {
		r := sharding.Record{Seq: seq, Command: sharding.CommandID(fmt.Sprint("k", seq)), Events: []sharding.Event{{Name: "item-added", Encoding: sharding.JSON, Payload: []byte(`{"sku":"tea"}`)}}}
		if seq == 2 {
			r.Wakes = []sharding.Wake{{Kind: sharding.ReminderWake, Name: "pay", Due: 1 << 50, Input: sharding.Input{Command: "Pay"}}}
		}
		ops = append(ops, journal.Op{Append: &sharding.Append{Shard: shard, Epoch: epoch, Entity: cart, Records: []sharding.Record{r}}})
	}
	for _, op := range ops {
		if results, err := d.Commit(t.Context(), []journal.Op{op}); err != nil || results[0].Verdict != sharding.Durable {
			t.Fatal(results, err)
		}
	}
}

// TestRepairUnderWrites: an entity that is written to between any two steps is repaired, because the shard is fenced before
// it is read. If its shard is claimed again each time, the repair is refused, with what to do.
func TestRepairUnderWrites(t *testing.T) {
	for _, again := range []bool{false, true} {
		url := "sqlite:" + filepath.Join(t.TempDir(), "j.db")
		storeCart(t, url)
		damageBody(t, strings.TrimPrefix(url, "sqlite:"))
		d, err := journalopen.Open(t.Context(), url, journal.DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.Close() }()
		at, cart := journalopen.At{URL: url}, sharding.Entity{Type: "Cart", ID: "dora"}
		shard := (&sharding.TypeDesc{Type: "Cart", Shards: 4}).ShardOf(cart.ID)
		epoch, seq := sharding.MakeEpoch(3, 1), uint64(4)
		write := func() {
			if again {
				epoch += 2
			}
			seq++
			record := sharding.Record{Seq: seq, Events: []sharding.Event{{Name: "item-added", Encoding: sharding.JSON, Payload: []byte(`{"sku":"tea"}`)}}}
			for _, op := range []journal.Op{
				{Claim: &sharding.Claim{Shard: shard, Epoch: epoch, Owner: 5}},
				{Append: &sharding.Append{Shard: shard, Epoch: epoch, Entity: cart, Records: []sharding.Record{record}}},
			} {
				if _, err := d.Commit(t.Context(), []journal.Op{op}); err != nil {
					t.Fatal(err)
				}
			}
		}
		r := &repair{entity: cart, out: filepath.Join(t.TempDir(), "aside")}
		r.do = journal.Repair{Entity: cart, Shard: shard, Do: journal.GoBack, Seq: 2, Reason: "ticket 4711"}
		_, plan, err := r.perform(&repairStore{
			fence: func() error { return journalopen.Fence(t.Context(), at, journal.DefaultConfig(), shard) },
			read: func() (*journal.RawEntity, error) {
				raw, err := d.(journal.RawReader).Raw(t.Context(), cart)
				write()
				return &raw, err
			},
			repair: func() (journal.RepairPlan, error) {
				return journalopen.Repair(t.Context(), at, journal.DefaultConfig(), &r.do)
			},
		})
		switch _, statErr := os.Stat(r.out); {
		case !again && (err != nil || len(plan.SetAside) != 2 || statErr != nil):
			t.Errorf("repaired: %v, %d records are set aside, %v", err, len(plan.SetAside), statErr)
		case again && (!errors.Is(err, journal.ErrChanged) || !strings.Contains(err.Error(), "roost quarantine add Cart/dora") || statErr == nil):
			t.Errorf("a shard that is claimed again each time: %v, %v", err, statErr)
		}
	}
}

// TestNothingIsLostWithoutAFile: a repair that had nothing to set aside when it was asked for is refused without a file if
// it has something to set aside when the shard is claimed. Standard output is no file.
func TestNothingIsLostWithoutAFile(t *testing.T) {
	cart := sharding.Entity{Type: "Cart", ID: "dora"}
	body := journal.AppendRecord(nil, cart, sharding.MakeEpoch(3, 1), time.UnixMilli(1), &sharding.Record{Seq: 1})
	raw := journal.RawEntity{
		Entity: cart, LastSeq: 1, Records: []journal.RawRecord{{Seq: 1, Body: body}},
		SnapshotSeq: 1, Snapshot: []byte("a state that its region has stored meanwhile"),
	}
	for out, want := range map[string]string{"": "--out is missing", "-": "--out is -"} {
		r := &repair{entity: cart, out: out, do: journal.Repair{Entity: cart, Do: journal.DeleteEntity, Reason: "ticket 4711"}}
		_, _, err := r.perform(&repairStore{
			fence:  func() error { return nil },
			read:   func() (*journal.RawEntity, error) { return &raw, nil },
			repair: func() (journal.RepairPlan, error) { t.Error("it was repaired"); return journal.RepairPlan{}, nil },
		})
		var usage usageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("--out %q: %v", out, err)
		}
	}
}

// damageBody changes a byte of record 3.
func damageBody(t *testing.T, file string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?vfs="+sqlite.VFS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), "UPDATE record SET body = CAST(substr(body, 1, length(body) - 3) || CASE substr(body, length(body) - 2, 1) WHEN x'00' THEN x'ff' ELSE x'00' END || substr(body, length(body) - 1) AS BLOB) WHERE seq = 3"); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedText: the verb is about those that are damaged.
func TestDamagedText(t *testing.T) {
	for want, n := range map[string][2]int{
		"0 of 4 entities are damaged": {0, 4}, "1 of 4 entities is damaged": {1, 4}, "2 of 4 entities are damaged": {2, 4}, "1 of 1 entity is damaged": {1, 1},
	} {
		if got := damagedText(n[0], n[1]); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestRepairsShowNames: a name that users have chosen cannot break out of what a repair prints: names may have
// characters that terminals obey, or that change how others are shown.
func TestRepairsShowNames(t *testing.T) {
	const name = "Cart/a\u009b2J\u202eb"
	entity := sharding.Entity{Type: "Cart", ID: "a\u009b2J\u202eb"}
	raw := &journal.RawEntity{Entity: entity, LastSeq: 1, Records: []journal.RawRecord{{Seq: 1}}}
	for what, print := range map[string]func(*app) error{
		"find": func(a *app) error {
			return a.printFound([]foundDamage{{name, []jsonDamage{{Kind: journal.DamagedRecord, What: "record 1 of " + name + " is damaged"}}}}, 1, 1)
		},
		"list": func(a *app) error {
			return a.printRepairs([]listedRepair{{RepairLine: journal.RepairLine{Entity: name, Did: "removed the reminder \u202e"}}, {Problem: name}})
		},
		"record": func(a *app) error { return a.printExamined(raw) },
		"repaired": func(a *app) error {
			return a.printRepair(&repair{entity: entity, dryRun: true}, raw, &journal.RepairPlan{Wakes: []journal.RawWake{{WakeRef: sharding.WakeRef{Kind: sharding.ReminderWake, Name: "\u202e", Seq: 1}}}})
		},
	} {
		var out bytes.Buffer
		if err := print(&app{out: &out, output: "table"}); err != nil || out.Len() == 0 || strings.ContainsAny(out.String(), "\u009b\u202e") {
			t.Errorf("%s: %q, %v", what, out.String(), err)
		}
	}
}
