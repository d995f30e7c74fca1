package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/roost-cluster/roost/e2e/bench/baseline"
	"github.com/roost-cluster/roost/e2e/bench/entities"
	"github.com/roost-cluster/roost/e2e/bench/measure"
	"github.com/roost-cluster/roost/e2e/bench/report"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
	"github.com/roost-cluster/roost/services/region/server"
)

const (
	betweenEntities = "between entities"
	callerType      = "Caller"
	callerRun       = "Run"
	// callTime is the time of a turn that asks, in addition to the round.
	callTime = time.Minute
)

// calls measures what it costs that an entity asks another one: of its region, and of another
// region. The turns that ask last as long as a round, so that only what they ask is measured.
func (r *run) calls() error {
	if err := r.withLocal("calls", func(l *local) error {
		l.publishTable(nil)
		for _, callers := range []int{1, hotCallers} {
			if err := r.callsHere(l, callers); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	s, err := r.sharedCluster()
	if err != nil {
		return err
	}
	return r.withLocal("calls-across", func(l *local) error {
		l.publishTable(s.rows)
		for _, callers := range []int{1, hotCallers} {
			if err := r.callsAcross(l, s, callers); err != nil {
				return err
			}
		}
		return nil
	})
}

// callsHere compares asks between entities of one region with a channel.
func (r *run) callsHere(l *local, callers int) error {
	payload, err := proto.Marshal(question())
	if err != nil {
		return err
	}
	ids, accounts := numbered("entity-", r.Sizes.Entities), numbered("account-", r.Sizes.Accounts)
	to := make([]addressee, len(ids))
	for i := range to {
		to[i] = l.addressee(entities.EchoType, ids[i])
	}
	var next atomic.Uint64
	routed := l.routed(callers)
	row := func(what string, target report.Target) report.Row {
		return report.Row{Section: betweenEntities, Measure: fmt.Sprintf("%s, %d in flight", what, callers), Target: target}
	}
	var volatile report.Target
	if callers == hotCallers {
		volatile.Ratio = 0.4
	}
	// Half of the accounts: a turn changes fewer than 1,000 entities.
	in := entities.Question{Data: strings.Repeat("a", 53)}
	return r.compare("asks/s",
		measure.Subject{Name: "buffered channel", Run: func(length time.Duration) (measure.Sample, error) {
			return baseline.ChannelAsk(ids, callers, func(ask func(int) error) (measure.Sample, error) {
				return measure.Callers(callers, length, ask)
			})
		}},
		subject{measure.Subject{Name: fmt.Sprint("routed-ask-", callers), Run: func(length time.Duration) (measure.Sample, error) {
			return measure.Callers(callers, length, func(c int) error {
				n := next.Add(1)
				return routed(c, to[n%uint64(len(to))].command(uint64(c), n, payload).Envelope)
			})
		}}, row("the router alone", report.Target{})},
		l.asks(fmt.Sprint("ask-volatile-", callers), callers, ids, row("volatile", volatile), look),
		l.asks(fmt.Sprint("ask-read-", callers), callers, accounts, row("durable, read through the fence", report.Target{}), func(ctx *entity.Ctx, id string) error {
			_, err := entities.BalanceOf.Ask(ctx, id, in)
			return err
		}),
		l.asks(fmt.Sprint("ask-write-", callers), callers, accounts[:len(accounts)/2], row("durable, write", report.Target{}), func(ctx *entity.Ctx, id string) error {
			_, err := entities.DepositTo.Ask(ctx, id, in)
			return err
		}),
	)
}

// callsAcross compares asks of a region's entities with asks of a gateway over its link, and
// with the entity mux.
func (r *run) callsAcross(l *local, s *testCluster, callers int) error {
	a, err := r.newAsker(s, entities.Look, callers)
	if err != nil {
		return err
	}
	defer a.client.Close()
	mux, err := baseline.DialMux(r.base.Mux, callers)
	if err != nil {
		return err
	}
	defer mux.Close()
	ids := numbered("entity-", r.Sizes.Entities)
	ins, outs := make([]*wrapperspb.BytesValue, callers), make([]wrapperspb.BytesValue, callers)
	for i := range ins {
		ins[i] = question()
	}
	payload, err := proto.Marshal(question())
	if err != nil {
		return err
	}
	var next atomic.Uint64
	routed := l.routed(callers)
	across := func(name, beside string, target report.Target) subject {
		row := report.Row{Section: betweenEntities, Measure: fmt.Sprintf("across regions, %d in flight%s", callers, beside), Target: target}
		x := l.asks(fmt.Sprint(name, callers), callers, ids, row, look)
		x.Processes = []int{s.region.PID}
		return x
	}
	if err := r.compare("asks/s",
		measure.Subject{Name: "ask of a gateway over the link", Processes: []int{s.region.PID}, Run: func(length time.Duration) (measure.Sample, error) {
			return measure.Callers(callers, length, func(c int) error { return a.ask(c, ins[c], &outs[c]) })
		}},
		subject{measure.Subject{Name: fmt.Sprint("routed-across-", callers), Processes: []int{s.region.PID}, Run: func(length time.Duration) (measure.Sample, error) {
			return measure.Callers(callers, length, func(c int) error {
				n := next.Add(1)
				env := a.to[n%uint64(len(a.to))].command(uint64(c), n, payload).Envelope
				env.Command = entities.Look
				return routed(c, env)
			})
		}}, report.Row{Section: betweenEntities, Measure: fmt.Sprintf("the router alone, across regions, %d in flight", callers)}},
		across("ask-across-", "", report.Target{Ratio: 0.75})); err != nil {
		return err
	}
	return r.compare("asks/s",
		measure.Subject{Name: "entity mux", Processes: []int{r.base.PID}, Run: func(length time.Duration) (measure.Sample, error) {
			return measure.Callers(callers, length, func(c int) error {
				return mux.Ask(c, ids[next.Add(1)%uint64(len(ids))], ins[c], &outs[c])
			})
		}}, across("ask-across-mux-", ", compared with the mux", report.Target{}))
}

// numbered returns ids of entities.
func numbered(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = prefix + strconv.Itoa(i)
	}
	return list
}

// look asks a volatile entity.
func look(ctx *entity.Ctx, id string) error {
	_, err := entities.LookAt.Ask(ctx, id, question())
	return err
}

// callers is the type of the entities that ask. A turn of theirs does what l.inTurn says.
func (l *local) callers() entity.Definition {
	type caller struct{}
	run := func(_ *caller, ctx *entity.Ctx, n int) (int, error) { return 0, l.inTurn[n](ctx) }
	return entity.Define(callerType, func(string) *caller { return &caller{} },
		entity.On(entity.Command[int, int](callerType, callerRun), run),
		entity.With[caller](entity.Volatile(), entity.Shards(entities.Shards), entity.PassivateAfter(0)),
	)
}

// asks is the subject that so many entities ask others, each in one turn.
func (l *local) asks(name string, callers int, ids []string, row report.Row, ask func(*entity.Ctx, string) error) subject {
	var next, turns atomic.Uint64
	outer := newLocalAsker(l, callers)
	return subject{measure.Subject{Name: name, Run: func(length time.Duration) (measure.Sample, error) {
		l.inTurn = make([]func(*entity.Ctx) error, callers)
		return measure.Loops(callers, length, func(c int, loop func(func() error) error) error {
			var failed error // a caller is not told why a handler has failed
			l.inTurn[c] = func(ctx *entity.Ctx) error {
				failed = loop(func() error { return ask(ctx, ids[next.Add(1)%uint64(len(ids))]) })
				return failed
			}
			to := l.addressee(callerType, "caller-"+strconv.Itoa(c))
			command := to.command(uint64(c), turns.Add(1), strconv.AppendInt(nil, int64(c), 10))
			env := &command.Envelope
			env.ID = sharding.CommandID(name + "-" + string(env.ID))
			env.Command, env.Encoding, env.Keyed, env.Deadline = callerRun, sharding.JSON, true, time.Now().Add(length+callTime)
			outer.callers[c].command[0] = command
			return errors.Join(outer.ask(c), failed)
		})
	}}, row}
}

// routed returns a function that so many callers, each with a number, use to send a command by
// the region's router and wait for the reply.
func (l *local) routed(callers int) func(caller int, env sharding.Envelope) error {
	replies := make([]chan sharding.Reply, callers)
	for i := range replies {
		replies[i] = make(chan sharding.Reply, 1)
	}
	return func(caller int, env sharding.Envelope) error {
		l.runner.Route(env, false, func(r sharding.Reply) { replies[caller] <- r })
		if r := <-replies[caller]; r.Outcome != sharding.Executed {
			return fmt.Errorf("%s: %v %s %s", env.Entity, r.Outcome, r.Code, r.Message)
		}
		return nil
	}
}

// localRouter configures the router of a region without network.
func localRouter(self sharding.NodeID) *server.RouterConfig {
	c := &server.RouterConfig{Core: router.DefaultConfig(), Link: link.DefaultConfig(), Send: func(sharding.NodeID, control.Message) {}}
	c.Call = func(context.Context, string, control.Message) (control.Message, error) {
		return nil, errors.New("no coordinator")
	}
	c.Core.Fed, c.Core.LinkIdle = true, 5*time.Minute
	c.Link.Cluster, c.Link.Self = clusterName, self
	return c
}

// publishTable gives the runner a route table: it serves all shards at their first epochs,
// except another region's shards.
func (l *local) publishTable(elsewhere map[sharding.ShardID]sharding.Row) {
	d := sharding.TableDelta{Full: true, Version: sharding.Version{Term: l.term, N: 1}}
	for i, t := range l.runner.Types() {
		d.Types = append(d.Types, t.Desc)
		for shard := range uint32(entities.Shards) {
			row := sharding.Row{
				Shard: sharding.ShardID{Type: t.Desc.Type, Index: shard}, Owner: l.self, Epoch: sharding.MakeEpoch(sharding.Term(i+1), 1), Phase: sharding.Serving,
			}
			if other, ok := elsewhere[row.Shard]; ok {
				row = other
			}
			d.Rows = append(d.Rows, row)
		}
	}
	const coordinator = "coordinator:1"
	l.runner.Put(region.Coordinators{Addrs: []string{coordinator}},
		region.Replied{From: coordinator, Asked: control.WatchTable{}, Msg: control.TableChanged{Delta: d}})
}
