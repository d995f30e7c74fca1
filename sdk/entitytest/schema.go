package entitytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/sdk/entity"
)

// SchemaFile is where [Schema] keeps what the types store, relative to the directory of
// the test. It belongs under version control.
const SchemaFile = "testdata/schema.json"

// updateSchema is the environment variable that makes [Schema] write the file.
const updateSchema = "UPDATE_SCHEMA"

// Schema compares what the types store with [SchemaFile], and fails the test
//
//   - if data that an earlier version stored could not be read any more; the message has
//     the line to add;
//   - if the file lacks something that is stored now. Run the test once with
//     UPDATE_SCHEMA=1 to add it, and commit the file. Then nothing is written as long
//     as older data could not be read.
//
// All types of a program belong in one call.
func Schema(t testing.TB, types ...entity.Definition) {
	t.Helper()
	now := map[string]entity.Schema{}
	for _, def := range types {
		d, err := entity.Describe(def)
		if err != nil {
			t.Fatal(err)
		}
		now[string(d.Desc.Type)] = entity.SchemaOf(def)
	}
	committed := map[string]entity.Schema{}
	b, err := os.ReadFile(SchemaFile)
	if err == nil {
		err = json.Unmarshal(b, &committed)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("entitytest: %s: %v; restore it from version control", SchemaFile, err)
	}
	broken := unreadable(committed, now)
	for _, why := range broken {
		t.Errorf("entitytest: %s", why)
	}
	text := encodeSchema(now)
	switch {
	case len(broken) > 0 || bytes.Equal(text, b):
	case os.Getenv(updateSchema) == "":
		t.Errorf("entitytest: %s is not what the types store now:\n%s\nRun the test once with %s=1 and commit the file.",
			SchemaFile, strings.Join(differences(string(b), string(text)), "\n"), updateSchema)
	default:
		if err := os.MkdirAll(filepath.Dir(SchemaFile), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(SchemaFile, text, 0o644); err != nil {
			t.Fatal(err)
		}
		t.Logf("entitytest: %s is written; commit it", SchemaFile)
	}
}

func encodeSchema(s map[string]entity.Schema) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(s); err != nil {
		panic(err) // strings and numbers
	}
	return b.Bytes()
}

// unreadable names what was stored according to the old schemas and cannot be read
// according to the new ones.
func unreadable(before, now map[string]entity.Schema) []string {
	var broken []string
	for _, typ := range slices.Sorted(maps.Keys(before)) {
		s, ok := now[typ]
		if !ok {
			if len(before[typ].Events) > 0 {
				broken = append(broken, fmt.Sprintf("type %s is gone, with the state of its entities: give it to Schema, or delete it from %s if none of them is needed", typ, SchemaFile))
			}
			continue
		}
		if why := wrongSnapshotStep(before[typ].Snapshot, s.Snapshot); why != "" {
			broken = append(broken, "type "+typ+": "+why)
		}
		for _, e := range before[typ].Events {
			for _, why := range lost(typ, e, s.Events) {
				broken = append(broken, "type "+typ+": "+why)
			}
		}
	}
	return broken
}

// wrongSnapshotStep names a step that would never be used, because snapshots of its version
// have another form.
func wrongSnapshotStep(before, now *entity.SnapshotSchema) string {
	if before == nil || now == nil || before.Shape == "" {
		return ""
	}
	stored := maps.Clone(before.Reads)
	if stored == nil {
		stored = map[int]string{}
	}
	stored[before.Version] = before.Shape
	for _, v := range slices.Sorted(maps.Keys(now.Reads)) {
		if shape, ok := stored[v]; ok && shape != now.Reads[v] {
			return fmt.Sprintf("the step from snapshots of version %d reads another form than was stored, so it would never be used:\n\tstored %s\n\treads  %s\nGive the old struct the fields that the state had.", v, shape, now.Reads[v])
		}
	}
	return ""
}

// lost says why stored events cannot be read any more, nothing if they can.
func lost(typ string, e entity.EventSchema, events []entity.EventSchema) []string {
	var why []string
	complain := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	by := map[string]entity.EventSchema{}
	for _, now := range events {
		by[now.Name] = now
		for _, alias := range now.Aliases {
			by[alias] = now
		}
	}
	for _, name := range append([]string{e.Name}, e.Aliases...) {
		if _, ok := by[name]; !ok {
			complain("event %s was stored and is not declared any more. Keep it in Events. If only its Go type has another name now, declare\n\tentity.Event[NewName](%q)\nIf it is to be stored under another name, add\n\t.Alias(%q)", name, name, name)
		}
	}
	now, ok := by[e.Name]
	if !ok {
		return why
	}
	was := maps.Clone(e.Reads)
	if was == nil {
		was = map[int]string{}
	}
	was[e.Version] = e.Shape
	for _, v := range slices.Sorted(maps.Keys(was)) {
		reads, ok := now.Reads[v], true
		if v == now.Version {
			reads = now.Shape
		} else {
			_, ok = now.Reads[v]
		}
		switch {
		case v > now.Version:
			complain("event %s was stored in version %d, and is declared with version %d: versions only go up", e.Name, v, now.Version)
		case !ok:
			complain("event %s was stored in version %d, from which there is no step. Add to its V\n\t%s", e.Name, v, stepLine(now, v))
		case reads != was[v] && v == now.Version:
			complain("event %s has changed and still has version %d:\n\twas %s\n\tis  %s\nKeep the old struct as %sV%d, and declare\n\tentity.Event[%s](%q).V(%d, %s)",
				e.Name, v, was[v], reads, now.GoType, v, now.GoType, e.Name, v+1, strings.Join(append(steps(now), stepLine(now, v)), ", "))
		case reads != was[v]:
			complain("event %s: the step from version %d reads another form than was stored:\n\tstored %s\n\treads  %s\nGive the old struct the fields that it had.",
				e.Name, v, was[v], reads)
		}
	}
	return why
}

func steps(e entity.EventSchema) []string {
	var lines []string
	for _, v := range slices.Sorted(maps.Keys(e.Reads)) {
		lines = append(lines, stepLine(e, v))
	}
	return lines
}

func stepLine(e entity.EventSchema, version int) string {
	return fmt.Sprintf("entity.From(%d, func(old %sV%d) %s { return %s{…} })", version, e.GoType, version, e.GoType, e.GoType)
}

// differences are the lines that are in one text and not in the other.
func differences(before, now string) []string {
	old, current := strings.Split(strings.TrimSpace(before), "\n"), strings.Split(strings.TrimSpace(now), "\n")
	var lines []string
	for _, l := range old {
		if l != "" && !slices.Contains(current, l) {
			lines = append(lines, "\t- "+strings.TrimSpace(l))
		}
	}
	for _, l := range current {
		if !slices.Contains(old, l) {
			lines = append(lines, "\t+ "+strings.TrimSpace(l))
		}
	}
	return lines
}
