package cluster

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

// TestHistories: whatever happens to the processes, the histories of the
// clients are right.
func TestHistories(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			if s.full && !everything() {
				t.Skip("runs with E2E=full")
			}
			play(t, s)
		})
	}
}

var scenarios = []scenario{
	{name: "kill-region", length: 8 * time.Second, faults: killRegion},
	{name: "kill-coordinator", length: 8 * time.Second, faults: killCoordinatorAndRegion},
	{name: "pause-region", length: 10 * time.Second, faults: pauseRegion},
	{name: "pause-coordinator", length: 10 * time.Second, faults: pauseCoordinator},
	{name: "kill-all", length: 10 * time.Second, least: 60, faults: killAll},
	{name: "kill-gateway", full: true, length: 8 * time.Second, faults: killGateway},
	{name: "kill-two-regions", full: true, length: 10 * time.Second, faults: func(r *run) { killFor(r, "region-1", "region-3") }},
	{name: "kill-both-coordinators", full: true, length: 10 * time.Second, faults: func(r *run) { killFor(r, "coordinator-1", "coordinator-2") }},
	{name: "same-address", full: true, length: 10 * time.Second, faults: sameAddress},
	{name: "same-identity", full: true, length: 12 * time.Second, faults: sameIdentity},
	{name: "terminate", full: true, length: 25 * time.Second, faults: terminate, check: nothingUnknown},
	{name: "disk-full", full: true, length: 12 * time.Second, prepare: smallDisk, faults: diskFull},
	{name: "failing-fsync", full: true, length: 12 * time.Second, faults: failingFsync},
	{name: "corrupted-record", full: true, length: 16 * time.Second, least: 60, faults: corruptedRecord},
}

func killRegion(r *run) {
	r.wait(2 * time.Second)
	r.kill("region-2")
	r.wait(3 * time.Second)
	r.up()
}

// killCoordinatorAndRegion leaves shards without an owner, and nobody who
// gives them a new one at once.
func killCoordinatorAndRegion(r *run) {
	r.wait(2 * time.Second)
	name, before := r.active()
	r.kill(name, "region-1")
	r.wait(3 * time.Second)
	r.up()
	if _, term := r.active(); term <= before {
		r.Errorf("term %d follows %d", term, before)
	}
}

func killGateway(r *run) { killFor(r, "gateway-1") }

// killFor kills processes for longer than it takes to notice.
func killFor(r *run, names ...string) {
	r.wait(2 * time.Second)
	r.kill(names...)
	r.wait(3 * time.Second)
	r.up()
}

// pauseRegion stops a region for longer than detection: its shards move, and
// when it goes on, nothing that it still has in hand may take effect.
func pauseRegion(r *run) {
	r.wait(2 * time.Second)
	r.pause("region-2")
	r.wait(4 * time.Second)
	r.must(r.cluster.Signal("region-2", syscall.SIGCONT))
	r.wait(2 * time.Second)
	late := r.metric("region-2", "roost_journal_fenced_total")
	r.figure("%.0f late operations refused", late)
	if late == 0 {
		r.Error("void: region-2 had nothing in hand when it was stopped")
	}
}

// pauseCoordinator stops the active coordinator for longer than its lease.
func pauseCoordinator(r *run) {
	r.wait(2 * time.Second)
	old, before := r.active()
	r.pause(old)
	r.wait(4 * time.Second)
	now, term := r.active()
	if now == old || term <= before {
		r.Errorf("%s is active in term %d while %s of term %d is stopped", now, term, old, before)
	}
	r.must(r.cluster.Signal(old, syscall.SIGCONT))
	r.wait(time.Second)
	if r.metric(old, "roost_coordinator_leader") != 0 {
		r.Errorf("%s still leads", old)
	}
	if still, same := r.active(); still != now || same != term {
		r.Errorf("%s of term %d is active, it was %s of term %d", still, same, now, term)
	}
	r.figure("term %d after %d, %.0f late operations refused", term, before, r.metric(old, "roost_journal_fenced_total"))
}

// killAll ends everything at once, and starts it again in any order.
func killAll(r *run) {
	r.wait(2 * time.Second)
	var names []string
	for _, p := range r.cluster.Processes() {
		names = append(names, p.Name)
	}
	r.kill(names...)
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	began := time.Now()
	r.up()
	r.figure("all ready in %.1f s", time.Since(began).Seconds())
}
