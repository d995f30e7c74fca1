package coordinator_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/test/archtest"
)

func TestHouse(t *testing.T) {
	archtest.Check(t, archtest.Rules{
		May: map[string][]string{
			".":                   {"libs/sharding", "libs/control", "libs/backoff", "libs/latency", "libs/allocation", "libs/pace", "libs/setting", "services/coordinator/internal/..."},
			"internal/budget":     {"libs/sharding", "libs/control", "libs/latency", "services/coordinator/internal/state"},
			"internal/state":      {"libs/sharding"},
			"internal/fact":       {"libs/sharding", "libs/control"},
			"internal/intent":     {"libs/sharding", "services/coordinator/internal/fact"},
			"internal/quarantine": {"libs/sharding", "libs/control", "services/coordinator/internal/fact"},
			"operate":             {"libs/link", "libs/sharding"},
			"console":             {"libs/...", "proto/...", "services/coordinator", "services/coordinator/operate"},
			"console/dashboard":   {"proto/..."},
			"server":              {"libs/...", "proto/...", "services/coordinator/..."},
			"cmd/...":             {"libs/backends/all", "services/coordinator/server"},
		},
		Never:    []string{"services/region/...", "services/gateway/...", "sdk/...", "cli/...", "examples/...", "e2e/..."},
		Pure:     []string{".", "operate", "internal/budget", "internal/fact", "internal/intent", "internal/quarantine", "internal/state"},
		Impure:   []string{"operate/driver.go"},
		Undriven: []string{"internal/budget", "internal/fact", "internal/intent", "internal/quarantine", "internal/state"},
	})
}
