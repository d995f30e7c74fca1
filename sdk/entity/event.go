package entity

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect" // pure: of types, and of values that are no maps
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// EventType describes how events of one Go type are stored. [Event] makes one. A [Handle] has one for the
// inputs of its command.
type EventType struct {
	kind sharding.FormKind // events, or inputs of the command with the name
	name string
	// typ is the Go type. Values of a plain one are the same after encoding and decoding.
	typ        reflect.Type
	plain      bool
	layout     *layout
	version    int
	readableBy int
	aliases    []string
	steps      []Step
}

// Event declares that events of type T are stored under a name. The name must never
// change; the Go type may. Its first version is 1.
//
//	entity.Event[ItemAdded]("item-added").
//		V(2, entity.From(1, func(old ItemAddedV1) ItemAdded { return ItemAdded{Item: old.SKU, Count: 1} })).
//		Alias("added")
//
// An event that is given to Events as a plain value is stored under the name of its Go
// type.
func Event[T any](name string) *EventType {
	return newEventType(sharding.FormOfEvent, reflect.TypeFor[T](), name)
}

func newEventType(kind sharding.FormKind, t reflect.Type, name string) *EventType {
	return &EventType{kind: kind, name: name, typ: t, plain: plain(t), layout: layoutOf(t), version: 1}
}

// V sets the version in which the event is stored from now on, 1 to 65535, and the steps that read stored
// events of older versions. The version must be raised with every change of the stored data: a field that
// is added, removed, renamed or means something else. A stored event of an older version without a step is
// refused.
func (e *EventType) V(version int, steps ...Step) *EventType {
	e.version, e.steps = version, append(e.steps, steps...)
	return e
}

// ReadableBy lets a program read the event if it knows at least the given version of it. Such a program
// ignores the fields that it does not know. Without ReadableBy, a program must know at least the version in
// which the event is stored. The event must keep all fields of the versions from the given one on: [From] a
// version shows which these are. An entity that has ignored a field takes no snapshots.
func (e *EventType) ReadableBy(version int) *EventType { e.readableBy = version; return e }

// Alias gives names under which the event was stored before.
func (e *EventType) Alias(names ...string) *EventType {
	e.aliases = append(e.aliases, names...)
	return e
}

// Step reads what an older version stored. [From] makes one for events, [FromSnapshot]
// one for snapshots.
type Step struct {
	version int
	from    reflect.Type
	to      reflect.Type
	// event decodes an event of the old version and brings it to the current one.
	event func(sharding.Event) (any, error)
	// snapshot decodes a state of the old version into the current one.
	snapshot func(payload []byte, state any) error
}

// From is the step from an older version of an event, or of a stored input, with the Go type
// that it had, to the current one. The function must depend on nothing but its argument.
func From[Old, New any](version int, upgrade func(Old) New) Step {
	old := newEventType(sharding.FormOfEvent, reflect.TypeFor[Old](), "")
	return Step{version: version, from: old.typ, to: reflect.TypeFor[New](), event: func(ev sharding.Event) (any, error) {
		v, err := old.decodeAs(ev, false)
		if err != nil {
			return nil, err
		}
		return upgrade(v.(Old)), nil
	}}
}

// decode reads a stored event of any version that this one can read. It also reports
// whether fields were ignored that this version may not know.
func (e *EventType) decode(ev sharding.Event) (v any, partly bool, err error) {
	stored := int(ev.Version)
	switch {
	case stored == 0 && !mutant.On("strict-shape"):
		return nil, false, &shapeError{what: "%s has no version", damaged: true}
	case stored == e.version:
		v, err = e.decodeAs(ev, false)
		return v, false, err
	case stored > e.version && (ev.ReadableBy != 0 && int(ev.ReadableBy) <= e.version || mutant.On("later-version")):
		v, err = e.decodeAs(ev, true)
		return v, true, err
	case stored > e.version:
		return nil, false, fmt.Errorf("it is of version %d, and this program knows version %d", stored, e.version)
	}
	for _, s := range e.steps {
		if s.version == stored {
			v, err = s.event(ev)
			return v, false, err
		}
	}
	return nil, false, fmt.Errorf("it is of version %d, from which there is no step: give V(%d, …) an entity.From(%d, …)", stored, e.version, stored)
}

