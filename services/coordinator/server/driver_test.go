package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/agent"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/lease"
	leasememory "github.com/roost-cluster/roost/libs/lease/memory"
	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/wire"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// sick is a journal that can be out of order: locked, full, or silent.
type sick struct {
	*memory.Backend
	mu      sync.Mutex
	illness error
	silent  chan struct{} // closed when it answers again; nil: it does
	// refuseSnapshots is how many are refused.
	refuseSnapshots int
}

var errSilent = errors.New("silent")

func (b *sick) Commit(ctx context.Context, ops []journal.Op) ([]journal.Result, error) {
	b.mu.Lock()
	illness, silent := b.illness, b.silent
	if ops[0].Snapshot != nil && b.refuseSnapshots > 0 {
		b.refuseSnapshots--
		illness = fmt.Errorf("snapshot: %w", journal.ErrFull)
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
	*leasememory.Store
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
	return q.Store.Get(ctx, name)
}

func (q *quiet) Swap(ctx context.Context, name string, old, next lease.Record) (bool, error) {
	if err := q.ask(ctx); err != nil {
		return false, err
	}
	return q.Store.Swap(ctx, name, old, next)
}

// rig is the driver of a coordinator with a journal and a lease of the test's,
// in a bubble of synctest. What regions are told is gathered in orders.
type rig struct {
	*Server
	t       *testing.T
	backend *sick
	store   *quiet
	text    *lines
	failed  error

	mu     sync.Mutex
	orders map[sharding.NodeID][]wish
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
	r := launchOn(t, limits, b, &quiet{Store: leasememory.New()})
	r.elected()
	return r
}

// launchOn starts the driver on a journal and a lease.
func launchOn(t *testing.T, limits coordinator.Config, b *memory.Backend, store *quiet) *rig {
	t.Helper()
	r := &rig{t: t, backend: &sick{Backend: b}, store: store, text: &lines{},
		orders: map[sharding.NodeID][]wish{}}
	cfg := DefaultConfig()
	cfg.ClusterName = "dev"
	r.Server = &Server{
		cfg: &cfg, log: slog.New(slog.NewTextHandler(r.text, nil)), self: driven, name: "c1", limits: limits,
		inbox: newInbox(), news: newInbox(), core: coordinator.NewTenure(limits, driven),
		watches:   map[coordinator.WatchID]chan<- *coordinatorv1.WatchTableResponse{},
		registers: callers[coordinator.RegisterAck]{}, shutdowns: callers[coordinator.ShutdownAck]{},
		members: map[sharding.NodeID]coordinator.Member{}, moves: map[sharding.ShardID]time.Time{},
	}
	r.ctx, r.end = context.WithCancel(context.Background())
	r.fail = func(err error) { r.failed = err }
	r.wishes = node.NewOutbox(func(to sharding.NodeID, gathered []wish) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.orders[to] = append(r.orders[to], gathered...)
	})
	var err error
	if r.journal, err = journal.Open(r.ctx, r.backend, journal.Declaration{Cluster: "dev"}, journal.DefaultConfig(), journal.Observer{}); err != nil {
		t.Fatal(err)
	}
	if err := r.instrument(noop.NewMeterProvider()); err != nil {
		t.Fatal(err)
	}
	g := gossip.DefaultConfig()
	g.Self, g.Name, g.Roles = r.self, r.name, []string{"coordinator"}
	if r.agent, err = agent.New(agent.Config{Core: g, Cluster: "dev", Client: http.DefaultClient}); err != nil {
		t.Fatal(err)
	}
	lc := lease.DefaultConfig()
	lc.Self = r.self
	if r.keeper, err = lease.NewKeeper(r.store, "coordinator.dev", lc, r.log); err != nil {
		t.Fatal(err)
	}
	var jobs sync.WaitGroup
	stop, cancel := context.WithCancel(context.Background())
	jobs.Go(func() { r.keeper.Run(stop, r.onLease) })
	jobs.Go(r.loop)
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
		term = r.core.Active()
		outputs, _, bytes = r.core.Waiting()
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

func region1(n int) sharding.NodeID {
	return sharding.NodeID{Addr: fmt.Sprintf("127.0.0.2:%d", n), UID: sharding.NodeUID(n)}
}

func (r *rig) member(n int, reachable bool) {
	r.in(func() { r.step(coordinator.Member{Node: region1(n), Name: fmt.Sprint("r", n), Reachable: reachable}) })
}

// register lets a region register, and returns what it is told, once.
func (r *rig) register(n int, shards ...uint32) <-chan error {
	r.member(n, true)
	req := &coordinatorv1.RegisterRequest{Cluster: "dev", Region: wire.ToNode(region1(n)), Name: fmt.Sprint("r", n)}
	for i, s := range shards {
		req.Types = append(req.Types, &coordinatorv1.Type{Name: fmt.Sprint("T", i), Shards: s})
	}
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
		defer cancel()
		_, err := service{r.Server}.Register(ctx, req)
		done <- err
	}()
	synctest.Wait()
	return done
}

