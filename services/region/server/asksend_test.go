package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
)

// A herald asks a question that is never answered.

type calling struct {
	ReadOnly bool          `json:"read_only"`
	Patience time.Duration `json:"patience"` // of the handler itself; 0: it has time
	Held     bool          `json:"held"`     // until the test lets it ask
}

var (
	heralded   = entity.Command[calling, int]("Herald", "Call")
	heraldLook = entity.Command[calling, int]("Herald", "Look", entity.ReadOnly())
)

// heralds ask, and tell how that has ended.
func heralds(told chan<- error, held <-chan struct{}) entity.Definition {
	call := func(_ *struct{}, ctx *entity.Ctx, in calling) (int, error) {
		own, cancel := context.Context(ctx), func() {}
		if in.Patience != 0 {
			own, cancel = context.WithTimeout(ctx, in.Patience)
		}
		defer cancel()
		if in.Held {
			<-held
		}
		ask := heralded
		if in.ReadOnly {
			ask = heraldLook
		}
		_, err := ask.Ask(ctx, "far away", calling{}, entity.Until(own))
		told <- err
		return 0, nil
	}
	return entity.Define("Herald", func(string) *struct{} { return &struct{}{} }, entity.On(heralded, call), entity.On(heraldLook, call), entity.With[struct{}](entity.Volatile(), entity.Shards(4)))
}

// TestAskAlwaysEnds: whatever ends the turn, the shard or the region, a turn that asks continues,
// and the core reports whether its command may have run.
func TestAskAlwaysEnds(t *testing.T) {
	for name, c := range map[string]struct {
		in      calling
		do      func(s *Runner, id sharding.Entity) // while the turn waits
		outcome entity.Outcome
		code    entity.Code
		text    string
	}{
		"its own time is over":            {in: calling{Patience: time.Second}, outcome: entity.Unknown, code: entity.DeadlineExceeded, text: "the time for the answer"},
		"of a read-only command":          {in: calling{Patience: time.Second, ReadOnly: true}, outcome: entity.NotApplied, code: entity.DeadlineExceeded, text: "the time for the answer"},
		"its own time was over before":    {in: calling{Patience: -1}, outcome: entity.Unknown, code: entity.DeadlineExceeded, text: "the time for the answer"},
		"the time of its command is over": {outcome: entity.Unknown, code: entity.DeadlineExceeded, text: "the time for the answer"},
		"the shard moves": {outcome: entity.Unknown, code: entity.Aborted, text: "not wanted", do: func(s *Runner, id sharding.Entity) {
			s.shards[s.coreOf(id)].put(item{in: region.Rows{Rows: []sharding.Row{{
				Shard: sharding.ShardID{Type: id.Type, Index: shardingtest.ShardOf(id.ID, 4)}, Epoch: sharding.MakeEpoch(2, 1),
			}}}})
		}},
		"the region ends": {outcome: entity.Unknown, code: entity.Aborted, text: "does not wait", do: func(s *Runner, _ sharding.Entity) { s.End() }},
		"the region has ended": {in: calling{Held: true}, outcome: entity.NotApplied, code: entity.Aborted, text: "not sent: the region has ended",
			do: func(s *Runner, _ sharding.Entity) { s.End() }},
	} { // order-free
		t.Run(name, func(t *testing.T) {
			withCores(t, func(t *testing.T, cores int) {
				told, held := make(chan error, 1), make(chan struct{})
				s := runTypes(t, RunnerConfig{Core: coreWith(func(c *region.Config) { c.ShardCores = cores })}, heralds(told, held))
				s.route = func(sharding.Envelope, bool, origin, func(sharding.Reply)) {}
				payload, err := json.Marshal(c.in)
				if err != nil {
					t.Fatal(err)
				}
				id := sharding.Entity{Type: "Herald", ID: "a"}
				s.Submit(&answers{got: map[uint64]link.Answer{}}, []link.Command{{
					Number: 1, Epoch: sharding.MakeEpoch(1, shardingtest.ShardOf(id.ID, 4)+1),
					Envelope: sharding.Envelope{Entity: id, Command: "Call", Payload: payload, ID: "k", Keyed: true, Deadline: time.Now().Add(10 * time.Second)},
				}})
				synctest.Wait()
				if c.do != nil {
					c.do(s, id)
					synctest.Wait()
				}
				close(held)
				select {
				case err = <-told:
				case <-time.After(time.Minute):
					t.Fatal("the turn waits forever")
				}
				if entity.CodeOf(err) != c.code || entity.OutcomeOf(err) != c.outcome || !strings.Contains(fmt.Sprint(err), c.text) {
					t.Errorf("it was told %v (%v), want %s with the outcome %v and %q", err, entity.OutcomeOf(err), c.code, c.outcome, c.text)
				}
			})
		})
	}
}
