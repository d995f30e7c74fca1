package wire_test

import (
	"errors"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/sharding"
	controlv1 "github.com/roost-cluster/roost/proto/roost/control/v1"
)

// all are empty messages of every kind.
func all() []control.Message {
	var list []control.Message
	seen := map[string]bool{}
	for _, k := range control.Kinds {
		for _, m := range append([]control.Message{k.Zero}, k.Answers...) {
			if !seen[control.Name(m)] {
				seen[control.Name(m)] = true
				list = append(list, m)
			}
		}
	}
	return list
}

// fill gives every field a value of its own, with two elements in every list.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.String:
		v.SetString(string(rune('a' + *n%26)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8: // a phase, a state or a kind: two of each are valid; a reason has one
		v.SetUint(uint64(1 + *n%2))
		if _, ok := v.Interface().(sharding.RowReason); ok {
			v.SetUint(uint64(sharding.Unreadable))
		}
	case reflect.Uint16:
		v.SetUint(uint64(*n))
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n) + 1<<31)
	default:
		panic("no value for a field of kind " + v.Kind().String())
	}
}

func filled(m control.Message) control.Message {
	v := reflect.New(reflect.TypeOf(m)).Elem()
	n := 0
	fill(v, &n)
	return v.Interface().(control.Message)
}

// TestRoundTrip: every kind of message comes back with every field, from the bytes.
func TestRoundTrip(t *testing.T) {
	for _, zero := range all() {
		for _, m := range []control.Message{zero, filled(zero)} {
			raw, err := proto.Marshal(wire.Encode(m))
			if err != nil {
				t.Fatal(err)
			}
			var w controlv1.Message
			if err := proto.Unmarshal(raw, &w); err != nil {
				t.Fatal(err)
			}
			if got, err := wire.Decode(&w); err != nil || !reflect.DeepEqual(got, m) {
				t.Errorf("%s: %+v comes back as %+v, error %v", control.Name(m), m, got, err)
			}
		}
	}
}

// TestEveryKindOnTheWire: the schema has as many kinds as the vocabulary.
func TestEveryKindOnTheWire(t *testing.T) {
	kinds := (&controlv1.Message{}).ProtoReflect().Descriptor().Oneofs().ByName("kind").Fields()
	if kinds.Len() != len(all()) {
		t.Errorf("the schema has %d kinds, the vocabulary %d", kinds.Len(), len(all()))
	}
}

// TestNoKind: what is empty or of an unknown kind is an error, not a panic.
func TestNoKind(t *testing.T) {
	for name, w := range map[string]*controlv1.Message{"nil": nil, "empty": {}, "a kind from later": later(t)} {
		if m, err := wire.Decode(w); !errors.Is(err, wire.ErrUnknownKind) {
			t.Errorf("%s: %+v, error %v", name, m, err)
		}
	}
	for _, m := range []*controlv1.Message{{Kind: &controlv1.Message_HostShard{}}, {Kind: &controlv1.Message_Register{}}, {Kind: &controlv1.Message_TableChanged{}}} {
		if got, err := wire.Decode(m); err != nil { // an empty message is one, too
			t.Errorf("%+v, error %v", got, err)
		}
	}
	if _, err := wire.Decode(wire.Encode(nil)); !errors.Is(err, wire.ErrUnknownKind) {
		t.Errorf("no message is written as one: %v", err)
	}
}

// later is a message with a field that does not exist yet.
func later(t *testing.T) *controlv1.Message {
	var w controlv1.Message
	if err := proto.Unmarshal([]byte{0xfa, 0x3f, 0x02, 0x08, 0x01}, &w); err != nil {
		t.Fatal(err)
	}
	return &w
}

// TestPhasesFromOutside: a phase that is none must not become one by wrapping.
func TestPhasesFromOutside(t *testing.T) {
	for p, want := range map[controlv1.Phase]sharding.Phase{
		2: sharding.Serving, 3: sharding.HandingOff, 4: 0, 257: 0, -254: 0,
	} {
		if got := wire.FromRow(&controlv1.Row{Phase: p}).Phase; got != want {
			t.Errorf("phase %d is read as %v", p, got)
		}
	}
}

// TestShardRules: the rule of a type travels in a registration, in the table, and in stored data.
func TestShardRules(t *testing.T) {
	types := []sharding.TypeDesc{{Type: "A", Shards: 4, Rule: sharding.ShardRule{Separator: "-", Part: 2}}, {Type: "B", Shards: 4}}
	for _, sent := range []control.Message{control.Register{Types: types}, control.TableChanged{Delta: sharding.TableDelta{Types: types}}} {
		m, err := wire.Decode(wire.Encode(sent))
		if err != nil {
			t.Fatal(err)
		}
		got := types
		switch m := m.(type) {
		case control.Register:
			got = m.Types
		case control.TableChanged:
			got = m.Delta.Types
		}
		if len(got) != 2 || got[0].Rule != types[0].Rule || got[1].Rule != types[1].Rule {
			t.Errorf("read back: %+v", got)
		}
	}
	f := wire.TypeFact{Desc: types[0]}
	raw, err := proto.Marshal(wire.ToTypeFact(f))
	if err != nil {
		t.Fatal(err)
	}
	if back, err := wire.DecodeTypeFact(raw); err != nil || back.Desc.Rule != types[0].Rule {
		t.Errorf("the fact: %+v, %v", back, err)
	}
}
