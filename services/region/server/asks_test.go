package server

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
)

// A chime is struck, after the chimes of a list have chimed one after the other, because each asks
// the next one.
type (
	chime  struct{ Struck int }
	chimed struct{}
	strike struct {
		Next []string `json:"next,omitempty"`
	}
)

func (b *chime) Strike(ctx *entity.Ctx, in strike) (int, error) {
	if len(in.Next) > 0 {
		if _, err := strikeChime.Ask(ctx, in.Next[0], strike{in.Next[1:]}); err != nil {
			return 0, err
		}
	}
	ctx.Persist(chimed{})
	return b.Struck, nil
}

var strikeChime = entity.Command[strike, int]("Chime", "Strike")

func chimes() entity.Definition {
	return entity.Define("Chime", func(string) *chime { return &chime{} }, entity.On(strikeChime, (*chime).Strike),
		entity.Event("chimed", func(b *chime, _ chimed) { b.Struck++ }),
		entity.With[chime](entity.Shards(4)),
	)
}

// runChimes runs a runner of chimes that ask each other through route.
func runChimes(t *testing.T, cores int, route func(sharding.Envelope, bool, origin, func(sharding.Reply))) *Runner {
	s := runTypes(t, RunnerConfig{
		Log: slog.New(slog.DiscardHandler), Core: coreWith(func(c *region.Config) { c.ShardCores = cores }),
	}, chimes())
	s.route = route
	if route == nil {
		s.route = (&here{runner: s, done: map[uint64]func(sharding.Reply){}}).route
	}
	return s
}

// here routes commands to the runner itself.
type here struct {
	runner *Runner
	mu     sync.Mutex
	last   uint64
	done   map[uint64]func(sharding.Reply)
}

func (h *here) route(env sharding.Envelope, _ bool, _ origin, done func(sharding.Reply)) {
	h.mu.Lock()
	h.last++
	n := h.last
	h.done[n] = done
	h.mu.Unlock()
	go h.runner.Submit(h, []link.Command{{Number: n, Epoch: sharding.MakeEpoch(1, shardingtest.ShardOf(env.Entity.ID, 4)+1), Envelope: env}})
}

func (h *here) SendBatch(as []link.Answer) error {
	for _, a := range as {
		h.mu.Lock()
		done := h.done[a.Number]
		delete(h.done, a.Number)
		h.mu.Unlock()
		done(a.Reply)
	}
	return nil
}

func (*here) Unsent() int { return 0 }
func (*here) Ended() bool { return false }
func (*here) Waiting()    {}

// striking is the command that rings a chime after others.
func striking(number uint64, id string, next ...string) link.Command {
	payload, _ := json.Marshal(strike{next})
	return link.Command{
		Number: number, Epoch: sharding.MakeEpoch(1, shardingtest.ShardOf(sharding.EntityID(id), 4)+1),
		Envelope: sharding.Envelope{
			Entity: sharding.Entity{Type: "Chime", ID: sharding.EntityID(id)}, Command: "Strike", Payload: payload,
			ID: sharding.CommandID(fmt.Sprintf("k%d", number)), Keyed: true, Deadline: time.Now().Add(10 * time.Second),
		},
	}
}

func TestEntitiesAskEachOther(t *testing.T) {
	withCores(t, func(t *testing.T, cores int) {
		s := runChimes(t, cores, nil)
		a := &answers{got: map[uint64]link.Answer{}}
		s.Submit(a, []link.Command{striking(1, "a", "b", "c", "d")})
		synctest.Wait()
		a.want(t, 1)

		// Many at a time that all need the same one.
		var cmds []link.Command
		var numbers []uint64
		for i := range uint64(200) {
			cmds, numbers = append(cmds, striking(100+i, fmt.Sprint("x", i), "hub")), append(numbers, 100+i)
		}
		s.Serve(a, cmds, func() {})
		time.Sleep(time.Second)
		synctest.Wait()
		a.want(t, numbers...)

		// It rings once more than they asked.
		s.Submit(a, []link.Command{striking(2, "hub")})
		synctest.Wait()
		if r := a.got[2].Reply; string(r.Payload) != "201" {
			t.Errorf("%+v", r)
		}
		delete(a.got, 2)

		// No entity asks one that waits for it.
		s.Submit(a, []link.Command{striking(3, "a", "b", "a")})
		synctest.Wait()
		if r := a.got[3].Reply; r.Outcome != sharding.Executed || r.Code != sharding.FailedPrecondition {
			t.Errorf("%+v", r)
		}
	})
}

// TestNobodyAnswers: a turn that waits in vain ends in time, and when its shard goes.
func TestNobodyAnswers(t *testing.T) {
	withCores(t, func(t *testing.T, cores int) {
		began := time.Now()
		s := runChimes(t, cores, func(sharding.Envelope, bool, origin, func(sharding.Reply)) {})
		a := &answers{got: map[uint64]link.Answer{}}
		s.Submit(a, []link.Command{striking(1, "a", "b")})
		for range 100 {
			if time.Sleep(100 * time.Millisecond); a.count() > 0 {
				break
			}
		}
		if r := a.got[1].Reply; r.Outcome != sharding.Unknown || r.Code != sharding.DeadlineExceeded || time.Since(began) > 9*time.Second {
			t.Errorf("after %v: %+v", time.Since(began), r)
		}
		delete(a.got, 1)

		s.Submit(a, []link.Command{striking(2, "a", "b")})
		synctest.Wait()
		id := shardingtest.ShardOf("a", 4)
		s.shards[s.coreOf(sharding.Entity{Type: "Chime", ID: "a"})].put(item{in: region.Rows{Rows: []sharding.Row{{
			Shard: sharding.ShardID{Type: "Chime", Index: id}, Epoch: sharding.MakeEpoch(2, 1),
		}}}})
		time.Sleep(time.Second)
		synctest.Wait()
		if r := a.got[2].Reply; r.Outcome != sharding.Unknown || r.Code != sharding.Unavailable {
			t.Errorf("%+v", r)
		}
	})
}
