package memory_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/lease/leasetest"
	"github.com/roost-cluster/roost/libs/lease/memory"
)

func TestConformance(t *testing.T) {
	leasetest.Run(t, func(t *testing.T) leasetest.Harness {
		s := memory.New()
		return leasetest.Harness{Backend: s}
	})
}
