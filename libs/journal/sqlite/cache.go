package sqlite

import (
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

const (
	// headCache is the number of heads of entities that a writer remembers: some 5 MiB.
	headCache = 1 << 15
	// fenceCache is the number of fences that it remembers: more than a region has shards.
	fenceCache = 1 << 16
)

// cache has fences and heads as they are stored after the last commit of this handle. It is used
// by the next one if no other connection has committed in between. SQLite keeps its pages
// by the same rule. So it helps a process that writes alone, and never decides
// anything: with it, [journal.Decide] sees what it would read.
type cache struct {
	valid   bool   // no transaction has begun since the last commit
	version uint32 // of the data after that
	fences  map[sharding.ShardID]sharding.Fence
	heads   map[sharding.Entity]cachedHead
}

// cachedHead is the row of an entity, with its newest record.
type cachedHead struct {
	id     int64
	head   journal.Head // without Duplicate
	stamp  journal.Stamp
	looked bool // the stamp was set by a purge
}

// checkCache empties the cache at the beginning of a transaction if another connection has committed since it was
// confirmed, or a transaction of this one has failed. Then the facts of the journal may have changed, too, and it
// returns the error of [journal.Facts.CheckOpened].
func (d *Backend) checkCache() error {
	version, err := d.handle.dataVersion()
	if err != nil {
		return err
	}
	// Invariant: on SQLite, the fences and heads that a writer remembers are those in the file.
	// Guarded by: `sqlite.Backend.checkCache`: it drops all of it when another connection has committed, or a
	// transaction of its own has failed.
	// Mutants: cache-version
	//mutant:true cache-version d.cache.version == version
	if holds := d.cache.valid && d.cache.version == version; holds {
		d.cache.valid = false // until this transaction is committed
		return nil
	}
	d.cache.empty()
	rows, err := d.write.opened.Query()
	if err != nil {
		return err
	}
	facts, err := readOpened(rows)
	if err == nil {
		err = facts.CheckOpened(d.generation)
	}
	return err
}

// confirmCache marks the cache as equal to the journal: the transaction that has changed it was just
// committed.
func (d *Backend) confirmCache() {
	version, err := d.handle.dataVersion()
	d.cache.valid, d.cache.version = err == nil, version
}

func (c *cache) empty() {
	c.valid = false
	clear(c.fences)
	clear(c.heads)
}

func (c *cache) setFence(shard sharding.ShardID, f sharding.Fence) {
	if c.fences == nil || len(c.fences) >= fenceCache {
		c.fences = map[sharding.ShardID]sharding.Fence{}
	}
	c.fences[shard] = f
}

func (c *cache) setHead(entity sharding.Entity, h cachedHead) {
	if c.heads == nil || len(c.heads) >= headCache {
		c.heads = map[sharding.Entity]cachedHead{}
	}
	c.heads[entity] = h
}

// dropHead is called after an operation that changes more than which record is the newest one.
func (c *cache) dropHead(entity sharding.Entity) { delete(c.heads, entity) }
