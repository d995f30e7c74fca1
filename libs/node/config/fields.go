package config

import (
	"encoding"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/setting"
)

// field is one key of the configuration.
type field struct {
	*setting.Field
	defaultText string // the default value, as text
	source      string // the origin of the value, for example "default" or "roost.yaml:12"
}

// env returns the name in the environment: ROOST_REGION_PASSIVATE_AFTER.
func (f *field) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(f.Key, ".", "_"))
}

// flag returns the name on the command line: --region.passivate-after.
func (f *field) flag() string { return "--" + strings.ReplaceAll(f.Key, "_", "-") }

// fieldsOf returns the keys of the struct that config points to, in the order of its
// fields.
func fieldsOf(config any) ([]*field, error) {
	settings, err := setting.Fields(config)
	if err != nil {
		return nil, err
	}
	fields := make([]*field, len(settings))
	for i, s := range settings {
		fields[i] = &field{Field: s, source: "default"}
		fields[i].defaultText = fields[i].text()
	}
	return fields, nil
}

// set parses the value from text. source is the origin of the text.
func (f *field) set(text, source string) error {
	if err := f.parse(text); err != nil {
		shown := strconv.Quote(backendurl.Redact(text))
		if f.Secret {
			shown = "the value"
		}
		return fmt.Errorf("%s: %s from %s is %w", f.Key, shown, source, err)
	}
	f.source = source
	return nil
}

// parse sets the value from text. Its errors complete a sentence that ends with "is".
func (f *field) parse(text string) error {
	if reader, ok := f.Value.Addr().Interface().(encoding.TextUnmarshaler); ok {
		err := reader.UnmarshalText([]byte(text))
		if _, isLevel := reader.(*slog.Level); isLevel && err != nil {
			return errors.New("not a level: write debug, info, warn or error")
		}
		return err
	}
	if f.Value.Type() == reflect.TypeFor[time.Duration]() {
		d, err := time.ParseDuration(text)
		if err != nil {
			return errors.New("not a duration: write it like 250ms, 90s or 2m")
		}
		f.Value.SetInt(int64(d))
		return nil
	}
	switch f.Value.Kind() {
	case reflect.String:
		f.Value.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("not a boolean: write true or false")
		}
		f.Value.SetBool(b)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, f.Value.Type().Bits())
		if err != nil {
			return fmt.Errorf("not an integer of at most %d bits: write it like 512", f.Value.Type().Bits())
		}
		f.Value.SetInt(n)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n, err := strconv.ParseUint(text, 10, f.Value.Type().Bits())
		if err != nil {
			return fmt.Errorf("not an unsigned integer of at most %d bits: write it like 512", f.Value.Type().Bits())
		}
		f.Value.SetUint(n)
	case reflect.Float32, reflect.Float64:
		x, err := strconv.ParseFloat(text, f.Value.Type().Bits())
		if err != nil {
			return errors.New("not a number: write it like 0.1")
		}
		f.Value.SetFloat(x)
	case reflect.Slice, reflect.Map:
		return f.parseList(splitList(text))
	default:
		return fmt.Errorf("of type %s, which cannot be read from text", f.Value.Type())
	}
	return nil
}

// parseList sets a []string to the items, or a map[string]string from items of the form
// key=value.
func (f *field) parseList(items []string) error {
	switch f.Value.Interface().(type) {
	case []string:
		f.Value.Set(reflect.ValueOf(items))
	case map[string]string:
		pairs := map[string]string{}
		for _, item := range items {
			key, value, ok := strings.Cut(item, "=")
			if !ok || key == "" {
				return fmt.Errorf("wrong at %q: write it like key=value,key=value", item)
			}
			if _, twice := pairs[key]; twice {
				return fmt.Errorf("wrong: %s is given twice; write each key once", key)
			}
			pairs[key] = value
		}
		f.Value.Set(reflect.ValueOf(pairs))
	default:
		return errors.New("a list, where a single value is required")
	}
	return nil
}

// SetWords sets keys of the struct that config points to, from a text like "limit=5 share=0.2". The
// names of the keys are relative to this struct.
func SetWords(config any, words string) error {
	fields, err := fieldsOf(config)
	if err != nil {
		return err
	}
	s := &Sources{fields: fields}
	for word := range strings.FieldsSeq(words) {
		name, value, ok := strings.Cut(word, "=")
		if !ok {
			return fmt.Errorf("wrong at %q: write it like key=value", word)
		}
		f := s.field(name)
		if f == nil {
			return fmt.Errorf("%s is unknown%s", name, s.suggest(name, func(f *field) string { return f.Key }))
		}
		if err := f.parse(value); err != nil {
			return fmt.Errorf("%s: %q is %w", name, value, err)
		}
	}
	return nil
}

func splitList(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// text returns the value as text that parse accepts.
func (f *field) text() string {
	switch v := f.Value.Interface().(type) {
	case []string:
		return strings.Join(v, ",")
	case map[string]string:
		var items []string
		for key, value := range v {
			items = append(items, key+"="+value)
		}
		slices.Sort(items)
		return strings.Join(items, ",")
	case slog.Level:
		return strings.ToLower(v.String()) // as the help and the errors name it
	case encoding.TextMarshaler:
		text, err := v.MarshalText()
		if err != nil {
			return err.Error()
		}
		return string(text)
	default:
		return fmt.Sprint(v)
	}
}

// unitText returns the unit for the help.
func (f *field) unitText() string {
	if f.Unit != "" {
		return f.Unit
	}
	switch f.Value.Interface().(type) {
	case time.Duration:
		return "duration"
	case setting.Bytes:
		return "bytes"
	case bool:
		return "true or false"
	case []string:
		return "list"
	case map[string]string:
		return "key=value list"
	}
	return ""
}
