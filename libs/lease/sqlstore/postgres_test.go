//go:build linux

package sqlstore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/lease/leasetest"
)

func openPostgres(t *testing.T, url string) *Driver {
	t.Helper()
	s, err := OpenPostgres(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// One server and one database for all: making them takes longest.
func TestPostgres(t *testing.T) {
	server := postgrestest.Start(t)
	name, err := server.NewDatabase()
	if err != nil {
		t.Fatal(err)
	}
	d := &database{server: server, name: name, url: server.URL(postgrestest.Superuser, name)}
	t.Run("suite", func(t *testing.T) {
		leasetest.Run(t, func(t *testing.T) leasetest.Harness {
			d.empty(t)
			return leasetest.Harness{
				Driver: openPostgres(t, d.url),
				Second: func(t *testing.T) lease.Driver { return openPostgres(t, d.url) },
				Reopen: func(t *testing.T) lease.Driver {
					server.Kill()
					server.Run()
					return openPostgres(t, d.url)
				},
			}
		})
		leasetest.RunServer(t, func(t *testing.T) leasetest.ServerHarness {
			d.empty(t)
			return leasetest.ServerHarness{
				Server: server,
				Open:   func(t *testing.T) lease.Driver { return openPostgres(t, d.url) },
				Delete: func(t *testing.T, lease string) { d.exec(t, "DELETE FROM roost_lease.lease WHERE name = '"+lease+"'") },
			}
		})
	})
	t.Run("made by many at once", d.madeByMany)
	t.Run("roles", d.roles)
	t.Run("foreign rows", d.foreign)
	t.Run("refused", d.refused)
	t.Run("silent connections", d.silent)
	t.Run("not durable", d.notDurable)
}

type database struct {
	server    *postgrestest.Server
	name, url string
}

func (d *database) exec(t *testing.T, statements string) {
	t.Helper()
	if err := d.server.Exec(d.name, statements); err != nil {
		t.Fatal(err)
	}
}

func (d *database) empty(t *testing.T) { d.exec(t, "DROP SCHEMA IF EXISTS roost_lease CASCADE") }

// Many processes may start on an empty database at once.
func (d *database) madeByMany(t *testing.T) {
	d.empty(t)
	var wg sync.WaitGroup
	for range 6 {
		s := openPostgres(t, d.url)
		wg.Go(func() {
			if _, err := s.Get(t.Context(), "x"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// A role that may not make the table is told what to do; with the grants that
// are documented it needs no more.
func (d *database) roles(t *testing.T) {
	d.empty(t)
	d.exec(t, "CREATE ROLE service LOGIN")
	s := openPostgres(t, d.server.URL("service", d.name))
	_, err := s.Get(t.Context(), "x")
	if !errors.Is(err, lease.ErrStore) || !strings.Contains(err.Error(), "CREATE SCHEMA IF NOT EXISTS roost_lease") {
		t.Errorf("a role without rights gives %v", err)
	}
	d.exec(t, "CREATE SCHEMA roost_lease; "+postgresStatements.create+
		"; GRANT USAGE ON SCHEMA roost_lease TO service; GRANT SELECT, INSERT, UPDATE ON roost_lease.lease TO service")
	if ok, err := s.Swap(t.Context(), "x", lease.Record{}, lease.Record{Term: 1}); !ok || err != nil {
		t.Errorf("a role with the grants gives %v, %v", ok, err)
	}
}

// What somebody else wrote is neither understood nor replaced.
func (d *database) foreign(t *testing.T) {
	named := func(err error) bool {
		return errors.Is(err, lease.ErrStore) && strings.Contains(err.Error(), "postgres ") && strings.Contains(err.Error(), d.name+` lease "x"`)
	}
	d.empty(t)
	s := openPostgres(t, d.url)
	if ok, err := s.Swap(t.Context(), "x", lease.Record{}, lease.Record{Term: 1}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	d.exec(t, "UPDATE roost_lease.lease SET term = -5")
	if _, err := s.Get(t.Context(), "x"); !named(err) {
		t.Errorf("a spoiled row gives %v", err)
	}
	if ok, err := s.Swap(t.Context(), "x", lease.Record{}, lease.Record{Term: 1}); ok {
		t.Errorf("a spoiled row is replaced: %v", err)
	}
	d.empty(t)
	d.exec(t, "CREATE SCHEMA roost_lease; CREATE TABLE roost_lease.lease (name TEXT, colour TEXT)")
	s = openPostgres(t, d.url)
	if _, err := s.Get(t.Context(), "x"); !named(err) {
		t.Errorf("another table gives %v", err)
	}
	if ok, err := s.Swap(t.Context(), "x", lease.Record{}, lease.Record{Term: 1}); ok || !named(err) {
		t.Errorf("another table is written to: %v, %v", ok, err)
	}
	d.empty(t)
}

// A role that the server does not let in is tried again and again.
func (d *database) refused(t *testing.T) {
	s := openPostgres(t, d.server.URL("stranger", d.name))
	for range 3 {
		_, err := s.Get(t.Context(), "x")
		if !errors.Is(err, lease.ErrStore) || !strings.Contains(err.Error(), "stranger") || !strings.Contains(err.Error(), `lease "x"`) {
			t.Errorf("a stranger gives %v", err)
		}
	}
	d.exec(t, "CREATE ROLE stranger LOGIN SUPERUSER")
	if _, err := s.Get(t.Context(), "x"); err != nil {
		t.Errorf("let in, it gives %v", err)
	}
}

// Connections that stay open and let nothing through are given up, even if the
// caller would wait for ever.
func (d *database) silent(t *testing.T) {
	d.empty(t)
	proxy := d.server.NewProxy(t)
	s := openPostgres(t, proxy.URL(postgrestest.Superuser, d.name))
	if ok, err := s.Swap(t.Context(), "x", lease.Record{}, lease.Record{Term: 1}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	proxy.Silence(false)
	for attempt := 0; ; attempt++ {
		got := make(chan error, 1)
		go func() {
			_, err := s.Get(context.Background(), "x")
			got <- err
		}()
		select {
		case err := <-got:
			if err == nil {
				return
			}
			if attempt == 3 || !errors.Is(err, lease.ErrStore) {
				t.Fatalf("attempt %d gives %v", attempt, err)
			}
		case <-time.After(time.Minute):
			t.Fatal("a request hangs")
		}
	}
}

func (d *database) notDurable(t *testing.T) {
	d.exec(t, "ALTER DATABASE "+d.name+" SET synchronous_commit = off")
	_, err := openPostgres(t, d.url).Get(t.Context(), "x")
	if !errors.Is(err, lease.ErrStore) || !strings.Contains(err.Error(), "synchronous_commit") {
		t.Errorf("synchronous_commit off gives %v", err)
	}
}

func TestPostgresRefusedURLs(t *testing.T) {
	for _, url := range []string{"postgres://me:secret@h/d?synchronous_commit=off", "postgres://me:secret@h:x/d", "postgres://me:secret@h/d?sslmode=maybe"} {
		_, err := OpenPostgres(url)
		if !errors.Is(err, lease.ErrConfig) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s gives %v", url, err)
		}
	}
	if _, err := openPostgres(t, "postgres://127.0.0.1:1/d").Get(context.Background(), "x"); !errors.Is(err, lease.ErrStore) {
		t.Errorf("no server gives %v", err)
	}
}
