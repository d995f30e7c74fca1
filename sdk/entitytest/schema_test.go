package entitytest

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/sdk/entity"
)

type (
	schemaBox struct{ N int }
	addedV1   struct{ N int }
	added     struct{ N, Weight int }
	heavier   struct{ N, Weight, Size int }
)

func schemaBoxes(declarations ...entity.Declaration[schemaBox]) entity.Type[schemaBox] {
	noop := entity.Command[int, int]("Box", "Noop")
	return entity.Define("Box", func(string) *schemaBox { return &schemaBox{} }, append([]entity.Declaration[schemaBox]{
		entity.On(noop, func(*schemaBox, *entity.Ctx, int) (int, error) { return 0, nil }),
		entity.With[schemaBox](entity.SnapshotEvery(10)),
	}, declarations...)...)
}

// kindOf declares events of type T.
func kindOf[T any](name string, options ...entity.EventOption) entity.Declaration[schemaBox] {
	return entity.Event(name, func(*schemaBox, T) {}, options...)
}

func schemaOf(def entity.Definition) map[string]instance.Schema {
	return map[string]instance.Schema{"Box": instance.SchemaOf(def)}
}

// TestUnreadable: what old data would not survive is named with the line to add, and
// nothing else is.
func TestUnreadable(t *testing.T) {
	fromV1 := entity.From(1, func(o addedV1) added { return added{N: o.N} })
	with := entity.With[schemaBox]
	v1 := schemaBoxes(kindOf[addedV1]("added"))
	v2 := schemaBoxes(kindOf[added]("added", entity.V(2, fromV1)))
	for name, c := range map[string]struct {
		before, now entity.Definition
		want        []string // nothing: all can be read
	}{
		"the same":           {v1, v1, nil},
		"another Go type":    {v1, schemaBoxes(kindOf[struct{ N int }]("added")), nil},
		"a step":             {v1, v2, nil},
		"one more event":     {v1, schemaBoxes(kindOf[addedV1]("added"), kindOf[heavier]("more")), nil},
		"renamed, and alias": {v1, schemaBoxes(kindOf[addedV1]("put", entity.Alias("added"))), nil},
		"snapshot":           {v1, schemaBoxes(kindOf[addedV1]("added"), with(entity.SnapshotV(2))), nil},
		"snapshot, trimmed":  {schemaBoxes(with(entity.KeepEvents(1))), schemaBoxes(with(entity.KeepEvents(1), entity.SnapshotV(2))), []string{"snapshots of version 1 are not read any more", "SnapshotV(2, entity.FromSnapshot(1, "}},
		"its step":           {schemaBoxes(with(entity.KeepEvents(1))), schemaBoxes(with(entity.SnapshotV(2, entity.FromSnapshot(1, func(schemaBox, *schemaBox) {})))), nil},
		"trims from now on":  {schemaBoxes(), schemaBoxes(with(entity.KeepEvents(1), entity.SnapshotV(2))), nil},
		"no snapshots":       {schemaBoxes(with(entity.KeepEvents(1))), schemaBoxes(with(entity.SnapshotEvery(0))), []string{"keep SnapshotEvery"}},
		"a field more":       {v1, schemaBoxes(kindOf[added]("added")), []string{"has changed and still has version 1", "was {N:int64}", `entity.Event("added", func(state *…, e added) {…}, entity.V(2, entity.From(1, func(old addedV1) added { return added{…} })))`}},
		"a field more again": {v2, schemaBoxes(kindOf[heavier]("added", entity.V(2, entity.From(1, func(o addedV1) heavier { return heavier{} })))),
			[]string{`entity.Event("added", func(state *…, e heavier) {…}, entity.V(3, entity.From(1, func(old heavierV1) heavier { return heavier{…} }), entity.From(2, func(old heavierV2)`}},
		"no step":       {v1, schemaBoxes(kindOf[added]("added", entity.V(2))), []string{"no step leads from there", "entity.From(1, func(old addedV1) added"}},
		"step lost":     {v2, schemaBoxes(kindOf[added]("added", entity.V(2))), []string{"stored in version 1, and no step leads from there"}},
		"a wrong step":  {v1, schemaBoxes(kindOf[added]("added", entity.V(2, entity.From(1, func(o heavier) added { return added{} })))), []string{"reads another form than was stored"}},
		"version back":  {v2, v1, []string{"versions only go up"}},
		"renamed":       {v1, schemaBoxes(kindOf[addedV1]("put")), []string{"is not declared any more", `entity.Alias("added")`}},
		"alias gone":    {schemaBoxes(kindOf[addedV1]("put", entity.Alias("added"))), schemaBoxes(kindOf[addedV1]("put")), []string{"event added was stored"}},
		"event gone":    {v1, schemaBoxes(), []string{"is not declared any more"}},
		"the same rule": {schemaBoxes(with(entity.ShardBy(entity.Prefix("/")))), schemaBoxes(with(entity.ShardBy(entity.Part("/", 0)))), nil},
		"a rule from now on": {schemaBoxes(), schemaBoxes(with(entity.ShardBy(entity.Prefix("/")))), []string{
			`type Box: the prefix up to "/" decides about the shard of an entity now, and the whole id did before (ShardBy)`}},
		"another rule": {schemaBoxes(with(entity.ShardBy(entity.Prefix("/")))), schemaBoxes(with(entity.ShardBy(entity.Part("-", 1)))), []string{
			`part 1 at "-" decides about the shard of an entity now, and the prefix up to "/" did before`}},
		"no rule any more": {schemaBoxes(with(entity.ShardBy(entity.Prefix("/")))), schemaBoxes(), []string{`the whole id decides about the shard of an entity now`}},
	} {
		got := joined(unreadable(schemaOf(c.before), schemaOf(c.now)))
		if (got == "") != (c.want == nil) {
			t.Errorf("%s: %q", name, got)
		}
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: want %q in\n%s", name, want, got)
			}
		}
	}
	if got := unreadable(schemaOf(v1), nil); len(got) != 1 || !strings.Contains(got[0].String(), "type Box is gone") {
		t.Errorf("a type that is gone: %q", got)
	}
}

