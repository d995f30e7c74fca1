package attack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/cli/authority"
	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/libs/node/security"
	"github.com/roost-cluster/roost/libs/test/testbin"
)

// TestAttacks runs all attacks on one cluster, one after the other, so that each finds it as the one before has
// left it.
func TestAttacks(t *testing.T) {
	if os.Getenv("ATTACK") == "" {
		t.Skip("make attack runs this")
	}
	r := start(t)
	for _, a := range []struct {
		name string
		run  func(*testing.T, *rig)
	}{
		{"S1-certificates", certificates}, {"S3-insider", insider}, {"S19-impersonation", impersonation}, {"S20-questions", questions}, {"S4-unknown-types", unknownTypes}, {"S5-bombs", bombs}, {"S21-crowds", crowds}, {"S6-slow-clients", slowClients},
		{"S7-authorization", authorization}, {"S8-smuggling", smuggling}, {"S9-management", management}, {"S11-ids", ids}, {"S12-rates", rates},
		{"S13-collisions", collisions}, {"S18-broken-parsers", brokenParsers}, {"S18-crashes", crashes}, {"S2-rotation", rotation}, {"S15-secrets", secrets},
		{"S14-database-roles", databaseRoles}, {"S16-containers", containers}, {"S17-supply-chain", supplyChain},
	} {
		t.Run(a.name, func(t *testing.T) {
			a.run(t, r)
			r.works(t)
			r.peaks(t)
		})
	}
}

const clusterName = "attacked"

// rig is a cluster in which everything that protects is on.
type rig struct {
	*launcher.Cluster
	dir       string // of certificates, tokens and rules
	data      string // of the processes
	peers     *authority.Authority
	other     *authority.Authority // that rotation begins to trust
	public    *authority.Authority
	client    *http.Client
	operator  string // management token
	reader    string // management token that changes nothing
	load      string // API key of a client that behaves
	flood     string // and of one that does not
	issuer    *issuer
	processes map[string]launcher.Process
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start starts the cluster. gateway-1 asks who sends a command; gateway-2 does not.
func start(t *testing.T) *rig {
	t.Helper()
	bin := testbin.Build(t, "services/coordinator/cmd/coordinator", "e2e/attack/cmd/attacked-region", "services/gateway/cmd/gateway", "cli/cmd/roost")
	r := &rig{dir: t.TempDir(), data: t.TempDir(), processes: map[string]launcher.Process{}}
	day := 24 * time.Hour
	var err error
	for _, a := range []struct {
		to   **authority.Authority
		name string
	}{{&r.peers, "peers"}, {&r.other, "next peers"}, {&r.public, "public"}} {
		*a.to, err = authority.New(a.name, day)
		must(t, err)
	}
	r.write(t, "roots.pem", string(r.peers.PEM()))
	r.write(t, "deny", "# "+authority.URI(clusterName, "region", "denied")+"\n"+authority.URI(clusterName, "region", "denied")+"\n")
	r.operator, r.reader = r.token(t, "tokens", "operator", ""), r.token(t, "tokens", "reader", " read")
	r.load, r.flood = r.token(t, "keys", "load", ""), r.token(t, "keys", "flood", "")
	r.issuer = newIssuer(t, r)
	r.write(t, "policy.yaml", policy)
	args := map[string][]string{
		"gateway-1": {
			"--auth.jwt_keys=" + r.path("jwks.json"), "--auth.jwt_issuer=" + issuerName, "--auth.jwt_audience=" + audience,
			"--auth.api_keys=" + r.path("keys"), "--auth.policy=" + r.path("policy.yaml"), "--gateway.principal_rate=20", "--gateway.principal_burst=50",
		},
		launcher.Gateway:     {"--service.header_timeout=5s", "--service.body_timeout=5s", "--service.write_timeout=5s", "--management.token_for=all"},
		launcher.Coordinator: {"--service.header_timeout=5s", "--service.body_timeout=5s"},
		launcher.Region:      {"--auth.policy=" + r.path("policy.yaml"), "--region.load_interval=1s", "--region.load_half_life=2s"},
	}
	for role, count := range map[string]int{launcher.Coordinator: 1, launcher.Region: 2, launcher.Gateway: 2} {
		for n := range count {
			name := role + "-" + strconv.Itoa(n+1)
			r.issue(t, r.peers, role, name)
			args[name] = append(args[name], "--tls.cert="+r.path(name+".pem"), "--tls.key="+r.path(name+".key"), "--tls.ca="+r.path("roots.pem"),
				"--tls.deny="+r.path("deny"), "--tls.roles=require", "--management.tokens="+r.path("tokens"), "--management.audit="+r.path(name+".audit"))
			if role == launcher.Gateway {
				_, _, err := r.public.IssueFiles(r.dir, name+"-public", authority.Request{Name: name, Hosts: []string{"127.0.0.1"}, End: time.Now().Add(day)})
				must(t, err)
				args[name] = append(args[name], "--public.cert="+r.path(name+"-public.pem"), "--public.key="+r.path(name+"-public.key"))
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	r.Cluster, err = launcher.Start(ctx, launcher.Options{
		Name: clusterName, Coordinators: 1, Regions: 2, Gateways: 2, Dir: r.data, BinDir: bin, RegionBinary: filepath.Join(bin, "attacked-region"), Args: args, LogLevel: "debug", StartTimeout: time.Minute,
		Env: []string{"GOMEMLIMIT=" + strconv.Itoa(memoryLimit)},
	})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	must(t, r.Ready(ctx))
	for _, p := range r.Processes() {
		r.processes[p.Name] = p
	}
	r.client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: r.public.Pool()}, MaxIdleConnsPerHost: 8}}
	r.works(t)
	return r
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

// write replaces a file at once.
func (r *rig) write(t *testing.T, name, text string) {
	t.Helper()
	must(t, os.WriteFile(r.path(name)+".new", []byte(text), 0o600))
	must(t, os.Rename(r.path(name)+".new", r.path(name)))
}

// token adds a key to a file of keys.
func (r *rig) token(t *testing.T, file, name, more string) string {
	t.Helper()
	key, line, err := security.NewAPIKey(name)
	must(t, err)
	before, _ := os.ReadFile(r.path(file)) // empty at first
	r.write(t, file, string(before)+line+more+"\n")
	return key
}

// issue makes the certificate of a process.
func (r *rig) issue(t *testing.T, by *authority.Authority, role, name string) {
	t.Helper()
	_, _, err := by.IssueFiles(r.dir, name, authority.Request{
		Name: name, URIs: []string{authority.URI(clusterName, role, name)}, End: time.Now().Add(24 * time.Hour), // no host: peers go by the URI
	})
	must(t, err)
}

// peer returns the TLS configuration of a client with a certificate, and one that uses it.
func (r *rig) peer(t *testing.T, by *authority.Authority, request authority.Request) *tls.Config {
	t.Helper()
	if request.End.IsZero() {
		request.End = time.Now().Add(time.Hour)
	}
	cert, key, err := by.Issue(request)
	must(t, err)
	pair, err := tls.X509KeyPair(cert, key)
	must(t, err)
	return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, // an attacker does not mind whom it attacks
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }}
}

