package server

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// standing is a coordinator whose journal has reminders and sends of ten entities: each of them
// has a reminder and a record with four sends; one is done and two are dead letters.
func standing(t *testing.T) (*running, *fakeRegion, adminv1.Admin) {
	t.Helper()
	noneLeft(t)
	addr := freeAddr(t)
	r := start(t, t.TempDir(), addr, "static://"+addr, nil)
	f := newRegion(t, []string{addr}, sharding.TypeDesc{Type: "T", Shards: 3}, sharding.TypeDesc{Type: "U", Shards: 70}, sharding.TypeDesc{Type: "V", Shards: 5, Volatile: true})
	f.register(t, addr)
	var claims, appends, ends []journal.Op
	for i := range uint32(3) {
		claims = append(claims, journal.Op{Claim: &sharding.Claim{Shard: sharding.ShardID{Type: "T", Index: i}, Epoch: 1, Owner: 1}})
	}
	for i := range 10 {
		e := sharding.Entity{Type: "T", ID: sharding.EntityID(fmt.Sprint("e", i))}
		s := sharding.ShardID{Type: "T", Index: shardingtest.ShardOf(e.ID, 3)}
		rec := sharding.Record{Seq: 1, Wakes: []sharding.Wake{
			{Kind: sharding.ReminderWake, Name: "w\xff", Due: 1000 - int64(i), Period: 7, Input: sharding.Input{Command: "Ring"}},
			{Kind: sharding.RememberWake, Due: -5},
		}}
		for range 4 {
			rec.Sends = append(rec.Sends, sharding.Send{To: sharding.Entity{Type: "U", ID: "to"}, Input: sharding.Input{Command: "Take"}, ReplyTo: "Told"})
		}
		appends = append(appends, journal.Op{Append: &sharding.Append{Shard: s, Epoch: 1, Entity: e, Records: []sharding.Record{rec}}})
		ends = append(ends, journal.Op{Append: &sharding.Append{Shard: s, Epoch: 1, Entity: e, Delivered: []sharding.Delivered{
			{Seq: 1, Sends: []uint16{0}, As: sharding.SendDone}, {Seq: 1, Sends: []uint16{1}, As: sharding.SendRefused}, {Seq: 1, Sends: []uint16{3}, As: sharding.SendInDoubt},
		}}})
	}
	gone := sharding.Entity{Type: "T", ID: "gone"} // its row in the journal is not a reminder
	r.commit(claims...)
	r.commit(append(appends, journal.Op{Append: &sharding.Append{
		Shard: sharding.ShardID{Type: "T", Index: shardingtest.ShardOf(gone.ID, 3)}, Epoch: 1, Entity: gone, Records: []sharding.Record{{Seq: 1, Delete: true}}}})...)
	r.commit(ends...)
	return r, f, adminv1.NewAdminProtobufClient("http://"+r.node.ManagementAddr(), r.client)
}

// TestReminders: operators see each reminder once, however many an answer has.
func TestReminders(t *testing.T) {
	r, _, admin := standing(t)
	list := func(req *adminv1.RemindersRequest) (all []string, pages int) {
		t.Helper()
		last := map[uint32]int64{}
		for {
			res, err := admin.Reminders(t.Context(), req)
			if err != nil || len(res.Damaged) > 0 || req.Limit > 0 && len(res.Reminders) > int(req.Limit) {
				t.Fatal(res, err)
			}
			pages++
			for _, x := range res.Reminders {
				all = append(all, fmt.Sprintf("%s/%s %s %d %d %s", x.Type, x.Id, x.Name, x.DueUnixMs, x.PeriodMs, x.Command))
				shard := shardingtest.ShardOf(sharding.EntityID(x.Id), 3)
				if x.DueUnixMs < last[shard] {
					t.Errorf("%v is out of order", x)
				}
				last[shard] = x.DueUnixMs
			}
			if req.After = res.Next; req.After == "" {
				slices.Sort(all)
				return all, pages
			}
		}
	}
	name := func(i int) string { return fmt.Sprintf("T/e%d w\ufffd %d 7 Ring", i, 1000-i) }
	var want []string
	for i := range 10 {
		want = append(want, name(i))
	}
	for _, limit := range []uint32{0, 1, 3, 10, 5000} {
		if got, pages := list(&adminv1.RemindersRequest{Limit: limit}); !slices.Equal(got, want) || limit == 3 && pages < 4 {
			t.Errorf("limit %d: %d pages with %q", limit, pages, got)
		}
	}
	if got, _ := list(&adminv1.RemindersRequest{Type: "T", DueBeforeUnixMs: 993}); !slices.Equal(got, want[8:]) {
		t.Errorf("due before 993: %q", got)
	}
	for _, due := range []int64{1001, journal.PurgeFrom - 1, journal.PurgeFrom, math.MaxInt64} {
		if got, _ := list(&adminv1.RemindersRequest{DueBeforeUnixMs: due}); !slices.Equal(got, want) {
			t.Errorf("due before %d: %q", due, got)
		}
	}
	if got, _ := list(&adminv1.RemindersRequest{Type: "T", Id: "e4", Limit: 1}); !slices.Equal(got, want[4:5]) {
		t.Errorf("of e4: %q", got)
	}
	for _, req := range []*adminv1.RemindersRequest{{Type: "U"}, {Type: "V"}, {Type: "T", Id: "absent"}} {
		if got, _ := list(req); len(got) > 0 {
			t.Errorf("%v: %q", req, got)
		}
	}
	for _, x := range []struct {
		req  *adminv1.RemindersRequest
		code twirp.ErrorCode
	}{
		{&adminv1.RemindersRequest{Type: "X"}, twirp.NotFound},
		{&adminv1.RemindersRequest{Type: "T/e"}, twirp.InvalidArgument},
		{&adminv1.RemindersRequest{Id: "e4"}, twirp.InvalidArgument},
		{&adminv1.RemindersRequest{After: "?"}, twirp.InvalidArgument},
		{&adminv1.RemindersRequest{After: "e30x"}, twirp.InvalidArgument},
		{&adminv1.RemindersRequest{DueBeforeUnixMs: -1}, twirp.InvalidArgument},
	} {
		_, err := admin.Reminders(t.Context(), x.req)
		if e, ok := err.(twirp.Error); !ok || e.Code() != x.code {
			t.Errorf("%v: %v, want %s", x.req, err, x.code)
		}
	}
	r.end()
}

