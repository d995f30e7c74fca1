package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// TestSlow: a region keeps the commands of its entities that no gateway sees, with where they came from.
// It keeps neither commands of clients, which gateways keep, nor inputs without a sender.
func TestSlow(t *testing.T) {
	withCores(t, func(t *testing.T, cores int) {
		tw := runTower(t, cores, 0, nil)
		a := &answers{got: map[uint64]link.Answer{}}
		submit := func(number uint64, id, command string, in any, tell bool) {
			c := knock(number, sharding.EntityID(id), command)
			c.Envelope.Entity.Type, c.Envelope.ID, c.Envelope.Tell, c.Envelope.Keyed = "Bell", sharding.CommandID(fmt.Sprint(number)), tell, command == "Ask"
			c.Envelope.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
			c.Envelope.Payload, _ = json.Marshal(in)
			c.Envelope.Deadline = time.Now().Add(5 * time.Second)
			tw.r.Submit(a, []link.Command{c})
			synctest.Wait()
			time.Sleep(10 * time.Second)
			synctest.Wait()
		}
		submit(1, "a", "Ask", "b", false)
		submit(2, "c", "Later", nil, false)
		submit(3, "d", "Ring", nil, true)
		submit(4, "d", "Ring", nil, false)
		// A send is delivered as an ask is, and reminders end as timers do.
		env := ring("e")
		env.Command = "None"
		tw.r.routeFrom(env, false, origin{"send", sharding.Entity{Type: "Bell", ID: "f"}}, func(sharding.Reply) {})
		tw.r.Route(ring("probed"), false, func(sharding.Reply) {})
		time.Sleep(time.Second)
		synctest.Wait()
		now := time.Now()
		for kind, name := range map[sharding.WakeKind]string{sharding.ReminderWake: "expiry", sharding.SendWake: "Bell/g"} { // order-free
			tw.r.slowUnwatched(now, &turn.UnwatchedDone{
				Entity: sharding.Entity{Type: "Bell", ID: "h"}, Command: "Ring", Arrived: now.Add(-time.Second), Wakeup: sharding.WakeRef{Kind: kind, Name: name},
				Reply: sharding.Reply{Code: "not_found", Timing: sharding.Timing{Handler: time.Second}},
			})
		}
		var got []string
		for _, x := range tw.r.slow.Answer(100).Commands {
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s/%s %s %s by %s %s", x.Type, x.Id, x.Command, x.Code, x.Origin, x.From)))
			if x.Region != tw.r.self.Addr && x.Origin != "send" && x.Origin != "ask" || x.Origin == "ask" && (x.Region != "127.0.0.1:1" || x.Attempts != 1 || x.Trace != "0af7651916cd43dd8448eb211c80319c") {
				t.Errorf("kept is %v", x)
			}
			if x.Id == "h" && (x.TotalUs != 1e6 || x.HandlerUs != 1e6) {
				t.Errorf("kept is %v", x)
			}
		}
		slices.Sort(got)
		want := []string{
			"Bell/b Ring  by ask Bell/a", "Bell/c Ring  by timer", "Bell/d Ring  by tell", "Bell/e None unimplemented by send Bell/f",
			"Bell/h Ring not_found by answer Bell/g", "Bell/h Ring not_found by reminder expiry",
		}
		if !slices.Equal(got, want) {
			t.Errorf("kept are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestSlowQuestion: only a coordinator of the cluster that means this process is answered, and a full window costs no
// entry.
func TestSlowQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{cfg: &Config{}, self: sharding.NodeID{UID: 77}, runner: &Runner{shared: &shared{ctx: t.Context()}}}
		s.cfg.ClusterName = "dev"
		for i := range 100 {
			at := time.Now().Add(-time.Duration(i+1) * time.Millisecond)
			s.runner.slowUnwatched(time.Now(), &turn.UnwatchedDone{Entity: sharding.Entity{Type: "T", ID: sharding.EntityID(fmt.Sprint(i))}, Arrived: at, Timer: true})
		}
		i := newInspection(s)
		res, err := i.Slow(t.Context(), &inspectionv1.SlowRequest{Cluster: "dev", To: 77, Limit: 3})
		if err != nil || len(res.Commands) != 3 {
			t.Fatal(res, err)
		}
		if res, err = i.Slow(t.Context(), &inspectionv1.SlowRequest{Cluster: "dev", To: 77, Limit: 5000}); err != nil || len(res.Commands) != 8 || res.Commands[7].Id != "99" {
			t.Errorf("of one window: %v, %v", res, err)
		}
		for _, req := range []*inspectionv1.SlowRequest{{Cluster: "other", To: 77}, {Cluster: "dev", To: 78}} {
			if _, err := i.Slow(context.Background(), req); err == nil || err.(twirp.Error).Code() != twirp.FailedPrecondition {
				t.Errorf("%v: %v", req, err)
			}
		}
	})
}
