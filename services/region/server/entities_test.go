package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// TestEntities: a region lists its entities in memory page by page, each entity once, in order, and also
// while a handler hangs. That one is found by how long its turn has been running.
func TestEntities(t *testing.T) {
	withCores(t, func(t *testing.T, cores int) {
		s, g := runDoors(t, cores)
		a := &answers{got: map[uint64]link.Answer{}}
		var want []string
		for i := range uint64(40) {
			id := sharding.EntityID(fmt.Sprintf("%c%d", 'a'+i%2, i))
			s.Submit(a, []link.Command{knock(i, id, "Knock")})
			want = append(want, fmt.Sprintf("%d %s", shardingtest.ShardOf(id, 4), id))
		}
		slices.Sort(want)
		synctest.Wait()
		hung := []link.Command{knock(50, "a4", "Pass"), knock(51, "a4", "Knock")}
		hung[0].Envelope.ID, hung[1].Envelope.ID = "50", "51"
		s.Submit(a, hung)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		list := func(req *inspectionv1.EntitiesRequest) (all []string, pages int) {
			t.Helper()
			for {
				res, err := s.entities(t.Context(), req)
				if err != nil || len(res.Entities) > int(req.Limit) {
					t.Fatal(res, err)
				}
				for _, e := range res.Entities {
					if e.Type != "Door" || e.State != "active" || e.Epoch == 0 {
						t.Errorf("listed is %v", e)
					}
					all = append(all, fmt.Sprintf("%d %s", e.Index, e.Id))
				}
				pages++
				if req.After = res.Next; res.Next == nil || pages > 100 {
					return all, pages
				}
			}
		}
		for _, limit := range []uint32{1, 3, 7, 40, 1000} {
			if got, pages := list(&inspectionv1.EntitiesRequest{Limit: limit}); !slices.Equal(got, want) || limit == 7 && pages < 6 {
				t.Errorf("limit %d: %d pages of\n%q, want\n%q", limit, pages, got, want)
			}
		}
		filtered := func(wanted func(shard, id string) bool) (out []string) {
			for _, w := range want {
				if wanted(w[:1], w[2:]) {
					out = append(out, w)
				}
			}
			return out
		}
		index := uint32(2)
		for _, x := range []struct {
			req  *inspectionv1.EntitiesRequest
			want []string
		}{
			{&inspectionv1.EntitiesRequest{Type: "Door", Prefix: "b"}, filtered(func(_, id string) bool { return id[0] == 'b' })},
			{&inspectionv1.EntitiesRequest{Type: "Door", Index: &index}, filtered(func(shard, _ string) bool { return shard == "2" })},
			{&inspectionv1.EntitiesRequest{Type: "Gate"}, nil},
			{&inspectionv1.EntitiesRequest{RunningMs: 1500}, filtered(func(_, id string) bool { return id == "a4" })},
			{&inspectionv1.EntitiesRequest{RunningMs: 3000}, nil},
		} {
			x.req.Limit = 9
			if got, _ := list(x.req); !slices.Equal(got, x.want) {
				t.Errorf("%v: %q, want %q", x.req, got, x.want)
			}
		}
		res, err := s.entities(t.Context(), &inspectionv1.EntitiesRequest{RunningMs: 1, Limit: 5})
		if err != nil || len(res.Entities) != 1 {
			t.Fatal(res, err)
		}
		if e := res.Entities[0]; e.Mailbox != 2 || e.Running != "Pass" || e.RunningMs < 1900 || e.RunningMs > 2100 || e.OldestMs < 1900 || e.IdleMs != 0 ||
			time.Since(time.UnixMilli(e.RunningSinceUnixMs)) < 1900*time.Millisecond {
			t.Errorf("the one that hangs: %v", e)
		}

		// However little it looks at in a step or answers at a time, nothing is left out.
		s.cfg.InspectLook = 1
		if got, _ := list(&inspectionv1.EntitiesRequest{Limit: 13}); !slices.Equal(got, want) {
			t.Errorf("in small steps: %q", got)
		}
		s.cfg.InspectBytes = 1
		if got, pages := list(&inspectionv1.EntitiesRequest{Limit: 40}); !slices.Equal(got, want) || pages != 40 {
			t.Errorf("with little room: %d pages of %q", pages, got)
		}
		s.cfg.InspectTime = -time.Second // over at once
		if got, _ := list(&inspectionv1.EntitiesRequest{Limit: 40, Prefix: "a1"}); !slices.Equal(got, filtered(func(_, id string) bool { return id[:2] == "a1" })) {
			t.Errorf("in no time: %q", got)
		}

		for _, req := range []*inspectionv1.EntitiesRequest{{Index: &index}, {RunningMs: -1}, {RunningMs: 1 << 62}} {
			var e twirp.Error
			if _, err := s.entities(t.Context(), req); !errors.As(err, &e) || e.Code() != twirp.InvalidArgument {
				t.Errorf("%v is answered with %v", req, err)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.entities(ended, &inspectionv1.EntitiesRequest{}); err != nil && !errors.Is(err, errBusy) {
			t.Errorf("no caller waits for the answer: %v", err)
		}
		close(g.open)
		synctest.Wait()
	})
}
