package instance

import (
	"bytes"
	"encoding/base64" // pure: arithmetic
	"encoding/json"
	"errors"
	"fmt"
	"reflect" // pure: of types
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/roost-cluster/roost/libs/sharding"
)

// read reads stored JSON into v, whose type has this layout. Package json would take missing data for zero.
// So stored JSON must have the form that package json writes for a value of the type:
//
//   - Every field is there, once and under its exact name, unless a tag leaves it out when it is empty, or it
//     belongs to an embedded pointer that is nil.
//   - There is no other field. A lenient reader ignores the fields of a later version.
//   - null is only where it stands for nil, or a MarshalJSON method may have written it.
//   - Arrays have their length, bytes are in base64, keys of maps differ.
//
// What a type with methods of its own writes is left to these methods. The order of the
// fields and the space between them are free.
func (l *layout) read(payload []byte, v any, lenient bool) error {
	if !utf8.Valid(payload) { // the decoder would put U+FFFD in its place
		return errors.New("it is not valid JSON: it is not in UTF-8")
	}
	if len(bytes.TrimSpace(payload)) == 0 {
		return errors.New("it is empty, which no value is stored as")
	}
	if err := json.Unmarshal(payload, v); err != nil {
		return explain(v, err)
	}
	if l.halfOwn && !lenient { // package json decodes what no method does, and no other code checks
		d := json.NewDecoder(bytes.NewReader(payload))
		d.DisallowUnknownFields()
		err := explain(v, d.Decode(reflect.New(reflect.TypeOf(v).Elem()).Interface()))
		if name, ok := errors.AsType[unknownFieldError](err); ok {
			return &shapeError{path: strings.Trim(string(name), `"`), what: storedUnknown}
		} else if err != nil {
			return err
		}
	}
	//mutant:do strict-shape return nil
	return l.check(payload, lenient)
}

// check checks valid JSON as read does.
func (l *layout) check(payload []byte, lenient bool) error {
	w := walker{b: payload, lenient: lenient}
	err := w.value(l)
	if err == nil && w.broken {
		err = &shapeError{what: `a string in it has half of a surrogate pair, such as \ud800`, damaged: true}
	}
	if err == nil {
		return nil // and not a nil pointer in an interface
	}
	err.later = lenient
	return err
}

// checkInput checks valid JSON that a caller has sent, and package json has decoded. Package json takes the last one of
// repeated keys, takes "Delta" for "delta", and changes text that is not Unicode.
func (l *layout) checkInput(payload []byte) error {
	w := walker{b: payload, input: true}
	err := w.value(l)
	if err == nil && w.broken {
		err = &shapeError{what: `a string in it has half of a surrogate pair, such as \ud800, which is not Unicode`}
	}
	if err == nil {
		return nil // and not a nil pointer in an interface
	}
	err.input = true
	return err
}

// storedUnknown and storedNull are texts of shapeErrors.
const (
	storedUnknown = "it was stored with a %s that this program does not know"
	storedNull    = "%s was stored as null, and this program stores a value"
)

// shapeError describes how stored JSON differs from its type.
type shapeError struct {
	path string // of a field; empty: the value itself
	what string // with %s for the path
	// damaged: no version of the program has stored it.
	damaged bool
	// later: a later version has stored it, for this one to read.
	later bool
	// input: a caller has sent it.
	input bool
	// own: the program itself has just encoded it.
	own bool
}

func (e *shapeError) Error() string {
	subject := "it"
	if e.path != "" {
		subject = fmt.Sprintf("field %q", e.path)
	}
	text := strings.Replace(e.what, "%s", subject, 1)
	switch {
	case e.input, e.own:
		return text
	case e.damaged:
		return text + ": no version of the program has stored this"
	case e.later:
		return text + ": the later version that stored it must not have ReadableBy this one"
	}
	return text + ": the form has changed without a new version"
}

// markOwn marks an error about JSON that the program has just encoded: neither another version nor damage
// is the reason.
func markOwn(err error) error {
	var shape *shapeError
	if errors.As(err, &shape) {
		shape.own = true
	}
	return err
}

// in puts a part in front of the path.
func (e *shapeError) in(part string) *shapeError {
	if e.path != "" && !strings.HasPrefix(e.path, "[") {
		part += "."
	}
	e.path = part + e.path
	return e
}

// walker compares JSON that is known to be valid with layouts.
type walker struct {
	b       []byte
	at      int
	lenient bool
	input   bool // see checkInput
	broken  bool // a string is not what it was when it was stored
}

