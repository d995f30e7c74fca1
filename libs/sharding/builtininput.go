package sharding

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
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
		case changesText(value):
			return fmt.Errorf("field %q has half of a surrogate pair, which is not Unicode", name)
		}
		seen[name] = true
	}
	return nil
}

// changesText reports whether package json puts U+FFFD in the place of something in a value.
func changesText(value []byte) bool {
	const replacement = "\ufffd"
	var s string
	return json.Unmarshal(value, &s) == nil && strings.Contains(s, replacement) &&
		!strings.Contains(string(value), replacement) && !strings.Contains(strings.ToLower(string(value)), `\ufffd`)
}
