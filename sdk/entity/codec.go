package entity

import (
	"bytes"
	"encoding/json"
	"errors"
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

// decode reads a command's input of type T. An empty payload is the zero value.
// Unknown JSON fields are refused: a misspelt one must not be taken for zero.
func decode[T any](payload []byte, enc sharding.Encoding) (T, error) {
	return decodeAs[T](payload, enc, false)
}

// decodeReply decodes a reply of type T. Unlike decode it ignores unknown fields: an
// entity of a newer version may return more than an older caller knows.
func decodeReply[T any](payload []byte, enc sharding.Encoding) (T, error) {
	return decodeAs[T](payload, enc, true)
}

func decodeAs[T any](payload []byte, enc sharding.Encoding, lenient bool) (T, error) {
	var none T
	if _, ok := any(none).(proto.Message); ok {
		m := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(proto.Message)
		var err error
		if enc == sharding.Protobuf {
			err = proto.Unmarshal(payload, m)
		} else if len(payload) > 0 {
			err = protojson.UnmarshalOptions{DiscardUnknown: lenient}.Unmarshal(payload, m)
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
	err := decodeJSON(payload, v, lenient)
	return *v, err
}

// decodeJSON reads what callers send and are sent. Fields may be missing: they may be older
// than this program. What is stored is read by [layout.read].
func decodeJSON(payload []byte, v any, lenient bool) error {
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
	return nil
}

// preferred returns the encoding in which a Go caller sends and stores a value.
func preferred(v any) sharding.Encoding {
	if _, ok := v.(proto.Message); ok {
		return sharding.Protobuf
	}
	return sharding.JSON
}
