package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twitchtv/twirp"
	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// fakeAdmin is a coordinator with a little cluster; it may stand by.
type fakeAdmin struct {
	standby   bool
	slow      bool // it answers commands when their time is over
	unserved  bool // and that no region has taken them
	remaining atomic.Int32
	resumed   atomic.Bool
	commands  atomic.Int32
	mu        sync.Mutex
	steers    []proto.Message // the requests about placement
	left      func(*adminv1.DrainRequest) (*adminv1.DrainResponse, error)
}

func (f *fakeAdmin) check() error {
	if f.standby {
		return twirp.NewError(twirp.FailedPrecondition, "this coordinator stands by").WithMeta("active", "10.0.0.1:25521")
	}
	return nil
}

func (f *fakeAdmin) Members(context.Context, *adminv1.MembersRequest) (*adminv1.MembersResponse, error) {
	return &adminv1.MembersResponse{Self: "coordinator-1", Active: "10.0.0.1:25521", Term: 3, P99Us: 12_300, UsualP99Us: 6100, Brake: &adminv1.Brake{
		State: "stopped", SinceUnixMs: 1_700_000_000_000, NextUnixMs: 1_700_000_030_000, Why: "commands are slow",
	}, Gateways: []*adminv1.Gateway{
		{Addr: "10.0.0.8:8080", Management: "10.0.0.8:8558", Commands: 412.34, Refused: 1.2, P50Us: 1400, P99Us: 12_300},
		{Addr: "10.0.0.9:8080", Management: "10.0.0.9:8558"},
	}, Members: []*adminv1.Member{
		{Name: "coordinator-1", Roles: []string{"coordinator"}, Status: "up", Reachable: true, Addr: "10.0.0.1:25521", Active: true},
		{Name: "region-1", Roles: []string{"region"}, Status: "up", Reachable: true, Addr: "10.0.0.2:25520", Shards: 12, Draining: true, Load: &adminv1.Load{Cost: 1.284}},
		{Name: "region-2", Roles: []string{"region"}, Status: "up", Addr: "10.0.0.3:25520", Zone: "b", AppVersion: "1.4"},
		{Name: "region-2", Roles: []string{"region"}, Status: "up", Reachable: true, Addr: "10.0.0.4:25520", Shards: 5, Capacity: 20},
		{Name: "region-3", Roles: []string{"region"}, Status: "up", Reachable: true, Addr: "10.0.0.5:25520"},
		{Name: "region-3", Roles: []string{"region"}, Status: "joining", Reachable: true, Addr: "10.0.0.6:25520"},
		{Name: "region-3", Roles: []string{"region"}, Status: "exiting", Reachable: true, Addr: "10.0.0.7:25520"},
	}}, f.check()
}

func (f *fakeAdmin) Shards(_ context.Context, req *adminv1.ShardsRequest) (*adminv1.ShardsResponse, error) {
	all := []*adminv1.Shard{
		{Type: "Airport", Index: 7, Region: "region-1", Addr: "10.0.0.2:25520", Epoch: "3.12", Phase: "serving", Cause: "drain"},
		{Type: "Airport", Index: 9, Region: "10.0.0.9:25520", Addr: "10.0.0.9:25520", Epoch: "2.8", Phase: "serving"},
		{Type: "Airport", Index: 1019, Region: "region-2", Addr: "10.0.0.3:25520", Epoch: "2.9", Phase: "handing-off", Cause: "balance"},
	}
	if req.Type == "Cart" {
		return &adminv1.ShardsResponse{
			Types:  []*adminv1.TypeSummary{{Type: "Cart", Shards: 16, Allocated: 1}},
			Shards: []*adminv1.Shard{{Type: "Cart", Index: 3, Epoch: "3.13", Phase: "starting", Reason: "unreadable", Cause: "unreadable"}},
			Unreadable: []*adminv1.Unreadable{{Type: "Cart", Shards: []uint32{3}, Region: "region-1", Version: "1.0",
				Forms: []string{"event item-added, version 2, shape 00000000000000aa"}}},
		}, f.check()
	}
	res := &adminv1.ShardsResponse{Types: []*adminv1.TypeSummary{{Type: "Airport", Shards: 1024, Allocated: 2, Moving: 1}}}
	for _, s := range all {
		if req.Region == "" || s.Region == req.Region {
			res.Shards = append(res.Shards, s)
		}
	}
	return res, f.check()
}

