package spread

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

func types(names ...sharding.EntityType) (d []sharding.TypeDesc) {
	for _, n := range names {
		d = append(d, sharding.TypeDesc{Type: n, Shards: 8})
	}
	return d
}

type placement = map[sharding.EntityType]int

// TestPlace: a type goes where it is wanted when it is first declared, and stays there.
func TestPlace(t *testing.T) {
	stored := []journal.TypeFact{{Type: "Old", Shards: 8}}
	for name, test := range map[string]struct {
		have, want placement
		declared   []sharding.TypeDesc
		then       placement
		says       string
	}{
		"nothing said":                    {nil, nil, types("New"), placement{"Old": 1, "New": 1}, ""},
		"a new type":                      {nil, placement{"New": 2}, types("New"), placement{"Old": 1, "New": 2}, ""},
		"again":                           {placement{"Old": 1, "New": 2}, placement{"New": 2}, types("New", "Old"), placement{"Old": 1, "New": 2}, ""},
		"nothing said any more":           {placement{"Old": 1, "New": 2}, nil, types("New"), placement{"Old": 1, "New": 2}, ""},
		"wanted elsewhere":                {placement{"Old": 1, "New": 2}, placement{"New": 3}, types("New"), nil, "say 2"},
		"wanted elsewhere, not declared":  {placement{"Old": 1, "New": 2}, placement{"New": 3}, types("Old"), placement{"Old": 1, "New": 2}, ""},
		"stored before there were others": {nil, placement{"Old": 2}, types("Old"), nil, "database 1"},
		"one of two":                      {nil, placement{"New": 2, "Old": 2}, types("New", "Old"), nil, "type Old"},
	} {
		before := maps.Clone(test.have)
		n, changed, err := Note{Number: 1, Types: test.have}.Place(stored, test.declared, test.want)
		if (err != nil) != (test.says != "") || err != nil && (!errors.Is(err, ErrPlaced) || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: %v, want an error with %q", name, err, test.says)
			continue
		}
		if err == nil && (!maps.Equal(n.Types, test.then) || changed != (len(test.then) != len(before))) {
			t.Errorf("%s: %v (changed %v), want %v", name, n.Types, changed, test.then)
		}
		if !maps.Equal(test.have, before) {
			t.Errorf("%s: the note before was changed: %v", name, test.have)
		}
	}
}

func TestDatabaseOf(t *testing.T) {
	n := Note{Types: placement{"New": 3, "Old": 1}}
	for typ, want := range map[sharding.EntityType]struct {
		number int
		known  bool
	}{"New": {3, true}, "Old": {1, true}, "Other": {1, false}, "roost.coordinator": {1, true}} {
		if number, known := n.DatabaseOf(typ); number != want.number || known != want.known {
			t.Errorf("%s is in database %d (known: %v), want %+v", typ, number, known, want)
		}
	}
}
