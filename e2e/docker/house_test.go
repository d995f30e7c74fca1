package docker_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/test/archtest"
)

func TestHouse(t *testing.T) {
	archtest.Check(t, archtest.Rules{
		May: map[string][]string{
			// The DNS server shares no code with what it tests.
			"cmd/...": {},
			".":       {},
		},
		Outside: []string{"github.com/miekg/dns"},
	})
}
