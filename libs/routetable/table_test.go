package routetable

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
)

var airport = sharding.TypeDesc{Type: "Airport", Shards: 8, Commands: []sharding.CommandDesc{{Name: "Depart"}}}

func node(addr string) sharding.NodeID { return sharding.NodeID{Addr: addr, UID: 1} }

func row(index uint32, epoch sharding.Epoch, phase sharding.Phase) sharding.Row {
	return sharding.Row{Shard: sharding.ShardID{Type: "Airport", Index: index}, Owner: node("r1:1"), Epoch: epoch, Phase: phase}
}

func version(term sharding.Term, n uint64) sharding.Version {
	return sharding.Version{Term: term, N: n}
}

func declared(t *testing.T) *Table {
	t.Helper()
	tab := New()
	tab.Apply(sharding.TableDelta{Version: version(0, 2), Full: true, Types: []sharding.TypeDesc{airport}})
	return tab
}

func TestMergeKeepsTheNewer(t *testing.T) {
	tab := declared(t)
	for _, step := range []struct {
		row  sharding.Row
		want bool
	}{
		{row(3, 5, sharding.Starting), true},
		{row(3, 5, sharding.Starting), false},
		{row(3, 5, sharding.HandingOff), true},
		{row(3, 5, sharding.Serving), false},
		{row(3, 4, sharding.HandingOff), false},
		{row(3, 6, sharding.Starting), true},
	} {
		if got := tab.Merge(step.row); got != step.want {
			t.Errorf("Merge(%v) = %v, want %v", step.row, got, step.want)
		}
	}
	if got, ok := tab.Row(sharding.ShardID{Type: "Airport", Index: 3}); !ok || got != row(3, 6, sharding.Starting) {
		t.Errorf("Row = %v, %v", got, ok)
	}
	if _, ok := tab.Row(sharding.ShardID{Type: "Airport", Index: 2}); ok {
		t.Error("a row below the highest index was made up")
	}
}

func TestBadRowsAndTypesAreIgnored(t *testing.T) {
	tab := declared(t)
	before := tab.AppendState(nil)
	bad := []sharding.Row{
		{},
		row(8, 1, sharding.Serving),
		row(1<<31, 1, sharding.Serving),
		row(0, 0, sharding.Serving),
		row(0, 1, 0),
		row(0, 1, 9),
		{Shard: sharding.ShardID{Type: "Airport"}, Epoch: 1, Phase: sharding.Serving},
		{Shard: sharding.ShardID{Type: "Ship"}, Owner: node("r1:1"), Epoch: 1, Phase: sharding.Serving},
	}
	for _, r := range bad {
		if tab.Merge(r) {
			t.Errorf("Merge(%v) took a bad row", r)
		}
	}
	tab.Apply(sharding.TableDelta{Version: version(0, 2), Rows: bad, Types: []sharding.TypeDesc{
		{Type: "Ship"}, {Type: "Ship", Shards: sharding.MaxShards + 1}, {Type: "no/slash", Shards: 4},
		{Type: "Airport", Shards: 16}, {Type: "Airport", Shards: 8, Volatile: true},
	}})
	if !bytes.Equal(before, tab.AppendState(nil)) {
		t.Error("a bad type or row changed the table")
	}
	for _, id := range []sharding.ShardID{{}, {Type: "Ship"}, {Type: "Airport", Index: 1 << 31}} {
		if _, ok := tab.Row(id); ok {
			t.Errorf("Row(%v) found something", id)
		}
	}
}

func TestApply(t *testing.T) {
	tab := declared(t)
	got := tab.Apply(sharding.TableDelta{Version: version(0, 9), Rows: []sharding.Row{
		row(1, 1, sharding.Serving), row(0, 1, sharding.Starting), row(1, 1, sharding.Starting), row(0, 1, sharding.Serving),
	}})
	want := []sharding.Row{row(1, 1, sharding.Serving), row(0, 1, sharding.Starting), row(0, 1, sharding.Serving)}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("changed = %v, want %v", got, want)
	}
	more := airport
	more.Commands = []sharding.CommandDesc{{Name: "Arrive"}, {Name: "Depart"}}
	tab.Apply(sharding.TableDelta{Version: version(0, 3), Types: []sharding.TypeDesc{more}, Rows: []sharding.Row{row(2, 1, sharding.Serving)}})
	if tab.Version() != version(0, 9) {
		t.Errorf("version went back to %v", tab.Version())
	}
	if d, _ := tab.Type("Airport"); len(d.Commands) != 1 {
		t.Error("an older delta replaced a descriptor")
	}
	if _, ok := tab.Row(sharding.ShardID{Type: "Airport", Index: 2}); !ok {
		t.Error("a newer row of an older delta was lost")
	}
	tab.Apply(sharding.TableDelta{Version: version(0, 10), Types: []sharding.TypeDesc{more}})
	if d, _ := tab.Type("Airport"); len(d.Commands) != 2 {
		t.Error("a newer delta did not replace the descriptor")
	}
}