func (f *fakeAdmin) Where(context.Context, *adminv1.WhereRequest) (*adminv1.WhereResponse, error) {
	return nil, twirp.NewError(twirp.Unimplemented, "no command asks this: shard show asks why")
}

func (f *fakeAdmin) Drain(_ context.Context, req *adminv1.DrainRequest) (*adminv1.DrainResponse, error) {
	f.resumed.Store(req.Resume)
	if err := f.record(req); err != nil {
		return nil, err
	}
	if f.left != nil {
		return f.left(req)
	}
	if req.DryRun && f.remaining.Load() <= 0 && req.Region != "region-9" {
		return &adminv1.DrainResponse{Remaining: 12, Already: req.Resume, Region: req.Region}, f.check()
	}
	res := &adminv1.DrainResponse{Remaining: uint32(max(0, f.remaining.Add(-1)))}
	if req.Region == "region-9" {
		res.Remaining = 3
		res.Stays = []*adminv1.Unreadable{{Type: "Cart", Shards: []uint32{4, 7}, Region: "region-1", Version: "1.3", Forms: []string{"added v2"}, By: []string{"1.4"}}, {Type: "Stock", Shards: []uint32{1}}}
	}
	return res, f.check()
}

func (f *fakeAdmin) Rollout(context.Context, *adminv1.RolloutRequest) (*adminv1.RolloutResponse, error) {
	return &adminv1.RolloutResponse{
		Target: "1.4", On: true, Left: 12, Unread: 5, Seen: []string{"1.3"},
		Versions: []*adminv1.RolloutVersion{
			{Version: "1.4", Target: true, Regions: []string{"region-2"}, Shards: 4, Moving: 1},
			{Version: "1.3", Regions: []string{"region-1", "region-3"}, Shards: 12},
		},
		CannotRead: []*adminv1.CannotRead{{Reader: "1.3", Writer: "1.4", Type: "Airport", Forms: []string{"landed v2"}}},
		Unreadable: []*adminv1.Unreadable{{Type: "Airport", Shards: []uint32{7}, Region: "region-1", Version: "1.3", Forms: []string{"landed v3"}, By: []string{"1.5"}}},
	}, f.check()
}

// Look has looked at nothing, then at some, then at all.
func (f *fakeAdmin) Look(context.Context, *adminv1.LookRequest) (*adminv1.LookResponse, error) {
	res := &adminv1.LookResponse{}
	group := func(looked bool, shards ...uint32) {
		res.Unreadable = append(res.Unreadable, &adminv1.Unreadable{
			Type: "Airport", Shards: shards, Region: "region-1", Version: "1.3", Forms: []string{"landed v3"}, Looked: looked,
		})
	}
	switch f.remaining.Add(1) {
	case 1:
		group(false, 1, 2, 3)
	case 2:
		group(true, 1)
		group(false, 2)
	default:
		group(true, 1)
	}
	return res, f.check()
}

func (f *fakeAdmin) SetTarget(_ context.Context, req *adminv1.SetTargetRequest) (*adminv1.SetTargetResponse, error) {
	if req.Version == "9" {
		return nil, twirp.NewError(twirp.NotFound, `no region has or had version "9"`)
	}
	if req.Version == "1.2" {
		return &adminv1.SetTargetResponse{Target: req.Version, Before: req.Version, NextTarget: "1.4", NextTargetMs: 1_800_000}, f.check()
	}
	return &adminv1.SetTargetResponse{Target: req.Version, Before: "1.4", Regions: []string{"region-1"}, Unread: 2}, f.check()
}

