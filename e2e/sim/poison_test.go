package sim

import (
	"maps"
	"os"
	"slices"
	"testing"
)

// mustHappenPoison are the events without which the poisonous climate is too mild.
var mustHappenPoison = []string{
	"poison: it ends a region by a command",
	"poison: it ends a region by a reminder",
	"poison: it ends a region by a send",
	"poison: an innocent entity is quarantined",
	"poison: a shard core panics",
	"suspect: it waits for another one",
	"suspect: it runs while another one does",
	"quarantine: the shard moves at once",
	"quarantine: it outlives the term",
	"quarantine: all are released",
}

// TestPoison runs seeds of the poisonous climate.
func TestPoison(t *testing.T) {
	if os.Getenv("SIM_SEED") != "" {
		t.Skip("SIM_SEED names one seed")
	}
	n := number64(t, "SIM_POISON_SEEDS", 30)
	if testing.Short() {
		n = 10
	}
	total := runSeeds(t, poisonous, number64(t, "SIM_FIRST", 1), n)
	for _, name := range slices.Sorted(maps.Keys(total.marks)) {
		t.Logf("%9d  in %5.1f%% of the seeds  %s", total.marks[name], 100*float64(total.seeds[name])/float64(n), name)
	}
	if n < 100 {
		return
	}
	for _, name := range mustHappenPoison {
		if total.marks[name] == 0 {
			t.Errorf("it never happened: %s", name)
		}
	}
}
