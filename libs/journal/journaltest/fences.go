package journaltest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

func testClaims(e *env) {
	for _, step := range []struct {
		epoch sharding.Epoch
		owner sharding.NodeUID
		want  sharding.Verdict
		found sharding.Fence // before the claim
	}{
		{0, 0, byEpoch, sharding.Fence{}},                               // no epoch at all
		{epoch, 1, durable, sharding.Fence{}},                           // first
		{epoch, 1, durable, sharding.Fence{Epoch: epoch, Owner: 1}},     // again: its reply was lost
		{epoch, 2, byEpoch, sharding.Fence{Epoch: epoch, Owner: 1}},     // another owner at the same epoch
		{epoch - 1, 1, byEpoch, sharding.Fence{Epoch: epoch, Owner: 1}}, // lower, same owner
		{epoch - 1, 2, byEpoch, sharding.Fence{Epoch: epoch, Owner: 1}}, // lower
		{epoch + 1, 1, durable, sharding.Fence{Epoch: epoch, Owner: 1}},
		{epoch + 2, 2, durable, sharding.Fence{Epoch: epoch + 1, Owner: 1}},
		{1<<64 - 1, 1<<64 - 1, durable, sharding.Fence{Epoch: epoch + 2, Owner: 2}}, // all bits
		{1<<63 - 1, 2, byEpoch, sharding.Fence{Epoch: 1<<64 - 1, Owner: 1<<64 - 1}},
	} {
		r := e.one(step.want, claim(shard, step.epoch, step.owner))
		e.equal("fence before the claim", r.Fence, step.found)
	}
	// Other shards are not concerned, not even those with the same index.
	e.one(durable, claim(sharding.ShardID{Type: "Cart", Index: shard.Index}, 1, 1))
	e.one(durable, claim(sharding.ShardID{Type: shard.Type, Index: shard.Index + 1}, 1, 1))
}

func testClaimIsAFence(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, record(1, "a")))
	e.one(durable, claim(shard, epoch+1, 2))
	r := e.one(byEpoch, add(alice, record(2, "b")))
	e.equal("fence of the refusal", r.Fence, sharding.Fence{Epoch: epoch + 1, Owner: 2})
	e.one(byEpoch, snapshot(epoch, alice, 1, "s"))
	e.one(byEpoch, fence(shard, epoch))
	e.one(durable, appendAt(epoch+1, alice, record(2, "b")))
	e.equal("last sequence number", e.load(alice).LastSeq, uint64(2))
	// A claim counts for what comes after it in its batch, not before.
	e.want(verdicts{durable, durable, byEpoch, durable},
		appendAt(epoch+1, alice, record(3, "c")), claim(shard, epoch+2, 3), appendAt(epoch+1, bob, record(1, "d")), appendAt(epoch+2, carol, record(1, "e")))
}

func testFenceReads(e *env) {
	e.equal("fence of an unclaimed shard", e.one(byEpoch, fence(shard, epoch)).Fence, sharding.Fence{})
	e.one(byEpoch, fence(shard, 0))
	e.one(durable, claim(shard, epoch, 9))
	for _, f := range []sharding.Epoch{0, epoch - 1, epoch + 1} {
		r := e.one(byEpoch, fence(shard, f))
		e.equal("fence", r.Fence, sharding.Fence{Epoch: epoch, Owner: 9})
	}
	e.equal("fence", e.one(durable, fence(shard, epoch)).Fence, sharding.Fence{Epoch: epoch, Owner: 9})
	// What another handle wrote is seen by a read that begins afterwards.
	other := e.open()
	for i := range sharding.Epoch(5) {
		if r, err := other.Commit(e.Context(), []journal.Op{claim(shard, epoch+i+1, 1)}); err != nil || r[0].Verdict != durable {
			e.Fatalf("claim through the other handle: %v, %v", r, err)
		}
		e.want(verdicts{byEpoch, durable}, fence(shard, epoch+i), fence(shard, epoch+i+1))
	}
}

