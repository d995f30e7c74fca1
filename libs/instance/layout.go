package instance

import (
	"encoding/json"
	"reflect" // pure: of types, and of values that are no maps
	"slices"
	"strings"
	"unicode"
)

// layout describes the output of package json for the values of a Go type, which strict reading demands of
// stored JSON. [layout.read] has the rules.
type layout struct {
	kind layoutKind
	// null: a value may be null.
	null bool
	// elem is the layout of the elements of a pointer, a list, an array or a table; also of bytes, if these
	// declare their values.
	elem *layout
	// length is the length of an array.
	length int
	// numbers: the keys of a table are whole numbers.
	numbers bool
	// halfOwn: values have something that has a method to encode it, and none to decode it.
	halfOwn bool
	// values are the values that the type declares, as JSON, and keys the declared keys of a table; nil: it
	// declares none.
	values, keys []string
	// ownDecoder: values have something that the author's code decodes.
	ownDecoder bool
	// open: values may have something that package json does not encode by its Go type alone.
	open bool
	// fields are the fields of an object, in the order in which they are written.
	fields []layoutField
	byName map[string]int
}

type layoutKind uint8

const (
	opaque  layoutKind = iota // has methods of its own, which decide
	simple                    // a number, a string or a boolean
	quoted                    // one of these in quotes, as the option "string" has it
	bytes64                   // bytes in base64
	pointer
	list
	array
	table  // a map
	object // a struct
	untyped
)

// layoutField is a field of a struct.
type layoutField struct {
	name   string
	layout *layout
	// optional: the field has an option that leaves it out when it is empty.
	optional bool
	// through are the embedded pointers on the way to the field, the outermost first.
	// Where one is nil, none of its fields is written.
	through []int
}

func layoutOf(t reflect.Type) *layout {
	m := layouts{begun: map[reflect.Type]*layout{}}
	l := m.of(t)
	l.halfOwn, l.ownDecoder, l.open = m.halfOwn, m.ownDecoder && !t.Implements(message), m.open
	return l
}

// layouts are those that were begun: a type may contain itself.
type layouts struct {
	begun               map[reflect.Type]*layout
	halfOwn, ownDecoder bool
	open                bool
}

func (m *layouts) of(t reflect.Type) *layout {
	if l := m.begun[t]; l != nil {
		return l
	}
	l := &layout{null: nullable(t), values: declaredValues(t)}
	m.begun[t] = l
	switch k := t.Kind(); {
	case k == reflect.Interface:
		l.kind, m.open = untyped, true
	case k == reflect.Pointer:
		l.kind, l.elem = pointer, m.of(t.Elem())
	case encodesItself(t):
		l.kind = opaque
		m.halfOwn = m.halfOwn || !decodesItself(t)
		m.ownDecoder = m.ownDecoder || decodesItself(t) && t != timeType
		m.open = m.open || t != timeType
	case k == reflect.Struct:
		l.kind = object
		m.addFields(l, t)
	case k == reflect.Map:
		key := t.Key()
		l.kind, l.elem = table, m.of(t.Elem())
		l.numbers = key.Kind() != reflect.String && !encodesItself(key)
		for _, value := range declaredValues(key) {
			var text string
			if json.Unmarshal([]byte(value), &text) != nil {
				text = value // package json puts numbers in quotes
			}
			l.keys = append(l.keys, text)
		}
		m.ownDecoder = m.ownDecoder || decodesItself(key)
	case storedAsBytes(t):
		l.kind = bytes64
		if elem := m.of(t.Elem()); elem.values != nil {
			l.elem = elem
		}
	case k == reflect.Slice:
		l.kind, l.elem = list, m.of(t.Elem())
	case k == reflect.Array:
		l.kind, l.elem, l.length = array, m.of(t.Elem()), t.Len()
	default:
		l.kind = simple
	}
	return l
}

// storedAsBytes reports whether package json writes a list in base64.
func storedAsBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && !has(t.Elem(), jsonMarshaler) && !has(t.Elem(), textMarshaler)
}

// nullable reports whether package json may write null for a value: a nil pointer, map,
// slice or interface, or what a MarshalJSON method says. The method of time.Time never
// says it.
func nullable(t reflect.Type) bool {
	switch {
	case t == timeType:
		return false
	case has(t, jsonMarshaler):
		return true
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface:
		return true
	case reflect.Map, reflect.Slice:
		return !t.Implements(textMarshaler) // which is called for nil too
	}
	return false
}

