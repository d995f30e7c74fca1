package entity_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/typepb"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
)

// status declares its values; rank does so too, as numbers. statusV1 and rankV1 are these types before they got a value.
type (
	status   string
	statusV1 string
	rank     int
	rankV1   int
)

func (status) Values() []status     { return []status{"open", "closed"} }
func (statusV1) Values() []statusV1 { return []statusV1{"open"} }
func (rank) Values() []rank         { return []rank{0, 1, 2} }
func (rankV1) Values() []rankV1     { return []rankV1{0, 1} }

type (
	judgement struct {
		Status status
		Rank   rank
		Count  map[status]int
	}
	judgementV1 struct {
		Status statusV1
		Rank   rankV1
		Count  map[statusV1]int
	}
)

// judge is an entity with such events and such a state.
type judge struct {
	Last status
	seen []any
}

// sees declares events of type T that a judge keeps.
func sees[T any](name string) entity.Declaration[judge] {
	return entity.Event(name, func(j *judge, e T) { j.seen = append(j.seen, e) })
}

func judges[E any](state func(string) *judge) entity.Type[judge] {
	return entity.Define("Judge", state,
		entity.On(entity.Command[judgement, int]("Judge", "Judge", entity.Stored()), func(_ *judge, ctx *entity.Ctx, in judgement) (int, error) {
			ctx.Persist(in)
			return 0, nil
		}), sees[E]("judged"), sees[*typepb.Field]("field"), entity.With[judge](entity.SnapshotEvery(1)))
}

// TestEnumsBelongToForms: the values that a type of constants declares, and the values of an enum of protobuf, are a part
// of the stored form: one more is another form, of events, of snapshots and of inputs.
func TestEnumsBelongToForms(t *testing.T) {
	s := instance.SchemaOf(judges[judgement](func(string) *judge { return &judge{} }))
	old := instance.SchemaOf(entity.Define("Judge", func(string) *judge { return &judge{} },
		noop[judge]("Judge"), sees[judgementV1]("judged"),
	))
	i := slices.IndexFunc(s.Events, func(e instance.EventSchema) bool { return e.Name == "judged" })
	if now, was := s.Events[i].Shape, old.Events[0].Shape; now == was || !strings.Contains(now, `Status:string enum{"closed","open"}`) || !strings.Contains(now, "Rank:int64 enum{0,1,2}") ||
		!strings.Contains(was, "Rank:int64 enum{0,1}") || !strings.Contains(now, `map[string enum{"closed","open"}]`) {
		t.Errorf("%s\n%s", now, was)
	}
	if !strings.Contains(s.Snapshot.Shape, `enum{"closed","open"}`) || !strings.Contains(s.Commands[0].Stored.Shape, `enum{"closed","open"}`) {
		t.Errorf("snapshot %s\ninput %s", s.Snapshot.Shape, s.Commands[0].Stored.Shape)
	}
	if lines := s.Commands[0].Input; !slices.Contains(lines, `input.Status value "open"`) || !slices.Contains(lines, "input.Rank value 2") {
		t.Errorf("input lines: %q", lines)
	}
	i = slices.IndexFunc(s.Events, func(e instance.EventSchema) bool { return e.Name == "field" })
	if shape := s.Events[i].Shape; !strings.Contains(shape, "1:enum{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18}") {
		t.Errorf("of a message: %s", shape)
	}
}

// TestUnknownValues: a value that the program does not declare is not stored, and is not read.
func TestUnknownValues(t *testing.T) {
	if why := unknownValues(t); why != "" {
		t.Error(why)
	}
}

func unknownValues(t *testing.T) string {
	typ := judges[judgement](func(string) *judge { return &judge{} })
	good := `{"Status":"open","Rank":2,"Count":{"open":1}}`
	for payload, want := range map[string]string{
		good: "",
		strings.Replace(good, `"open"`, `"ajar"`, 1): `field "Status" is "ajar"`,
		strings.Replace(good, `2`, `3`, 1):           `field "Rank" is 3`,
		strings.Replace(good, `"open":`, `"":`, 1):   `field "Count" has the key ""`,
	} {
		i := instanceOf(t, typ)
		err := i.Replay([]sharding.Event{{Name: "judged", Version: 1, ReadableBy: 1, Payload: []byte(payload)}})
		if want == "" && err != nil || want != "" && (!errors.Is(err, instance.ErrStored) || !strings.Contains(err.Error(), want)) {
			return payload + ": " + errText(err)
		}
	}
	b, err := proto.Marshal(&typepb.Field{Kind: 99})
	if err != nil {
		t.Fatal(err)
	}
	if err := instanceOf(t, typ).Replay([]sharding.Event{{Name: "field", Version: 1, ReadableBy: 1, Encoding: sharding.Protobuf, Payload: b}}); !errors.Is(err, instance.ErrStored) || !strings.Contains(err.Error(), "unknown value 99") {
		return "a message: " + errText(err)
	}
	persist := entity.Define("Judge", func(string) *judge { return &judge{} },
		entity.On(entity.Command[struct{}, int]("Judge", "Persist"), func(_ *judge, ctx *entity.Ctx, _ struct{}) (int, error) {
			ctx.Persist(judgement{Status: "ajar"})
			return 0, nil
		}),
		sees[judgement]("judged"),
	)
	done, failed := instanceOf(t, persist).Run(t.Context(), time.Now(), &turn.Run{Env: &sharding.Envelope{Command: "Persist"}}, nil)
	if done.Reply.Outcome != sharding.NotApplied || !strings.Contains(errText(failed), `"ajar"`) || strings.Contains(errText(failed), "without a new version") {
		return "persisted: " + errText(failed)
	}
	return ""
}

