package entitytest_test

import (
	"context"
	"testing"
	"time"

	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/sdk/entitytest"
)

type room struct {
	People int
	Ticks  int
	Moves  int
}

func (r *room) enter(*entity.Ctx, int) (int, error) { r.People++; return r.People, nil }

func (r *room) wait(ctx *entity.Ctx, seconds int) (int, error) {
	roomTick.After(ctx, time.Duration(seconds)*time.Second, "tick", 1)
	return 0, nil
}

func (r *room) tick(_ *entity.Ctx, n int) (int, error) { r.Ticks += n; return r.Ticks, nil }

func (r *room) get(*entity.Ctx, int) (room, error) { return *r, nil }

func (r *room) OnStop(_ *entity.Ctx, why entity.StopReason) {
	if why == entity.HandedOff {
		r.Moves++
	}
}

// laterRoom is a version with other fields.
type laterRoom struct{ Guests int }

func (r *laterRoom) enter(*entity.Ctx, int) (int, error) { r.Guests++; return r.Guests, nil }

var (
	roomEnter = entity.Command[int, int]("Room", "Enter")
	roomWait  = entity.Command[int, int]("Room", "Wait")
	roomTick  = entity.Command[int, int]("Room", "Tick")
	roomGet   = entity.Command[int, room]("Room", "Get", entity.ReadOnly())
)

func rooms(options ...entity.TypeOption) entity.Type[room] {
	return entity.Define("Room", func(string) *room { return &room{} },
		entity.On(roomEnter, (*room).enter), entity.On(roomWait, (*room).wait),
		entity.On(roomTick, (*room).tick), entity.On(roomGet, (*room).get),
		entity.With[room](entity.Volatile(), entity.Shards(4)), entity.With[room](options...),
	)
}

// TestMove: what a volatile type keeps, and what it does not.
func TestMove(t *testing.T) {
	ctx := context.Background()
	for _, keeps := range []bool{true, false} {
		typ, want := rooms(), room{}
		if keeps {
			typ, want = rooms(entity.KeepOnMoves()), room{People: 2, Ticks: 1, Moves: 2}
		}
		k := entitytest.New(t, typ)
		for range 2 {
			if _, err := roomEnter.Call(ctx, k, "a", 0); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := roomWait.Call(ctx, k, "a", 10); err != nil {
			t.Fatal(err)
		}
		k.Advance(6 * time.Second)
		k.Move()
		k.Advance(3 * time.Second)
		if k.Entity(rooms(), "a").Active() {
			t.Error("alive before its timer is due")
		}
		k.Advance(2 * time.Second)
		k.Move()
		if got, err := roomGet.Call(ctx, k, "a", 0); err != nil || got != want {
			t.Errorf("keeps %t: %+v, %v; want %+v", keeps, got, err, want)
		}
		k.Restart() // a crash
		if got, err := roomGet.Call(ctx, k, "a", 0); err != nil || got != (room{}) {
			t.Errorf("after a crash: %+v, %v", got, err)
		}
	}
}

// TestMoveToOtherVersion: a version that cannot read the state begins empty; one with a step
// continues.
func TestMoveToOtherVersion(t *testing.T) {
	ctx := context.Background()
	later := func(steps ...entity.Step) entity.Type[laterRoom] {
		return entity.Define("Room", func(string) *laterRoom { return &laterRoom{} },
			entity.On(roomEnter, (*laterRoom).enter),
			entity.With[laterRoom](entity.Volatile(), entity.KeepOnMoves(), entity.Shards(4), entity.SnapshotV(1+len(steps), steps...)),
		)
	}
	step := entity.FromSnapshot(1, func(old room, r *laterRoom) { r.Guests = old.People })
	for want, typ := range map[int]entity.Definition{1: later(), 3: later(step)} {
		k := entitytest.New(t, rooms(entity.KeepOnMoves()))
		for range 2 {
			if _, err := roomEnter.Call(ctx, k, "a", 0); err != nil {
				t.Fatal(err)
			}
		}
		k.Move(typ)
		if got, err := roomEnter.Call(ctx, k, "a", 0); err != nil || got != want {
			t.Errorf("%d guests, %v; want %d", got, err, want)
		}
	}
}