func (m *layouts) addFields(l *layout, t reflect.Type) {
	c := fieldCollector{}
	c.collect(t, nil, nil)
	l.byName = map[string]int{}
	for i, f := range c.found {
		if !c.wins(i) {
			continue
		}
		l.byName[f.name] = len(l.fields)
		l.fields = append(l.fields, layoutField{name: f.name, layout: m.ofField(f), optional: f.optional, through: f.through})
	}
}

func (m *layouts) ofField(f foundField) *layout {
	switch {
	case !f.quoted:
		return m.of(f.typ)
	case f.typ.Kind() == reflect.Pointer:
		return &layout{kind: pointer, null: true, elem: &layout{kind: quoted, values: declaredValues(f.typ.Elem())}}
	}
	return &layout{kind: quoted, values: declaredValues(f.typ)}
}

// foundField is a field of a struct or of one that is embedded in it.
type foundField struct {
	name             string
	typ              reflect.Type
	depth            int
	tagged           bool // its name is from a tag
	quoted, optional bool
	through          []int
}

// fieldCollector finds the fields of a struct by the rules of package json.
type fieldCollector struct {
	found    []foundField
	pointers int
}

func (c *fieldCollector) collect(t reflect.Type, inside []reflect.Type, through []int) {
	if slices.Contains(inside, t) { // its fields are hidden by those that were found
		return
	}
	inside = append(slices.Clip(inside), t)
	for i := range t.NumField() {
		f := t.Field(i)
		typ, isPointer := f.Type, f.Type.Kind() == reflect.Pointer && f.Type.Name() == ""
		if isPointer {
			typ = typ.Elem()
		}
		tag := f.Tag.Get("json")
		if tag == "-" || !f.IsExported() && !(f.Anonymous && typ.Kind() == reflect.Struct) {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if !validName(name) {
			name = ""
		}
		if name == "" && f.Anonymous && typ.Kind() == reflect.Struct {
			way := through
			if isPointer {
				c.pointers++
				way = append(slices.Clip(through), c.pointers)
			}
			c.collect(typ, inside, way)
			continue
		}
		found := foundField{
			name: name, typ: f.Type, depth: len(inside), tagged: name != "", through: through,
			optional: mayBeAbsent(f.Type, options), quoted: hasOption(options, "string") && isBasic(typ) && !encodesItself(typ),
		}
		if name == "" {
			found.name = f.Name
		}
		c.found = append(c.found, found)
	}
}

// wins reports whether a field is stored: of those with one name it is the one that is
// embedded least deeply, or the only one of these with a tag.
func (c *fieldCollector) wins(i int) bool {
	f := c.found[i]
	for j, o := range c.found {
		if j != i && o.name == f.name && (o.depth < f.depth || o.depth == f.depth && (o.tagged || !f.tagged)) {
			return false
		}
	}
	return true
}

// validName reports whether package json takes a name from a tag.
func validName(name string) bool {
	for _, c := range name {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", c) && !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			return false
		}
	}
	return true
}

// confusing returns the name of a field that an older layout does not have and package json
// would take for one of its fields; empty: there is none.
func (l *layout) confusing(old *layout) string {
	for _, f := range l.fields {
		if _, known := old.byName[f.name]; known {
			continue
		}
		if slices.ContainsFunc(old.fields, func(o layoutField) bool { return strings.EqualFold(o.name, f.name) }) {
			return f.name
		}
	}
	return ""
}

func hasOption(options, name string) bool { return slices.Contains(strings.Split(options, ","), name) }

func isBasic(t reflect.Type) bool {
	k := t.Kind()
	return k == reflect.String || k >= reflect.Bool && k <= reflect.Float64
}

// mayBeAbsent reports whether package json leaves a field out when it is empty.
func mayBeAbsent(t reflect.Type, options string) bool {
	if hasOption(options, "omitzero") {
		return true
	}
	if !hasOption(options, "omitempty") {
		return false
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice:
		return true
	case reflect.Array:
		return t.Len() == 0
	}
	return isBasic(t)
}

// declaredValues returns the values that a type declares by a method Values, as JSON and sorted; nil if it declares none.
func declaredValues(t reflect.Type) []string {
	if t.Name() == "" || !isBasic(t) {
		return nil
	}
	values := reflect.Zero(t).MethodByName("Values")
	if !values.IsValid() || values.Type().NumIn() != 0 || values.Type().NumOut() != 1 || values.Type().Out(0) != reflect.SliceOf(t) {
		return nil
	}
	declared := []string{}
	for _, v := range values.Call(nil)[0].Seq2() {
		text, err := json.Marshal(v.Interface())
		if err != nil {
			text = []byte(err.Error()) // no JSON is equal to it
		}
		declared = append(declared, canonical(text))
	}
	slices.Sort(declared)
	return slices.Compact(declared)
}
