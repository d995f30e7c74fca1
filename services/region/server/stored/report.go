package stored

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Report is the result of [Check].
type Report struct {
	Cluster string `json:"cluster"`
	// Sample is the number of entities of each type that were to be checked; 0: all.
	Sample int    `json:"sample,omitempty"`
	Seed   uint64 `json:"seed,omitempty,string"` // of the sample
	// Complete is true if everything was checked that was to be.
	Complete bool         `json:"complete"`
	Types    []TypeReport `json:"types"`
	// Skipped are stored types that were not checked.
	Skipped  []Skipped `json:"skipped,omitempty"`
	Problems []Problem `json:"problems,omitempty"` // those that concern most entities first
	// Forms are those that coordinators have noted and the program does not read, unless a
	// problem is about the same event and version. Those in which something is stored are
	// first.
	Forms []UnreadForm `json:"forms,omitempty"`
	// OtherForms is the number of such forms that are not listed.
	OtherForms int `json:"other_forms,omitempty"`
	// Others is the number of entities with problems that are not listed, because there are too many kinds of
	// problems.
	Others int `json:"others,omitempty"`
}

// Unreadable is the number of entities that cannot be read.
func (r *Report) Unreadable() int {
	n := 0
	for i := range r.Types {
		n += r.Types[i].Unreadable
	}
	return n
}

// UnreadInputs is the number of inputs that cannot be read.
func (r *Report) UnreadInputs() int {
	n := 0
	for i := range r.Types {
		n += r.Types[i].UnreadInputs
	}
	return n
}

// Passed reports whether the program reads all that it was asked to check: nothing of it is
// unreadable, it would be given every shard, and it has all types.
func (r *Report) Passed() bool {
	return r.Unreadable() == 0 && r.UnreadInputs() == 0 && len(r.Skipped) == 0 && (len(r.Forms) == 0 || r.Forms[0].Shards == 0)
}

// UnreadForm is a form that the program does not read. It is not given a shard in which
// something may be stored in it.
type UnreadForm struct {
	Type    sharding.EntityType `json:"type"`
	Form    string              `json:"form"`
	Problem string              `json:"problem"`
	Fix     string              `json:"fix"`
	// Shards is in how many shards something is stored in it: an earlier owner may have stored it,
	// or the check has found it.
	Shards int `json:"shards"`
	// MayShards is the number of further shards whose owner may store something in it.
	MayShards int `json:"may_shards"`
}

// TypeReport is the result for one type.
type TypeReport struct {
	Type     sharding.EntityType `json:"type"`
	Entities int                 `json:"entities"` // that are stored
	Checked  int                 `json:"checked"`
	Events   int                 `json:"events"` // that were read
	// Snapshots is the number of entities that have one, Ignored the number of those in a form that the program
	// does not read: the entity is rebuilt from its events.
	Snapshots int `json:"snapshots"`
	Ignored   int `json:"ignored"`
	// Trimmed is the number of entities that have lost events to trimming: their snapshot and the events after
	// it were read, and no version reads more.
	Trimmed int `json:"trimmed,omitempty"`
	// Unreadable is the number of entities with data that cannot be read.
	Unreadable int `json:"unreadable"`
	// Reminders is the number of reminders that were read, Sends the number of pending sends for
	// entities of the type, and Answers the number of answers that its commands are to take.
	// UnreadInputs is the number of all these that cannot be read.
	Reminders    int `json:"reminders"`
	Sends        int `json:"sends"`
	Answers      int `json:"answers"`
	UnreadInputs int `json:"unread_inputs"`
}

func (t *TypeReport) inputs() int { return t.Reminders + t.Sends + t.Answers }

// Skipped is a stored type that was not checked.
type Skipped struct {
	Type     sharding.EntityType `json:"type"`
	Entities int                 `json:"entities"`
	Reason   string              `json:"reason"`
}

// Problem is a problem that entities of one type have in common.
type Problem struct {
	Type sharding.EntityType `json:"type"`
	// What cannot be read: "event", "snapshot", "input", "stored data" if it is damaged, or
	// "state" if the program fails to apply an event.
	What string `json:"what"`
	// Event and Version describe an event, Command and Version an input. An answer that a command is to take
	// has no version.
	Event   string `json:"event,omitempty"`
	Command string `json:"command,omitempty"`
	Version int    `json:"version,omitempty"`
	Problem string `json:"problem"`
	Fix     string `json:"fix"`
	// Loads is true if the entities can be loaded all the same, as long as their snapshots fit: the unreadable
	// data is before them.
	Loads bool `json:"loads,omitempty"`
	// Shards is the number of shards with data in the unreadable form, with any owner: a region with the
	// program is not given these.
	Shards   int       `json:"shards,omitempty"`
	Entities int       `json:"entities"` // or inputs
	Examples []Example `json:"examples"` // the first of them, by id of the entity
}

