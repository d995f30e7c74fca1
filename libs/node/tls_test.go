package node

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/node/config"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/node/security"
	"github.com/roost-cluster/roost/libs/node/security/securitytest"
	"github.com/roost-cluster/roost/libs/setting"
)

// serveTLS runs a node with TLS files until the test ends, and returns the
// address of its service listener, which answers GET /who and upgrades /link.
func serveTLS(t *testing.T, files security.TLS) string {
	t.Helper()
	config := testConfig()
	config.TLS = files
	return serveNode(t, config)
}

// serveNode is serveTLS with a whole configuration.
func serveNode(t *testing.T, config *serviceConfig) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	addr, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- Run(ctx, "region", config, func(n *Node) error {
			n.Handle("GET /who", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.TLS == nil {
					fmt.Fprint(w, "plain")
					return
				}
				fmt.Fprint(w, len(r.TLS.PeerCertificates))
			}))
			n.Handle("GET /link", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: link\r\n\r\nhello")
			}))
			n.Stage(Stage{Name: "tell", Start: func(context.Context) error { addr <- n.Advertise(); return nil }})
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return <-addr
}

// peersConfig is a configuration with TLS files and a time to connect.
func peersConfig(files security.TLS, timeout time.Duration) *config.Config {
	c := config.Default(":0")
	c.TLS, c.DialTimeout, c.MaxAnswer = files, timeout, 1<<20
	return &c
}

