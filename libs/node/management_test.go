package node

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/node/security"
	"github.com/roost-cluster/roost/libs/node/security/securitytest"
	membershipv1 "github.com/roost-cluster/roost/proto/roost/admin/v1/membership"
)

// managed runs a node with two tokens, and returns them. Handlers say that they ran.
func managed(t *testing.T, change func(*serviceConfig)) (n *Node, tokens, writer, reader string) {
	t.Helper()
	writer, line, err := security.NewAPIKey("anna")
	if err != nil {
		t.Fatal(err)
	}
	reader, readLine, _ := security.NewAPIKey("prometheus")
	tokens = fileOf(t, line+"\n"+readLine+" read\n")
	n = serve(t, func(c *serviceConfig) {
		c.Management.Tokens = tokens
		change(c)
	}, func(n *Node) {
		ran := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ran") })
		n.HandleManagement("/do", ran)
		n.HandleManagementRead("/look", ran)
		n.HandleOperations(membershipv1.MembershipPathPrefix, []string{"Events"}, func(options ...any) http.Handler {
			return membershipv1.NewMembershipServer(fakeMembership{}, options...)
		})
	})
	return n, tokens, writer, reader
}

type fakeMembership struct{ membershipv1.Membership }

func (fakeMembership) Events(context.Context, *membershipv1.EventsRequest) (*membershipv1.EventsResponse, error) {
	return &membershipv1.EventsResponse{}, nil
}

func (fakeMembership) Down(context.Context, *membershipv1.NodeRequest) (*membershipv1.NodeResponse, error) {
	return &membershipv1.NodeResponse{}, nil
}

