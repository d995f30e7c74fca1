package server

import (
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	"github.com/roost-cluster/roost/sdk/entity"
)

func TestLifeOfARegion(t *testing.T) {
	noneLeft(t)
	f := newFake(t)
	journal := "sqlite:" + t.TempDir() + "/journal.db"
	r := start(t, f, journal, func(c *Config) { c.AppVersion = "7.2" })
	if !f.look(func() bool { return f.version == "7.2" })() {
		t.Error("the region registers with another version than its configuration has")
	}
	e := r.host(1)
	g := r.dial()

	// A command becomes durable, its repeat gets the same reply.
	g.want(g.keyed(e, "a", "Add", "k1", "5"), sharding.Executed, "5")
	g.want(g.keyed(e, "a", "Add", "k1", "5"), sharding.Executed, "5")
	g.want(g.keyed(e, "a", "Add", "k2", "7"), sharding.Executed, "12")
	if a := g.keyed(e, "a", "Add", "k2", "8"); a.Reply.Code != sharding.AlreadyExists {
		t.Errorf("another payload under a used key: %+v", a)
	}
	// A panic undoes its turn and nothing else.
	if a := g.keyed(e, "a", "Add", "k3", "-1"); a.Reply.Outcome != sharding.NotApplied || a.Reply.Code != sharding.Internal {
		t.Errorf("a panic: %+v", a)
	}
	g.want(g.answer(g.send(e, "a", "Get", "")), sharding.Executed, "12")
	// Bad input, commands and types get clear answers.
	if a := g.answer(g.send(e, "a", "Add", "{")); a.Reply.Code != sharding.InvalidArgument {
		t.Errorf("bad input: %+v", a)
	}
	if a := g.answer(g.send(e, "a", "Nope", "")); a.Reply.Code != sharding.UnknownCommand {
		t.Errorf("unknown command: %+v", a)
	}
	// Another epoch is not mine; the answer brings the row that is.
	a := g.answer(g.send(e-1, "a", "Get", ""))
	index := shardingtest.ShardOf("a", shards)
	if a.NotMine == nil || a.NotMine.Refused != e-1+sharding.Epoch(index) || a.NotMine.Row.Epoch != e+sharding.Epoch(index) {
		t.Errorf("an older epoch: %+v", a)
	}
	checkMetrics(t, r)

	// Stopping: not ready any more, shards handed off, everything answered.
	last := g.send(e, "a", "Add", "1")
	f.mu.Lock()
	f.remaining = shards
	f.mu.Unlock()
	r.stop()
	await(t, "the region asks to leave", f.look(func() bool { return f.shutdowns > 0 }))
	if ready := r.get("/readyz?verbose"); !strings.Contains(ready, "draining") {
		t.Errorf("while leaving readyz says %s", ready)
	}
	g.want(g.answer(last), sharding.Executed, "13")
	var orders []control.Message
	for i := range uint32(shards) {
		orders = append(orders, control.HandOff{Term: 1, Shard: counterShard(i), Epoch: e + sharding.Epoch(i)})
	}
	if err := r.order(orders...); err != nil {
		t.Fatal(err)
	}
	await(t, "the shards are stopped", f.look(func() bool { return len(f.stopped) == shards }))
	f.mu.Lock()
	f.remaining = 0
	f.mu.Unlock()
	r.end()
	g.client.Close()

	// The next incarnation finds the state and the keys, at a higher epoch only.
	r = start(t, f, journal, nil)
	if err := r.order(control.HostShard{Term: 1, Shard: counterShard(0), Epoch: e}); err != nil {
		t.Fatal(err)
	}
	await(t, "a foreign epoch is refused", f.look(func() bool { return f.refused[e] == e }))
	if !regexp.MustCompile(`roost_journal_fenced_total{.*operation="claim".*} 1`).MatchString(r.get("/metrics")) {
		t.Error("the refused claim is not counted")
	}
	e = r.host(11)
	g = r.dial()
	g.want(g.answer(g.send(e, "a", "Get", "")), sharding.Executed, "13")
	g.want(g.keyed(e, "a", "Add", "k1", "5"), sharding.Executed, "5")
	g.want(g.keyed(e, "a", "Add", "k4", "1"), sharding.Executed, "14")
	g.client.Close()
	r.end()
}

