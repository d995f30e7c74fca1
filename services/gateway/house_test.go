package gateway_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/test/archtest"
)

func TestHouse(t *testing.T) {
	archtest.Check(t, archtest.Rules{
		May: map[string][]string{
			".":          {"libs/sharding", "libs/router"},
			"server/...": {"libs/...", "proto/...", "services/gateway/..."},
			"cmd/...":    {"libs/backends/all", "services/gateway/server/..."},
		},
		Never: []string{"proto/roost/admin/v1", "services/coordinator/...", "services/region/...", "sdk/...", "cli/...", "examples/...", "e2e/..."},
		Pure:  []string{"."},
		// It is a value that handlers ask and tell.
		Undriven: []string{"."},
	})
}
