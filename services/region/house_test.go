package region_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/test/archtest"
)

func TestHouse(t *testing.T) {
	archtest.Check(t, archtest.Rules{
		May: map[string][]string{
			".":          {"libs/sharding", "libs/control", "libs/journal", "libs/outbox", "libs/passivation", "libs/routetable", "libs/turn", "libs/heavyhitters", "libs/entitylist", "libs/wakeup", "libs/purge", "libs/replies", "libs/pace", "libs/setting", "libs/sorted", "libs/storeclock"},
			"suspects":   {"libs/control", "libs/sharding"},
			"server/...": {"libs/...", "proto/...", "sdk/...", "services/region/..."},
			"cmd/...":    {"libs/backends/all", "sdk/...", "services/region/server/..."},
		},
		Never: []string{"proto/roost/admin/v1", "services/coordinator/...", "services/gateway/...", "cli/...", "examples/...", "e2e/..."},
		Pure:  []string{".", "suspects"},
		// It is between the cores and their driver.
		Undriven: []string{"suspects"},
	})
}
