package spread

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// First is the number of the database that journal.url names.
const First = 1

// MaxNumber is the highest number of a database.
const MaxNumber = 64

// ErrPlaced: a type is wanted in another database than the one it is in.
var ErrPlaced = errors.New("the type is in another database")

// Note is stored by a database and describes its place in the journal.
type Note struct {
	Number int `json:"number"`
	// Of is the generation of the first database. In the first one itself it is 0: the generation of
	// the journal counts.
	Of sharding.Generation `json:"of,string"`
	// Databases are the numbers of the others that were ever used, in their order, and Types maps each type to the
	// database that has its data. Only the first database has them.
	Databases []int                       `json:"databases,omitempty"`
	Types     map[sharding.EntityType]int `json:"types,omitempty"`
}

// internal reports whether a type is one of Roost's own, which are in the first database.
func internal(t sharding.EntityType) bool { return strings.HasPrefix(string(t), "roost.") }

// Of returns the number of the database of a type, and whether it is known. One that is not known was never
// declared, or was declared when the journal had one database and not since: it is in the first one, unless another process
// has placed it meanwhile.
func (n *Note) DatabaseOf(t sharding.EntityType) (number int, known bool) {
	if number, known = n.Types[t]; known {
		return number, true
	}
	return First, internal(t)
}

// Place decides in which databases declared types are: where they are already, whatever is wanted; otherwise
// where they are wanted, and in the first one if nothing is said. stored are the types that the journal
// has: those that are not in the note were stored when there was one database. It returns the note with them, and whether
// anything is new. The error wraps [ErrPlaced] for a type that is wanted elsewhere than it is.
func (n Note) Place(stored []journal.TypeFact, declared []sharding.TypeDesc, want map[sharding.EntityType]int) (Note, bool, error) {
	types := maps.Clone(n.Types)
	if types == nil {
		types = map[sharding.EntityType]int{}
	}
	for _, t := range stored {
		if _, placed := types[t.Type]; !placed { //mutant:false spread-stored
			types[t.Type] = First
		}
	}
	for _, d := range declared {
		is, placed := types[d.Type]
		wanted, said := want[d.Type]
		//mutant:do spread-placed if placed { types[d.Type] = wanted; continue }
		switch {
		case !placed && said:
			types[d.Type] = wanted
		case !placed:
			types[d.Type] = First
		case said && is != wanted:
			return n, false, fmt.Errorf("%w: the data of type %s is in database %d, and journal.types says %d; a type stays in the database in which it was first declared: say %d, or give the type another name",
				ErrPlaced, d.Type, is, wanted, is)
		}
	}
	changed := len(types) != len(n.Types)
	n.Types = types
	return n, changed, nil
}

// check returns why a database with this note must not be used under the given number. generation is the first
// database's. The error wraps [journal.ErrIdentity].
func (n *Note) check(number int, generation sharding.Generation) error {
	switch {
	case n.Number != number: //mutant:false spread-number
		return fmt.Errorf("%w: it is database %d of a journal, and is given as database %d; each number in journal.databases belongs to one database forever, and journal.url names database %d",
			journal.ErrIdentity, n.Number, number, First)
	case number != First && n.Of != generation: //mutant:false spread-generation
		return fmt.Errorf("%w: database %d belongs to a journal whose first database has generation %s, and journal.url has generation %s: it belongs to another cluster, or a restore of all databases has not ended; correct the URLs, or run the restore again",
			journal.ErrIdentity, number, n.Of, generation)
	}
	return nil
}

// checkAll returns why the databases with the given numbers are not the databases of the
// journal.
func (n *Note) checkAll(numbers []int) error {
	for _, used := range n.Databases {
		if !slices.Contains(numbers, used) { //mutant:false spread-all
			return fmt.Errorf("%w: the journal has a database %d, and journal.databases does not name it; all coordinators, regions and tools need all of them (tools with --journal.url need --journal.databases, too)",
				journal.ErrIdentity, used)
		}
	}
	return nil
}

// with returns the note with more numbers among the databases, and whether any is new.
func (n Note) with(numbers []int) (Note, bool) {
	all := slices.Clone(n.Databases)
	all = append(all, numbers...)
	slices.Sort(all)
	all = slices.Compact(all)
	changed := len(all) != len(n.Databases)
	n.Databases = all
	return n, changed
}
