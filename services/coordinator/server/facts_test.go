package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/memory"
	leasememory "github.com/roost-cluster/roost/libs/lease/memory"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	"github.com/roost-cluster/roost/services/coordinator"
)

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
			if err := r.look(r.ctx, r.journalReadiness); err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%v: the readiness says %v", illness, err)
			}
			r.backend.recover()
			time.Sleep(time.Second)
			if got := outcome(ack); got != "<nil>" || r.told() == 0 || r.failed() != nil {
				t.Errorf("%v: the registration is answered with %s, %d orders have left, %v", illness, got, r.told(), r.failed())
			}
			if err := r.look(r.ctx, r.journalReadiness); err != nil {
				t.Errorf("%v: afterwards the readiness says %v", illness, err)
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

// TestUnreadableFacts: a coordinator that has the lease and cannot read its facts is not active, and its readiness
// has the reason and the remedy. It takes over when they can be read, and then warns no more.
func TestUnreadableFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := coordinator.DefaultConfig()
		r := launchOn(t, limits, memory.New(journal.DefaultConfig()), &quiet{Backend: leasememory.New(), off: true}) // it must not take over yet
		if err := r.look(r.ctx, r.journalReadiness); err != nil {
			t.Errorf("before, the readiness says %v", err)
		}
		r.backend.tear(fmt.Errorf("page 8: %w", journal.ErrCorrupt))
		tries := func() {
			r.store.turn(false)
			for range 600 {
				r.keeper.SetRank(0)
				time.Sleep(100 * time.Millisecond)
			}
		}
		tries()
		term, _, _ := r.state()
		err := r.look(r.ctx, r.journalReadiness)
		if term != 0 || err == nil || !strings.Contains(err.Error(), "cannot take over") || !strings.Contains(err.Error(), "roost journal repair facts --dry-run") || !strings.Contains(err.Error(), "page 8") {
			t.Errorf("term %d, the readiness says %v", term, err)
		}
		r.store.turn(true) // it loses the lease, so that another one could take over
		time.Sleep(2*limits.TakeoverTimeout + time.Minute)
		if err := r.look(r.ctx, r.journalReadiness); err != nil {
			t.Errorf("long after the last attempt, the readiness says %v", err)
		}
		tries()
		r.backend.tear(nil)
		r.elected()
		if err := r.look(r.ctx, r.journalReadiness); err != nil {
			t.Errorf("afterwards, the readiness says %v", err)
		}
	})
}

// TestFactsOfNoForm: facts whose checksums are right but that cannot be decoded are damaged as well. The process
// does not end, and takes over when they were repaired.
func TestFactsOfNoForm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(journal.DefaultConfig())
		at := sharding.MakeEpoch(1, 0)
		commit := func(ops ...journal.Op) {
			t.Helper()
			for _, op := range ops {
				if res, err := b.Commit(t.Context(), []journal.Op{op}); err != nil || res[0].Verdict != sharding.Durable {
					t.Fatalf("%s: %v, %v", op.Kind(), res, err)
				}
			}
		}
		claim := func(at sharding.Epoch) journal.Op {
			return journal.Op{Claim: &sharding.Claim{Shard: streamShard, Epoch: at, Owner: 99}}
		}
		commit(claim(at), journal.Op{Append: &sharding.Append{Shard: streamShard, Epoch: at, Entity: streamEntity, Records: []sharding.Record{
			{Seq: 1, Events: []sharding.Event{{Name: "row", Encoding: sharding.Protobuf, Payload: []byte{0xff}}}},
		}}})
		r := launchOn(t, coordinator.DefaultConfig(), b, &quiet{Backend: leasememory.New()})
		time.Sleep(time.Minute)
		term, _, _ := r.state()
		err := r.look(r.ctx, r.journalReadiness)
		if term != 0 || r.failed() != nil || err == nil || !strings.Contains(err.Error(), "roost journal repair facts --dry-run") || !r.text.has("roost journal check --facts") {
			t.Errorf("term %d, failed: %v, the readiness says %v", term, r.failed(), err)
		}
		at = sharding.MakeEpoch(1000, 0) // as a repair does
		commit(claim(at), journal.Op{Snapshot: &journal.WriteSnapshot{Shard: streamShard, Epoch: at, Entity: streamEntity, Snapshot: journal.Snapshot{Seq: 1, Encoding: sharding.Protobuf}}})
		r.elected()
		if term, _, _ := r.state(); term <= 1000 {
			t.Errorf("term %d", term)
		}
	})
}

