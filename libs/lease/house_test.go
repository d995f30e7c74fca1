package lease_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/test/archtest"
)

func TestHouse(t *testing.T) {
	layer := []string{"libs/setting", "libs/sharding", "libs/backendurl", "libs/conn", "libs/kubeapi", "libs/journal/postgres/pgsession", "libs/lease/..."}
	archtest.Check(t, archtest.Rules{
		May:    map[string][]string{"...": layer},
		Never:  []string{"services/...", "sdk/...", "cli/...", "examples/...", "e2e/..."},
		Pure:   []string{"."},
		Impure: []string{"check.go", "keeper.go", "open.go"},
	})
}