func checkMetrics(t *testing.T, r *running) {
	t.Helper()
	metrics := r.get("/metrics")
	for _, want := range []string{
		`roost_entity_command_duration_seconds_count{`, `roost_entity_mailbox_wait_seconds`, `roost_journal_append_duration_seconds`,
		`roost_journal_batch_size`, `roost_region_shards`, `roost_entity_active`, `roost_entity_duplicates`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no metric %s", want)
		}
	}
	if strings.Contains(metrics, `"Nope"`) {
		t.Error("a name from outside has become an attribute")
	}
}

// TestBrokenJournalEndsTheProcess: what cannot be settled cannot be handed off,
// so no region is requested to take the shards over, and the process waits for none.
func TestBrokenJournalEndsTheProcess(t *testing.T) {
	noneLeft(t)
	f := newFake(t)
	path := t.TempDir() + "/journal.db"
	r := start(t, f, "sqlite:"+path, nil)
	e := r.host(1)
	g := r.dial()
	g.want(g.keyed(e, "a", "Add", "k1", "5"), sharding.Executed, "5")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("DROP TABLE record"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	g.send(e, "a", "Add", "1")
	await(t, "the journal is broken", func() bool { return r.server.runner.journal.Err() != nil })
	g.client.Close()
	select {
	case err := <-r.done:
		if !errors.Is(err, journal.ErrBroken) {
			t.Errorf("the region ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the region does not end")
	}
	r.done <- nil
	if !f.look(func() bool { return f.shutdowns == 0 })() {
		t.Error("the region asked to hand its shards off")
	}
}

func TestHungTurnIsCancelledAtHandOff(t *testing.T) {
	noneLeft(t)
	f := newFake(t)
	r := start(t, f, "memory:", func(c *Config) { c.Core.Turn.DrainTimeout, c.Core.LeaveTimeout = 50*time.Millisecond, time.Second })
	e := r.host(1)
	g := r.dial()
	hung := g.send(e, "a", "Hang", "")
	after := g.send(e, "a", "Get", "")
	await(t, "the turn runs", func() bool { return strings.Contains(r.get("/metrics"), "roost_region_commands_unanswered") })
	index := shardingtest.ShardOf("a", shards)
	if err := r.order(control.HandOff{Term: 1, Shard: counterShard(index), Epoch: e + sharding.Epoch(index)}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []uint64{hung, after} {
		if a := g.answer(c); a.NotMine == nil {
			t.Errorf("command %d: %+v", c, a)
		}
	}
	g.client.Close()
	r.end()
}

// TestHungTurnHarmsNobody: while turns of a shard hang, other entities of the shard are served, and
// the process counts as alive and ready.
func TestHungTurnHarmsNobody(t *testing.T) {
	noneLeft(t)
	f := newFake(t)
	r := start(t, f, "memory:", func(c *Config) {
		c.Core.Turn.DrainTimeout, c.Core.LeaveTimeout, c.StalledAfter = 50*time.Millisecond, time.Second, 50*time.Millisecond
	})
	e := r.host(1)
	g := r.dial()
	for i := range 50 {
		g.send(e, fmt.Sprintf("h%d", i), "Hang", "")
	}
	for i := range 50 {
		g.want(g.answer(g.send(e, fmt.Sprintf("a%d", i), "Get", "")), sharding.Executed, "0")
	}
	for range 3 { // the second and the third question would find a loop that stands still
		live := r.get("/livez?verbose")
		if !strings.Contains(live, "[+] control loop\n[+] shard core 0\n") || !strings.HasSuffix(live, "ok\n") {
			t.Errorf("livez is %s", live)
		}
		if ready := r.get("/readyz"); ready != "ok\n" {
			t.Errorf("readyz is %s", ready)
		}
	}
	g.client.Close()
	r.end()
}

// TestStopHookThatHangs: commands for an entity whose stop hook does not end
// get a new instance.
func TestStopHookThatHangs(t *testing.T) {
	f := newFake(t)
	r := start(t, f, "memory:", func(c *Config) { c.StopTimeout = 20 * time.Millisecond })
	e := r.host(1)
	g := r.dial()
	g.want(g.keyed(e, "stubborn", "Add", "k1", "5"), sharding.Executed, "5")
	g.want(g.answer(g.send(e, "stubborn", "Close", "")), sharding.Executed, "{}")
	g.want(g.answer(g.send(e, "stubborn", "Get", "")), sharding.Executed, "5")
	g.client.Close()
	r.end()
}

// TestWhatIsRefused: messages for another process at this address or another cluster,
// and those that are not for a region.
func TestWhatIsRefused(t *testing.T) {
	f := newFake(t)
	r := start(t, f, "memory:", nil)
	host := control.HostShard{Term: 1, Shard: counterShard(0), Epoch: 1 << 32}
	uid := r.server.self.UID
	watch := func(cluster string, m control.Message) error {
		c := rpc.Client{Cluster: cluster, Reach: rpc.Via(r.client, nil), Timeout: 10 * time.Second}
		_, err := c.Call(t.Context(), r.node.ServiceAddr(), m)
		return err
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{r.send("dev", 1, host), "is for incarnation 1"},
		{r.send("dev", 0, host), "must name its incarnation"},
		{r.send("other", uid, host), `not "other"`},
		{r.send("dev", uid, host, control.ShardStopped{}), "ShardStopped is not a one-way message for a region"},
		{r.send("dev", uid, control.WatchTable{}), "WatchTable is not a one-way message for a region"},
		{watch("other", control.WatchTable{}), `not "other"`},
		{watch("dev", control.Register{}), "Register is not a call that a region answers"},
		{watch("dev", host), "HostShard is not a call that a region answers"},
		{watch("dev", nil), "unknown kind"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("got %v, want %s", c.err, c.want)
		}
	}
	c := rpc.Client{Cluster: "dev", Reach: rpc.Via(r.client, nil), Timeout: 10 * time.Second}
	for _, w := range []control.WatchTable{{}, {Copy: true}} {
		answer, err := c.Call(t.Context(), r.node.ServiceAddr(), w)
		if _, table := answer.(control.TableChanged); err != nil || table != w.Copy {
			t.Errorf("%+v is answered with %+v, error %v", w, answer, err)
		}
	}
	if r.f.look(func() bool { return len(r.f.started) > 0 })() {
		t.Error("a refused request was done in part")
	}
	r.end()
}

// TestInboxLetsGo: a link that waits for room does not wait forever.
func TestInboxLetsGo(t *testing.T) {
	b := oneInbox(1)
	b.put(0, item{})
	done := make(chan struct{})
	go func() { b.arrive(&answers{}, []link.Command{{}}, nil, nil, func(cores) {}); close(done) }()
	b.end()
	<-done
}

// TestTypesByRole: a process hosts the types of the binary that region.types names.
func TestTypesByRole(t *testing.T) {
	other := entity.Define("Other", func(string) *counter { return &counter{} },
		entity.On(entity.Command[int, int]("Other", "Noop"), func(*counter, *entity.Ctx, int) (int, error) { return 0, nil }),
		entity.With[counter](entity.Volatile()),
	)
	for name, tc := range map[string]struct {
		types []string
		hosts []sharding.EntityType
		err   string
	}{
		"all":     {nil, []sharding.EntityType{"Counter", "Other"}, ""},
		"one":     {[]string{"Other"}, []sharding.EntityType{"Other"}, ""},
		"unknown": {[]string{"Other", "Cart"}, nil, "region.types names Cart; this binary has [Counter Other]"},
	} {
		t.Run(name, func(t *testing.T) {
			chosen, err := hosted([]entity.Definition{counters(), other}, tc.types)
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Fatalf("error %v, want %s", err, tc.err)
				}
				return
			}
			var got []sharding.EntityType
			for _, t := range chosen {
				d := instance.Describe(t)
				got = append(got, d.Desc.Type)
			}
			if err != nil || !slices.Equal(got, tc.hosts) {
				t.Fatalf("hosts %v, %v", got, err)
			}
		})
	}
}
