package node

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/node/security"
	"github.com/roost-cluster/roost/libs/node/security/securitytest"
)

// peerOf returns a client with the certificate of a file, and how a request of it to addr ends: with a
// status, or 0 if there is no connection.
func peerOf(t *testing.T, files security.TLS, change func(*tls.Config)) (client *http.Client, status func(addr, path string) int) {
	t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "127.0.0.1"}
	ca, err := os.ReadFile(files.CA)
	if err != nil || !config.RootCAs.AppendCertsFromPEM(ca) {
		t.Fatal(err)
	}
	own, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	// Also to a server that does not name the authority of the certificate.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
	if change != nil {
		change(config)
	}
	client = &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	t.Cleanup(client.CloseIdleConnections)
	return client, func(addr, path string) int {
		res, err := client.Get("https://" + addr + path)
		if err != nil {
			return 0
		}
		defer res.Body.Close()
		return res.StatusCode
	}
}

// TestRolesOfPeers: a peer is served what its role is served, by certificates of TLS 1.3 only.
func TestRolesOfPeers(t *testing.T) {
	a, year := securitytest.NewAuthority(t), time.Now().AddDate(1, 0, 0)
	n := serve(t, func(c *serviceConfig) {
		c.ClusterName, c.Roles, c.TLS = "shop", "require", a.IssueFor("spiffe://shop/region/r1", year)
	}, func(n *Node) {
		n.HandleMembers("/members", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, rpc.PeerOf(r.Context())) }))
		n.HandlePeers("/links", control.Gateway|control.Region, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	})
	for _, c := range []struct {
		name           string
		files          security.TLS
		members, links int
	}{
		{"a region", a.IssueFor("spiffe://shop/region/r2", year), 200, 200},
		{"a coordinator", a.IssueFor("spiffe://shop/coordinator/c1", year), 200, 403},
		{"a gateway", a.IssueFor("spiffe://shop/gateway/g1", year), 403, 200},
		{"a process without role", a.IssueFor("", year), 0, 0},
		{"a region of another cluster", a.IssueFor("spiffe://bank/region/r1", year), 0, 0},
		{"a region whose certificate has expired", a.IssueFor("spiffe://shop/region/r3", time.Now().Add(-time.Minute)), 0, 0},
	} {
		_, status := peerOf(t, c.files, nil)
		if m, l := status(n.ServiceAddr(), "/members"), status(n.ServiceAddr(), "/links"); m != c.members || l != c.links {
			t.Errorf("%s is answered %d by what is for members, %d by links; want %d, %d", c.name, m, l, c.members, c.links)
		}
	}
	_, old := peerOf(t, a.IssueFor("spiffe://shop/region/r2", year), func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 })
	if status := old(n.ServiceAddr(), "/members"); status != 0 {
		t.Errorf("a peer with TLS 1.2 is answered %d", status)
	}

	// A gateway's certificate is not a certificate of a server of peers.
	posing := serve(t, func(c *serviceConfig) {
		c.ClusterName, c.TLS = "shop", a.IssueFor("spiffe://shop/gateway/g1", year)
	}, echo)
	if conn, err := n.Peers().Of(rpc.Members).Dial(t.Context(), posing.Advertise()); err == nil {
		conn.Close()
		t.Error("a region takes a gateway for a member")
	}
}

