package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
)

// These tests check that the driver obeys the journal: they script the journal's
// answers, and look at the region's answers.

// script is a journal in memory whose answers may be changed.
type script struct {
	journal.Backend
	mu     sync.Mutex
	lose   int // commits whose outcome gets lost, and that do not happen
	loads  int
	failed error // of all loads
}

func (s *script) Commit(ctx context.Context, ops []journal.Op) ([]journal.Result, error) {
	s.mu.Lock()
	lose := s.lose > 0
	if lose {
		s.lose--
	}
	s.mu.Unlock()
	if lose {
		return nil, errors.New("the connection is gone")
	}
	return s.Backend.Commit(ctx, ops)
}

func (s *script) Load(ctx context.Context, req journal.LoadRequest) (journal.Loaded, error) {
	s.mu.Lock()
	s.loads++
	err := s.failed
	s.mu.Unlock()
	if err != nil {
		return journal.Loaded{}, err
	}
	return s.Backend.Load(ctx, req)
}

// driven is a runner on a scripted journal.
type driven struct {
	*Runner
	t       *testing.T
	store   *memory.Backend
	script  *script
	journal *commit.Journal
	answers *answers
	number  uint64
}

var (
	drivenShard = sharding.ShardID{Type: "Tally"}
	drivenEpoch = sharding.MakeEpoch(1, 1)

	drivenEntity = sharding.Entity{Type: "Tally", ID: "a"}
)

// drive runs a test in virtual time, with one shard claimed.
func drive(t *testing.T, typ entity.Definition, test func(t *testing.T, d *driven)) {
	driveBy(t, 0, typ, test)
}

