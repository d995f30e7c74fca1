package entitytest

import (
	"bytes"
	"cmp"
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

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/sdk/entity"
)

// SchemaFile is the file in which [Schema] keeps what the types take and store, relative to the directory
// of the test. It belongs under version control.
const SchemaFile = "testdata/schema.json"

// updateSchema is the environment variable that makes [Schema] write the file. Instead of 1 it may
// hold the names of complaints, separated by commas: these are accepted.
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
// A complaint may be intended: no caller sends a command any more, or none of the stored data is left. Then
// the message has a name for it, such as Cart.Add.callers. Run the test once with that in UPDATE_SCHEMA,
// and the file is written as if it had not complained.
//
// All types of a program belong in one call.
func Schema(t testing.TB, types ...entity.Definition) {
	t.Helper()
	now := map[string]instance.Schema{}
	for _, def := range types {
		now[instance.TypeOf(def).Name] = instance.SchemaOf(def)
	}
	committed := map[string]instance.Schema{}
	b, err := os.ReadFile(SchemaFile)
	if err == nil {
		err = json.Unmarshal(b, &committed)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("entitytest: %s: %v; restore it from version control", SchemaFile, err)
	}
	accepted := strings.Split(os.Getenv(updateSchema), ",")
	broken := append(unreadable(committed, now), refused(committed, now)...)
	broken = slices.DeleteFunc(broken, func(c complaint) bool { return c.name != "" && slices.Contains(accepted, c.name) })
	for _, c := range broken {
		t.Errorf("entitytest: %s", c)
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

func encodeSchema(s map[string]instance.Schema) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(s); err != nil {
		panic(err) // strings and numbers
	}
	return b.Bytes()
}

// complaint is something that a schema breaks. One with a name can be accepted.
type complaint struct {
	text string
	// when is the condition under which it may be accepted, by its name.
	when, name string
}

func (c complaint) String() string {
	if c.name == "" {
		return c.text
	}
	return fmt.Sprintf("%s\nIf %s, accept that by running the test once like this:\n\t%s=%s go test .", c.text, c.when, updateSchema, c.name)
}

// unreadable names what was stored according to the old schemas and cannot be read
// according to the new ones.
func unreadable(before, now map[string]instance.Schema) (broken []complaint) {
	complain := func(typ, text string) { broken = append(broken, complaint{text: "type " + typ + ": " + text}) }
	for _, typ := range slices.Sorted(maps.Keys(before)) {
		s, ok := now[typ]
		if !ok {
			if len(before[typ].Events) > 0 || slices.ContainsFunc(before[typ].Commands, func(c instance.CommandSchema) bool { return c.Stored != nil || c.Answers }) {
				broken = append(broken, complaint{fmt.Sprintf("type %s is gone, with the state of its entities: give it to Schema.", typ), "none of them is needed", typ + ".entities"})
			}
			continue
		}
		if old, rule := before[typ].ShardBy, s.ShardBy; old != rule {
			const whole = "the whole id"
			complain(typ, fmt.Sprintf("%s decides about the shard of an entity now, and %s did before (ShardBy): the rule never changes, because stored data is found by it. Declare the earlier rule, or give the type another name.",
				cmp.Or(rule, whole), cmp.Or(old, whole)))
		}
		if why := wrongSnapshotStep(before[typ].Snapshot, s.Snapshot); why != "" {
			complain(typ, why)
		}
		for _, why := range lostSnapshots(before[typ].Snapshot, s.Snapshot) {
			complain(typ, why)
		}
		for _, e := range before[typ].Events {
			gone, why := lost(eventKind(e), kinds(s.Events, eventKind))
			for _, text := range append(gone, why...) {
				complain(typ, text)
			}
		}
		for _, c := range before[typ].Commands {
			gone, why := lost(inputKind(typ)(c), kinds(s.Commands, inputKind(typ)))
			for _, text := range gone {
				broken = append(broken, complaint{"type " + typ + ": " + text, "none of them is left (roost entity reminders, roost entity sends)", typ + "." + c.Name + ".inputs"})
			}
			for _, text := range why {
				complain(typ, text)
			}
		}
	}
	return broken
}

// kind is something that is stored under a name: a kind of event, or the inputs of a command.
type kind struct {
	name    string
	aliases []string
	// stored is nil for a command whose inputs are not stored.
	stored *instance.StoredSchema
	goType string
	// what names the kind, declare is the line of Go that declares it with its type as %s, and gone the
	// remedy if it is gone, with its name as %[1]q.
	what, declare, gone string
}

func eventKind(e instance.EventSchema) kind {
	return kind{
		name: e.Name, aliases: e.Aliases, stored: &e.StoredSchema, goType: e.GoType, what: "event " + e.Name,
		declare: fmt.Sprintf("entity.Event(%q, func(state *…, e %%s) {…}", e.Name),
		gone: "event %[1]s was stored and is not declared any more. Declare it again. If only its Go type has another name now, declare\n\tentity.Event(%[1]q, …)\n" +
			"If it is to be stored under another name, add\n\tentity.Alias(%[1]q)",
	}
}

func inputKind(typ string) func(instance.CommandSchema) kind {
	return func(c instance.CommandSchema) kind {
		return kind{
			name: c.Name, aliases: c.Aliases, stored: c.Stored, goType: c.GoType, what: "input of command " + c.Name,
			declare: fmt.Sprintf("entity.Command[%%s, …](%q, %q, entity.Stored()", typ, c.Name),
			gone: "inputs of command %[1]s were stored, for reminders or sends, and are not read any more. Keep the command, and its Stored. " +
				"If it has another name now, add to it\n\tentity.Alias(%[1]q)",
		}
	}
}

func kinds[S any](all []S, of func(S) kind) (list []kind) {
	for _, s := range all {
		list = append(list, of(s))
	}
	return list
}

// wrongSnapshotStep names a step that would never be used, because snapshots of its version
// have another form.
func wrongSnapshotStep(before, now *instance.SnapshotSchema) string {
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

// lostSnapshots describes the snapshots that cannot be read any more and may be the only state.
func lostSnapshots(before, now *instance.SnapshotSchema) (why []string) {
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
		why = append(why, fmt.Sprintf("snapshots of version %d are not read any more, and may be all that there is of the state, because it had KeepEvents:\n\twas %s\nKeep the old struct, and declare a step with entity.SnapshotV(%d, entity.FromSnapshot(%d, …)).",
			v, stored[v], max(now.Version, before.Version+1), v))
	}
	return why
}

// lost returns the names of a kind that are gone, and other reasons why its stored data cannot be read any
// more; nothing if it can.
func lost(old kind, all []kind) (gone, why []string) {
	if old.stored == nil {
		return nil, nil
	}
	complain := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	by := map[string]kind{}
	for _, now := range all {
		for _, name := range append([]string{now.name}, now.aliases...) {
			if now.stored != nil {
				by[name] = now
			}
		}
	}
	for _, name := range append([]string{old.name}, old.aliases...) {
		if _, ok := by[name]; !ok {
			gone = append(gone, fmt.Sprintf(old.gone, name))
		}
	}
	now, ok := by[old.name]
	if !ok {
		return gone, nil
	}
	was := maps.Clone(old.stored.Reads)
	if was == nil {
		was = map[int]string{}
	}
	was[old.stored.Version] = old.stored.Shape
	for _, v := range slices.Sorted(maps.Keys(was)) {
		reads, ok := now.stored.Reads[v], true
		if v == now.stored.Version {
			reads = now.stored.Shape
		} else {
			_, ok = now.stored.Reads[v]
		}
		switch {
		case v > now.stored.Version:
			complain("%s was stored in version %d, and is declared with version %d: versions only go up", old.what, v, now.stored.Version)
		case !ok:
			complain("%s was stored in version %d, and no step leads from there. Add to its entity.V\n\t%s", old.what, v, stepLine(now, v))
		case reads != was[v] && v == now.stored.Version:
			complain("%s has changed and still has version %d:\n\twas %s\n\tis  %s\nKeep the old struct as %sV%d, and declare\n\t%s, entity.V(%d, %s))",
				old.what, v, was[v], reads, now.goType, v, fmt.Sprintf(now.declare, now.goType), v+1, strings.Join(append(steps(now), stepLine(now, v)), ", "))
		case reads != was[v]:
			complain("%s: the step from version %d reads another form than was stored:\n\tstored %s\n\treads  %s\nGive the old struct the fields that it had.",
				old.what, v, was[v], reads)
		}
	}
	return gone, why
}

// refused names the commands of the old schemas that callers may still send and the new
// ones do not take.
func refused(before, now map[string]instance.Schema) (broken []complaint) {
	for _, typ := range slices.Sorted(maps.Keys(before)) {
		s, ok := now[typ]
		if !ok {
			continue // callers notice that the type is missing, and unreadable reports its data
		}
		for _, c := range before[typ].Commands {
			for _, name := range append([]string{c.Name}, c.Aliases...) {
				if why := refusedCommand(name, c, s.Commands); why.text != "" {
					why.text = "type " + typ + ": command " + name + why.text
					if why.when != "" {
						why.name = typ + "." + c.Name + ".callers"
					}
					broken = append(broken, why)
					break
				}
			}
		}
	}
	return broken
}

// refusedCommand describes why the callers of a command break that send it under a name, nothing if they do
// not.
func refusedCommand(name string, c instance.CommandSchema, commands []instance.CommandSchema) complaint {
	const unused = "no caller sends that any more"
	i := slices.IndexFunc(commands, func(now instance.CommandSchema) bool {
		return now.Name == name || slices.Contains(now.Aliases, name)
	})
	switch {
	case i < 0 && c.Answers:
		return complaint{text: fmt.Sprintf(" is gone, and the answers that it is to take would wait for it forever. Bind it again. If it has another name now, add to it\n\tentity.Alias(%q)", name), when: "no answer to it is on its way (roost entity sends)"}
	case i < 0:
		return complaint{text: fmt.Sprintf(" is gone, and older callers that send it are refused. Bind it again. If it has another name now, add to it\n\tentity.Alias(%q)", name), when: unused}
	}
	now := commands[i]
	if c.Answers && !now.Answers {
		return complaint{text: " took answers to what the entity has sent, and does not take them any more. Give the command with the other input another name."}
	}
	if c.ReadOnly && !now.ReadOnly {
		return complaint{text: " was read-only, and older callers repeat it without a key: it could take effect twice. Give the command that changes something another name.", when: unused}
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
		return complaint{}
	}
	advice := "Give the command with the new input another name, and keep this one."
	if len(added) == len(sent) && now.GoType != "" {
		advice = fmt.Sprintf("Add to %s\n%s\nor give the command with the new input another name.", now.GoType, strings.Join(added, "\n"))
	}
	if now.Stored != nil {
		advice += " That is about callers only: the command's stored inputs of reminders and sends have versions."
	}
	return complaint{text: fmt.Sprintf(": older callers send what is not read any more, and are refused:\n%s\n%s", strings.Join(sent, "\n"), advice), when: unused}
}

// readAs describes the type that a path is read as now.
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

func steps(k kind) []string {
	var lines []string
	for _, v := range slices.Sorted(maps.Keys(k.stored.Reads)) {
		lines = append(lines, stepLine(k, v))
	}
	return lines
}

func stepLine(k kind, version int) string {
	return fmt.Sprintf("entity.From(%d, func(old %sV%d) %s { return %s{…} })", version, k.goType, version, k.goType, k.goType)
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
