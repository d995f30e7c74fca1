package server

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/replies"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
)

// TestToldText: the log says whose command has failed. An answer's input is not a reminder's.
func TestToldText(t *testing.T) {
	wake := func(k sharding.WakeKind) sharding.WakeRef { return sharding.WakeRef{Kind: k, Name: "n"} }
	for _, c := range []struct {
		done       turn.UnwatchedDone
		want, then string
	}{
		{turn.UnwatchedDone{}, "tell", "failed"},
		{turn.UnwatchedDone{Timer: true}, "timer", "failed"},
		{turn.UnwatchedDone{Wakeup: wake(sharding.ReminderWake), Again: true}, "reminder", "again"},
		{turn.UnwatchedDone{Wakeup: wake(sharding.ReminderWake)}, "reminder", "refused"},
		{turn.UnwatchedDone{Wakeup: wake(sharding.SendWake), Again: true}, "answer to a send", "again"},
		{turn.UnwatchedDone{Wakeup: wake(sharding.SendWake)}, "answer to a send", "refused"},
	} {
		if got := unwatchedDoneText(&c.done); !strings.Contains(got, c.want) || !strings.Contains(got, c.then) {
			t.Errorf("%+v: %q", c.done, got)
		}
	}
}

// weight is an input that counts how often it is decoded.
type weight struct{ kg int }

var weighed atomic.Int32

func (w *weight) UnmarshalJSON(b []byte) error {
	weighed.Add(1)
	return json.Unmarshal(b, &w.kg)
}

// hatch has a start hook, so its first command waits for its load.
type hatch struct{}

func (*hatch) OnStart(*entity.Ctx) error { return nil }

// TestTellIsDecodedOnce: a tell whose turn begins at once is decoded once. One that waits for another turn is decoded
// again, and each has its own input.
func TestTellIsDecodedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{}), waiting: make(chan struct{}, 100)}
		loads := make(chan int, 100)
		s := runTypes(t, RunnerConfig{Log: slog.New(slog.DiscardHandler)}, entity.Define("Door", func(string) *door { return &door{} },
			entity.On(entity.Command[weight, int]("Door", "Load"), func(_ *door, _ *entity.Ctx, w weight) (int, error) {
				loads <- w.kg
				return 0, nil
			}),
			entity.On(entity.Command[struct{}, int]("Door", "Pass"), func(*door, *entity.Ctx, struct{}) (int, error) {
				g.pass()
				return 0, nil
			}),
			entity.With[door](entity.Volatile(), entity.Shards(4)),
		), entity.Define("Hatch", func(string) *hatch { return &hatch{} },
			entity.On(entity.Command[weight, int]("Hatch", "Load"), func(_ *hatch, _ *entity.Ctx, w weight) (int, error) {
				loads <- w.kg
				return 0, nil
			}),
			entity.With[hatch](entity.Volatile(), entity.Shards(4)),
		))
		a := &answers{got: map[uint64]link.Answer{}}
		command := func(n uint64, name, payload string) link.Command {
			c := knock(n, "a", name)
			c.Envelope.ID, c.Envelope.Payload, c.Envelope.Tell = sharding.CommandID(fmt.Sprint(n)), []byte(payload), name == "Load"
			return c
		}
		decoded := func(want int32, of string) {
			t.Helper()
			if n := weighed.Swap(0); n != want {
				t.Errorf("%s was decoded %d times, want %d", of, n, want)
			}
		}
		weighed.Store(0)
		first := command(1, "Load", "1")
		first.Envelope.Entity.Type = "Hatch"
		s.Submit(a, []link.Command{first})
		synctest.Wait()
		decoded(2, "a tell that waits for the load of its entity")
		s.Submit(a, []link.Command{command(7, "Load", "7")})
		synctest.Wait()
		decoded(1, "a tell whose turn makes its entity")
		s.Submit(a, []link.Command{command(2, "Load", "2")})
		synctest.Wait()
		decoded(1, "a tell of an idle entity")
		s.Submit(a, []link.Command{command(6, "Load", "6"+strings.Repeat(" ", maxKeptInput))})
		synctest.Wait()
		decoded(2, "a tell whose value may be large")
		s.Submit(a, []link.Command{command(3, "Pass", "{}"), command(4, "Load", "4"), command(5, "Load", "5")})
		soon(t, g.waiting)
		synctest.Wait()
		decoded(2, "two waiting tells")
		close(g.open)
		synctest.Wait()
		decoded(2, "two tells that waited")
		a.want(t, 1, 2, 3, 4, 5, 6, 7)
		for _, want := range []int{1, 7, 2, 6, 4, 5} {
			if kg := <-loads; kg != want {
				t.Errorf("got the input %d, want %d", kg, want)
			}
		}
	})
}

// TestDecodedInputs: a decoded input is kept only while few inputs wait, and no other command gets it.
func TestDecodedInputs(t *testing.T) {
	door := entity.Define("Door", func(string) *door { return &door{} },
		entity.On(entity.Command[int, int]("Door", "Load"), func(*door, *entity.Ctx, int) (int, error) { return 0, nil }),
		entity.With[door](entity.Volatile(), entity.Shards(4)),
	)
	cmd := knock(1, "a", "Load")
	cmd.Envelope.Payload = []byte("1")
	in, refused := instance.CheckInput(door, &cmd.Envelope, nil)
	if refused != nil || in == (instance.Decoded{}) {
		t.Fatal(in, refused)
	}
	b := oneInbox(2 * maxKeptInputs)
	b.estimates = map[sharding.EntityType]map[string]*replies.SizeEstimate{"Door": {"Load": {}}}
	for range maxKeptInputs + 1 {
		b.arrive(&endingSink{}, []link.Command{cmd}, nil, []instance.Decoded{in}, func(cores) {})
	}
	all := b.next[0].arrivals
	if kept := all[maxKeptInputs-1].input; kept != in {
		t.Errorf("of the last that is kept, %v is", kept)
	}
	if kept := all[maxKeptInputs].input; kept != (instance.Decoded{}) {
		t.Errorf("behind %d others, %v is kept", maxKeptInputs, kept)
	}
	full := &endingSink{unsent: int(replies.DefaultConfig().Connection)}
	b.next[0] = batch{}
	b.arrive(full, []link.Command{cmd}, nil, []instance.Decoded{in}, func(cores) {})
	full.unsent = 0
	b.refresh()
	if waited := b.next[0].arrivals; len(waited) != 1 || waited[0].input != (instance.Decoded{}) {
		t.Errorf("of a command that has waited for room, %+v is kept", waited)
	}

	s := &shardLoop{taking: &all[0]}
	other := cmd.Envelope
	other.Payload = []byte("1")
	if s.decoded(&cmd.Envelope) != in || s.decoded(&other) != (instance.Decoded{}) {
		t.Errorf("the command has %v, another one %v", s.decoded(&cmd.Envelope), s.decoded(&other))
	}
}
