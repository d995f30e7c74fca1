package instance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect" // pure: of types, and of values that are no maps
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/sharding"
)

// encode encodes a value: a protobuf message in the wanted encoding, everything else as
// JSON.
func encode(v any, want sharding.Encoding) ([]byte, sharding.Encoding, error) {
	m, ok := v.(proto.Message)
	switch {
	case ok && want == sharding.Protobuf:
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		return b, sharding.Protobuf, err
	case ok:
		b, err := protojson.Marshal(m)
		return b, sharding.JSON, err
	}
	b, err := json.Marshal(v)
	return b, sharding.JSON, err
}

// Encode encodes an input. Text that is not UTF-8 is refused, because package json would change it.
func (c *Command) Encode(in any) ([]byte, sharding.Encoding, error) {
	payload, enc, err := encode(in, preferred(in))
	if err == nil && enc == sharding.JSON && !c.Input.layout.open && replaced(payload) {
		err = errors.New("a string in it is not in UTF-8")
	}
	return payload, enc, settled(err)
}

// EncodeReply encodes a reply in the wanted encoding, if it has that. The error is for the log: the reply
// could not be delivered.
func EncodeReply(v any, want sharding.Encoding) ([]byte, sharding.Encoding, error) {
	payload, enc, err := encode(v, want)
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("the reply cannot be encoded: %w", err)
	case len(payload) > sharding.MaxPayload:
		return nil, 0, fmt.Errorf("the reply has %d bytes, at most %d are allowed", len(payload), sharding.MaxPayload)
	}
	return payload, enc, nil
}

// replaced reports whether package json replaced something that is not UTF-8: it writes an escape then. U+FFFD
// itself is written without an escape.
func replaced(payload []byte) bool {
	for at := 0; ; {
		i := bytes.Index(payload[at:], replacement)
		if i < 0 {
			return false
		}
		before := payload[:at+i]
		if (len(before)-len(bytes.TrimRight(before, `\\`)))%2 == 0 { // else a backslash is in the text
			return true
		}
		at += i + 1
	}
}

// decode reads a command's input of type T, whose layout is l. An empty payload is the zero value. Unknown
// fields are refused: a misspelt one must not be taken for zero. So are inputs that two decoders would read
// in two ways, such as a key that is there twice.
func decode[T any](payload []byte, enc sharding.Encoding, l *layout) (T, error) {
	return decodeAs[T](payload, enc, l)
}

// DecodeReply decodes a reply of type T. Unlike decode it ignores unknown fields: an
// entity of a newer version may return more than an older caller knows.
func DecodeReply[T any](payload []byte, enc sharding.Encoding) (T, error) {
	return decodeAs[T](payload, enc, nil)
}

// decodeAs decodes strictly if it is given a layout.
func decodeAs[T any](payload []byte, enc sharding.Encoding, l *layout) (T, error) {
	var none T
	lenient := l == nil
	if _, ok := any(none).(proto.Message); ok {
		m := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(proto.Message)
		var err error
		switch {
		case enc == sharding.Protobuf:
			err = proto.Unmarshal(payload, m)
		case len(payload) > 0 && !lenient && json.Valid(payload): // package protojson does not name all that it refuses
			err = (&layout{kind: untyped}).checkInput(payload)
		}
		if err == nil && enc != sharding.Protobuf && len(payload) > 0 {
			err = protojson.UnmarshalOptions{DiscardUnknown: lenient}.Unmarshal(payload, m)
		}
		if field := ""; err == nil && !lenient {
			if field = unknownField(m.ProtoReflect()); field != "" {
				err = errors.New("unknown " + field)
			}
		}
		return m.(T), explain(m, err)
	}
	if len(payload) == 0 {
		return none, nil
	}
	if enc == sharding.Protobuf {
		return none, errors.New("it is protobuf, which this type has no message for; send application/json")
	}
	v := new(T) // only here: a message needs no second place in memory
	err := decodeJSON(payload, v, l)
	return *v, err
}

// decodeJSON reads input from callers, and without a layout the input that callers receive. Fields may be
// missing: they may be older than this program. Stored data is read by [layout.read].
func decodeJSON(payload []byte, v any, l *layout) error {
	lenient := l == nil
	if !lenient && !utf8.Valid(payload) { // the decoder would put U+FFFD in its place
		return errors.New("it is not valid JSON: it is not in UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	if !lenient {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(v); err != nil {
		return explain(v, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("it is not valid JSON: there is more after the value")
	}
	// Invariant: an input says one thing, however it is decoded.
	// Mutants: strict-input
	if lenient { //mutant:true strict-input
		return nil
	}
	return l.checkInput(payload)
}

// preferred returns the encoding in which a Go caller sends and stores a value.
func preferred(v any) sharding.Encoding {
	if _, ok := v.(proto.Message); ok {
		return sharding.Protobuf
	}
	return sharding.JSON
}