// role returns the TLS configuration of a process of the cluster.
func (r *rig) role(t *testing.T, role string) *tls.Config {
	t.Helper()
	return r.peer(t, r.peers, authority.Request{Name: "attacker", URIs: []string{authority.URI(clusterName, role, "attacker")}})
}

func httpsClient(config *tls.Config) *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
}

// answer is the answer to an attacker.
type answer struct {
	status int // 0: no answer
	header http.Header
	body   string
	err    error
}

func do(client *http.Client, method, url, body string, headers ...string) answer {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = res.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return answer{res.StatusCode, res.Header, string(text), nil}
}

// gateway returns the base URL of a gateway; 0 is the first.
func (r *rig) gateway(n int) string {
	return "https://" + r.processes["gateway-"+strconv.Itoa(n+1)].Service
}

// command sends a command through a gateway.
func (r *rig) command(gateway int, path, body, token string) answer {
	headers := []string{"Content-Type", "application/json"}
	if token != "" {
		headers = append(headers, "Authorization", "Bearer "+token)
	}
	return do(r.client, http.MethodPost, r.gateway(gateway)+path, body, headers...)
}

// works fails if the cluster does not serve, or if one of its processes has ended.
func (r *rig) works(t *testing.T) {
	t.Helper()
	eventually(t, "a command is answered", func() error {
		if a := r.command(1, "/v1/Counter/works/Get", `{}`, ""); a.status != 200 {
			return fmt.Errorf("%d %s %v", a.status, a.body, a.err)
		}
		return nil
	})
	for _, p := range r.Processes() {
		if p.State != launcher.Running {
			t.Errorf("%s is %s: %s", p.Name, p.State, strings.Join(p.LastLines, "\n"))
		}
	}
}

// eventually repeats a check until it succeeds, for at most a minute.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline, pause := time.Now().Add(time.Minute), time.NewTicker(50*time.Millisecond)
	defer pause.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		<-pause.C
	}
}

// members asks the coordinator who is a member.
func (r *rig) members(t *testing.T) string {
	t.Helper()
	a := do(http.DefaultClient, http.MethodPost, r.Admin()[0]+"/twirp/roost.admin.v1.Admin/Members", `{}`, "Content-Type", "application/json")
	if a.status != 200 {
		t.Fatalf("members: %d %s %v", a.status, a.body, a.err)
	}
	return a.body
}

// raw writes bytes to a connection and returns what comes back until it is closed, or nothing comes.
func raw(config *tls.Config, addr string, payload []byte) (string, error) {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", addr, config)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Write(payload); err != nil {
		return "", err
	}
	text, _ := io.ReadAll(io.LimitReader(conn, 1<<20)) // the deadline or the close ends it
	return string(text), nil
}

// serversOnly is the usage of certificates that are not for clients.
var serversOnly = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}

// logs returns what all processes have printed.
func (r *rig) logs(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, p := range r.processes { // order-free: it is only searched
		text, err := os.ReadFile(p.Log)
		must(t, err)
		all.Write(text)
	}
	return all.String()
}
