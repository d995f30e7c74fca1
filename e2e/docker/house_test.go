package docker_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/archtest"
)

func TestHouse(t *testing.T) {
	archtest.Check(t, archtest.Rules{
		May: map[string][]string{
			// The server that the others are tested with has nothing of theirs.
			"cmd/...": {},
			".":       {},
		},
		Outside: []string{"github.com/miekg/dns"},
	})
}
