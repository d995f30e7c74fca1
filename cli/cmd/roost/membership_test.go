package main

import (
	"bytes"
	"context"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/cli/internal/app"
	membershipv1 "github.com/roost-cluster/roost/proto/roost/admin/v1/membership"
)

// fakeMember has one other member, which leaves when it was asked three times.
type fakeMember struct {
	asked  atomic.Int32
	stays  func() // called instead when it was asked three times
	stream string
}

func (f *fakeMember) find(node string) (*membershipv1.NodeResponse, error) {
	if node != "region-1" && node != "10.0.0.2:25520#2a" {
		return nil, twirp.NewErrorf(twirp.NotFound, "no member %q; see roost cluster status", node)
	}
	return &membershipv1.NodeResponse{Member: &membershipv1.ClusterMember{Name: "region-1", Addr: "10.0.0.2:25520", Uid: "2a", Status: "up", Reachable: true}}, nil
}

func (f *fakeMember) Join(_ context.Context, req *membershipv1.JoinRequest) (*membershipv1.JoinResponse, error) {
	return &membershipv1.JoinResponse{Self: "10.0.0.9:1#1"}, nil
}

func (f *fakeMember) Leave(_ context.Context, req *membershipv1.NodeRequest) (*membershipv1.NodeResponse, error) {
	switch n := f.asked.Add(1); {
	case n > 3 && f.stays == nil:
		return nil, twirp.NewError(twirp.NotFound, "no such member")
	case n == 4:
		f.stays()
	}
	return f.find(req.Node)
}

func (f *fakeMember) Down(_ context.Context, req *membershipv1.NodeRequest) (*membershipv1.NodeResponse, error) {
	return f.find(req.Node)
}

func (f *fakeMember) Remove(_ context.Context, req *membershipv1.NodeRequest) (*membershipv1.NodeResponse, error) {
	return f.find(req.Node)
}

func (f *fakeMember) Events(_ context.Context, req *membershipv1.EventsRequest) (*membershipv1.EventsResponse, error) {
	if req.Next >= 3 && req.Stream == f.stream { // nothing continues forever
		return nil, twirp.NewError(twirp.InvalidArgument, "the end")
	}
	return &membershipv1.EventsResponse{Stream: f.stream, Next: req.Next + 1, Resync: req.Stream != f.stream, Events: []*membershipv1.Event{
		{Seq: 1, Kind: "up", Name: "region-1", Node: "10.0.0.2:25520#2a"},
		{Seq: 2, Kind: "unreachable", Node: "10.0.0.3:25520#2b", ByMe: true},
		{Seq: 3, Kind: "replaced", Node: "10.0.0.3:25520#2b", Text: "now 10.0.0.3:25520#2c"},
		{Seq: 4, Kind: "name-shared", Name: "region-1", Text: "10.0.0.2:25520#2a, 10.0.0.4:25520#2d"},
	}}, nil
}

func serveMember(t *testing.T, f *fakeMember) string {
	t.Helper()
	s := httptest.NewServer(membershipv1.NewMembershipServer(f))
	t.Cleanup(s.Close)
	return s.URL
}

func TestSteeringMembers(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	member := serveMember(t, &fakeMember{})
	both := gone.URL + "," + member
	for _, test := range []struct {
		command string
		code    int
		want    string
	}{
		{"cluster down region-1 --admin " + both, 0, "region-1 is declared down: its shards move, and its process stops as soon as it learns of it\n"},
		{"cluster down region-1 --force -o json --admin " + both, 0, `{"name":"region-1","addr":"10.0.0.2:25520","uid":"2a","outcome":"removed"}` + "\n"},
		{"cluster down region-7 --force --admin " + both, app.ExitNotFound, "roost: no member \"region-7\"; see roost cluster status\n"},
		{"cluster down --admin " + both, app.ExitUsage, "roost: one name is needed, 0 are given\nusage: roost cluster down NODE [flags]\nsee: roost cluster down --help\n"},
		{"cluster join 10.0.0.4:25521 --admin " + both, app.ExitUsage, "roost: which process should join? give its management URL: --admin http://localhost:8558\n"},
		{"cluster join 10.0.0.4:25521 --admin " + member, 0, "10.0.0.9:1#1 asks 10.0.0.4:25521 to be let in; see roost cluster status, and its log if it does not appear there\n"},
	} {
		code, out, errOut := roost(t, strings.Fields(test.command)...)
		if code != test.code || out+errOut != test.want {
			t.Errorf("roost %s: exit code %d, want %d\n%s%s\nwant:\n%s", test.command, code, test.code, out, errOut, test.want)
		}
	}
	if code, _, errOut := roost(t, "cluster", "down", "region-1", "--admin", gone.URL); code != app.ExitUnreachable {
		t.Errorf("no coordinator answers: %d %s", code, errOut)
	}
}

// timeIsOver is a context whose deadline passes when done is closed.
type timeIsOver struct {
	context.Context
	done chan struct{}
}

func (c timeIsOver) Done() <-chan struct{} { return c.done }

func (c timeIsOver) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestLeave(t *testing.T) {
	code, out, errOut := roost(t, "cluster", "leave", "region-1", "--admin", serveMember(t, &fakeMember{}))
	if code != 0 || !strings.HasPrefix(out, "region-1 has left the cluster") {
		t.Errorf("leave: %d\n%s%s", code, out, errOut)
	}
	over := timeIsOver{t.Context(), make(chan struct{})}
	stays := serveMember(t, &fakeMember{stays: func() { close(over.done) }})
	var stdout, stderr bytes.Buffer
	code = run(over, []string{"cluster", "leave", "region-1", "--admin", stays}, &stdout, &stderr)
	errOut = stderr.String()
	if code != app.ExitTimedOut || errOut != "roost: region-1 is still up; it continues to leave, see roost cluster status\n" {
		t.Errorf("one that stays: %d %s", code, errOut)
	}
}

func TestEvents(t *testing.T) {
	url := serveMember(t, &fakeMember{stream: "a#1"})
	code, out, _ := roost(t, "cluster", "events", "--all", "--admin", url)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || len(lines) != 4 {
		t.Fatalf("%d:\n%s", code, out)
	}
	for i, want := range []string{
		"  region-1 is up  (10.0.0.2:25520#2a)",
		"  10.0.0.3:25520#2b is unreachable in the eyes of this coordinator",
		"  10.0.0.3:25520#2b was started again: now 10.0.0.3:25520#2c",
		"  region-1 is the name of several members: 10.0.0.2:25520#2a, 10.0.0.4:25520#2d",
	} {
		if !strings.HasSuffix(lines[i], want) {
			t.Errorf("%q, want %q", lines[i], want)
		}
	}
	_, out, _ = roost(t, "cluster", "events", "-f", "--admin", url)
	if n := strings.Count(out, "region-1 is up"); n != 3 || strings.Contains(out, "eyes") {
		t.Errorf("following gives\n%s", out)
	}
}
