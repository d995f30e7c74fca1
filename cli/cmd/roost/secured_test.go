package main

import (
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// TestTokenAndAuthority: commands send the management token of the file, or of the environment, and trust the
// authority that is named.
func TestTokenAndAuthority(t *testing.T) {
	admin := adminv1.NewAdminServer(&fakeAdmin{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer right" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"code":"unauthenticated","msg":"not authenticated","meta":{}}`))
			return
		}
		admin.ServeHTTP(w, r)
	}))
	defer server.Close()
	server.Config.ErrorLog = nil
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca := write("ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	right, wrong, empty := write("right", []byte("right\n")), write("wrong", []byte("wrong")), write("empty", nil)
	for _, c := range []struct {
		args, variable string
		code           int
		want           string
	}{
		{"--ca " + ca + " --token-file " + right, "", app.ExitOK, ""},
		{"--ca " + ca, "right", app.ExitOK, ""},
		{"--ca " + ca + " --token-file " + right, "wrong", app.ExitOK, ""},
		{"--ca " + ca + " --token-file " + wrong, "", app.ExitFailed, "--token-file FILE or in ROOST_ADMIN_TOKEN"},
		{"--ca " + ca, "", app.ExitFailed, "--token-file FILE or in ROOST_ADMIN_TOKEN"},
		{"--ca " + ca + " --token-file " + empty, "right", app.ExitFailed, "the file is empty"},
		{"--ca " + ca + " --token-file /nonexistent", "", app.ExitFailed, "--token-file"},
		{"", "right", app.ExitUnreachable, "certificate"},
		{"--ca " + right, "right", app.ExitFailed, "no certificate in it"},
		{"--ca " + ca + " --cert " + ca, "right", app.ExitFailed, "--cert with --key"},
	} {
		t.Setenv("ROOST_ADMIN_TOKEN", c.variable)
		code, _, errOut := roost(t, append(strings.Fields("cluster status --admin "+server.URL), strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(errOut, c.want) {
			t.Errorf("%q with %q: %d %s, want %d %q", c.args, c.variable, code, errOut, c.code, c.want)
		}
	}
}

// TestCert: certificates are made for roles, by an authority that is not overwritten.
func TestCert(t *testing.T) {
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca")
	if code, out, errOut := roost(t, "auth", "cert", "authority", ca); code != app.ExitOK || !strings.Contains(out, time.Now().Add(10*365*24*time.Hour).Format(time.DateOnly)) {
		t.Fatal(out, errOut)
	}
	if code, _, _ := roost(t, "auth", "cert", "authority", ca); code == app.ExitOK {
		t.Error("an authority is overwritten")
	}
	code, out, errOut := roost(t, "auth", "cert", "new", "region-1", "--authority", ca, "--cluster", "prod", "--role", "region", "--host", "region-1.internal", "--out", dir)
	if code != app.ExitOK || !strings.Contains(out, "spiffe://prod/region/region-1") {
		t.Fatalf("%d %s %s", code, out, errOut)
	}
	if _, err := tls.LoadX509KeyPair(filepath.Join(dir, "region-1.pem"), filepath.Join(dir, "region-1.key")); err != nil {
		t.Error(err)
	}
	// The time at which it ends matters, because it may be today.
	before := time.Now().Add(time.Minute).UTC().Truncate(time.Second)
	code, out, errOut = roost(t, "auth", "cert", "new", "region", "--authority", ca, "--cluster", "prod", "--role", "region", "--shared", "--valid", "60s", "--out", dir)
	_, end, _ := strings.Cut(strings.TrimSpace(out), "valid until ")
	at, err := time.Parse(time.RFC3339, end)
	if code != app.ExitOK || !strings.Contains(out, "for spiffe://prod/region,") || err != nil || at.Before(before) || at.After(time.Now().Add(time.Minute)) {
		t.Errorf("%d %s %s, %v", code, out, errOut, err)
	}
	for args, want := range map[string]string{
		"--role region --host a": "--authority", "--role admin --host a --authority " + ca: "--role",
		"--role gateway --valid -1h --authority " + ca: "--valid",
	} {
		if code, _, errOut := roost(t, append([]string{"auth", "cert", "new", "x"}, strings.Fields(args)...)...); code != app.ExitUsage || !strings.Contains(errOut, want) {
			t.Errorf("%q: %d %s", args, code, errOut)
		}
	}
}

// TestDevTLS: with --tls, nothing is plain but what is on loopback for operators, and changes need the token,
// which the commands find.
func TestDevTLS(t *testing.T) {
	d := startDev(t, t.TempDir(), "--tls", "--regions", "1", "--gateways", "1", "--coordinators", "1")
	if !strings.HasPrefix(d.API, "https://") {
		t.Fatalf("the API is at %s", d.API)
	}
	if code, out, errOut := d.roost("call", "Counter/c1", "Add", `{"delta":1}`); code != 0 || out != "{\"value\":1}\n" {
		t.Errorf("roost call: %d %s %s", code, out, errOut)
	}
	if code, _, errOut := d.roost("region", "cordon", "region-1"); code != 0 {
		t.Errorf("roost region cordon: %d %s", code, errOut)
	}
	if code, _, errOut := d.roost("region", "cordon", "region-1", "--admin", d.Admin[0]); code != app.ExitFailed || !strings.Contains(errOut, "token") {
		t.Errorf("without a token: %d %s", code, errOut)
	}
	for _, p := range d.Processes {
		if res, err := http.Get("http://" + p.Service + "/bootstrap/seed-nodes"); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				t.Errorf("%s serves plain TCP", p.Name)
			}
		}
	}
	if code := d.interrupt(1); code != 0 {
		t.Errorf("Ctrl-C: exit code %d\n%s", code, d.err)
	}
}

// TestDevJournal: the journal can be in PostgreSQL, and a later cluster finds what an earlier one has stored.
func TestDevJournal(t *testing.T) {
	server := postgrestest.Start(t)
	database, err := server.NewDatabase()
	if err != nil {
		t.Fatal(err)
	}
	url := server.URL(postgrestest.Superuser, database)
	for i, want := range []string{`{"value":5}`, `{"value":10}`} {
		d := startDev(t, t.TempDir(), "--journal", url, "--regions", "1", "--gateways", "1", "--coordinators", "1")
		wantPost(t, d.API, "Counter/c1/Add", `{"delta":5}`, want)
		if i == 0 {
			if code, out, errOut := d.roost("journal", "check"); code != 0 {
				t.Errorf("roost journal check: %d %s %s", code, out, errOut)
			}
		}
		if code := d.interrupt(1); code != 0 {
			t.Errorf("Ctrl-C: exit code %d\n%s", code, d.err)
		}
	}
}
