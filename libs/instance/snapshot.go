package instance

import (
	"errors"
	"fmt"
	"math"
	"reflect" // pure: of types
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Snapshotter is implemented by states that encode their snapshots themselves.
type Snapshotter interface {
	Snapshot() ([]byte, error)
	Restore([]byte) error
}

// stateForm describes how snapshots of a type are read.
type stateForm struct {
	typ     reflect.Type
	version int
	shape   string
	// layout is the layout of the state; nil: it encodes its snapshots itself.
	layout *layout
	// hidden is a field of the state that is not stored; empty: there is none.
	hidden string
	steps  []Step
}

var snapshotter = reflect.TypeFor[Snapshotter]()

func newStateForm(t reflect.Type) stateForm {
	f := stateForm{typ: t, version: 1}
	if !reflect.PointerTo(t).Implements(snapshotter) {
		f.shape, f.layout, f.hidden = shapeOf(t), layoutOf(t), hiddenField(t, nil)
	}
	return f
}

func (f *stateForm) current() sharding.SnapshotForm {
	out := sharding.SnapshotForm{Version: uint16(f.version)}
	if f.shape != "" {
		out.Shape = fingerprint(f.shape)
	}
	return out
}

// step returns the step that reads a snapshot of another form, if there is one.
func (f *stateForm) step(of sharding.SnapshotForm) (Step, bool) {
	for _, s := range f.steps {
		if s.version == int(of.Version) && (of.Shape == 0 || of.Shape == fingerprint(shapeOf(s.from))) {
			return s, true
		}
	}
	return Step{}, false
}

func (f *stateForm) check() error {
	var errs []error
	if f.version < 1 || f.version > math.MaxUint16 {
		errs = append(errs, fmt.Errorf("SnapshotV(%d), must be 1 to %d", f.version, math.MaxUint16))
	}
	for i, s := range f.steps {
		if s.snapshot != nil && s.to != f.typ {
			errs = append(errs, fmt.Errorf("the step from snapshots of version %d fills a %s, must fill a %s", s.version, s.to, f.typ))
		}
		if slices.ContainsFunc(f.steps[:i], func(o Step) bool { return o.version == s.version && o.from == s.from }) {
			errs = append(errs, fmt.Errorf("two steps from snapshots of version %d that were a %s", s.version, s.from))
		}
		if s.snapshot == nil || s.version < 1 || s.version > f.version {
			errs = append(errs, fmt.Errorf("SnapshotV(%d) has a step from version %d: use entity.FromSnapshot, from 1 to %d", f.version, s.version, f.version))
		}
	}
	return errors.Join(errs...)
}

// FromSnapshot is the step from a snapshot of an older version, with the Go type that the state had, to the
// current state. upgrade gets pointers to both.
func FromSnapshot(version int, from, to reflect.Type, upgrade func(old, state any)) Step {
	layout := layoutOf(from)
	return Step{version: version, from: from, to: to, snapshot: func(payload []byte, state any) error {
		if got := reflect.TypeOf(state).Elem(); got != to {
			return fmt.Errorf("the step from version %d fills a %s, the state is a %s", version, to, got)
		}
		old := reflect.New(from).Interface()
		if err := layout.read(payload, old, false); err != nil {
			return err
		}
		upgrade(old, state)
		return nil
	}}
}

// ReadsSnapshot reports whether this version of the type can read a snapshot of a form.
// One that it cannot read must be ignored, and all events be replayed.
func ReadsSnapshot(t Definition, form sharding.SnapshotForm) bool {
	f := &t.defined().state
	if form == f.current() { //mutant:true snapshot-form
		return true
	}
	_, ok := f.step(form)
	return ok
}

// clearStored empties the fields of a state that a snapshot has, which create may have set.
// Package json would leave a field as it is that is empty and so not in the snapshot, and add
// to a map. What an interface holds stays, because it may say what is to be decoded, and so
// does what has methods of its own, if it is always in the snapshot.
func clearStored(v reflect.Value, optional bool) {
	switch {
	case optional:
		v.SetZero()
	case v.Kind() == reflect.Interface || v.Type() != timeType && encodesItself(v.Type()):
	case v.Kind() != reflect.Struct:
		v.SetZero()
	default:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			tag := f.Tag.Get("json")
			if tag == "-" || !f.IsExported() && !(f.Anonymous && f.Type.Kind() == reflect.Struct) {
				continue
			}
			_, options, _ := strings.Cut(tag, ",")
			clearStored(v.Field(i), f.IsExported() && mayBeAbsent(f.Type, options))
		}
	}
}
