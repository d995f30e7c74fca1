//go:build unix

package blackbox

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/region/suspects"
)

func turn(id string) control.CrashedTurn {
	return control.CrashedTurn{Entity: sharding.Entity{Type: "T", ID: sharding.EntityID(id)}, Command: "Do"}
}

// open opens the box as a process, and fails the test if it cannot.
func open(t *testing.T, path string, self sharding.NodeUID) (*Box, *Report) {
	t.Helper()
	b, r, err := Open(path, self, suspects.Exit{})
	if err != nil {
		t.Fatal(err)
	}
	return b, r
}

// die has the process end without closing the box.
func (b *Box) die(t *testing.T) {
	t.Helper()
	if err := errors.Join(syscall.Munmap(b.mem), b.file.Close()); err != nil { // this also gives up the lock
		t.Fatal(err)
	}
}

// TestReport: the next process reads which turns ran, and what the runtime wrote.
func TestReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir", "box")
	b, r := open(t, path, 1)
	if r != nil {
		t.Fatalf("before the first process: %+v", r)
	}
	if _, _, err := Open(path, 9, suspects.Exit{}); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("a second process opens the box: %v", err)
	}
	now := time.Now()
	b.End(b.Begin(turn("long-ago")), now.Add(-time.Second))
	b.Begin(turn("runs"))
	suspect := turn("suspect")
	suspect.Alone, suspect.Clean = true, 7
	b.Begin(suspect)
	disturbed := turn("disturbed")
	disturbed.Alone = true
	b.NotAlone(b.Begin(disturbed))
	b.End(b.Begin(turn("ended")), now)
	b.Alive(now)
	b.die(t)

	b, r = open(t, path, 2)
	disturbed.Alone = false
	want := []control.CrashedTurn{turn("runs"), suspect, disturbed}
	if r == nil || r.Of != 1 || r.Cause != "" || !r.At.Equal(time.Unix(0, now.UnixNano())) || len(r.Turns) != len(want) {
		t.Fatalf("the report is %+v", r)
	}
	for i, w := range want {
		if r.Turns[i] != w {
			t.Errorf("turn %d is %+v, want %+v", i, r.Turns[i], w)
		}
	}

	if _, err := b.output.WriteString("something\npanic: oh no\n\ngoroutine 1 [running]:\n"); err != nil {
		t.Fatal(err)
	}
	b.End(b.Begin(turn("ended")), now)
	b.Alive(now)
	b.die(t)
	b, r = open(t, path, 3)
	if r.Cause != "panic: oh no" || len(r.Turns) != 1 || r.Turns[0].Entity.ID != "ended" || !r.Turns[0].Ended {
		t.Errorf("after a panic: %+v", r)
	}

	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b.die(t)
	if _, r = open(t, path, 4); r != nil {
		t.Errorf("after a process that ended in order: %+v", r)
	}
}

// earlier is a box that a development version wrote before the formats began again at 1.
//
//go:embed testdata/earlier.turns.gz
var earlier []byte

// TestUnmarked: a box without the mark is not read, and the reason is reported. It is used from then on.
func TestUnmarked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "box")
	in, err := gzip.NewReader(bytes.NewReader(earlier))
	if err != nil {
		t.Fatal(err)
	}
	file, err := io.ReadAll(in)
	if err == nil {
		err = os.WriteFile(path+".turns", file, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	b, r := open(t, path, 1)
	if r == nil || r.Refused == nil || !strings.Contains(r.Refused.Error(), "before the formats began again at 1") || len(r.Turns) > 0 {
		t.Errorf("the report is %+v", r)
	}
	b.Begin(turn("runs"))
	b.die(t)
	b, r = open(t, path, 2)
	if r == nil || r.Refused != nil || len(r.Turns) != 1 {
		t.Errorf("after a process of this version: %+v", r)
	}
	binary.NativeEndian.PutUint32(b.mem[24:], format+1)
	binary.NativeEndian.PutUint32(b.mem[28:], checksum(b.mem))
	b.die(t)
	if _, r = open(t, path, 3); r == nil || r.Refused == nil || !strings.Contains(r.Refused.Error(), "format 2") {
		t.Errorf("of a later format: %+v", r)
	}
}

// TestForeignFiles: in a folder that others may write to, links are not followed, and files of others are not believed.
func TestForeignFiles(t *testing.T) {
	precious := filepath.Join(t.TempDir(), "precious")
	for what, prepare := range map[string]func(path string) error{
		"a link":        func(path string) error { return os.Symlink(precious, path) },
		"a second name": func(path string) error { return os.Link(precious, path) },
		"a shared file": func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o666)) },
		"a pipe":        func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"another's file ": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, 12345, 12345))
		},
	} {
		for _, suffix := range []string{".turns", ".output"} {
			if err := os.WriteFile(precious, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "box")
			if err := prepare(path + suffix); errors.Is(err, os.ErrPermission) {
				continue // only root can give files away
			} else if err != nil {
				t.Fatal(err)
			}
			if _, _, err := Open(path, 1, suspects.Exit{}); err == nil {
				t.Errorf("%s at %s is taken", what, suffix)
			}
			if text, err := os.ReadFile(precious); err != nil || string(text) != "precious" {
				t.Errorf("%s at %s: the file has become %.20q, %v", what, suffix, text, err)
			}
		}
	}
}

