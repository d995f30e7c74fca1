package sharding

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf16" // pure: arithmetic
	"unicode/utf8"
)

// ReadBuiltin reads the input of a built-in command, such as a [ReminderDropInput], which is a flat JSON object. It is
// strict, because an operator who writes a key twice, or under another spelling, does not get what the command says:
// package json takes the last one.
func ReadBuiltin(payload []byte, in any) error {
	if !utf8.Valid(payload) {
		return errors.New("it is not in UTF-8")
	}
	if len(bytes.TrimSpace(payload)) == 0 {
		return errors.New("it is empty")
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	if err := d.Decode(in); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the value")
	}
	seen := map[string]bool{}
	d = json.NewDecoder(bytes.NewReader(payload))
	for _, _ = d.Token(); d.More(); {
		key, _ := d.Token() // it is valid
		name, _ := key.(string)
		var value json.RawMessage
		_ = d.Decode(&value)
		switch {
		case name != strings.ToLower(name) || strings.ContainsFunc(name, func(c rune) bool { return c >= utf8.RuneSelf }):
			return fmt.Errorf("there is no field %q; its name is in lower case", name)
		case seen[name]:
			return fmt.Errorf("field %q is there twice", name)
		case halfPair(value):
			return fmt.Errorf("field %q has half of a surrogate pair, which is not Unicode", name)
		}
		seen[name] = true
	}
	return nil
}

// halfPair reports whether a flat value in valid JSON has half of a surrogate pair.
func halfPair(value []byte) bool {
	for i := 0; i < len(value); i++ {
		if value[i] == '\\' {
			n, whole := JSONEscape(value[i:])
			if !whole {
				return true
			}
			i += n - 1
		}
	}
	return false
}

// JSONEscape returns the length of the escape at the start of b, which continues a string in valid JSON. Two escapes
// \uXXXX that are one character count as one. whole is false for half of such a pair, which package json replaces by
// U+FFFD.
func JSONEscape(b []byte) (n int, whole bool) {
	if b[1] != 'u' {
		return 2, true
	}
	first := hexRune(b[2:6])
	if !utf16.IsSurrogate(first) {
		return 6, true
	}
	if len(b) >= 12 && b[6] == '\\' && b[7] == 'u' && utf16.DecodeRune(first, hexRune(b[8:12])) != utf8.RuneError {
		return 12, true
	}
	return 6, false
}

func hexRune(digits []byte) (r rune) {
	for _, c := range digits {
		if c |= 0x20; c >= 'a' {
			c -= 'a' - 10 - '0'
		}
		r = r<<4 | rune(c-'0')
	}
	return r
}