func newTestPeers(t *testing.T, files security.TLS) *rpc.Peers {
	t.Helper()
	p, err := rpc.NewPeers(peersConfig(files, time.Minute), func(err error) { t.Log(err) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func TestMutualTLS(t *testing.T) {
	a := securitytest.NewAuthority(t)
	files := a.Issue(2)
	addr := serveTLS(t, files)

	p := newTestPeers(t, files)
	if status, body := get(t, p.Of(rpc.Members).Client(), p.Of(rpc.Members).URL(addr)+"/who"); status != 200 || body != "1" {
		t.Errorf("a peer gets %d %q, want its one certificate seen", status, body)
	}

	// A connection leaves HTTP by Upgrade, as links do.
	conn, err := p.Of(rpc.Members).Dial(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /link HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: link\r\n\r\n", addr)
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrade: %v, %v", response, err)
	}
	if hello, err := io.ReadAll(reader); string(hello) != "hello" {
		t.Errorf("after the upgrade: %q, %v", hello, err)
	}

	stranger := securitytest.NewAuthority(t).Issue(3)
	stranger.CA = files.CA
	for name, peers := range map[string]*rpc.Peers{
		"without TLS":            newTestPeers(t, security.TLS{}),
		"of another authority":   newTestPeers(t, stranger),
		"trusting other servers": newTestPeers(t, securitytest.NewAuthority(t).Issue(4)),
	} {
		response, err := peers.Of(rpc.Members).Client().Get(peers.Of(rpc.Members).URL(addr) + "/who")
		if err == nil && response.StatusCode == 200 {
			t.Errorf("a client %s is answered", name)
		}
	}
}

func TestServerOnlyTLS(t *testing.T) {
	a := securitytest.NewAuthority(t)
	files := a.Issue(2)
	open := files
	open.ClientAuth = "none"
	p := newTestPeers(t, files)
	if status, body := get(t, p.Of(rpc.Members).Client(), p.Of(rpc.Members).URL(serveTLS(t, open))+"/who"); status != 200 || body != "0" {
		t.Errorf("client_auth none: %d %q, want no certificate asked for", status, body)
	}
}

// TestServiceTLS: a service whose clients are no peers has other files for them than for its peers, or
// none.
func TestServiceTLS(t *testing.T) {
	peers, public := securitytest.NewAuthority(t), securitytest.NewAuthority(t)
	files := peers.Issue(2)
	config := testConfig()
	config.TLS = files
	config.Public = &security.Public{PublicTLS: security.PublicTLS(public.Issue(3))}
	config.Public.ClientAuth = "request"
	addr := serveNode(t, config)
	outside := security.TLS{CA: config.Public.CA}
	for name, c := range map[string]struct {
		files security.TLS
		want  string // empty: refused
	}{
		"with a certificate for clients": {public.Issue(4), "1"},
		"of a peer":                      {files, ""},
	} {
		client := newTestPeers(t, c.files).Of(rpc.Members).Client()
		response, err := client.Get("https://" + addr + "/who")
		if err != nil {
			if c.want != "" {
				t.Errorf("a client %s: %v", name, err)
			}
			continue
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if string(body) != c.want {
			t.Errorf("a client %s gets %q, want %q", name, body, c.want)
		}
	}
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(outside.CA)
	if err != nil || !pool.AppendCertsFromPEM(pem) {
		t.Fatal(err)
	}
	anybody := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	if status, body := get(t, anybody, "https://"+addr+"/who"); status != 200 || body != "0" {
		t.Errorf("a client without certificate gets %d %q", status, body)
	}

	config = testConfig()
	config.TLS, config.Public = files, &security.Public{Plain: true}
	if status, body := get(t, http.DefaultClient, "http://"+serveNode(t, config)+"/who"); status != 200 || body != "plain" {
		t.Errorf("a plain listener answers %d %q", status, body)
	}
	config.Public.Cert, config.Public.ClientAuth = "cert.pem", "perhaps"
	err = setting.Prefix("public", config.Public.Validate())
	for _, want := range []string{"public.cert and public.key come together", "public.client_auth is", "public.plain is set"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a wrong section: %v, want %s", err, want)
		}
	}
}

// TestCertificateRemaining: the metric follows the files, and the certificate of the chain that
// expires first counts.
func TestCertificateRemaining(t *testing.T) {
	a := securitytest.NewAuthority(t)
	config := testConfig()
	config.TLS = a.Issue(1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := Run(ctx, "region", config, func(n *Node) error {
		n.Stage(Stage{Name: "probe", Start: func(context.Context) error {
			defer cancel()
			remaining := func() (seconds float64) {
				_, body := get(t, http.DefaultClient, "http://"+n.ManagementAddr()+"/metrics")
				_, after, ok := strings.Cut(body, `roost_tls_certificate_remaining_seconds{roost_cluster="dev"} `)
				if _, err := fmt.Sscan(after, &seconds); !ok || err != nil {
					t.Errorf("no metric: %v\n%s", err, body)
				}
				return seconds
			}
			if s := remaining(); s < 3500 || s > 3600 {
				t.Errorf("%v seconds, want an hour", s)
			}
			own, err := os.ReadFile(config.TLS.Cert)
			a.Must(err)
			ca, err := os.ReadFile(config.TLS.CA)
			a.Must(err)
			a.Must(os.WriteFile(config.TLS.Cert, append(own, ca...), 0o600))
			if s := remaining(); s < 2900 || s > 3000 {
				t.Errorf("%v seconds, want 50 minutes, which the issuer is valid", s)
			}
			return nil
		}})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCertificateHasExpired: /readyz shows it, since no other one can notify the process. It is only a warning: the
// connections that are open may still be of a certificate from before.
func TestCertificateHasExpired(t *testing.T) {
	a := securitytest.NewAuthority(t)
	for _, test := range []struct {
		left time.Duration
		want string
	}{{time.Hour, "[+] certificate\n"}, {-time.Minute, "[!] certificate: it expired at "}} {
		config := testConfig()
		config.TLS = a.IssueFor("spiffe://dev/region/r", time.Now().Add(test.left))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err := Run(ctx, "region", config, func(n *Node) error {
			n.Stage(Stage{Name: "probe", Start: func(context.Context) error {
				defer cancel()
				if _, body := get(t, http.DefaultClient, "http://"+n.ManagementAddr()+"/readyz?verbose"); !strings.Contains(body, test.want) {
					t.Errorf("%s is left: %s", test.left, body)
				}
				return nil
			}})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
