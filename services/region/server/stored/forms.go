package stored

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sorted"
)

// A coordinator gives a shard only to a region that reads every form in which something may
// be stored in it, whatever a decoder makes of the stored data. So a check compares the
// forms of the program with the forms that the coordinators have noted.

// notedForms holds the noted forms of one type.
type notedForms struct {
	desc  sharding.TypeDesc
	forms []sharding.Form
	rows  map[uint32]wire.RowFact
}

// readForms reads what the coordinators have noted, by type. Nothing is noted in a journal
// that no coordinator has used.
func (c *checker) readForms(ctx context.Context) (map[sharding.EntityType]*notedForms, error) {
	var found journal.Loaded
	err := c.retry(ctx, func(ctx context.Context) (err error) {
		found, err = c.reader.Load(ctx, journal.LoadRequest{Entity: wire.FactsEntity})
		return err
	})
	noted := map[sharding.EntityType]*notedForms{}
	for i := range found.Records {
		for _, e := range found.Records[i].Events {
			if err == nil {
				err = note(noted, e)
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the coordinators' facts cannot be read, which say in which forms something is stored: %w", err)
	}
	return noted, nil
}

// checkRules compares the shard rules of types of the program with those that they were first
// declared with.
func (c *checker) checkRules(ctx context.Context, types []sharding.TypeDesc) error {
	noted, err := c.readForms(ctx)
	if err != nil {
		return err
	}
	for i := range types {
		t := noted[types[i].Type]
		if t != nil && t.desc.Type != "" && t.desc.Rule != types[i].Rule {
			return fmt.Errorf("%w: type %s hashes %s in this program (ShardBy), and %s since it was first declared; the rule never changes: declare that one, or give the type another name",
				ErrShardRule, types[i].Type, types[i].Rule, t.desc.Rule)
		}
	}
	return nil
}

// note applies a fact as a coordinator does. Other facts say nothing of forms.
func note(noted map[sharding.EntityType]*notedForms, e sharding.Event) error {
	of := func(typ sharding.EntityType) *notedForms {
		if noted[typ] == nil {
			noted[typ] = &notedForms{rows: map[uint32]wire.RowFact{}}
		}
		return noted[typ]
	}
	switch e.Name {
	case wire.TypeFactName:
		f, err := wire.DecodeTypeFact(e.Payload)
		if err != nil {
			return err
		}
		of(f.Desc.Type).desc, of(f.Desc.Type).forms = f.Desc, f.Forms
	case wire.RowFactName:
		f, err := wire.DecodeRowFact(e.Payload)
		if err != nil {
			return err
		}
		if rows := of(f.Row.Shard.Type).rows; f.Row.Newer(rows[f.Row.Shard.Index].Row) {
			rows[f.Row.Shard.Index] = f
		}
	}
	return nil
}

// seenForm is a form, without its shape, of events or stored inputs that were found in a shard.
type seenForm struct {
	shard   sharding.ShardID
	kind    sharding.FormKind
	name    string
	version uint16
}

// see notes that something of an entity is stored in a form.
func (c *checker) see(e sharding.Entity, f seenForm) {
	desc := c.descs[e.Type]
	f.shard = desc.ShardOf(e.ID)
	c.seen[f] = true
}

// compareForms reports the forms that the program does not read.
func (c *checker) compareForms(noted map[sharding.EntityType]*notedForms) {
	for _, typ := range slices.Sorted(maps.Keys(c.types)) {
		t := noted[typ]
		if t == nil {
			continue
		}
		for i, f := range t.forms {
			reads := c.descs[typ].Reads
			if sharding.Reads(reads, f) {
				continue
			}
			u := UnreadForm{Type: typ, Form: f.String()}
			u.Problem, u.Fix = unread(reads, f)
			for _, r := range t.rows { // order-free: it counts
				switch {
				case r.Before.Has(i), r.May.Has(i) && c.seen[seenForm{r.Row.Shard, f.Kind, f.Name, f.Version}]:
					u.Shards++
				case r.May.Has(i):
					u.MayShards++
				}
			}
			if u.Shards+u.MayShards > 0 && !c.found.explain(typ, f, u.Shards) {
				c.report.Forms = append(c.report.Forms, u)
			}
		}
	}
	sorted.StableBy(c.report.Forms, func(a, b UnreadForm) int { // the types are in order, and the forms of each
		switch {
		case a.Shards > 0 && b.Shards == 0:
			return -1
		case a.Shards == 0 && b.Shards > 0:
			return 1
		}
		return 0
	})
	if n := len(c.report.Forms); n > c.cfg.Kinds {
		c.report.OtherForms = n - c.cfg.Kinds
		c.report.Forms = c.report.Forms[:c.cfg.Kinds]
	}
}

// unread returns why a program with these forms does not read one, and what its author can do.
func unread(reads []sharding.Form, f sharding.Form) (why, fix string) {
	var latest *sharding.Form
	same := false
	for i, r := range reads {
		if r.Kind == f.Kind && r.Name == f.Name {
			latest, same = &reads[i], same || r.Version == f.Version
		}
	}
	switch {
	case latest == nil && instance.FormOfAnswers(f):
		return "this program has no such command that takes answers to what its entities have sent", fmt.Sprintf("if a later version of the program has stored it, run that version; otherwise bind %s again, or give the command that it has become an Alias(%q)", f.Name, f.Name)
	case latest == nil && f.Kind == sharding.FormOfInput:
		return "this program has no such command, or none whose inputs are stored", fmt.Sprintf("if a later version of the program has stored it, run that version; otherwise bind %s again, with Stored, or give the command that it has become an Alias(%q)", f.Name, f.Name)
	case latest == nil:
		return "this program has no such event", fmt.Sprintf("if a later version of the program has stored it, run that version; otherwise declare the event %s again, or give the event that it has become an Alias(%q)", f.Name, f.Name)
	case f.Kind == sharding.FormOfSnapshot && f.Version > latest.Version:
		return fmt.Sprintf("this program knows version %d", latest.Version), fmt.Sprintf("run a program that knows version %d", f.Version)
	case f.Kind == sharding.FormOfSnapshot && f.Version == latest.Version:
		return fmt.Sprintf("this program has other fields in it (shape %016x): the form has changed without a new version", latest.Shape),
			fmt.Sprintf("keep the struct as it was stored, and declare its successor with SnapshotV(%d, entity.FromSnapshot(%d, …))", f.Version+1, f.Version)
	case f.Kind == sharding.FormOfSnapshot && !same:
		return fmt.Sprintf("this program has no step from version %d", f.Version), fmt.Sprintf("give SnapshotV(%d, …) an entity.FromSnapshot(%d, …)", latest.Version, f.Version)
	case f.Version > latest.Version:
		return fmt.Sprintf("this program knows version %d", latest.Version),
			fmt.Sprintf("run a program that knows version %d, or store it with ReadableBy(%d) if this one may ignore what it does not know", f.Version, latest.Version)
	case same && (instance.FormOfAnswers(f) || slices.ContainsFunc(reads, func(r sharding.Form) bool { return r.Kind == f.Kind && r.Name == f.Name && instance.FormOfAnswers(r) })):
		return "this command takes answers in one program, and inputs that are stored in the other", fmt.Sprintf("give what %s is in this program another name, and bind %s again as it was", f.Name, f.Name)
	case same && f.Version == latest.Version:
		return fmt.Sprintf("this program has other fields in it (shape %016x): the form has changed without a new version", latest.Shape),
			fmt.Sprintf("keep the struct as it was stored, and declare its successor with V(%d, entity.From(%d, …))", f.Version+1, f.Version)
	case same:
		return fmt.Sprintf("the step from version %d reads other fields", f.Version),
			fmt.Sprintf("give the struct of the step from version %d the fields that were stored", f.Version)
	}
	return fmt.Sprintf("this program has no step from version %d", f.Version), fmt.Sprintf("give V(%d, …) an entity.From(%d, …)", latest.Version, f.Version)
}
