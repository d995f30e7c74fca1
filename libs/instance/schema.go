package instance

import (
	"cmp"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sorted"
)

// Schema describes which commands a type takes, what it stores and what it can read, for package
// entitytest, which compares it with the schemas of earlier versions.
type Schema struct {
	// Commands are sorted by name.
	Commands []CommandSchema `json:"commands,omitempty"`
	// Events are sorted by name.
	Events []EventSchema `json:"events,omitempty"`
	// Snapshot is absent if the type cuts none.
	Snapshot *SnapshotSchema `json:"snapshot,omitempty"`
	// ShardBy is the rule of Type.Rule, in words; empty: the whole id decides about the shard.
	ShardBy string `json:"shardBy,omitempty"`
}

// CommandSchema describes one command and what its callers send.
type CommandSchema struct {
	Name     string   `json:"name"`
	Aliases  []string `json:"aliases,omitempty"`
	ReadOnly bool     `json:"readOnly,omitempty"`
	// Answers is true if the command takes answers to the entity's sends, and nothing from callers.
	Answers bool `json:"answers,omitempty"`
	// Input has a line for the input and for each field in it: its path and what it holds,
	// such as "input.lines[].SKU string". A command that takes answers has none.
	Input []string `json:"input,omitempty"`
	// Stored describes how inputs are stored; absent: they are not.
	Stored *StoredSchema `json:"stored,omitempty"`
	// GoType is the name of the input's Go type; empty: it has none. It is not sent and may
	// change.
	GoType string `json:"-"`
}

// EventSchema describes one event.
type EventSchema struct {
	Name    string   `json:"name"`
	Aliases []string `json:"aliases,omitempty"`
	StoredSchema
	// GoType is the name of the Go type. It is not stored and may change.
	GoType string `json:"-"`
}

// StoredSchema describes how an event or an input is stored. A shape lists the stored fields and their
// types.
type StoredSchema struct {
	Version    int    `json:"version"`
	ReadableBy int    `json:"readableBy,omitempty"`
	Shape      string `json:"shape"`
	// Reads are the shapes of the older versions with a step.
	Reads map[int]string `json:"reads,omitempty"`
}

// SnapshotSchema describes the snapshots of a type. The shape of a [Snapshotter] is empty.
type SnapshotSchema struct {
	Version int    `json:"version"`
	Shape   string `json:"shape,omitempty"`
	// Reads are the shapes of the older versions with a step.
	Reads map[int]string `json:"reads,omitempty"`
	// Only: the type trims events, so that only a snapshot may have the state.
	Only bool `json:"only,omitempty"`
}

// forms returns the forms in which something of the type is stored that must be read, and all those that
// are read, each sorted. A snapshot that is not read is rebuilt from events, unless the type trims these:
// so the form of its snapshots is stored only then. Which ones are read is always listed, because another
// version of the type may trim. The input of a reminder is stored in the shard of the entity that has set
// it, and so is the send that an answer belongs to. The input of a send is stored there too, but read by
// its target: the region that hosts the target decides whether it can.
func (t *Type) forms() (writes, reads []sharding.Form) {
	for _, e := range t.byType { // sorted below
		current, all := e.forms()
		writes, reads = append(writes, current), append(reads, all...)
	}
	if !t.Volatile {
		for name, b := range t.commands { // sorted below
			if name != b.Desc.Name || !b.Stored && !b.Answers {
				continue
			}
			current, all := b.forms()
			writes, reads = append(writes, current), append(reads, all...)
		}
		current := t.state.current().Form()
		if t.Trims {
			writes = append(writes, current)
		}
		reads = append(reads, current)
		for _, step := range t.state.steps {
			old := sharding.SnapshotForm{Version: uint16(step.version)} // of one that has encoded its snapshots itself
			reads = append(reads, old.Form())
			old.Shape = fingerprint(shapeOf(step.from))
			reads = append(reads, old.Form())
		}
	}
	sorted.By(writes, sharding.Form.Compare)
	sorted.By(reads, sharding.Form.Compare)
	return writes, slices.Compact(reads)
}

// forms returns the forms of the data stored for the command. For an answer that is the name of the command
// that takes it: the rest is a reply, which its target has stored, and which is read leniently.
func (c *Command) forms() (current sharding.Form, reads []sharding.Form) {
	current, reads = c.Input.forms()
	if c.Answers {
		current.Shape = formOfAnswers
		for i := range reads {
			reads[i].Shape = formOfAnswers
		}
	}
	return current, reads
}

// formOfAnswers stands for the fields of an [Answer].
var formOfAnswers = fingerprint("answer")

// FormOfAnswers reports whether a form belongs to the answers that a command takes.
func FormOfAnswers(f sharding.Form) bool {
	return f.Kind == sharding.FormOfInput && f.Shape == formOfAnswers
}

// SchemaOf returns the schema of a type.
func SchemaOf(of Definition) Schema {
	d := of.defined()
	var s Schema
	if d.Rule != (sharding.ShardRule{}) {
		s.ShardBy = d.Rule.String()
	}
	for name, b := range d.commands { // sorted below
		if name == b.Desc.Name {
			s.Commands = append(s.Commands, b.schema())
		}
	}
	sorted.By(s.Commands, func(a, b CommandSchema) int { return cmp.Compare(a.Name, b.Name) })
	for _, e := range d.byType { // sorted below
		s.Events = append(s.Events, EventSchema{Name: e.name, Aliases: e.sortedAliases(), StoredSchema: e.schema(), GoType: typeName(e.typ)})
	}
	sorted.By(s.Events, func(a, b EventSchema) int { return cmp.Compare(a.Name, b.Name) })
	if d.SnapshotEvery > 0 {
		s.Snapshot = &SnapshotSchema{Version: d.state.version, Shape: d.state.shape, Only: d.Trims}
		for _, step := range d.state.steps {
			if s.Snapshot.Reads == nil {
				s.Snapshot.Reads = map[int]string{}
			}
			s.Snapshot.Reads[step.version] = shapeOf(step.from)
		}
	}
	return s
}

func (c *Command) schema() CommandSchema {
	s := CommandSchema{Name: c.Desc.Name, Aliases: c.Input.sortedAliases(), ReadOnly: c.Desc.ReadOnly, Answers: c.Answers, GoType: typeName(c.Input.typ)}
	if !c.Answers {
		s.Input = inputLines(c.Input.typ)
	}
	if c.Stored {
		stored := c.Input.schema()
		s.Stored = &stored
	}
	return s
}

func (e *Codec) sortedAliases() []string { return slices.Sorted(slices.Values(e.Aliases)) }

func (e *Codec) schema() StoredSchema {
	s := StoredSchema{Version: e.Version, ReadableBy: e.ReadableBy, Shape: shapeOf(e.typ)}
	for _, step := range e.Steps {
		if s.Reads == nil {
			s.Reads = map[int]string{}
		}
		s.Reads[step.version] = shapeOf(step.from)
	}
	return s
}