// TestFactsMissing: a coordinator that finds records of an entity but no facts logs it.
func TestFactsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(journal.DefaultConfig())
		anna, at := sharding.Entity{Type: "Cart", ID: "anna"}, sharding.MakeEpoch(1, 1)
		if _, err := b.Declare(t.Context(), journal.Declaration{Cluster: "dev", Types: []sharding.TypeDesc{{Type: "Cart", Shards: 4}}}); err != nil {
			t.Fatal(err)
		}
		shard := sharding.ShardID{Type: "Cart", Index: shardingtest.ShardOf("anna", 4)}
		for _, op := range []journal.Op{
			{Claim: &sharding.Claim{Shard: shard, Epoch: at, Owner: 99}},
			{Append: &sharding.Append{Shard: shard, Epoch: at, Entity: anna, Records: []sharding.Record{{Seq: 1}}}},
		} {
			if res, err := b.Commit(t.Context(), []journal.Op{op}); err != nil || res[0].Verdict != sharding.Durable {
				t.Fatalf("%s: %v, %v", op.Kind(), res, err)
			}
		}
		r := launchOn(t, coordinator.DefaultConfig(), b, &quiet{Backend: leasememory.New()})
		r.elected()
		if !r.text.has("coordinators' facts are gone") || !r.text.has("Cart/anna") {
			t.Errorf("the log says %s", r.text.b.String())
		}
	})
}

// TestSilentJournal: what waits for a journal that does not answer does not grow
// with time, whatever regions and gateways go on to ask; then all is well.
func TestSilentJournal(t *testing.T) {
	const shards = 16384
	minutes := 4
	if testing.Short() {
		minutes = 1
	}
	for _, illness := range []error{errSilent, fmt.Errorf("locked: %w", journal.ErrNotCommitted)} {
		alongside(t, illness.Error(), func(t *testing.T) {
			r := drive(t, coordinator.DefaultConfig(), nil)
			for n := range 3 {
				if got := outcome(r.register(n+1, shards)); got != "<nil>" {
					t.Fatal(got)
				}
			}
			r.in(func() {
				for i := range uint32(shards) {
					r.step(coordinator.Received{Msg: control.GetShardHome{Shard: sharding.ShardID{Type: "T0", Index: i}}})
				}
			})
			time.Sleep(100 * time.Millisecond)
			r.mu.Lock()
			delete(r.orders, region1(2)) // its shards go on starting
			r.mu.Unlock()
			r.serve()
			r.backend.fall(illness)
			r.in(func() { r.step(coordinator.MemberGone{Node: region1(1)}) })
			for i := range minutes * 60 * 2 {
				r.crowd(i)
				_, outputs, bytes := r.state()
				calls := 0
				r.in(func() { calls = r.calls.Len() })
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

// alongside runs a subtest in a bubble, while other subtests run in theirs.
func alongside(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, test)
	})
}

// crowd is what continues around a coordinator: a region registers again and is
// suspected from time to time, gateways ask for shards and poll the table.
func (r *rig) crowd(i int) {
	r.in(func() {
		r.step(coordinator.Member{Node: region1(2), Reachable: i%50 > 5})
		r.step(coordinator.Member{Node: region1(3), Reachable: (i+25)%50 > 5})
		for n := range uint32(100) {
			shard := sharding.ShardID{Type: "T0", Index: uint32(i)*100%16384 + n}
			r.step(coordinator.Received{Msg: control.GetShardHome{Shard: shard, Refused: sharding.MakeEpoch(r.core.ActiveTerm(), 1)}})
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
		_, _ = service{r.Server}.Answer(ctx, sharding.NodeID{}, control.WatchTable{}, 100)
	})
	call(func(ctx context.Context) {
		_, _ = service{r.Server}.Answer(ctx, region1(2), control.Register{Types: []sharding.TypeDesc{{Type: "T0", Shards: 16384}}}, 100)
	})
	synctest.Wait()
}

// TestTooMuchWaits: above the limit the coordinator steps down and logs the reason.
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
			t.Fatalf("the mark is at %d of %d: %s", found.Snapshot.Seq, found.LastSeq, r.text.b.String())
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

// TestCheckpointIsTriedAgain: a checkpoint of the facts that is refused is counted,
// logged, and written again.
func TestCheckpointIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := coordinator.DefaultConfig()
		limits.CompactAfter = 2
		r := drive(t, limits, nil)
		r.register(1, 8)
		r.backend.mu.Lock()
		r.backend.refuseCheckpoints = 3
		r.backend.mu.Unlock()
		for i := range uint32(8) {
			r.home(i)
			r.serve()
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Second)
		found, err := r.journal.Load(r.ctx, journal.LoadRequest{Entity: streamEntity})
		if err != nil || found.Snapshot.Seq == 0 || !r.text.has("retrying") {
			t.Errorf("checkpoint %d, %v: %s", found.Snapshot.Seq, err, r.text.b.String())
		}
		// The facts before it are trimmed, and the later ones are all.
		if found.Cut != found.Snapshot.Seq {
			t.Errorf("facts up to record %d are trimmed, the mark is at %d", found.Cut, found.Snapshot.Seq)
		}
		if _, err := r.journal.Load(r.ctx, journal.LoadRequest{Entity: streamEntity, WithoutSnapshot: true}); !errors.Is(err, journal.ErrTrimmed) {
			t.Errorf("the facts can be read from the first one on: %v", err)
		}
	})
}
