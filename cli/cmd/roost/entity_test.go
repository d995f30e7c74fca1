package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/cli/internal/app"
)

// TestOperatorsDoubt: only what may have reached a coordinator is said to be possibly applied.
func TestOperatorsDoubt(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else it is not noticed that the client goes
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	// One that answers when its time is over, as for an entity that is busy.
	slow := serve(t, &fakeAdmin{slow: true})
	unserved := serve(t, &fakeAdmin{slow: true, unserved: true})
	standby := serve(t, &fakeAdmin{standby: true})
	for _, test := range []struct {
		admin string
		code  int
		want  string
	}{
		{nobody, app.ExitUnreachable, "(it was not applied)"},
		{standby, app.ExitUnreachable, "(it was not applied)"},
		{slow, app.ExitTimedOut, "the entity is busy: it may have been applied"},
		{standby + "," + unserved, app.ExitFailed, "not applied: connection refused (it was not applied)"}, // what the active one says counts
		{unserved + "," + standby, app.ExitFailed, "not applied: connection refused (it was not applied)"},
		{silent.URL, app.ExitTimedOut, "it may have been applied; send it again under the same key"},
	} {
		code, _, errOut := roost(t, "--admin", test.admin, "entity", "delete", "Cart/dora", "--reason", "gone", "--timeout", "400ms")
		if code != test.code || !strings.Contains(errOut, test.want) || strings.Contains(errOut, "may have been") != (test.code == app.ExitTimedOut) {
			t.Errorf("%s: exit code %d, want %d: %s", test.admin, code, test.code, errOut)
		}
	}
}
