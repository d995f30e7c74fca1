package sharding

import (
	"cmp"
	"fmt"
	"iter"
	"math/bits"
	"slices"
)

// FormKind is the kind of the data that is stored in a form.
type FormKind uint8

const (
	// FormOfEvent: events.
	FormOfEvent FormKind = iota + 1
	// FormOfSnapshot: snapshots of a type whose events may be gone. All other snapshots can be
	// rebuilt from events, so no program needs to read them.
	FormOfSnapshot
	// FormOfInput: inputs of commands that are stored until they run.
	FormOfInput
)

// String is "event", "snapshot" or "input".
func (k FormKind) String() string {
	switch k {
	case FormOfEvent:
		return "event"
	case FormOfSnapshot:
		return "snapshot"
	case FormOfInput:
		return "input"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Form is one form in which something of an entity type is stored.
type Form struct {
	Kind FormKind
	// Name is the stored name of an event or a command. Empty for snapshots.
	Name string
	// Version is declared by the type's author.
	Version uint16
	// ReadableBy is the lowest version whose reader may ignore the fields that it does
	// not know. 0: there is none.
	ReadableBy uint16
	// Shape is a fingerprint of the fields.
	Shape uint64
}

// String names the form for people: "event item-added, version 2, shape 00000000000f3c21". Two
// forms may differ by their shapes alone: then a field has changed and the version has not.
func (f Form) String() string {
	what := f.Kind.String()
	if f.Name != "" {
		what += " " + f.Name
	}
	return fmt.Sprintf("%s, version %d, shape %016x", what, f.Version, f.Shape)
}

// Compare orders forms by kind, name and version, then by the rest.
func (f Form) Compare(o Form) int {
	return cmp.Or(cmp.Compare(f.Kind, o.Kind), cmp.Compare(f.Name, o.Name), cmp.Compare(f.Version, o.Version),
		cmp.Compare(f.ReadableBy, o.ReadableBy), cmp.Compare(f.Shape, o.Shape))
}

// Reads reports whether a program that reads the given forms, sorted, reads data in form f: it has
// that form, or the form permits the program's version to ignore what it does not know. The
// program's version of a name is the highest one that it reads.
func Reads(reads []Form, f Form) bool {
	first, _ := slices.BinarySearchFunc(reads, f, func(r, f Form) int {
		return cmp.Or(cmp.Compare(r.Kind, f.Kind), cmp.Compare(r.Name, f.Name))
	})
	var version uint16
	for _, r := range reads[first:] {
		if r.Kind != f.Kind || r.Name != f.Name {
			break
		}
		if r.Version == f.Version && r.Shape == f.Shape {
			return true
		}
		version = r.Version
	}
	return f.ReadableBy > 0 && f.ReadableBy <= version && version < f.Version
}

// FormSet is a set of indexes into a list of forms. Equal sets are equal strings: bit i%8 of
// byte i/8 stands for index i, and the last byte is not zero.
type FormSet string

// MakeFormSet reads a set from its bytes; the last ones may be zero.
func MakeFormSet(b []byte) FormSet {
	for len(b) > 0 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	return FormSet(b)
}

// Has reports whether the set has the index i.
func (s FormSet) Has(i int) bool { return i/8 < len(s) && s[i/8]&(1<<(i%8)) != 0 }

// With returns the set with the index i.
func (s FormSet) With(i int) FormSet {
	if s.Has(i) {
		return s
	}
	b := make([]byte, max(len(s), i/8+1))
	copy(b, s)
	b[i/8] |= 1 << (i % 8)
	return FormSet(b)
}

// Union returns the set of the forms in either set.
func (s FormSet) Union(o FormSet) FormSet {
	if len(s) < len(o) {
		s, o = o, s
	}
	if s.Contains(o) {
		return s
	}
	b := []byte(s)
	for i := range len(o) {
		b[i] |= o[i]
	}
	return FormSet(b)
}

// Contains reports whether all of o is in s.
func (s FormSet) Contains(o FormSet) bool {
	if len(o) > len(s) {
		return false
	}
	for i := range len(o) {
		if o[i]&^s[i] != 0 {
			return false
		}
	}
	return true
}

// Len returns how many indexes are in the set.
func (s FormSet) Len() int {
	n := 0
	for i := range len(s) {
		n += bits.OnesCount8(s[i])
	}
	return n
}

// End returns the lowest number above all indexes in the set.
func (s FormSet) End() int {
	if len(s) == 0 {
		return 0
	}
	return 8*(len(s)-1) + bits.Len8(s[len(s)-1])
}

// All returns the indexes in the set, lowest first.
func (s FormSet) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range s.End() {
			if s.Has(i) && !yield(i) {
				return
			}
		}
	}
}
