//go:build linux

package servertest

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// ConsulRoot is the token with all permissions at an agent with ACLs.
const ConsulRoot = "7d2c1f0e-5a7b-4c1d-9a53-0f6be1c6a001"

// ConsulConfig configures a Consul agent.
type ConsulConfig struct {
	// ACL makes the agent refuse requests without a token.
	ACL bool
}

// Consul starts a Consul agent in server mode, or skips the test.
func Consul(tb testing.TB, c ConsulConfig) *Server {
	tb.Helper()
	path := Program("consul")
	if path == "" {
		tb.Skip("there is no consul in bin/ or $PATH; build one with: make servers")
	}
	p := ports(tb, 3)
	s := &Server{program: path, addr: local(p[0])}
	dir := tb.TempDir()
	config := map[string]any{
		"server": true, "bootstrap_expect": 1, "node_name": "test", "data_dir": filepath.Join(dir, "data"),
		"bind_addr": "127.0.0.1", "client_addr": "127.0.0.1", "log_level": "warn",
		"ports": map[string]int{
			"http": p[0], "server": p[1], "serf_lan": p[2],
			"serf_wan": -1, "dns": -1, "grpc": -1, "grpc_tls": -1,
		},
		"performance":          map[string]int{"raft_multiplier": 1},
		"connect":              map[string]bool{"enabled": false},
		"disable_update_check": true,
	}
	token := ""
	if c.ACL {
		token = ConsulRoot
		config["acl"] = map[string]any{
			"enabled": true, "default_policy": "deny",
			"tokens": map[string]string{"initial_management": ConsulRoot, "agent": ConsulRoot},
		}
	}
	text, err := json.Marshal(config)
	if err != nil {
		tb.Fatal(err)
	}
	file := filepath.Join(dir, "agent.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		tb.Fatal(err)
	}
	s.args = []string{"agent", "-config-file=" + file}
	s.ready = func(ctx context.Context) error {
		// Perhaps a new leader does not accept writes or its token yet.
		return ask(ctx, http.MethodPut, s.URL()+"/v1/kv/servertest/ready", token, "true")
	}
	return serve(tb, s)
}
