package coordinator

import (
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
)

// TestWeighedRegionsAreBounded checks that a Step lists regions in its first explanations only, as
// many as MaxWeighed allows, and always in one.
func TestWeighedRegionsAreBounded(t *testing.T) {
	for _, c := range []struct{ max, regions, want int }{{max: 6, regions: 2, want: 3}, {max: 1, regions: 2, want: 1}} {
		m := Machine{}
		m.cfg.MaxWeighed = c.max
		m.regions = make([]region, c.regions)
		weighed := 0
		for range 10 {
			var d Explanation
			if m.weigh(&d, &typeTable{}, &row{}, "", sharding.NodeID{Addr: "absent:1"}); !d.Unweighed {
				weighed++
			}
		}
		if weighed != c.want {
			t.Errorf("with MaxWeighed %d and %d regions, %d explanations list regions, want %d", c.max, c.regions, weighed, c.want)
		}
	}
}
