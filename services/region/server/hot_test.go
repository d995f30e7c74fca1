package server

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// TestHot: a region lists its busiest shards and entities at that moment.
func TestHot(t *testing.T) {
	withCores(t, func(t *testing.T, cores int) {
		s, g := runDoors(t, cores)
		close(g.open)
		ask := func(req *inspectionv1.HotRequest) *inspectionv1.HotResponse {
			t.Helper()
			res, err := s.hot(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		all := &inspectionv1.HotRequest{Shards: 9, Entities: 9}
		if res := ask(all); len(res.Shards)+len(res.Entities) > 0 {
			t.Errorf("at the beginning: %v", res)
		}
		a := &answers{got: map[uint64]link.Answer{}}
		for i := range uint64(100) { // ten per second, most for one entity
			id := sharding.EntityID("hot")
			if i%10 == 0 {
				id = sharding.EntityID(fmt.Sprint("cold", i%40))
			}
			s.Submit(a, []link.Command{knock(i, id, "Pass")})
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if n := a.count(); n != 100 {
			t.Fatalf("%d commands are answered", n)
		}
		res := ask(all)
		shard := shardingtest.ShardOf("hot", 4)
		if len(res.Shards) == 0 || res.Shards[0].Index != shard || res.Shards[0].MilliCommands < 8000 || res.Shards[0].MilliCommands > 11_000 || res.Shards[0].Entities == 0 {
			t.Errorf("the hottest shard is not %d: %v", shard, res.Shards)
		}
		if len(res.Entities) != 5 || res.Entities[0].Type != "Door" || res.Entities[0].Id != "hot" || res.Entities[0].Commands < 8 || res.Entities[0].Commands > 10 {
			t.Errorf("the hottest entities: %v", res.Entities)
		}
		if res := ask(&inspectionv1.HotRequest{Shards: 1, Entities: 2}); len(res.Shards) != 1 || res.Shards[0].Index != shard || len(res.Entities) != 2 || res.Entities[0].Id != "hot" {
			t.Errorf("one shard and two entities: %v", res)
		}
		if res := ask(&inspectionv1.HotRequest{Entities: 2, Type: "Gate"}); len(res.Shards)+len(res.Entities) > 0 {
			t.Errorf("of another type: %v", res)
		}
		s.cfg.InspectBytes = 60
		if res := ask(all); len(res.Shards) == 0 || len(res.Shards)+len(res.Entities) > 8 {
			t.Errorf("with little room: %v", res)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.hot(ended, all); err != nil && !errors.Is(err, errBusy) {
			t.Errorf("no caller waits for the answer: %v", err)
		}
	})
}
