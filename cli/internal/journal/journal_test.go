package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/carttest"
	"github.com/roost-cluster/roost/libs/journal"
	journalopen "github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestFileIsWrittenOnce: of two commands that write the same file, one is refused, and the file of the other is whole.
func TestFileIsWrittenOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.backup")
	write := func(content string, during func()) error {
		_, err := writeNew(io.Discard, file, func(out io.Writer) error {
			during()
			_, err := io.WriteString(out, content)
			return err
		})
		return err
	}
	err := write("first", func() {
		if err := write("second", func() { t.Error("the second one is written") }); app.ExitCode(t.Context(), err) != app.ExitUsage || !strings.Contains(err.Error(), "another command is writing") {
			t.Errorf("the second one: %v", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "first" {
		t.Errorf("the file has %q: %v", content, err)
	}
	if err := write("third", func() {}); app.ExitCode(t.Context(), err) != app.ExitUsage {
		t.Errorf("a file that exists is written: %v", err)
	}
}

// TestNoFolderForFile: an error names the file that the user has named.
func TestNoFolderForFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "missing", "a.backup")
	_, err := writeNew(io.Discard, file, func(io.Writer) error { t.Error("it is written"); return nil })
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), file+" cannot be written") || strings.Contains(err.Error(), ".partial") {
		t.Errorf("into a folder that is missing: %v", err)
	}
}

// TestNoBackupForTerminals: the bytes of a backup would change how a terminal works. /dev/zero stands for one: it is a
// device of characters, too.
func TestNoBackupForTerminals(t *testing.T) {
	terminal, err := os.OpenFile("/dev/zero", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = terminal.Close() }()
	if _, err := writeNew(terminal, standardStream, func(io.Writer) error { t.Error("it is written"); return nil }); app.ExitCode(t.Context(), err) != app.ExitUsage {
		t.Errorf("writing to a terminal: %v", err)
	}
}

// TestRepairUnderWrites: an entity that is written to between any two steps is repaired, because the shard is fenced before
// it is read. If its shard is claimed again each time, the repair is refused, with what to do.
func TestRepairUnderWrites(t *testing.T) {
	for _, again := range []bool{false, true} {
		url := "sqlite:" + filepath.Join(t.TempDir(), "j.db")
		carttest.Store(t, url)
		carttest.Damage(t, strings.TrimPrefix(url, "sqlite:"))
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
		case again && (!errors.Is(err, journal.ErrChanged) || !strings.Contains(err.Error(), "roost entity quarantine Cart/dora") || statErr == nil):
			t.Errorf("a shard that is claimed again each time: %v, %v", err, statErr)
		}
	}
}

// TestNothingIsLostWithoutAFile: a repair that had nothing to set aside when it was asked for is refused without a file if
// it has something to set aside when the shard is claimed. Standard output is not a file.
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
		if app.ExitCode(t.Context(), err) != app.ExitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("--out %q: %v", out, err)
		}
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

// TestRepairsShowNames: a name that users have chosen cannot break out of a repair's output: names may have
// characters that terminals obey, or that change how others are shown.
func TestRepairsShowNames(t *testing.T) {
	const name = "Cart/a\u009b2J\u202eb"
	entity := sharding.Entity{Type: "Cart", ID: "a\u009b2J\u202eb"}
	raw := &journal.RawEntity{Entity: entity, LastSeq: 1, Records: []journal.RawRecord{{Seq: 1}}}
	for what, print := range map[string]func(*group) error{
		"find": func(a *group) error {
			return a.printFound([]foundDamage{{name, []jsonDamage{{Kind: journal.DamagedRecord, What: "record 1 of " + name + " is damaged"}}}}, 1, 1)
		},
		"list": func(a *group) error {
			return a.printRepairs([]listedRepair{{RepairLine: journal.RepairLine{Entity: name, Did: "removed the reminder \u202e"}}, {Problem: name}})
		},
		"record": func(a *group) error { return a.printExamined(raw) },
		"repaired": func(a *group) error {
			return a.printRepair(&repair{entity: entity, dryRun: true}, raw, &journal.RepairPlan{Wakes: []journal.RawWake{{WakeRef: sharding.WakeRef{Kind: sharding.ReminderWake, Name: "\u202e", Seq: 1}}}})
		},
	} {
		var out bytes.Buffer
		if err := print(&group{&app.App{Out: &out, Output: "table"}}); err != nil || out.Len() == 0 || strings.ContainsAny(out.String(), "\u009b\u202e") {
			t.Errorf("%s: %q, %v", what, out.String(), err)
		}
	}
}

