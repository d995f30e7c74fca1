package server

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region/server/executor"
)

// leaver is an entity whose code ends its goroutine in one place. Its own snapshots make every place reachable.
type leaver struct {
	id string
	n  int
}

// leavesIn is the place where the code of leavers ends its goroutine.
var leavesIn string

func leave(place string) {
	if leavesIn == place {
		runtime.Goexit()
	}
}

type grown struct{}

func (l *leaver) OnStart(*entity.Ctx) error { leave("OnStart"); return nil }

func (l *leaver) OnStop(*entity.Ctx, entity.StopReason) { leave("OnStop") }

func (l *leaver) Size() int { leave("Size"); return 1 }

func (l *leaver) Snapshot() ([]byte, error) { leave("Snapshot"); return fmt.Append(nil, l.n), nil }

func (l *leaver) Restore(b []byte) error {
	leave("Restore")
	_, err := fmt.Sscan(string(b), &l.n)
	return err
}

// spoken is an input and a reply with methods of its own.
type spoken struct{}

func (spoken) MarshalJSON() ([]byte, error)  { leave("MarshalJSON"); return []byte("{}"), nil }
func (*spoken) UnmarshalJSON(b []byte) error { leave("UnmarshalJSON"); return nil }

func leavers() entity.Definition {
	create := func(id string) *leaver { leave("create"); return &leaver{id: id} }
	return entity.Define("Door", create,
		entity.On(entity.Command[struct{}, int]("Door", "Knock"), func(l *leaver, ctx *entity.Ctx, _ struct{}) (int, error) {
			leave("handler")
			ctx.Persist(grown{})
			return l.n, nil
		}),
		entity.On(entity.Command[struct{}, int]("Door", "Look", entity.ReadOnly()), func(l *leaver, _ *entity.Ctx, _ struct{}) (int, error) {
			leave("read-only handler")
			return l.n, nil
		}),
		entity.On(entity.Command[spoken, spoken]("Door", "Speak"), func(*leaver, *entity.Ctx, spoken) (spoken, error) { return spoken{}, nil }),
		entity.On(entity.Command[struct{}, int]("Door", "Rest"), func(_ *leaver, ctx *entity.Ctx, _ struct{}) (int, error) {
			ctx.Passivate()
			return 0, nil
		}),
		entity.Event("grown", func(l *leaver, _ grown) { leave("reducer"); l.n++ }),
		entity.With[leaver](entity.SnapshotEvery(1), entity.PassivateAfter(0), entity.Shards(4)))
}

// TestGoexit: runtime.Goexit is the third way out of a function. Wherever the code of an entity takes it, the command is
// answered, and the region serves this entity and others afterwards.
func TestGoexit(t *testing.T) {
	for place, commands := range map[string][]string{
		"create": {"Knock"}, "handler": {"Knock"}, "read-only handler": {"Look"}, "reducer": {"Knock"}, "MarshalJSON": {"Speak"},
		"UnmarshalJSON": {"Speak"}, "Size": {"Knock"}, "Snapshot": {"Knock"}, "OnStart": {"Rest", "Look"}, "OnStop": {"Rest", "Look"},
		"Restore": {"Rest", "Look"}, "reducer, replayed": {"Rest", "Look"}, "a tell": {"Speak"},
	} {
		for _, inline := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, inline %t", place, inline), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					leavesIn = ""
					s := runTypes(t, RunnerConfig{Log: slog.New(slog.DiscardHandler)}, leavers())
					a := &answers{got: map[uint64]link.Answer{}}
					number := uint64(0)
					send := func(cmds ...link.Command) map[uint64]link.Answer {
						clear(a.got)
						yielded := make(chan struct{}, 1)
						over := make(chan struct{})
						go func() {
							defer close(over)
							if inline {
								s.Serve(a, cmds, func() { yielded <- struct{}{} })
							} else {
								s.Submit(a, cmds)
							}
						}()
						soon(t, over)
						synctest.Wait()
						return a.got
					}
					command := func(id sharding.EntityID, name string) link.Command {
						number++
						c := knock(number, id, name)
						c.Envelope.ID = sharding.CommandID(fmt.Sprint(number))
						return c
					}
					send(command("a", "Knock"))
					send(command("b", "Knock"))
					leavesIn = strings.TrimSuffix(place, ", replayed")
					tell := place == "a tell"
					if tell {
						leavesIn = "UnmarshalJSON"
					}
					id := sharding.EntityID("a")
					if place == "create" {
						id = "new"
					}
					for _, name := range commands {
						c := command(id, name)
						c.Envelope.Tell = tell
						got := send(c, command("b", "Look"), command("c", "Rest"))
						if _, ok := got[c.Number]; !ok {
							t.Errorf("%s is not answered", name)
						}
					}
					leavesIn = ""
					for _, id := range []sharding.EntityID{"a", "b", "new"} {
						c := command(id, "Knock")
						if x, ok := send(c)[c.Number]; !ok || x.Reply.Outcome != sharding.OK {
							t.Errorf("afterwards, %s: %t, %+v", id, ok, x.Reply)
						}
					}
				})
			})
		}
	}
}

// TestTurnsThatDoNotBegin: the liveness of a shard core sees that nobody runs the turns that the core wants to run,
// though the core itself is stepped.
func TestTurnsThatDoNotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := runDoors(t, 1)
		l := s.shards[0]
		begun := func() bool {
			turns, loop := make(chan struct{}), make(chan struct{})
			l.afterTurns(func() { close(turns) })
			l.put(item{do: func() { close(loop) }})
			soon(t, loop)
			synctest.Wait()
			select {
			case <-turns:
				return true
			default:
				return false
			}
		}
		if !begun() {
			t.Error("turns do not begin")
		}
		sound := l.pool
		l.pool = executor.New(func(w *worker) { // its goroutines do nothing but step the core
			l.step(w)
			<-s.ctx.Done()
			for w.Next(nil) != nil {
			}
			w.Finish()
		}, l.handIn, l.yieldInline, s.ctx.Done())
		for range executor.MaxIdle {
			if !begun() {
				break
			}
		}
		if begun() {
			t.Error("nobody sees that no turn begins")
		}
		l.pool.End()
		l.pool = sound
	})
}
