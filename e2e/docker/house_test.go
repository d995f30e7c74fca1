package docker_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/house"
)

func TestHouse(t *testing.T) {
	house.Check(t, house.Rules{
		May: map[string][]string{
			// The server that the others are tested with has nothing of theirs.
			"cmd/...": {},
			".":       {},
		},
		Outside: []string{"github.com/miekg/dns"},
	})
}
