package instance

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

	"github.com/roost-cluster/roost/libs/sharding"
)

// Codec encodes events of one Go type, or inputs of one command, as they are stored, and decodes all versions
// of them.
type Codec struct {
	kind sharding.FormKind // events, or inputs of the command with the name
	name string
	// typ is the Go type. Values of a plain one are the same after encoding and decoding.
	typ    reflect.Type
	plain  bool
	layout *layout
	// Version is stored with each value. Steps read values of older versions.
	Version int
	Steps   []Step
	// ReadableBy is the oldest version that can read a value; 0: Version.
	ReadableBy int
	// Aliases are the names under which values were stored before.
	Aliases []string
}

// NewCodec returns the codec of the first version of events or inputs.
func NewCodec(kind sharding.FormKind, t reflect.Type, name string) *Codec {
	return &Codec{kind: kind, name: name, typ: t, plain: plain(t), layout: layoutOf(t), Version: 1}
}

// Step reads what an older version stored: an event or input ([From]), or a snapshot ([FromSnapshot]).
type Step struct {
	version int
	from    reflect.Type
	to      reflect.Type
	// event decodes an event of the old version and brings it to the current one.
	event func(sharding.Event) (any, error)
	// snapshot decodes a state of the old version into the current one.
	snapshot func(payload []byte, state any) error
}

// From is the step from an older version of an event, or of a stored input, with the Go type that it had, to
// the current one.
func From(version int, from, to reflect.Type, upgrade func(old any) any) Step {
	old := NewCodec(sharding.FormOfEvent, from, "")
	return Step{version: version, from: from, to: to, event: func(ev sharding.Event) (any, error) {
		v, err := old.decodeAs(ev, false)
		if err != nil {
			return nil, err
		}
		return upgrade(v), nil
	}}
}

// decode reads a stored event of any version that this one can read. It also reports
// whether fields were ignored that this version may not know.
func (e *Codec) decode(ev sharding.Event) (v any, partly bool, err error) {
	stored := int(ev.Version)
	switch {
	// Invariant: a state is never guessed from unknown or missing data. If a version of the code has ignored unknown
	// data when it rebuilt a state, this version does not store the state as a snapshot.
	// Guarded by: `libs/instance`: `layout.read` takes only JSON that this version of the type could have stored.
	// `Codec.decode` reads an event of a later version only if the later version allows this. `ReadsSnapshot`;
	// `Instance.Snapshot`. A value that its enum does not declare is neither stored nor read (`layout.declared`,
	// `unknownValue`). An event that its reducer did not take is never stored (`instance.Turn.apply`).
	// Mutants: strict-shape, later-version, snapshot-form, partly-read, lossy-snapshot, enum-values, apply-broken
	case stored == 0: //mutant:false strict-shape
		return nil, false, &shapeError{what: "%s has no version", damaged: true}
	case stored == e.Version:
		v, err = e.decodeAs(ev, false)
		return v, false, err
		//mutant:true later-version ev.ReadableBy != 0 && int(ev.ReadableBy) <= e.Version
	case stored > e.Version && ev.ReadableBy != 0 && int(ev.ReadableBy) <= e.Version:
		v, err = e.decodeAs(ev, true)
		return v, true, err
	case stored > e.Version:
		return nil, false, fmt.Errorf("it is of version %d, and this program knows version %d", stored, e.Version)
	}
	for _, s := range e.Steps {
		if s.version == stored {
			v, err = s.event(ev)
			return v, false, err
		}
	}
	return nil, false, fmt.Errorf("it is of version %d, and no step leads from there: give V(%d, …) an entity.From(%d, …)", stored, e.Version, stored)
}

