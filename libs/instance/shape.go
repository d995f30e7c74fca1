package instance

import (
	"fmt"
	"hash/fnv"
	"reflect" // pure: of types
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// shapeOf describes how values of a type are stored: the fields by their stored names,
// in alphabetical order, and what each of them holds. Two types of the same shape read
// what the other one wrote. It does not see into types that encode themselves: it has
// their names only.
func shapeOf(t reflect.Type) string {
	var b strings.Builder
	writeShape(&b, t, nil)
	return b.String()
}

// fingerprint is the FNV-1a hash of a shape. It is never 0.
func fingerprint(shape string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(shape))
	return max(h.Sum64(), 1)
}

var timeType = reflect.TypeFor[time.Time]()

// writeShape appends the shape of t, inside the shapes of the given types.
func writeShape(b *strings.Builder, t reflect.Type, inside []reflect.Type) {
	if t == nil {
		b.WriteString("any")
		return
	}
	if m, ok := reflect.Zero(t).Interface().(proto.Message); ok {
		writeMessage(b, m.ProtoReflect().Descriptor(), nil)
		return
	}
	defer writeValues(b, t)
	switch {
	case t.Kind() == reflect.Pointer: // may be null
		b.WriteString("?")
		writeShape(b, t.Elem(), inside)
	case t == timeType:
		b.WriteString("time")
	case encodesItself(t):
		fmt.Fprintf(b, "custom(%s)", t)
	case slices.Contains(inside, t): // a type that contains itself
		fmt.Fprintf(b, "^%s", t.Name())
	default:
		writeKind(b, t, append(inside, t))
	}
}

// writeValues appends the values that a type declares, if it does.
func writeValues(b *strings.Builder, t reflect.Type) {
	if values := declaredValues(t); values != nil {
		fmt.Fprintf(b, " enum{%s}", strings.Join(values, ","))
	}
}

func writeKind(b *strings.Builder, t reflect.Type, inside []reflect.Type) {
	switch t.Kind() {
	case reflect.Struct:
		writeStruct(b, t, inside)
	case reflect.Slice, reflect.Array:
		if storedAsBytes(t) {
			b.WriteString("bytes")
			writeValues(b, t.Elem())
			return
		}
		b.WriteString("[")
		if t.Kind() == reflect.Array {
			fmt.Fprintf(b, "%d ", t.Len())
		}
		writeShape(b, t.Elem(), inside)
		b.WriteString("]")
	case reflect.Map:
		b.WriteString("map[")
		writeShape(b, t.Key(), inside)
		b.WriteString("]")
		writeShape(b, t.Elem(), inside)
	case reflect.Interface:
		b.WriteString("any")
	case reflect.Int, reflect.Uint: // as large as a program of 64 bits has them
		b.WriteString(t.Kind().String() + "64")
	default:
		b.WriteString(t.Kind().String())
	}
}

func writeStruct(b *strings.Builder, t reflect.Type, inside []reflect.Type) {
	b.WriteString("{" + strings.Join(structFields(t, inside), ",") + "}")
}

// storedField is a field of a struct that package json stores.
type storedField struct {
	name     string // empty: an embedded struct, whose fields are stored among the others
	quoted   bool
	optional bool // it is left out when it is empty
	typ      reflect.Type
}

func storedFields(t reflect.Type) []storedField {
	var fields []storedField
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		structure := f.Type.Kind() == reflect.Struct || f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct
		if name == "-" && options == "" || !f.IsExported() && !(f.Anonymous && structure) {
			continue
		}
		if name == "" && !(f.Anonymous && structure) {
			name = f.Name
		}
		fields = append(fields, storedField{name: name, quoted: hasOption(options, "string"), optional: mayBeAbsent(f.Type, options), typ: f.Type})
	}
	return fields
}

// structFields returns the shapes of the stored fields of a struct, sorted.
func structFields(t reflect.Type, inside []reflect.Type) []string {
	var fields []string
	for _, f := range storedFields(t) {
		var field strings.Builder
		switch {
		case f.name == "":
			field.WriteString("…")
		case f.optional:
			field.WriteString(f.name + "?:")
		default:
			field.WriteString(f.name + ":")
		}
		if f.quoted {
			field.WriteString("quoted ")
		}
		writeShape(&field, f.typ, inside)
		fields = append(fields, field.String())
	}
	slices.Sort(fields)
	return fields
}

