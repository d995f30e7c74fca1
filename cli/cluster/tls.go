package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/roost-cluster/roost/cli/authority"
	nodesecurity "github.com/roost-cluster/roost/libs/node/security"
)

// security holds the credentials of the processes of a cluster with [Options.TLS]. Each start makes new
// ones.
type security struct {
	name    string // of the cluster
	dir     string
	peers   *authority.Authority // of coordinators, regions and gateways
	public  *authority.Authority // of the gateways, for clients
	clients *tls.Config          // for clients of gateways
	own     *tls.Config          // for the launcher as a peer
	token   string               // for management
}

// certificateValid is the lifetime of certificates: longer than a cluster runs on a desk.
const certificateValid = 30 * 24 * time.Hour

// secure makes authorities and a management token.
func secure(name, dir string) (*security, error) {
	s := &security{name: name, dir: filepath.Join(dir, "tls")}
	if err := os.RemoveAll(s.dir); err != nil {
		return nil, err
	}
	if err := os.Mkdir(s.dir, 0o700); err != nil { // not one that another user has made meanwhile
		return nil, err
	}
	var err error
	if s.peers, err = authority.New("peers of "+name, certificateValid); err != nil {
		return nil, err
	}
	if s.public, err = authority.New("gateways of "+name, certificateValid); err != nil {
		return nil, err
	}
	cert, key, err := s.peers.Issue(authority.Request{
		Name: "launcher", URIs: []string{authority.URI(name, Gateway, "launcher")}, End: time.Now().Add(certificateValid), Uses: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	s.own = &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: s.peers.Pool(), Certificates: []tls.Certificate{pair}}
	s.clients = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.public.Pool()}
	token, line, err := nodesecurity.NewAPIKey("launcher")
	s.token = token
	return s, errors.Join(err,
		os.WriteFile(filepath.Join(s.dir, "peers.pem"), s.peers.PEM(), 0o644),
		os.WriteFile(s.publicFile(), s.public.PEM(), 0o644),
		os.WriteFile(filepath.Join(s.dir, "tokens"), []byte(line+"\n"), 0o600))
}

// publicFile is the authority that clients of gateways trust.
func (s *security) publicFile() string {
	if s == nil {
		return ""
	}
	return filepath.Join(s.dir, "gateways-ca.pem")
}

// arguments makes the certificates of a process, and returns the flags that name them.
func (s *security) arguments(role, name, host string) ([]string, error) {
	end := time.Now().Add(certificateValid)
	cert, key, err := s.peers.IssueFiles(s.dir, name, authority.Request{
		Name: name, URIs: []string{authority.URI(s.name, role, name)}, Hosts: []string{host}, End: end,
	})
	if err != nil {
		return nil, err
	}
	args := []string{
		"--tls.cert=" + cert, "--tls.key=" + key, "--tls.ca=" + filepath.Join(s.dir, "peers.pem"), "--tls.roles=require",
		"--management.tokens=" + filepath.Join(s.dir, "tokens"), "--management.audit=" + filepath.Join(s.dir, name+".audit"),
	}
	if role != Gateway {
		return args, nil
	}
	cert, key, err = s.public.IssueFiles(s.dir, name+"-public", authority.Request{
		Name: name, Hosts: []string{host, "localhost"}, End: end, Uses: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return append(args, "--public.cert="+cert, "--public.key="+key), err
}

// Clients is the TLS configuration of clients of the gateways; nil without [Options.TLS].
func (c *Cluster) Clients() *tls.Config {
	if c.security == nil {
		return nil
	}
	return c.security.clients.Clone()
}

// Peer returns what connects to the service listeners of coordinators and regions as a gateway does:
// a client, and the base URL of an address.
func (c *Cluster) Peer(timeout time.Duration) (client *http.Client, url func(addr string) string) {
	if c.security == nil {
		return &http.Client{Timeout: timeout}, func(addr string) string { return "http://" + addr }
	}
	transport := &http.Transport{TLSClientConfig: c.security.own.Clone()}
	return &http.Client{Timeout: timeout, Transport: transport}, func(addr string) string { return "https://" + addr }
}

// Token is the management token; empty without [Options.TLS].
func (c *Cluster) Token() string {
	if c.security == nil {
		return ""
	}
	return c.security.token
}

// TLSDir is the directory of certificates, tokens and audits; empty without [Options.TLS].
func (c *Cluster) TLSDir() string {
	if c.security == nil {
		return ""
	}
	return c.security.dir
}

// CA is the file with the authority of the gateways' certificates; empty without [Options.TLS].
func (c *Cluster) CA() string { return c.security.publicFile() }

// startSecurity makes what the processes prove themselves with.
func (c *Cluster) startSecurity() (err error) {
	if !c.options.TLS {
		return nil
	}
	if c.security, err = secure(c.options.Name, c.options.Dir); err != nil {
		return fmt.Errorf("certificates for the cluster: %w", err)
	}
	return nil
}