// Command has lost its first attempt.
func (f *fakeAdmin) Command(ctx context.Context, req *adminv1.CommandRequest) (*adminv1.CommandResponse, error) {
	switch {
	case f.standby:
		return nil, f.check()
	case f.slow:
		select {
		case <-time.After(time.Duration(req.TimeoutMs) * time.Millisecond):
		case <-ctx.Done():
		}
		if f.unserved {
			return &adminv1.CommandResponse{Outcome: "not_applied", Code: "deadline_exceeded", Message: "not applied: connection refused"}, nil
		}
		return &adminv1.CommandResponse{Outcome: "unknown", Code: "deadline_exceeded", Message: "the entity is busy: it may have been applied"}, nil
	case req.Reason == "" || req.IdempotencyKey == "" || req.By == "":
		return nil, twirp.NewError(twirp.InvalidArgument, "no reason, no key, or no name")
	case req.Id == "absent":
		return &adminv1.CommandResponse{Outcome: "not_applied", Code: "not_found", Message: "nothing is stored of the entity"}, nil
	case f.commands.Add(1) == 1:
		return &adminv1.CommandResponse{Outcome: "unknown", Code: "unavailable", Message: "lost"}, nil
	case req.Command != sharding.DeleteCommand:
		return f.deadLetter(req)
	case req.Id == "stuck":
		return &adminv1.CommandResponse{Outcome: "not_applied", Code: "deadline_exceeded", Message: "no region serves it"}, nil
	}
	return &adminv1.CommandResponse{Outcome: "executed", Region: "region-1"}, nil
}

func serve(t *testing.T, f *fakeAdmin) string {
	t.Helper()
	s := httptest.NewServer(adminv1.NewAdminServer(f))
	t.Cleanup(s.Close)
	return s.URL
}

