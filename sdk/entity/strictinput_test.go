package entity_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/typepb"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
)

// asked is an input with every way to write a thing twice.
type asked struct {
	Delta int             `json:"delta"`
	Text  string          `json:"text"`
	Inner []line          `json:"inner"`
	By    map[string]int  `json:"by"`
	ByNo  map[int]bool    `json:"byNo"`
	Any   any             `json:"any"`
	Raw   json.RawMessage `json:"raw"`
	Pair  [2]int          `json:"pair"`
	Loose int
}

type line struct {
	Cents int `json:"cents"`
}

func askable() entity.Definition {
	return entity.Define("Askable", func(string) *struct{} { return &struct{}{} },
		entity.On(entity.Command[asked, int]("Askable", "Ask"), func(*struct{}, *entity.Ctx, asked) (int, error) { return 0, nil }),
		entity.On(entity.Command[*typepb.Field, int]("Askable", "Field"), func(*struct{}, *entity.Ctx, *typepb.Field) (int, error) { return 0, nil }),
		entity.On(entity.Command[*structpb.Struct, int]("Askable", "Struct"), func(*struct{}, *entity.Ctx, *structpb.Struct) (int, error) { return 0, nil }),
		entity.On(entity.Command[status, int]("Askable", "Status"), func(*struct{}, *entity.Ctx, status) (int, error) { return 0, nil }),
		entity.With[struct{}](entity.Volatile()),
	)
}

// TestStrictInputs: an input that two decoders would read in two ways is refused, and the refusal names the field.
func TestStrictInputs(t *testing.T) {
	if why := strictInputs(t); why != "" {
		t.Error(why)
	}
}

func strictInputs(t *testing.T) string {
	for _, c := range []struct{ command, payload, want string }{
		{"Ask", `{"delta":5,"text":"\ud83d\ude00","inner":[{"cents":1}],"by":{"b":1,"B":2},"byNo":{"-1":true},"any":{"x":1},"raw":{"x":[1]},"pair":[1,2],"Loose":1}`, ""},
		{"Ask", `{}`, ""},
		{"Ask", `null`, ""},
		{"Ask", `{"delta":null,"inner":null,"pair":null}`, ""},
		{"Ask", `{"delta":5,"Delta":7}`, `there is no field "Delta"; it is called "delta"`},
		{"Ask", `{"delta":5,"dELTa":-6}`, `there is no field "dELTa"; it is called "delta"`},
		{"Ask", `{"Delta":7}`, `there is no field "Delta"; it is called "delta"`},
		{"Ask", `{"loose":7}`, `there is no field "loose"; it is called "Loose"`},
		{"Ask", `{"delta":5,"delta":5}`, `field "delta" is there twice`},
		{"Ask", `{"delta":5,"d\u0065lta":5}`, `field "delta" is there twice`},
		{"Ask", `{"inner":[{"Cents":1}]}`, `there is no field "inner[].Cents"; it is called "cents"`},
		{"Ask", `{"inner":[{"cents":1,"cents":2}]}`, `field "inner[].cents" is there twice`},
		{"Ask", `{"by":{"a":1,"a":2}}`, `field "by" has the key "a" twice`},
		{"Ask", `{"byNo":{"01":true}}`, `field "byNo" has the key "01"`},
		{"Ask", `{"any":{"x":1,"x":2}}`, `field "any" has the key "x" twice`},
		{"Ask", `{"raw":[{"x":1,"x":2}]}`, `has the key "x" twice`},
		{"Ask", `{"pair":[1,2,3]}`, `field "pair" has 3 elements, must have 2`},
		{"Ask", `{"text":"\ud800"}`, "half of a surrogate pair"},
		{"Ask", `{"any":"\udc00x"}`, "half of a surrogate pair"},
		{"Ask", `{"raw":"\udc00x"}`, "half of a surrogate pair"},
		{"Ask", "{\"text\":\"\xff\"}", "not in UTF-8"},
		{"Field", `{"jsonName":"a","typeUrl":"b","kind":"TYPE_INT32"}`, ""},
		{"Field", `{"jsonName":"a","json_name":"b"}`, `json_name`},
		{"Field", `{"name":"a","Name":"b"}`, `Name`},
		{"Field", `{"name":"a","name":"a"}`, `name`},
		{"Field", `{"name":"\ud800"}`, `ud800`},
		{"Field", `{"kind":"TYPE_NONE"}`, `TYPE_NONE`},
		{"Field", `{"kind":99}`, `unknown value 99 of google.protobuf.Field.Kind in field "kind"`},
		{"Struct", `{"a":1,"a":2}`, `"a"`},
		{"Status", `"open"`, ""},
		{"Status", `"\u006fpen"`, ""},
		{"Status", `"opened"`, `it is "opened", which is none of the values that this program declares: "closed", "open"`},
	} {
		if why := inputRefused(t, c.command, []byte(c.payload), sharding.JSON, c.want); why != "" {
			return why
		}
	}
	for want, m := range map[string]proto.Message{
		"": &typepb.Field{Kind: typepb.Field_TYPE_BOOL},
		`unknown value 99 of google.protobuf.Field.Kind in field "kind"`: &typepb.Field{Kind: 99},
		"unknown field number 30 of google.protobuf.Field":               withUnknown(&typepb.Field{}),
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if why := inputRefused(t, "Field", b, sharding.Protobuf, want); why != "" {
			return why
		}
	}
	return ""
}

