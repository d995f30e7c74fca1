package setting

import (
	"cmp"
	"errors"
	"fmt"
	"reflect" // pure: reads tags and values of a struct
	"strconv"
	"strings"
	"time"
)

// Ranges returns a problem for each field of the struct that config points to whose value is outside of its range,
// also for those in nested structs. A nested struct with a Validate method is checked by that method instead, and its errors get
// the prefix of the struct: so a Config need not call the Validate methods of those that it embeds. A struct that embeds one with
// a Validate method and has settings of its own needs a Validate method, too, because it inherits that one otherwise.
func Ranges(config any) error {
	structure, err := structOf(config)
	if err != nil {
		return err
	}
	var problems []error
	w := walk{
		leaf: func(l leaf) error {
			problems = append(problems, l.check())
			return nil
		},
		inner: func(prefix string, value reflect.Value) bool {
			if !value.CanInterface() {
				return false
			}
			v, validates := value.Addr().Interface().(interface{ Validate() error })
			if validates {
				problems = append(problems, Prefix(prefix, v.Validate()))
			}
			return validates
		},
	}
	return errors.Join(append(problems, w.structure(at{}, structure))...)
}

// check returns a problem if the value is outside of its range.
func (l *leaf) check() error {
	text, limited := l.declared.Tag.Lookup("range")
	if !limited {
		return nil
	}
	name := l.owner.String() + "." + l.declared.Name
	if l.key != "" {
		name = l.key
	}
	var inside bool
	var must string
	var err error
	switch value := l.value; {
	case value.CanInt():
		inside, must, err = check(text, value.Int(), func(text string) (int64, error) { return parseInt(text, value.Type()) })
	case value.CanUint():
		inside, must, err = check(text, value.Uint(), func(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) })
	case value.CanFloat():
		inside, must, err = check(text, value.Float(), func(text string) (float64, error) { return strconv.ParseFloat(text, 64) })
	default:
		err = errors.New("only numbers, durations and sizes have ranges")
	}
	switch {
	case err != nil:
		return fmt.Errorf("the range %q of %s.%s: %w", text, l.owner, l.declared.Name, err)
	case inside:
		return nil
	}
	if why := l.declared.Tag.Get("why"); why != "" {
		must += ": " + why
	}
	return Errorf(Key(name), "is %v, must be %s", l.value.Interface(), must)
}

// parseInt parses a bound of a field with a type of integers.
func parseInt(text string, of reflect.Type) (int64, error) {
	switch of {
	case reflect.TypeFor[time.Duration]():
		d, err := time.ParseDuration(text)
		return int64(d), err
	case reflect.TypeFor[Bytes]():
		var b Bytes
		err := b.UnmarshalText([]byte(text))
		return int64(b), err
	}
	return strconv.ParseInt(text, 10, 64)
}

// check reports whether a value is in a range, and what it must be. NaN is in none.
func check[T cmp.Ordered](text string, value T, parse func(string) (T, error)) (inside bool, must string, err error) {
	bounds, above := strings.CutPrefix(text, ">")
	lowText, highText, ranged := strings.Cut(bounds, "..")
	if !ranged && !above {
		return false, "", errors.New("write low..high, low.., >low or >low..high")
	}
	low, err := parse(lowText)
	if err != nil {
		return false, "", err
	}
	inside = value > low || value == low && !above
	must = "at least " + lowText
	if above {
		must = "above " + lowText
	}
	if highText == "" {
		return inside, must, nil
	}
	high, err := parse(highText)
	if err == nil && (high < low || high == low && above) {
		err = errors.New("it is empty")
	}
	if must += " and at most " + highText; !above {
		must = lowText + " to " + highText
	}
	return inside && value <= high, must, err
}
