package server

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
)

type visits struct{ N int }

func (v *visits) hit(*entity.Ctx, string) (int, error) { v.N++; return v.N, nil }

// laterVisits is the type visits in a later version.
type laterVisits struct{ Count, Since int }

func (v *laterVisits) hit(*entity.Ctx, string) (int, error) { v.Count++; return v.Count, nil }

var visit = entity.Command[string, int]("Visits", "Hit")

func visitors() entity.Definition {
	return entity.Define("Visits", func(string) *visits { return &visits{} }, entity.On(visit, (*visits).hit), entity.With[visits](entity.Volatile(), entity.KeepOnMoves(), entity.Shards(1)))
}

var visitsShard = sharding.ShardID{Type: "Visits"}

// hit sends a visit to an entity, and returns the answer.
func (g *gateway) hit(e sharding.Epoch, id string) string {
	g.t.Helper()
	g.number++
	env := sharding.Envelope{
		Entity: sharding.Entity{Type: "Visits", ID: sharding.EntityID(id)}, Command: "Hit", ID: sharding.CommandID(fmt.Sprint("~", g.number)),
		Payload: []byte(`""`), Deadline: time.Now().Add(time.Minute),
	}
	if err := g.link.Send(0, &link.Command{Number: g.number, Epoch: e, Envelope: env}); err != nil {
		g.t.Fatal(err)
	}
	a := g.answer(g.number)
	return fmt.Sprintf("%s%s %s", a.Reply.Outcome, a.Reply.Code, a.Reply.Payload)
}

func (g *gateway) wantHit(e sharding.Epoch, id, want string) {
	g.t.Helper()
	if got := g.hit(e, id); got != want {
		g.t.Errorf("a visit to %s at %s: %s, want %s", id, e, got, want)
	}
}

// move hands the shard off at one region and gives it to another.
func move(t *testing.T, from, to *running, e, next sharding.Epoch) {
	t.Helper()
	if err := from.order(control.HandOff{Term: 1, Shard: visitsShard, Epoch: e}); err != nil {
		t.Fatal(err)
	}
	await(t, "the shard is stopped", from.f.look(func() bool { return from.f.stopped[e] }))
	to.take(next, control.Previous{Owner: from.server.self, Epoch: e})
}

func (r *running) take(e sharding.Epoch, previous control.Previous) {
	r.t.Helper()
	if err := r.order(control.HostShard{Term: 1, Shard: visitsShard, Epoch: e, Previous: previous}); err != nil {
		r.t.Fatal(err)
	}
	await(r.t, "the shard is started", r.f.look(func() bool { return r.f.started[e] }))
}

// TestStatesMove: the states of volatile entities move with their shard, from process to
// process, once.
func TestStatesMove(t *testing.T) {
	f := newFake(t)
	file := t.TempDir() + "/journal.db"
	ready := func(r *running) *running {
		await(t, "the region is ready", func() bool { return strings.Contains(r.get("/readyz"), "ok") })
		return r
	}
	a := ready(launchWith(t, f, "sqlite:"+file, nil, visitors()))
	b := ready(launchWith(t, f, "sqlite:"+file, nil, visitors()))
	e := sharding.MakeEpoch(1, 1)
	a.take(e, control.Previous{})
	ga, gb := a.dial(), b.dial()
	for i := range 3 {
		ga.wantHit(e, "x", fmt.Sprint("executed ", i+1))
	}
	ga.wantHit(e, "y", "executed 1")
	move(t, a, b, e, e+1)
	gb.wantHit(e+1, "x", "executed 4")
	if states, err := b.server.kept.fetch(t.Context(), region.FetchKept{
		Shard: visitsShard, Epoch: e + 2, Previous: control.Previous{Owner: a.server.self, Epoch: e}, Within: time.Minute,
	}); err != nil || len(states) != 0 {
		t.Errorf("a second fetch got %v, %v", states, err)
	}
	move(t, b, a, e+1, e+2)
	ga.wantHit(e+2, "x", "executed 5")
	ga.wantHit(e+2, "y", "executed 2")
	for _, want := range []string{`roost_region_states_given_total{roost_cluster="dev"} 2` + "\n", `roost_region_states_fetched_total{roost_cluster="dev"} 2` + "\n"} {
		await(t, want, func() bool { return strings.Contains(a.get("/metrics"), want) })
	}

	// A later version that cannot read the states begins without them.
	c := ready(launchWith(t, f, "sqlite:"+file, nil,
		entity.Define("Visits", func(string) *laterVisits { return &laterVisits{} }, entity.On(visit, (*laterVisits).hit), entity.With[laterVisits](entity.Volatile(), entity.KeepOnMoves(), entity.Shards(1)))))
	move(t, a, c, e+2, e+3)
	gc := c.dial()
	gc.wantHit(e+3, "x", "executed 1")
	await(t, "the loss is counted", func() bool {
		return strings.Contains(c.get("/metrics"), `roost_entity_states_lost_total{roost_cluster="dev",roost_entity_type="Visits",roost_reason="unread"} 1`)
	})

	// A process that has ended has kept nothing.
	self := c.server.self
	for _, g := range []*gateway{ga, gb, gc} {
		g.client.Close()
	}
	f.mu.Lock()
	f.remaining = 0
	f.mu.Unlock()
	if err := c.order(control.HandOff{Term: 1, Shard: visitsShard, Epoch: e + 3}); err != nil {
		t.Fatal(err)
	}
	await(t, "the shard is stopped", f.look(func() bool { return f.stopped[e+3] }))
	a.take(e+4, control.Previous{Owner: sharding.NodeID{Addr: self.Addr, UID: self.UID + 1}, Epoch: e + 3}) // another incarnation
	ga = a.dial()
	ga.wantHit(e+4, "x", "executed 1")
	ga.client.Close()
	a.end()
	b.end()
}

