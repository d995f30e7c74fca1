package server

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	journalopen "github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// homes asks for the first n shards of T.
func homes(n uint32) (asks []control.Message) {
	for i := range n {
		asks = append(asks, control.GetShardHome{Shard: sharding.ShardID{Type: "T", Index: i}})
	}
	return asks
}

func TestLifeOfACoordinator(t *testing.T) {
	noneLeft(t)
	dir := t.TempDir()
	first, second := freeAddr(t), freeAddr(t)
	// On a busy machine the second one must not take over before it is its turn. No
	// candidate competes with it.
	c1 := start(t, dir, first, "static://"+first, func(c *Config) { c.Lease.TTL = 20 * time.Second })
	await(t, "the first one is active", c1.acts)
	c2 := start(t, dir, second, "static://"+first+","+second, nil)
	region := newRegion(t, []string{first, second}, sharding.TypeDesc{Type: "T", Shards: 4096, Commands: []sharding.CommandDesc{{Name: "Add"}}})
	ack := region.register(t, first)
	if ack.Refusal != "" || ack.Term == 0 {
		t.Fatalf("the acknowledgement is %v", ack)
	}
	checkStandby(t, c2, first, c1.node.ManagementAddr(), region)

	// A watch is answered by the change that a first command causes.
	full, _ := c1.watch(sharding.Version{})
	if !full.Full || len(full.Types) != 1 || len(full.Rows) != 0 {
		t.Fatalf("the first answer is %v", full)
	}
	version := full.Version
	var epochs []sharding.Epoch
	await(t, "the shard is served", func() bool {
		c1.send(homes(1)...) // asked in vain until the region is up
		w, _ := c1.watch(version)
		version = w.Version
		for _, r := range w.Rows {
			if w.Full || r.Owner.UID != 55 || r.Epoch.Term() != ack.Term {
				t.Errorf("the delta is %v", w)
			}
			epochs = append(epochs, r.Epoch)
			if r.Phase == sharding.Serving {
				return true
			}
		}
		return false
	})
	if len(epochs) > 2 {
		t.Errorf("epochs on the way: %x", epochs)
	}
	checkAdmin(t, c1, first)

	// So many facts that the stream is compacted; the second incarnation folds
	// mark and records.
	const shards = 2500
	c1.send(homes(shards)...)
	term := c1.serving(shards)
	if left, err := c1.call(control.GracefulShutdown{}); err != nil || left != (control.ShutdownAck{Term: term}) {
		t.Errorf("a stranger that leaves: %v, %v", left, err)
	}
	await(t, "the stream is compacted", func() bool { return loadStream(t, dir).Snapshot.Seq > 0 })
	c1.end()
	await(t, "the standby takes over", func() bool { return c2.acts() })
	if next := c2.serving(shards); next <= term {
		t.Errorf("term %d after %d", next, term)
	}
	checkFenced(t, c2, dir, region, shards)
	c2.end()
	if found := loadStream(t, dir); found.Records[0].Seq != found.Snapshot.Seq+1 {
		t.Errorf("the stream is not read from its mark on: %d, first record %d", found.Snapshot.Seq, found.Records[0].Seq)
	}
}