// roost runs a command line in this process.
func roost(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	t.Setenv("ROOST_ADMIN", "")
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), args, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestShow(t *testing.T) {
	active, standby := &fakeAdmin{}, &fakeAdmin{standby: true}
	admin := strings.Join([]string{serve(t, standby), strings.TrimPrefix(serve(t, active), "http://")}, ",")
	for _, test := range []struct {
		command string
		code    int
		want    string
	}{
		{"cluster status", 0, `NAME           ROLE         STATE             SHARDS  LOAD  ZONE  VERSION  ADDRESS
coordinator-1  coordinator  up, active             -     -  -     -        10.0.0.1:25521
region-1       region       up, draining          12  1.28  -     -        10.0.0.2:25520
region-2       region       up, unreachable        0     -  b     1.4      10.0.0.3:25520
region-2       region       up               5 of 20     -  -     -        10.0.0.4:25520
region-3       region       up                     0     -  -     -        10.0.0.5:25520
region-3       region       joining                0     -  -     -        10.0.0.6:25520
region-3       region       exiting                0     -  -     -        10.0.0.7:25520

GATEWAY        COMMANDS  REFUSED     P50      P99  MANAGEMENT
10.0.0.8:8080   412.3/s    1.2/s  1.4 ms  12.3 ms  10.0.0.8:8558
10.0.0.9:8080     0.0/s    0.0/s       -        -  10.0.0.9:8558
p99 at all gateways: 12.3 ms, usually 6.1 ms
warning: region-3 is the name of 2 members, at 10.0.0.5:25520 and 10.0.0.6:25520: give each process a node.name of its own, or stop the one that is too many
braked since ` + phrase.Moment(1_700_000_000_000) + `: commands are slow; one is tried at ` + phrase.Moment(1_700_000_030_000) + `
active coordinator: coordinator-1, term 3
`},
		{"rollout status", 0, `VERSION  ROLLOUT  SHARDS  MOVING  REGIONS
1.4      target        4       1  region-2
1.3      -            12       0  region-1,region-3
1.3 does not read what 1.4 stores: Airport landed v2
Airport: 1 shard unreadable (7): region-1 (version 1.3) does not read landed v3, which may be stored. Start a region of 1.5, or of another version that does: commands are refused until then. If the region that had them crashed, roost rollout look finds out the stored forms
the rollout stands still: 12 shards are not with 1.4, and shards are balanced over all versions. No region of 1.4 reads 5 of them
`},
		{"rollout target 1.3", 0, `the target is 1.3 (it was 1.4); it runs in region-1
no region of 1.3 reads all that may be stored in 2 shards of other versions: as long as one of those runs it keeps them, and then their commands are refused
`},
		{"rollout target 1.2", 0, "the target is 1.2; no region runs it yet, see what it reads with roost journal check; if none comes within 30m0s, 1.4 becomes the target\n"},
		{"rollout target 9", 3, "roost: no region has or had version \"9\"\n"},
		{"-o json rollout target 1.3", 0, `{"target":"1.3","before":"1.4","regions":["region-1"],"unread":2,"next_target":"","next_target_ms":"0"}` + "\n"},
		{"entity delete Cart/dora --reason gone", 0, "Cart/dora is deleted (by region-1)\n"},
		{"entity delete Cart absent --reason gone", app.ExitNotFound, "roost: not_found: nothing is stored of the entity (it was not applied)\n"},
		{"entity delete Cart/stuck --reason gone --timeout 50ms --idempotency-key k", app.ExitFailed, "roost: deadline_exceeded: no region serves it (it was not applied)\n"},
		{"entity delete Cart/dora", app.ExitUsage, "roost: --reason is missing; say why, for the log\n"},
		{"shard ls --region region-1", 0, `TYPE     SHARD  REGION    PHASE    CAUSE  EPOCH  ADDRESS
Airport      7  region-1  serving  drain   3.12  10.0.0.2:25520
Airport: 2 of 1024 shards allocated, 1 moving
`},
		{"shard ls", 0, `TYPE     SHARD  REGION    PHASE        CAUSE    EPOCH  ADDRESS
Airport      7  region-1  serving      drain     3.12  10.0.0.2:25520
Airport      9  -         serving      -          2.8  10.0.0.9:25520
Airport   1019  region-2  handing-off  balance    2.9  10.0.0.3:25520
Airport: 2 of 1024 shards allocated, 1 moving
-: 1 shard of a region that is not registered: it comes back, or another region takes over; see roost cluster status
`},
		{"shard ls --type Cart", 0, `TYPE  SHARD  REGION  PHASE       CAUSE       EPOCH  ADDRESS
Cart      3  -       unreadable  unreadable   3.13  -
Cart: 1 of 16 shards allocated, 0 moving
Cart: 1 shard unreadable (3): region-1 (version 1.0) does not read event item-added, version 2, shape 00000000000000aa, which may be stored. Start a region of a version that does: commands are refused until then. If the region that had them crashed, roost rollout look finds out the stored forms
`},
		{"call Airport Get {}", app.ExitUsage, "roost: \"Airport\" is not the name of an entity: write TYPE/ID, such as Airport/PHX\n"},
		{"call Airport PHX Get {}", app.ExitUsage, "roost: an entity such as Airport/PHX, a command and at most one input are needed, 4 arguments are given\nusage: roost call TYPE/ID COMMAND [JSON] [flags]\nsee: roost call --help\n"},
		{"shard ls --kind x", app.ExitUsage, "roost: unknown flag: --kind\nusage: roost shard ls [flags]\nsee: roost shard ls --help\n"},
		{"cluster status -o yaml", app.ExitUsage, "roost: -o \"yaml\": write table or json\n"},
		{"mumble", app.ExitUsage, "roost: unknown command \"mumble\" for \"roost\"\nsee: roost --help\n"},
		{"region drain region-1 --undo", 0, "region-1 takes shards again\n"},
		{"region drain region-1 --dry-run", 0, "nothing is changed; without --dry-run it would be so: all shards move off region-1: 12 shards left\n"},
		{"region drain region-1 --undo --dry-run", 0, "region-1 takes shards again; it was so before\n"},
	} {
		code, out, errOut := roost(t, append(strings.Fields(test.command), "--admin", admin)...)
		if code != test.code || out+errOut != test.want {
			t.Errorf("roost %s: exit code %d, want %d\n%s%s\nwant:\n%s", test.command, code, test.code, out, errOut, test.want)
		}
	}
}