// TestGiverRefuses: anything but a request for kept states is refused.
func TestGiverRefuses(t *testing.T) {
	r := start(t, newFake(t), "memory:", nil)
	uid := r.server.self.UID
	for body, status := range map[string]int{
		"":   http.StatusBadRequest,
		"[]": http.StatusBadRequest,
		fmt.Sprintf(`{"cluster":"other","to":%d}`, uid):                                                http.StatusPreconditionFailed,
		fmt.Sprintf(`{"cluster":"dev","to":%d}`, uid+1):                                                http.StatusPreconditionFailed,
		fmt.Sprintf(`{"cluster":"dev","to":%d,"type":"None","shard":7}`, uid):                          http.StatusOK,
		fmt.Sprintf(`{"cluster":"dev","to":%d,"type":"Counter","shard":4000000000,"epoch":9}`, uid):    http.StatusOK,
		fmt.Sprintf(`{"cluster":"dev","to":%d,"type":"Counter","shard":1,"epoch":9,"stopped":8}`, uid): http.StatusOK,
		fmt.Sprintf(`{"cluster":"dev","to":%d,"type":%q}`, uid, strings.Repeat("x", 2*maxKeptRequest)): http.StatusBadRequest,
	} {
		res, err := r.client.Post("http://"+r.node.ServiceAddr()+keptPath, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		states, err := readKept(res.Body, 1, 1)
		_ = res.Body.Close()
		if res.StatusCode != status || status == http.StatusOK && (err != nil || len(states) > 0) {
			t.Errorf("%.80s: %s, %v, %v", body, res.Status, states, err)
		}
	}
	res, err := r.client.Get("http://" + r.node.ServiceAddr() + keptPath)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: %s", res.Status)
	}
	r.end()
}

var someKept = []turn.Kept{
	{ID: "a", Form: sharding.SnapshotForm{Version: 3, Shape: 1 << 63}, Payload: []byte("state"), Timers: []turn.Timer{
		{Name: "t", After: time.Second, Every: time.Minute, Command: "Tick", Encoding: sharding.Protobuf, Payload: []byte{1, 2}},
		{Name: "u", After: 1, Command: "Tock"},
	}},
	{ID: "b", Payload: bytes.Repeat([]byte("x"), 100_000)},
	{ID: "c"},
}

func frames(t *testing.T, states []turn.Kept) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := writeKept(&b, states); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func normal(states []turn.Kept) (out []turn.Kept) {
	for _, k := range states {
		if len(k.Payload) == 0 {
			k.Payload = nil
		}
		timers := k.Timers
		k.Timers = nil
		for _, t := range timers {
			if len(t.Payload) == 0 {
				t.Payload = nil
			}
			k.Timers = append(k.Timers, t)
		}
		out = append(out, k)
	}
	return out
}

// TestKeptFrames: states come back as they were; from truncated or changed data, only whole
// states are taken; the limits hold.
func TestKeptFrames(t *testing.T) {
	b := frames(t, someKept)
	got, err := readKept(bytes.NewReader(b), 3, len(b))
	if err != nil || !reflect.DeepEqual(normal(got), normal(someKept)) {
		t.Fatalf("read %d states, %v", len(got), err)
	}
	for n := 0; n < len(b); n += 1 + n/7 {
		got, err := readKept(bytes.NewReader(b[:n]), 3, len(b))
		if err == nil || !reflect.DeepEqual(normal(got), normal(someKept[:len(got)])) {
			t.Errorf("cut at %d: %d states, %v", n, len(got), err)
		}
		bad := bytes.Clone(b)
		bad[n] ^= 1
		got, err = readKept(bytes.NewReader(bad), 3, len(b))
		if err == nil || !reflect.DeepEqual(normal(got), normal(someKept[:len(got)])) {
			t.Errorf("changed at %d: %d states, %v", n, len(got), err)
		}
	}
	if got, err := readKept(bytes.NewReader(b), 2, len(b)); err == nil || len(got) != 2 {
		t.Errorf("more entities than allowed: %d, %v", len(got), err)
	}
	if got, err := readKept(bytes.NewReader(b), 3, 1000); err == nil || len(got) != 1 {
		t.Errorf("more bytes than allowed: %d, %v", len(got), err)
	}
	claims := io.MultiReader(bytes.NewReader([]byte{0x7f, 0xff, 0xff, 0xff}), neverEnds{})
	if _, err := readKept(claims, 1, 1000); err == nil {
		t.Error("a frame that claims two gigabytes is read")
	}
}

type neverEnds struct{}

func (neverEnds) Read(b []byte) (int, error) { return len(b), nil }

func FuzzReadKept(f *testing.F) {
	var b bytes.Buffer
	if err := writeKept(&b, someKept[:1]); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		states, err := readKept(bytes.NewReader(raw), 10, 1<<20)
		if err != nil {
			return
		}
		again, err := readKept(bytes.NewReader(frames(t, states)), 10, 1<<20)
		if err != nil || !reflect.DeepEqual(normal(again), normal(states)) {
			t.Errorf("%+v came back as %+v, %v", states, again, err)
		}
	})
}