func checkStandby(t *testing.T, c *running, active, management string, region *fakeRegion) {
	t.Helper()
	await(t, "the standby knows who is active", func() bool {
		_, standby := c.watch(sharding.Version{})
		return standby != nil && standby.Active.Addr == active
	})
	curl := func(method, body string) string {
		res, err := c.client.Post("http://"+c.node.ManagementAddr()+"/twirp/roost.admin.v1.Admin/"+method, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		answer, _ := io.ReadAll(res.Body)
		return fmt.Sprint(res.StatusCode, " ", string(answer))
	}
	if got := curl("Members", "{}"); !strings.HasPrefix(got, "412 ") || !strings.Contains(got, `"active":"`+active+`"`) || !strings.Contains(got, `"management":"`+management+`"`) {
		t.Errorf("a standby answers %s, want the management address %s", got, management)
	}
	if got := curl("Freeze", `{"for":"1h"}`); !strings.HasPrefix(got, "400 ") || !strings.Contains(got, `unknown field \"for\"`) {
		t.Errorf("an unknown field is answered with %s", got)
	}
	for _, m := range []control.Message{control.Register{}, control.GracefulShutdown{}} {
		if answer, err := region.api.Call(t.Context(), c.addr, m); err != nil || answer.(control.NotActive).Active.Addr != active {
			t.Errorf("a standby answers %s with %+v, error %v", control.Name(m), answer, err)
		}
	}
	other := api("other", region.self, c.client)
	send := func(a *rpc.Client, msgs ...control.Message) error {
		return a.Send(t.Context(), sharding.NodeID{Addr: c.addr}, msgs)
	}
	call := func(a *rpc.Client, m control.Message) error {
		_, err := a.Call(t.Context(), c.addr, m)
		return err
	}
	for _, refused := range []struct {
		err  error
		want string
	}{
		{call(other, control.WatchTable{}), `not "other"`}, {call(other, control.Register{}), `not "other"`},
		{call(other, control.GracefulShutdown{}), `not "other"`}, {send(other, homes(1)...), `not "other"`},
		{send(other, control.ShardStarted{}), `not "other"`}, {send(region.api, control.HostShard{}), "HostShard is not a one-way message for a coordinator"},
		{send(region.api, control.ShardStarted{}, control.Register{}), "Register is not a one-way message"},
		{call(region.api, control.ShardStarted{}), "ShardStarted is not a call"}, {call(region.api, control.TableChanged{}), "TableChanged is not a call"},
		{call(region.api, nil), "unknown kind"},
		{region.api.Send(t.Context(), sharding.NodeID{Addr: c.addr, UID: 1}, homes(1)), "is for incarnation 1"},
	} {
		if refused.err == nil || !strings.Contains(refused.err.Error(), refused.want) {
			t.Errorf("got %v, want %s", refused.err, refused.want)
		}
	}
}

func checkAdmin(t *testing.T, c *running, addr string) {
	t.Helper()
	a := adminv1.NewAdminProtobufClient("http://"+c.node.ManagementAddr(), c.client)
	if m, err := a.Members(t.Context(), &adminv1.MembersRequest{}); err != nil || m.Active != addr || len(m.Members) != 3 {
		t.Errorf("members: %v, %v", m, err)
	}
	if s, err := a.Shards(t.Context(), &adminv1.ShardsRequest{Type: "T"}); err != nil || len(s.Shards) != 1 || s.Types[0].Allocated != 1 || s.Shards[0].Region != "region-1" || s.Shards[0].Cause != "first-command" {
		t.Errorf("shards: %v, %v", s, err)
	}
	for i := 0; ; i++ {
		if i == 10_000 {
			t.Fatal("no entity is in the shard that has a region")
		}
		w, err := a.Where(t.Context(), &adminv1.WhereRequest{Type: "T", Id: fmt.Sprint("x", i)})
		if err != nil || w.Shard.Type != "T" {
			t.Fatalf("where: %v, %v", w, err)
		}
		if w.Shard.Epoch != "0.0" {
			if w.Shard.Cause != "first-command" {
				t.Errorf("where: %v", w)
			}
			break
		}
	}
	for _, bad := range []*adminv1.WhereRequest{{Type: "X", Id: "x"}, {Type: "T"}, {Type: "roost.coordinator", Id: "facts"}} {
		if _, err := a.Where(t.Context(), bad); err == nil {
			t.Errorf("where %v gives no error", bad)
		}
	}
	metrics := c.get("/metrics")
	for _, want := range []string{"\nroost_coordinator_leader", "\nroost_coordinator_term", "roost_shard_allocated", "roost_coordinator_watches", "roost_shard_unallocated"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no metric %s", want)
		}
	}
	if strings.Contains(metrics, "_ratio") { // what Prometheus calls the unit 1
		t.Errorf("a metric that is not a ratio is called one:\n%s", metrics)
	}
}