func (r *rig) home(index uint32) {
	r.in(func() { r.step(coordinator.GetShardHome{Shard: sharding.ShardID{Type: "T0", Index: index}}) })
}

// serve does what regions are asked for.
func (r *rig) serve() {
	r.mu.Lock()
	orders := r.orders
	r.orders = map[sharding.NodeID][]wish{}
	r.mu.Unlock()
	r.in(func() {
		for to, list := range orders { // order-free: shards do not depend on each other
			for _, w := range list {
				if w.handOff {
					r.step(coordinator.ShardStopped{Region: to, Shard: w.shard, Epoch: w.epoch})
				} else {
					r.step(coordinator.ShardStarted{Region: to, Shard: w.shard, Epoch: w.epoch})
				}
			}
		}
	})
}

// outcome is what a call was answered with, if it was.
func outcome(done <-chan error) string {
	select {
	case err := <-done:
		return fmt.Sprint(err)
	default:
		return "waits"
	}
}

// TestNothingLeavesBeforeItsFact: while the journal is silent no acknowledgement,
// order or change of the table leaves; when it answers all do.
func TestNothingLeavesBeforeItsFact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drive(t, coordinator.DefaultConfig(), nil)
		r.backend.fall(errSilent)
		ack := r.register(1, 4)
		r.home(0)
		time.Sleep(6 * time.Second)
		if got := outcome(ack); got != "waits" || r.told() > 0 {
			t.Fatalf("the registration is answered with %s, %d orders have left, and nothing is stored", got, r.told())
		}
		if !r.text.has("it does not answer") || r.text.has("no room") {
			t.Errorf("the log does not say that the journal is silent: %s", r.text.b.String())
		}
		r.backend.recover()
		time.Sleep(time.Second)
		if got := outcome(ack); got != "<nil>" || r.told() == 0 {
			t.Errorf("the registration is answered with %s, %d orders have left", got, r.told())
		}
	})
}

// TestFullJournal: a record that found no room is stored later, once, and
// nothing leaves meanwhile. A journal that is locked is not called full.
func TestFullJournal(t *testing.T) {
	for illness, why := range map[error]string{
		fmt.Errorf("disk: %w", journal.ErrFull):           "it has no room",
		fmt.Errorf("locked: %w", journal.ErrNotCommitted): "it is locked or out of reach",
	} {
		synctest.Test(t, func(t *testing.T) {
			r := drive(t, coordinator.DefaultConfig(), nil)
			r.backend.fall(illness)
			ack := r.register(1, 4)
			r.home(0)
			time.Sleep(30 * time.Second)
			if got := outcome(ack); got != "waits" || r.told() > 0 {
				t.Fatalf("%v: the registration is answered with %s, %d orders have left, and nothing is stored", illness, got, r.told())
			}
			if !r.text.has(why) {
				t.Errorf("%v: the log does not say so: %s", illness, r.text.b.String())
			}
			r.backend.recover()
			time.Sleep(time.Second)
			if got := outcome(ack); got != "<nil>" || r.told() == 0 || r.failed != nil {
				t.Errorf("%v: the registration is answered with %s, %d orders have left, %v", illness, got, r.told(), r.failed)
			}
			found, err := r.journal.Load(r.ctx, journal.LoadRequest{Entity: streamEntity})
			if err != nil {
				t.Fatal(err)
			}
			facts, n, err := decodeFacts(found)
			if err != nil || n != 2 {
				t.Errorf("%v: the stream holds %d facts, want a type and a row: %v, %v", illness, n, facts, err)
			}
		})
	}
}

