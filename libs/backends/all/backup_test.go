package all_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/backup"
	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/sharding"
)

// several is a journal of two databases, with a type in each.
type several struct {
	*testing.T
	at   open.At
	j    *commit.Journal
	seqs map[sharding.EntityType]uint64
}

func newSeveral(t *testing.T, at open.At) *several {
	s := &several{T: t, at: at, seqs: map[sharding.EntityType]uint64{}}
	s.open()
	return s
}

func (s *several) open() {
	s.Helper()
	decl := journal.Declaration{Cluster: "blue", Types: []sharding.TypeDesc{{Type: "New", Shards: 8}, {Type: "Old", Shards: 8}}}
	var err error
	if s.j, err = open.Journal(context.Background(), s.at, decl, journal.DefaultConfig(), commit.Observer{}, func(error) {}); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = s.j.Close() })
}

// put appends a record to an entity of each of some types, at an epoch.
func (s *several) put(epoch sharding.Epoch, types ...sharding.EntityType) {
	s.Helper()
	for _, typ := range types {
		s.seqs[typ]++
		for _, op := range []journal.Op{
			{Claim: &sharding.Claim{Shard: sharding.ShardID{Type: typ}, Epoch: epoch, Owner: 7}},
			{Append: &sharding.Append{Shard: sharding.ShardID{Type: typ}, Epoch: epoch, Entity: sharding.Entity{Type: typ, ID: "x"}, Records: []sharding.Record{{Seq: s.seqs[typ]}}}},
		} {
			done := make(chan journal.Result, 1)
			s.j.Submit(op, func(r journal.Result) { done <- r })
			if r := <-done; r.Verdict != sharding.Durable {
				s.Fatalf("%s of %s: %+v", op.Kind(), typ, r)
			}
		}
	}
}

func (s *several) backup() []byte {
	s.Helper()
	var out bytes.Buffer
	before := time.Now()
	headers, err := open.Backup(s.Context(), s.at, journal.DefaultConfig(), &out, func(int64, int64) {})
	if err != nil || len(headers) != 2 || headers[0].Number != 1 || headers[1].Number != 2 {
		s.Fatalf("backup: %+v, %v", headers, err)
	}
	for _, h := range headers {
		if h.Taken.Before(before.Add(-time.Second)) || h.Taken.After(time.Now().Add(time.Second)) {
			s.Errorf("database %d was read at %v", h.Number, h.Taken)
		}
	}
	if headers[0].Taken.Before(headers[1].Taken) {
		s.Errorf("the facts are older (%v) than their subjects (%v)", headers[0].Taken, headers[1].Taken)
	}
	return out.Bytes()
}

func from(file []byte) func() (*backup.Reader, error) {
	return func() (*backup.Reader, error) { return backup.NewReader(bytes.NewReader(file)) }
}

func TestBackupOfSeveral(t *testing.T) {
	in := "sqlite://" + t.TempDir() + "/"
	backsUpSeveral(t, open.At{URL: in + "a.db", Databases: []string{"2=" + in + "b.db"}, Types: map[string]string{"New": "2"}})
}