// TestDrainSaysWhatStays: a drain that does not end names the reason.
func TestDrainSaysWhatStays(t *testing.T) {
	why := "3 shards left; of type Cart, 2 shards cannot move (4, 7): region-1 (version 1.3) does not read added v2, which may be stored. Start a region of 1.4, or of another version that does; of type Stock, 1 shard cannot move (1): there is no other region that could be given them"
	code, _, errOut := roost(t, "--admin", serve(t, &fakeAdmin{}), "region", "drain", "region-9", "--timeout", "300ms")
	if want := "draining region-9: " + why + "\nroost: region-9: " + why + "; the drain continues\n"; code != app.ExitTimedOut || errOut != want {
		t.Errorf("exit code %d\n%s\nwant\n%s", code, errOut, want)
	}
}

// TestTargetThatIsNoName: what cannot be a version is wrong usage, and is not sent.
func TestTargetThatIsNoName(t *testing.T) {
	for version, want := range map[string]string{
		"v\xff": "the version is not valid UTF-8", "v\u202e1": "the version holds U+202E, which is not shown",
	} {
		if code, _, errOut := roost(t, "--admin", "http://127.0.0.1:1", "rollout", "target", version); code != app.ExitUsage || !strings.Contains(errOut, want) {
			t.Errorf("%q: exit code %d, %s", version, code, errOut)
		}
	}
}

// TestLook: the request is repeated until all shards that are left are looked at.
func TestLook(t *testing.T) {
	left := "Airport: 1 shard unreadable (1): region-1 (version 1.3) does not read landed v3, which is stored. Start a region of a version that does: commands are refused until then\n"
	admin := serve(t, &fakeAdmin{})
	if code, out, _ := roost(t, "--admin", admin, "rollout", "look"); code != app.ExitOK || out != "3 shards looked at: 2 can be read by a region and served again, 1 cannot\n"+left {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if code, out, _ := roost(t, "--admin", admin, "rollout", "look", "-o", "json"); code != app.ExitOK || !strings.Contains(out, `"looked":true`) {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if code, _, errOut := roost(t, "--admin", serve(t, &fakeAdmin{}), "rollout", "look", "--timeout", "50ms"); code != app.ExitTimedOut || !strings.Contains(errOut, "3 shards still to be looked at") {
		t.Errorf("exit code %d\n%s", code, errOut)
	}
	if got := phrase.SomeOf([]uint32{1, 2, 3, 4, 5, 6, 7, 8, 9}); got != "1, 2, 3, 4, 5, 6, 7, 8, …" {
		t.Errorf("nine numbers are %s", got)
	}
}

func TestDrain(t *testing.T) {
	active := &fakeAdmin{}
	active.remaining.Store(4)
	code, out, errOut := roost(t, "region", "drain", "region-1", "--admin", serve(t, active))
	if code != 0 || !strings.HasPrefix(out, "region-1 has no shards left and can be stopped") ||
		errOut != "draining region-1: 3 shards left\ndraining region-1: 2 shards left\ndraining region-1: 1 shard left\n" {
		t.Errorf("drain: %d\n%s%s", code, out, errOut)
	}
	active.remaining.Store(1 << 20)
	code, _, errOut = roost(t, "region", "drain", "region-1", "--timeout", "250ms", "--admin", serve(t, active))
	if code != app.ExitTimedOut || !strings.Contains(errOut, "the drain continues") {
		t.Errorf("endless drain: %d %s", code, errOut)
	}
}

// TestDrainIsOfOneProcess: the drain is requested once. The number of shards is then queried at the process of the first
// answer, which changes nothing: another operator may have given another reason.
func TestDrainIsOfOneProcess(t *testing.T) {
	var asked int
	active := &fakeAdmin{}
	active.left = func(req *adminv1.DrainRequest) (*adminv1.DrainResponse, error) {
		asked++
		res := &adminv1.DrainResponse{Node: "h:1#7", Region: "region-1"}
		if !req.Resume && asked < 3 {
			res.Remaining = 1
		}
		return res, nil
	}
	for _, args := range [][]string{{"region", "drain", "region-1", "--reason", "disk"}, {"region", "drain", "region-1", "--undo"}} {
		asked = 0
		code, out, errOut := roost(t, append(args, "--admin", serve(t, active))...)
		list := active.recorded()
		if drains := len(args) == 5; code != 0 || len(list) != map[bool]int{false: 1, true: 3}[drains] || !strings.HasPrefix(out, "region-1 ") {
			t.Errorf("%v: exit code %d after %v: %s%s", args, code, list, out, errOut)
		}
		for i, req := range list {
			want := &adminv1.DrainRequest{Region: "region-1", By: app.WhoAmI(), Resume: len(args) == 4, Reason: map[bool]string{true: "disk"}[len(args) == 5]}
			if i > 0 {
				want = &adminv1.DrainRequest{Region: "h:1#7", DryRun: true}
			}
			if !proto.Equal(req, want) {
				t.Errorf("%v, attempt %d: %v, want %v", args, i, req, want)
			}
		}
	}
	active.left = func(req *adminv1.DrainRequest) (*adminv1.DrainResponse, error) {
		if req.Region != "region-1" {
			return nil, twirp.NewErrorf(twirp.NotFound, "no region %s; see roost cluster status", req.Region)
		}
		return &adminv1.DrainResponse{Node: "h:1#7", Region: "region-1", Remaining: 4}, nil
	}
	code, out, errOut := roost(t, "region", "drain", "region-1", "--admin", serve(t, active))
	if want := "region-1 was h:1#7 when this began\nroost: no region h:1#7"; code != app.ExitNotFound || !strings.Contains(errOut, want) {
		t.Errorf("the process has left: exit code %d, %s%s", code, out, errOut)
	}
}

// TestNoAnswerInTime has a coordinator that answers too late for --timeout.
func TestNoAnswerInTime(t *testing.T) {
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not see that the caller is gone
		<-r.Context().Done()
	}))
	t.Cleanup(hangs.Close)
	for _, command := range []string{"rollout look", "rollout target 1.4", "region drain region-1", "region drain region-1 --undo"} {
		args := append(strings.Fields(command), "--timeout", "50ms", "--admin", hangs.URL)
		if code, _, errOut := roost(t, args...); code != app.ExitTimedOut || !strings.Contains(errOut, "run it again") {
			t.Errorf("%s: exit code %d, %s", command, code, errOut)
		}
	}
}