// TestTermAboveEveryEpoch: a lease whose record was lost begins again at term 1,
// below what regions have claimed.
func TestTermAboveEveryEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drive(t, coordinator.DefaultConfig(), func(b *memory.Backend) {
			claim := &sharding.Claim{Shard: sharding.ShardID{Type: "T0"}, Epoch: sharding.MakeEpoch(9, 3), Owner: 5}
			if res, err := b.Commit(t.Context(), []journal.Op{{Claim: claim}}); err != nil || res[0].Verdict != sharding.Durable {
				t.Fatal(res, err)
			}
		})
		if term := r.elected(); term <= 9 {
			t.Errorf("elected in term %d, below an epoch of term 9", term)
		}
	})
}

// TestLapse: a coordinator past its lease tells nothing, neither what it has just
// decided nor what was durable in time, whatever held it up.
func TestLapse(t *testing.T) { synctest.Test(t, lapse) }

func lapse(t *testing.T) {
	r := drive(t, coordinator.DefaultConfig(), nil)
	if got := outcome(r.register(1, 4)); got != "<nil>" {
		t.Fatal(got)
	}
	// A long batch: the lease ends before what would be answered at once.
	r.store.turn(true)
	again := make(chan result[coordinator.RegisterAck], 1)
	r.inbox.mu.Lock()
	r.inbox.items = append(r.inbox.items,
		func() { time.Sleep(3 * time.Second) },
		func() {
			r.registers[region1(1)] = append(r.registers[region1(1)], again)
			r.step(coordinator.Register{Region: region1(1), Types: []sharding.TypeDesc{{Type: "T0", Shards: 4}}})
		})
	r.inbox.mu.Unlock()
	r.inbox.wake <- struct{}{}
	time.Sleep(10 * time.Second)
	select {
	case a := <-again:
		if a.err == nil {
			t.Errorf("past its lease it acknowledges: %+v", a.ack)
		}
	default:
	}
	// A record becomes durable when the lease is over.
	r.store.turn(false)
	r.elected()
	if got := outcome(r.register(1, 4)); got != "<nil>" {
		t.Fatal(got)
	}
	before := r.told()
	r.backend.fall(errSilent)
	r.home(0)
	r.store.turn(true)
	r.inbox.put(func() { time.Sleep(3 * time.Second); r.backend.recover(); time.Sleep(time.Second) })
	time.Sleep(10 * time.Second)
	if r.told() > before {
		t.Errorf("past its lease it sends %v", r.orders)
	}
}

// TestSecondCluster: a cluster that was formed on the journal of another one, of
// the same name and with a lease of its own, ends with a message that says what to
// do. The first is not harmed.
func TestSecondCluster(t *testing.T) {
	for name, term2 := range map[string]sharding.Term{"its lease is new": 0, "its lease has a low term": 2, "its lease has a high term": 99} {
		synctest.Test(t, func(t *testing.T) {
			first := drive(t, coordinator.DefaultConfig(), nil)
			for range 3 { // so that its term is not the lowest
				term, _, _ := first.state()
				first.keeper.RaiseTerm(term)
				for now := term; now <= term; {
					time.Sleep(100 * time.Millisecond)
					now = first.elected()
				}
			}
			if got := outcome(first.register(1, 4)); got != "<nil>" {
				t.Fatal(got)
			}
			term, _, _ := first.state()
			time.Sleep(5 * time.Second)
			lease := &quiet{Store: leasememory.New()}
			if term2 > 0 {
				lease.used(t, term2)
			}
			second := launchOn(t, coordinator.DefaultConfig(), first.backend.Backend, lease)
			time.Sleep(time.Minute)
			if second.failed == nil || !errors.Is(second.failed, errContested) || !strings.Contains(second.failed.Error(), driven.Addr) ||
				!strings.Contains(second.failed.Error(), first.lease1().String()) || !strings.Contains(second.failed.Error(), second.lease1().String()) {
				t.Errorf("%s: the second cluster ends with %v: %s", name, second.failed, second.text.b.String())
			}
			if now, _, _ := first.state(); now != term || first.failed != nil || first.text.has("fenced") {
				t.Errorf("%s: the first cluster was in term %d and is in %d, %v", name, term, now, first.failed)
			}
			first.home(0)
			time.Sleep(time.Second)
			if first.told() == 0 {
				t.Errorf("%s: the first cluster decides nothing", name)
			}
		})
	}
}

