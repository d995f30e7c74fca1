//go:build linux

package server

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	journalopen "github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region/server/stored"
)

// note is an entity of the tools' tests.
type note struct{ Lines []string }

func (n *note) read(*entity.Ctx, struct{}) ([]string, error) { return n.Lines, nil }
func (n *note) write(ctx *entity.Ctx, line string) (struct{}, error) {
	ctx.Persist(written{line})
	return struct{}{}, nil
}

type written struct{ Line string }

// scribbled is written in a later version, without a step.
type scribbled struct{ Text string }

var (
	theWritten   = entity.Event("written", func(n *note, e written) { n.Lines = append(n.Lines, e.Line) })
	theScribbled = entity.Event("written", func(n *note, e scribbled) { n.Lines = append(n.Lines, e.Text) })
)

func notes(event entity.Declaration[note]) []entity.Definition {
	read := entity.Command[struct{}, []string]("Note", "Read", entity.ReadOnly())
	write := entity.Command[string, struct{}]("Note", "Write")
	return []entity.Definition{entity.Define("Note", func(string) *note { return &note{} },
		entity.On(read, (*note).read), entity.On(write, (*note).write), event)}
}

// storeNotes stores a record of each entity.
func storeNotes(t *testing.T, url string, ids ...sharding.EntityID) {
	t.Helper()
	storeNotesAt(t, journalopen.At{URL: url}, ids...)
}

func storeNotesAt(t *testing.T, at journalopen.At, ids ...sharding.EntityID) {
	t.Helper()
	d, err := journalopen.Backend(t.Context(), at, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() }) // open while the tools run
	if _, err := d.Declare(t.Context(), journal.Declaration{Cluster: "blue", Types: []sharding.TypeDesc{{Type: "Note", Shards: sharding.DefaultShards}}}); err != nil {
		t.Fatal(err)
	}
	shard := sharding.ShardID{Type: "Note"}
	ops := []journal.Op{{Claim: &sharding.Claim{Shard: shard, Epoch: 1, Owner: 1}}}
	for _, id := range ids {
		ops = append(ops, journal.Op{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: sharding.Entity{Type: "Note", ID: id}, Records: []sharding.Record{{
			Seq: 1, Events: []sharding.Event{{Name: "written", Version: 1, ReadableBy: 1, Payload: []byte(`{"Line":"hello"}`)}},
		}}}})
	}
	if _, err := d.Commit(t.Context(), ops); err != nil {
		t.Fatal(err)
	}
}

// runTools runs a tool as a process would.
func runTools(t *testing.T, types []entity.Definition, environ []string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code, ok := runTool(args, environ, types, &o, &e)
	if !ok {
		t.Fatalf("%v is not a tool", args)
	}
	return code, o.String(), e.String()
}

