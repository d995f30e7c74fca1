package region

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// takesTable reports whether a region whose journal has one generation takes the table of
// a coordinator whose journal has another.
func takesTable(t *testing.T, own, of sharding.Generation) bool {
	t.Helper()
	c, now := NewControlCore(DefaultConfig(sharding.NodeID{Addr: "r:1", UID: 1}, "r")), time.Unix(1e6, 0)
	c.generation = own
	delta := sharding.TableDelta{Version: sharding.Version{Term: 3, N: 1}, Full: true, Generation: of}
	c.Step(now, Replied{From: "c:1", Asked: control.WatchTable{}, Msg: control.TableChanged{Delta: delta}}, nil)
	return c.table.Version() == delta.Version
}

// TestTableGeneration: the table of another generation of the journal is not taken.
func TestTableGeneration(t *testing.T) {
	for _, c := range []struct {
		own, of sharding.Generation
		want    bool
	}{{7, 7, true}, {0, 7, true}, {7, 0, true}, {7, 8, false}} {
		if got := takesTable(t, c.own, c.of); got != c.want {
			t.Errorf("%+v: taken %t", c, got)
		}
	}
}