func (w *walker) value(l *layout) *shapeError {
	w.space()
	if w.b[w.at] == 'n' {
		w.skip()
		if !l.null && !w.input {
			return &shapeError{what: storedNull}
		}
		return nil
	}
	start := w.at
	switch l.kind {
	case opaque:
		if w.input { // the author's decoder sees it, but mostly by package json
			if err := w.untyped(); err != nil {
				return err
			}
			return l.declared(w.b[start:w.at])
		}
		broken := w.broken
		w.skip()
		w.broken = broken
		return l.declared(w.b[start:w.at])
	case simple:
		w.skip()
		return l.declared(w.b[start:w.at])
	case quoted:
		switch text := w.text(); {
		case string(text) != "null":
			return l.declared(text)
		case !w.input:
			return &shapeError{what: storedNull}
		}
	case bytes64:
		if w.b[w.at] != '"' && !w.input {
			return &shapeError{what: "%s was stored as a list, and this program stores bytes in base64"}
		}
		return w.bytes(l)
	case pointer:
		return w.value(l.elem)
	case list, array:
		return w.list(l)
	case table:
		return w.table(l)
	case object:
		return w.object(l)
	case untyped:
		return w.untyped()
	}
	return nil
}

// bytes reads a list of bytes, which a caller may also send as numbers.
func (w *walker) bytes(l *layout) *shapeError {
	switch {
	case l.elem == nil:
		w.skip()
	case w.b[w.at] != '"':
		return w.list(l)
	default:
		list, _ := base64.StdEncoding.DecodeString(string(w.text())) // it is valid
		for _, b := range list {
			if err := l.elem.declared(strconv.AppendUint(nil, uint64(b), 10)); err != nil {
				return err.in("[]")
			}
		}
	}
	return nil
}

// declared returns an error if the type declares its values, and the JSON is none of them.
func (l *layout) declared(value []byte) *shapeError {
	if l.values == nil { //mutant:true enum-values
		return nil
	}
	var same bytes.Buffer // one way to write a text
	if err := json.Compact(&same, value); err == nil && slices.Contains(l.values, canonical(same.Bytes())) {
		return nil
	}
	return &shapeError{what: fmt.Sprintf("%%s is %.40s, which is none of the values that this program declares: %.200s", value, strings.Join(l.values, ", "))}
}

// canonical returns JSON as package json writes it: a string may be written in several ways.
func canonical(value []byte) string {
	var s string
	if json.Unmarshal(value, &s) == nil {
		value, _ = json.Marshal(s)
	}
	return string(value)
}

// few is the number of fields that a struct may have to be read without allocation.
const few = 32

func (w *walker) object(l *layout) *shapeError {
	var fewSeen [few]bool
	seen := fewSeen[:]
	if len(l.fields) > few {
		seen = make([]bool, len(l.fields))
	}
	w.at++
	for next := 0; w.more('}'); next++ {
		name := w.key()
		if next >= len(l.fields) || l.fields[next].name != string(name) {
			n, known := l.byName[string(name)]
			if !known {
				if err := w.unknown(l, string(name)); err != nil {
					return err
				}
				w.skip()
				continue
			}
			next = n
		}
		if seen[next] {
			return &shapeError{path: string(name), what: "%s is there twice", damaged: true}
		}
		seen[next] = true
		if err := w.value(l.fields[next].layout); err != nil {
			return err.in(l.fields[next].name)
		}
	}
	for i := range l.fields {
		if !w.input && !seen[i] && l.needs(i, seen) {
			return &shapeError{path: l.fields[i].name, what: "it was stored without the %s that this program has"}
		}
	}
	return nil
}

// needs reports whether a field that is not there should be. The fields of an embedded
// pointer are all there, or none of them.
func (l *layout) needs(missing int, seen []bool) bool {
	f := l.fields[missing]
	if f.optional || len(f.through) == 0 {
		return !f.optional
	}
	innermost := f.through[len(f.through)-1]
	for i := range l.fields {
		if seen[i] && slices.Contains(l.fields[i].through, innermost) {
			return true
		}
	}
	return false
}

// unknown is about a field that the struct does not have. A lenient reader ignores it, unless
// package json has taken it for another: it compares names without regard to case.
func (w *walker) unknown(l *layout, name string) *shapeError {
	for i := range l.fields {
		if f := l.fields[i].name; strings.EqualFold(f, name) {
			if w.input {
				return &shapeError{path: name, what: fmt.Sprintf("there is no %%s; it is called %q", f)}
			}
			return &shapeError{path: name, what: fmt.Sprintf("it was stored with a %%s, and this program has %q", f)}
		}
	}
	if w.lenient {
		return nil
	}
	return &shapeError{path: name, what: storedUnknown}
}

func (w *walker) list(l *layout) *shapeError {
	if w.b[w.at] != '[' { // package json reads base64 into any list of bytes, and passes the methods of its elements by
		return &shapeError{what: "%s is in base64, must be a list"}
	}
	w.at++
	n := 0
	for ; w.more(']'); n++ {
		if err := w.value(l.elem); err != nil {
			return err.in("[]")
		}
	}
	if l.kind == array && n != l.length && w.input {
		return &shapeError{what: fmt.Sprintf("%%s has %d elements, must have %d", n, l.length)}
	}
	if l.kind == array && n != l.length {
		return &shapeError{what: fmt.Sprintf("%%s was stored as an array with %d elements, and this program stores %d", n, l.length)}
	}
	return nil
}

