package bounded

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// checkFields returns an error if b is not a message of the given kind in JSON, or has an unknown
// field. The error names this field, and the known fields.
func checkFields(b []byte, kind protoreflect.MessageDescriptor) error {
	t, err := protoregistry.GlobalTypes.FindMessageByName(kind.FullName())
	if err != nil {
		return nil // this process does not serve the method
	}
	if err := protojson.Unmarshal(b, t.New().Interface()); err != nil {
		// The prefix varies between builds.
		text := strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0")
		return fmt.Errorf("the body is not a %s: %s; the fields are %s", kind.Name(), text, fieldsOf(kind, maxListedDepth))
	}
	return nil
}

// maxListedDepth bounds how deep the fields of messages in messages are listed.
const maxListedDepth = 3

// fieldsOf lists the fields of a message, and in braces the fields of the messages in it.
func fieldsOf(kind protoreflect.MessageDescriptor, depth int) string {
	var names []string
	for i := range kind.Fields().Len() {
		f := kind.Fields().Get(i)
		name := string(f.Name())
		if f.Message() != nil && !f.IsMap() && depth > 1 {
			name += " {" + fieldsOf(f.Message(), depth-1) + "}"
		}
		names = append(names, name)
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, ", ")
}
