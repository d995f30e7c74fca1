package entitytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/sdk/entity"
)

// SchemaFile is where [Schema] keeps what the types take and store, relative to the directory of
// the test. It belongs under version control.
const SchemaFile = "testdata/schema.json"

// updateSchema is the environment variable that makes [Schema] write the file.
const updateSchema = "UPDATE_SCHEMA"

// Schema compares the commands of the types and what they store with [SchemaFile], and
// fails the test
//
//   - if data that an earlier version stored could not be read any more; the message has
//     the line to add;
//   - if commands of callers that were built with an earlier version would be refused, or
//     could take effect twice;
//   - if the file lacks something that is there now. Run the test once with
//     UPDATE_SCHEMA=1 to add it, and commit the file. Then nothing is written as long
//     as older data could not be read, or older callers would break.
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
	broken := append(unreadable(committed, now), refused(committed, now)...)
	for _, why := range broken {
		t.Errorf("entitytest: %s", why)
	}
	text := encodeSchema(now)
	switch {
	case len(broken) > 0 || bytes.Equal(text, b):
	case os.Getenv(updateSchema) == "" && errors.Is(err, fs.ErrNotExist):
		t.Errorf("entitytest: there is no %s yet. Run the test once with %s=1 and commit the file.", SchemaFile, updateSchema)
	case os.Getenv(updateSchema) == "":
		t.Errorf("entitytest: %s is not what the types take and store now:\n%s\nRun the test once with %s=1 and commit the file.",
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
		for _, why := range lostSnapshots(before[typ].Snapshot, s.Snapshot) {
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

// lostSnapshots says which snapshots cannot be read any more that may be the only state.
func lostSnapshots(before, now *entity.SnapshotSchema) (why []string) {
	switch {
	case before == nil || !before.Only:
		return nil
	case now == nil:
		return []string{"its snapshots may be all that there is of the state, because it had KeepEvents: keep SnapshotEvery"}
	}
	stored := map[int]string{before.Version: before.Shape}
	maps.Copy(stored, before.Reads)
	for _, v := range slices.Sorted(maps.Keys(stored)) {
		step, ok := now.Reads[v]
		if v == now.Version && stored[v] == now.Shape || ok && (step == stored[v] || stored[v] == "") {
			continue
		}
		why = append(why, fmt.Sprintf("snapshots of version %d are not read any more, and may be all that there is of the state, because it had KeepEvents:\n\twas %s\nKeep the old struct, and declare a step with SnapshotV(%d, entity.FromSnapshot(%d, …)).",
			v, stored[v], max(now.Version, before.Version+1), v))
	}
	return why
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

// refused names the commands of the old schemas that callers may still send and the new
// ones do not take.
func refused(before, now map[string]entity.Schema) []string {
	var broken []string
	for _, typ := range slices.Sorted(maps.Keys(before)) {
		s, ok := now[typ]
		if !ok {
			continue // callers are told by the lack of the type, and unreadable by its data
		}
		for _, c := range before[typ].Commands {
			if why := refusedCommand(c, s.Commands); why != "" {
				broken = append(broken, "type "+typ+": command "+c.Name+why)
			}
		}
	}
	return broken
}

// refusedCommand says why the callers of a command break, nothing if they do not.
func refusedCommand(c entity.CommandSchema, commands []entity.CommandSchema) string {
	i := slices.IndexFunc(commands, func(now entity.CommandSchema) bool { return now.Name == c.Name })
	if i < 0 {
		return fmt.Sprintf(" is gone, and older callers that send it are refused. Bind it again. If nobody sends it any more, delete it from %s.", SchemaFile)
	}
	now := commands[i]
	if c.ReadOnly && !now.ReadOnly {
		return " was read-only, and older callers repeat it without a key: it could take effect twice. Give the command that changes something another name."
	}
	var sent, added []string
	for _, line := range c.Input {
		if slices.Contains(now.Input, line) {
			continue
		}
		path, what, _ := strings.Cut(line, " ")
		sent = append(sent, "\t"+line+", "+readAs(path, now.Input))
		if field := fieldLine(path, what, now.Input); field != "" {
			added = append(added, "\t"+field)
		}
	}
	if len(sent) == 0 {
		return ""
	}
	advice := "Give the command with the new input another name, and keep this one."
	if len(added) == len(sent) && now.GoType != "" {
		advice = fmt.Sprintf("Add to %s\n%s\nor give the command with the new input another name.", now.GoType, strings.Join(added, "\n"))
	}
	return fmt.Sprintf(": older callers send what is not read any more, and are refused:\n%s\n%s If nobody sends that any more, delete the lines from %s.",
		strings.Join(sent, "\n"), advice, SchemaFile)
}

// readAs says what is read at a path now.
func readAs(path string, input []string) string {
	for _, line := range input {
		if at, what, _ := strings.Cut(line, " "); at == path {
			return "now " + what
		}
	}
	return "now unknown"
}

// fieldLine returns the line of Go that adds a field which is gone; empty if the field is
// still there with other content, or is not a plain field of the input itself.
func fieldLine(path, what string, input []string) string {
	name, plain := strings.CutPrefix(path, "input.")
	typ, known := map[string]string{"time": "time.Time", "bytes": "[]byte"}[what]
	if !known {
		typ = what
	}
	basic := known || slices.Contains([]string{
		"bool", "string", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
	}, what)
	if !plain || !basic || !token.IsIdentifier(name) || readAs(path, input) != "now unknown" {
		return ""
	}
	if field := strings.ToUpper(name[:1]) + name[1:]; field != name {
		return fmt.Sprintf("%s %s `json:%q`", field, typ, name)
	}
	return name + " " + typ
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
