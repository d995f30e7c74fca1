package postgres_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/test/archtest"
)

func TestHouse(t *testing.T) {
	layer := []string{"libs/sharding", "libs/conn", "libs/sorted", "libs/test/servertest", "libs/journal/..."}
	archtest.Check(t, archtest.Rules{
		May:   map[string][]string{"...": layer},
		Never: []string{"services/...", "sdk/...", "cli/...", "examples/...", "e2e/..."},
	})
}
