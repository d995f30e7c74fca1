package node

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/node/security/securitytest"
)

// TestStatus: a process reports its setup.
func TestStatus(t *testing.T) {
	got := serve(t, func(c *serviceConfig) { c.Management.Pprof = true }, func(*Node) {}).Status()
	if got.TLS || got.Verifies || got.ServiceTLS || !got.Expires.IsZero() || !got.Local || !got.ManagementLocal || !got.Pprof ||
		got.MemoryUsed == 0 || got.MostConnections == 0 || got.Host == "" {
		t.Errorf("without TLS: %+v", got)
	}
	files := securitytest.NewAuthority(t).Issue(2)
	got = serve(t, func(c *serviceConfig) { c.TLS = files }, func(*Node) {}).Status()
	if !got.TLS || !got.Verifies || !got.ServiceTLS || !got.Expires.After(time.Now()) || got.Pprof {
		t.Errorf("with TLS: %+v", got)
	}
	got = serve(t, func(c *serviceConfig) { c.TLS, c.TLS.ClientAuth = files, "none" }, func(*Node) {}).Status()
	if !got.TLS || got.Verifies {
		t.Errorf("with TLS for servers only: %+v", got)
	}
}
