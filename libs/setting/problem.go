package setting

import (
	"errors"
	"fmt"
	"reflect" // pure: compares types
)

// Key is the name of a setting. It is relative to the struct that declares it until [Prefix] completes it.
type Key string

// problem is an error about the setting with a key, which begins its text.
type problem struct {
	key    Key
	format string
	args   []any
	err    error // of format and args
}

// Errorf returns a problem of the setting with a key. Its text begins with the key; format is the rest, such as "is
// %s, must be below %s (%s)". Arguments of type [Key] are other settings of the same struct: [Prefix] completes
// them, too.
func Errorf(key Key, format string, args ...any) error {
	return &problem{key, format, args, fmt.Errorf(format, args...)}
}

func (p *problem) Error() string { return string(p.key) + " " + p.err.Error() }
func (p *problem) Unwrap() error { return p.err }

func (p *problem) prefixed(prefix string) error {
	args := make([]any, len(p.args))
	for i, arg := range p.args {
		if key, is := arg.(Key); is {
			arg = Key(join(prefix, string(key)))
		}
		args[i] = arg
	}
	return Errorf(Key(join(prefix, string(p.key))), p.format, args...)
}

// because is an error that wraps the reason that a package has for all problems of its Config.
type because struct{ reason, err error }

func (b *because) Error() string   { return b.reason.Error() + ": " + b.err.Error() }
func (b *because) Unwrap() []error { return []error{b.reason, b.err} }

// Wrap returns err with each of its joined errors wrapped in reason, such as ErrConfig of a package. [Prefix] still
// completes the keys in it.
func Wrap(reason, err error) error {
	return each(err, func(err error) error { return &because{reason, err} })
}

// Prefix completes the keys in an error of [Errorf] or [Ranges], in errors.Join trees, and in what [Wrap] returns: "region"
// and "mailbox" make "region.mailbox". Other errors stay as they are.
func Prefix(prefix string, err error) error {
	if prefix == "" {
		return err
	}
	return each(err, func(err error) error {
		switch err := err.(type) {
		case *problem:
			return err.prefixed(prefix)
		case *because:
			return &because{err.reason, Prefix(prefix, err.err)}
		}
		return err
	})
}

var joined = reflect.TypeOf(errors.Join(errors.New("")))

// each returns err with change applied to each error in its errors.Join tree.
func each(err error, change func(error) error) error {
	if err == nil {
		return nil
	}
	if reflect.TypeOf(err) != joined {
		return change(err)
	}
	var all []error
	for _, err := range err.(interface{ Unwrap() []error }).Unwrap() {
		all = append(all, each(err, change))
	}
	return errors.Join(all...)
}

func join(prefix, key string) string {
	if prefix == "" || key == "" {
		return prefix + key
	}
	return prefix + "." + key
}
