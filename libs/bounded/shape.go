package bounded

import (
	"reflect"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Memory that decoding takes, in bytes. A test compares the sums with actual
// allocations.
const (
	// header is the part of a message that only the protobuf package uses.
	header = 40
	// pointer is for an element of a list of pointers. Long lists grow by a quarter,
	// so that all copies together take six times the last one.
	pointer = 6 * 8
	// text is for an element of a list of strings, slice for one of a list of byte slices.
	text  = 6 * 16
	slice = 6 * 24
	// unknown is for each byte of an unknown field: it is appended to a list of
	// bytes.
	unknown = 7
	// choice is for the wrapper of a field in a oneof.
	choice = 16
	// entry is for an element of a map, without its value.
	entry = 256
)

// shape describes the memory use of one kind of message.
type shape struct {
	size   int // of the generated struct
	noun   int // of the noun that it is converted to, if not part of another one
	fields map[protowire.Number]*field
	lists  []*field
	widest int // the largest size of this message and those below, including their place in a list
}

type field struct {
	name   protoreflect.FullName
	number protowire.Number
	wire   protowire.Type // of an element
	list   bool
	bytes  bool   // or string
	below  *shape // of the message type
	fixed  int    // memory independent of the length of the value
}

var shapes struct {
	sync.Mutex
	known map[protoreflect.FullName]*shape
}

func shapeOf(kind protoreflect.MessageDescriptor) *shape {
	shapes.Lock()
	defer shapes.Unlock()
	if shapes.known == nil {
		shapes.known = map[protoreflect.FullName]*shape{}
	}
	return newShape(kind)
}

// newShape must be called with shapes locked. A message type may contain itself.
func newShape(kind protoreflect.MessageDescriptor) *shape {
	if s := shapes.known[kind.FullName()]; s != nil {
		return s
	}
	size := structSize(kind)
	s := &shape{
		size:   size + size/8, // rounded up as the allocator does
		noun:   size - header + 16,
		fields: map[protowire.Number]*field{},
	}
	s.widest = s.size + s.noun + pointer
	shapes.known[kind.FullName()] = s
	for i := range kind.Fields().Len() {
		d := kind.Fields().Get(i)
		f := &field{name: d.FullName(), number: d.Number(), wire: wireOf(d.Kind()), list: d.IsList()}
		switch d.Kind() {
		case protoreflect.StringKind, protoreflect.BytesKind:
			f.bytes = true
		case protoreflect.MessageKind, protoreflect.GroupKind:
			f.below = newShape(d.Message())
			s.widest = max(s.widest, f.below.widest)
			f.fixed = f.below.size
		}
		switch {
		case d.IsMap():
			f.fixed += entry
		case f.list && d.Kind() == protoreflect.StringKind:
			f.fixed += text
		case f.list && f.bytes:
			f.fixed += slice
		case f.list:
			f.fixed += pointer
			if f.below != nil {
				f.fixed += f.below.noun
			}
		case d.ContainingOneof() != nil:
			f.fixed += choice
		}
		if f.list {
			s.lists = append(s.lists, f)
		}
		s.fields[f.number] = f
	}
	return s
}

// structSize returns the size of the generated struct; a type without one is decoded into
// maps.
func structSize(kind protoreflect.MessageDescriptor) int {
	if t, err := protoregistry.GlobalTypes.FindMessageByName(kind.FullName()); err == nil {
		if p := reflect.TypeOf(t.Zero().Interface()); p.Kind() == reflect.Pointer {
			return int(p.Elem().Size())
		}
	}
	return entry * (1 + kind.Fields().Len())
}

func wireOf(kind protoreflect.Kind) protowire.Type {
	switch kind {
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.GroupKind:
		return protowire.StartGroupType
	}
	return protowire.VarintType
}

// cost returns how much memory a field with a tag of n bytes and the given value
// takes.
func (f *field) cost(wire protowire.Type, n int, value []byte) int {
	switch {
	case f != nil && wire == f.wire && f.bytes && len(value) > 0:
		return f.fixed + len(value) + len(value)/8 + 8
	case f != nil && wire == f.wire:
		return f.fixed
	case f != nil && f.list && wire == protowire.BytesType: // packed numbers
		return 16 * len(value)
	}
	return unknown * (n + len(value))
}
