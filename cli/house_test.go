package cli_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/test/archtest"
)

func TestHouse(t *testing.T) {
	archtest.Check(t, archtest.Rules{
		// The groups of commands know what they share, and nothing of one another. Only a reminder can be dropped in the
		// journal itself, too.
		May: map[string][]string{
			"...":             {"libs/...", "proto/...", "sdk/...", "cli/..."},
			"internal/...":    {"libs/...", "proto/...", "sdk/...", "cli/authority", "cli/cluster", "cli/factrepair", "cli/internal/app", "cli/internal/phrase"},
			"internal/entity": {"libs/...", "proto/...", "sdk/...", "cli/cluster", "cli/internal/app", "cli/internal/journal", "cli/internal/phrase"},
			"internal/phrase": {"libs/...", "proto/..."},
		},
		Never: []string{"services/...", "examples/...", "e2e/..."},
	})
}
