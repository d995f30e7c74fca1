package server

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region/server/executor"
)

// leaver is an entity whose code fails in one place. Its own snapshots make every place reachable.
type leaver struct {
	id string
	n  int
}

// leavesIn is the place where the code of leavers does what leavesBy says.
var (
	leavesIn string
	leavesBy func() error
)

func leave(place string) error {
	if leavesIn == place {
		return leavesBy()
	}
	return nil
}

// mustLeave is leave where no error can be returned.
func mustLeave(place string) {
	if err := leave(place); err != nil {
		panic(err)
	}
}

type grown struct{}

func (l *leaver) OnStart(*entity.Ctx) error { return leave("OnStart") }

func (l *leaver) OnStop(*entity.Ctx, entity.StopReason) { mustLeave("OnStop") }

func (l *leaver) Size() int { mustLeave("Size"); return 1 }

func (l *leaver) Snapshot() ([]byte, error) { return fmt.Append(nil, l.n), leave("Snapshot") }

func (l *leaver) Restore(b []byte) error {
	if err := leave("Restore"); err != nil {
		return err
	}
	_, err := fmt.Sscan(string(b), &l.n)
	return err
}

// spoken is an input and a reply with methods of its own.
type spoken struct{}

func (spoken) MarshalJSON() ([]byte, error)  { return []byte("{}"), leave("MarshalJSON") }
func (*spoken) UnmarshalJSON(b []byte) error { return leave("UnmarshalJSON") }

func leavers() entity.Definition {
	create := func(id string) *leaver { mustLeave("create"); return &leaver{id: id} }
	return entity.Define("Door", create,
		entity.On(entity.Command[struct{}, int]("Door", "Knock"), func(l *leaver, ctx *entity.Ctx, _ struct{}) (int, error) {
			if err := leave("handler"); err != nil {
				return 0, err
			}
			ctx.Persist(grown{})
			return l.n, nil
		}),
		entity.On(entity.Command[struct{}, int]("Door", "Look", entity.ReadOnly()), func(l *leaver, _ *entity.Ctx, _ struct{}) (int, error) {
			return l.n, leave("read-only handler")
		}),
		entity.On(entity.Command[spoken, spoken]("Door", "Speak"), func(*leaver, *entity.Ctx, spoken) (spoken, error) { return spoken{}, nil }),
		entity.On(entity.Command[struct{}, int]("Door", "Rest"), func(_ *leaver, ctx *entity.Ctx, _ struct{}) (int, error) {
			ctx.Passivate()
			return 0, nil
		}),
		entity.Event("grown", func(l *leaver, _ grown) { mustLeave("reducer"); l.n++ }),
		entity.With[leaver](entity.SnapshotEvery(1), entity.PassivateAfter(0), entity.Shards(4)))
}

// TestGoexit: runtime.Goexit is the third way out of a function. Wherever the code of an entity takes it, the command is
// answered, and the region serves this entity and others afterwards.
func TestGoexit(t *testing.T) {
	testLeaving(t, func() error { runtime.Goexit(); return nil })
}

// evilError is an error whose Error method does what an author may do by mistake.
type evilError struct{ does func() }

func (e *evilError) Error() string { e.does(); return "evil" }

// evils returns such errors: with a nil pointer, which Error panics about; with a panic that package fmt does not
// survive; and with one that ends the goroutine.
func evils() map[string]error {
	again := &evilError{}
	again.does = func() { panic(again) }
	return map[string]error{"a nil pointer": (*evilError)(nil), "a panic": again, "Goexit": &evilError{runtime.Goexit}}
}

// TestEvilErrors: an error without a text fails its turn and no more, wherever the code of an entity returns it or
// panics with it.
func TestEvilErrors(t *testing.T) {
	for name, err := range evils() {
		t.Run("return "+name, func(t *testing.T) { testLeaving(t, func() error { return err }) })
		t.Run("panic with "+name, func(t *testing.T) { testLeaving(t, func() error { panic(err) }) })
	}
}

// askingLog returns a log that asks every error for its text, as the log of a process does, and recovers nothing.
func askingLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if err, ok := a.Value.Any().(error); ok {
			_ = err.Error()
		}
		return a
	}}))
}

// testLeaving has the code of an entity leave in each place, and wants the command answered, and entities served
// afterwards.
func testLeaving(t *testing.T, by func() error) {
	was := slog.Default()
	slog.SetDefault(askingLog())
	defer slog.SetDefault(was)
	leavesBy = by
	for place, commands := range map[string][]string{
		"create": {"Knock"}, "handler": {"Knock"}, "read-only handler": {"Look"}, "reducer": {"Knock"}, "MarshalJSON": {"Speak"},
		"UnmarshalJSON": {"Speak"}, "Size": {"Knock"}, "Snapshot": {"Knock"}, "OnStart": {"Rest", "Look"}, "OnStop": {"Rest", "Look"},
		"Restore": {"Rest", "Look"}, "reducer, replayed": {"Rest", "Look"}, "a tell": {"Speak"},
	} {
		for _, inline := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, inline %t", place, inline), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					leavesIn = ""
					s := runTypes(t, RunnerConfig{Log: askingLog(), Failures: 1000}, leavers())
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
						if x, ok := send(c)[c.Number]; !ok || x.Reply.Outcome != sharding.Executed {
							t.Errorf("afterwards, %s: %t, %+v", id, ok, x.Reply)
						}
					}
				})
			})
		}
	}
}

// TestEvilErrorsUnwatched: an error without a text fails the command of a timer, of a reminder, and of an answer to a
// send. The latter two are tried again, and an operator sees a text.
func TestEvilErrorsUnwatched(t *testing.T) {
	for name, evil := range evils() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failed, ran := map[string]bool{}, map[string]int{} // guarded by the bubble: one shard core
				once := func(what string) error {
					if ran[what]++; !failed[what] {
						failed[what] = true
						return evil
					}
					return nil
				}
				ring := entity.Command[string, int]("Clerk", "Ring", entity.Stored())
				took := entity.Command[entity.Answer[int], int]("Clerk", "Took")
				do := clerksAt(t, entity.Define("Clerk", func(string) *clerk { return &clerk{} },
					entity.On(entity.Command[string, int]("Clerk", "Begin"), func(c *clerk, ctx *entity.Ctx, to string) (int, error) {
						if to == "" { // another entity: a timer dies with a life that has failed
							ring.After(ctx, time.Second, "timer", "timer")
							return 0, nil
						}
						ring.RemindAfter(ctx, time.Second, "reminder", "reminder")
						ring.Send(ctx, to, "send", entity.ReplyTo[int](took))
						return 0, nil
					}),
					entity.On(ring, func(_ *clerk, _ *entity.Ctx, what string) (int, error) { return 0, once(what) }),
					entity.On(took, func(*clerk, *entity.Ctx, entity.Answer[int]) (int, error) { return 0, once("answer") }),
					entity.With[clerk](entity.Shards(4))))
				if got := do("ann", "Begin", `"bob"`); got != "0" {
					t.Error(got)
				}
				if got := do("cat", "Begin", `""`); got != "0" {
					t.Error(got)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if want := map[string]int{"timer": 1, "reminder": 2, "send": 2, "answer": 2}; !maps.Equal(ran, want) {
					t.Errorf("ran %v, want %v", ran, want)
				}
			})
		})
	}
}

// TestTurnsThatDoNotBegin: the liveness of a shard core notices that no worker runs the turns that the core wants to
// run, though the core itself steps.
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
			t.Error("it is not noticed that no turn begins")
		}
		l.pool.End()
		l.pool = sound
	})
}
