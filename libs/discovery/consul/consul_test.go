//go:build linux

package consul_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/discovery"
	"github.com/roost-cluster/roost/libs/discovery/consul"
	"github.com/roost-cluster/roost/libs/discovery/discoverytest"
	"github.com/roost-cluster/roost/libs/test/servertest"
)

func open(t *testing.T, url string) *consul.Backend {
	t.Helper()
	u, err := backendurl.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	b, err := consul.Open(u, "test")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// admin may do anything at a server.
type admin struct {
	*api.Client
	server *servertest.Server
}

func start(t *testing.T, c servertest.ConsulConfig) admin {
	t.Helper()
	s := servertest.Consul(t, c)
	config := &api.Config{Address: s.Addr()}
	if c.ACL {
		config.Token = servertest.ConsulRoot
	}
	client, err := api.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return admin{client, s}
}

// external is a node without an agent, which nothing but the test changes.
const external = "external"

// set makes the instances match the peers exactly.
func (a admin) set(t *testing.T, peers []discovery.Peer) {
	t.Helper()
	if services, _, err := a.Catalog().Node(external, nil); err != nil {
		t.Fatal(err)
	} else if services != nil {
		if _, err := a.Catalog().Deregister(&api.CatalogDeregistration{Node: external}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range peers {
		host, port, err := net.SplitHostPort(p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(port)
		if err != nil {
			t.Fatal(err)
		}
		a.put(t, strconv.Itoa(i), host, n, map[string]string{"role": p.Role, "cluster": "test"})
	}
}

func (a admin) put(t *testing.T, id, host string, port int, meta map[string]string) string {
	t.Helper()
	_, err := a.Catalog().Register(&api.CatalogRegistration{
		Node: external, Address: "192.0.2.1",
		Service: &api.AgentService{ID: id, Service: "roost", Address: host, Port: port, Meta: meta},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return "instance " + id
}

// lose makes the agent lose what processes have entered there.
func (a admin) lose(t *testing.T) {
	t.Helper()
	services, err := a.Agent().Services()
	if err != nil {
		t.Fatal(err)
	}
	for id := range services {
		if err := a.Agent().ServiceDeregister(id); err != nil {
			t.Fatal(err)
		}
	}
}

func TestConformance(t *testing.T) {
	a := start(t, servertest.ConsulConfig{})
	url := "consul://" + a.server.Addr() + "/roost?ttl=2s"
	do := func(f func()) func(*testing.T) { return func(*testing.T) { f() } }
	discoverytest.Suite{
		Name: "consul",
		With: func(t *testing.T, peers []discovery.Peer) discoverytest.Harness {
			a.lose(t)
			a.set(t, peers)
			return discoverytest.Harness{
				Backend:   open(t, url),
				Lag:       true,
				Second:    func(t *testing.T) discovery.Backend { return open(t, url) },
				Change:    a.set,
				Break:     func(t *testing.T) { a.put(t, "x", "two words", 1, nil) },
				Garbage:   func(t *testing.T) string { return a.put(t, "x", "a/b", 1, nil) },
				WrongPort: func(t *testing.T) string { return a.put(t, "x", "a", 0, nil) },
				Foreign: func(t *testing.T) string {
					return a.put(t, "x", "a", 1, map[string]string{"cluster": "other"})
				},
				Down: do(a.server.Kill),
				Up: func(*testing.T) {
					a.server.Resume()
					if !a.server.Running() {
						a.server.Run()
					}
				},
				Pause: do(a.server.Pause),
				Lose:  a.lose,
			}
		},
	}.Run(t)

	t.Run("registered by others", func(t *testing.T) {
		a.lose(t)
		a.set(t, nil)
		a.put(t, "x", "", 7000, nil)
		got, err := open(t, url).Peers(t.Context())
		if err != nil || len(got) != 1 || got[0] != (discovery.Peer{Addr: "192.0.2.1:7000"}) {
			t.Errorf("got %v, %v", got, err)
		}
	})
	t.Run("unhealthy", func(t *testing.T) {
		a.set(t, nil)
		a.put(t, "x", "a", 7000, nil)
		_, err := a.Catalog().Register(&api.CatalogRegistration{
			Node: external, Address: "192.0.2.1",
			Check: &api.AgentCheck{Node: external, CheckID: "x", Name: "x", ServiceID: "x", Status: api.HealthCritical},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := open(t, url).Peers(t.Context()); err != nil || len(got) != 0 {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

func TestConformanceOfTokens(t *testing.T) {
	a := start(t, servertest.ConsulConfig{ACL: true})
	policy, _, err := a.ACL().PolicyCreate(&api.ACLPolicy{Name: "roost", Rules: `service "roost" { policy = "write" } node_prefix "" { policy = "read" }`}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := a.ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLLink{{ID: policy.ID}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	write := func(t *testing.T, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	url := "consul://" + a.server.Addr() + "/roost?ttl=2s&token_file=" + file
	discoverytest.Suite{
		Name: "consul",
		With: func(t *testing.T, peers []discovery.Peer) discoverytest.Harness {
			write(t, token.SecretID+"\n")
			a.lose(t)
			a.set(t, peers)
			return discoverytest.Harness{
				Backend: open(t, url),
				Lag:     true,
				Second:  func(t *testing.T) discovery.Backend { return open(t, url) },
				Deny: func(t *testing.T) string {
					write(t, "00000000-1111-2222-3333-444444444444")
					return "service roost"
				},
				Allow: func(t *testing.T) { write(t, token.SecretID) },
			}
		},
	}.Run(t)

	// Consul hides entries without access: that is not an empty answer.
	a.set(t, []discovery.Peer{{Addr: "a:1"}})
	nothing, _, err := a.ACL().TokenCreate(&api.ACLToken{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	write(t, nothing.SecretID)
	if got, err := open(t, url).Peers(t.Context()); !errors.Is(err, discovery.ErrDenied) {
		t.Errorf("with a token that may do nothing: %v, %v", got, err)
	}
	write(t, " \n")
	if got, err := open(t, url).Peers(t.Context()); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("with an empty file: %v, %v", got, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, url := range []string{
		"consul:///roost", "consul://a/roost", "consul://a:8500", "consul://a:8500/x/y", "consul://a:8500/x?ttl=1ms",
		"consul://a:8500/x?ttl=1s&ttl=2s", "consul://a:8500/x?tls=maybe", "consul://a:8500/x?ca=/nonexistent", "consul://a:8500/x?cert=/x",
		"consul://a:8500/x?colour=red",
	} {
		u, err := backendurl.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := consul.Open(u, ""); !errors.Is(err, discovery.ErrConfig) {
			t.Errorf("%s gives %v", url, err)
		}
	}
}
