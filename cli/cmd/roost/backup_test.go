package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/libs/journal"
	journalopen "github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestBackup: a backup is made, checked and restored, each mistake is refused before anything is
// changed, and a failure leaves no file.
func TestBackup(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	url, file := "sqlite:"+in("j.db"), in("a.backup")
	t.Setenv("ROOST_JOURNAL_URL", url)
	d, err := journalopen.Open(t.Context(), url, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Declare(t.Context(), journal.Declaration{Cluster: "blue"}); err != nil {
		t.Fatal(err)
	}
	claim := journal.Op{Claim: &sharding.Claim{Shard: sharding.ShardID{Type: "Cart"}, Epoch: sharding.MakeEpoch(3, 1), Owner: 5}}
	if _, err := d.Commit(t.Context(), []journal.Op{claim}); err != nil {
		t.Fatal(err)
	}
	try := func(code int, args []string, says ...string) string {
		t.Helper()
		var out, errOut bytes.Buffer
		if got := run(t.Context(), args, &out, &errOut); got != code {
			t.Fatalf("roost %v: exit code %d, want %d\n%s%s", args, got, code, &out, &errOut)
		}
		for _, s := range says {
			if !strings.Contains(out.String()+errOut.String(), s) {
				t.Errorf("roost %v does not say %q:\n%s%s", args, s, &out, &errOut)
			}
		}
		return out.String()
	}
	try(app.ExitOK, []string{"journal", "backup", file}, "Backed up to "+file, `cluster     "blue", journal in sqlite, format 1`, "term 3;")
	try(app.ExitUsage, []string{"journal", "backup", file}, "exists already")
	try(app.ExitUsage, []string{"journal", "backup"}, "one FILE is needed")
	try(app.ExitUsage, []string{"journal", "backup", in("x"), "--journal.url", "mysql://db/roost"}, "--journal.url")
	try(app.ExitFailed, []string{"journal", "backup", in("x"), "--journal.url", "sqlite:" + in("other.db")}, "there is no such file")
	streamed := try(app.ExitOK, []string{"journal", "backup", "-"})
	if err := os.WriteFile(in("streamed"), []byte(streamed), 0o600); err != nil {
		t.Fatal(err)
	}
	var stated struct{ Bytes int }
	if err := json.Unmarshal([]byte(try(app.ExitOK, []string{"journal", "backup", "check", in("streamed"), "-o", "json"})), &stated); err != nil || stated.Bytes == 0 || stated.Bytes != len(streamed) {
		t.Errorf("a file of %+v, and %d bytes to standard output: %v", stated, len(streamed), err)
	}
	try(app.ExitOK, []string{"journal", "backup", "check", file}, "is complete", "term 3;")
	if err := os.WriteFile(in("cut"), []byte(streamed[:len(streamed)/2]), 0o600); err != nil {
		t.Fatal(err)
	}
	try(app.ExitFailed, []string{"journal", "backup", "check", in("cut")}, in("cut")+": the backup file is damaged")
	try(app.ExitFailed, []string{"journal", "backup", "check", in("j.db")}, "not a backup file")

	try(app.ExitFailed, []string{"journal", "restore", file, "--replace"}, "in use", "--in-use")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	try(app.ExitFailed, []string{"journal", "restore", file}, "--replace")
	try(app.ExitFailed, []string{"journal", "restore", in("cut"), "--replace"}, "damaged")
	try(app.ExitOK, []string{"journal", "restore", file, "--replace", "--dry-run"}, "nothing was changed", "terms from 1048580 on")
	try(app.ExitOK, []string{"journal", "restore", file, "--replace"}, "Restored from "+file, "lost        whatever was acknowledged after that: in the rest of that term", "terms from 1048580 on")
	var r struct {
		Replaced     bool
		ReplacedTerm uint32 `json:"replaced_term"`
		NextTerm     uint32 `json:"next_term"`
	}
	if err := json.Unmarshal([]byte(try(app.ExitOK, []string{"journal", "restore", file, "--replace", "-o", "json"})), &r); err != nil || !r.Replaced || r.ReplacedTerm != 3+journal.RestoreTerms || r.NextTerm != 4+2*journal.RestoreTerms {
		t.Errorf("restored again: %+v, %v", r, err)
	}
	try(app.ExitOK, []string{"journal", "restore", file, "--journal.url", "sqlite:" + in("new.db")}, "Restored from "+file)
	t.Setenv("ROOST_JOURNAL_URL", "")
	try(app.ExitUnreachable, []string{"journal", "restore", file, "--dir", dir}, "--journal.url (after roost dev --data DIR, that is sqlite:DIR/journal.db)")
	for _, left := range []string{"x", "x.partial", "a.backup.partial", "other.db"} {
		if _, err := os.Stat(in(left)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", left, err)
		}
	}
}

// TestBackupDatabases: a backup of two databases says so, and when each was read.
func TestBackupDatabases(t *testing.T) {
	in := "sqlite:" + t.TempDir() + "/"
	file := strings.TrimPrefix(in, "sqlite:") + "two.backup"
	at := journalopen.At{URL: in + "a.db", Databases: []string{"2=" + in + "b.db"}}
	d, err := journalopen.Backend(t.Context(), at, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Declare(t.Context(), journal.Declaration{Cluster: "blue"}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	try := func(code int, args []string, says ...string) {
		t.Helper()
		var out, errOut bytes.Buffer
		if got := run(t.Context(), args, &out, &errOut); got != code {
			t.Fatalf("roost %v: exit code %d, want %d\n%s%s", args, got, code, &out, &errOut)
		}
		for _, s := range says {
			if !strings.Contains(out.String()+errOut.String(), s) {
				t.Errorf("roost %v does not say %q:\n%s%s", args, s, &out, &errOut)
			}
		}
	}
	places := []string{"--journal.url", at.URL, "--journal.databases", at.Databases[0]}
	with := func(args ...string) []string { return append(args, places...) }
	try(app.ExitFailed, []string{"journal", "backup", file, "--journal.url", at.URL}, "database 2, and journal.databases does not name it")
	try(app.ExitOK, with("journal", "backup", file), "database 1 ", "database 2 ", "skew ")
	try(app.ExitOK, []string{"journal", "backup", "check", file}, "is complete", "database 2 ", "skew ")
	try(app.ExitFailed, with("journal", "restore", file), "--replace")
	try(app.ExitOK, with("journal", "restore", file, "--replace"), "Restored from "+file, "database 2 ")
	try(app.ExitOK, with("journal", "repair", "find"))
	try(app.ExitOK, with("journal", "repair", "ls"), "nothing was repaired")
	try(app.ExitFailed, []string{"journal", "repair", "find", "--journal.url", at.URL}, "database 2, and journal.databases does not name it")
}