// used makes a record as another cluster's coordinator leaves it.
func (q *quiet) used(t *testing.T, term sharding.Term) {
	r := lease.Record{Term: term, TTL: time.Second, Nonce: 3, Cluster: 3, Holder: region1(9)}
	if ok, err := q.Store.Swap(t.Context(), "coordinator.dev", lease.Record{}, r); !ok || err != nil {
		t.Fatal(ok, err)
	}
}

// lease1 is whose lease the driver's is.
func (r *rig) lease1() sharding.ClusterID {
	l, err := r.store.Store.Get(r.ctx, "coordinator.dev")
	if err != nil {
		r.t.Fatal(err)
	}
	return l.Cluster
}

// TestFormerCluster: a journal whose cluster leaves no sign of life any more is the
// next one's, whatever the terms of its lease, and the former finds that out when it
// comes back.
func TestFormerCluster(t *testing.T) {
	for name, term2 := range map[string]sharding.Term{"a lost lease record": 0, "a lease of high terms": 99} {
		synctest.Test(t, func(t *testing.T) {
			first := drive(t, coordinator.DefaultConfig(), nil)
			time.Sleep(5 * time.Second)
			first.keeper.SetRank(-1)
			first.in(func() { first.step(coordinator.Lost{Term: first.core.Active()}) })
			first.keeper.Yield()
			time.Sleep(time.Second)
			lease := &quiet{Store: leasememory.New()}
			if term2 > 0 {
				lease.used(t, term2)
			}
			second := launchOn(t, coordinator.DefaultConfig(), first.backend.Backend, lease)
			start := time.Now()
			second.elected()
			if took := time.Since(start); took < 4*time.Second || took > 16*time.Second || !second.text.has("another cluster's") || !second.text.has(first.lease1().String()) {
				t.Errorf("%s: it took over after %v: %s", name, took, second.text.b.String())
			}
			if s, err := second.journal.Sign(t.Context()); err != nil || s.Cluster != second.lease1() {
				t.Errorf("%s: the journal says %+v, %v", name, s, err)
			}
			first.keeper.SetRank(0)
			time.Sleep(time.Minute)
			if !errors.Is(first.failed, errContested) || second.failed != nil || second.text.has("fenced") {
				t.Errorf("%s: the former ends with %v, the next with %v", name, first.failed, second.failed)
			}
		})
	}
}

// TestSignBeforeFacts: whose journal it is stands there before anything is decided.
func TestSignBeforeFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drive(t, coordinator.DefaultConfig(), nil)
		r.in(func() {
			if s, err := r.journal.Sign(t.Context()); err != nil || s.Cluster == 0 || s.Cluster != r.lease1() || s.Coordinator != r.self || s.Term != r.core.Active() {
				t.Errorf("in term %d the journal says %+v, %v", r.core.Active(), s, err)
			}
		})
	})
}

