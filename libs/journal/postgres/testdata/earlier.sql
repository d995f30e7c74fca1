-- Part of the schema of a journal that a development version made before the formats began again at 1, with what it stored.

CREATE SCHEMA IF NOT EXISTS roost;
CREATE TABLE roost.meta (
	one        boolean PRIMARY KEY DEFAULT true CHECK (one), -- one row
	cluster    text,             -- null: not declared yet
	format     integer NOT NULL, -- what the schema was expanded to
	min_reader integer NOT NULL, -- the lowest format that a program must know to read,
	min_writer integer NOT NULL, -- and to write
	generation bigint NOT NULL   -- drawn at random, the bits of an unsigned number
);
INSERT INTO roost.meta (format, min_reader, min_writer, generation)
	VALUES (1, 1, 1, 3229461574214177743);
CREATE TABLE roost.type (
	name   text COLLATE "C" PRIMARY KEY,
	shards bigint NOT NULL
);
CREATE TABLE roost.fence (
	type     text COLLATE "C" NOT NULL,
	shard    bigint NOT NULL,
	epoch    bigint NOT NULL,
	owner    bigint NOT NULL,
	database integer NOT NULL DEFAULT 0, -- which one holds the shard's entities; 0: this one
	PRIMARY KEY (type, shard)
) WITH (fillfactor = 50);
CREATE TABLE roost.entity (
	id       bigint PRIMARY KEY,
	type     text COLLATE "C" NOT NULL,
	name     bytea NOT NULL,
	last     bigint NOT NULL,           -- sequence number of the last record
	snapshot bigint NOT NULL DEFAULT 0, -- sequence number of the snapshot; 0: none
	keys     bigint NOT NULL DEFAULT 0, -- how many remembered keys may be forgotten some day
	trimmed  bigint NOT NULL DEFAULT 0, -- those of records up to this one are forgotten
	dropped  bigint,                    -- newest time of a forgotten key, Unix ms
	age      bigint NOT NULL DEFAULT 0, -- the entity's own time when it was written last, ms,
	writer   bigint NOT NULL DEFAULT 0, -- by whom, the bits of an unsigned number; 0: nobody,
	elapsed  bigint NOT NULL DEFAULT 0, -- and for how long that was running, ms
	UNIQUE (type, name)
) WITH (fillfactor = 80);
CREATE TABLE roost.record (
	entity  bigint NOT NULL,
	seq     bigint NOT NULL,
	at      bigint, -- the entity's age when it was stored; null: its key is never forgotten
	time    bigint, -- the time inside the key, Unix ms; null: it has none
	command bytea,  -- null: there is none
	body    bytea NOT NULL, -- checksummed
	reply   bytea,          -- checksummed; null: there is none
	PRIMARY KEY (entity, seq)
);
UPDATE roost.meta SET cluster = 'blue';
INSERT INTO roost.type VALUES ('Counter', 16);
INSERT INTO roost.fence VALUES ('Counter', 3, 4294967297, 7);
INSERT INTO roost.entity (id, type, name, last) VALUES (1, 'Counter', 'alice', 1);
