package server

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
	"github.com/roost-cluster/roost/services/region"
)

// TestObserveEntity: a region describes an entity: the turn that hangs, with its own stack on request, and the stored
// data if it is not in memory.
func TestObserveEntity(t *testing.T) {
	withCores(t, func(t *testing.T, cores int) {
		s, g := runDoors(t, cores)
		look := func(id sharding.EntityID, stack bool) *inspectionv1.RegionObservation {
			t.Helper()
			e := sharding.Entity{Type: "Door", ID: id}
			shard, ok := s.shardOf(e)
			if !ok {
				t.Fatal("the type is not hosted")
			}
			out := &inspectionv1.RegionObservation{}
			s.observeEntity(t.Context(), e, shard, stack, out)
			return out
		}
		if o := look("a4", false); !o.Core || o.Shard != "serving" || o.Epoch == 0 || o.Entity != nil || o.Stored != "none" || o.MailboxLimit == 0 || o.CommandsLimit == 0 {
			t.Errorf("nothing is stored of it: %v", o)
		}
		a := &answers{got: map[uint64]link.Answer{}}
		hung := []link.Command{knock(50, "a4", "Pass"), knock(51, "a4", "Knock"), knock(52, "b1", "Pass")}
		for i := range hung {
			hung[i].Envelope.ID = sharding.CommandID(fmt.Sprint(50 + i))
		}
		s.Submit(a, hung)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		o := look("a4", true)
		if e := o.Entity; e == nil || e.Running != "Pass" || e.RunningMs < 1900 || e.Mailbox != 2 || o.Commands == 0 {
			t.Errorf("a turn hangs: %v", o)
		}
		if !strings.Contains(o.Stack, "(*gate).pass") || !strings.HasPrefix(o.Stack, "goroutine ") {
			t.Errorf("its stack is %q", o.Stack)
		}
		if other := look("b1", true); other.Stack == o.Stack || other.Stack == "" {
			t.Errorf("the stack of another one: %q", other.Stack)
		}
		if o := look("a4", false); o.Stack != "" {
			t.Error("no stack was requested")
		}
		close(g.open)
		synctest.Wait()
		for _, l := range s.shards {
			if _, err := inspectCore(t.Context(), s, l, func() bool {
				l.input(region.Quarantine{Type: "Door", List: []sharding.Quarantined{{ID: "c1", Why: "by the test"}, {ID: "c2", Suspect: true, Why: "a crash"}}})
				return true
			}); err != nil {
				t.Fatal(err)
			}
		}
		if o := look("c1", false); o.Quarantined != "by the test" || o.Stored != "" || o.ReadMs != 0 {
			t.Errorf("a quarantined entity, which must not be brought to life: %v", o)
		}
		if o := look("c2", false); o.Quarantined != "" || o.Stored != "none" {
			t.Errorf("a suspect, which runs: %v", o)
		}
	})
}

// TestObserveDamage: a damaged record is reported, and so is a journal that does not answer.
func TestObserveDamage(t *testing.T) {
	drive(t, abaci(&slowCut{}), func(t *testing.T, d *driven) {
		for _, c := range []struct {
			failed error
			want   string
		}{
			{fmt.Errorf("%w: record 1", journal.ErrCorrupt), "damaged"},
			{fmt.Errorf("the connection is gone"), ""},
			{nil, "none"},
		} {
			d.script.mu.Lock()
			d.script.failed = c.failed
			d.script.mu.Unlock()
			e := sharding.Entity{Type: "Tally", ID: "seen"}
			shard, _ := d.shardOf(e)
			out := &inspectionv1.RegionObservation{}
			d.observeEntity(t.Context(), e, shard, false, out)
			if out.Stored != c.want || (c.want == "damaged") != strings.Contains(out.Failure, "record 1") {
				t.Errorf("after %v: %v", c.failed, out)
			}
			synctest.Wait()
		}
	})
}
