package cluster

import (
	"bytes"
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/libs/adminclient"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// pages ends a live view after some pages.
type pages struct {
	bytes.Buffer
	left int
	end  context.CancelFunc
}

func (p *pages) Write(b []byte) (int, error) {
	if p.left--; p.left == 0 {
		p.end()
	}
	return p.Buffer.Write(b)
}

// busy is a coordinator that knows one busy entity.
type busy struct{ adminv1.Admin }

func (busy) Top(context.Context, *adminv1.TopRequest) (*adminv1.TopResponse, error) {
	return &adminv1.TopResponse{
		Regions: 2, Silent: []*adminv1.Silent{{Region: "region-3", Reason: "no answer"}},
		Entities: []*adminv1.TopEntity{{Type: "Cart", Id: "dora", Index: 17, Region: "region-2", Commands: 398.06, Handlers: 0.1187}},
	}, nil
}

// TestTopLive: a live view draws one page over the other until Ctrl-C, also while no coordinator answers.
func TestTopLive(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	defer end()
	out := &pages{left: 2, end: end}
	a := &group{&app.App{Out: out, Output: "table"}}
	server := httptest.NewServer(adminv1.NewAdminServer(busy{}))
	defer server.Close()
	o := top{n: 9, entities: true, every: time.Millisecond}
	if err := a.watchTop(ctx, adminclient.New(server.URL), &o, true); err != app.ErrInterrupted {
		t.Error(err)
	}
	const page = clearScreen + `ENTITY     SHARD    REGION    COMMANDS  HANDLERS
Cart/dora  Cart/17  region-2   398.1/s     11.9%
what is hot in region-3 is not known: no answer
`
	if out.String() != page+page {
		t.Errorf("drawn is %q", out.String())
	}
	ctx, end = context.WithCancel(t.Context())
	defer end()
	out = &pages{left: 1, end: end}
	a.Out = out
	if err := a.watchTop(ctx, adminclient.New("http://127.0.0.1:1"), &o, true); err != app.ErrInterrupted || !strings.Contains(out.String(), "the cluster is unreachable") {
		t.Errorf("no coordinator answers: %v, %q", err, out.String())
	}
	if err := a.watchTop(t.Context(), adminclient.New("http://127.0.0.1:1"), &o, false); err == nil {
		t.Error("no coordinator answers, and it continues")
	}
}
