package bench

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/e2e/bench/baseline"
	"github.com/roost-cluster/roost/e2e/bench/entities"
	"github.com/roost-cluster/roost/e2e/bench/measure"
	"github.com/roost-cluster/roost/e2e/bench/report"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/region"
	"github.com/roost-cluster/roost/services/region/server"
)

// calls measures what an entity's command to another one of its region costs, besides the turn
// that sends it: the way through the region's router and back.
func (r *run) calls() error {
	return r.withLocal("calls", func(l *local) error {
		l.publishTable()
		payload, err := proto.Marshal(question())
		if err != nil {
			return err
		}
		to, keys := make([]addressee, r.Sizes.Entities), make([]string, r.Sizes.Entities)
		for i := range to {
			keys[i] = "entity-" + strconv.Itoa(i)
			to[i] = l.addressee(entities.EchoType, keys[i])
		}
		var next atomic.Uint64
		for _, callers := range []int{1, 64} {
			routed := l.routed(callers)
			if err := r.compare("asks/s",
				measure.Subject{Name: "buffered channel", Run: func(length time.Duration) (measure.Sample, error) {
					return baseline.ChannelAsk(keys, callers, func(ask func(int) error) (measure.Sample, error) {
						return measure.Callers(callers, length, ask)
					})
				}},
				subject{measure.Subject{Name: fmt.Sprint("routed-ask-", callers), Run: func(length time.Duration) (measure.Sample, error) {
					return measure.Callers(callers, length, func(c int) error {
						n := next.Add(1)
						return routed(c, to[n%uint64(len(to))].command(uint64(c), n, payload).Envelope)
					})
				}}, report.Row{Section: inProcess, Measure: fmt.Sprintf("between entities by the router, %d in flight", callers)}}); err != nil {
				return err
			}
		}
		return nil
	})
}

// routed returns a function by which so many callers, told apart by number, send a command by
// the region's router and wait for the reply.
func (l *local) routed(callers int) func(caller int, env sharding.Envelope) error {
	replies := make([]chan sharding.Reply, callers)
	for i := range replies {
		replies[i] = make(chan sharding.Reply, 1)
	}
	return func(caller int, env sharding.Envelope) error {
		l.runner.Route(env, false, func(r sharding.Reply) { replies[caller] <- r })
		if r := <-replies[caller]; r.Outcome != sharding.OK {
			return fmt.Errorf("%s: %v %s %s", env.Entity, r.Outcome, r.Code, r.Message)
		}
		return nil
	}
}

// localRouter configures the router of a region without network.
func localRouter(self sharding.NodeID) *server.RouterConfig {
	c := &server.RouterConfig{Core: router.DefaultConfig(), Link: link.DefaultConfig(), Send: func(sharding.NodeID, control.Message) {}}
	c.Core.Fed, c.Core.LinkIdle = true, 5*time.Minute
	c.Link.Cluster, c.Link.Self = clusterName, self
	return c
}

// publishTable gives the runner a route table by which it serves all shards at their first
// epochs.
func (l *local) publishTable() {
	d := sharding.TableDelta{Full: true, Version: sharding.Version{Term: l.term, N: 1}}
	for i, t := range l.runner.Types() {
		d.Types = append(d.Types, t.Desc)
		for shard := range uint32(entities.Shards) {
			d.Rows = append(d.Rows, sharding.Row{
				Shard: sharding.ShardID{Type: t.Desc.Type, Index: shard}, Owner: l.self, Epoch: sharding.MakeEpoch(sharding.Term(i+1), 1), Phase: sharding.Serving,
			})
		}
	}
	const coordinator = "coordinator:1"
	l.runner.Put(region.Coordinators{Addrs: []string{coordinator}},
		region.Replied{From: coordinator, Asked: control.WatchTable{}, Msg: control.TableChanged{Delta: d}})
}
