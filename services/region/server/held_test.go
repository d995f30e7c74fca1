package server

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
	"github.com/roost-cluster/roost/sdk/entity"
)

// TestHoldings: a region lists the data of its shards in memory, page by page, and the sums of all.
func TestHoldings(t *testing.T) {
	withCores(t, func(t *testing.T, cores int) {
		s, g := runDoors(t, cores)
		a := &answers{got: map[uint64]link.Answer{}}
		want := map[uint32]uint64{}
		for i := range uint64(20) {
			id := sharding.EntityID(fmt.Sprint("d", i))
			s.Submit(a, []link.Command{knock(i, id, "Knock")})
			want[shardingtest.ShardOf(id, 4)]++
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		for _, limit := range []uint32{0, 1, 3, 9} {
			var listed []uint32
			req := &inspectionv1.ShardsRequest{Limit: limit}
			for range 10 {
				res, err := s.holdings(t.Context(), req)
				if err != nil || len(res.Shards) > int(limit) || len(res.Types) != 1 {
					t.Fatal(res, err)
				}
				if x := res.Types[0]; x.Type != "Door" || x.Shards != 4 || x.Entities != 20 || x.MilliCommands < 5000 || x.MilliCommands > 11_000 {
					t.Errorf("limit %d: the sums are %v", limit, x)
				}
				for _, h := range res.Shards {
					listed = append(listed, h.Index)
					if h.Type != "Door" || h.Phase != "serving" || h.Epoch != 1<<32|uint64(h.Index+1) || h.Entities != want[h.Index] || h.MilliCommands == 0 {
						t.Errorf("listed is %v, want %d entities", h, want[h.Index])
					}
					req.After = &inspectionv1.ShardPosition{Type: h.Type, Index: h.Index}
				}
				if !res.More || limit == 0 {
					break
				}
			}
			if limit > 0 && !slices.Equal(listed, []uint32{0, 1, 2, 3}) {
				t.Errorf("limit %d: %v", limit, listed)
			}
		}
		if res, err := s.holdings(t.Context(), &inspectionv1.ShardsRequest{Type: "Gate", Limit: 9}); err != nil || len(res.Shards)+len(res.Types) > 0 {
			t.Errorf("of another type: %v, %v", res, err)
		}
		s.cfg.InspectBytes = 50
		if res, err := s.holdings(t.Context(), &inspectionv1.ShardsRequest{Limit: 9}); err != nil || len(res.Shards) > 1 || !res.More {
			t.Errorf("with little room: %v, %v", res, err)
		}
		close(g.open)
		synctest.Wait()
	})
}

type countedClock struct{ Rings int }

type clockRung struct{}

var (
	ringClock     = entity.Command[struct{}, struct{}]("Clock", "Ring")
	countedClocks = entity.Define("Clock", func(string) *countedClock { return &countedClock{} }, entity.On(ringClock, func(c *countedClock, ctx *entity.Ctx, _ struct{}) (struct{}, error) {
		for i := range 30 {
			ringClock.Every(ctx, time.Duration(30-i)*time.Minute, fmt.Sprint("timer-\xff", i), struct{}{})
		}
		ctx.Persist(clockRung{})
		return struct{}{}, nil
	}),
		entity.Event("clockRung", func(c *countedClock, _ clockRung) { c.Rings++ }),
		entity.With[countedClock](entity.Shards(4)),
	)
)

// TestEntityInMemory: a region describes one entity in its memory, with the timers that are due first.
func TestEntityInMemory(t *testing.T) {
	withCores(t, func(t *testing.T, cores int) {
		s := runTypes(t, RunnerConfig{Log: slog.New(slog.DiscardHandler)}, countedClocks)
		a := &answers{got: map[uint64]link.Answer{}}
		of := sharding.Entity{Type: "Clock", ID: "c"}
		if res, err := s.entity(t.Context(), of); err != nil || res.Entity != nil {
			t.Errorf("before it is in memory: %v, %v", res, err)
		}
		c := knock(1, "c", "Ring")
		c.Envelope.Entity = of
		s.Submit(a, []link.Command{c})
		synctest.Wait()
		res, err := s.entity(t.Context(), of)
		if err != nil || res.Entity.GetState() != "active" || res.Entity.Record != 1 || len(res.Timers) != inspectTimers || res.UnlistedTimers != 10 {
			t.Fatalf("in memory: %v, %v", res, err)
		}
		if x := res.Timers[0]; x.Name != "timer-\ufffd29" || x.Command != "Ring" || x.DueMs != 60_000 || x.PeriodMs != 60_000 {
			t.Errorf("the first timer is %v", x)
		}

		shard := sharding.ShardID{Type: "Clock", Index: shardingtest.ShardOf("c", 4)}
		state, err := s.state(t.Context(), of, shard)
		if err != nil || string(state.State) != `{"Rings":1}` || !state.Json || state.Record != 1 || state.Bytes != 11 {
			t.Errorf("the state is %v, %v", state, err)
		}
		none, err := s.state(t.Context(), sharding.Entity{Type: "Clock", ID: "none"}, shard)
		if err != nil || string(none.State) != `{"Rings":0}` || none.Record != 0 {
			t.Errorf("the state of an entity that is not stored is %v, %v", none, err)
		}
		if res, err := s.entity(t.Context(), sharding.Entity{Type: "Clock", ID: "none"}); err != nil || res.Entity != nil {
			t.Errorf("looking at a state has brought an entity to life: %v, %v", res, err)
		}
		_, err = s.state(t.Context(), sharding.Entity{Type: "Other", ID: "c"}, shard)
		if e, ok := err.(twirp.Error); !ok || e.Code() != twirp.NotFound {
			t.Errorf("the state of a type that is not here: %v", err)
		}
	})
}

// TestStateIsNotShown: without the setting, no state leaves the region.
func TestStateIsNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runner := runTypes(t, RunnerConfig{Log: slog.New(slog.DiscardHandler)}, countedClocks)
		s := &Server{runner: runner, cfg: &Config{}, name: "region-1", self: sharding.NodeID{UID: 55}}
		s.cfg.ClusterName = "dev"
		i := newInspection(s)
		req := &inspectionv1.StateRequest{Cluster: "dev", To: 55, Type: "Clock", Id: "c"}
		_, err := i.State(t.Context(), req)
		if e, ok := err.(twirp.Error); !ok || e.Code() != twirp.PermissionDenied || !strings.Contains(e.Msg(), "region.show_payloads") {
			t.Errorf("not allowed: %v", err)
		}
		s.cfg.ShowPayloads = true
		if res, err := i.State(t.Context(), req); err != nil || string(res.State) != `{"Rings":0}` {
			t.Errorf("allowed: %v, %v", res, err)
		}
	})
}