// fix returns the advice for the author about a stored event that decode cannot read.
func (e *EventType) fix(ev sharding.Event) string {
	stored := int(ev.Version)
	switch {
	case ev.Encoding > sharding.Protobuf:
		return "run the release of Roost that has stored it; if there is none, restore the journal from a copy"
	case stored > e.version && ev.ReadableBy != 0 && int(ev.ReadableBy) <= e.version:
		return fmt.Sprintf("run a program that knows version %d; for later events, correct its ReadableBy(%d)", stored, ev.ReadableBy)
	case stored > e.version:
		return fmt.Sprintf("a later version of the program has stored it: run one that knows version %d, or store it with ReadableBy(%d) if this one may ignore what it does not know", stored, e.version)
	case stored == e.version:
		return fmt.Sprintf("keep the struct as it was stored, and declare its successor with V(%d, entity.From(%d, …))", stored+1, stored)
	case slices.ContainsFunc(e.steps, func(s Step) bool { return s.version == stored }):
		return fmt.Sprintf("give the struct of the step from version %d the fields that were stored", stored)
	}
	return fmt.Sprintf("give V(%d, …) an entity.From(%d, …)", e.version, stored)
}

// decodeAs reads a stored event into the Go type. Unless it is lenient it refuses unknown
// fields: an event that says more than this version knows would give a state that is
// wrong. Of a message protobuf defines what a field is that is not there.
func (e *EventType) decodeAs(ev sharding.Event, lenient bool) (any, error) {
	if ev.Encoding > sharding.Protobuf {
		return nil, fmt.Errorf("it has the encoding %d, which this release of Roost does not know: a later one has stored it, or it is damaged", ev.Encoding)
	}
	if m, ok := reflect.Zero(e.typ).Interface().(proto.Message); ok {
		m = m.ProtoReflect().New().Interface()
		var err error
		if ev.Encoding == sharding.Protobuf {
			err = proto.Unmarshal(ev.Payload, m)
		} else {
			err = protojson.UnmarshalOptions{DiscardUnknown: lenient}.Unmarshal(ev.Payload, m)
		}
		if err != nil {
			return nil, explain(m, err)
		}
		if field := unknownField(m.ProtoReflect()); field != "" && !lenient {
			return nil, fmt.Errorf("unknown %s", field)
		}
		return m, nil
	}
	if ev.Encoding != sharding.JSON {
		return nil, &shapeError{what: "%s was stored as protobuf, and this program stores JSON", later: lenient}
	}
	p := reflect.New(e.typ)
	if err := e.layout.read(ev.Payload, p.Interface(), lenient); err != nil {
		return nil, err
	}
	return p.Elem().Interface(), nil
}

// stored is an event of the type as it is stored.
func (e *EventType) stored(payload []byte, enc sharding.Encoding) sharding.Event {
	return sharding.Event{
		Name: e.name, Version: uint16(e.version), ReadableBy: uint16(cmp.Or(e.readableBy, e.version)), Encoding: enc, Payload: payload,
	}
}

// names are all under which something may be stored, the current one first.
func (e *EventType) names() []string { return append([]string{e.name}, e.aliases...) }

// forms returns the form in which something is stored from now on, and all those that are read: under each
// name, of this version and of all versions with steps.
func (e *EventType) forms() (current sharding.Form, reads []sharding.Form) {
	current = sharding.Form{Kind: e.kind, Name: e.name, Version: uint16(e.version), Shape: fingerprint(shapeOf(e.typ))}
	if e.readableBy < e.version {
		current.ReadableBy = uint16(e.readableBy)
	}
	for _, name := range e.names() {
		f := current
		f.Name = name
		reads = append(reads, f)
		for _, step := range e.steps {
			reads = append(reads, sharding.Form{Kind: e.kind, Name: name, Version: uint16(step.version), Shape: fingerprint(shapeOf(step.from))})
		}
	}
	return current, reads
}