// TestWhoIsAtAnAddress: a peer is taken by the identity in its certificate, wherever it runs, and only if it is the one
// that is meant. A certificate without identity is taken by its host names.
func TestWhoIsAtAnAddress(t *testing.T) {
	a, stranger := securitytest.NewAuthority(t), securitytest.NewAuthority(t)
	at := func(files security.TLS) string {
		return serve(t, func(c *serviceConfig) { c.ClusterName, c.TLS = "shop", files }, echo).Advertise()
	}
	config := peersConfig(a.IssueAt("spiffe://shop/region/r9"), time.Minute)
	config.ClusterName = "shop"
	peers, err := rpc.NewPeers(config, func(err error) { t.Error(err) })
	a.Must(err)
	names := map[string][]string{}
	peers.Know(func(addr string) []string { return names[addr] })
	for _, c := range []struct {
		name  string
		files security.TLS
		roles control.Role
		nodes []string
		err   string
	}{
		{"a region without host names", a.IssueAt("spiffe://shop/region/r1"), control.Region, nil, ""},
		{"a region of the right name", a.IssueAt("spiffe://shop/region/r1"), control.Region, []string{"r0", "r1"}, ""},
		{"a region with the names of other hosts", a.IssueAt("spiffe://shop/region/r1", "region-1.example", "10.0.0.1"), control.Region, nil, ""},
		{"a region with its host", a.IssueAt("spiffe://shop/region/r1", "127.0.0.1"), control.Region, nil, ""},
		{"a certificate for all regions", a.IssueAt("spiffe://shop/region"), control.Region, []string{"r2"}, ""},
		{"another region", a.IssueAt("spiffe://shop/region/r1", "127.0.0.1"), control.Region, []string{"r2"}, "meant for r2"},
		{"any member", a.IssueAt("spiffe://shop/region/r1"), rpc.Members, []string{"r2"}, ""},
		{"a region for a coordinator", a.IssueAt("spiffe://shop/region/r1", "127.0.0.1"), control.Coordinator, nil, "meant for a coordinator"},
		{"a gateway for a region", a.IssueAt("spiffe://shop/gateway/g1", "127.0.0.1"), control.Region, nil, "meant for a region"},
		{"a gateway", a.IssueAt("spiffe://shop/gateway/g1"), control.Gateway, nil, ""},
		{"another cluster", a.IssueAt("spiffe://bank/region/r1", "127.0.0.1"), control.Region, nil, `cluster "bank"`},
		{"no identity, its host", a.IssueAt("", "127.0.0.1"), control.Region, []string{"r2"}, ""},
		{"no identity, another host", a.IssueAt("", "region-1.example"), control.Region, nil, "127.0.0.1"},
		{"no identity, no host", a.IssueAt(""), control.Region, nil, "127.0.0.1"},
		{"a region of another authority", stranger.IssueAt("spiffe://shop/region/r1", "127.0.0.1"), control.Region, nil, "unknown authority"},
	} {
		addr := at(c.files)
		names[addr] = c.nodes
		conn, err := peers.Of(c.roles).Dial(t.Context(), addr)
		if err == nil {
			conn.Close()
		}
		// Of a server of another authority, the certificate of this node may be refused first.
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
	}
}

// TestOwnCertificate: a process does not start with the certificate of another one.
func TestOwnCertificate(t *testing.T) {
	a := securitytest.NewAuthority(t)
	for uri, want := range map[string]string{
		"spiffe://shop/region/r1":      "",
		"spiffe://shop/region":         "",
		"":                             "",
		"spiffe://shop/region/r2":      "the node r2, a region",
		"spiffe://shop/coordinator/r1": "the node r1, a coordinator",
		"spiffe://bank/region/r1":      `cluster "bank"`,
	} {
		serve(t, func(c *serviceConfig) { c.ClusterName, c.TLS = "shop", a.IssueAt(uri, "127.0.0.1") }, func(n *Node) {
			err := n.CheckCertificate(control.Identity{Roles: control.Region, Node: "r1"})
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", uri, err, want)
			}
		})
	}
}

// TestExpiredPeers: a node remembers whose certificates had expired, until they are renewed; strangers' certificates
// are not remembered.
func TestExpiredPeers(t *testing.T) {
	a, stranger := securitytest.NewAuthority(t), securitytest.NewAuthority(t)
	n := serve(t, func(c *serviceConfig) {
		c.ClusterName, c.TLS = "shop", a.IssueFor("spiffe://shop/region/r1", time.Now().Add(time.Hour))
	}, echo)
	ended := time.Now().Add(-time.Minute)
	for _, files := range []security.TLS{a.IssueFor("spiffe://shop/region/r2", ended), a.IssueFor("spiffe://shop/region/r3", ended), stranger.IssueFor("spiffe://shop/region/r4", ended)} {
		files.CA = filepath.Join(a.Dir, "ca.pem")
		if _, status := peerOf(t, files, nil); status(n.ServiceAddr(), "/v1/x") != 0 {
			t.Error("an expired certificate is served")
		}
	}
	if _, status := peerOf(t, a.IssueFor("spiffe://shop/region/r3", time.Now().Add(time.Hour)), nil); status(n.ServiceAddr(), "/v1/x") != 200 {
		t.Error("a renewed certificate is not served")
	}
	got := n.Status().ExpiredPeers
	if len(got) != 1 || got[0].Name != "spiffe://shop/region/r2" || got[0].End.Unix() != ended.Unix() {
		t.Errorf("remembered are %v", got)
	}
}