// request asks the management listener, and returns the status and the body.
func request(t *testing.T, n *Node, path string, headers ...string) (int, string) {
	t.Helper()
	body := `{}`
	if strings.HasSuffix(path, "Down") {
		body = `{"node":"r1"}`
	}
	req, err := http.NewRequest(http.MethodPost, "http://"+n.ManagementAddr()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(path, "z") || path == "/metrics" || path == "/version" {
		req.Method, req.Body, req.ContentLength = http.MethodGet, nil, 0
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

// TestManagementTokens: what changes something needs a token; with token_for all, all but probes does. A token
// for reading changes nothing. A withdrawn token is refused soon.
func TestManagementTokens(t *testing.T) {
	const events, down = membershipv1.MembershipPathPrefix + "Events", membershipv1.MembershipPathPrefix + "Down"
	for _, all := range []bool{false, true} {
		n, tokens, writer, reader := managed(t, func(c *serviceConfig) {
			if all {
				c.Management.TokenFor = "all"
			}
		})
		readStatus := map[bool]int{false: 200, true: 401}[all]
		for _, c := range []struct {
			path                     string
			nobody, reading, writing int
		}{
			{"/do", 401, 403, 200}, {down, 401, 403, 200}, {"/look", readStatus, 200, 200}, {events, readStatus, 200, 200},
			{membershipv1.MembershipPathPrefix + "New", 401, 403, 404}, {"/metrics", readStatus, 200, 200}, {"/livez", 200, 200, 200}, {"/readyz", 200, 200, 200}, {"/version", 200, 200, 200},
		} {
			for token, want := range map[string]int{"": c.nobody, "roost_wrong": c.nobody, reader: c.reading, writer: c.writing} {
				var headers []string
				if token != "" {
					headers = []string{"Authorization", "Bearer " + token}
				}
				if status, body := request(t, n, c.path, headers...); status != want {
					t.Errorf("all %v: %s with %q: %d %s, want %d", all, c.path, token, status, body, want)
				}
			}
			if status, _ := request(t, n, c.path, "Authorization", "Bearer "+writer, "Authorization", "Bearer "+writer); c.nobody == 401 && status != 401 {
				t.Errorf("%s with two tokens: %d", c.path, status)
			}
		}
		if err := os.WriteFile(tokens, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(time.Minute)
		for {
			if status, _ := request(t, n, "/do", "Authorization", "Bearer "+writer); status == 401 {
				break
			} else if time.Now().After(deadline) {
				t.Fatal("a withdrawn token is still accepted")
			}
		}
	}
}

// TestAudit: what an operator does is on disk before it is done, and its outcome after it; what cannot be
// written is not done.
func TestAudit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	n, _, writer, _ := managed(t, func(c *serviceConfig) { c.Management.Audit, c.Name = path, "r1" })
	lines := func() (all []security.AuditLine) {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		scan := bufio.NewScanner(bytes.NewReader(text))
		for scan.Scan() {
			var line security.AuditLine
			if err := json.Unmarshal(scan.Bytes(), &line); err != nil {
				t.Fatal(err)
			}
			all = append(all, line)
		}
		return all
	}
	ask := func(path string) int {
		status, _ := request(t, n, path, "Authorization", "Bearer "+writer)
		return status
	}
	ask("/look")
	ask(membershipv1.MembershipPathPrefix + "Events")
	for range 3 { // two repetitions
		if status := ask(membershipv1.MembershipPathPrefix + "Down"); status != 200 {
			t.Fatal(status)
		}
	}
	ask("/do")
	got := lines()
	if len(got) != 4 {
		t.Fatalf("lines: %+v", got)
	}
	for i, want := range []struct{ phase, operation, outcome string }{
		{"begin", "Membership/Down", ""}, {"end", "Membership/Down", "ok"}, {"begin", "POST /do", ""}, {"end", "POST /do", "HTTP 200"},
	} {
		l := got[i]
		if l.Phase != want.phase || l.Operation != want.operation || l.Outcome != want.outcome || l.Operator != "key:anna" || l.Node != "r1" || l.ID != uint64(i/2+1) || l.Remote == "" || l.Time == "" {
			t.Errorf("line %d: %+v, want %+v", i, l, want)
		}
	}
	if !bytes.Contains(got[0].Request, []byte(`"r1"`)) {
		t.Errorf("the request is %s", got[0].Request)
	}
	// It cannot be written: a directory is in its place.
	path = filepath.Join(t.TempDir(), "audit")
	n, _, writer, _ = managed(t, func(c *serviceConfig) { c.Management.Audit = path })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if status, body := request(t, n, "/do", "Authorization", "Bearer "+writer); status != 503 || strings.Contains(body, "ran") || !strings.Contains(body, "management.audit") {
		t.Errorf("without an audit: %d %s", status, body)
	}
	if status := ask(membershipv1.MembershipPathPrefix + "Down"); status != 503 {
		t.Errorf("without an audit: %d", status)
	}
}

// TestManagementHosts: a name that a web site may have chosen is refused at any address.
func TestManagementHosts(t *testing.T) {
	config := testConfig()
	config.AllowedHosts, config.Advertise = []string{"ops.example"}, "c1.internal:25521"
	n := &Node{config: &config.Config, name: "Coordinator-1"}
	own, _ := os.Hostname()
	g := security.Guard{Hosts: n.managementHosts(), AnyAddress: true, Log: slog.New(slog.DiscardHandler)}
	g.Origins, _ = security.NewOrigins(nil)
	refused := func(host string) bool {
		r := httptest.NewRequest(http.MethodGet, "/livez", nil)
		r.Host = host
		return g.Refuses(httptest.NewRecorder(), r)
	}
	for _, host := range []string{"", "localhost:8558", "10.1.2.3:8558", "[fd00::1]:8558", "coordinator-1:8558", "c1.internal", "ops.example", own} {
		if refused(host) {
			t.Errorf("%q is refused", host)
		}
	}
	for _, host := range []string{"evil.example", "10.1.2.3.evil.example", "coordinator-2"} {
		if !refused(host) {
			t.Errorf("%q is accepted", host)
		}
	}
	if !slices.Contains(g.Hosts, "ops.example") {
		t.Error(g.Hosts)
	}
}

// TestManagementTLS: the management listener has a certificate of its own, and may require certificates of clients.
func TestManagementTLS(t *testing.T) {
	a := securitytest.NewAuthority(t)
	files := a.IssueFor("", time.Now().AddDate(1, 0, 0))
	n := serve(t, func(c *serviceConfig) { c.Management.Cert, c.Management.Key = files.Cert, files.Key }, echo)
	_, status := peerOf(t, files, nil)
	if got := status(n.ManagementAddr(), "/livez"); got != 200 {
		t.Errorf("with a certificate: %d", got)
	}
	if res, err := http.Get("http://" + n.ManagementAddr() + "/livez"); err == nil {
		res.Body.Close()
		if res.StatusCode == 200 {
			t.Error("plain TCP is served")
		}
	}
	n = serve(t, func(c *serviceConfig) {
		c.Management.Cert, c.Management.Key, c.Management.CA = files.Cert, files.Key, files.CA
	}, echo)
	if got := status(n.ManagementAddr(), "/livez"); got != 200 {
		t.Errorf("with a client's certificate: %d", got)
	}
	stranger := securitytest.NewAuthority(t).IssueFor("", time.Now().AddDate(1, 0, 0))
	stranger.CA = files.CA
	if _, status := peerOf(t, stranger, nil); status(n.ManagementAddr(), "/livez") != 0 {
		t.Error("a stranger is served")
	}
}

// TestTokenBeforeBody: the body of a request without a token is not looked at.
func TestTokenBeforeBody(t *testing.T) {
	n, _, _, _ := managed(t, func(*serviceConfig) {})
	res, err := http.Post("http://"+n.ManagementAddr()+membershipv1.MembershipPathPrefix+"Down", "application/json", strings.NewReader(`{"nobody":1}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if answer, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("%d %s", res.StatusCode, answer)
	}
}

// TestGuessedTokens: a token that is not known is logged also where another handler checks it, for example the handler
// of dashboard tickets: otherwise tokens could be guessed there unseen.
func TestGuessedTokens(t *testing.T) {
	token, line, err := security.NewAPIKey("anna")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	n := &Node{log: slog.New(slog.NewTextHandler(&log, nil))}
	if n.operators, err = security.OpenOperators("management.tokens", fileOf(t, line+"\n"), func(error) {}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		token string
		known bool
	}{{token, true}, {"roost_guessed", false}} {
		req := httptest.NewRequest(http.MethodPost, "/ui/ticket", nil)
		req.Header.Set("Authorization", "Bearer "+c.token)
		err := n.CheckToken(req)
		if logged := strings.Contains(log.String(), "refused"); (err == nil) != c.known || logged == c.known || logged && !strings.Contains(log.String(), "path=/ui/ticket") {
			t.Errorf("known %t: %v, the log has %q", c.known, err, &log)
		}
	}
}
