package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/roost-cluster/roost/e2e/bench/entities"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
	"github.com/roost-cluster/roost/services/region/server"
)

// local is the runner of a region inside this process: a region without network and
// telemetry.
type local struct {
	self    sharding.NodeID
	runner  *server.Runner
	journal *commit.Journal
	term    sharding.Term
	types   []sharding.EntityType
	ended   sync.WaitGroup
	// inTurn holds the work of the turns of callerType's entities, by the number of the caller.
	inTurn []func(*entity.Ctx) error

	mu      sync.Mutex
	missing map[sharding.ShardID]bool
	started chan struct{} // closed when none is missing
}

// startLocal starts a runner on a journal.
func startLocal(ctx context.Context, at open.At) (*local, error) {
	l := &local{self: sharding.NodeID{Addr: "127.0.0.1:1", UID: 1}}
	var err error
	if l.runner, err = server.NewRunner(server.RunnerConfig{
		Self: l.self, Router: localRouter(l.self), Name: "local", Types: append(entities.Types(entities.Shards), l.callers()),
		Inbox: 65536, StopTimeout: time.Second, Log: slog.New(slog.DiscardHandler), Outside: l.outside,
	}); err != nil {
		return nil, err
	}
	d := journal.Declaration{Cluster: clusterName}
	for _, t := range l.runner.Types() {
		d.Types = append(d.Types, t.Desc)
		l.types = append(l.types, t.Desc.Type)
	}
	if l.journal, err = open.Journal(ctx, at, d, journal.DefaultConfig(), l.runner.Observer(), func(error) {}); err != nil {
		return nil, err
	}
	l.runner.Use(l.journal)
	l.ended.Go(l.runner.Run)
	for _, t := range l.types {
		if err := l.claim(ctx, t, entities.Shards); err != nil {
			return nil, errors.Join(err, l.close())
		}
	}
	return l, nil
}

func (l *local) close() error {
	l.runner.End()
	l.ended.Wait()
	return l.journal.Close()
}

// claim makes the runner host shards of a type at a new epoch, and returns when
// all are served.
func (l *local) claim(ctx context.Context, typ sharding.EntityType, count int) error {
	l.mu.Lock()
	l.term++
	l.missing, l.started = map[sharding.ShardID]bool{}, make(chan struct{})
	started := l.started
	var hosts []region.ControlInput
	for i := range uint32(count) {
		id := sharding.ShardID{Type: typ, Index: i}
		l.missing[id] = true
		hosts = append(hosts, region.Received{From: "coordinator:1", Msg: control.HostShard{Term: l.term, Shard: id, Epoch: sharding.MakeEpoch(l.term, 1)}})
	}
	l.mu.Unlock()
	l.runner.Put(hosts...)
	select {
	case <-started:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(startTimeout):
		return fmt.Errorf("shards of %s are not served", typ)
	}
}

func (l *local) outside(o region.ControlOutput) {
	send, _ := o.(region.Send)
	s, ok := send.Msg.(control.ShardStarted)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.missing) == 0 || s.Epoch.Term() != l.term {
		return
	}
	if delete(l.missing, s.Shard); len(l.missing) == 0 {
		close(l.started)
	}
}

// addressee returns an entity; its shard has the epoch of the first claim of its type.
func (l *local) addressee(typ sharding.EntityType, name string) addressee {
	id := sharding.EntityID(name)
	a := addressee{entity: sharding.Entity{Type: typ, ID: id}, shard: shardingtest.ShardOf(id, entities.Shards)}
	for i, t := range l.types {
		if t == typ {
			a.epoch = sharding.MakeEpoch(sharding.Term(i+1), 1)
		}
	}
	return a
}

// submit returns a function that hands commands of a flood to the runner.
func (l *local) submit(to server.Sink) func([]addressed) error {
	cmds := make([]link.Command, 0, floodBatch)
	return func(cs []addressed) error {
		cmds = cmds[:0]
		for i := range cs {
			cmds = append(cmds, cs[i].Command)
		}
		l.runner.Serve(to, cmds, nil)
		return nil
	}
}

// localAsker is a set of callers that ask inside this process.
type localAsker struct {
	local   *local
	callers []localCaller
}

type localCaller struct {
	command [1]link.Command
	reply   sharding.Reply
	done    chan struct{}
}

func newLocalAsker(l *local, callers int) *localAsker {
	a := &localAsker{local: l, callers: make([]localCaller, callers)}
	for i := range a.callers {
		a.callers[i].done = make(chan struct{}, 1)
	}
	return a
}

// SendBatch takes answers.
func (a *localAsker) SendBatch(as []link.Answer) error {
	for i := range as {
		c := &a.callers[as[i].Number]
		c.reply = as[i].Reply
		if as[i].NotMine != nil {
			c.reply = sharding.Reject(sharding.Unavailable, "not mine")
		}
		c.done <- struct{}{}
	}
	return nil
}

// Unsent is 0: answers are taken at once.
func (*localAsker) Unsent() int { return 0 }
func (*localAsker) Ended() bool { return false }

// Waiting does nothing: answers are not batched.
func (*localAsker) Waiting() {}

// ask sends the command that a caller has prepared and waits for its reply.
func (a *localAsker) ask(caller int) error {
	c := &a.callers[caller]
	a.local.runner.Serve(a, c.command[:], nil)
	<-c.done
	if c.reply.Outcome != sharding.Executed {
		return fmt.Errorf("%s: %v %s %s", c.command[0].Envelope.Entity, c.reply.Outcome, c.reply.Code, c.reply.Message)
	}
	return nil
}
