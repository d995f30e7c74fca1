package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/agent"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/lease"
	leasememory "github.com/roost-cluster/roost/libs/lease/memory"
	"github.com/roost-cluster/roost/libs/loop"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
	"github.com/roost-cluster/roost/services/coordinator/console"
)

// sick is a journal that can be out of order: locked, full, or silent.
type sick struct {
	*memory.Backend
	mu      sync.Mutex
	illness error
	silent  chan struct{} // closed when it answers again; nil: it does
	// refuseCheckpoints is the number of checkpoints to refuse.
	refuseCheckpoints int
	// unreadable is the error of every load; nil: loads succeed.
	unreadable error
}

func (b *sick) Load(ctx context.Context, req journal.LoadRequest) (journal.Loaded, error) {
	b.mu.Lock()
	unreadable := b.unreadable
	b.mu.Unlock()
	if unreadable != nil {
		return journal.Loaded{}, unreadable
	}
	return b.Backend.Load(ctx, req)
}

// tear makes stored data unreadable; nil: readable again.
func (b *sick) tear(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unreadable = why
}

var errSilent = errors.New("silent")

func (b *sick) Commit(ctx context.Context, ops []journal.Op) ([]journal.Result, error) {
	b.mu.Lock()
	illness, silent := b.illness, b.silent
	if ops[0].Snapshot != nil && b.refuseCheckpoints > 0 {
		b.refuseCheckpoints--
		illness = fmt.Errorf("checkpoint: %w", journal.ErrFull)
	}
	b.mu.Unlock()
	switch {
	case silent != nil:
		<-silent
	case errors.Is(illness, journal.ErrNotCommitted):
		time.Sleep(time.Second) // what a lock is waited for
		return nil, illness
	case illness != nil:
		return nil, illness
	}
	return b.Backend.Commit(context.WithoutCancel(ctx), ops)
}

func (b *sick) fall(illness error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.illness = illness
	if errors.Is(illness, errSilent) {
		b.silent = make(chan struct{})
	}
}

func (b *sick) recover() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.illness = nil
	if b.silent != nil {
		close(b.silent)
		b.silent = nil
	}
}

// quiet is a lease store that can stop to answer.
type quiet struct {
	*leasememory.Backend
	mu  sync.Mutex
	off bool
}

func (q *quiet) turn(off bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.off = off
}

