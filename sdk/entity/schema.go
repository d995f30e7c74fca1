package entity

import (
	"cmp"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Schema describes which commands a type takes, what it stores and what it can read, for
// package entitytest, which compares it with that of earlier versions.
type Schema struct {
	// Commands are sorted by name.
	Commands []CommandSchema `json:"commands,omitempty"`
	// Events are sorted by name.
	Events []EventSchema `json:"events,omitempty"`
	// Snapshot is absent if the type cuts none.
	Snapshot *SnapshotSchema `json:"snapshot,omitempty"`
}

// CommandSchema describes one command and what its callers send.
type CommandSchema struct {
	Name     string `json:"name"`
	ReadOnly bool   `json:"readOnly,omitempty"`
	// Input has a line for the input and for each field in it: its path and what it holds,
	// such as "input.lines[].SKU string".
	Input []string `json:"input"`
	// GoType is the name of the input's Go type; empty: it has none. It is not sent and may
	// change.
	GoType string `json:"-"`
}

// EventSchema describes one event. A shape is what is stored: the fields and their types.
type EventSchema struct {
	Name       string   `json:"name"`
	Aliases    []string `json:"aliases,omitempty"`
	Version    int      `json:"version"`
	ReadableBy int      `json:"readableBy,omitempty"`
	Shape      string   `json:"shape"`
	// Reads are the shapes of the older versions from which there is a step.
	Reads map[int]string `json:"reads,omitempty"`
	// GoType is the name of the Go type. It is not stored and may change.
	GoType string `json:"-"`
}

// SnapshotSchema describes the snapshots of a type. The shape of a [Snapshotter] is empty.
type SnapshotSchema struct {
	Version int    `json:"version"`
	Shape   string `json:"shape,omitempty"`
	// Reads are the shapes of the older versions from which there is a step.
	Reads map[int]string `json:"reads,omitempty"`
	// Only: the type has [Type.KeepEvents], so that only a snapshot may have the state.
	Only bool `json:"only,omitempty"`
}

// forms returns the forms in which something of the type is stored that must be read, and all
// those that are read, each sorted. A snapshot that is not read is rebuilt from events, unless
// the type trims these: so the form of its snapshots is stored only then. Which ones are read is
// always said, because another version of the type may trim.
func (d *definition) forms() (writes, reads []sharding.Form) {
	for name, e := range d.events { // sorted below
		current := sharding.Form{Kind: sharding.FormOfEvent, Name: name, Version: uint16(e.version), Shape: fingerprint(shapeOf(e.typ))}
		if e.readableBy < e.version {
			current.ReadableBy = uint16(e.readableBy)
		}
		if name == e.name {
			writes = append(writes, current)
		}
		reads = append(reads, current)
		for _, step := range e.steps {
			reads = append(reads, sharding.Form{Kind: sharding.FormOfEvent, Name: name, Version: uint16(step.version), Shape: fingerprint(shapeOf(step.from))})
		}
	}
	if !d.volatile {
		current := d.state.current().Form()
		if d.trims {
			writes = append(writes, current)
		}
		reads = append(reads, current)
		for _, step := range d.state.steps {
			old := sharding.SnapshotForm{Version: uint16(step.version)} // of one that has encoded its snapshots itself
			reads = append(reads, old.Form())
			old.Shape = fingerprint(shapeOf(step.from))
			reads = append(reads, old.Form())
		}
	}
	slices.SortFunc(writes, sharding.Form.Compare)
	slices.SortFunc(reads, sharding.Form.Compare)
	return writes, slices.Compact(reads)
}

// SchemaOf returns the schema of a type.
func SchemaOf(t Definition) Schema {
	d := t.definition()
	var s Schema
	for _, b := range d.commands { // sorted below
		s.Commands = append(s.Commands, CommandSchema{
			Name: b.desc.Name, ReadOnly: b.desc.ReadOnly, Input: inputLines(b.input), GoType: typeName(b.input),
		})
	}
	slices.SortFunc(s.Commands, func(a, b CommandSchema) int { return cmp.Compare(a.Name, b.Name) })
	for _, e := range d.byType { // sorted below
		es := EventSchema{
			Name: e.name, Aliases: slices.Sorted(slices.Values(e.aliases)), Version: e.version, ReadableBy: e.readableBy,
			Shape: shapeOf(e.typ), GoType: typeName(e.typ),
		}
		for _, step := range e.steps {
			if es.Reads == nil {
				es.Reads = map[int]string{}
			}
			es.Reads[step.version] = shapeOf(step.from)
		}
		s.Events = append(s.Events, es)
	}
	slices.SortFunc(s.Events, func(a, b EventSchema) int { return cmp.Compare(a.Name, b.Name) })
	if d.snapshot > 0 {
		s.Snapshot = &SnapshotSchema{Version: d.state.version, Shape: d.state.shape, Only: d.trims}
		for _, step := range d.state.steps {
			if s.Snapshot.Reads == nil {
				s.Snapshot.Reads = map[int]string{}
			}
			s.Snapshot.Reads[step.version] = shapeOf(step.from)
		}
	}
	return s
}
