package entity

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect" // pure: of types, and of values that are no maps
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/roost-cluster/roost/libs/sharding"
)

// eventType can decode one kind of event.
type eventType struct {
	sample any
	typ    reflect.Type
	// plain: a value of the type is the same after encoding and decoding.
	plain bool
}

func newEventType(sample any) eventType {
	t := reflect.TypeOf(sample)
	return eventType{sample: sample, typ: t, plain: plain(t)}
}

// decode reads a stored event. Unknown fields are refused: an event that says
// more than this version knows would give a state that is wrong.
func (t eventType) decode(ev sharding.Event) (any, error) {
	if m, ok := t.sample.(proto.Message); ok {
		m = m.ProtoReflect().New().Interface()
		if ev.Encoding != sharding.Protobuf {
			return m, explain(m, protojson.Unmarshal(ev.Payload, m))
		}
		if err := proto.Unmarshal(ev.Payload, m); err != nil {
			return nil, explain(m, err)
		}
		if field := unknownField(m.ProtoReflect()); field != "" {
			return nil, fmt.Errorf("unknown field %s", field)
		}
		return m, nil
	}
	p := reflect.New(t.typ)
	if err := decodeJSON(ev.Payload, p.Interface(), false); err != nil {
		return nil, err
	}
	return p.Elem().Interface(), nil
}

// unknownField returns the path of a field that the message's type does not have; empty:
// there is none.
func unknownField(m protoreflect.Message) (name string) {
	if raw := m.GetUnknown(); len(raw) > 0 {
		number, _, _ := protowire.ConsumeTag(raw)
		return fmt.Sprintf("number %d of %s", number, m.Descriptor().FullName())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap() && f.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				name = unknownField(v.Message())
				return name == ""
			})
		case f.IsList() && f.Message() != nil:
			for i := 0; i < v.List().Len() && name == ""; i++ {
				name = unknownField(v.List().Get(i).Message())
			}
		case !f.IsMap() && f.Message() != nil:
			name = unknownField(v.Message())
		}
		return name == ""
	})
	return name
}

// same reports whether a new event equals what its stored form is decoded as. It may be
// called for a plain type only; it is false if a string in the event cannot be stored
// unchanged.
func (t eventType) same(stored sharding.Event) bool {
	return t.plain && !bytes.Contains(stored.Payload, replacement)
}

// replacement is how package json encodes bytes that are not UTF-8.
var replacement = []byte(`\ufffd`)

var (
	jsonMarshaler   = reflect.TypeFor[json.Marshaler]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// plain reports whether every value of the type that can be stored comes back as
// it was, and shares no memory with the author's: structs, arrays, numbers, texts
// and truth values, without methods that store them in another way.
func plain(t reflect.Type) bool {
	if t == nil {
		return false
	}
	for _, own := range []reflect.Type{jsonMarshaler, jsonUnmarshaler, textMarshaler, textUnmarshaler} {
		if t.Implements(own) || reflect.PointerTo(t).Implements(own) {
			return false
		}
	}
	switch k := t.Kind(); {
	case k == reflect.Struct:
		return plainStruct(t)
	case k == reflect.Array:
		return plain(t.Elem())
	case k == reflect.String, k == reflect.Bool:
		return true
	default:
		return k >= reflect.Int && k <= reflect.Float64 && k != reflect.Uintptr
	}
}

func plainStruct(t reflect.Type) bool {
	names := map[string]bool{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		// Names are matched without regard to case. A type with embedded fields, or
		// with fields that are not stored, is not plain.
		name = strings.ToLower(name)
		if !f.IsExported() || f.Anonymous || name == "-" || options != "" || names[name] || !plain(f.Type) {
			return false
		}
		names[name] = true
	}
	return true
}