func (q *quiet) ask(ctx context.Context) error {
	q.mu.Lock()
	off := q.off
	q.mu.Unlock()
	if !off {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (q *quiet) Get(ctx context.Context, name string) (lease.Record, error) {
	if err := q.ask(ctx); err != nil {
		return lease.Record{}, err
	}
	return q.Backend.Get(ctx, name)
}

func (q *quiet) Swap(ctx context.Context, name string, old, next lease.Record) (bool, error) {
	if err := q.ask(ctx); err != nil {
		return false, err
	}
	return q.Backend.Swap(ctx, name, old, next)
}

// rig is the driver of a coordinator with a journal and a lease of the test's,
// in a bubble of synctest. Messages to regions are gathered in orders.
type rig struct {
	*Server
	t       *testing.T
	backend *sick
	store   *quiet
	text    *lines
	failure error // guarded by mu

	mu     sync.Mutex
	orders map[sharding.NodeID][]control.Message
	held   chan struct{} // closed when regions take orders again; nil: they do
	most   int           // orders in one call
}

// lines is a log.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.b.String(), text)
}

var driven = sharding.NodeID{Addr: "127.0.0.1:1", UID: 7}

// drive starts the driver. prepare may write to the journal before.
func drive(t *testing.T, limits coordinator.Config, prepare func(*memory.Backend)) *rig {
	t.Helper()
	b := memory.New(journal.DefaultConfig())
	if prepare != nil {
		prepare(b)
	}
	r := launchOn(t, limits, b, &quiet{Backend: leasememory.New()})
	r.elected()
	return r
}

// launchOn starts the driver on a journal and a lease.
func launchOn(t *testing.T, limits coordinator.Config, b *memory.Backend, store *quiet) *rig {
	t.Helper()
	r := &rig{t: t, backend: &sick{Backend: b}, store: store, text: &lines{},
		orders: map[sharding.NodeID][]control.Message{}}
	cfg := DefaultConfig()
	cfg.ClusterName = "dev"
	r.Server = &Server{
		cfg: &cfg, log: slog.New(slog.NewTextHandler(r.text, nil)), self: driven, name: "c1", limits: limits,
		inbox: loop.NewInbox[func()](inboxLimits), news: loop.NewInbox[func()](loop.Limits{}), core: coordinator.NewTenure(limits, driven),
		calls:   rpc.NewCalls(maxCalls(limits)),
		members: map[sharding.NodeID]coordinator.Member{}, moves: map[sharding.ShardID]time.Time{}, asked: map[uint64]*pending{},
		explanations: coordinator.NewExplanationLog(cfg.explanationLimits()),
	}
	r.ctx, r.end = context.WithCancel(context.Background())
	r.fail = func(err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.failure = err
	}
	var err error
	if r.journal, err = commit.Open(r.ctx, r.backend, journal.Declaration{Cluster: "dev"}, journal.DefaultConfig(), commit.Observer{}); err != nil {
		t.Fatal(err)
	}
	if err := r.instrument(noop.NewMeterProvider(), nil); err != nil {
		t.Fatal(err)
	}
	r.outbox = rpc.NewOutbox(r.ctx, r.carry, r.log, r.telemetry.dropped)
	g := gossip.DefaultConfig()
	g.Self, g.Name, g.Roles = r.self, r.name, []string{"coordinator"}
	if r.agent, err = agent.New(agent.Config{Core: g, Cluster: "dev", Client: http.DefaultClient}); err != nil {
		t.Fatal(err)
	}
	r.console = console.New(r.consoleConfig())
	lc := lease.DefaultConfig()
	lc.Self = r.self
	if r.keeper, err = lease.NewKeeper(r.store, "coordinator.dev", lc, r.log); err != nil {
		t.Fatal(err)
	}
	var jobs sync.WaitGroup
	stop, cancel := context.WithCancel(context.Background())
	jobs.Go(func() { r.keeper.Run(stop, r.onLease) })
	jobs.Go(r.run)
	t.Cleanup(func() {
		r.backend.recover()
		r.store.turn(false)
		cancel()
		r.end()
		jobs.Wait()
		if err := r.journal.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// elected waits until the driver acts.
func (r *rig) elected() sharding.Term {
	r.t.Helper()
	for range 600 {
		r.keeper.SetRank(0)
		if term, _, _ := r.state(); term > 0 {
			return term
		}
		time.Sleep(100 * time.Millisecond)
	}
	r.t.Fatalf("not elected within a minute: %v", r.text.b.String())
	return 0
}

// failed is the error that would end the process; nil: it continues.
func (r *rig) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

// in runs f in the loop.
func (r *rig) in(f func()) {
	r.t.Helper()
	if err := r.look(context.Background(), func() error { f(); return nil }); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

func (r *rig) state() (term sharding.Term, outputs, bytes int) {
	r.in(func() {
		term = r.core.ActiveTerm()
		outputs, _, bytes = r.core.Held()
	})
	return term, outputs, bytes
}

func (r *rig) told() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, list := range r.orders {
		n += len(list)
	}
	return n
}

// carry does the work of a call to a region.
func (r *rig) carry(_ context.Context, to sharding.NodeID, msgs []control.Message) error {
	r.mu.Lock()
	held := r.held
	r.mu.Unlock()
	if held != nil {
		<-held
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.orders[to] = append(r.orders[to], msgs...)
	r.most = max(r.most, len(msgs))
	return nil
}

func region1(n int) sharding.NodeID {
	return sharding.NodeID{Addr: fmt.Sprintf("127.0.0.2:%d", n), UID: sharding.NodeUID(n)}
}

func (r *rig) member(n int, reachable bool) {
	r.in(func() { r.step(coordinator.Member{Node: region1(n), Name: fmt.Sprint("r", n), Reachable: reachable}) })
}

// register lets a region register, and returns its answer, once.
func (r *rig) register(n int, shards ...uint32) <-chan error {
	r.member(n, true)
	reg := control.Register{Name: fmt.Sprint("r", n)}
	for i, s := range shards {
		reg.Types = append(reg.Types, sharding.TypeDesc{Type: sharding.EntityType(fmt.Sprint("T", i)), Shards: s})
	}
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
		defer cancel()
		answer, err := service{r.Server}.Answer(ctx, region1(n), reg, 100)
		if standby, ok := answer.(control.NotActive); ok {
			err = fmt.Errorf("active is %s", standby.Active.Addr)
		}
		done <- err
	}()
	synctest.Wait()
	return done
}

func (r *rig) home(index uint32) {
	r.in(func() {
		r.step(coordinator.Received{Msg: control.GetShardHome{Shard: sharding.ShardID{Type: "T0", Index: index}}})
	})
}

// serve does the regions' part.
func (r *rig) serve() {
	r.mu.Lock()
	orders := r.orders
	r.orders = map[sharding.NodeID][]control.Message{}
	r.mu.Unlock()
	r.in(func() {
		for to, list := range orders { // order-free: shards do not depend on each other
			var done []control.Message
			for _, m := range list {
				switch m := m.(type) {
				case control.HandOff:
					done = append(done, control.ShardStopped{Shard: m.Shard, Epoch: m.Epoch})
				case control.HostShard:
					done = append(done, control.ShardStarted{Shard: m.Shard, Epoch: m.Epoch})
				}
			}
			for _, m := range done {
				r.step(coordinator.Received{From: to, Msg: m})
			}
		}
	})
}

// outcome is the answer to a call, if there was one.
func outcome(done <-chan error) string {
	select {
	case err := <-done:
		return fmt.Sprint(err)
	default:
		return "waits"
	}
}
