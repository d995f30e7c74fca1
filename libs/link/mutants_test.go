//go:build mutants

package link

import (
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestMutants shows what each guard is for.
func TestMutants(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for name, broken := range map[string]func() bool{ // order-free: each for itself
		"one-reader": func() bool {
			for seed := uint64(1); seed <= 10; seed++ {
				if confuseReaders(seed) != "" {
					return true
				}
			}
			return false
		},
		"straggler": func() bool {
			r := NewReaders[string]()
			r.Enter(LaneID{}, 2, "newer")
			return len(r.Enter(LaneID{}, 1, "older").Older) > 0
		},
		"link-generation": func() bool {
			h, cfg := goodHello(), testConfig(testRegion)
			h.generation, cfg.Generation = 8, func() sharding.Generation { return 7 }
			_, why := h.refuse(&cfg)
			return why == ""
		},
	} {
		mutant.Activate("")
		if broken() {
			t.Errorf("%s: broken without the mutant", name)
		}
		if mutant.Activate(name); !broken() {
			t.Errorf("mutant %s is not noticed", name)
		}
	}
}
