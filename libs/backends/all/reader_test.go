package all_test

import (
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/sharding"
)

func TestReader(t *testing.T) {
	url := "sqlite:" + t.TempDir() + "/j.db"
	d, err := open.Open(t.Context(), url, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Declare(t.Context(), journal.Declaration{Cluster: "blue", Types: []sharding.TypeDesc{{Type: "Cart", Shards: 8}}}); err != nil {
		t.Fatal(err)
	}
	r, err := open.Reader(t.Context(), open.At{URL: url}, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if f, err := r.Facts(t.Context()); err != nil || f.Cluster != "blue" || len(f.Types) != 1 {
		t.Errorf("%+v, %v", f, err)
	}
	for url, part := range map[string]string{"memory:": "no other can read it", "sqlite:none.db": "no such file", "mysql://x/y": "not known"} {
		if r, err := open.Reader(t.Context(), open.At{URL: url}, journal.DefaultConfig()); err == nil || r != nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, %v", url, r, err)
		}
	}
}