// withUnknown gives a message a field that its type does not have.
func withUnknown(m proto.Message) proto.Message {
	m.ProtoReflect().SetUnknown([]byte{0xf0, 0x01, 0x01}) // field 30, a varint
	return m
}

func inputRefused(t *testing.T, command string, payload []byte, enc sharding.Encoding, want string) string {
	i, err := instance.New(askable(), "a")
	if err != nil {
		t.Fatal(err)
	}
	env := &sharding.Envelope{Command: command, Payload: payload, Encoding: enc}
	done, failed := i.Run(t.Context(), time.Now(), &turn.Run{Env: env}, nil)
	_, early := instance.CheckInput(askable(), env, func(f func()) { f() })
	switch {
	case want == "" && (done.Reply.Outcome != sharding.Executed || early != nil):
		return fmt.Sprintf("%s %s: refused: %+v, %v", command, payload, done.Reply, failed)
	case want != "" && (done.Reply.Code != sharding.InvalidArgument || !strings.Contains(done.Reply.Message, want) || early == nil || early.Message != done.Reply.Message):
		return fmt.Sprintf("%s %s: %+v, want %s", command, payload, done.Reply, want)
	}
	return ""
}

// sinkCaller takes calls.
type sinkCaller struct{ calls []entity.Call }

func (s *sinkCaller) Call(_ context.Context, c entity.Call) (entity.Reply, error) {
	s.calls = append(s.calls, c)
	return entity.Reply{Payload: []byte("0")}, nil
}

// TestTextIsNotChanged: an input whose text is not UTF-8 is refused before it is sent, and all other text is sent.
func TestTextIsNotChanged(t *testing.T) {
	ask, sink := entity.Command[map[string]string, int]("Askable", "Ask"), &sinkCaller{}
	for text, want := range map[string]bool{"plain": true, "\ufffd": true, `\ufffd`: true, `\\ufffd`: true, "\xff": false, "\\\xff": false} {
		sink.calls = nil
		_, err := ask.Call(t.Context(), sink, "a", map[string]string{"text": text})
		if sent := len(sink.calls) == 1; sent != want || want != (err == nil) || !want && !strings.Contains(err.Error(), "not in UTF-8") {
			t.Errorf("%q: sent %t, %v", text, sent, err)
		}
	}
}

// mark is a byte that is stored as a text. Package json writes a list of marks as a list, and reads also base64 into it.
type mark byte

func (m mark) MarshalText() ([]byte, error) { return []byte{byte(m)}, nil }

func (m *mark) UnmarshalText(b []byte) error {
	if len(b) != 1 {
		return fmt.Errorf("a mark has one byte")
	}
	*m = mark(b[0])
	return nil
}

// TestListInBase64: a list whose elements have methods of their own is not stored in base64, and base64 is refused in its
// place: it would pass these methods by.
func TestListInBase64(t *testing.T) {
	type marked struct {
		Marks []mark `json:"marks"`
	}
	typ := entity.Define("Judge", func(string) *judge { return &judge{} },
		entity.On(entity.Command[marked, int]("Judge", "Mark"), func(*judge, *entity.Ctx, marked) (int, error) { return 0, nil }),
		sees[marked]("marked"),
	)
	for payload, want := range map[string]string{`{"marks":["a","b"]}`: "", `{"marks":"YWI="}`: `field "marks" `} {
		_, refusal := instance.CheckInput(typ, &sharding.Envelope{Command: "Mark", Payload: []byte(payload)}, func(f func()) { f() })
		if want == "" && refusal != nil || want != "" && (refusal == nil || !strings.Contains(refusal.Message, want)) {
			t.Errorf("sent %s: %v", payload, refusal)
		}
		err := instanceOf(t, typ).Replay([]sharding.Event{{Name: "marked", Version: 1, ReadableBy: 1, Payload: []byte(payload)}})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("stored %s: %v", payload, err)
		}
	}
	if shape := instance.SchemaOf(typ).Events[0].Shape; !strings.Contains(shape, "marks:[custom(") {
		t.Error(shape)
	}
}
