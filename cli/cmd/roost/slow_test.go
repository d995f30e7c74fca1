package main

import (
	"context"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/cli/internal/app"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (f *fakeAdmin) Slow(_ context.Context, req *adminv1.SlowRequest) (*adminv1.SlowResponse, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	if req.Limit == 1 {
		return &adminv1.SlowResponse{Gateways: 2, Regions: 1}, nil
	}
	return &adminv1.SlowResponse{
		Gateways: 1, Silent: []*adminv1.Silent{{Region: "10.0.0.2:8080", Reason: "connection refused"}}, Regions: 2,
		SilentRegions: []*adminv1.Silent{{Region: "region-\n3", Reason: "no answer\nat all"}},
		Commands: []*adminv1.SlowCommand{
			{AtUnixMs: 1000, Gateway: "10.0.0.1:8080", Region: "region-1", Type: "Cart", Id: "a\nb", Command: "Add", Attempts: 2, TotalUs: 10_000, RouteUs: 1000, MailboxUs: 2000, HandlerUs: 3000, JournalUs: 4000},
			{AtUnixMs: 500, Gateway: "10.0.0.1:8080", Type: "Cart", Id: "c", Command: "Add", TotalUs: 100, RouteUs: 100, Code: "unavailable", From: "10.0.0.7"},
			{AtUnixMs: 400, KeptBy: "region-2", Region: "region-1", Type: "Cart", Id: "d", Command: "Take", Attempts: 1, TotalUs: 100, HandlerUs: 100, Origin: "ask", From: "Stock/\x1b7"},
			{AtUnixMs: 300, KeptBy: "region-2", Region: "region-2", Type: "Cart", Id: "e", Command: "Ring", TotalUs: 100, HandlerUs: 100, Origin: "timer"},
		},
	}, nil
}

func TestSlow(t *testing.T) {
	admin := serve(t, &fakeAdmin{standby: true}) + "," + strings.TrimPrefix(serve(t, &fakeAdmin{}), "http://")
	for _, test := range []struct {
		command string
		code    int
		want    string
	}{
		{"cluster slow", 0, `ARRIVED                   ENTITY       COMMAND  ERROR          TOTAL   ROUTE  MAILBOX  HANDLER  JOURNAL  TRIES  REGION    ORIGIN             KEPT BY
1970-01-01T00:00:01.000Z  "Cart/a\nb"  Add      -            10.0 ms  1.0 ms   2.0 ms   3.0 ms   4.0 ms      2  region-1  client             10.0.0.1:8080
1970-01-01T00:00:00.500Z  Cart/c       Add      unavailable   0.1 ms  0.1 ms   0.0 ms   0.0 ms   0.0 ms      0  -         client 10.0.0.7    10.0.0.1:8080
1970-01-01T00:00:00.400Z  Cart/d       Take     -             0.1 ms  0.0 ms   0.0 ms   0.1 ms   0.0 ms      1  region-1  "ask Stock/\x1b7"  region-2
1970-01-01T00:00:00.300Z  Cart/e       Ring     -             0.1 ms  0.0 ms   0.0 ms   0.1 ms   0.0 ms      0  region-2  timer              region-2
the commands of gateway 10.0.0.2:8080 are missing: connection refused
the commands that region "region-\n3" has kept are missing: no answer at all
`},
		{"cluster slow -n 1", 0, "no command has ended in the last minutes in the 2 gateways and the 1 region that answered\n"},
		{"cluster slow -n 0", app.ExitUsage, "roost: -n is 0; it must be 1 to 1000\n"},
	} {
		code, out, errOut := roost(t, append(strings.Fields(test.command), "--admin", admin)...)
		if code != test.code || out+errOut != test.want {
			t.Errorf("roost %s: exit code %d, want %d\n%s%s\nwant:\n%s", test.command, code, test.code, out, errOut, test.want)
		}
	}
	if code, out, _ := roost(t, "cluster", "slow", "-o", "json", "--admin", admin); code != 0 || strings.Count(out, `"total_us":`) != 4 {
		t.Errorf("exit code %d, %s", code, out)
	}
}