type (
	crateV1 struct{ N int }
	crateV2 struct{ N, M int }
)

// TestSnapshotSteps: a step that no stored snapshot fits is a mistake.
func TestSnapshotSteps(t *testing.T) {
	with := entity.With[schemaBox]
	v1 := schemaBoxes(kindOf[addedV1]("added"))
	right := schemaBoxes(kindOf[addedV1]("added"), with(entity.SnapshotV(2, entity.FromSnapshot(1, func(crateV1, *schemaBox) {}))))
	wrong := schemaBoxes(kindOf[addedV1]("added"), with(entity.SnapshotV(2, entity.FromSnapshot(1, func(crateV2, *schemaBox) {}))))
	if got := unreadable(schemaOf(v1), schemaOf(right)); len(got) > 0 {
		t.Errorf("a step that fits: %q", got)
	}
	if got := unreadable(schemaOf(v1), schemaOf(wrong)); len(got) != 1 || !strings.Contains(got[0].String(), "would never be used") {
		t.Errorf("a step that fits nothing: %q", got)
	}
}

type (
	addIn     struct{ SKU string }
	addMore   struct{ SKU, Note string }
	addOther  struct{ Article string }
	addNumber struct{ SKU int }
	addLower  struct {
		N int `json:"n"`
	}
	addLowerIn struct {
		SKU *string
		N   int `json:"n"`
	}
	line       struct{ At time.Time }
	addList    struct{ Lines []line }
	addListMap struct{ Lines map[string]line }
)

func takes[In any](name string) entity.Definition {
	c := entity.Command[In, int]("Box", name)
	return entity.Define("Box", func(string) *schemaBox { return &schemaBox{} },
		entity.On(c, func(*schemaBox, *entity.Ctx, In) (int, error) { return 0, nil }))
}

func reads[In any](name string) entity.Definition {
	c := entity.Command[In, int]("Box", name, entity.ReadOnly())
	return entity.Define("Box", func(string) *schemaBox { return &schemaBox{} },
		entity.On(c, func(*schemaBox, *entity.Ctx, In) (int, error) { return 0, nil }))
}

// TestRefused: what older callers send and is not taken any more is named, and nothing
// else is.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		before, now entity.Definition
		want        []string // nothing: all is taken
	}{
		"the same":          {takes[addIn]("Add"), takes[addIn]("Add"), nil},
		"a field more":      {takes[addIn]("Add"), takes[addMore]("Add"), nil},
		"another Go type":   {takes[addIn]("Add"), takes[struct{ SKU string }]("Add"), nil},
		"may be null":       {takes[addLower]("Add"), takes[addLowerIn]("Add"), nil},
		"read-only now":     {takes[addIn]("Add"), reads[addIn]("Add"), nil},
		"a message":         {takes[*durationpb.Duration]("Add"), takes[*durationpb.Duration]("Add"), nil},
		"renamed":           {takes[addIn]("Add"), takes[addIn]("Put"), []string{"command Add is gone", "no caller sends that any more", "UPDATE_SCHEMA=Box.Add.callers go test ."}},
		"field gone":        {takes[addMore]("Add"), takes[addIn]("Add"), []string{"input.Note string, now unknown", "Add to addIn\n\tNote string\n"}},
		"field renamed":     {takes[addIn]("Add"), takes[addOther]("Add"), []string{"Add to addOther\n\tSKU string\n"}},
		"field retyped":     {takes[addIn]("Add"), takes[addNumber]("Add"), []string{"input.SKU string, now int64", "another name, and keep this one"}},
		"a tag":             {takes[addLower]("Add"), takes[addIn]("Add"), []string{"Add to addIn\n\tN int64 `json:\"n\"`\n"}},
		"no object":         {takes[addIn]("Add"), takes[string]("Add"), []string{"input object, now string", "input.SKU string, now unknown"}},
		"list of another":   {takes[addList]("Add"), takes[addListMap]("Add"), []string{"input.Lines list, now map by string"}},
		"field of a list":   {takes[addList]("Add"), takes[struct{ Lines []struct{} }]("Add"), []string{"input.Lines[].At time, now unknown"}},
		"another message":   {takes[*durationpb.Duration]("Add"), takes[*timestamppb.Timestamp]("Add"), []string{"input google.protobuf.Duration, now google.protobuf.Timestamp"}},
		"no more read-only": {reads[addIn]("Add"), takes[addIn]("Add"), []string{"was read-only", "take effect twice"}},
	} {
		got := joined(refused(schemaOf(c.before), schemaOf(c.now)))
		if (got == "") != (c.want == nil) {
			t.Errorf("%s: %q", name, got)
		}
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: want %q in\n%s", name, want, got)
			}
		}
	}
}

