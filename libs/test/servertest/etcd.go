//go:build linux

package servertest

import (
	"context"
	"net/http"
	"path/filepath"
	"testing"
)

// Etcd starts an etcd of one member. On a machine without etcd it calls [Missing].
func Etcd(tb testing.TB) *Server {
	tb.Helper()
	path := Program("etcd")
	if path == "" {
		Missing(tb, "etcd", "on Debian: apt-get install etcd-server")
	}
	p := ports(tb, 2)
	s := &Server{program: path, addr: local(p[0])}
	peer := "http://" + local(p[1])
	s.args = []string{
		"--name=test", "--data-dir=" + filepath.Join(tb.TempDir(), "etcd"),
		"--listen-client-urls=" + s.URL(), "--advertise-client-urls=" + s.URL(),
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=test=" + peer,
		"--log-level=warn",
	}
	s.ready = func(ctx context.Context) error { return ask(ctx, http.MethodGet, s.URL()+"/health", "", `"true"`) }
	return serve(tb, s)
}
