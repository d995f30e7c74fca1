package sdk_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/test/archtest"
)

func TestHouse(t *testing.T) {
	// The same entity core runs in the region, in entitytest and in the
	// simulator; a user of the sdk inherits nothing heavier than these.
	archtest.Check(t, archtest.Rules{
		May: map[string][]string{"...": {"libs/errornumber", "libs/foreign", "libs/journal", "libs/mutant", "libs/passivation", "libs/sharding", "libs/turn", "libs/wakeup", "libs/outbox", "sdk/..."},
			// For programs that steer a cluster; entities and their callers do without.
			"adminclient": {"libs/bounded", "libs/sharding", "proto/..."}},
		Outside: []string{
			"github.com/google/uuid",
			"github.com/twitchtv/twirp",
			"google.golang.org/protobuf",
		},
		Pure:     []string{"entity"},
		Undriven: []string{"entity"}, // what the user writes with; turn is the core
		// It looks at types, for the texts of errors.
		Impure: []string{"entity/explain.go"},
		Never:  []string{"services/...", "cli/...", "examples/...", "e2e/..."},
	})
}
