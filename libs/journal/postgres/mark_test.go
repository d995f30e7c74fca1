//go:build linux

package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestWentBack: a process that reaches a server which lacks its newest write stops.
func TestWentBack(t *testing.T) {
	t.Parallel()
	wentBack(t, t.Errorf)
}

func wentBack(t *testing.T, errorf func(string, ...any)) {
	server := postgrestest.Start(t)
	for _, c := range []struct {
		what, change string
		last         journal.Op
		back         bool
	}{
		{"nothing is lost", "SELECT 1", add(7, alice, 2), false},
		{"the last record", "UPDATE roost.entity SET last = 1", add(7, alice, 2), true},
		{"the entity", "DELETE FROM roost.entity", add(7, alice, 2), true},
		{"the last claim", "UPDATE roost.fence SET epoch = 7", claim(8), true},
		{"the fence", "DELETE FROM roost.fence", add(7, alice, 2), true},
		{"another process continues, and removes the entity", "UPDATE roost.fence SET epoch = 9; DELETE FROM roost.entity", add(7, alice, 2), false},
		{"a restored journal", "UPDATE roost.meta SET generation = generation + 1; DELETE FROM roost.entity", add(7, alice, 2), false},
	} {
		name, url := newDatabase(t, server)
		b := openAt(t, url, journal.DefaultConfig())
		mustCommit(t, b, claim(7))
		mustCommit(t, b, add(7, alice, 1))
		mustCommit(t, b, c.last)
		if err := server.Exec(name, c.change); err != nil {
			t.Fatal(err)
		}
		b.writes.Reset() // as if the server was another one
		_, err := b.Commit(t.Context(), []journal.Op{fence(7)})
		if got := errors.Is(err, errWentBack) && errors.Is(err, journal.ErrBroken); got != c.back {
			errorf("%s: %v", c.what, err)
		}
	}
}

// TestPurgeInDoubt: an entity that this process may have removed, without getting the answer, is not a lost write.
func TestPurgeInDoubt(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	name, url := newDatabase(t, server)
	b := openAt(t, url, journal.DefaultConfig())
	mustCommit(t, b, claim(7))
	mustCommit(t, b, add(7, alice, 1))
	ended, end := context.WithCancel(t.Context())
	end()
	purge := journal.Op{Purge: &journal.Purge{Shard: shard, Epoch: 7, Entity: alice, Life: 1}}
	if _, err := b.Commit(ended, []journal.Op{purge}); err == nil {
		t.Fatal("the purge has an answer")
	}
	if err := server.Exec(name, "DELETE FROM roost.entity"); err != nil { // it was executed
		t.Fatal(err)
	}
	b.writes.Reset()
	if _, err := b.Commit(t.Context(), []journal.Op{fence(7)}); err != nil {
		t.Error(err)
	}
	mustCommit(t, b, claim(8))
	if err := server.Exec(name, "UPDATE roost.fence SET epoch = 7"); err != nil {
		t.Fatal(err)
	}
	b.writes.Reset()
	if _, err := b.Commit(t.Context(), []journal.Op{fence(7)}); !errors.Is(err, errWentBack) {
		t.Errorf("a claim after it is lost: %v", err)
	}
}

// TestAsynchronousStandby promotes a standby that lacks what was acknowledged.
func TestAsynchronousStandby(t *testing.T) {
	t.Parallel()
	primary := postgrestest.Start(t)
	name, url := newDatabase(t, primary)
	standby := primary.Standby()
	both := strings.Replace(url, "host=", "host="+strings.TrimSuffix(standby.Path("../"), "/data")+",", 1)
	b := openAt(t, both, journal.DefaultConfig())
	mustCommit(t, b, claim(1))
	mustCommit(t, b, add(1, alice, 1))
	if err := primary.Exec(name, "ALTER SYSTEM SET synchronous_standby_names = ''"); err != nil {
		t.Fatal(err)
	}
	for server, statement := range map[*postgrestest.Server]string{primary: "SELECT pg_reload_conf()", standby: "ALTER SYSTEM SET primary_conninfo = ''"} {
		if err := server.Exec("postgres", statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := standby.Exec("postgres", "SELECT pg_reload_conf()"); err != nil {
		t.Fatal(err)
	}
	follower := connect(t, standby.URL(postgrestest.Superuser, "postgres"))
	for following := 1; following > 0; { // until it has read its configuration
		if err := follower.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_wal_receiver").Scan(&following); err != nil {
			t.Fatal(err)
		}
	}
	mustCommit(t, b, add(1, alice, 2))
	primary.Kill()
	standby.Promote()
	var err error
	for !errors.Is(err, journal.ErrBroken) { // until the connections of before are gone
		var r []journal.Result
		if r, err = b.Commit(t.Context(), []journal.Op{fence(1)}); err == nil && r[0].Verdict == sharding.Durable {
			t.Fatal("the fence of a journal that went back is read")
		}
	}
	if !errors.Is(err, errWentBack) || !strings.Contains(fmt.Sprint(err), "record 2 of Account/alice") {
		t.Errorf("a commit: %v", err)
	}
}
