package cli_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/archtest"
)

func TestHouse(t *testing.T) {
	archtest.Check(t, archtest.Rules{
		May:   map[string][]string{"...": {"libs/...", "proto/...", "sdk/...", "cli/..."}},
		Never: []string{"services/...", "examples/...", "e2e/..."},
	})
}