func TestUnreachable(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	t.Setenv("ROOST_GATEWAY", "")
	for _, test := range []struct {
		says string
		args []string
	}{
		{"connection refused", []string{"cluster", "status", "--admin", gone.URL}},
		{"start one with roost dev, or name one with --admin URL", []string{"cluster", "status", "--dir", t.TempDir()}},
		{"--admin URL", []string{"shard", "show", "Airport", "PHX", "--dir", t.TempDir()}},
		{"start one with roost dev, or name one with --gateway URL", []string{"call", "Airport/PHX", "Get", "--dir", t.TempDir()}},
		{"no answer from", []string{"call", "Airport/PHX", "Get", "--gateway", gone.URL, "--timeout", "100ms"}},
		{"start one with roost dev, or say with --dir where one runs", []string{"dev", "kill", "region-1", "--dir", t.TempDir()}},
		{"--dir", []string{"dev", "ps", "--dir", t.TempDir()}},
		{"write the URL of its lease", []string{"cluster", "lease", "--dir", t.TempDir()}},
	} {
		if code, out, errOut := roost(t, test.args...); code != app.ExitUnreachable || !strings.Contains(errOut, test.says) {
			t.Errorf("roost %s: exit code %d, want %d; it does not say %q\n%s%s", strings.Join(test.args, " "), code, app.ExitUnreachable, test.says, out, errOut)
		}
	}
	if code, _, errOut := roost(t, "cluster", "status", "--admin", "http://"); code != app.ExitUsage {
		t.Errorf("no URL: %d %s", code, errOut)
	}
}

