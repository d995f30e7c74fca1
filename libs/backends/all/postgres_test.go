//go:build linux

package all_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/journal/open"
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
		b, err := open.Open(t.Context(), u, journal.DefaultConfig())
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

// TestUnreachable: a server that is not there is an error and not a wait, and
// the password is not in the error.
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
		b, err := open.Open(t.Context(), u, cfg)
		if err == nil || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v", u, err)
		}
		if b != nil {
			t.Errorf("%s: a backend and an error", u)
		}
	}
}

// TestWaitsForServer opens a journal whose server comes after its user, and some
// that another attempt would not help.
func TestWaitsForServer(t *testing.T) {
	server := postgrestest.Start(t)
	name, err := server.NewDatabase()
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(server.URL(postgrestest.Superuser, name))
	if err != nil {
		t.Fatal(err)
	}
	socket := u.Query().Get("host")
	later := filepath.Join(t.TempDir(), "later")
	u.RawQuery = url.Values{"host": {later}}.Encode()

	blue := journal.Declaration{Cluster: "blue"}
	var waits []error
	j, err := open.Journal(t.Context(), open.At{URL: u.String()}, blue, journal.DefaultConfig(), commit.Observer{}, func(err error) {
		if len(waits) == 0 {
			if err := os.Symlink(socket, later); err != nil {
				t.Error(err)
			}
		}
		waits = append(waits, err)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	if len(waits) != 1 || !errors.Is(waits[0], journal.ErrUnreachable) {
		t.Errorf("it has waited for %q", waits)
	}

	short := journal.DefaultConfig()
	short.OpenFor = time.Nanosecond
	never := func(err error) { t.Errorf("waits: %v", err) }
	for rawURL, want := range map[string]error{
		"postgres://region@localhost:1/roost?sslmode=disable": journal.ErrUnreachable, // its time is over
		server.URL(postgrestest.Superuser, "none"):            nil,
		server.URL("nobody", name):                            nil,
	} {
		cfg := journal.DefaultConfig()
		if want != nil {
			cfg = short
		}
		_, err := open.Journal(t.Context(), open.At{URL: rawURL}, blue, cfg, commit.Observer{}, never)
		if err == nil || errors.Is(err, journal.ErrUnreachable) != (want != nil) {
			t.Errorf("%s: %v", rawURL, err)
		}
	}
	if _, err := open.Journal(t.Context(), open.At{URL: server.URL(postgrestest.Superuser, name)}, journal.Declaration{Cluster: "green"}, journal.DefaultConfig(), commit.Observer{}, never); !errors.Is(err, journal.ErrIdentity) {
		t.Errorf("another cluster's journal: %v", err)
	}
}

// TestPostgresBackupOfSeveral does it with two databases in PostgreSQL.
func TestPostgresBackupOfSeveral(t *testing.T) {
	server := postgrestest.Start(t)
	var urls [2]string
	for i := range urls {
		name, err := server.NewDatabase()
		if err != nil {
			t.Fatal(err)
		}
		urls[i] = server.URL(postgrestest.Superuser, name)
	}
	backsUpSeveral(t, open.At{URL: urls[0], Databases: []string{"2=" + urls[1]}, Types: map[string]string{"New": "2"}})
}