// openJournal opens the cluster's journal in addition to the coordinators.
func openJournal(t *testing.T, dir string) *commit.Journal {
	t.Helper()
	b, err := journalopen.Open(t.Context(), "sqlite:"+dir+"/journal.db", journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	j, err := commit.Open(t.Context(), b, journal.Declaration{Cluster: "dev"}, journal.DefaultConfig(), commit.Observer{})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func loadStream(t *testing.T, dir string) journal.Loaded {
	t.Helper()
	j := openJournal(t, dir)
	defer func() { _ = j.Close() }()
	found, err := j.Load(t.Context(), journal.LoadRequest{Entity: streamEntity})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// checkFenced claims the stream as another coordinator would: the active one
// steps down at its next fact, and comes back above the claim.
func checkFenced(t *testing.T, c *running, dir string, region *fakeRegion, shards uint32) {
	t.Helper()
	region.register(t, c.addr)
	above := c.serving(int(shards)) + 5
	j := openJournal(t, dir)
	claimed := make(chan journal.Result, 1)
	j.Submit(journal.Op{Claim: &sharding.Claim{Shard: streamShard, Epoch: sharding.MakeEpoch(above, 0), Owner: 1}}, func(r journal.Result) { claimed <- r })
	if r := <-claimed; r.Verdict != sharding.Durable {
		t.Fatal(r)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	c.send(homes(shards + 1)...)
	await(t, "the coordinator comes back above the claim", func() bool {
		w, standby := c.watch(sharding.Version{})
		return standby == nil && w.Version.Term > above
	})
	c.serving(int(shards)) // the refused fact is not there
	if !regexp.MustCompile(`roost_journal_fenced_total{.*operation="append".*} [1-9]`).MatchString(c.get("/metrics")) {
		t.Error("the refused fact is not counted")
	}
}

// TestCallersThatLeave: callers that do not wait for their answer leave nothing behind.
func TestCallersThatLeave(t *testing.T) {
	dir := t.TempDir()
	addr := freeAddr(t)
	c := start(t, dir, addr, "static://"+addr, nil)
	await(t, "the coordinator is active", func() bool { return c.acts() })
	table, _ := c.watch(sharding.Version{})
	for i := range sharding.NodeUID(5) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := api("dev", sharding.NodeID{Addr: "nobody:1", UID: i + 1}, c.client).Call(ctx, addr, control.WatchTable{Version: table.Version})
		cancel()
		if err == nil {
			t.Error("a watch is answered though nothing has changed")
		}
	}
	await(t, "it waits for no region", func() bool {
		var waiting int
		if err := c.server.look(t.Context(), func() error { waiting = c.server.calls.Len(); return nil }); err != nil {
			t.Fatal(err)
		}
		return waiting == 0
	})
	c.end()
}

// TestSteppedDown: who waits for something that is not durable yet is sent on at
// once.
func TestSteppedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drive(t, coordinator.DefaultConfig(), nil)
		r.in(func() {
			r.known = coordinator.Active{Node: sharding.NodeID{Addr: "c2:1", UID: 2}, Term: 2}
			r.step(r.known)
		})
		r.backend.fall(errSilent)
		ack := r.register(1, 4)
		watch := make(chan rpc.Answer, 1)
		stranger := make(chan rpc.Answer, 1) // whose registration comes too early
		r.in(func() {
			version := sharding.Version{Term: r.core.ActiveTerm()}
			r.step(coordinator.Received{Call: r.calls.Hold(region1(7), watch), Msg: control.WatchTable{Version: version}})
			r.step(coordinator.Received{From: region1(8), Call: r.calls.Hold(region1(8), stranger), Msg: control.Register{}})
		})
		if got := outcome(ack); got != "waits" || len(watch) > 0 || len(stranger) > 0 {
			t.Fatalf("before the fact is stored the registration is answered with %s, %d watches are", got, len(watch))
		}
		r.in(func() { r.step(coordinator.Resign{}) })
		select {
		case w := <-watch:
			if n, ok := w.Msg.(control.NotActive); !ok || n.Active.Addr != "c2:1" {
				t.Errorf("the watch is answered with %v", w)
			}
		default:
			t.Error("the watch is not answered")
		}
		select {
		case err := <-ack:
			if err == nil || err.Error() != "active is c2:1" {
				t.Errorf("the registration is answered with %v", err)
			}
		default:
			t.Error("the registration is not answered")
		}
		r.in(func() {
			a := <-stranger
			if n, ok := a.Msg.(control.NotActive); !ok || n.Active.Addr != "c2:1" || r.calls.Len() != 0 {
				t.Errorf("a stranger is answered with %v, %d calls are left", a, r.calls.Len())
			}
		})
	})
}