func testIdentity(e *env) {
	ctx := e.Context()
	f, err := e.b.Declare(ctx, journal.Declaration{})
	if err != nil || f.Cluster != "" {
		e.Fatalf("asking an empty store: %v, %v", f, err)
	}
	if f, err = e.b.Declare(ctx, journal.Declaration{Cluster: "blue"}); err != nil || f.Cluster != "blue" || f.Format != journal.Format {
		e.Fatalf("first declaration: %v, %v", f, err)
	}
	other := e.open()
	_, err = other.Declare(ctx, journal.Declaration{Cluster: "green"})
	e.wantErr(err, journal.ErrIdentity, "blue", "green")
	if f, err = other.Declare(ctx, journal.Declaration{Cluster: "blue"}); err != nil || f.Cluster != "blue" {
		e.Fatalf("same declaration again: %v, %v", f, err)
	}
	if _, err = other.Declare(ctx, journal.Declaration{Cluster: "bl ue"}); err == nil {
		e.Fatalf("a name with a space is accepted")
	}
	if f.MaxEpoch.Term() != 0 { // no coordinator has that term
		e.Fatalf("highest epoch without a claim is %v", f.MaxEpoch)
	}
	for i, claimed := range []sharding.Epoch{5, 1 << 63, 3, 1<<63 - 1} {
		e.one(durable, claim(sharding.ShardID{Type: "Account", Index: uint32(i)}, claimed, 1))
	}
	if f, err = other.Declare(ctx, journal.Declaration{}); err != nil || f.MaxEpoch != 1<<63 {
		e.Fatalf("highest epoch is %v, want %v; %v", f.MaxEpoch, sharding.Epoch(1<<63), err)
	}
}

// testGenerations: a handle works on the generation that it opened, and on no other.
func testGenerations(e *env) {
	ctx := e.Context()
	f, err := e.b.Declare(ctx, journal.Declaration{Cluster: "blue"})
	if err != nil || f.Generation == 0 {
		e.Fatalf("a new journal has generation %v: %v", f.Generation, err)
	}
	if again, err := e.open().Declare(ctx, journal.Declaration{}); err != nil || again.Generation != f.Generation {
		e.Fatalf("another handle finds generation %v, want %v; %v", again.Generation, f.Generation, err)
	}
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, record(1, "a")))
	reader := e.openReader()
	if err := e.store.Replace(f.Generation + 1); err != nil {
		e.Fatal(err)
	}
	old := e.b
	if l, err := e.openReader().Load(ctx, journal.LoadRequest{Entity: alice}); err != nil || l.LastSeq != 1 {
		e.Fatalf("a reader of the new generation: %+v, %v", l, err)
	}
	for what, call := range map[string]func() error{
		"a commit":           func() error { _, err := old.Commit(ctx, []journal.Op{add(alice, record(2, "b"))}); return err },
		"a fence read":       func() error { _, err := old.Commit(ctx, []journal.Op{fence(shard, epoch)}); return err },
		"a load":             func() error { _, err := old.Load(ctx, journal.LoadRequest{Entity: alice}); return err },
		"a load by a reader": func() error { _, err := reader.Load(ctx, journal.LoadRequest{Entity: alice}); return err },
		"wake-ups": func() error {
			_, err := old.Wakes(ctx, journal.WakesRequest{Shards: []journal.ShardPosition{{Shard: shard}}, Limit: 1})
			return err
		},
		"sends by a reader": func() error {
			_, err := reader.Sends(ctx, journal.SendsRequest{Limit: 1})
			return err
		},
		"a load of an empty entity": func() error { _, err := old.Load(ctx, journal.LoadRequest{Entity: carol}); return err },
		"a declaration": func() error {
			_, err := old.Declare(ctx, journal.Declaration{Cluster: "blue", Types: []sharding.TypeDesc{{Type: "Cart", Shards: 8}}})
			return err
		},
	} {
		err := call()
		if !is(err, journal.ErrReplaced) || !is(err, journal.ErrBroken) {
			e.Fatalf("%s of another generation: %v", what, err)
		}
		e.wantErr(err, journal.ErrReplaced, f.Generation.String(), "restart this process")
	}
	e.b = e.open()
	e.equal("alice", e.load(alice).LastSeq, uint64(1))
	e.one(durable, add(alice, record(2, "b")))
	now, err := e.b.Declare(ctx, journal.Declaration{})
	if err != nil || now.Generation == 0 || now.Generation == f.Generation || now.Cluster != "blue" || len(now.Types) > 0 {
		e.Fatalf("afterwards: %+v, %v", now, err)
	}
}

