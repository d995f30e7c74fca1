//go:build linux

package open

import (
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
)

func TestPostgres(t *testing.T) {
	server := postgrestest.Start(t)
	name, err := server.NewDatabase()
	if err != nil {
		t.Fatal(err)
	}
	u := server.URL(postgrestest.Superuser, name)
	for _, u := range []string{u, strings.Replace(u, "postgres:", "postgresql:", 1) + "&sslmode=disable&application_name=region-1&connect_timeout=5"} {
		b, err := Backend(u, journal.DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Declare(t.Context(), journal.Declaration{Cluster: "blue"}); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnreachable says that a server that is not there is an error and not a
// wait, and that the password is kept out of it.
func TestUnreachable(t *testing.T) {
	cfg := journal.DefaultConfig()
	cfg.CommitTimeout = 2 * time.Second
	for _, u := range []string{
		"postgres://region:geheim@localhost:1/roost?sslmode=disable",
		"postgres://region:geheim@localhost:1/roost?sslmode=perhaps",
		"postgres://region:geheim@localhost:port/roost",
		"postgres://region:geheim@%zz/roost",
		"postgres://region:geheim@localhost/roost?sslrootcert=/does/not/exist",
	} {
		b, err := Backend(u, cfg)
		if err == nil || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v", u, err)
		}
		if b != nil {
			t.Errorf("%s: a backend beside an error", u)
		}
	}
}