func (w *walker) table(l *layout) *shapeError {
	return w.entries(func(key []byte) *shapeError {
		if l.keys != nil && !slices.Contains(l.keys, string(key)) {
			return &shapeError{what: fmt.Sprintf("%%s has the key %q, which is none of the declared values", key)}
		}
		if l.numbers && !wholeNumber(key) && w.input {
			return &shapeError{what: fmt.Sprintf("%%s has the key %q, which is not a whole number in its shortest form", key)}
		}
		if l.numbers && !wholeNumber(key) {
			return &shapeError{what: fmt.Sprintf("%%s has the key %q, which is not a number as it is stored", key), damaged: true}
		}
		if err := w.value(l.elem); err != nil {
			return err.in("[]")
		}
		return nil
	})
}

// wholeNumber reports whether a number is written in the one way in which it is stored.
func wholeNumber(b []byte) bool {
	digits := bytes.TrimPrefix(b, []byte("-"))
	return string(b) == "0" || len(digits) > 0 && digits[0] >= '1' && digits[0] <= '9'
}

// untyped checks a value that may be anything.
func (w *walker) untyped() *shapeError {
	switch w.space(); w.b[w.at] {
	case '[':
		w.at++
		for w.more(']') {
			if err := w.untyped(); err != nil {
				return err.in("[]")
			}
		}
	case '{':
		return w.entries(func([]byte) *shapeError {
			if err := w.untyped(); err != nil {
				return err.in("[]")
			}
			return nil
		})
	default:
		w.skip()
	}
	return nil
}

// entries visits the entries of a JSON object, whose keys must differ. Package json writes
// them in order: as long as they are, none is there twice.
func (w *walker) entries(visit func(key []byte) *shapeError) *shapeError {
	start, n, ordered := w.at, 0, true
	var last []byte
	w.at++
	for ; w.more('}'); n++ {
		key := w.key()
		ordered = ordered && (n == 0 || bytes.Compare(last, key) < 0)
		last = key
		if err := visit(key); err != nil {
			return err
		}
	}
	if ordered {
		return nil
	}
	again := walker{b: w.b, at: start + 1}
	keys := make([][]byte, 0, n)
	for again.more('}') {
		keys = append(keys, again.key())
		again.skip()
	}
	slices.SortFunc(keys, bytes.Compare)
	for i := range keys[1:] {
		if bytes.Equal(keys[i], keys[i+1]) {
			return &shapeError{what: fmt.Sprintf("%%s has the key %q twice", keys[i]), damaged: true}
		}
	}
	return nil
}

// more moves to the next element or entry, or behind the end of the list or object.
func (w *walker) more(end byte) bool {
	w.space()
	if w.b[w.at] == end {
		w.at++
		return false
	}
	if w.b[w.at] == ',' {
		w.at++
	}
	return true
}

// key reads a key and moves to its value.
func (w *walker) key() []byte {
	w.space()
	key := w.text()
	w.space()
	w.at++ // the colon
	return key
}

// text reads a string.
func (w *walker) text() []byte {
	start := w.at
	if !w.pass() {
		return w.b[start+1 : w.at-1]
	}
	var s string
	_ = json.Unmarshal(w.b[start:w.at], &s) // it is valid
	return []byte(s)
}

// pass moves behind a string, and reports whether it has escapes.
func (w *walker) pass() (escapes bool) {
	for w.at++; w.b[w.at] != '"'; w.at++ {
		if w.b[w.at] != '\\' {
			continue
		}
		escapes = true
		n, whole := sharding.JSONEscape(w.b[w.at:])
		w.broken = w.broken || !whole
		w.at += n - 1
	}
	w.at++
	return escapes
}

// skip moves behind a value.
func (w *walker) skip() {
	w.space()
	for depth := 0; ; {
		switch w.b[w.at] {
		case '"':
			w.pass()
		case '{', '[':
			depth++
			w.at++
		case '}', ']':
			depth--
			w.at++
		case ',', ':', ' ', '\t', '\n', '\r':
			w.at++
		default:
			w.literal()
		}
		if depth == 0 {
			return
		}
	}
}

// literal moves behind a number, true, false or null.
func (w *walker) literal() {
	for ; w.at < len(w.b); w.at++ {
		switch w.b[w.at] {
		case ',', '}', ']', ' ', '\t', '\n', '\r':
			return
		}
	}
}

func (w *walker) space() {
	for w.at < len(w.b) && (w.b[w.at] == ' ' || w.b[w.at] == '\n' || w.b[w.at] == '\t' || w.b[w.at] == '\r') {
		w.at++
	}
}