// fix returns the advice for the author about a stored event that decode cannot read.
func (e *Codec) fix(ev sharding.Event) string {
	stored := int(ev.Version)
	switch {
	case ev.Encoding > sharding.Protobuf:
		return "run the release of Roost that has stored it; if there is none, restore the journal from a copy"
	case stored > e.Version && ev.ReadableBy != 0 && int(ev.ReadableBy) <= e.Version:
		return fmt.Sprintf("run a program that knows version %d; for later events, correct its ReadableBy(%d)", stored, ev.ReadableBy)
	case stored > e.Version:
		return fmt.Sprintf("a later version of the program has stored it: run one that knows version %d, or store it with ReadableBy(%d) if this one may ignore what it does not know", stored, e.Version)
	case stored == e.Version:
		return fmt.Sprintf("keep the struct as it was stored, and declare its successor with V(%d, entity.From(%d, …))", stored+1, stored)
	case slices.ContainsFunc(e.Steps, func(s Step) bool { return s.version == stored }):
		return fmt.Sprintf("give the struct of the step from version %d the fields that were stored", stored)
	}
	return fmt.Sprintf("give V(%d, …) an entity.From(%d, …)", e.Version, stored)
}

// decodeAs reads a stored event into the Go type. Unless it is lenient it refuses unknown
// fields: an event that says more than this version knows would give a state that is
// wrong. Of a message protobuf defines what a field is that is not there.
func (e *Codec) decodeAs(ev sharding.Event, lenient bool) (any, error) {
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
func (e *Codec) stored(payload []byte, enc sharding.Encoding) sharding.Event {
	return sharding.Event{
		Name: e.name, Version: uint16(e.Version), ReadableBy: uint16(cmp.Or(e.ReadableBy, e.Version)), Encoding: enc, Payload: payload,
	}
}

// names are all under which something may be stored, the current one first.
func (e *Codec) names() []string { return append([]string{e.name}, e.Aliases...) }

// forms returns the form in which something is stored from now on, and all those that are read: under each
// name, of this version and of all versions with steps.
func (e *Codec) forms() (current sharding.Form, reads []sharding.Form) {
	current = sharding.Form{Kind: e.kind, Name: e.name, Version: uint16(e.Version), Shape: fingerprint(shapeOf(e.typ))}
	if e.ReadableBy < e.Version {
		current.ReadableBy = uint16(e.ReadableBy)
	}
	for _, name := range e.names() {
		f := current
		f.Name = name
		reads = append(reads, f)
		for _, step := range e.Steps {
			reads = append(reads, sharding.Form{Kind: e.kind, Name: name, Version: uint16(step.version), Shape: fingerprint(shapeOf(step.from))})
		}
	}
	return current, reads
}

// check names every mistake in the declaration.
func (e *Codec) check() error {
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
	if e.Version < 1 || e.Version > math.MaxUint16 {
		complain("version %d, must be 1 to %d", e.Version, math.MaxUint16)
	}
	if e.ReadableBy < 0 || e.ReadableBy > e.Version {
		complain("ReadableBy(%d), must be 1 to its version %d", e.ReadableBy, e.Version)
	}
	if e.ReadableBy > 0 && e.ReadableBy < e.Version {
		for v := e.ReadableBy; v < e.Version; v++ {
			i := slices.IndexFunc(e.Steps, func(s Step) bool { return s.version == v })
			if i < 0 {
				complain("ReadableBy(%d) needs a step from version %d, which describes that version", e.ReadableBy, v)
			} else if field := lacks(e.typ, e.Steps[i].from); field != "" {
				complain("ReadableBy(%d): version %d would not find its field %s, and refuse it", e.ReadableBy, v, field)
			} else if field := e.layout.confusing(layoutOf(e.Steps[i].from)); field != "" {
				complain("ReadableBy(%d): version %d would take the field %s for its own, whose name differs in case only, and refuse it; give it another name", e.ReadableBy, v, field)
			}
		}
	}
	seen := map[int]bool{}
	for _, s := range e.Steps {
		switch {
		case s.event == nil:
			complain("a step for snapshots, from version %d; use entity.From", s.version)
		case e.Version == 1:
			complain("a step from version %d, and the version is 1, which has no older one: raise it with V(2, …)", s.version)
		case s.version < 1 || s.version >= e.Version:
			complain("a step from version %d, must be 1 to %d", s.version, e.Version-1)
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
	if e.Values().ByNumber(v.Enum()) != nil { //mutant:true enum-values
		return ""
	}
	return fmt.Sprintf("value %d of %s in field %q", v.Enum(), e.FullName(), f.Name())
}

// same reports whether a new event equals what its stored form is decoded as. It may be
// called for a plain type only; it is false if a string in the event cannot be stored
// unchanged.
func (e *Codec) same(stored sharding.Event) bool {
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