// check names every mistake in the declaration.
func (e *EventType) check() error {
	var errs []error
	complain := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf(e.kind.String()+" "+e.name+": "+format, args...))
	}
	for _, name := range e.names() {
		if err := sharding.CheckID(e.kind.String()+" name", name, sharding.MaxTypeLen); err != nil {
			errs = append(errs, err)
		}
	}
	if _, message := reflect.Zero(e.typ).Interface().(proto.Message); e.typ.Kind() == reflect.Pointer && !message {
		complain("%s is a pointer; declare and persist the value", e.typ)
	}
	if e.typ.Kind() == reflect.Interface {
		complain("%s is an interface; declare each type that is stored", e.typ)
	}
	if e.version < 1 || e.version > math.MaxUint16 {
		complain("version %d, must be 1 to %d", e.version, math.MaxUint16)
	}
	if e.readableBy < 0 || e.readableBy > e.version {
		complain("ReadableBy(%d), must be 1 to its version %d", e.readableBy, e.version)
	}
	if e.readableBy > 0 && e.readableBy < e.version {
		for v := e.readableBy; v < e.version; v++ {
			i := slices.IndexFunc(e.steps, func(s Step) bool { return s.version == v })
			if i < 0 {
				complain("ReadableBy(%d) needs a step from version %d, which says what that version has", e.readableBy, v)
			} else if field := lacks(e.typ, e.steps[i].from); field != "" {
				complain("ReadableBy(%d): version %d would not find its field %s, and refuse it", e.readableBy, v, field)
			} else if field := e.layout.confusing(layoutOf(e.steps[i].from)); field != "" {
				complain("ReadableBy(%d): version %d would take the field %s for its own, whose name differs in case only, and refuse it; give it another name", e.readableBy, v, field)
			}
		}
	}
	seen := map[int]bool{}
	for _, s := range e.steps {
		switch {
		case s.event == nil:
			complain("a step for snapshots, from version %d; use entity.From", s.version)
		case e.version == 1:
			complain("a step from version %d, and the version is 1, which has no older one: raise it with V(2, …)", s.version)
		case s.version < 1 || s.version >= e.version:
			complain("a step from version %d, must be 1 to %d", s.version, e.version-1)
		case seen[s.version]:
			complain("two steps from version %d", s.version)
		case s.to != e.typ:
			complain("the step from version %d returns %s, must return %s", s.version, s.to, e.typ)
		}
		seen[s.version] = true
	}
	return errors.Join(errs...)
}

// unknownField returns the path of a field that the message's type does not have, or whose enum does not have its value;
// empty: there is none.
func unknownField(m protoreflect.Message) (name string) {
	if raw := m.GetUnknown(); len(raw) > 0 {
		number, _, _ := protowire.ConsumeTag(raw)
		return fmt.Sprintf("field number %d of %s", number, m.Descriptor().FullName())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Enum() != nil && f.IsList():
			for i := 0; i < v.List().Len() && name == ""; i++ {
				name = unknownValue(f, f.Enum(), v.List().Get(i))
			}
		case f.Enum() != nil:
			name = unknownValue(f, f.Enum(), v)
		case f.IsMap() && f.MapValue().Enum() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				name = unknownValue(f, f.MapValue().Enum(), v)
				return name == ""
			})
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

// unknownValue describes the value of a field that its enum does not have; empty: it has it. Package proto keeps the
// number, so code that switches over the known values would do nothing.
func unknownValue(f protoreflect.FieldDescriptor, e protoreflect.EnumDescriptor, v protoreflect.Value) string {
	if e.Values().ByNumber(v.Enum()) != nil || mutant.On("enum-values") {
		return ""
	}
	return fmt.Sprintf("value %d of %s in field %q", v.Enum(), e.FullName(), f.Name())
}

// same reports whether a new event equals what its stored form is decoded as. It may be
// called for a plain type only; it is false if a string in the event cannot be stored
// unchanged.
func (e *EventType) same(stored sharding.Event) bool {
	return e.plain && !bytes.Contains(stored.Payload, replacement)
}

// replacement is how package json encodes bytes that are not UTF-8.
var replacement = []byte(`\ufffd`)

var (
	jsonMarshaler   = reflect.TypeFor[json.Marshaler]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	message         = reflect.TypeFor[proto.Message]()
)

// plain reports whether every value of the type that can be stored comes back as
// it was, and shares no memory with the author's: structs, arrays, numbers, texts
// and truth values, without methods that store them in another way.
func plain(t reflect.Type) bool {
	if encodesItself(t) || declaredValues(t) != nil {
		return false
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
