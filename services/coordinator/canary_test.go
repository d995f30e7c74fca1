package coordinator

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// canary is a platform on which regions of several versions store events, each in its own
// version's form.
type canary struct {
	*platform
	// stored has, by shard, the newest version in which something is really stored.
	stored map[sharding.ShardID]uint16
	// writes has, by region, the shards in which it has stored something.
	writes map[sharding.NodeID]map[sharding.ShardID]bool
}

func newCanary(t *testing.T, regions, shards int, seed uint64) *canary {
	c := &canary{
		platform: emptyPlatform(t, regions, shards, seed),
		stored:   map[sharding.ShardID]uint16{}, writes: map[sharding.NodeID]map[sharding.ShardID]bool{},
	}
	c.typeOf = func(version string) sharding.TypeDesc { return program(uint16(number(t, version)), uint32(shards)) }
	c.hosts = func(n sharding.NodeID, s sharding.ShardID) {
		if v := uint16(number(t, c.ver[n])); c.stored[s] > v {
			t.Errorf("%v, of version %d, is given %v, in which version %d has stored something", n, v, s, c.stored[s])
		}
	}
	c.wrote = func(n sharding.NodeID, s sharding.ShardID) (set sharding.FormSet) {
		if c.writes[n][s] {
			set = set.With(0)
		}
		return set
	}
	c.begin(regions)
	return c
}

// store lets the owners of some shards store something.
func (c *canary) store() {
	for i := range c.desc.Shards {
		s := sharding.ShardID{Type: "T", Index: i}
		row := c.platform.stored[s]
		if row.Phase != sharding.Serving || row.Owner.IsZero() || c.rng.IntN(4) > 0 {
			continue
		}
		if c.writes[row.Owner] == nil {
			c.writes[row.Owner] = map[sharding.ShardID]bool{}
		}
		c.writes[row.Owner][s] = true
		c.stored[s] = max(c.stored[s], uint16(number(c.t, c.ver[row.Owner])))
	}
}

// unserved counts the shards without an owner.
func (c *canary) unserved() (n int) {
	for _, row := range c.platform.stored {
		n += toInt(row.Owner.IsZero())
	}
	return n
}

// shares returns how many shards the canary has, and the least and the most that another
// region has.
func (c *canary) shares() (n, low, high int) {
	low = int(c.desc.Shards)
	for _, r := range c.up {
		if shards := c.m.table.shardsOf(r); c.ver[r] == "2" {
			n = shards
		} else {
			low, high = min(low, shards), max(high, shards)
		}
	}
	return n, low, high
}

// TestCanaryOfAWeek: one region of six runs the next version for a week, in which regions of
// both versions crash. Every shard is served all the time but while the canary is away, by
// a region that reads it. The canary has at most RolloutShare times its share; once the freeze
// is over, the others have the same number of shards. Only crashes, and balance afterwards,
// move shards. Then the canary leaves: no region serves its stored
// data, and everything else is served. When the version comes back, all is served.
func TestCanaryOfAWeek(t *testing.T) {
	const regions, shards = 6, 60
	seed := rand.Uint64()
	c := newCanary(t, regions, shards, seed)
	c.stop(c.oldest("1"))
	c.start("2")
	c.step = 4 * time.Second
	// What is placed while another region is away may make it as large as this, and stays
	// there: the others cannot read it.
	largest := int(c.m.cfg.RolloutShare * shards / (regions - 1))
	crashes, crashed := 0, 0
	for hour := range 7 * 24 {
		c.store()
		if c.rng.IntN(6) == 0 {
			crashes++
			crashed += c.kill(c.up[c.rng.IntN(len(c.up))])
		}
		c.rest(time.Hour)
		if n := c.unserved(); n > 0 {
			t.Fatalf("hour %d: %d shards are not served", hour, n)
		}
		if !c.m.rollingOut() {
			t.Fatalf("hour %d: the canary no longer counts as a rollout", hour)
		}
		n, low, high := c.shares()
		if high-low > 1 || n > largest {
			t.Fatalf("hour %d: the canary has %d shards, the other regions %d to %d", hour, n, low, high)
		}
	}
	share := (shards + regions - 1) / regions
	// What a crash puts on the canary may go back for balance, unless the canary has stored
	// something in it. And the region that is started again gets a share.
	if most := 2*share + 2*crashed + crashes*share; c.total > most {
		t.Errorf("%d moves; %d crashes of regions with %d shards cause at most %d", c.total, crashes, crashed, most)
	}
	byCanary := 0
	for _, v := range c.stored {
		byCanary += toInt(v == 2)
	}
	if byCanary == 0 {
		t.Fatal("the canary has stored nothing in a week")
	}
	c.stop(c.oldest("2"))
	c.rest(time.Hour)
	for s, row := range c.platform.stored {
		if readable := c.stored[s] < 2; row.Owner.IsZero() == readable {
			t.Errorf("after the canary has left, %v is owned by %v; version %d has stored in it", s, row.Owner, c.stored[s])
		}
	}
	c.start("2")
	c.rest(time.Minute)
	if n := c.unserved(); n > 0 {
		t.Errorf("%d shards are not served when the version is back", n)
	}
}