// driveBy is drive with a store whose clock is fast compared with the region's clock.
func driveBy(t *testing.T, ahead time.Duration, typ entity.Definition, test func(t *testing.T, d *driven)) {
	synctest.Test(t, func(t *testing.T) {
		d := &driven{t: t, store: memory.New(journal.DefaultConfig()), answers: &answers{got: map[uint64]link.Answer{}}}
		began := time.Now()
		d.store.SetClock(func() (time.Time, time.Duration) { now := time.Now(); return now.Add(ahead), now.Sub(began) })
		d.script = &script{Backend: d.store}
		var err error
		d.Runner, err = NewRunner(RunnerConfig{
			Self: sharding.NodeID{Addr: "here:1", UID: 7}, Name: "r", Types: []entity.Definition{typ}, Inbox: 100,
			StopTimeout: time.Second, Log: slog.New(slog.DiscardHandler), Outside: func(region.ControlOutput) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		d.journal, err = commit.Open(t.Context(), d.script, journal.Declaration{Cluster: "c"}, journal.DefaultConfig(), commit.Observer{})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.journal.ReadClock(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.Use(d.journal)
		var all sync.WaitGroup
		all.Go(d.Run)
		t.Cleanup(func() {
			d.End()
			all.Wait()
			if err := d.journal.Close(); err != nil {
				t.Error(err)
			}
		})
		d.Put(region.Received{From: "c:1", Msg: control.HostShard{Term: 1, Shard: drivenShard, Epoch: drivenEpoch}})
		synctest.Wait()
		test(t, d)
	})
}

// send sends a keyed command, whose key is its number.
func (d *driven) send(command, payload string) uint64 {
	d.number++
	d.Submit(d.answers, []link.Command{{Number: d.number, Epoch: drivenEpoch, Envelope: sharding.Envelope{
		Entity: drivenEntity, Command: command, ID: sharding.CommandID(fmt.Sprint("k", d.number)),
		Keyed: true, Payload: []byte(payload), Deadline: time.Now().Add(time.Minute),
	}}})
	return d.number
}

// answer returns the answer to a command; there must be one.
func (d *driven) answer(number uint64) link.Answer {
	d.t.Helper()
	synctest.Wait()
	d.answers.mu.Lock()
	defer d.answers.mu.Unlock()
	a, ok := d.answers.got[number]
	if !ok {
		d.t.Fatalf("command %d is not answered", number)
	}
	return a
}

// depose gives the shard to another region.
func (d *driven) depose() {
	d.store.Inspect(func(l *memory.Ledger) {
		l.Apply(journal.Moment{Wall: time.Now()}, []journal.Op{{Claim: &sharding.Claim{Shard: drivenShard, Epoch: drivenEpoch + 1, Owner: 8}}})
	})
}

// storeEvents appends a record for each event, as an earlier owner would have.
func (d *driven) storeEvents(events ...sharding.Event) {
	d.store.Inspect(func(l *memory.Ledger) {
		for i, ev := range events {
			l.Apply(journal.Moment{Wall: time.Now()}, []journal.Op{{Append: &sharding.Append{
				Shard: drivenShard, Epoch: drivenEpoch, Entity: drivenEntity,
				Records: []sharding.Record{{Seq: uint64(i + 1), Events: []sharding.Event{ev}}},
			}}})
		}
	})
}

// stored are the ids of the entity's commands, in order.
func (d *driven) stored() string {
	var ids string
	d.store.Inspect(func(l *memory.Ledger) {
		for _, c := range l.Log() {
			for _, r := range c.Append.Records {
				ids += string(r.Command) + " "
			}
		}
	})
	return ids
}

// abacus is an entity whose snapshots may be held up.
type abacus struct {
	N   int
	cut *slowCut
}

type slowCut struct {
	hold    bool
	cutting chan struct{}
	goOn    chan struct{}
}

type counted struct{ By int }

func (c *abacus) Snapshot() ([]byte, error) {
	before := c.N
	if c.cut.hold {
		c.cut.cutting <- struct{}{}
		<-c.cut.goOn
	}
	if c.N != before {
		return nil, fmt.Errorf("a turn has run while the snapshot was taken: %d is %d", before, c.N)
	}
	return json.Marshal(c.N)
}

func (c *abacus) Restore(b []byte) error { return json.Unmarshal(b, &c.N) }

func abaci(cut *slowCut, options ...entity.TypeOption) entity.Definition {
	return entity.Define("Tally", func(string) *abacus { return &abacus{cut: cut} },
		entity.On(entity.Command[int, int]("Tally", "Add"), func(c *abacus, ctx *entity.Ctx, by int) (int, error) {
			ctx.Persist(counted{by})
			return c.N, nil
		}),
		entity.On(entity.Command[struct{}, int]("Tally", "Get", entity.ReadOnly()), func(c *abacus, _ *entity.Ctx, _ struct{}) (int, error) {
			return c.N, nil
		}),
		entity.Event("counted", func(c *abacus, ev counted) { c.N += ev.By }),
		entity.With[abacus](entity.Shards(1), entity.SnapshotEvery(2)),
		entity.With[abacus](options...),
	)
}

// TestRefusedAppendIsNotAcknowledged: what the fence refuses is not durable.
func TestRefusedAppendIsNotAcknowledged(t *testing.T) {
	drive(t, abaci(&slowCut{}), func(t *testing.T, d *driven) {
		if a := d.answer(d.send("Add", "1")); a.Reply.Outcome != sharding.Executed || string(a.Reply.Payload) != "1" {
			t.Fatalf("answer %+v", a)
		}
		d.depose()
		if a := d.answer(d.send("Add", "1")); a.NotMine == nil {
			t.Errorf("refused by epoch, and answered %+v; stored: %s", a, d.stored())
		}
	})
}

// TestLostOutcomeIsSettled: what got lost is not durable before it is settled and
// done again.
func TestLostOutcomeIsSettled(t *testing.T) {
	drive(t, abaci(&slowCut{}), func(t *testing.T, d *driven) {
		d.answer(d.send("Add", "1"))
		d.script.lose = 2 // the append, and the first attempt to settle it
		number := d.send("Add", "1")
		synctest.Wait()
		d.answers.mu.Lock()
		early, answered := d.answers.got[number]
		d.answers.mu.Unlock()
		if answered {
			t.Fatalf("nothing is known, and it is answered %+v; stored: %s", early, d.stored())
		}
		time.Sleep(time.Second)
		if a := d.answer(number); string(a.Reply.Payload) != "2" || d.stored() != "k1  k2 " {
			t.Errorf("answer %+v; stored: %q", a, d.stored())
		}
	})
}

// TestDeposedOwnerDoesNotRead: a read reads the fence, and obeys it.
func TestDeposedOwnerDoesNotRead(t *testing.T) {
	drive(t, abaci(&slowCut{}), func(t *testing.T, d *driven) {
		d.answer(d.send("Add", "1"))
		d.depose()
		if a := d.answer(d.send("Get", "")); a.NotMine == nil {
			t.Errorf("deposed, and answered %+v", a)
		}
	})
}

// TestUnreadFenceHoldsTheAnswer: a read whose fence could not be read waits.
func TestUnreadFenceHoldsTheAnswer(t *testing.T) {
	drive(t, abaci(&slowCut{}), func(t *testing.T, d *driven) {
		d.answer(d.send("Add", "1"))
		d.script.lose = 1
		number := d.send("Get", "")
		synctest.Wait()
		d.answers.mu.Lock()
		_, answered := d.answers.got[number]
		d.answers.mu.Unlock()
		if answered {
			t.Fatal("answered though the fence was not read")
		}
		time.Sleep(time.Second)
		if a := d.answer(number); string(a.Reply.Payload) != "1" {
			t.Errorf("answer %+v", a)
		}
	})
}

// TestDamagedEntityIsRefusedAtOnce: damage does not go away by loading again; a
// store that does not answer may.
func TestDamagedEntityIsRefusedAtOnce(t *testing.T) {
	drive(t, abaci(&slowCut{}), func(t *testing.T, d *driven) {
		d.script.failed = fmt.Errorf("%w: record 1", journal.ErrCorrupt)
		a := d.answer(d.send("Get", ""))
		if a.Reply.Outcome != sharding.NotApplied || a.Reply.Code != sharding.DataLoss || d.script.loads != 1 {
			t.Errorf("answer %+v after %d loads", a, d.script.loads)
		}
		d.script.failed = errors.New("the connection is gone")
		number := d.send("Get", "")
		time.Sleep(time.Second)
		d.script.mu.Lock()
		d.script.failed = nil
		d.script.mu.Unlock()
		time.Sleep(time.Second)
		if a := d.answer(number); a.Reply.Outcome != sharding.Executed {
			t.Errorf("answer %+v after %d loads", a, d.script.loads)
		}
	})
}

// TestNoTurnBesideASnapshot: while a snapshot is taken, its instance runs no turn.
func TestNoTurnBesideASnapshot(t *testing.T) {
	cut := &slowCut{hold: true}
	drive(t, abaci(cut), func(t *testing.T, d *driven) {
		cut.cutting, cut.goOn = make(chan struct{}), make(chan struct{})
		first := []uint64{d.send("Add", "1"), d.send("Add", "1")}
		select {
		case <-cut.cutting:
		case <-time.After(time.Minute):
			t.Fatal("no snapshot is taken")
		}
		for _, number := range first {
			d.answer(number)
		}
		held := d.send("Add", "1")
		synctest.Wait()
		d.answers.mu.Lock()
		_, answered := d.answers.got[held]
		d.answers.mu.Unlock()
		if answered || d.stored() != "k1 k2 " {
			t.Errorf("a turn has run while a snapshot was taken; stored: %s", d.stored())
		}
		cut.hold = false
		close(cut.goOn)
		if a := d.answer(held); string(a.Reply.Payload) != "3" {
			t.Errorf("answer %+v", a)
		}
	})
}

// sleeper is an entity whose start hook waits for something that never comes.
type sleeper struct{ starting *atomic.Int64 }

func (s *sleeper) OnStart(ctx *entity.Ctx) error {
	s.starting.Add(1)
	defer s.starting.Add(-1)
	<-ctx.Done()
	return ctx.Err()
}

// TestHangingStartHookEnds: a load that is begun again does not leave the start hook
// of the one before it behind, or each would keep a goroutine.
func TestHangingStartHookEnds(t *testing.T) {
	starting := new(atomic.Int64)
	get := entity.Command[struct{}, int]("Tally", "Get", entity.ReadOnly())
	sleepers := entity.Define("Tally", func(string) *sleeper { return &sleeper{starting} },
		entity.On(get, func(*sleeper, *entity.Ctx, struct{}) (int, error) { return 0, nil }),
		entity.With[sleeper](entity.Volatile(), entity.Shards(1)),
	)
	drive(t, sleepers, func(t *testing.T, d *driven) {
		c := d.send("Get", "")
		synctest.Wait()
		if starting.Load() != 1 {
			t.Fatal("the hook does not run")
		}
		time.Sleep(2 * time.Minute) // beyond the deadline of the command
		if a := d.answer(c); a.Reply.Outcome != sharding.NotApplied {
			t.Errorf("the command is answered %+v", a.Reply)
		}
		if n := starting.Load(); n != 0 {
			t.Errorf("%d start hooks have not ended", n)
		}
	})
}

// stubborn is an entity whose start hook does not listen to its context.
type stubborn struct {
	starting *atomic.Int64
	end      chan struct{}
}

func (s *stubborn) OnStart(*entity.Ctx) error {
	s.starting.Add(1)
	defer s.starting.Add(-1)
	<-s.end
	return nil
}

// TestStubbornStartHooksAreFew: a command for an entity whose start hook never ends
// is refused when a few such hooks keep a goroutine, and served when they have ended.
func TestStubbornStartHooksAreFew(t *testing.T) {
	s := stubborn{starting: new(atomic.Int64)}
	get := entity.Command[struct{}, int]("Tally", "Get", entity.ReadOnly())
	def := entity.Define("Tally", func(string) *stubborn { return &s },
		entity.On(get, func(*stubborn, *entity.Ctx, struct{}) (int, error) { return 0, nil }),
		entity.With[stubborn](entity.Volatile(), entity.Shards(1)),
	)
	drive(t, def, func(t *testing.T, d *driven) {
		s.end = make(chan struct{})
		refused := 0
		for range 6 {
			c := d.send("Get", "")
			time.Sleep(61 * time.Second) // beyond the deadline of the command
			if a := d.answer(c); a.Reply.Outcome != sharding.NotApplied {
				t.Errorf("a command is answered %+v", a.Reply)
			} else if a.Reply.Code == sharding.Unavailable {
				refused++
			}
		}
		if n := s.starting.Load(); n > 4 || refused == 0 {
			t.Errorf("%d start hooks run, %d commands were refused", n, refused)
		}
		close(s.end)
		synctest.Wait()
		c := d.send("Get", "")
		synctest.Wait()
		if a := d.answer(c); a.Reply.Outcome != sharding.Executed {
			t.Errorf("when the hooks have ended a command is answered %+v", a.Reply)
		}
	})
}
