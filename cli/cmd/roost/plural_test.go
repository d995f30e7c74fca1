package main

import "testing"

func TestPlural(t *testing.T) {
	for _, c := range []struct {
		n    int
		noun string
		want string
	}{
		{1, "entity", "1 entity"}, {2, "entity", "2 entities"}, {0, "gateway", "0 gateways"},
		{3, "process", "3 processes"}, {2, "shard", "2 shards"},
	} {
		if got := plural(c.n, c.noun); got != c.want {
			t.Errorf("plural(%d, %q) is %q, want %q", c.n, c.noun, got, c.want)
		}
	}
}
