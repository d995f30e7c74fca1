package sdk_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/test/archtest"
)

func TestHouse(t *testing.T) {
	// The same entity core and the same instances run in the region and in entitytest;
	// a user of the sdk inherits nothing heavier than these.
	archtest.Check(t, archtest.Rules{
		May: map[string][]string{"...": {"libs/errornumber", "libs/instance", "libs/journal", "libs/passivation", "libs/sharding", "libs/turn", "libs/wakeup", "libs/outbox", "sdk/..."}},
		Outside: []string{
			"github.com/google/uuid",
		},
		Pure:     []string{"entity"},
		Undriven: []string{"entity"}, // what the user writes with; turn is the core
		Never:    []string{"services/...", "cli/...", "examples/...", "e2e/..."},
	})
}
