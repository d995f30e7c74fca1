package coordinator_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/test/archtest"
)

func TestHouse(t *testing.T) {
	archtest.Check(t, archtest.Rules{
		May: map[string][]string{
			".":                 {"libs/sharding", "libs/control", "libs/backoff", "libs/latency", "libs/mutant", "libs/allocation", "libs/pace", "libs/setting"},
			"operate":           {"libs/link", "libs/sharding", "libs/mutant"},
			"console":           {"libs/...", "proto/...", "services/coordinator", "services/coordinator/operate"},
			"console/dashboard": {"proto/..."},
			"server":            {"libs/...", "proto/...", "services/coordinator/..."},
			"cmd/...":           {"libs/backends/all", "services/coordinator/server"},
		},
		Never:  []string{"services/region/...", "services/gateway/...", "sdk/...", "cli/...", "examples/...", "e2e/..."},
		Pure:   []string{".", "operate"},
		Impure: []string{"operate/driver.go"},
	})
}