// TestSilentJournal: what waits for a journal that does not answer does not grow
// with time, whatever regions and gateways go on to ask; then all is well.
func TestSilentJournal(t *testing.T) {
	const shards = 16384
	for _, illness := range []error{errSilent, fmt.Errorf("locked: %w", journal.ErrNotCommitted)} {
		synctest.Test(t, func(t *testing.T) {
			r := drive(t, coordinator.DefaultConfig(), nil)
			for n := range 3 {
				if got := outcome(r.register(n+1, shards)); got != "<nil>" {
					t.Fatal(got)
				}
			}
			r.in(func() {
				for i := range uint32(shards) {
					r.step(coordinator.GetShardHome{Shard: sharding.ShardID{Type: "T0", Index: i}})
				}
			})
			time.Sleep(100 * time.Millisecond)
			r.mu.Lock()
			delete(r.orders, region1(2)) // its shards go on starting
			r.mu.Unlock()
			r.serve()
			r.backend.fall(illness)
			r.in(func() { r.step(coordinator.MemberGone{Node: region1(1)}) })
			for i := range 4 * 60 * 2 { // four minutes
				r.crowd(i)
				_, outputs, bytes := r.state()
				calls := 0
				r.in(func() { calls = len(r.watches) + len(r.registers) + len(r.registers[region1(2)]) })
				// For each shard a fact and an order, and an order of before.
				if outputs > 3*shards || bytes > 16<<20 || calls > 40 {
					t.Fatalf("%v: %d outputs, %d bytes and %d calls wait after %v", illness, outputs, bytes, calls, time.Duration(i)*500*time.Millisecond)
				}
				time.Sleep(500 * time.Millisecond)
			}
			r.backend.recover()
			for range 100 {
				r.serve()
				time.Sleep(200 * time.Millisecond)
			}
			r.in(func() {
				v := r.core.View()
				bad := slices.IndexFunc(v.Rows, func(row sharding.Row) bool { return row.Phase != sharding.Serving || row.Owner == region1(1) })
				if len(v.Rows) != shards || bad >= 0 {
					t.Errorf("%v: afterwards %d shards, not served: %v", illness, len(v.Rows), v.Rows[max(bad, 0)])
				}
			})
		})
	}
}

// crowd is what goes on around a coordinator: a region registers again and is
// suspected now and then, gateways ask for shards and poll the table.
func (r *rig) crowd(i int) {
	r.in(func() {
		r.step(coordinator.Member{Node: region1(2), Reachable: i%50 > 5})
		r.step(coordinator.Member{Node: region1(3), Reachable: (i+25)%50 > 5})
		for n := range uint32(100) {
			shard := sharding.ShardID{Type: "T0", Index: uint32(i)*100%16384 + n}
			r.step(coordinator.GetShardHome{Shard: shard, Refused: sharding.MakeEpoch(r.core.Active(), 1)})
		}
	})
	call := func(f func(context.Context)) {
		go func() {
			ctx, cancel := context.WithTimeout(r.ctx, 2*time.Second)
			defer cancel()
			f(ctx)
		}()
	}
	call(func(ctx context.Context) {
		_, _ = service{r.Server}.WatchTable(ctx, &coordinatorv1.WatchTableRequest{Cluster: "dev"})
	})
	call(func(ctx context.Context) {
		_, _ = service{r.Server}.Register(ctx, &coordinatorv1.RegisterRequest{
			Cluster: "dev", Region: wire.ToNode(region1(2)), Types: []*coordinatorv1.Type{{Name: "T0", Shards: 16384}},
		})
	})
	synctest.Wait()
}

// TestTooMuchWaits: above the limit the coordinator steps down and says why.
func TestTooMuchWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := coordinator.DefaultConfig()
		limits.MaxHeld = 20
		r := drive(t, limits, nil)
		ack := r.register(1, 64)
		if got := outcome(ack); got != "<nil>" {
			t.Fatal(got)
		}
		r.keeper.SetRank(-1) // else it would be elected again at once, and wait
		r.backend.fall(errSilent)
		for i := range uint32(20) {
			r.home(i)
		}
		if _, held := r.keeper.Valid(); held {
			t.Error("it keeps the lease")
		}
		if term, outputs, _ := r.state(); term != 0 || outputs != 0 || !r.text.has("stepped down") || !r.text.has("it does not answer") {
			t.Errorf("in term %d with %d outputs: %s", term, outputs, r.text.b.String())
		}
		r.backend.recover()
		r.elected()
	})
}

