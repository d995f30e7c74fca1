//go:build linux

package postgres

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/journal/journaltest"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
	"github.com/roost-cluster/roost/libs/sharding"
)

const blockSize = 8192

// TestDamagedPages inverts one bit of a page of each table and index while the
// server is down. Operations that need the page are refused as damaged, none
// gets a wrong answer or waits, and all others succeed.
func TestDamagedPages(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	_, url := newDatabase(t, server)
	b := openAt(t, url, journal.DefaultConfig())
	crowd := journaltest.NewCrowd(t, b)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	conn := connect(t, url)
	type page struct {
		relation string
		file     string
		block    int
		few      bool // of many such pages
	}
	var pages []page
	for _, relation := range []string{"record", "record_pkey", "record_by_command", "entity_type_name_key", "fence", "snapshot"} {
		p := page{relation: relation}
		var size int
		if err := conn.QueryRow(t.Context(), "SELECT pg_relation_filepath($1::regclass), pg_relation_size($1::regclass)", "roost."+relation).Scan(&p.file, &size); err != nil {
			t.Fatal(err)
		}
		// Not the last page of a table, which has room for what comes. The first
		// of an index and its root, which is the fourth, all need.
		p.few = size/blockSize > 8
		p.block = rng.IntN(max(1, size/blockSize-1))
		if strings.Contains(relation, "_") {
			p.block = 1 + rng.IntN(min(2, size/blockSize-1))
		}
		pages = append(pages, p)
	}
	for _, p := range pages {
		t.Run(p.relation, func(t *testing.T) {
			bit := p.block*blockSize*8 + rng.IntN(blockSize*8)
			restart := func() {
				t.Helper()
				server.Stop()
				flip(t, server.Path(p.file), bit)
				server.Run()
				for { // the connections of before are found dead one after the other
					if _, err := b.Declare(t.Context(), journal.Declaration{Cluster: "blue"}); err == nil {
						break
					}
				}
				for range journal.DefaultConfig().Loads + 1 {
					_, _ = b.Load(t.Context(), journal.LoadRequest{Entity: alice})
				}
			}
			restart()
			j, err := commit.Open(t.Context(), keep{b}, journal.Declaration{Cluster: "blue"}, journal.DefaultConfig(), commit.Observer{})
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			began := time.Now()
			loads, first, second := crowd.Load(t, j.Load), crowd.Write(t, j), crowd.Write(t, j)
			t.Logf("page %d, bit %d: of %d entities %d were refused by loads, %d and %d by appends, in %v",
				p.block, bit, journaltest.CrowdSize, loads, first, second, time.Since(began).Round(time.Millisecond))
			if p.few && max(loads, first, second) > journaltest.CrowdSize/2 {
				t.Error("too many are refused for one page")
			}
			if err := j.Err(); err != nil {
				t.Errorf("the journal is broken: %v", err)
			}
			restart()
			if n := crowd.Write(t, j) + crowd.Load(t, j.Load); n > 0 {
				t.Errorf("the bit is right again, and %d are refused", n)
			}
		})
	}
}

// keep is a backend that outlives its journal.
type keep struct{ journal.Backend }

func (keep) Close() error { return nil }

// flip inverts a bit of a file.
func flip(t *testing.T, path string, bit int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, int64(bit/8)); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1 << (bit % 8)
	if _, err := f.WriteAt(b, int64(bit/8)); err != nil {
		t.Fatal(err)
	}
}

// TestDamageOutcome: a batch which meets damage is not retried as a whole,
// and its error names the page.
func TestDamageOutcome(t *testing.T) {
	for _, code := range []string{stateDataCorrupt, stateIndexCorrupt, stateIO} {
		err := classify(&pgconn.PgError{SeverityUnlocalized: "ERROR", Code: code, Message: "invalid page in block 7"})
		if !errors.Is(err, journal.ErrCorrupt) || errors.Is(err, journal.ErrNotCommitted) || errors.Is(err, journal.ErrBroken) || !strings.Contains(fmt.Sprint(err), "block 7") {
			t.Errorf("%s: %v", code, err)
		}
		if err := classify(&pgconn.PgError{SeverityUnlocalized: "FATAL", Code: code}); errors.Is(err, journal.ErrCorrupt) {
			t.Errorf("a lost connection: %v", err)
		}
	}
}

// TestDamagedLast: a number of the last record that is not the last one's is damage of the
// entity. The numbers that other stores have too are in the suite: see DamagedNumbers.
func TestDamagedLast(t *testing.T) {
	t.Parallel()
	_, url := newDatabase(t, postgrestest.Start(t))
	b := openAt(t, url, journal.DefaultConfig())
	shard := sharding.ShardID{Type: alice.Type}
	ops := []journal.Op{{Claim: &sharding.Claim{Shard: shard, Epoch: 1, Owner: 1}}, {Append: &sharding.Append{
		Shard: shard, Epoch: 1, Entity: alice, Records: []sharding.Record{{Seq: 1, Command: "a"}, {Seq: 2, Command: "b"}},
	}}}
	if results, err := b.Commit(t.Context(), ops); err != nil || results[1].Verdict != sharding.Durable {
		t.Fatal(results, err)
	}
	for last, sound := range map[int64]bool{2: true, 0: false, 1: false, 3: false, -1: false, 1 << 62: false, -1 << 62: false} {
		if err := change(url, "UPDATE roost.entity SET last = $3 WHERE id = "+entityID, string(alice.Type), []byte(alice.ID), last); err != nil {
			t.Fatal(err)
		}
		l, err := b.Load(t.Context(), journal.LoadRequest{Entity: alice})
		if sound && err != nil || !sound && !errors.Is(err, journal.ErrCorrupt) {
			t.Errorf("the last record is said to be %d: %+v, %v", last, l, err)
		}
	}
}