// testActivations: a handle that is open when the journal is activated for a later format
// neither reads nor writes any more, and no new handle can be opened.
func testActivations(e *env) {
	ctx, later := e.Context(), journal.Format+1
	if _, err := e.b.Declare(ctx, journal.Declaration{Cluster: "blue"}); err != nil {
		e.Fatal(err)
	}
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, record(1, "a")))
	reader := e.openReader()
	writes := map[string]func(journal.Backend) error{
		"a commit": func(b journal.Backend) error {
			_, err := b.Commit(ctx, []journal.Op{add(alice, record(2, "b"))})
			return err
		},
		"a fence read": func(b journal.Backend) error {
			_, err := b.Commit(ctx, []journal.Op{fence(shard, epoch)})
			return err
		},
		"a declaration": func(b journal.Backend) error {
			_, err := b.Declare(ctx, journal.Declaration{Cluster: "blue", Types: []sharding.TypeDesc{{Type: "Cart", Shards: 8}}})
			return err
		},
	}
	load := func(r journal.Reader) error {
		l, err := r.Load(ctx, journal.LoadRequest{Entity: alice})
		if err == nil {
			e.equal("alice", l.LastSeq, uint64(1))
		}
		return err
	}
	refused := func(what string, err error) {
		e.Helper()
		if !is(err, journal.ErrBroken) {
			e.Fatalf("%s by a program that does not know the format: %v", what, err)
		}
		e.wantErr(err, journal.ErrIdentity, fmt.Sprint("format ", later), "run the release that activated it")
	}
	// For each write a handle of its own: a handle may remember that it must stop.
	handles := map[string]journal.Backend{}
	for what := range writes { // order-free: a map
		handles[what] = e.open()
	}
	if err := e.store.SetLowest(journal.Format, later); err != nil {
		e.Fatal(err)
	}
	for what, write := range writes { // order-free: each with its own handle
		refused(what, write(handles[what]))
	}
	for what, r := range map[string]journal.Reader{"a load": e.b, "a load by a reader": reader} {
		if err := load(r); err != nil {
			e.Fatalf("%s of readable entities: %v", what, err)
		}
	}
	if err := e.store.SetLowest(later, later); err != nil {
		e.Fatal(err)
	}
	refused("a load", load(e.b))
	refused("a load by a reader", load(reader))
	_, err := e.b.Wakes(ctx, journal.WakesRequest{Limit: 1})
	refused("wake-ups", err)
	_, err = reader.Sends(ctx, journal.SendsRequest{Shards: []journal.SendPosition{{Shard: shard}}, Limit: 1})
	refused("sends by a reader", err)
	b, err := e.store.Open()
	if err == nil {
		defer func() { _ = b.Close() }()
		_, err = b.Declare(ctx, journal.Declaration{Cluster: "blue"})
	}
	e.wantErr(err, journal.ErrIdentity, fmt.Sprint("format ", later))
}

func testShardCounts(e *env) {
	ctx := e.Context()
	d := journal.Declaration{Cluster: "blue", Types: []sharding.TypeDesc{{Type: "Cart", Shards: 16}, {Type: "Account", Shards: 1024}}}
	f, err := e.b.Declare(ctx, d)
	if err != nil {
		e.Fatal(err)
	}
	e.equal("types", f.Types, []journal.TypeFact{{Type: "Account", Shards: 1024}, {Type: "Cart", Shards: 16}})
	other := e.open()
	_, err = other.Declare(ctx, journal.Declaration{Cluster: "blue", Types: []sharding.TypeDesc{{Type: "New", Shards: 8}, {Type: "Cart", Shards: 17}}})
	e.wantErr(err, journal.ErrShardCount, "Cart", "16", "17")
	for _, bad := range []sharding.TypeDesc{{Type: "None"}, {Type: "Many", Shards: sharding.MaxShards + 1}, {Type: "no name", Shards: 1}, {Type: "roost.coordinator", Shards: 1}, {Type: "Roost", Shards: 1}} {
		if _, err := other.Declare(ctx, journal.Declaration{Cluster: "blue", Types: []sharding.TypeDesc{bad}}); err == nil {
			e.Fatalf("%v is accepted", bad)
		}
	}
	if _, err := other.Declare(ctx, journal.Declaration{Types: d.Types}); err == nil {
		e.Fatalf("types are accepted without the cluster's name")
	}
	// A refused declaration declares nothing.
	f, err = other.Declare(ctx, journal.Declaration{Cluster: "blue", Types: []sharding.TypeDesc{{Type: "Bus", Shards: 2}}})
	if err != nil {
		e.Fatal(err)
	}
	e.equal("types", f.Types, []journal.TypeFact{{Type: "Account", Shards: 1024}, {Type: "Bus", Shards: 2}, {Type: "Cart", Shards: 16}})
}

// wantErr checks that an error wraps a sentinel and names things.
func (e *env) wantErr(err, sentinel error, names ...string) {
	e.Helper()
	if !is(err, sentinel) {
		e.Fatalf("error is %v, want one that wraps %q", err, sentinel)
	}
	if i := slices.IndexFunc(names, func(n string) bool { return !strings.Contains(fmt.Sprint(err), n) }); i >= 0 {
		e.Fatalf("error %q does not name %q", err, names[i])
	}
}
