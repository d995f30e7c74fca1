package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/roost-cluster/roost/cli/internal/app"
)

// TestDashboard: the URL belongs to the active coordinator, and has a ticket if there is a token.
func TestDashboard(t *testing.T) {
	active := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost && r.URL.Path == "/ui/ticket" && r.Header.Get("Authorization") == "Bearer secret":
			_, _ = io.WriteString(w, `{"ticket":"abc"}`)
		case r.Method != http.MethodGet || r.URL.Path != "/ui/":
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer active.Close()
	standby := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, active.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer standby.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	for _, test := range []struct {
		admin, token string
		code         int
		want         string
	}{
		{standby.URL, "", 0, active.URL + "/ui/\n"},
		{other.URL + "," + active.URL, "", 0, active.URL + "/ui/\n"},
		{standby.URL, "secret", 0, active.URL + "/ui/#ticket=abc\n"},
		{active.URL, "wrong", app.ExitFailed, "roost: " + active.URL + " gives no ticket: HTTP status 401\n"},
		{other.URL, "", app.ExitFailed, "roost: " + other.URL + "/ui/ is answered with HTTP status 404: is it the management listener of a coordinator?\n"},
	} {
		t.Setenv("ROOST_ADMIN_TOKEN", test.token)
		code, out, errOut := roost(t, "cluster", "dashboard", "--admin", test.admin)
		if code != test.code || out+errOut != test.want {
			t.Errorf("token %q: exit code %d, want %d\n%s%swant:\n%s", test.token, code, test.code, out, errOut, test.want)
		}
	}
}