// TestConnectionsEnd: an open connection ends when its certificate is denied, expires, or its authority is no
// longer trusted; others stay.
func TestConnectionsEnd(t *testing.T) {
	a, other, year := securitytest.NewAuthority(t), securitytest.NewAuthority(t), time.Now().AddDate(1, 0, 0)
	deny := fileOf(t, "# none yet\n")
	ownCA, err := os.ReadFile(filepath.Join(a.Dir, "ca.pem"))
	a.Must(err)
	otherCA, err := os.ReadFile(filepath.Join(other.Dir, "ca.pem"))
	a.Must(err)
	files := a.IssueFor("spiffe://shop/region/r1", year)
	files.Deny, files.CA = deny, fileOf(t, string(ownCA)+string(otherCA)) // two roots, as in a rotation
	n := serve(t, func(c *serviceConfig) { c.ClusterName, c.TLS = "shop", files }, echo)

	open := func(files security.TLS) net.Conn {
		t.Helper()
		files.CA = filepath.Join(a.Dir, "ca.pem")
		client, _ := peerOf(t, files, nil)
		conn, err := tls.Dial("tcp", n.ServiceAddr(), client.Transport.(*http.Transport).TLSClientConfig)
		a.Must(err)
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	ask := func(conn net.Conn) error {
		_, err := io.WriteString(conn, "GET /v1/x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
		if err == nil {
			_, err = conn.Read(make([]byte, 4096))
		}
		return err
	}
	ends := func(why string, conn net.Conn) {
		t.Helper()
		a.Must(conn.SetReadDeadline(time.Now().Add(time.Minute)))
		if _, err := conn.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
			t.Errorf("%s: the connection continues: %v", why, err)
		}
	}
	stays, denied := open(a.IssueFor("spiffe://shop/region/r2", year)), open(a.IssueFor("spiffe://shop/region/r3", year))
	short, foreign := open(a.IssueFor("spiffe://shop/region/r4", time.Now().Add(4*time.Second))), open(other.IssueFor("spiffe://shop/region/r5", year))
	for _, conn := range []net.Conn{stays, denied, short, foreign} {
		a.Must(ask(conn))
	}
	replace := func(path, content string) {
		a.Must(os.WriteFile(path+".new", []byte(content), 0o600))
		a.Must(os.Rename(path+".new", path))
	}
	replace(deny, "spiffe://shop/region/r3\n")
	ends("denied", denied)
	ends("expired", short)
	replace(files.CA, string(ownCA))
	ends("of an old authority", foreign)
	a.Must(ask(stays))
	for name, c := range map[string]security.TLS{"denied": a.IssueFor("spiffe://shop/region/r3", year), "old": other.IssueFor("spiffe://shop/region/r5", year)} {
		c.CA = filepath.Join(a.Dir, "ca.pem")
		if _, status := peerOf(t, c, nil); status(n.ServiceAddr(), "/v1/x") != 0 {
			t.Errorf("%s is served", name)
		}
	}
}

// TestListenerForPeers: a node whose clients are no peers serves peers at a listener of its own, by their certificates, and
// nowhere if it cannot tell who they are.
func TestListenerForPeers(t *testing.T) {
	a, year := securitytest.NewAuthority(t), time.Now().AddDate(1, 0, 0)
	gateway := func(listen string, files security.TLS) *Node {
		return serve(t, func(c *serviceConfig) {
			c.ClusterName, c.Roles, c.TLS, c.PublicClients, c.PeerListen = "shop", "require", files, true, listen
			c.Public = &security.Public{Plain: true} // clients come by plain TCP
			if files.Cert == "" {
				c.Roles = "accept"
			}
		}, func(n *Node) {
			n.HandlePeers("/ask", control.Coordinator, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, rpc.PeerOf(r.Context())) }))
			echo(n)
		})
	}
	for _, n := range []*Node{gateway("", a.IssueAt("spiffe://shop/gateway/g1")), gateway(":0", security.TLS{ClientAuth: "require"})} {
		if at := n.AdvertisePeers(); at != "" {
			t.Errorf("peers are served at %s", at)
		}
	}
	n := gateway(":0", a.IssueAt("spiffe://shop/gateway/g1"))
	for _, c := range []struct {
		uri  string
		want int
	}{{"spiffe://shop/coordinator/c1", 200}, {"spiffe://shop/region/r1", 403}, {"", 0}} {
		_, status := peerOf(t, a.IssueFor(c.uri, year), func(c *tls.Config) { c.InsecureSkipVerify = true })
		if got := status(n.AdvertisePeers(), "/ask"); got != c.want {
			t.Errorf("%q is answered %d, want %d", c.uri, got, c.want)
		}
		if got := status(n.AdvertisePeers(), "/v1/x"); got == 200 {
			t.Errorf("%q gets what clients get", c.uri)
		}
	}
	res, err := http.Get("http://" + n.ServiceAddr() + "/ask")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusNotFound {
		t.Errorf("clients are answered %d to what is for peers", res.StatusCode)
	}
	config := peersConfig(a.IssueAt("spiffe://shop/coordinator/c1"), time.Minute)
	config.ClusterName = "shop"
	peers, err := rpc.NewPeers(config, func(err error) { t.Error(err) })
	a.Must(err)
	client, base := peers.ReachGateway(n.AdvertisePeers(), "nobody:1", http.DefaultClient)
	if status, body := get(t, client, base+"/ask"); status != 200 || body != "the node c1, a coordinator" {
		t.Errorf("a coordinator gets %d %q", status, body)
	}
	if client, base := peers.ReachGateway("", "10.0.0.1:8558", http.DefaultClient); client != http.DefaultClient || base != "http://10.0.0.1:8558" {
		t.Errorf("a gateway without such a listener is queried at %s", base)
	}
}
