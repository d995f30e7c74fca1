package setting

import (
	"encoding"
	"fmt"
	"reflect" // pure: reads tags and values of a struct
	"regexp"
	"slices"
	"strings"
)

// Field is a setting: a field with a key.
type Field struct {
	Key    string // complete
	Help   string
	Unit   string        // empty: none was given
	Range  string        // as in the tag
	Secret bool          // the whole value is secret and never shown
	File   bool          // the value can be the content of a file
	Nested bool          // the values of the map can be sections of the file
	Expert bool          // listed apart
	Value  reflect.Value // the field in the struct
}

// Fields returns the settings of the struct that config points to, in the order of its fields.
func Fields(config any) ([]*Field, error) {
	structure, err := structOf(config)
	if err != nil {
		return nil, err
	}
	var fields []*Field
	w := walk{leaf: func(l leaf) error {
		tag := l.declared.Tag
		if l.key == "" || l.omitted {
			return nil
		}
		fields = append(fields, &Field{
			Key: l.key, Help: expand(tag.Get("help"), l.below), Unit: tag.Get("unit"), Range: tag.Get("range"),
			Secret: tag.Get("secret") == "true", File: tag.Get("secret") != "", Nested: tag.Get("nested") == "true",
			Expert: l.expert, Value: l.value,
		})
		return nil
	}}
	if err := w.structure(at{}, structure); err != nil {
		return nil, err
	}
	seen := map[string]string{}
	for _, f := range fields {
		name := strings.ReplaceAll(f.Key, ".", "_")
		if other, taken := seen[name]; taken {
			return nil, fmt.Errorf("keys %s and %s have the same name in the environment", other, f.Key)
		}
		seen[name] = f.Key
	}
	return fields, nil
}

var relative = regexp.MustCompile(`\{\.[a-z_.]+\}`)

// expand completes the keys in a help text.
func expand(help, prefix string) string {
	if !strings.Contains(help, "{.") {
		return help
	}
	return relative.ReplaceAllStringFunc(help, func(ref string) string { return join(prefix, ref[2:len(ref)-1]) })
}

func structOf(config any) (reflect.Value, error) {
	pointer := reflect.ValueOf(config)
	if pointer.Kind() != reflect.Pointer || pointer.Elem().Kind() != reflect.Struct {
		return reflect.Value{}, fmt.Errorf("configuration of type %T: want a pointer to a struct", config)
	}
	return pointer.Elem(), nil
}

// at is the position of the walk.
type at struct {
	prefix string // of the keys
	expert bool
	omit   []*named
	rare   []*named // like expert, for some keys
}

// named is a key that a tag of an enclosing struct names.
type named struct {
	key  string // complete
	used bool
}

// uses reports whether a list has a key, and marks it.
func uses(list []*named, key string) (found bool) {
	for _, n := range list {
		if n.key == key {
			n.used, found = true, true
		}
	}
	return found
}

// namesIn returns the keys in a tag, which are relative to prefix.
func namesIn(tag, prefix string) (list []*named) {
	if tag == "" || tag == "true" {
		return nil
	}
	for key := range strings.SplitSeq(tag, ",") {
		list = append(list, &named{key: join(prefix, key)})
	}
	return list
}

// leaf is a field that is not a struct, or a struct that is read from text.
type leaf struct {
	at
	below    string // the prefix of the struct that declares it
	key      string // empty: not a setting
	omitted  bool
	declared reflect.StructField
	owner    reflect.Type
	value    reflect.Value
}

// walk visits the fields of a struct and of the structs in it. It is the only code that knows how keys are composed.
type walk struct {
	leaf func(leaf) error
	// inner, if set, is called for each struct field, with its prefix. true: the walk does not enter it.
	inner func(prefix string, value reflect.Value) bool
}

func (w *walk) structure(here at, structure reflect.Value) error {
	for i := range structure.NumField() {
		if err := w.field(here, structure.Type(), structure.Type().Field(i), structure.Field(i)); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) field(here at, owner reflect.Type, declared reflect.StructField, value reflect.Value) error {
	key, tagged := declared.Tag.Lookup("key")
	if tagged {
		key = join(here.prefix, key)
	}
	isStruct := value.Kind() == reflect.Struct && !readsText(value)
	if !declared.IsExported() && !(declared.Anonymous && isStruct) {
		if tagged {
			return fmt.Errorf("key %s: field %s is not exported", key, declared.Name)
		}
		return nil
	}
	below := at{here.prefix, here.expert || declared.Tag.Get("expert") == "true", here.omit, here.rare}
	if !isStruct {
		l := leaf{at: below, below: here.prefix, key: key, declared: declared, owner: owner, value: value}
		if tagged {
			l.omitted = uses(here.omit, key)
			l.expert = uses(here.rare, key) || l.expert
		}
		return w.leaf(l)
	}
	if tagged {
		below.prefix = key
	}
	if w.inner != nil && w.inner(below.prefix, value) {
		return nil
	}
	omit, rare := namesIn(declared.Tag.Get("omit"), below.prefix), namesIn(declared.Tag.Get("expert"), below.prefix)
	if own := slices.Concat(omit, rare); len(own) > 0 {
		below.omit, below.rare = slices.Concat(here.omit, omit), slices.Concat(here.rare, rare)
		if err := w.structure(below, value); err != nil || w.inner != nil { // with inner, the walk does not enter each struct
			return err
		}
		for _, n := range own {
			if !n.used {
				return fmt.Errorf("a tag of %v.%s names %s, which is not a key below it", owner, declared.Name, n.key)
			}
		}
		return nil
	}
	return w.structure(below, value)
}

// readsText reports whether a value implements [encoding.TextUnmarshaler].
func readsText(value reflect.Value) bool {
	return value.CanInterface() && value.Addr().Type().Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}
