package instance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// explain describes what is wrong with a value that cannot be decoded, for a reader who
// sees the value and not the program: it names the field and what belongs there, and no
// Go type. Errors of an author's own decoders are returned unchanged.
func explain(into any, err error) error {
	if err == nil {
		return nil // before there are variables on the heap: this is the rule
	}
	var mismatch *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &mismatch):
		what := "the value"
		if mismatch.Field != "" {
			what = fmt.Sprintf("field %q", fieldPath(reflect.TypeOf(into), mismatch.Field))
		}
		must := wanted(mismatch.Type)
		if literal, number := strings.CutPrefix(mismatch.Value, "number "); number && strings.ContainsAny(literal, ".eE") && strings.HasPrefix(must, "a whole number") {
			must += ", written without point or exponent" // package json does not take 1.0 for 1
		}
		return fmt.Errorf("%s is %s; it must be %s", what, found(mismatch.Value), must)
	case errors.As(err, &syntax) && syntax.Error() == "unexpected end of JSON input":
		return errors.New("it is not valid JSON: it ends too early")
	case errors.As(err, &syntax):
		return fmt.Errorf("it is not valid JSON: %s, at byte %d", syntax.Error(), syntax.Offset)
	case errors.Is(err, io.EOF):
		return errors.New("it is empty; send a JSON value")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it is not valid JSON: it ends too early")
	}
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ") // package proto sometimes writes such spaces, on purpose
	name, unknown := strings.CutPrefix(text, "json: unknown field ")
	text, ours := strings.CutPrefix(text, "json: ")
	switch {
	case unknown:
		return unknownFieldError(name)
	case ours && strings.HasPrefix(text, "invalid use of ,string"):
		return errors.New("a field holds a number or boolean in quotes, and another value is sent for it")
	}
	if text, ok := strings.CutPrefix(text, "proto:"); ok {
		return errors.New(strings.TrimSpace(text))
	}
	return err
}

// unknownFieldError names a field, in quotes, that a command's input must not have.
type unknownFieldError string

func (e unknownFieldError) Error() string {
	return "there is no field " + string(e) + "; check its spelling or leave it out"
}

// fieldPath returns the path of a field as the sender knows it: without the names of
// embedded structs, which package json adds but which are not in the JSON.
func fieldPath(t reflect.Type, path string) string {
	var sent []string
	for name := range strings.SplitSeq(path, ".") {
		for t != nil && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Map) {
			t = t.Elem()
		}
		field, embedded := fieldOf(t, name)
		if t = field.Type; !embedded {
			sent = append(sent, name)
		}
	}
	return strings.Join(sent, ".")
}

// fieldOf returns the field with the JSON name, or the embedded struct with that name.
func fieldOf(t reflect.Type, name string) (f reflect.StructField, embedded bool) {
	if t == nil || t.Kind() != reflect.Struct {
		return f, false
	}
	for i := range t.NumField() {
		f := t.Field(i)
		switch tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); {
		case tag == name:
			return f, false
		case tag == "" && f.Name == name:
			structure := f.Type.Kind() == reflect.Struct || f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct
			return f, f.Anonymous && structure
		}
	}
	return f, false
}

// found describes a value that package json did not expect.
func found(value string) string {
	switch value {
	case "bool":
		return "a boolean"
	case "array", "object":
		return "an " + value
	}
	if literal, ok := strings.CutPrefix(value, "number "); ok {
		return literal
	}
	return "a " + value
}

// wanted describes the JSON that a Go type is decoded from.
func wanted(t reflect.Type) string {
	if t.Implements(textUnmarshaler) || reflect.PointerTo(t).Implements(textUnmarshaler) {
		return "a string"
	}
	switch k := t.Kind(); k {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		limit := uint64(1) << (t.Bits() - 1)
		return fmt.Sprintf("a whole number from -%d to %d", limit, limit-1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return fmt.Sprintf("a whole number from 0 to %d", ^uint64(0)>>(64-t.Bits()))
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		if k == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
			return "a string in base64"
		}
		return "an array"
	}
	return "something else"
}