// TestOwnFolder: the folder within that for temporary files is of this user alone.
func TestOwnFolder(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir, err := OwnFolder()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := OwnFolder(); again != dir || err != nil {
		t.Errorf("the second time: %s, %v", again, err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := OwnFolder(); err == nil {
		t.Error("a folder that others may write to is taken")
	}
	if err := errors.Join(os.Remove(dir), os.Symlink(t.TempDir(), dir)); err != nil {
		t.Fatal(err)
	}
	if _, err := OwnFolder(); err == nil {
		t.Error("a link is taken")
	}
}

// TestMemory: the next process reads that the memory was nearly full.
func TestMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "box")
	b, _ := open(t, path, 1)
	b.Begin(turn("runs"))
	b.Memory(95<<20, 100<<20)
	b.die(t)
	if _, r := open(t, path, 2); r == nil || r.Evidence != "its memory was full: 95 of 100 MiB" || r.Cause != "" || len(r.Turns) != 1 {
		t.Errorf("the report is %+v", r)
	}
}

// TestKilled: a process that was killed from outside has no culprit.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "box")
	b, _ := open(t, path, 1)
	b.Begin(turn("slow"))
	b.die(t)
	if _, r, err := Open(path, 2, suspects.Exit{Text: "signal: killed", Killed: true}); err != nil || r == nil || len(r.Turns) != 0 {
		t.Errorf("the report is %+v, %v", r, err)
	}
}

// TestEnded: what a parent writes into the box is known to the next process, and to no one after that. Nothing is written
// into a box that is in use.
func TestEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "box")
	b, _ := open(t, path, 1)
	for _, c := range []struct {
		signalled bool
		number    int
		evidence  string
		turns     int
	}{
		{false, 3, "exit status 3", 1},
		{true, int(syscall.SIGKILL), "", 0},
		{true, int(syscall.SIGSEGV), "signal: segmentation", 1},
		{false, 0, "exit status 0", 1},
	} {
		b.Begin(turn("runs"))
		if err := Ended(path, false, 99); err == nil {
			t.Error("the end of a process that runs is written")
		}
		b.die(t)
		if err := Ended(path, c.signalled, c.number); err != nil {
			t.Fatal(err)
		}
		var r *Report
		if b, r = open(t, path, 2); r == nil || !strings.HasPrefix(r.Evidence, c.evidence) || (r.Evidence == "") != (c.evidence == "") || len(r.Turns) != c.turns {
			t.Errorf("%+v: the report is %+v", c, r)
		}
	}
	b.Begin(turn("runs"))
	b.die(t)
	if _, r := open(t, path, 3); r == nil || r.Evidence != "" || len(r.Turns) != 1 {
		t.Errorf("what was written of an earlier process counts for this one: %+v", r)
	}
}

// TestOnly: if something else has ended the process, neither the turns that run are reported nor those that begin
// or end until the process has ended.
func TestOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "box")
	b, _ := open(t, path, 1)
	runs, culprit := b.Begin(turn("runs")), turn("culprit")
	culprit.Alone = true
	for range Slots / 2 {
		b.Begin(turn("others"))
	}
	b.Only(culprit)
	for i := range Slots { // the slots of turns that were noted before may be in use again
		b.End(i, time.Now())
		b.NotAlone(i)
	}
	b.End(runs, time.Now())
	b.Begin(turn("late"))
	b.Only(turn("second"))
	if _, err := b.output.WriteString("panic: oh no\n"); err != nil {
		t.Fatal(err)
	}
	b.die(t)
	if _, r := open(t, path, 2); r == nil || len(r.Turns) != 1 || r.Turns[0] != culprit {
		t.Errorf("the report is %+v, want only %+v", r, culprit)
	}
}

// TestNobody: if no turn has ended the process, none is reported, whether it runs, has just ended or begins then.
func TestNobody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "box")
	b, _ := open(t, path, 1)
	runs, ended := b.Begin(turn("runs")), b.Begin(turn("ended"))
	b.End(ended, time.Now())
	b.Nobody()
	b.End(runs, time.Now())
	b.Begin(turn("late"))
	if _, err := b.output.WriteString("panic: oh no\n"); err != nil {
		t.Fatal(err)
	}
	b.die(t)
	if _, r := open(t, path, 2); r == nil || len(r.Turns) != 0 || r.Cause == "" {
		t.Errorf("the report is %+v, want a cause and no turn", r)
	}
}

// TestFull: turns that find no room are not noted, and the longest names are.
func TestFull(t *testing.T) {
	b, _ := open(t, filepath.Join(t.TempDir(), "box"), 1)
	long := control.CrashedTurn{
		Entity:  sharding.Entity{Type: sharding.EntityType(strings.Repeat("T", sharding.MaxTypeLen)), ID: sharding.EntityID(strings.Repeat("i", sharding.MaxIDLen))},
		Command: strings.Repeat("c", sharding.MaxTypeLen),
	}
	for range Slots {
		if b.Begin(long) < 0 {
			t.Fatal("there is no room for the longest names")
		}
	}
	if at := b.Begin(turn("more")); at >= 0 {
		t.Errorf("one more than there are slots is noted in %d", at)
	}
	b.End(-1, time.Now())
	var none *Box
	none.End(none.Begin(turn("x")), time.Now())
}
