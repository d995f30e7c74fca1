package attack

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	launcher "github.com/roost-cluster/roost/cli/cluster"
)

var errAgain = errors.New("not yet")

// smuggling: no bytes of one request are taken for another request.
func smuggling(t *testing.T, r *rig) {
	const path, host = "POST /v1/Counter/smuggled/Add HTTP/1.1\r\n", "Host: 127.0.0.1\r\nContent-Type: application/json\r\n"
	inner := "POST /v1/Counter/victim/Add HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"delta\":9}"
	chunked := "0\r\n\r\n" + inner
	cases := map[string]string{
		"a length and chunks":         path + host + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n", len(chunked)) + chunked,
		"chunks and a length":         path + host + fmt.Sprintf("Transfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n", len(chunked)) + chunked,
		"two lengths":                 path + host + "Content-Length: 0\r\nContent-Length: " + fmt.Sprint(len(inner)) + "\r\n\r\n" + inner,
		"two lengths in one":          path + host + "Content-Length: 0, " + fmt.Sprint(len(inner)) + "\r\n\r\n" + inner,
		"a length with a sign":        path + host + "Content-Length: +0\r\n\r\n" + inner,
		"a length in hexadecimal":     path + host + "Content-Length: 0x0\r\n\r\n" + inner,
		"a negative length":           path + host + "Content-Length: -1\r\n\r\n" + inner,
		"a blank before the colon":    path + host + "Content-Length : 0\r\n\r\n" + inner,
		"an unknown coding":           path + host + "Transfer-Encoding: identity\r\nContent-Length: 0\r\n\r\n" + inner,
		"two codings":                 path + host + "Transfer-Encoding: chunked, identity\r\n\r\n" + chunked,
		"codings twice":               path + host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + chunked,
		"a coding with a tab":         path + host + "Transfer-Encoding:\tchunked\x0b\r\n\r\n" + chunked,
		"a chunk of a wrong size":     path + host + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n" + inner,
		"a chunk with a bare newline": path + host + "Transfer-Encoding: chunked\r\n\r\n0\n\n" + inner,
		"a header without colon":      path + host + "Content-Length 0\r\n\r\n" + inner,
		"a header with NUL":           path + host + "X-A: \x00\r\nContent-Length: 0\r\n\r\n" + inner,
		"a bare carriage return":      path + host + "X-A: b\rContent-Length: 0\r\n\r\n" + inner,
		"two hosts":                   path + "Host: 127.0.0.1\r\nHost: evil.example\r\nContent-Length: 0\r\n\r\n" + inner,
		"no host":                     path + "Content-Length: 0\r\n\r\n" + inner,
	}
	config := &tls.Config{RootCAs: r.public.Pool(), ServerName: "127.0.0.1"}
	var all sync.WaitGroup
	for what, text := range cases {
		all.Go(func() {
			answer, err := raw(config, r.processes["gateway-2"].Service, []byte(text))
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			most := 0
			if strings.Contains(what, "length and chunks") || strings.Contains(what, "chunks and a length") {
				most = 1 // by its chunks, and what follows is not read
			}
			if n := strings.Count(answer, "HTTP/1.1 200"); n > most {
				t.Errorf("%s: %d successes in %.500q", what, n, answer)
			}
		})
	}
	all.Wait()
	if a := r.command(1, "/v1/Counter/victim/Get", `{}`, ""); strings.TrimSpace(a.body) != "0" {
		t.Errorf("the victim of the smuggled requests has %s", a.body)
	}
	t.Logf("%d requests with another one inside: none is taken for two", len(cases))
}

// management: what is for operators is on its own listener, changes need a token, and are in the audit.
func management(t *testing.T, r *rig) {
	for _, path := range []string{
		"/metrics", "/debug/pprof/", "/livez", "/version", "/twirp/roost.admin.v1.Admin/Members", "/twirp/roost.admin.v1.Membership/Down", "/bootstrap/status", "/link",
		"/twirp/roost.control.v1.Control/Call", "/twirp/roost.cluster.v1.Cluster/Post", "/twirp/roost.inspection.v1.Inspection/Entities",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if a := do(r.client, method, r.gateway(1)+path, "{}", "Content-Type", "application/json"); a.status == 200 {
				t.Errorf("the public listener answers %s %s: %s", method, path, a.body)
			}
		}
	}
	admin := r.Admin()[0]
	drain := func(headers ...string) answer {
		return do(http.DefaultClient, http.MethodPost, admin+"/twirp/roost.admin.v1.Admin/Cordon", `{"region":"region-2","reason":"an attack","by":"test","lift":true}`, append(headers, "Content-Type", "application/json")...)
	}
	for how, want := range map[string]struct {
		status  int
		headers []string
	}{
		"nobody": {401, nil}, "a wrong token": {401, []string{"Authorization", "Bearer roost_wrong"}}, "a token for reading": {403, []string{"Authorization", "Bearer " + r.reader}},
		"an API key of a client":  {401, []string{"Authorization", "Bearer " + r.load}},
		"a page of another site":  {403, []string{"Authorization", "Bearer " + r.operator, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}},
		"a name that was rebound": {403, []string{"Authorization", "Bearer " + r.operator, "Host", "evil.example"}},
	} {
		if a := drain(want.headers...); a.status != want.status {
			t.Errorf("%s: %d %s, want %d", how, a.status, a.body, want.status)
		}
	}
	if a := drain("Authorization", "Bearer "+r.operator); a.status != 200 {
		t.Errorf("an operator: %d %s", a.status, a.body)
	}
	if a := do(http.DefaultClient, http.MethodGet, admin+"/debug/pprof/heap", ""); a.status == 200 {
		t.Error("profiles are served")
	}
	text, err := os.ReadFile(r.path("coordinator-1.audit"))
	must(t, err)
	var phases []string
	for line := range bytes.Lines(text) {
		var l struct{ Phase, Operator, Operation, Reason, Outcome string }
		must(t, json.Unmarshal(line, &l))
		if l.Operation == "Admin/Cordon" {
			phases = append(phases, l.Phase+" "+l.Operator+" "+l.Reason+l.Outcome)
		}
	}
	if fmt.Sprint(phases) != "[begin key:operator an attack end key:operator ok]" {
		t.Errorf("the audit has %q", phases)
	}
	for _, p := range r.processes {
		declared := []string{p.Service, p.Management}
		if p.Role == launcher.Gateway {
			declared = append(declared, r.peersAt(t, p.Name))
		}
		if open := listening(t, p.PID); len(open) != len(declared) {
			t.Errorf("%s listens at %v, declared are %v", p.Name, open, declared)
		}
	}
	t.Log("operators' paths are not at the public listener; without the token nothing is changed; every process has only the ports that it names")
}

// listening returns the ports at which a process listens, as /proc shows them.
func listening(t *testing.T, pid int) (open []string) {
	t.Helper()
	sockets := map[string]bool{}
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	must(t, err)
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil {
			sockets[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			continue // a machine without IPv6
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" && sockets[f[9]] { // 0A: listening
				open = append(open, f[1])
			}
		}
	}
	return open
}
