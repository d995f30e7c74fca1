package phrase

import (
	"testing"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// TestQuoted: names that look the same are shown differently, and no name breaks out of its cell.
func TestQuoted(t *testing.T) {
	for name, want := range map[string]string{
		"Cart/anna":          "Cart/anna",
		"Cart/caf\u00e9":     "Cart/caf\u00e9",
		"Cart/cafe\u0301":    `"Cart/cafe\u0301"`,
		"Cart/\u212b":        `"Cart/\u212b"`, // the sign of the unit, which is a letter in normal form C
		"Cart/a\nb":          `"Cart/a\nb"`,
		"Cart/a  b":          `"Cart/a  b"`,
		`"Cart/a"`:           `"\"Cart/a\""`,
		"Cart/\U0001f34c 東京": "Cart/\U0001f34c 東京",
	} {
		if got := Named(name); got != want {
			t.Errorf("%q is shown as %s, want %s", name, got, want)
		}
	}
}

func TestPlural(t *testing.T) {
	for _, c := range []struct {
		n    int
		noun string
		want string
	}{
		{1, "entity", "1 entity"}, {2, "entity", "2 entities"}, {0, "gateway", "0 gateways"},
		{3, "process", "3 processes"}, {2, "shard", "2 shards"},
	} {
		if got := Plural(c.n, c.noun); got != c.want {
			t.Errorf("plural(%d, %q) is %q, want %q", c.n, c.noun, got, c.want)
		}
	}
}

// TestTwoBuildsOfOneName: no hint says to start a version that runs already.
func TestTwoBuildsOfOneName(t *testing.T) {
	u := &adminv1.Unreadable{Region: "region-1", Version: "devel", Forms: []string{"added v2"}, By: []string{"devel", "v2"}}
	want := "region-1 (version devel) does not read added v2, which may be stored. Start a region of another build of devel or v2, or of another version that does"
	if got := Missing(u); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
