// Package foreign takes the text of values that belong to code of others: errors and panic values of the authors of
// entities and strategies. Their methods Error and String are such code too, and may panic.
package foreign

import (
	"fmt"
	"reflect" // pure: of types
	"unicode/utf8"
)

// MaxText bounds a text, in bytes. It is twice what a log line shows of a value: the log removes passwords from what it
// shows, and must see them as a whole.
const MaxText = 8 << 10

// Text returns the text of a value, cut to [MaxText]. If the value's own method panics, the text says so, or
// that the value is a nil pointer. If the method ends its goroutine, Text does not return, and nothing can make it.
func Text(v any) (text string) {
	method := "Error"
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if IsNil(v) {
			text = fmt.Sprintf("a nil %T", v)
			return
		}
		text = bound(fmt.Sprintf("the %s method of a %T panicked: %s", method, v, panicText(p)))
	}()
	switch v := v.(type) {
	case error:
		return bound(v.Error())
	case fmt.Stringer:
		method = "String"
		return bound(v.String())
	}
	method = "Format" // or one of a part of the value that panicked twice: package fmt reports others
	return bound(fmt.Sprint(v))
}

// IsNil reports whether a value is a nil pointer. In an interface, such as error, it does not equal nil.
func IsNil(v any) bool {
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}

// panicText returns the text of a panic in a method of a value. The panic may have that value again, so what panics now
// is not asked any more.
func panicText(p any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("a %T", p)
		}
	}()
	return fmt.Sprint(p)
}

func bound(text string) string {
	if len(text) <= MaxText {
		return text
	}
	end := MaxText
	for end > MaxText-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s… (cut, of %d bytes)", text[:end], len(text))
}