// TestJournalPages: a damaged page of an SQLite journal is named, and the exit code is at least 1.
func TestJournalPages(t *testing.T) {
	file := filepath.Join(t.TempDir(), "j.db")
	t.Setenv("ROOST_JOURNAL_URL", "")
	carttest.Store(t, "sqlite:"+file)
	check := func(result error) (says string, err error) {
		var errOut strings.Builder
		a := &group{&app.App{Out: &errOut, Err: &errOut}}
		f := toolFlags{journal: journalFlags{url: "sqlite:" + file}}
		err = a.withPages(t.Context(), f, result)
		return errOut.String(), err
	}
	if says, err := check(nil); err != nil || says != "" {
		t.Errorf("a whole file: %v %s", err, says)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	whole, named := file, 0
	for at := page - 100; at < len(content); at += page {
		number := at/page + 1
		file = fmt.Sprintf("%s-%d", whole, number) // what was found damaged of a file is remembered
		content[at] ^= 1
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		content[at] ^= 1
		says, err := check(nil)
		if opened := strings.Contains(says, fmt.Sprintf("Damaged pages of %s: %d (1 of %d).\nStop the coordinators", file, number, len(content)/page)); opened {
			named++
		} else if !strings.Contains(says, fmt.Sprintf("damaged pages of %s: %d;", file, number)) { // the journal cannot be opened
			t.Errorf("page %d is damaged: %s", number, says)
		}
		if err != app.ToolStatus(app.ExitFailed) {
			t.Errorf("page %d is damaged: %v", number, err)
		}
		if _, err := check(app.ToolStatus(app.ExitUnchecked)); err != app.ToolStatus(app.ExitUnchecked) {
			t.Errorf("page %d is damaged, and the region binary could not check all: %v", number, err)
		}
	}
	if named == 0 {
		t.Error("no file with a damaged page could be opened")
	}
}

// TestOlderJournal: a journal that lacks what was acknowledged, because a copy was put over its file, is neither backed up
// nor checked nor examined for a repair. Each command names the remedy.
func TestOlderJournal(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "j.db")
	url := "sqlite:" + file
	t.Setenv("ROOST_JOURNAL_URL", "")
	carttest.Store(t, url)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d, err := journalopen.Open(t.Context(), url, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Commit(t.Context(), []journal.Op{{Claim: &sharding.Claim{Shard: sharding.ShardID{Type: "Cart"}, Epoch: sharding.MakeEpoch(4, 1), Owner: 6}}})
	if err := errors.Join(err, d.Close(), os.WriteFile(file, content, 0o600)); err != nil {
		t.Fatal(err)
	}
	at := journalopen.At{URL: url}
	for name, run := range map[string]func(a *group) error{
		"backup": func(a *group) error { return a.backUp(t.Context(), at, filepath.Join(dir, "backup")) },
		"check, after a region that approves": func(a *group) error {
			return a.withPages(t.Context(), toolFlags{journal: journalFlags{url: url}}, nil)
		},
		"check --facts": func(a *group) error { return a.journalCheckFacts(t.Context(), &journalFlags{url: url}) },
		"repair record": func(a *group) error {
			return a.runRepair(t.Context(), &repair{journal: journalFlags{url: url}, shard: noShard, entity: sharding.Entity{Type: "Cart", ID: "dora"}})
		},
		"repair ls": func(a *group) error { return a.listRepairs(t.Context(), at, 1) },
	} {
		var says strings.Builder
		err := run(&group{&app.App{Out: &says, Err: &says}})
		if err != nil {
			fmt.Fprintln(&says, err)
		}
		if app.ExitCode(t.Context(), err) == app.ExitOK || !strings.Contains(says.String(), `docs/running/repair.md, "An older copy over the file"`) {
			t.Errorf("%s: exit code %d, %s", name, app.ExitCode(t.Context(), err), says.String())
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "backup*")); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
}
