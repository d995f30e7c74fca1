package router_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
)

// BenchmarkAsk measures the core's part of an ask: admission, sending, answer, end.
func BenchmarkAsk(b *testing.B) {
	const shards, inFlight = 1024, 64
	now := time.Unix(1_700_000_000, 0)
	region := sharding.NodeID{Addr: "127.0.0.1:1", UID: 1}
	m := router.New(router.DefaultConfig())
	var outs []router.Output
	step := func(in router.Input) {
		outs = m.Step(now, in, outs[:0])
	}
	delta := sharding.TableDelta{Full: true, Version: sharding.Version{Term: 1, N: 1}, Types: []sharding.TypeDesc{
		{Type: "Echo", Shards: shards, Volatile: true, Commands: []sharding.CommandDesc{{Name: "Ask"}}},
	}}
	for i := range uint32(shards) {
		delta.Rows = append(delta.Rows, sharding.Row{
			Shard: sharding.ShardID{Type: "Echo", Index: i}, Owner: region, Epoch: 1 << 32, Phase: sharding.Serving,
		})
	}
	step(router.Coordinators{Addrs: []string{"127.0.0.1:2"}})
	step(router.Replied{From: "127.0.0.1:2", Asked: control.WatchTable{}, Msg: control.TableChanged{Delta: delta}})
	step(router.LinkUp{Region: region, Link: 1})
	envs := make([]sharding.Envelope, 10_000)
	for i := range envs {
		envs[i] = sharding.Envelope{
			Entity:  sharding.Entity{Type: "Echo", ID: sharding.EntityID("entity-" + strconv.Itoa(i))},
			Command: "Ask", ID: "roost:0123456789abcdef-1", Payload: make([]byte, 64),
		}
	}
	b.ReportAllocs()
	next := router.RequestID(0)
	var submit router.Submit
	answer := router.Answer{Reply: sharding.Reply{Outcome: sharding.Executed}}
	waiting := make([]router.Attempt, 0, inFlight)
	for b.Loop() {
		next++
		now = now.Add(10 * time.Microsecond)
		submit.Request, submit.Env = next, &envs[int(next)%len(envs)]
		outs = m.Submit(now, &submit, outs[:0])
		for _, o := range outs {
			if s, ok := o.(router.SendCommand); ok {
				waiting = append(waiting, s.Attempt)
			}
		}
		if len(waiting) == cap(waiting) {
			for _, a := range waiting {
				answer.Attempt = a
				outs = m.Answer(now, &answer, outs[:0])
				for _, o := range outs {
					if f, ok := o.(router.Finish); ok {
						m.Step(now, router.Delivered{Bytes: f.Held}, nil)
					}
				}
			}
			waiting = waiting[:0]
		}
	}
	if st := m.Stats(); st.Requests >= inFlight || st.Requests != len(waiting) {
		b.Errorf("%d requests are left", st.Requests)
	}
}