// inputLines returns a line for the input of a command and one for each field in it, sorted:
// its path and what it holds. What may be null is not told apart from what may not: both
// read what callers of the other one send.
func inputLines(t reflect.Type) []string {
	var lines []string
	addLines(&lines, "input", "", t, nil)
	slices.Sort(lines)
	return lines
}

func addLines(lines *[]string, path, prefix string, t reflect.Type, inside []reflect.Type) {
	add := func(kind string) { *lines = append(*lines, path+" "+prefix+kind) }
	if m, ok := reflect.Zero(t).Interface().(proto.Message); ok {
		d := m.ProtoReflect().Descriptor()
		add(string(d.FullName()))
		addMessageLines(lines, path, d, nil)
		return
	}
	switch {
	case t.Kind() == reflect.Pointer:
		addLines(lines, path, prefix, t.Elem(), inside)
		return
	case slices.Contains(inside, t): // a type that contains itself
		add("^" + t.Name())
		return
	case t == timeType || encodesItself(t):
		add(shapeOf(t))
		return
	}
	if values := declaredValues(t); values != nil {
		add(t.Kind().String())
		addValues(lines, path+" value ", values)
		return
	}
	inside = append(slices.Clip(inside), t)
	switch k := t.Kind(); {
	case k == reflect.Struct:
		add("object")
		addFieldLines(lines, path, t, inside)
	case storedAsBytes(t):
		add("bytes")
		addValues(lines, path+"[] value ", declaredValues(t.Elem()))
	case k == reflect.Slice:
		add("list")
		addLines(lines, path+"[]", "", t.Elem(), inside)
	case k == reflect.Array:
		add(fmt.Sprintf("list of %d", t.Len()))
		addLines(lines, path+"[]", "", t.Elem(), inside)
	case k == reflect.Map:
		if values := declaredValues(t.Key()); values != nil {
			add("map by " + t.Key().Kind().String())
			addValues(lines, path+" key ", values)
		} else {
			add("map by " + shapeOf(t.Key()))
		}
		addLines(lines, path+"[]", "", t.Elem(), inside)
	default:
		add(shapeOf(t))
	}
}

// addValues adds a line for each value: one more breaks no caller.
func addValues(lines *[]string, prefix string, values []string) {
	for _, v := range values {
		*lines = append(*lines, prefix+v)
	}
}

func addFieldLines(lines *[]string, path string, t reflect.Type, inside []reflect.Type) {
	for _, f := range storedFields(t) {
		prefix := ""
		if f.quoted {
			prefix = "quoted "
		}
		if f.name != "" {
			addLines(lines, path+"."+f.name, prefix, f.typ, inside)
			continue
		}
		if f.typ.Kind() == reflect.Pointer {
			f.typ = f.typ.Elem()
		}
		if !slices.Contains(inside, f.typ) {
			addFieldLines(lines, path, f.typ, append(slices.Clip(inside), f.typ))
		}
	}
}

func addMessageLines(lines *[]string, path string, d protoreflect.MessageDescriptor, inside []protoreflect.FullName) {
	inside = append(slices.Clip(inside), d.FullName())
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		at := fmt.Sprintf("%s.%s(%d)", path, f.Name(), f.Number())
		switch {
		case f.IsMap():
			*lines = append(*lines, fmt.Sprintf("%s map by %s", at, f.MapKey().Kind()))
			f, at = f.MapValue(), at+"[]"
		case f.IsList():
			*lines = append(*lines, at+" list")
			at += "[]"
		}
		if f.Message() == nil {
			*lines = append(*lines, at+" "+f.Kind().String())
			if e := f.Enum(); e != nil { // a line for each: to add one breaks no caller
				for i := range e.Values().Len() {
					v := e.Values().Get(i)
					*lines = append(*lines, fmt.Sprintf("%s value %s(%d)", at, v.Name(), v.Number()))
				}
			}
			continue
		}
		*lines = append(*lines, at+" "+string(f.Message().FullName()))
		if !slices.Contains(inside, f.Message().FullName()) {
			addMessageLines(lines, at, f.Message(), inside)
		}
	}
}