func TestFacts(t *testing.T) {
	desc := sharding.TypeDesc{
		Type: "T", Shards: 8, Commands: []sharding.CommandDesc{{Name: "Get", ReadOnly: true, Stale: true, Input: 1 << 63}},
		Unhosted: true, LastHost: "region-1",
	}
	row := sharding.Row{Shard: sharding.ShardID{Type: "T", Index: 3}, Owner: sharding.NodeID{Addr: "r1:1", UID: 1}, Epoch: 1<<32 + 1, Phase: sharding.Serving}
	facts := []coordinator.Fact{
		coordinator.TypeFact{Desc: desc, Forms: []sharding.Form{{Kind: sharding.FormOfEvent, Name: "added", Version: 2, ReadableBy: 1, Shape: 1 << 63}}, By: []string{"v2"}},
		coordinator.RowFact{Row: row, Before: sharding.FormSet("").With(9), May: sharding.FormSet("").With(0), Successor: sharding.NodeID{Addr: "r2:1", UID: 2}, Cause: sharding.CausePin},
		coordinator.DrainFact{Region: row.Owner},
		coordinator.DrainFact{Region: row.Owner, Note: coordinator.Note{By: "ann", Reason: "new disk", At: time.UnixMilli(1_700_000_000_123).UTC()}},
		coordinator.DrainFact{Region: row.Owner, Resume: true},
		coordinator.TargetFact{Version: "1.4.0", Seen: []string{"1.2.0", "1.3.0"}},
		coordinator.LossFact{},
	}
	var events []sharding.Event
	for _, f := range facts {
		events = append(events, encodeFact(f))
	}
	got, n, err := decodeFacts(journal.Loaded{
		Snapshot: journal.Snapshot{Seq: 1},
		Records:  []sharding.Record{{Seq: 2, Events: events}},
	})
	if err != nil || n != len(facts) || fmt.Sprint(got) != fmt.Sprint(facts) {
		t.Errorf("read back: %v, %d, %v", got, n, err)
	}
	later := journal.Loaded{Records: []sharding.Record{{Events: []sharding.Event{{Name: "later", Version: 2, Payload: []byte("\xff")}}}}}
	want := coordinator.UnknownFact{Name: "later", Version: 2, Payload: "\xff"}
	if got, _, err := decodeFacts(later); err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("a fact of a later release is read as %+v, %v", got, err)
	}
	for _, bad := range []journal.Loaded{
		{Records: []sharding.Record{{Events: []sharding.Event{{Name: "row", Payload: []byte("\xff")}}}}},
		{Records: []sharding.Record{{Events: []sharding.Event{{Name: "target", Payload: []byte("\xff")}}}}},
	} {
		if _, _, err := decodeFacts(bad); err == nil {
			t.Errorf("%v is read without an error", bad)
		}
	}
}