func errText(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

// dept has values that package json writes with escapes. level is stored in base64, as all lists of bytes are.
type (
	dept  string
	level uint8
)

func (dept) Values() []dept   { return []dept{"R&D", `"staff"`} }
func (level) Values() []level { return []level{1, 2} }

// TestValuesInOtherForms: the values of a type are compared also where package json writes them in another way: as a
// key, in quotes and in base64.
func TestValuesInOtherForms(t *testing.T) {
	type form struct {
		By     map[dept]int
		Rank   rank    `json:",string"`
		Maybe  *rank   `json:",string"`
		Status status  `json:",string"`
		Levels []level `json:"levels"`
	}
	typ := entity.Define("Judge", func(string) *judge { return &judge{} },
		entity.On(entity.Command[form, int]("Judge", "Take"), func(_ *judge, ctx *entity.Ctx, in form) (int, error) {
			ctx.Persist(in)
			return 0, nil
		}),
		sees[form]("formed"),
	)
	two := rank(2)
	good, err := json.Marshal(form{By: map[dept]int{"R&D": 1, `"staff"`: 2}, Rank: 2, Maybe: &two, Status: "open", Levels: []level{1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, want string }{
		{},
		{`"Maybe":"2"`, `"Maybe":null`, ""},
		{`R\u0026D`, `R\u0026E`, `field "By" has the key "R&E"`},
		{`"Rank":"2"`, `"Rank":"3"`, `field "Rank" is 3`},
		{`"Maybe":"2"`, `"Maybe":"3"`, `field "Maybe" is 3`},
		{`"\"open\""`, `"\"ajar\""`, `field "Status" is "ajar"`},
		{`"AQI="`, `"AQM="`, `field "levels[]" is 3`},
	} {
		payload, want := strings.Replace(string(good), c.from, c.to, 1), c.want
		if payload == string(good) && c.from != "" {
			t.Fatalf("%s is not in %s", c.from, good)
		}
		err := instanceOf(t, typ).Replay([]sharding.Event{{Name: "formed", Version: 1, ReadableBy: 1, Payload: []byte(payload)}})
		if want == "" && err != nil || want != "" && (!errors.Is(err, instance.ErrStored) || !strings.Contains(err.Error(), want)) {
			t.Errorf("stored %s: %s, want %s", payload, errText(err), want)
		}
		_, refusal := instance.CheckInput(typ, &sharding.Envelope{Command: "Take", Payload: []byte(payload)}, func(f func()) { f() })
		if want == "" && refusal != nil || want != "" && (refusal == nil || !strings.Contains(refusal.Message, want)) {
			t.Errorf("sent %s: %v, want %s", payload, refusal, want)
		}
	}
	// Callers may send a list of numbers.
	for list, want := range map[string]string{"[1,2]": "", "[1,3]": `field "levels[]" is 3`} {
		payload := strings.Replace(string(good), `"AQI="`, list, 1)
		_, refusal := instance.CheckInput(typ, &sharding.Envelope{Command: "Take", Payload: []byte(payload)}, func(f func()) { f() })
		if want == "" && refusal != nil || want != "" && (refusal == nil || !strings.Contains(refusal.Message, want)) {
			t.Errorf("sent %s: %v, want %s", payload, refusal, want)
		}
	}
	s := instance.SchemaOf(typ)
	if shape := s.Events[0].Shape; !strings.Contains(shape, "levels:bytes enum{1,2}") {
		t.Error(shape)
	}
	lines := s.Commands[0].Input
	for _, want := range []string{`input.By map by string`, `input.By key "R\u0026D"`, `input.Rank quoted int`, `input.Rank value 2`, `input.levels bytes`, `input.levels[] value 2`} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %s in %q", want, lines)
		}
	}
}
