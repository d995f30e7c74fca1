package sqlite

// schema makes an empty file a journal of [journal.Format]. expand makes one of an earlier
// format the same.
var schema = `
CREATE TABLE IF NOT EXISTS meta (
	key   TEXT NOT NULL PRIMARY KEY, -- cluster, format, min_reader, min_writer, generation, purged: the highest entity.id of an entity that was purged
	value TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS type (
	name   TEXT NOT NULL PRIMARY KEY,
	shards INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS fence (
	type  TEXT NOT NULL,
	shard INTEGER NOT NULL,
	epoch INTEGER NOT NULL, -- the bits of an unsigned number
	owner INTEGER NOT NULL, -- the bits of an unsigned number
	database INTEGER NOT NULL DEFAULT 0, -- which one holds the shard's entities; 0: this one
	forgotten INTEGER NOT NULL DEFAULT 0, -- newest time of a key of a purged entity, Unix ms; 0: none
	PRIMARY KEY (type, shard)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entity (
	id       INTEGER PRIMARY KEY, -- never reused, even after a purge: see addEntitySQL
	type     TEXT NOT NULL,
	name     TEXT NOT NULL,
	kept     INTEGER NOT NULL DEFAULT 0, -- rows in command of records up to this one are never dropped
	dropped  INTEGER NOT NULL DEFAULT 0, -- newest time of a dropped key, Unix ms; 0: none
	snapshot INTEGER NOT NULL DEFAULT 0, -- sequence number of the snapshot; 0: none
	life     INTEGER NOT NULL DEFAULT 0, -- sequence number of the newest record that deletes it; 0: none
	age      INTEGER NOT NULL DEFAULT 0, -- as of the newest record, if a purge came behind that: its own time,
	writer   INTEGER NOT NULL DEFAULT 0, -- who has purged; 0: none came,
	elapsed  INTEGER NOT NULL DEFAULT 0, -- and for how long that was running
	cut      INTEGER NOT NULL DEFAULT 0, -- events of records up to this one may be gone,
	stripped INTEGER NOT NULL DEFAULT 0, -- those up to this one are,
	swept    INTEGER NOT NULL DEFAULT 0, -- and the rest up to this one was examined again
	UNIQUE (type, name)
);
CREATE TABLE IF NOT EXISTS record (
	entity INTEGER NOT NULL,
	seq    INTEGER NOT NULL,
	age     INTEGER NOT NULL, -- the entity's own time, ms: journal.Stamp
	writer  INTEGER NOT NULL, -- who has written it, the bits of an unsigned number
	elapsed INTEGER NOT NULL, -- and for how long that was running, ms
	body   BLOB NOT NULL,
	reply  BLOB, -- behind the body: who reads only that does not read these pages
	PRIMARY KEY (entity, seq)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS command (
	entity INTEGER NOT NULL,
	hash   INTEGER NOT NULL, -- the first 64 bits of SHA-256 of the command id
	seq    INTEGER NOT NULL,
	PRIMARY KEY (entity, hash, seq)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS snapshot (
	entity INTEGER PRIMARY KEY,
	body   BLOB NOT NULL
);
-- Wake-ups: entities that must come to life without a caller. Their inputs are
-- in the records that set them.
CREATE TABLE IF NOT EXISTS wake (
	entity INTEGER NOT NULL,
	kind   INTEGER NOT NULL, -- 1 timer, 2 remember, 4 the rest of a deleted one may be removed
	name   TEXT NOT NULL,
	number INTEGER NOT NULL, -- how many times this setting has fired, the bits of an unsigned number
	due    INTEGER NOT NULL, -- Unix ms
	period INTEGER NOT NULL, -- ms; 0: due once
	seq    INTEGER NOT NULL, -- of the record that set it
	type   TEXT NOT NULL,
	shard  INTEGER NOT NULL,
	hash   INTEGER NOT NULL, -- of the entity's id, for another number of shards, the bits of an unsigned number
	PRIMARY KEY (entity, kind, name)
) WITHOUT ROWID;
-- The primary key is part of every index, so it is in the order of pages.
CREATE INDEX IF NOT EXISTS wake_by_due ON wake (type, shard, due);
-- Sends: records whose commands to other entities are not all done. The commands are in
-- the record.
CREATE TABLE IF NOT EXISTS send (
	entity INTEGER NOT NULL,
	seq    INTEGER NOT NULL,
	done   BLOB NOT NULL, -- two bits for each: 0 pending, 1 done, 2 and 3 a dead letter: refused, in doubt
	type   TEXT NOT NULL,
	shard  INTEGER NOT NULL,
	hash   INTEGER NOT NULL, -- as above
	sends  INTEGER NOT NULL DEFAULT 0, -- how many there are
	pending INTEGER NOT NULL DEFAULT 0, -- how many of them are pending
	dead    INTEGER NOT NULL DEFAULT 0, -- how many of them are dead letters
	PRIMARY KEY (entity, seq)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS pending_send ON send (type, shard) WHERE pending > 0;
CREATE INDEX IF NOT EXISTS dead_send ON send (type, shard) WHERE dead > 0;
`

// expansions holds, for each format from 2 on, the statements that extend the one before. A
// program of the format before works on a file that has them.
var expansions = map[int]string{}