func stores[In any](name string, options ...entity.CommandOption) entity.Definition {
	c := entity.Command[In, int]("Box", name, append(options, entity.Stored())...)
	return entity.Define("Box", func(string) *schemaBox { return &schemaBox{} },
		entity.On(c, func(*schemaBox, *entity.Ctx, In) (int, error) { return 0, nil }))
}

func answers[Out any](name string, aliases ...string) entity.Definition {
	c := entity.Command[entity.Answer[Out], int]("Box", name, entity.Alias(aliases...))
	return entity.Define("Box", func(string) *schemaBox { return &schemaBox{} },
		entity.On(c, func(*schemaBox, *entity.Ctx, entity.Answer[Out]) (int, error) { return 0, nil }))
}

// TestStoredInputsOfSchema: inputs that are stored are data like events, and the name of a command
// that takes answers is, too.
func TestStoredInputsOfSchema(t *testing.T) {
	v1 := stores[addIn]("Add")
	step := entity.From(1, func(o addIn) addMore { return addMore{SKU: o.SKU} })
	for name, c := range map[string]struct {
		before, now entity.Definition
		want        []string // nothing: all is read
	}{
		"the same":              {v1, v1, nil},
		"stored from now on":    {takes[addIn]("Add"), v1, nil},
		"a field more":          {v1, stores[addMore]("Add"), []string{"input of command Add has changed and still has version 1", "Keep the old struct as addMoreV1", `entity.Command[addMore, …]("Box", "Add", entity.Stored(), entity.V(2, entity.From(1, func(old addMoreV1) addMore`}},
		"a step":                {v1, stores[addMore]("Add", entity.V(2, step)), nil},
		"a wrong step":          {v1, stores[addMore]("Add", entity.V(2, entity.From(1, func(addLower) addMore { return addMore{} }))), []string{"input of command Add: the step from version 1 reads another form than was stored"}},
		"no step":               {v1, stores[addMore]("Add", entity.V(2)), []string{"input of command Add was stored in version 1, and no step leads from there"}},
		"not stored any more":   {v1, takes[addIn]("Add"), []string{"inputs of command Add were stored", "Keep the command, and its Stored", "none of them is left", "UPDATE_SCHEMA=Box.Add.inputs"}},
		"renamed":               {v1, stores[addIn]("Put"), []string{"inputs of command Add were stored", `entity.Alias("Add")`, "older callers"}},
		"renamed, and alias":    {v1, stores[addIn]("Put", entity.Alias("Add")), nil},
		"alias gone":            {stores[addIn]("Put", entity.Alias("Add")), stores[addIn]("Put"), []string{"inputs of command Add were stored", "command Add is gone"}},
		"answers":               {answers[string]("Got"), answers[int]("Got"), nil},
		"answers, renamed":      {answers[string]("Got"), answers[string]("Take"), []string{"command Got is gone", "would wait for it", `entity.Alias("Got")`}},
		"answers, and alias":    {answers[string]("Got"), answers[string]("Take", "Got"), nil},
		"answers, now commands": {answers[string]("Got"), takes[string]("Got"), []string{"does not take them any more"}},
	} {
		got := joined(append(unreadable(schemaOf(c.before), schemaOf(c.now)), refused(schemaOf(c.before), schemaOf(c.now))...))
		if (got == "") != (c.want == nil) {
			t.Errorf("%s: %q", name, got)
		}
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: want %q in\n%s", name, want, got)
			}
		}
	}
	for name, def := range map[string]entity.Definition{"inputs": v1, "answers": answers[string]("Got")} {
		if got := unreadable(schemaOf(def), nil); len(got) != 1 || !strings.Contains(got[0].String(), "type Box is gone") {
			t.Errorf("a type with %s that is gone: %q", name, got)
		}
	}
	if s := instance.SchemaOf(v1).Commands[0]; s.Stored == nil || s.Stored.Shape != "{SKU:string}" || s.Stored.Version != 1 {
		t.Errorf("%+v", s)
	}
}

