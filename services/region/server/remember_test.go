package server

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
)

// rememberTrouble makes the start hook of sensors fail, and rememberStarts counts its runs.
// Tests of this file do not run in parallel.
var (
	rememberTrouble atomic.Bool
	rememberStarts  atomic.Int64
)

type sensor struct{ Read int }

type sensed struct{ N int }

func (s *sensor) OnStart(*entity.Ctx) error {
	rememberStarts.Add(1)
	if rememberTrouble.Load() {
		return errors.New("no luck")
	}
	return nil
}

var (
	sensorSense  = entity.Command[int, int]("Tally", "Sense")
	sensorForget = entity.Command[int, int]("Tally", "Forget")
)

func (s *sensor) sense(ctx *entity.Ctx, n int) (int, error) {
	ctx.Persist(sensed{n})
	return s.Read, nil
}

func (s *sensor) forget(ctx *entity.Ctx, _ int) (int, error) { ctx.Forget(); return 0, nil }

func sensors() entity.Definition {
	return entity.Define("Tally", func(string) *sensor { return &sensor{} },
		entity.On(sensorSense, (*sensor).sense), entity.On(sensorForget, (*sensor).forget),
		entity.Event("sensed", func(s *sensor, event sensed) { s.Read += event.N }),
		entity.With[sensor](entity.Shards(1), entity.PassivateAfter(time.Minute), entity.Remember()),
	)
}

// move hands the shard off and takes it back, at another epoch.
func (d *driven) move(times int) {
	d.t.Helper()
	d.Put(region.Received{From: "c:1", Msg: control.HandOff{Term: 1, Shard: drivenShard, Epoch: drivenEpoch + sharding.Epoch(times-1)}})
	time.Sleep(time.Second)
	d.Put(region.Received{From: "c:1", Msg: control.HostShard{Term: 1, Shard: drivenShard, Epoch: drivenEpoch + sharding.Epoch(times)}})
	time.Sleep(time.Second)
	synctest.Wait()
}

func (d *driven) now() counts {
	d.t.Helper()
	c, err := d.counts(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	return c
}

// TestRememberedIsStarted: after a move the entity is alive without a command, and if it cannot
// be started, it is tried again.
func TestRememberedIsStarted(t *testing.T) {
	drive(t, sensors(), func(t *testing.T, d *driven) {
		rememberStarts.Store(0)
		d.answer(d.send("Sense", "1"))
		time.Sleep(2 * time.Minute) // it is passivated: it stays so, and is remembered
		if c := d.now(); c.st.Entities != 0 || rememberStarts.Load() != 1 {
			t.Fatalf("%d entities, %d starts", c.st.Entities, rememberStarts.Load())
		}
		d.move(1)
		if c := d.now(); c.st.Entities != 1 || c.starts.Started != 1 || rememberStarts.Load() != 2 {
			t.Fatalf("after a move: %+v, %d starts", c.starts, rememberStarts.Load())
		}
		rememberTrouble.Store(true)
		defer rememberTrouble.Store(false)
		d.move(2)
		if c := d.now(); c.st.Entities != 0 || c.starts.Failing != 1 {
			t.Fatalf("it cannot be started: %+v", c.starts)
		}
		out := &inspectionv1.RegionObservation{}
		d.observeEntity(t.Context(), drivenEntity, drivenShard, false, out)
		if out.Stored != "failed" || !strings.Contains(out.Failure, "no luck") {
			t.Errorf("explain does not know why it cannot be started: %v", out)
		}
		time.Sleep(7 * time.Second)
		rememberTrouble.Store(false)
		if n := rememberStarts.Load(); n != 3 {
			t.Fatalf("%d starts, the third one failed", n)
		}
		time.Sleep(4 * time.Second)
		if c := d.now(); c.st.Entities != 1 || c.starts.Failing != 0 {
			t.Errorf("after the back-off: %+v", c.starts)
		}
	})
}

// TestForgottenIsNotStarted: what does not want to be remembered is not started.
func TestForgottenIsNotStarted(t *testing.T) {
	drive(t, sensors(), func(t *testing.T, d *driven) {
		rememberStarts.Store(0)
		d.answer(d.send("Sense", "1"))
		d.answer(d.send("Forget", "1"))
		d.move(1)
		if c := d.now(); c.st.Entities != 0 || rememberStarts.Load() != 1 {
			t.Errorf("%d entities are alive, %d starts", c.st.Entities, rememberStarts.Load())
		}
	})
}
