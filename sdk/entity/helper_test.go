package entity_test

import (
	"reflect"

	"github.com/roost-cluster/roost/sdk/entity"
)

// mistake returns the error in a definition.
func mistake[E any](_ entity.Type[E], err error) error { return err }

// noop declares a command that does nothing, for types that are not called.
func noop[E any](typ string) entity.Declaration[E] {
	return entity.On(entity.Command[int, int](typ, "Noop"), func(*E, *entity.Ctx, int) (int, error) { return 0, nil })
}

// kind declares events of type T.
func kind[T any](name string, options ...entity.EventOption) entity.Declaration[cart] {
	return entity.Event(name, func(c *cart, e T) { c.apply(e) }, options...)
}

// seen declares events of type T that a trace keeps.
func seen[T any](name string) entity.Declaration[trace] {
	return entity.Event(name, func(l *trace, e T) { l.Seen = append(l.Seen, e) })
}

// sample is an event, and declarations of its type under the name of its Go type.
type sample struct {
	event any
	trace entity.Declaration[trace]
	cart  entity.Declaration[cart]
	sink  entity.Declaration[sink]
}

func sampleOf[T any](event T) sample {
	name := reflect.TypeFor[T]().Name()
	if name == "" {
		name = "unnamed"
	}
	return sample{event, seen[T](name), kind[T](name), entity.Event(name, func(*sink, T) {})}
}
