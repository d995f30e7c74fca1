package journaltest

import (
	"context"
	"fmt"
	"slices"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// openReader opens a handle that only reads. It is closed at the end of the test.
func (e *env) openReader() journal.Reader {
	e.Helper()
	r, err := e.store.OpenReader()
	if err != nil {
		e.Fatalf("open to read: %v", err)
	}
	e.Cleanup(func() { _ = r.Close() })
	return r
}

// list reads all pages of at most limit entities.
func (e *env) list(r journal.Reader, of sharding.EntityType, limit int) []sharding.Entity {
	e.Helper()
	var all []sharding.Entity
	for req := (journal.ListRequest{Type: of, Limit: limit}); ; req.After = all[len(all)-1] {
		page, err := r.List(e.Context(), req)
		if err != nil {
			e.Fatalf("list %+v: %v", req, err)
		}
		if len(page) > limit {
			e.Fatalf("a page of %d entities, at most %d were asked for", len(page), limit)
		}
		all = append(all, page...)
		if len(page) < limit {
			return all
		}
	}
}

// addOne stores one record of an entity, in a shard of its own type.
func (e *env) addOne(to sharding.Entity) {
	e.Helper()
	s := sharding.ShardID{Type: to.Type, Index: 3}
	e.commit(claim(s, epoch, 1))
	e.one(durable, journal.Op{Append: &sharding.Append{Shard: s, Epoch: epoch, Entity: to, Records: []sharding.Record{record(1, "a")}}})
}

// testLists: every entity is in exactly one page, in order, whatever its name and however
// long the pages are, through a handle that writes and through one that reads.
func testLists(e *env) {
	var want []sharding.Entity
	for _, typ := range []sharding.EntityType{"Account", "account", "Accounts", "B"} {
		for _, id := range []sharding.EntityID{"a", "A", "a ", "aa", "ab/c", "%", "_", "'", "ä", "é", "日本", "9", "10", "\u00a0x"} {
			want = append(want, sharding.Entity{Type: typ, ID: id})
		}
	}
	for _, i := range []int{1, 0, 2} { // not in their order
		for n := i; n < len(want); n += 3 {
			e.addOne(want[n])
		}
	}
	slices.SortFunc(want, sharding.Entity.Compare)
	// A shard that was claimed and an entity that was only asked for are not stored.
	e.one(durable, claim(sharding.ShardID{Type: "C"}, epoch, 1))
	e.load(sharding.Entity{Type: "C", ID: "none"})
	for what, r := range map[string]journal.Reader{"backend": e.b, "reader": e.openReader()} {
		for _, limit := range []int{1, 3, len(want), len(want) + 1} {
			e.equal(fmt.Sprint(what, ": all, in pages of ", limit), e.list(r, "", limit), want)
			for _, typ := range []sharding.EntityType{"Account", "account", "Accounts", "B", "C", "0"} {
				var of []sharding.Entity
				for _, w := range want {
					if w.Type == typ {
						of = append(of, w)
					}
				}
				e.equal(fmt.Sprint(what, ": of ", typ, ", in pages of ", limit), e.list(r, typ, limit), of)
			}
		}
		for _, after := range []sharding.Entity{{Type: "Account", ID: "zz"}, {Type: "C", ID: "a"}} {
			page, err := r.List(e.Context(), journal.ListRequest{Type: "B", After: after, Limit: 3})
			if err != nil {
				e.Fatal(err)
			}
			if n := len(page); after.Type == "Account" && n != 3 || after.Type == "C" && n != 0 {
				e.Errorf("%s: %d entities of B after %s", what, n, after)
			}
		}
	}
}

// testListsWhileOthersWrite: what was there before is listed although entities are added
// between the pages, before and after the place of the next one.
func testListsWhileOthersWrite(e *env) {
	for n := range 20 {
		e.addOne(sharding.Entity{Type: "Account", ID: sharding.EntityID(fmt.Sprintf("m%02d", n))})
	}
	r := e.openReader()
	var got []sharding.Entity
	for req := (journal.ListRequest{Limit: 3}); ; req.After = got[len(got)-1] {
		page, err := r.List(e.Context(), req)
		if err != nil {
			e.Fatal(err)
		}
		got = append(got, page...)
		if len(page) < req.Limit {
			break
		}
		for _, first := range "az" {
			e.addOne(sharding.Entity{Type: "Account", ID: sharding.EntityID(fmt.Sprintf("%c%02d", first, len(got)))})
		}
		if len(got) > 100 {
			break // more than can have been added after the place
		}
	}
	if !slices.IsSortedFunc(got, sharding.Entity.Compare) || len(slices.Compact(slices.Clone(got))) != len(got) {
		e.Errorf("not in order, or twice: %v", got)
	}
	for n := range 20 {
		if id := (sharding.Entity{Type: "Account", ID: sharding.EntityID(fmt.Sprintf("m%02d", n))}); !slices.Contains(got, id) {
			e.Errorf("%s is not listed", id)
		}
	}
}

// testReader: a handle that reads sees what a backend has committed, and its facts, and
// writes nothing.
func testReader(e *env) {
	d := journal.Declaration{Cluster: "blue", Types: []sharding.TypeDesc{{Type: "Account", Shards: 8}}}
	if _, err := e.b.Declare(e.Context(), d); err != nil {
		e.Fatal(err)
	}
	r := e.openReader()
	for what, h := range map[string]journal.Reader{"backend": e.b, "reader": r} {
		f, err := h.Facts(e.Context())
		if err != nil {
			e.Fatal(what, err)
		}
		want := journal.NewFacts(f.Generation)
		want.Cluster, want.Types = "blue", []journal.TypeFact{{Type: "Account", Shards: 8}}
		e.equal(what+": facts", f, want)
	}
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, records(1, "a", "b", "c")...))
	e.one(durable, snapshot(epoch, alice, 2, "s"))
	for _, req := range []journal.LoadRequest{
		{Entity: alice, Lookup: []sharding.CommandID{"b", "x"}}, {Entity: alice, WithoutSnapshot: true}, {Entity: bob},
	} {
		want, err := e.b.Load(e.Context(), req)
		if err != nil {
			e.Fatal(err)
		}
		got, err := r.Load(e.Context(), req)
		if err != nil {
			e.Fatal(err)
		}
		e.equal(fmt.Sprintf("%+v", req), got, want)
	}
	if e.store.Damage != nil {
		if err := e.store.Damage(alice, 3); err != nil {
			e.Fatal(err)
		}
		_, err := r.Load(e.Context(), journal.LoadRequest{Entity: alice})
		e.wantErr(err, journal.ErrCorrupt, alice.String(), "record 3")
	}
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	if _, err := r.List(ctx, journal.ListRequest{Limit: 1}); err == nil {
		e.Error("a list whose context had ended")
	}
	if _, err := r.Facts(ctx); err == nil {
		e.Error("facts whose context had ended")
	}
	for range 2 {
		if err := r.Close(); err != nil {
			e.Error(err)
		}
	}
	e.one(durable, add(bob, record(1, "z"))) // the other handles go on
}