// TestSends: operators see each send that is not done once, the dead letters first, and by
// the name that repeats or drops them.
func TestSends(t *testing.T) {
	r, _, admin := standing(t)
	list := func(req *adminv1.SendsRequest) (dead, pending []string) {
		t.Helper()
		for {
			res, err := admin.Sends(t.Context(), req)
			if err != nil || len(res.Damaged) > 0 || req.Limit > 0 && len(res.Sends) > int(req.Limit) {
				t.Fatal(res, err)
			}
			for _, x := range res.Sends {
				text := fmt.Sprintf("%s/%s %d %d %s %s/%s %s %s", x.Type, x.Id, x.Record, x.Place, x.State, x.TargetType, x.TargetId, x.Command, x.ReplyTo)
				if age := time.Since(time.UnixMilli(x.SentUnixMs)); age < -time.Minute || age > time.Hour {
					t.Errorf("%s was sent %s ago", text, age)
				}
				switch {
				case x.State == "pending":
					pending = append(pending, text)
				case len(pending) > 0:
					t.Errorf("%s comes behind what is pending", text)
				default:
					dead = append(dead, text)
				}
			}
			if req.After = res.Next; req.After == "" {
				slices.Sort(dead)
				slices.Sort(pending)
				return dead, pending
			}
		}
	}
	var dead, pending []string
	for i := range 10 {
		name := fmt.Sprintf("T/e%d 1 ", i)
		dead = append(dead, name+"1 refused U/to Take Told", name+"3 in doubt U/to Take Told")
		pending = append(pending, name+"2 pending U/to Take Told")
	}
	for _, limit := range []uint32{0, 1, 3, 20, 21, 5000} {
		if d, p := list(&adminv1.SendsRequest{Limit: limit}); !slices.Equal(d, dead) || !slices.Equal(p, pending) {
			t.Errorf("limit %d: %q and %q", limit, d, p)
		}
		if d, p := list(&adminv1.SendsRequest{Type: "T", Limit: limit, Dead: true}); !slices.Equal(d, dead) || len(p) > 0 {
			t.Errorf("limit %d: dead letters are %q and %q", limit, d, p)
		}
		if d, p := list(&adminv1.SendsRequest{Type: "T", Id: "e4", Limit: limit}); !slices.Equal(d, dead[8:10]) || !slices.Equal(p, pending[4:5]) {
			t.Errorf("limit %d: of e4 %q and %q", limit, d, p)
		}
	}
	for _, req := range []*adminv1.SendsRequest{{Type: "U"}, {Type: "V"}, {Type: "T", Id: "absent"}, {Type: "T", Id: "gone"}} {
		if d, p := list(req); len(d)+len(p) > 0 {
			t.Errorf("%v: %q, %q", req, d, p)
		}
	}
	if _, err := admin.Sends(t.Context(), &adminv1.SendsRequest{Type: "X"}); err == nil {
		t.Error("an unknown type is listed")
	}
	r.end()
}