// Example is an entity with a problem.
type Example struct {
	ID sharding.EntityID `json:"id"`
	// Seq is the sequence number of the record or of the snapshot; 0: Detail says it.
	Seq    uint64 `json:"seq,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// kind holds the common properties of problems that are reported as one.
type kind struct {
	typ            sharding.EntityType
	what, name     string
	version        int
	problem, fixed string
	loads          bool
}

// problem turns an error about an entity into what is reported.
func problem(of sharding.Entity, snapshot uint64, err error) (Problem, Example) {
	p := Problem{Type: of.Type, What: "state", Problem: err.Error(), Fix: "the program must take every event that was stored; see its log for the stack"}
	x := Example{ID: of.ID}
	var event *EventError
	if errors.As(err, &event) {
		p.Event, p.Version, p.Problem, x.Seq = event.Name, event.Version, event.Err.Error(), event.Seq
	}
	var unread *instance.StoredError
	switch {
	case errors.As(err, &unread):
		p.What, p.Problem, p.Fix = "event", unread.Err.Error(), unread.Fix
		if event == nil {
			p.What, x.Seq = "snapshot", snapshot
		}
	case errors.Is(err, journal.ErrTrimmed):
		p.What, p.Problem, x.Seq = "snapshot", "nothing else holds the state: "+journal.ErrTrimmed.Error(), snapshot
		p.Fix = "correct the state by commands, or read the snapshot by a step of a new version (SnapshotV, entity.FromSnapshot)"
	case errors.Is(err, journal.ErrCorrupt):
		p.What, p.Problem, x.Detail = "stored data", journal.ErrCorrupt.Error(), err.Error()
		p.Fix = fixDamaged
	}
	return p, x
}

// fixDamaged is the advice for damaged data.
const fixDamaged = "roost journal repair record TYPE/ID shows what can be done; no version of the program can read this"

// findings collects problems, a bounded number of them.
type findings struct {
	kinds, examples int // limits
	by              map[kind]*Problem
	others          int
}

func (f *findings) add(p Problem, x Example) {
	k := kind{p.Type, p.What, p.Event + p.Command, p.Version, p.Problem, p.Fix, p.Loads}
	known := f.by[k]
	if known == nil {
		if len(f.by) == f.kinds {
			f.others++
			return
		}
		known = &p
		f.by[k] = known
	}
	known.Entities++
	i, _ := slices.BinarySearchFunc(known.Examples, x, func(a, b Example) int { return cmp.Compare(a.ID, b.ID) })
	if i < f.examples {
		known.Examples = slices.Insert(known.Examples, i, x)
		known.Examples = known.Examples[:min(len(known.Examples), f.examples)]
	}
}

// explain notes in how many shards something is stored in a form, if there are problems with events
// or inputs of that form, and reports whether there are.
func (f *findings) explain(typ sharding.EntityType, form sharding.Form, shards int) (explained bool) {
	version := int(form.Version)
	if instance.FormOfAnswers(form) {
		version = 0 // as in a Problem
	}
	for k, p := range f.by { // order-free: each gets the same
		if k.typ == typ && k.what == form.Kind.String() && k.name == form.Name && k.version == version {
			p.Shards, explained = max(p.Shards, shards), true
		}
	}
	return explained
}

func (f *findings) sorted() []Problem {
	var all []Problem
	for _, p := range f.by {
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(b.Entities, a.Entities), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Event, b.Event),
			cmp.Compare(a.Version, b.Version), strings.Compare(a.What+a.Problem, b.What+b.Problem))
	})
	return all
}

// Subject names what a problem is about.
func (p *Problem) Subject() string {
	switch {
	case p.Command != "" && p.Version == 0:
		return fmt.Sprintf("%s, answers for %s", p.Type, p.Command)
	case p.Command != "":
		return fmt.Sprintf("%s, input of %s, version %d", p.Type, p.Command, p.Version)
	case p.Event == "":
		return fmt.Sprintf("%s, %s", p.Type, p.What)
	}
	return fmt.Sprintf("%s, event %s of version %d", p.Type, p.Event, p.Version)
}