// backsUpSeveral restores a journal of two databases: all of it, or what is there is refused.
func backsUpSeveral(t *testing.T, at open.At) {
	s := newSeveral(t, at)
	ctx, cfg := t.Context(), journal.DefaultConfig()
	s.put(sharding.MakeEpoch(3, 1), "New", "Old")
	file := s.backup()
	s.put(sharding.MakeEpoch(9, 1), "Old") // what is lost
	before := s.j.Generation()
	if _, err := open.Restore(ctx, at, from(file), cfg, backup.Options{InUse: true}); !errors.Is(err, backup.ErrRefused) {
		t.Errorf("something is stored there: %v", err)
	}
	if err := s.j.Close(); err != nil {
		t.Fatal(err)
	}
	told := backup.Options{Replace: true}
	for name, bad := range map[string]open.At{
		"one place only":   {URL: at.URL},
		"a place too many": {URL: at.URL, Databases: append([]string{"3=sqlite:" + t.TempDir() + "/c.db"}, at.Databases...)},
		"another number":   {URL: at.URL, Databases: []string{strings.Replace(at.Databases[0], "2=", "3=", 1)}},
	} {
		if _, err := open.Restore(ctx, bad, from(file), cfg, told); !errors.Is(err, journal.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := open.Restore(ctx, at, from(file[:len(file)-1]), cfg, told); !errors.Is(err, backup.ErrDamaged) {
		t.Errorf("a file without its end: %v", err)
	}
	once := 0
	if _, err := open.Restore(ctx, at, func() (*backup.Reader, error) {
		if once++; once > 1 {
			return nil, io.ErrUnexpectedEOF
		}
		return from(file)()
	}, cfg, told); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file that can be read once: %v", err)
	}
	s.open() // nothing of all that has changed anything
	if s.j.Generation() != before {
		t.Fatal("a restore that was refused has changed the journal")
	}
	if err := s.j.Close(); err != nil {
		t.Fatal(err)
	}

	// A restore that ends behind the first database.
	scheme, _, _ := strings.Cut(at.URL, ":")
	store, err := open.Backends.Find(scheme)
	if err != nil {
		t.Fatal(err)
	}
	r, err := from(file)()
	if err == nil {
		_, err = store.Restore(ctx, at.URL, r, cfg, told)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open.Backend(ctx, at, cfg); !errors.Is(err, journal.ErrIdentity) || !strings.Contains(err.Error(), "run the restore again") {
		t.Errorf("half of a restore: %v", err)
	}
	all, err := open.Restore(ctx, at, from(file), cfg, told)
	if err != nil || len(all) != 2 {
		t.Fatalf("restored: %+v, %v", all, err)
	}
	for _, done := range all {
		if done.Facts.MaxEpoch.Term() < 9+journal.RestoreTerms || done.Facts.MaxEpoch != all[0].Facts.MaxEpoch {
			t.Errorf("database %d continues at epoch %v, the first one at %v", done.Header.Number, done.Facts.MaxEpoch, all[0].Facts.MaxEpoch)
		}
	}
	s.open()
	if s.j.Generation() == before {
		t.Error("the restored journal has the generation that it had before")
	}
	for _, typ := range []sharding.EntityType{"New", "Old"} {
		if l, err := s.j.Load(ctx, journal.LoadRequest{Entity: sharding.Entity{Type: typ, ID: "x"}}); err != nil || l.LastSeq != 1 {
			t.Errorf("%s: %+v, %v", typ, l, err)
		}
		s.seqs[typ] = 1
	}
	s.put(all[0].Facts.MaxEpoch+1<<32, "New", "Old")
}

// TestBackupOfOneForSeveral: the file of one database is not taken for a file of several.
func TestBackupOfOneForSeveral(t *testing.T) {
	in := "sqlite://" + t.TempDir() + "/"
	one := open.At{URL: in + "one.db"}
	newSeveral(t, one).put(sharding.MakeEpoch(3, 1), "New", "Old")
	var out bytes.Buffer
	if headers, err := open.Backup(t.Context(), one, journal.DefaultConfig(), &out, func(int64, int64) {}); err != nil || len(headers) != 1 || headers[0].Databases != 1 {
		t.Fatalf("%+v, %v", headers, err)
	}
	if _, err := open.Restore(t.Context(), open.At{URL: in + "a.db", Databases: []string{"2=" + in + "b.db"}}, from(out.Bytes()), journal.DefaultConfig(), backup.Options{}); !errors.Is(err, journal.ErrConfig) {
		t.Errorf("into two: %v", err)
	}
	if all, err := open.Restore(t.Context(), open.At{URL: in + "a.db"}, from(out.Bytes()), journal.DefaultConfig(), backup.Options{}); err != nil || len(all) != 1 {
		t.Errorf("into one: %+v, %v", all, err)
	}
}
