//go:build mutants

package membership

import (
	"fmt"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
)

// mutants are the guards of membership that can be removed, each with its place.
var mutants = []struct{ name, place string }{
	{"seen-reset", "gossip: no node has seen a changed state but the one that changed it"},
	{"merge-precedence", "gossip: the later status of a member wins"},
	{"tombstones", "gossip: who was removed is remembered"},
	{"former-receivers", "gossip: an observer of an unreachable node watches until it answers"},
	{"local-health", "gossip: a node that sees most fall silent suspects itself first"},
	{"gossip-ttl", "gossip: what waited too long is dropped"},
}

// TestMutants runs one mutant after the other until something is noticed.
func TestMutants(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, m := range mutants {
		mutant.Activate(m.name)
		var err error
		seed := uint64(1)
		for ; seed <= 10 && err == nil; seed++ {
			err = trial(seed)
		}
		if err == nil {
			t.Errorf("%-17s SURVIVES (%s)", m.name, m.place)
			continue
		}
		t.Logf("%-17s seed %d  %.100v", m.name, seed-1, err)
	}
}

func trial(seed uint64) (err error) {
	defer func() {
		if r := recover(); r != nil { // an invariant of a machine
			err = fmt.Errorf("%v", r)
		}
	}()
	quiet := func(string, ...any) {}
	if _, err := Starve(24, seed, 30*time.Second, quiet); err != nil {
		return err
	}
	_, err = Run(24, seed, quiet)
	return err
}
