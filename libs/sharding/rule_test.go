package sharding_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/roost-cluster/roost/libs/sharding"
)

func TestShardRule(t *testing.T) {
	prefix := func(s string) sharding.ShardRule { return sharding.ShardRule{Separator: s} }
	part := func(s string, n int) sharding.ShardRule { return sharding.ShardRule{Separator: s, Part: n} }
	long := strings.Repeat("/", sharding.MaxIDLen)
	for _, c := range []struct {
		rule    sharding.ShardRule
		id, key string
	}{
		{sharding.ShardRule{}, "a/b", "a/b"},
		{prefix("/"), "a/b", "a"},
		{prefix("/"), "a/b/c", "a"},
		{prefix("/"), "ab", "ab"},
		{prefix("/"), "ab/", "ab"},
		{prefix("/"), "/ab", ""},
		{prefix("/"), "/", ""},
		{prefix("::"), "a:b::c", "a:b"},
		{prefix("::"), "a:::b", "a"},
		{prefix("ö"), "größe", "gr"},
		{prefix("ö"), "gr\u00f6\u00dfe", "gr"},
		{part("-", 1), "eu-17-a", "17"},
		{part("-", 2), "eu-17-a", "a"},
		{part("-", 3), "eu-17-a", "eu-17-a"},
		{part("-", 1), "eu-17", "17"},
		{part("-", 1), "eu-", ""},
		{part("-", 1), "eu--17", ""},
		{part("-", 1), "eu", "eu"},
		{part("日", 1), "一日二日三", "二"},
		{prefix("/"), long, ""},
		{part("/", sharding.MaxPart), long, ""},
		{part("/", sharding.MaxPart), long[1:], long[1:]},
	} {
		if got := c.rule.Key(sharding.EntityID(c.id)); got != c.key {
			t.Errorf("%v of %q is %q, want %q", c.rule, c.id, got, c.key)
		}
		if err := c.rule.Check(); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []sharding.ShardRule{{Method: 3}, {Separator: "-", Method: 255}, part("", 1), part("-", -1), part("-", sharding.MaxPart+1), prefix("\x00"), prefix("\xff"), prefix(strings.Repeat("-", sharding.MaxSeparatorLen+1))} {
		if err := bad.Check(); !errors.Is(err, sharding.ErrBadName) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestShardByNumber: an id that names its shard is there. One without a number is hashed whole.
func TestShardByNumber(t *testing.T) {
	d := sharding.TypeDesc{Type: "Meter", Shards: 64, Rule: sharding.ShardRule{Separator: ":", Method: sharding.ByNumber}}
	long := strings.Repeat("9", sharding.MaxIDLen)
	for id, want := range map[string]uint32{"17:a": 17, "17": 17, "017:b": 17, "64:a": 0, "65:": 1, "18446744073709551617:a": 1, "0:": 0, long: 0} {
		if id == long { // 10^n - 1 modulo 64 is 63 for n > 5
			want = 63
		}
		if got := d.ShardOf(sharding.EntityID(id)).Index; got != want {
			t.Errorf("%q is in shard %d, want %d", id, got, want)
		}
	}
	hashed := sharding.TypeDesc{Type: "Meter", Shards: 64}
	for _, id := range []sharding.EntityID{"a:17", ":17", "-1:a", "+1:a", "1 :a", "1.5:a", "\u0661:a", ""} {
		if got, want := d.ShardOf(id), hashed.ShardOf(id); got != want {
			t.Errorf("%q is in %v, want %v, as without a rule", id, got, want)
		}
	}
}

// TestShardByMurmur2: the reference's cases, and the Java client's own test vectors.
func TestShardByMurmur2(t *testing.T) {
	d := sharding.TypeDesc{Type: "Customer", Shards: 1000, Rule: sharding.ShardRule{Method: sharding.ByMurmur2}}
	for id, want := range map[sharding.EntityID]uint32{"user-1": 828, "order/77": 76, "": 681} {
		if got := d.ShardOf(id).Index; got != want {
			t.Errorf("%q is in shard %d, want %d", id, got, want)
		}
	}
	d.Shards = 1 << 31 // all of the hash but its sign bit
	for id, hash := range map[sharding.EntityID]int32{"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107} {
		if got, want := d.ShardOf(id).Index, uint32(hash)&0x7fffffff; got != want {
			t.Errorf("the hash of %q is %#x, want %#x", id, got, want)
		}
	}
	d = sharding.TypeDesc{Type: "Order", Shards: 12, Rule: sharding.ShardRule{Separator: "/", Method: sharding.ByMurmur2}}
	customer := sharding.TypeDesc{Type: "Customer", Shards: 12, Rule: sharding.ShardRule{Method: sharding.ByMurmur2}}
	if got, want := d.ShardOf("customer-17/3").Index, customer.ShardOf("customer-17").Index; got != want {
		t.Errorf("the order is in shard %d, its customer in %d", got, want)
	}
}

// TestShardOfTypes: what has the same key is in shards with the same index, of one type or of
// several, if they have the same number of shards.
func TestShardOfTypes(t *testing.T) {
	customer := sharding.TypeDesc{Type: "Customer", Shards: 1024}
	order := sharding.TypeDesc{Type: "Order", Shards: 1024, Rule: sharding.ShardRule{Separator: "/"}}
	want := customer.ShardOf("customer-17")
	for _, id := range []sharding.EntityID{"customer-17/1", "customer-17/2", "customer-17/", "customer-17"} {
		if got := order.ShardOf(id); got.Type != "Order" || got.Index != want.Index {
			t.Errorf("%s is in %v, the customer in %v", id, got, want)
		}
	}
	if customer.ShardOf("customer-17/1").Index == want.Index {
		t.Error("without a rule the whole id counts")
	}
}

// FuzzShardRule: every id has a key by every rule, always the same: a part of the id between
// separators, or all of it.
func FuzzShardRule(f *testing.F) {
	f.Add("a/b/c", "/", 1, uint8(0))
	f.Add("äöä", "ö", 0, uint8(2))
	f.Add("17:a", ":", 0, uint8(1))
	f.Fuzz(func(t *testing.T, id, separator string, part int, method uint8) {
		r := sharding.ShardRule{Separator: separator, Part: part, Method: sharding.ShardMethod(method)}
		if r.Check() != nil {
			return
		}
		key := r.Key(sharding.EntityID(id))
		if utf8.ValidString(id) && !utf8.ValidString(key) {
			t.Errorf("%v of %q is %q", r, id, key)
		}
		if separator == "" || key == id {
			return
		}
		if parts := strings.Split(id, separator); part >= len(parts) || parts[part] != key {
			t.Errorf("%v of %q is %q", r, id, key)
		}
		d := sharding.TypeDesc{Type: "T", Shards: 7, Rule: r}
		if s := d.ShardOf(sharding.EntityID(id)); s.Index >= 7 || s != d.ShardOf(sharding.EntityID(id)) {
			t.Errorf("%v", s)
		}
	})
}