func checkNotes(t *testing.T, url string) {
	storeNotes(t, url, "a", "b")
	environ := []string{"ROOST_JOURNAL_URL=" + url, "ROOST_REGION_MAILBOX=7", "ROOST_ADMIN=x"}
	code, out, errOut := runTools(t, notes(theWritten), environ, "journal", "check")
	if code != toolOK || !strings.Contains(out, "Note  2         2        2") || !strings.Contains(out, "this program reads all of it") || errOut != "" {
		t.Errorf("code %d\n%s%s", code, out, errOut)
	}
	if code, _, _ = runTools(t, notes(theWritten), append(environ, toolStatusEnv+"=64"), "journal", "check"); code != 64+toolOK {
		t.Errorf("for the roost command: code %d", code)
	}
	other := entity.Command[struct{}, []string]("Other", "Read", entity.ReadOnly())
	code, out, _ = runTools(t, []entity.Definition{entity.Define("Other", func(string) *note { return &note{} }, entity.On(other, (*note).read))}, environ, "journal", "check")
	if code != toolFound || !strings.Contains(out, "not checked: type Note, entities: 2: this program has no such type") ||
		!strings.Contains(out, "does not read all types that are stored") || strings.Contains(out, "reads all of it") {
		t.Errorf("without the type: code %d\n%s", code, out)
	}
	if code, _, errOut = runTools(t, notes(theWritten), nil, "journal", "check", "--journal.url="+url, "--type", "Nope"); code != toolFailed || !strings.Contains(errOut, "it has [Note]") {
		t.Errorf("a type that there is not: code %d, %s", code, errOut)
	}
	code, out, _ = runTools(t, notes(theScribbled), nil, "journal", "check", "--journal.url="+url, "-o", "json")
	var r stored.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != toolFound || !r.Complete || r.Cluster != "blue" || r.Unreadable() != 2 ||
		len(r.Problems) != 1 || r.Problems[0].Event != "written" || len(r.Problems[0].Examples) != 2 {
		t.Errorf("code %d, %v\n%s", code, err, out)
	}
	config := filepath.Join(t.TempDir(), "region.yaml")
	if err := os.WriteFile(config, []byte("journal: {url: '"+url+"', patience: 3s}\nregion: {commands: 10}\ndiscovery: {url: 'static://a:1'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errOut = runTools(t, notes(theWritten), nil, "journal", "check", "--config", config); code != toolOK {
		t.Errorf("with a region's file: %d\n%s%s", code, out, errOut)
	}
}

// TestToolsOnDatabases: a tool reads all databases, and refuses one of several.
func TestToolsOnDatabases(t *testing.T) {
	in := "sqlite:" + t.TempDir() + "/"
	at := journalopen.At{URL: in + "a.db", Databases: []string{"2=" + in + "b.db"}, Types: map[string]string{"Note": "2"}}
	storeNotesAt(t, at, "a", "b")
	types := notes(theWritten)
	if code, out, errOut := runTools(t, types, nil, "journal", "check", "--journal.url="+at.URL, "--journal.databases="+at.Databases[0]); code != toolOK || !strings.Contains(out, "Note  2         2        2") {
		t.Errorf("both: code %d\n%s%s", code, out, errOut)
	}
	if code, _, errOut := runTools(t, types, []string{"ROOST_JOURNAL_URL=" + at.URL}, "journal", "check"); code != toolFailed || !strings.Contains(errOut, "journal.databases") {
		t.Errorf("one: code %d, %s", code, errOut)
	}
	environ := []string{"ROOST_JOURNAL_URL=" + at.URL, "ROOST_JOURNAL_DATABASES=" + at.Databases[0]}
	if code, out, errOut := runTools(t, types, environ, "snapshot", "drop", "Note"); code != toolOK || !strings.Contains(out, "entities: 2") {
		t.Errorf("snapshots: code %d\n%s%s", code, out, errOut)
	}
}

// dropNotes drops a snapshot; the store of checkNotes has none yet.
func dropNotes(t *testing.T, url string) {
	d, err := journalopen.Open(t.Context(), url, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	a := sharding.Entity{Type: "Note", ID: "a"}
	if _, err := d.Commit(t.Context(), []journal.Op{{Snapshot: &journal.WriteSnapshot{
		Shard: sharding.ShardID{Type: "Note"}, Epoch: 1, Entity: a, Snapshot: journal.Snapshot{Seq: 1, Form: sharding.SnapshotForm{Version: 9}},
	}}}); err != nil {
		t.Fatal(err)
	}
	for n, test := range []struct {
		event entity.Declaration[note]
		args  []string
		code  int
		says  string
		seq   uint64
	}{
		{theScribbled, []string{"Note"}, toolFound, "were kept, because this program could not rebuild the entity: 1", 1},
		{theWritten, []string{"--dry-run", "Note/a"}, toolOK, "would be dropped: 1", 1},
		{theWritten, []string{"Note/b"}, toolOK, "were dropped: 0", 1},
		{theWritten, []string{"Note", "-o", "json"}, toolOK, `"dropped":1`, 0},
		{theWritten, []string{"Note"}, toolOK, "were dropped: 0", 0},
		{theWritten, []string{"Memo"}, toolFailed, "no type", 0},
		{theWritten, []string{"Note/"}, toolFailed, "no id after the slash", 0},
		{theWritten, []string{"Note", "Note"}, toolFailed, "one TYPE", 0},
		{theWritten, []string{}, toolFailed, "one TYPE", 0},
	} {
		code, out, errOut := runTools(t, notes(test.event), []string{"ROOST_JOURNAL_URL=" + url}, append([]string{"snapshot", "drop"}, test.args...)...)
		if code != test.code || !strings.Contains(out+errOut, test.says) {
			t.Errorf("%d: code %d\n%s%s", n, code, out, errOut)
		}
		if l, err := d.Load(t.Context(), journal.LoadRequest{Entity: a}); err != nil || l.Snapshot.Seq != test.seq {
			t.Errorf("%d: snapshot at %d, %v", n, l.Snapshot.Seq, err)
		}
	}
}

func TestToolsOnSQLite(t *testing.T) {
	url := "sqlite:" + t.TempDir() + "/j.db"
	checkNotes(t, url)
	dropNotes(t, url)
}

func TestToolsOnPostgreSQL(t *testing.T) {
	server := postgrestest.Start(t)
	name, err := server.NewDatabase()
	if err != nil {
		t.Fatal(err)
	}
	checkNotes(t, server.URL(postgrestest.Superuser, name))
	dropNotes(t, server.URL(postgrestest.Superuser, name))
}

// TestToolsRefuse: what they cannot do ends with a text and an exit code, and other arguments
// are the region's.
func TestToolsRefuse(t *testing.T) {
	types := notes(theWritten)
	url := "--journal.url=sqlite:" + t.TempDir() + "/none.db"
	for part, args := range map[string][]string{
		"journal.url is empty":  {},
		"there is no such file": {url},
		"flags; see":            {url, "all"},
		"-o \"xml\"":            {url, "-o", "xml"},
		"not defined: -nothing": {url, "--nothing"},
		"--sample is -1":        {url, "--sample=-1"},
		"no other can read it":  {"--journal.url=memory:"},
		"configuration file":    {"--config=" + t.TempDir() + "/none.yaml"},
	} {
		code, out, errOut := runTools(t, types, nil, append([]string{"journal", "check"}, args...)...)
		if code != toolFailed || out != "" || !strings.Contains(errOut, part) {
			t.Errorf("%v: code %d, %q\n%s; want %q", args, code, out, errOut, part)
		}
	}
	if code, out, _ := runTools(t, types, nil, "journal", "check", "--help"); code != toolOK || !strings.Contains(out, "Exit codes:") {
		t.Errorf("--help: %d\n%s", code, out)
	}
	for _, args := range [][]string{nil, {"--help"}, {"journal"}, {"check", "journal"}, {"--journal.url", "x"}} {
		if _, ok := runTool(args, nil, types, os.Stdout, os.Stderr); ok {
			t.Errorf("%v is taken for a tool", args)
		}
	}
}