func TestInterrupted(t *testing.T) {
	active := &fakeAdmin{}
	active.remaining.Store(1 << 20)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errOut bytes.Buffer
	if code := run(ctx, []string{"region", "drain", "region-1", "--admin", serve(t, active)}, &out, &errOut); code != app.ExitInterrupted {
		t.Errorf("interrupted drain: %d\n%s%s", code, &out, &errOut)
	}
}

func TestCall(t *testing.T) {
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1/Counter/a b/Add" && r.Header.Get("Idempotency-Key") == "k1":
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Roost-Outcome", "executed")
			_, _ = w.Write([]byte(`{ "value": 5 }`))
		case r.URL.Path == "/v1/Counter/gone/Get":
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"code":"not_found","msg":"no such counter","meta":{"outcome":"executed"}}`))
		case r.URL.Path == "/v1/Counter/slow/Add":
			w.WriteHeader(http.StatusRequestTimeout)
			_, _ = w.Write([]byte(`{"code":"deadline_exceeded","msg":"no answer from the region","meta":{"outcome":"unknown"}}`))
		case r.URL.Path == "/v1/Counter/unread/Add":
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"code":"unavailable","msg":"no region reads it","meta":{"outcome":"not_applied"}}`))
		case strings.HasPrefix(r.URL.Path, "/twirp/"): // as Twirp refuses a GET
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"code":"bad_route","msg":"unsupported method"}`))
		case r.URL.Path == "/v1/Counter/silent/Add":
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		case r.URL.Path == "/v1/Counter/own/Add": // the entity says so itself
			w.WriteHeader(http.StatusRequestTimeout)
			_, _ = w.Write([]byte(`{"code":"deadline_exceeded","msg":"the offer has ended","meta":{"outcome":"executed"}}`))
		default:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"code":"invalid_argument","msg":"what is this?","meta":{"outcome":"not_applied"}}`))
		}
	}))
	t.Cleanup(gateway.Close)
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"Counter/a b", "Add", `{"delta":5}`, "--idempotency-key", "k1"}, 0, "{\"value\":5}\n"},
		{[]string{"Counter/gone", "Get"}, app.ExitNotFound, "roost: not_found: no such counter\n"},
		{[]string{"Counter/x", "Add"}, app.ExitFailed, "roost: invalid_argument: what is this? (it was not applied)\n"},
		{[]string{"Counter/x", "Add", "delta=5"}, app.ExitUsage, "roost: the input is not JSON; write it like '{\"delta\":5}'\n"},
		{[]string{"Counter/own", "Add"}, app.ExitFailed, "roost: deadline_exceeded: the offer has ended\n"},
	} {
		code, out, errOut := roost(t, append([]string{"call", "--gateway", gateway.URL}, test.args...)...)
		if code != test.code || out+errOut != test.want {
			t.Errorf("roost call %v: exit code %d, want %d\n%s%s", test.args, code, test.code, out, errOut)
		}
	}
	// A gateway that refuses a command can be reached; one that is not there cannot.
	if code, _, errOut := roost(t, "call", "Counter/unread", "Add", "--timeout", "300ms", "--gateway", gateway.URL); code != app.ExitFailed || !strings.Contains(errOut, "no region reads it") {
		t.Errorf("a refused command: exit code %d, %s", code, errOut)
	}
	if code, _, errOut := roost(t, "call", "Counter/unread", "Add", "--timeout", "300ms", "--gateway", "http://127.0.0.1:1"); code != app.ExitUnreachable {
		t.Errorf("no gateway: exit code %d, %s", code, errOut)
	}
	// A gateway that reports no answer in time, and a silent one.
	for _, entity := range []string{"Counter/slow", "Counter/silent"} {
		code, out, errOut := roost(t, "call", entity, "Add", "--timeout", "50ms", "--gateway", gateway.URL)
		if code != app.ExitTimedOut || !strings.HasPrefix(errOut, "roost: timed out after 50ms, see --timeout: deadline_exceeded: ") {
			t.Errorf("roost call %s: exit code %d, want %d\n%s%s", entity, code, app.ExitTimedOut, out, errOut)
		}
	}
}