// TestSchemaFile: the file is compared, written when asked for, and never when data would
// be lost.
func TestSchemaFile(t *testing.T) {
	t.Chdir(t.TempDir())
	v1 := schemaBoxes(kindOf[addedV1]("added"))
	check := func(def entity.Definition) string {
		r := &recorder{TB: t}
		Schema(r, def)
		return r.text
	}
	if got := check(v1); !strings.Contains(got, "there is no testdata/schema.json yet. Run the test once with UPDATE_SCHEMA=1") {
		t.Errorf("no file: %s", got)
	}
	t.Setenv(updateSchema, "1")
	if got := check(v1); got != "" {
		t.Errorf("writing: %s", got)
	}
	written, err := os.ReadFile(SchemaFile)
	if err != nil {
		t.Fatal(err)
	}
	var back map[string]instance.Schema
	if err := json.Unmarshal(written, &back); err != nil || back["Box"].Events[0].Shape != "{N:int64}" || back["Box"].Snapshot == nil {
		t.Errorf("%s: %v", written, err)
	}
	if got := check(schemaBoxes(kindOf[added]("added"))); !strings.Contains(got, "V(2, ") {
		t.Errorf("a change that loses data: %s", got)
	}
	if now, _ := os.ReadFile(SchemaFile); !reflect.DeepEqual(now, written) {
		t.Errorf("a change that loses data is written: %s", now)
	}
	t.Setenv(updateSchema, "")
	if got := check(v1); got != "" {
		t.Errorf("unchanged: %s", got)
	}
	if got := check(schemaBoxes(kindOf[addedV1]("put", entity.Alias("added")))); !strings.Contains(got, `+ "name": "put"`) || !strings.Contains(got, "UPDATE_SCHEMA=1") {
		t.Errorf("a change that is fine: %s", got)
	}
}

// recorder is a test that takes down its errors.
type recorder struct {
	testing.TB
	text string
}

func (r *recorder) Errorf(format string, args ...any) { r.text += fmt.Sprintf(format, args...) + "\n" }
func (r *recorder) Logf(string, ...any)               {}
func (r *recorder) Helper()                           {}

// TestAcceptedChanges: what is meant can be accepted by its name, and nothing else is. So a renamed
// field of an input that only reminders use needs a version and a step, and one word.
func TestAcceptedChanges(t *testing.T) {
	t.Chdir(t.TempDir())
	check := func(update string, def ...entity.Definition) string {
		t.Setenv(updateSchema, update)
		r := &recorder{TB: t}
		Schema(r, def...)
		return r.text
	}
	type renamed struct{ Article string }
	other := entity.Define("Other", func(string) *schemaBox { return &schemaBox{} },
		entity.On(entity.Command[int, int]("Other", "Look"), func(*schemaBox, *entity.Ctx, int) (int, error) { return 0, nil }),
		entity.With[schemaBox](entity.Volatile()),
	)
	step := entity.From(1, func(o addIn) renamed { return renamed{Article: o.SKU} })
	withStep := stores[renamed]("Add", entity.V(2, step))
	for _, x := range []struct {
		update string
		types  []entity.Definition
		want   string // in what it complains of; empty: nothing
	}{
		{"1", []entity.Definition{stores[addIn]("Add"), other}, ""},
		{"1", []entity.Definition{withStep, other}, "UPDATE_SCHEMA=Box.Add.callers go test ."},
		{"Box.Put.callers", []entity.Definition{withStep, other}, "older callers"},
		{"Box.Add.callers", []entity.Definition{stores[renamed]("Add"), other}, "still has version 1"}, // stored data is another matter
		{"Other.Add.callers,Box.Add.callers", []entity.Definition{withStep, other}, ""},
		{"", []entity.Definition{withStep, other}, ""},
		{"1", []entity.Definition{other}, "UPDATE_SCHEMA=Box.entities"},
		{"Box.entities", []entity.Definition{other}, ""},
		{"", []entity.Definition{other}, ""},
	} {
		if got := check(x.update, x.types...); (got == "") != (x.want == "") || !strings.Contains(got, x.want) {
			t.Errorf("UPDATE_SCHEMA=%s: %q, want %q", x.update, got, x.want)
		}
	}
}

func joined(list []complaint) string {
	var texts []string
	for _, c := range list {
		texts = append(texts, c.String())
	}
	return strings.Join(texts, "\n")
}
