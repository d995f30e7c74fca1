package main

import (
	"context"
	"testing"

	"github.com/roost-cluster/roost/cli/internal/app"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (f *fakeAdmin) Examine(context.Context, *adminv1.ExamineRequest) (*adminv1.ExamineResponse, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	res := &adminv1.ExamineResponse{Processes: 4, Advice: []*adminv1.Advice{
		{Name: "tls-off", Severity: "danger", Text: "it is plain", Next: "set tls.cert", Processes: []string{"region-1", "region-2"}},
		{Name: "one-gateway", Severity: "note", Text: "there is one", Next: "start another"},
	}}
	if f.unserved {
		res.Advice = res.Advice[1:]
	}
	return res, nil
}

func TestDoctor(t *testing.T) {
	const note = "note     one-gateway: there is one\n         do: start another\n4 processes asked\n"
	const danger = "danger   tls-off: it is plain\n         at: region-1, region-2\n         do: set tls.cert\n"
	for _, c := range []struct {
		f    *fakeAdmin
		code int
		out  string
	}{{&fakeAdmin{}, app.ExitFailed, danger + note}, {&fakeAdmin{unserved: true}, app.ExitOK, note}} {
		code, out, errOut := roost(t, "--admin", serve(t, c.f), "cluster", "doctor")
		if code != c.code || out != c.out || (code == app.ExitOK) != (errOut == "") {
			t.Errorf("code %d, printed\n%s%s", code, out, errOut)
		}
	}
}
