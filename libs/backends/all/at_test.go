package all_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestDatabases: a journal of several databases is opened by all of their URLs, and by no fewer.
func TestDatabases(t *testing.T) {
	in := "sqlite://" + t.TempDir() + "/"
	at := open.At{URL: in + "a.db", Databases: []string{"2=" + in + "b.db"}, Types: map[string]string{"New": "2"}}
	decl := journal.Declaration{Cluster: "blue", Types: []sharding.TypeDesc{{Type: "New", Shards: 8}, {Type: "Old", Shards: 8}}}
	openAt := func(at open.At) (*commit.Journal, error) {
		return open.Journal(t.Context(), at, decl, journal.DefaultConfig(), commit.Observer{}, func(error) {})
	}
	j, err := openAt(at)
	if err != nil {
		t.Fatal(err)
	}
	who := sharding.Entity{Type: "New", ID: "x"}
	done := make(chan journal.Result, 2)
	j.Submit(journal.Op{Claim: &sharding.Claim{Shard: sharding.ShardID{Type: "New"}, Epoch: 1 << 32, Owner: 7}}, func(r journal.Result) { done <- r })
	j.Submit(journal.Op{Append: &sharding.Append{Shard: sharding.ShardID{Type: "New"}, Epoch: 1 << 32, Entity: who, Records: []sharding.Record{{Seq: 1}}}}, func(r journal.Result) { done <- r })
	for range 2 {
		if r := <-done; r.Verdict != sharding.Durable {
			t.Fatalf("%+v", r)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := openAt(open.At{URL: at.URL}); !errors.Is(err, journal.ErrIdentity) || !strings.Contains(err.Error(), "journal.databases") {
		t.Errorf("without the second database: %v", err)
	}
	if _, err := open.Reader(t.Context(), open.At{URL: at.URL}, journal.DefaultConfig()); !errors.Is(err, journal.ErrIdentity) {
		t.Errorf("a reader without the second database: %v", err)
	}
	if _, err := openAt(open.At{URL: in + "b.db"}); !errors.Is(err, journal.ErrIdentity) || !strings.Contains(err.Error(), "database 2") {
		t.Errorf("the second database alone: %v", err)
	}
	if _, err := openAt(open.At{URL: at.URL, Databases: []string{"2=memory:"}}); !errors.Is(err, journal.ErrConfig) {
		t.Errorf("a second database in memory: %v", err)
	}
	r, err := open.Reader(t.Context(), at, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	if l, err := r.Load(t.Context(), journal.LoadRequest{Entity: who}); err != nil || l.LastSeq != 1 {
		t.Errorf("read: %+v, %v", l, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestAt(t *testing.T) {
	for name, test := range map[string]struct {
		at   open.At
		says string
	}{
		"one":                  {open.At{}, ""},
		"two":                  {open.At{Databases: []string{"2=postgres://a/x", "7=postgres://a/y"}, Types: map[string]string{"New": "7", "Old": "1"}}, ""},
		"a URL with a comma":   {open.At{Databases: []string{"2=postgres://a", "b/x", "3=postgres://a/y"}, Types: map[string]string{"New": "3"}}, ""},
		"no number":            {open.At{Databases: []string{"postgres://u:hush@db/x"}}, "not a number"},
		"the first one":        {open.At{Databases: []string{"1=x"}}, "number 1"},
		"too many":             {open.At{Databases: []string{"65=x"}}, "number 65"},
		"twice":                {open.At{Databases: []string{"2=x", "2=y"}}, "twice"},
		"a type goes nowhere":  {open.At{Databases: []string{"2=x"}, Types: map[string]string{"New": "3"}}, `"3"`},
		"a type has no number": {open.At{Types: map[string]string{"New": "second"}}, `"second"`},
		"a good URL":           {open.At{URL: "postgres://u:hush@db/x"}, ""},
		"a bad scheme":         {open.At{URL: "postgre://u:hush@db/x"}, `journal.url: bad journal config: scheme "postgre" is not known`},
		"a password with %":    {open.At{URL: "postgres://u:hush%@db/x"}, "write %25 for a %"},
		"a bad second URL":     {open.At{URL: "memory:", Databases: []string{"2=postgres://db"}}, "journal.databases, 2: bad journal config: the database is missing"},
		"a type of ours":       {open.At{Types: map[string]string{"roost.repair": "1"}}, "roost.repair"},
	} {
		err := test.at.Validate()
		if (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want an error with %q", name, err, test.says)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: the error shows a password: %v", name, err)
		}
	}
}