// TestLargeTable: the facts of the largest table that may be configured are
// compacted, in records that the journal takes, and read back.
func TestLargeTable(t *testing.T) {
	limits := coordinator.DefaultConfig()
	var types, rows []coordinator.Fact
	for i := range limits.MaxShards / sharding.MaxShards {
		typ := sharding.EntityType(fmt.Sprint("T", i))
		types = append(types, coordinator.TypeFact{Desc: sharding.TypeDesc{Type: typ, Shards: sharding.MaxShards}})
		for s := range uint32(sharding.MaxShards) {
			rows = append(rows, coordinator.RowFact{Row: sharding.Row{
				Shard: sharding.ShardID{Type: typ, Index: s}, Owner: region1(1), Epoch: sharding.MakeEpoch(1, uint32(len(rows)+1)), Phase: sharding.Serving,
			}})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		const records = 600
		r := drive(t, limits, func(b *memory.Backend) {
			epoch := sharding.MakeEpoch(1, 0)
			ops := []journal.Op{{Claim: &sharding.Claim{Shard: streamShard, Epoch: epoch, Owner: 1}}}
			for i := range records {
				list := types
				if i > 0 {
					list = rows[len(rows)*(i-1)/(records-1) : len(rows)*i/(records-1)]
				}
				record := sharding.Record{Seq: uint64(i + 1)}
				for _, f := range list {
					record.Events = append(record.Events, encodeFact(f))
				}
				ops = append(ops, journal.Op{Append: &sharding.Append{Shard: streamShard, Epoch: epoch, Entity: streamEntity, Records: []sharding.Record{record}}})
			}
			for _, op := range ops {
				if res, err := b.Commit(t.Context(), []journal.Op{op}); err != nil || res[0].Verdict != sharding.Durable {
					t.Fatal(res, err)
				}
			}
		})
		// The owner is gone, all shards move, and the stream is twice as long as
		// the table.
		time.Sleep(3 * time.Second)
		r.register(2, sharding.MaxShards, sharding.MaxShards, sharding.MaxShards, sharding.MaxShards)
		var found journal.Loaded
		for range 10 {
			time.Sleep(time.Second)
			var err error
			if found, err = r.journal.Load(r.ctx, journal.LoadRequest{Entity: streamEntity}); err != nil {
				t.Fatal(err)
			}
			if found.Snapshot.Seq > 0 {
				break
			}
		}
		if found.Snapshot.Seq < records || len(found.Snapshot.Payload) > 0 {
			t.Fatalf("the snapshot is at %d of %d: %s", found.Snapshot.Seq, found.LastSeq, r.text.b.String())
		}
		facts, _, err := decodeFacts(found)
		if err != nil {
			t.Fatal(err)
		}
		var want, got coordinator.View
		r.in(func() { want = r.core.View() })
		next := coordinator.New(limits)
		next.Step(time.Now(), coordinator.Elected{Term: 99, Facts: facts}, nil)
		got = next.View()
		if len(got.Rows) != limits.MaxShards || !slices.Equal(got.Rows, want.Rows) {
			t.Errorf("%d rows are read back, %d are there", len(got.Rows), len(want.Rows))
		}
	})
}

// TestSnapshotIsTriedAgain: a snapshot of the facts that is refused is counted,
// logged, and written again.
func TestSnapshotIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := coordinator.DefaultConfig()
		limits.CompactAfter = 2
		r := drive(t, limits, nil)
		r.register(1, 8)
		r.backend.mu.Lock()
		r.backend.refuseSnapshots = 3
		r.backend.mu.Unlock()
		for i := range uint32(8) {
			r.home(i)
			r.serve()
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Second)
		found, err := r.journal.Load(r.ctx, journal.LoadRequest{Entity: streamEntity})
		if err != nil || found.Snapshot.Seq == 0 || !r.text.has("trying again") {
			t.Errorf("snapshot %d, %v: %s", found.Snapshot.Seq, err, r.text.b.String())
		}
	})
}
