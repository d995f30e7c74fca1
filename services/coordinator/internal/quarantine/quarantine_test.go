package quarantine

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/fact"
)

var limits = Limits{Crashes: 2, Window: 10 * time.Minute, Max: 2, MaxReason: 256}

func known(t sharding.EntityType) bool { return t == "T" }

func entity(id string) sharding.Entity {
	return sharding.Entity{Type: "T", ID: sharding.EntityID(id)}
}

// crash is a crash with a cause while entities ran, alone if it is one.
func crash(process sharding.NodeUID, ids ...string) control.Crash {
	c := control.Crash{Of: process, Cause: "panic"}
	for _, id := range ids {
		c.Turns = append(c.Turns, control.CrashedTurn{Entity: entity(id), Command: "Do", Alone: len(ids) == 1})
	}
	return c
}

// judge applies the facts that follow from a crash.
func (q *Quarantine) judge(now time.Time, c control.Crash) {
	for _, f := range q.Judge(now, limits, "r", c, known) {
		q.Apply(f)
	}
}

func (q *Quarantine) state(id string) fact.QuarantineState {
	f, _ := q.Find(entity(id))
	return f.State
}

// TestTwoCrashes: an entity is a suspect after one crash, and quarantined after two within the window.
func TestTwoCrashes(t *testing.T) {
	for _, c := range []struct {
		pause time.Duration
		want  fact.QuarantineState
	}{{time.Minute, fact.Quarantined}, {11 * time.Minute, fact.Suspected}} {
		var q Quarantine
		now := time.Unix(1e6, 0)
		q.judge(now, crash(1, "x", "y"))
		if q.state("x") != fact.Suspected || q.state("y") != fact.Suspected {
			t.Errorf("after a crash: %+v", q.All())
		}
		q.judge(now.Add(c.pause), crash(2, "x"))
		if q.state("x") != c.want || q.state("y") != fact.Suspected || q.Quarantined(entity("x")) != (c.want == fact.Quarantined) {
			t.Errorf("after another one %v later: %+v", c.pause, q.All())
		}
		if err := q.Check(limits); err != nil {
			t.Error(err)
		}
	}
}

// TestFullAndOutdated: the suspect without a crash for the longest time makes room, quarantined entities never do, and
// suspects are released after the window.
func TestFullAndOutdated(t *testing.T) {
	var q Quarantine
	now := time.Unix(1e6, 0)
	q.judge(now, crash(1, "x"))
	q.judge(now.Add(time.Second), crash(2, "y"))
	if full, oldest, found := q.Full(limits); !full || !found || oldest.Entity != entity("x") {
		t.Errorf("full %t, the oldest suspect is %v, %t", full, oldest.Entity, found)
	}
	before := q.Clone()
	for _, id := range []string{"x", "y"} {
		q.Apply(fact.Quarantine{Entity: entity(id), State: fact.Quarantined})
	}
	if full, _, found := q.Full(limits); !full || found {
		t.Errorf("full %t, a suspect is there: %t", full, found)
	}
	if list := q.Outdated(now.Add(time.Hour), limits); len(list) > 0 {
		t.Errorf("quarantined entities are released: %+v", list)
	}
	if list := before.Outdated(now.Add(limits.Window+time.Second), limits); len(list) != 1 || list[0].Entity != entity("x") || list[0].State != fact.Released {
		t.Errorf("outdated in a copy are %+v", list)
	}
	if q.Apply(fact.Quarantine{Entity: entity("z")}) {
		t.Error("releasing an entity that is neither suspected nor quarantined changes something")
	}
}

// TestReports: the first report about a process is kept, and the oldest one is forgotten.
func TestReports(t *testing.T) {
	var q Quarantine
	if !q.Keep(crash(1, "x")) || q.Keep(crash(1, "y")) || q.Report(1).Ran[0] != entity("x") {
		t.Errorf("kept is %+v", q.Report(1))
	}
	for i := range maxReports {
		q.Keep(crash(sharding.NodeUID(i+2), "x"))
	}
	if q.Report(1) != nil || len(q.Reports()) != maxReports {
		t.Errorf("%d reports are kept", len(q.Reports()))
	}
}
