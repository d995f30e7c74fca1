package instance

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// TestShapeOfOneof: a field that moves into a oneof has another form, because reading the
// next one clears it. The name of the oneof, and fields that are merely optional, do not count.
func TestShapeOfOneof(t *testing.T) {
	separate := oneofMessage(t, "", false)
	together := oneofMessage(t, "choice", false)
	if shape(separate) == shape(together) {
		t.Errorf("both are %s", shape(separate))
	}
	if renamed := oneofMessage(t, "other", false); shape(renamed) != shape(together) {
		t.Errorf("%s, under another name %s", shape(together), shape(renamed))
	}
	if optional := oneofMessage(t, "", true); shape(optional) != shape(separate) {
		t.Errorf("%s, optional %s", shape(separate), shape(optional))
	}
}

func shape(d protoreflect.MessageDescriptor) string {
	var b strings.Builder
	writeMessage(&b, d, nil)
	return b.String()
}

// oneofMessage is a message with the fields 1 and 2: separate, optional, or in a oneof.
func oneofMessage(t *testing.T, oneof string, optional bool) protoreflect.MessageDescriptor {
	m := &descriptorpb.DescriptorProto{Name: proto.String("M")}
	for i, name := range []string{"a", "b"} {
		f := &descriptorpb.FieldDescriptorProto{
			Name: proto.String(name), Number: proto.Int32(int32(i + 1)),
			Type: descriptorpb.FieldDescriptorProto_TYPE_INT64.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
		switch {
		case oneof != "":
			f.OneofIndex = proto.Int32(0)
		case optional:
			f.OneofIndex, f.Proto3Optional = proto.Int32(int32(i)), proto.Bool(true)
			m.OneofDecl = append(m.OneofDecl, &descriptorpb.OneofDescriptorProto{Name: proto.String("_" + name)})
		}
		m.Field = append(m.Field, f)
	}
	if oneof != "" {
		m.OneofDecl = []*descriptorpb.OneofDescriptorProto{{Name: proto.String(oneof)}}
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("m.proto"), Package: proto.String("test"), Syntax: proto.String("proto3"), MessageType: []*descriptorpb.DescriptorProto{m},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages().Get(0)
}