// TestFullReplaces: a full table of a new term removes the rows of earlier terms that it does not have, and they do not
// come back from a region.
func TestFullReplaces(t *testing.T) {
	old := func(index, n uint32) sharding.Row { return row(index, sharding.MakeEpoch(1, n), sharding.Serving) }
	tab := declared(t)
	tab.Apply(sharding.TableDelta{Version: version(1, 4), Full: true, Rows: []sharding.Row{old(0, 1), old(1, 2), old(2, 3)}})
	told := row(3, sharding.MakeEpoch(2, 1), sharding.Serving) // by a region, before the coordinator says it
	tab.Merge(told)
	full := sharding.TableDelta{Version: version(2, 3), Full: true, Rows: []sharding.Row{old(1, 2)}}
	tab.Declare(full)
	tab.Merge(old(1, 2))
	if gone := tab.Advance(full); !reflect.DeepEqual(gone, []sharding.Row{old(0, 1), old(2, 3)}) {
		t.Errorf("gone = %v", gone)
	}
	if got := tab.Rows(); !reflect.DeepEqual(got, []sharding.Row{old(1, 2), told}) {
		t.Errorf("rows = %v", got)
	}
	if tab.Merge(old(0, 1)) || tab.Merge(old(0, 9)) {
		t.Error("a row of an earlier term that the full table does not have came back")
	}
	if handedOff := old(1, 7); !tab.Merge(handedOff) { // at the epoch that the earlier term has reserved
		t.Errorf("%v was ignored", handedOff)
	}
	if gone := tab.Advance(sharding.TableDelta{Version: version(1, 9), Full: true}); gone != nil {
		t.Errorf("an older full table removes %v", gone)
	}
	if gone := tab.Advance(sharding.TableDelta{Version: version(3, 1)}); gone != nil {
		t.Errorf("a delta removes %v", gone)
	}
	if err := tab.Check(); err != nil {
		t.Error(err)
	}
}

func TestDelta(t *testing.T) {
	tab := declared(t)
	tab.Merge(row(5, 1, sharding.Serving))
	if d := tab.Delta(tab.Version()); d.Full || d.Rows != nil || d.Types != nil || d.Version != tab.Version() {
		t.Errorf("Delta of the same version = %+v", d)
	}
	other := New()
	other.Apply(tab.Delta(sharding.Version{}))
	if !bytes.Equal(other.AppendState(nil), tab.AppendState(nil)) {
		t.Error("the full table does not make an equal copy")
	}
}

// TestMergeLaws: in whatever order, how often and how mixed rows arrive, the
// tables end up equal.
func TestMergeLaws(t *testing.T) {
	for seed := uint64(0); seed < 200; seed++ {
		rng := rand.New(rand.NewPCG(seed, 1))
		var rows []sharding.Row
		for range 30 {
			rows = append(rows, row(uint32(rng.IntN(9)), sharding.Epoch(rng.IntN(5)), sharding.Phase(rng.IntN(5))))
		}
		a, b := declared(t), declared(t)
		a.Apply(sharding.TableDelta{Version: version(1, 2), Rows: rows})
		for range 2 {
			rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
			for _, r := range rows {
				b.Merge(r)
			}
		}
		b.Apply(sharding.TableDelta{Version: version(1, 2)})
		if err := a.Check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !reflect.DeepEqual(a.Rows(), b.Rows()) && len(a.Rows())+len(b.Rows()) > 0 {
			t.Fatalf("seed %d: %v\n%v", seed, a.Rows(), b.Rows())
		}
	}
}

func TestCloneIsIndependent(t *testing.T) {
	tab := declared(t)
	tab.Merge(row(1, 1, sharding.Serving))
	before := tab.AppendState(nil)
	c := tab.Clone()
	c.Merge(row(1, 2, sharding.Serving))
	c.Apply(sharding.TableDelta{Version: version(3, 3), Types: []sharding.TypeDesc{{Type: "Route", Shards: 4}}})
	if !bytes.Equal(before, tab.AppendState(nil)) {
		t.Error("changing the clone changed the original")
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}
