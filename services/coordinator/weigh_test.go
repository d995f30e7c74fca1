package coordinator

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// TestWeighedRegionsAreBounded checks that only the first explanations after a tick list regions, as
// many as MaxWeighed allows, and always one, however many Steps there are.
func TestWeighedRegionsAreBounded(t *testing.T) {
	for _, c := range []struct{ max, regions, want int }{{max: 6, regions: 2, want: 3}, {max: 1, regions: 2, want: 1}} {
		cfg := DefaultConfig()
		cfg.MaxWeighed = c.max
		m := New(cfg)
		now := time.Unix(1000, 0)
		m.term.active = true
		m.live.regions = make([]region, c.regions)
		for range 2 {
			m.Step(now, Tick{}, nil)
			weighed := 0
			for range 10 {
				m.Step(now, Renewed{}, nil)
				var d Explanation
				if m.why.weigh(&m.placement, &d, &typeTable{}, &row{}, "", sharding.NodeID{Addr: "absent:1"}); !d.Unweighed {
					weighed++
				}
			}
			if weighed != c.want {
				t.Errorf("with MaxWeighed %d and %d regions, %d explanations list regions, want %d", c.max, c.regions, weighed, c.want)
			}
		}
	}
}