// lacks returns the shape of a field that the one type stores and the other does not, or
// stores in another form; empty: there is none.
func lacks(t, old reflect.Type) string {
	var has, had []string
	m, ok := reflect.Zero(t).Interface().(proto.Message)
	o, wasMessage := reflect.Zero(old).Interface().(proto.Message)
	switch {
	case ok && wasMessage:
		has, had = messageFields(m.ProtoReflect().Descriptor(), nil), messageFields(o.ProtoReflect().Descriptor(), nil)
	case t.Kind() == reflect.Struct && old.Kind() == reflect.Struct && !encodesItself(t) && !encodesItself(old):
		has, had = structFields(t, nil), structFields(old, nil)
	default:
		has, had = []string{shapeOf(t)}, []string{shapeOf(old)}
	}
	for _, field := range had {
		if !slices.Contains(has, field) {
			return field
		}
	}
	return ""
}

func writeMessage(b *strings.Builder, d protoreflect.MessageDescriptor, inside []protoreflect.FullName) {
	if slices.Contains(inside, d.FullName()) {
		fmt.Fprintf(b, "^%s", d.FullName())
		return
	}
	fmt.Fprintf(b, "%s{%s}", d.FullName(), strings.Join(messageFields(d, append(inside, d.FullName())), ","))
}

func messageFields(d protoreflect.MessageDescriptor, inside []protoreflect.FullName) []string {
	var fields []string
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		var field strings.Builder
		fmt.Fprintf(&field, "%d:", f.Number())
		if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() {
			fmt.Fprintf(&field, "oneof %d ", lowestNumber(o.Fields()))
		}
		switch {
		case f.IsMap():
			fmt.Fprintf(&field, "map[%s]", f.MapKey().Kind())
			writeField(&field, f.MapValue(), inside)
		case f.IsList():
			field.WriteString("[")
			writeField(&field, f, inside)
			field.WriteString("]")
		default:
			writeField(&field, f, inside)
		}
		fields = append(fields, field.String())
	}
	return fields
}

// lowestNumber names a oneof, in which the last field that is read clears the others. The name
// that it has in the .proto file is not stored, and may change.
func lowestNumber(fields protoreflect.FieldDescriptors) protoreflect.FieldNumber {
	lowest := fields.Get(0).Number()
	for i := range fields.Len() {
		lowest = min(lowest, fields.Get(i).Number())
	}
	return lowest
}

func writeField(b *strings.Builder, f protoreflect.FieldDescriptor, inside []protoreflect.FullName) {
	switch {
	case f.Message() != nil:
		writeMessage(b, f.Message(), inside)
	case f.Enum() != nil: // its values are stored by their numbers
		fmt.Fprintf(b, "enum{%s}", strings.Join(enumNumbers(f.Enum()), ","))
	default:
		b.WriteString(f.Kind().String())
	}
}

// enumNumbers returns the numbers that an enum declares, in order.
func enumNumbers(e protoreflect.EnumDescriptor) (list []string) {
	var numbers []int
	for i := range e.Values().Len() {
		numbers = append(numbers, int(e.Values().Get(i).Number()))
	}
	slices.Sort(numbers)
	for _, n := range slices.Compact(numbers) {
		list = append(list, strconv.Itoa(n))
	}
	return list
}

// encodesItself reports whether a type has its own methods for encoding or decoding.
func encodesItself(t reflect.Type) bool {
	return has(t, jsonMarshaler) || has(t, textMarshaler) || decodesItself(t)
}

// decodesItself reports whether a type has its own methods for decoding.
func decodesItself(t reflect.Type) bool { return has(t, jsonUnmarshaler) || has(t, textUnmarshaler) }

// has reports whether a type or a pointer to it has the methods of an interface.
func has(t, methods reflect.Type) bool {
	return t.Implements(methods) || reflect.PointerTo(t).Implements(methods)
}

// hiddenField returns the path of a field that package json does not store; empty: there is
// none. It does not look into types that encode themselves.
func hiddenField(t reflect.Type, inside []reflect.Type) string {
	if slices.Contains(inside, t) { // a type that contains itself
		return ""
	}
	inside = append(inside, t)
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return hiddenField(t.Elem(), inside)
	}
	if t.Kind() != reflect.Struct || t == timeType || encodesItself(t) {
		return ""
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Tag.Get("json") == "-" || !f.IsExported() && !f.Anonymous {
			return f.Name
		}
		if path := hiddenField(f.Type, inside); path != "" {
			return f.Name + "." + path
		}
	}
	return ""
}
