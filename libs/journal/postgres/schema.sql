-- The schema of a Roost journal, format 1. Run it once per database, as the
-- role that shall own it; the services need less, see roles.sql.
--
-- Epochs, owners and shard numbers are unsigned in Roost: a bigint holds their
-- bits. Names and keys are bytes, so that no encoding or collation changes them:
-- convert_from(name, 'UTF8') shows them.

CREATE SCHEMA IF NOT EXISTS roost;
REVOKE ALL ON SCHEMA roost FROM PUBLIC;

CREATE TABLE roost.meta (
	one        boolean PRIMARY KEY DEFAULT true CHECK (one), -- one row
	roost      boolean NOT NULL DEFAULT true CHECK (roost), -- what was made before the formats began again at 1 lacks it
	cluster    text,             -- null: not declared yet
	format     integer NOT NULL, -- what the schema was expanded to
	min_reader integer NOT NULL, -- the lowest format that a program must know to read,
	min_writer integer NOT NULL, -- and to write
	generation bigint NOT NULL   -- drawn at random, the bits of an unsigned number
);
INSERT INTO roost.meta (format, min_reader, min_writer, generation)
	VALUES (1, 1, 1, ('x' || md5(gen_random_uuid()::text))::bit(64)::bigint | 1);

CREATE TABLE roost.type (
	name   text COLLATE "C" PRIMARY KEY,
	shards bigint NOT NULL
);

-- The fences. A row with epoch 0 is one that was never claimed.
CREATE TABLE roost.fence (
	type     text COLLATE "C" NOT NULL,
	shard    bigint NOT NULL,
	epoch    bigint NOT NULL,
	owner    bigint NOT NULL,
	database integer NOT NULL DEFAULT 0, -- which one holds the shard's entities; 0: this one
	forgotten bigint, -- newest time of a key of a purged entity, Unix ms; null: none
	PRIMARY KEY (type, shard)
) WITH (fillfactor = 50);

CREATE SEQUENCE roost.entity_id;

CREATE TABLE roost.entity (
	id       bigint PRIMARY KEY,
	type     text COLLATE "C" NOT NULL,
	name     bytea NOT NULL,
	last     bigint NOT NULL,           -- sequence number of the last record
	snapshot bigint NOT NULL DEFAULT 0, -- sequence number of the snapshot; 0: none
	keys     bigint NOT NULL DEFAULT 0, -- how many remembered keys may expire some day
	trimmed  bigint NOT NULL DEFAULT 0, -- those of records up to this one have expired
	dropped  bigint,                    -- newest time of an expired key, Unix ms
	life     bigint NOT NULL DEFAULT 0, -- sequence number of the newest record that deletes it; 0: none
	age      bigint NOT NULL DEFAULT 0, -- the entity's own time when it was written last, ms,
	writer   bigint NOT NULL DEFAULT 0, -- by whom, the bits of an unsigned number; 0: nobody,
	elapsed  bigint NOT NULL DEFAULT 0, -- and for how long that was running, ms
	cut      bigint NOT NULL DEFAULT 0, -- events of records up to this one may be gone,
	stripped bigint NOT NULL DEFAULT 0, -- those up to this one are,
	swept    bigint NOT NULL DEFAULT 0, -- and what was left up to this one was looked at again
	UNIQUE (type, name)
) WITH (fillfactor = 80);

-- One row per record, which holds the id of its command: dedupe finds the record by it.
-- A key counts as remembered if its record is above entity.trimmed, or if it is never
-- expired. Expiring keys moves that mark and rewrites no record. Only a command that
-- comes again after it expired takes its id away from the old record.
CREATE TABLE roost.record (
	entity  bigint NOT NULL,
	seq     bigint NOT NULL,
	at      bigint, -- the entity's age when it was stored; null: its key never expires
	time    bigint, -- the time inside the key, Unix ms; null: it has none
	command bytea,  -- null: there is none
	body    bytea NOT NULL, -- checksummed
	reply   bytea,          -- checksummed; null: there is none
	PRIMARY KEY (entity, seq)
);
CREATE UNIQUE INDEX record_by_command ON roost.record (entity, command) WHERE command IS NOT NULL;

CREATE TABLE roost.snapshot (
	entity bigint PRIMARY KEY,
	body   bytea NOT NULL -- checksummed
);

-- Wake-ups: entities that must come to life although nobody calls them. Their inputs are
-- in the records that set them. The index is in the order of the pages that owners read.
CREATE TABLE roost.wake (
	entity bigint NOT NULL,
	kind   smallint NOT NULL, -- 1 timer, 2 remember, 4 what is left of a deleted one may be removed
	name   bytea NOT NULL,
	number bigint NOT NULL,   -- how many times this setting has fired, the bits of an unsigned number
	due    bigint NOT NULL,   -- Unix ms
	period bigint NOT NULL,   -- ms; 0: due once
	seq    bigint NOT NULL,   -- of the record that set it
	type   text COLLATE "C" NOT NULL,
	shard  bigint NOT NULL,
	hash   bigint NOT NULL,   -- of the entity's id, for another number of shards, the bits of an unsigned number
	PRIMARY KEY (entity, kind, name)
);
CREATE INDEX wake_by_due ON roost.wake (type, shard, due, entity, kind, name);

-- Sends: records whose commands to other entities are not all done. The commands are in
-- the record.
CREATE TABLE roost.send (
	entity bigint NOT NULL,
	seq    bigint NOT NULL,
	done   bytea NOT NULL, -- two bits for each: 0 pending, 1 done, 2 and 3 a dead letter: refused, in doubt
	type   text COLLATE "C" NOT NULL,
	shard  bigint NOT NULL,
	hash   bigint NOT NULL, -- as above
	sends  integer NOT NULL DEFAULT 0, -- how many there are
	pending integer NOT NULL DEFAULT 0, -- how many of them are pending
	dead    integer NOT NULL DEFAULT 0, -- how many of them are dead letters
	PRIMARY KEY (entity, seq)
);
CREATE INDEX pending_send ON roost.send (type, shard, entity, seq) WHERE pending > 0;
CREATE INDEX dead_send ON roost.send (type, shard, entity, seq) WHERE dead > 0;

-- durable makes the transaction survive a power cut and a failover. Every transaction that writes calls it, because
-- what holds when a connection is made may be changed while it lasts (ALTER SYSTEM and a reload). It raises
-- synchronous_commit where that is too low, and never lowers it: remote_apply stays. What a transaction cannot set is refused.
CREATE FUNCTION roost.durable()
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	-- Both are set even if they are right: the server may be reloaded between this statement and the commit.
	PERFORM pg_catalog.set_config('synchronous_commit', CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true);
	PERFORM pg_catalog.set_config('client_min_messages', 'warning', true); -- a cancelled wait for a standby is reported by a warning alone
	IF pg_catalog.current_setting('fsync') = 'off' OR pg_catalog.current_setting('full_page_writes') = 'off' THEN
		RAISE EXCEPTION 'the server runs with fsync = %, full_page_writes = %: what it commits may be lost; switch both on',
			pg_catalog.current_setting('fsync'), pg_catalog.current_setting('full_page_writes') USING ERRCODE = 'RO003';
	END IF;
END $$;

-- number_entities sets the sequence of entity numbers to the highest number in use, if it is behind, and reports whether it was:
-- logical replication copies no sequences. What it sets stays even if the transaction is rolled back.
CREATE FUNCTION roost.number_entities()
RETURNS boolean LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	highest bigint;
BEGIN
	PERFORM pg_advisory_xact_lock(7267371937); -- one at a time: nobody sets it to a number that was read earlier
	SELECT max(x.id) INTO highest FROM roost.entity x;
	IF highest IS NULL OR highest <= (SELECT s.last_value FROM roost.entity_id s) THEN
		RETURN false;
	END IF;
	PERFORM setval('roost.entity_id', highest);
	RETURN true;
END $$;

-- deliver notes what has become of some of the sends of a record: as is the state in which
-- they have ended. What is done stays done, and a dead letter can only become done.
CREATE FUNCTION roost.deliver(of_entity bigint, of_seq bigint, places int[], ended int)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	states bytea;
	total  int;
	left_  int;
	lost   int;
	state  int;
	shift  int;
	place  int;
BEGIN
	SELECT x.done, x.sends, x.pending, x.dead INTO states, total, left_, lost FROM roost.send x WHERE x.entity = of_entity AND x.seq = of_seq;
	IF NOT FOUND THEN
		RETURN; -- all were done before
	END IF;
	FOREACH place IN ARRAY places LOOP
		CONTINUE WHEN place >= total OR place >= 4 * length(states);
		shift := 2 * (place % 4);
		state := (get_byte(states, place / 4) >> shift) & 3;
		CONTINUE WHEN state = ended OR state = 1 OR state <> 0 AND ended <> 1;
		states := set_byte(states, place / 4, (get_byte(states, place / 4) & ~(3 << shift)) | (ended << shift));
		IF state = 0 THEN
			left_ := left_ - 1;
		ELSE
			lost := lost - 1;
		END IF;
		IF ended <> 1 THEN
			lost := lost + 1;
		END IF;
	END LOOP;
	IF left_ + lost <= 0 THEN
		DELETE FROM roost.send x WHERE x.entity = of_entity AND x.seq = of_seq;
	ELSE
		UPDATE roost.send x SET done = states, pending = left_, dead = lost WHERE x.entity = of_entity AND x.seq = of_seq;
	END IF;
END $$;

-- expire drops the keys of an entity, oldest first, as long as they are old enough (stored
-- when the entity's age was old or less, and their own time before key_old) and not
-- among the newest keep. It looks at a bounded number of records: more than are added
-- until the next time.
CREATE FUNCTION roost.expire(of_entity bigint, old bigint, key_old bigint, keep bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	batch   CONSTANT int := 2048;
	surplus bigint;
	mark    bigint;
	final   bigint;
	newest  bigint;
	gone    bigint := 0;
	r       record;
BEGIN
	SELECT e.keys - keep, e.trimmed, least(e.trimmed + batch, e.last) INTO surplus, mark, final FROM roost.entity e WHERE e.id = of_entity;
	IF surplus <= 0 THEN
		RETURN;
	END IF;
	-- Up to the first one that must stay. Records may be missing: see trim_records.
	FOR r IN SELECT x.seq, x.at, x.time, x.command IS NOT NULL AND x.at IS NOT NULL AS counts
		FROM roost.record x WHERE x.entity = of_entity AND x.seq > mark AND x.seq <= final ORDER BY x.seq
	LOOP
		IF r.counts THEN
			IF gone = surplus OR r.at > old OR r.time >= key_old THEN
				final := mark;
				EXIT;
			END IF;
			gone := gone + 1;
			newest := greatest(newest, r.time);
		END IF;
		mark := r.seq;
	END LOOP;
	mark := greatest(mark, final);
	UPDATE roost.entity e SET trimmed = mark, keys = e.keys - gone, dropped = greatest(e.dropped, newest)
		WHERE e.id = of_entity AND e.trimmed <> mark;
END $$;

-- purge removes records of an entity up to the one that has ended a life, oldest first, as long
-- as their sends have ended and their keys are old enough to expire, at most batch of
-- them, and the entity itself if it has no newer record. It is journal.Purging. The caller has
-- locked the entity's row and its fence's.
CREATE FUNCTION roost.purge(of_entity bigint, of_life bigint, of_type text, of_shard bigint, of_age bigint, key_old bigint, keep_for bigint, batch int)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	wall   CONSTANT bigint := key_old + keep_for;
	look   CONSTANT bigint := wall + keep_for / 8; -- Config.LookAt
	e      record;
	r      record;
	again  bigint;
	newest bigint;
	gone   bigint := 0;
	seen   int := 0;
	final  bigint := 0;
BEGIN
	SELECT x.last, x.trimmed, x.dropped INTO e FROM roost.entity x WHERE x.id = of_entity;
	newest := e.dropped;
	FOR r IN SELECT x.seq, x.at, x.time, x.command IS NOT NULL AND (x.at IS NULL OR x.seq > e.trimmed) AS remembered,
			EXISTS (SELECT FROM roost.send s WHERE s.entity = ANY (ARRAY[x.entity]) AND s.seq = x.seq) AS sending
		FROM roost.record x WHERE x.entity = of_entity AND x.seq <= of_life ORDER BY x.seq LIMIT batch
	LOOP
		IF r.sending THEN
			again := look;
			EXIT;
		END IF;
		IF r.remembered THEN
			IF r.at IS NULL THEN
				again := wall + keep_for;
				EXIT;
			END IF;
			IF of_age - r.at < keep_for OR r.time >= key_old THEN
				again := greatest(least(greatest(wall + keep_for - (of_age - r.at), r.time + keep_for), look), wall + 1000);
				EXIT;
			END IF;
			newest := greatest(newest, r.time);
			gone := gone + 1;
		END IF;
		final := r.seq;
		seen := seen + 1;
	END LOOP;
	DELETE FROM roost.record x WHERE x.entity = of_entity AND x.seq <= final;
	IF final = e.last THEN
		DELETE FROM roost.wake x WHERE x.entity = of_entity;
		DELETE FROM roost.snapshot x WHERE x.entity = of_entity;
		DELETE FROM roost.entity x WHERE x.id = of_entity;
		UPDATE roost.fence f SET forgotten = greatest(f.forgotten, newest)
			WHERE f.type = of_type AND f.shard = of_shard AND newest IS NOT NULL;
		RETURN;
	END IF;
	IF again IS NOT NULL THEN
		UPDATE roost.wake x SET due = 4611686018427387904 + again, number = 0 WHERE x.entity = of_entity AND x.kind = 4;
	ELSIF seen < batch THEN
		DELETE FROM roost.wake x WHERE x.entity = of_entity AND x.kind = 4;
	END IF;
	UPDATE roost.entity x SET dropped = newest, keys = x.keys - gone, trimmed = greatest(x.trimmed, final) WHERE x.id = of_entity;
END $$;

-- trim_records removes events that snapshots have made superfluous. For each entity it gets the
-- new marks, and for records what is left of them; null: nothing. Records above the cut, which a
-- durable snapshot has set, and an entity's last one stay as they are.
CREATE FUNCTION roost.trim_records(of_generation bigint, e_id bigint[], e_stripped bigint[], e_swept bigint[], r_id bigint[], r_seq bigint[], r_body bytea[])
RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM FROM roost.meta m WHERE m.one AND m.generation = of_generation;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'the journal has another generation' USING ERRCODE = 'RO001';
	END IF;
	PERFORM roost.durable();
	PERFORM FROM unnest(e_id) AS u (id) JOIN roost.entity x ON x.id = ANY (ARRAY[u.id]) ORDER BY u.id FOR UPDATE OF x;
	UPDATE roost.entity x SET stripped = least(greatest(x.stripped, u.stripped), x.cut), swept = u.swept
		FROM unnest(e_id, e_stripped, e_swept) AS u (id, stripped, swept) WHERE x.id = ANY (ARRAY[u.id]);
	DELETE FROM roost.record r USING unnest(r_id, r_seq, r_body) AS u (id, seq, body)
		CROSS JOIN LATERAL (SELECT x.cut, x.life, x.last FROM roost.entity x WHERE x.id = u.id LIMIT 1) x
		CROSS JOIN LATERAL (SELECT y.ctid FROM roost.record y WHERE y.entity = u.id AND y.seq = u.seq LIMIT 1) y
		WHERE u.body IS NULL AND r.ctid = y.ctid AND u.seq <= x.cut AND u.seq > x.life AND u.seq < x.last;
	UPDATE roost.record r SET body = u.body FROM unnest(r_id, r_seq, r_body) AS u (id, seq, body)
		CROSS JOIN LATERAL (SELECT x.cut, x.life, x.last FROM roost.entity x WHERE x.id = u.id LIMIT 1) x
		CROSS JOIN LATERAL (SELECT y.ctid FROM roost.record y WHERE y.entity = u.id AND y.seq = u.seq LIMIT 1) y
		WHERE u.body IS NOT NULL AND r.ctid = y.ctid AND u.seq <= x.cut AND u.seq > x.life AND u.seq < x.last;
END $$;

-- commit_batch decides a batch of operations in order and writes what holds.
-- Its statement is a transaction of its own, so that its locks never wait
-- for a client; append_records may have run in that statement before.
--
-- s_: the shards, sorted, without repetition. s_how says what the batch does
--     with one: 0 reads its fence, 1 writes under it, 2 claims it.
-- e_: the entities of appends and snapshots, sorted, without repetition; e_hash: of the id.
-- o_: the operations; kind 1 claim, 2 fence read, 3 append, 4 snapshot, 5
--     drop of a snapshot, 6 append that only says which sends have ended, 7 purge of the life
--     that o_seq has ended, else nothing. o_shard and o_entity count from 1. o_seq is the owner of a claim,
--     the first sequence number of an append (-1: it cannot follow anything; 0 without
--     records) and that of a snapshot. o_keys is how many of its keys may expire some day.
--     o_repeats: it holds a command twice. o_time is the
--     oldest time in its keys. o_cut is the Cut of a snapshot. o_life is the newest of its records that deletes the entity; 0: none.
-- r_: the records of all appends; r_forever: its command never expires; r_sends: how
--     many sends it has.
-- f_: what has fired; kind 0 stands for what cannot be: no such wake-up stands.
-- w_: what appends do to rows of wake-ups, one for each row; w_does: 1 remove it, 2 change
--     due and number, 3 set all of it, 4 end a life: remove all rows of the entity but those
--     set here and that of the purge, which gets this seq, and this due if it is earlier.
-- d_: which sends of a record have ended: d_count of the numbers in d_send, behind those of
--     the rows before. d_as: in which state; d_once: none of them may be done already.
-- of_generation: that of the journal which the caller has opened.
-- of_writer, of_elapsed: who commits, and for how long that has been running, in ms.
-- key_old, keep_for, keep: what may expire, see expire. purge_most: see purge.
--
-- It has four parts, which the comments in it number. They are one function because they share some thirty arrays, which
-- a call would copy.
--
-- Verdicts: 1 durable, 2 refused by epoch, 3 by sequence, 4 by command, 5 by wake-up.
CREATE FUNCTION roost.commit_batch(
	s_type text[], s_shard bigint[], s_how int[],
	e_type text[], e_name bytea[], e_hash bigint[],
	o_kind int[], o_shard int[], o_entity int[], o_epoch bigint[], o_seq bigint[],
	o_count int[], o_keys int[], o_repeats boolean[], o_time bigint[], o_life bigint[], o_cut bigint[], o_body bytea[],
	r_op int[], r_entity int[], r_seq bigint[], r_command bytea[], r_time bigint[], r_forever boolean[], r_body bytea[], r_reply bytea[], r_sends int[],
	f_op int[], f_entity int[], f_kind int[], f_name bytea[], f_seq bigint[], f_number bigint[],
	w_op int[], w_entity int[], w_does int[], w_kind int[], w_name bytea[], w_due bigint[], w_number bigint[], w_period bigint[], w_seq bigint[],
	d_op int[], d_entity int[], d_seq bigint[], d_count int[], d_send int[], d_as int[], d_once boolean[],
	of_generation bigint, of_writer bigint, of_elapsed bigint, key_old bigint, keep_for bigint, keep bigint, purge_most int,
	OUT verdict int[], OUT epoch bigint[], OUT owner bigint[])
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
-- Otherwise the server plans anew for each small batch, which takes longer than all else: a plan for any arrays counts
-- on ten rows of each, so that one for less seems to be cheaper. The statements leave no choice, as those of append_records.
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
	-- Flips the sign: bigints then compare as the unsigned numbers they hold.
	sign      CONSTANT bigint := -9223372036854775808;
	-- s_: of the shards, h_: of the entities, as they are after the operations that were decided so far.
	ops       int := cardinality(o_kind);
	entities  int := cardinality(e_name);
	s_epoch   bigint[] := array_fill(0::bigint, ARRAY[cardinality(s_shard)]);
	s_owner   bigint[] := s_epoch;
	s_forgotten bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(s_shard)]);
	s_changed boolean[] := array_fill(false, ARRAY[cardinality(s_shard)]);
	h_id      bigint[] := array_fill(NULL::bigint, ARRAY[entities]);
	h_last    bigint[] := array_fill(0::bigint, ARRAY[entities]);
	h_snap    bigint[] := h_last;
	h_life    bigint[] := h_last;
	h_cut     bigint[] := h_last;
	h_keys    bigint[] := h_last;
	h_trimmed bigint[] := h_last;
	h_dropped bigint[] := h_id;
	h_age     bigint[] := h_last;
	h_fresh   boolean[] := array_fill(false, ARRAY[entities]);
	h_added   boolean[] := h_fresh;
	h_changed boolean[] := h_fresh;
	h_trim    boolean[] := h_fresh;
	h_cleared boolean[] := h_fresh; -- a snapshot was dropped
	h_purged  int[] := array_fill(0, ARRAY[entities]); -- the operation that purges it
	doubled   boolean[] := array_fill(false, ARRAY[ops]);
	fallen    boolean[] := doubled; -- a wake-up that has fired does not stand, or a send is done
	has_sends boolean := 0 < ANY (r_sends);
	forgotten bigint[] := '{}'; -- records whose command was stored and expired
	fresh     int := 0;
	written   int;
	r         record;
	s         int;
	e         int;
	held      boolean;
	states    bytea;
	i         int;
	sent      int := 0; -- of d_send
BEGIN
	PERFORM FROM roost.meta m WHERE m.one AND m.generation = of_generation;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'the journal has another generation' USING ERRCODE = 'RO001';
	END IF;
	PERFORM roost.durable();
	verdict := array_fill(3, ARRAY[ops]);
	epoch := array_fill(0::bigint, ARRAY[ops]);
	owner := epoch;

	-- Part 1: lock and read, first the fences, then the entities, then the rest of what decides.
	--
	-- Each statement sees what was committed before it began: what is read
	-- under a lock stays true until the end. All take locks in the same order.
	-- Who only reads a fence needs no lock: it was true at one moment after the
	-- call, and a full disk does not stop it.
	-- A statement for all of them costs far less than one for each; it has one
	-- kind of lock, and that of a claim does for all.
	IF 2 = ANY (s_how) THEN
		INSERT INTO roost.fence (type, shard, epoch, owner)
			SELECT u.type, u.shard, 0, 0 FROM unnest(s_type, s_shard, s_how) WITH ORDINALITY AS u (type, shard, how, i)
			WHERE u.how = 2 ORDER BY u.i
			ON CONFLICT DO NOTHING;
		FOR r IN SELECT u.i, f.epoch, f.owner, f.forgotten
			FROM unnest(s_type, s_shard, s_how) WITH ORDINALITY AS u (type, shard, how, i)
			JOIN roost.fence f ON f.type = ANY (ARRAY[u.type]) AND f.shard = u.shard
			WHERE u.how > 0 ORDER BY u.i FOR UPDATE OF f
		LOOP
			s_epoch[r.i] := r.epoch;
			s_owner[r.i] := r.owner;
			s_forgotten[r.i] := r.forgotten;
		END LOOP;
	ELSIF 1 = ANY (s_how) THEN
		FOR r IN SELECT u.i, f.epoch, f.owner, f.forgotten
			FROM unnest(s_type, s_shard, s_how) WITH ORDINALITY AS u (type, shard, how, i)
			JOIN roost.fence f ON f.type = ANY (ARRAY[u.type]) AND f.shard = u.shard
			WHERE u.how > 0 ORDER BY u.i FOR SHARE OF f
		LOOP
			s_epoch[r.i] := r.epoch;
			s_owner[r.i] := r.owner;
			s_forgotten[r.i] := r.forgotten;
		END LOOP;
	END IF;
	IF 0 = ANY (s_how) THEN
		FOR r IN SELECT u.i, f.epoch, f.owner, f.forgotten
			FROM unnest(s_type, s_shard, s_how) WITH ORDINALITY AS u (type, shard, how, i)
			JOIN roost.fence f ON f.type = ANY (ARRAY[u.type]) AND f.shard = u.shard
			WHERE u.how = 0
		LOOP
			s_epoch[r.i] := r.epoch;
			s_owner[r.i] := r.owner;
			s_forgotten[r.i] := r.forgotten;
		END LOOP;
	END IF;

	IF entities > 0 THEN
		FOR r IN SELECT u.i, x.id, x.last, x.snapshot, x.life, x.cut, x.keys, x.trimmed, x.dropped,
			-- journal.Stamp.Next
			x.age + CASE WHEN x.writer = of_writer THEN greatest(of_elapsed - x.elapsed, 0) ELSE 0 END AS age
			FROM unnest(e_type, e_name) WITH ORDINALITY AS u (type, name, i)
			JOIN roost.entity x ON x.type = ANY (ARRAY[u.type]) AND x.name = u.name
			ORDER BY u.i FOR UPDATE OF x
		LOOP
			h_id[r.i] := r.id;
			h_last[r.i] := r.last;
			h_snap[r.i] := r.snapshot;
			h_life[r.i] := r.life;
			h_cut[r.i] := r.cut;
			h_keys[r.i] := r.keys;
			h_trimmed[r.i] := r.trimmed;
			h_dropped[r.i] := r.dropped;
			h_age[r.i] := r.age;
		END LOOP;
		FOR r IN SELECT u.op, u.entity, u.i, x.seq, x.at
			FROM unnest(r_op, r_entity, r_command) WITH ORDINALITY AS u (op, entity, command, i)
			CROSS JOIN LATERAL (SELECT y.seq, y.at FROM roost.record y
				WHERE y.entity = h_id[u.entity] AND y.command = u.command LIMIT 1) x
		LOOP
			IF r.at IS NULL OR r.seq > h_trimmed[r.entity] THEN
				doubled[r.op] := true;
			ELSE
				forgotten := forgotten || r.i;
			END IF;
		END LOOP;
	END IF;
	IF cardinality(f_op) > 0 THEN
		FOR r IN SELECT u.op
			FROM unnest(f_op, f_entity, f_kind, f_name, f_seq, f_number) AS u (op, entity, kind, name, seq, number)
			LEFT JOIN LATERAL (SELECT y.seq, y.number FROM roost.wake y
				WHERE y.entity = h_id[u.entity] AND y.kind = u.kind AND y.name = u.name LIMIT 1) x ON true
			WHERE x.seq IS DISTINCT FROM u.seq OR x.number IS DISTINCT FROM u.number
		LOOP
			fallen[r.op] := true;
		END LOOP;
	END IF;

	-- Part 2: decide and write what only says which sends have ended. It comes before all else, because it changes
	-- what the other operations find.
	IF 6 = ANY (o_kind) THEN
		FOR i IN 1 .. ops LOOP
			CONTINUE WHEN o_kind[i] <> 6;
			s := o_shard[i];
			IF s_epoch[s] <> 0 AND s_epoch[s] = o_epoch[i] THEN
				verdict[i] := 1;
			ELSE
				verdict[i] := 2;
				epoch[i] := s_epoch[s];
				owner[i] := s_owner[s];
			END IF;
		END LOOP;
		FOR i IN 1 .. cardinality(d_op) LOOP
			sent := sent + d_count[i];
			IF o_kind[d_op[i]] = 6 AND verdict[d_op[i]] = 1 THEN
				PERFORM roost.deliver(h_id[d_entity[i]], d_seq[i], d_send[sent - d_count[i] + 1 : sent], d_as[i]);
			END IF;
		END LOOP;
	END IF;
	IF true = ANY (d_once) THEN
		sent := 0;
		FOR i IN 1 .. cardinality(d_op) LOOP
			sent := sent + d_count[i];
			CONTINUE WHEN NOT d_once[i];
			SELECT x.done INTO states FROM roost.send x WHERE x.entity = h_id[d_entity[i]] AND x.seq = d_seq[i];
			FOR k IN sent - d_count[i] + 1 .. sent LOOP
				IF states IS NULL OR d_send[k] >= 4 * length(states) OR ((get_byte(states, d_send[k] / 4) >> (2 * (d_send[k] % 4))) & 3) = 1 THEN
					fallen[d_op[i]] := true;
					EXIT;
				END IF;
			END LOOP;
		END LOOP;
	END IF;

	-- Part 3: decide everything else, one operation after the other, as journal.Decide does. Nothing is written:
	-- what an operation changes, the next one finds in the variables.
	FOR i IN 1 .. ops LOOP
		CONTINUE WHEN o_kind[i] NOT IN (1, 2, 3, 4, 5, 7);
		s := o_shard[i];
		e := o_entity[i];
		IF o_kind[i] = 5 THEN -- under no claim
			CONTINUE WHEN h_snap[e] = 0 OR h_snap[e] > o_seq[i] OR h_purged[e] > 0 OR h_cut[e] > h_life[e];
			verdict[i] := 1;
			h_snap[e] := 0;
			h_cleared[e] := true;
			CONTINUE;
		END IF;
		held := s_epoch[s] <> 0 AND s_epoch[s] = o_epoch[i];
		IF o_kind[i] = 1 THEN
			epoch[i] := s_epoch[s];
			owner[i] := s_owner[s];
			-- The same claim again, by the same incarnation, is a lost reply.
			IF held AND s_owner[s] = o_seq[i] THEN
				verdict[i] := 1;
			ELSIF (o_epoch[i] # sign) <= (s_epoch[s] # sign) THEN
				verdict[i] := 2;
			ELSE
				verdict[i] := 1;
				s_epoch[s] := o_epoch[i];
				s_owner[s] := o_seq[i];
				s_changed[s] := true;
			END IF;
		ELSIF o_kind[i] = 3 AND (h_added[e] OR h_purged[e] > 0) OR o_kind[i] = 4 AND h_purged[e] > 0 THEN
			CONTINUE; -- a second append of an entity, or behind its purge
		ELSIF o_kind[i] = 7 AND (h_added[e] OR h_purged[e] > 0) THEN
			verdict[i] := 5;
		ELSIF o_kind[i] = 2 OR NOT held THEN
			verdict[i] := CASE WHEN held THEN 1 ELSE 2 END;
			epoch[i] := s_epoch[s];
			owner[i] := s_owner[s];
		ELSIF o_kind[i] = 3 THEN
			CONTINUE WHEN o_seq[i] <> h_last[e] + 1 AND (o_count[i] > 0 OR o_seq[i] <> 0);
			IF doubled[i] OR o_repeats[i] OR coalesce(o_time[i] <= CASE WHEN h_id[e] IS NULL THEN s_forgotten[s] ELSE h_dropped[e] END, false) THEN
				verdict[i] := 4;
				CONTINUE;
			END IF;
			IF fallen[i] THEN
				verdict[i] := 5;
				CONTINUE;
			END IF;
			verdict[i] := 1;
			h_added[e] := true;
			CONTINUE WHEN o_count[i] = 0;
			IF h_id[e] IS NULL THEN
				h_dropped[e] := s_forgotten[s];
				h_id[e] := nextval('roost.entity_id');
				h_fresh[e] := true;
				fresh := fresh + 1;
			END IF;
			h_trim[e] := h_trim[e] OR h_last[e] / 1024 <> (h_last[e] + o_count[i]) / 1024;
			h_last[e] := h_last[e] + o_count[i];
			h_keys[e] := h_keys[e] + o_keys[i];
			h_changed[e] := true;
			IF o_life[i] > 0 THEN
				h_life[e] := o_life[i];
				h_snap[e] := 0;
				h_cleared[e] := true;
			END IF;
		ELSIF o_kind[i] = 7 THEN
			PERFORM FROM roost.wake x WHERE x.entity = h_id[e] AND x.kind = 4 AND x.seq = o_seq[i];
			IF NOT FOUND THEN
				verdict[i] := 5;
				CONTINUE;
			END IF;
			verdict[i] := 1;
			h_purged[e] := i;
			h_changed[e] := true;
		ELSE
			CONTINUE WHEN o_seq[i] <= h_life[e] OR o_seq[i] > h_last[e] OR o_seq[i] < h_snap[e];
			verdict[i] := 1;
			h_snap[e] := o_seq[i];
			h_cut[e] := greatest(h_cut[e], o_cut[i]);
			h_trim[e] := true;
			h_changed[e] := true;
		END IF;
	END LOOP;

	-- Part 4: write what was decided, each table by a statement for the whole batch.
	IF true = ANY (s_changed) THEN
		UPDATE roost.fence f SET epoch = u.epoch, owner = u.owner
			FROM unnest(s_type, s_shard, s_epoch, s_owner, s_changed) AS u (type, shard, epoch, owner, changed)
			WHERE u.changed AND f.type = ANY (ARRAY[u.type]) AND f.shard = u.shard;
	END IF;
	IF true = ANY (h_cleared) THEN
		UPDATE roost.entity x SET snapshot = u.snapshot
			FROM unnest(h_id, h_snap, h_cleared) AS u (id, snapshot, cleared) WHERE u.cleared AND x.id = ANY (ARRAY[u.id]);
		DELETE FROM roost.snapshot x USING unnest(h_id, h_cleared) AS u (id, cleared) WHERE u.cleared AND x.entity = ANY (ARRAY[u.id]);
	END IF;
	IF cardinality(w_op) > 0 THEN
		DELETE FROM roost.wake x USING unnest(w_op, w_entity, w_does, w_kind, w_name) AS u (op, entity, does, kind, name)
			WHERE (u.does = 4 AND x.kind <> u.kind OR u.does = 1 AND x.kind = u.kind AND x.name = u.name) AND verdict[u.op] = 1 AND x.entity = ANY (ARRAY[h_id[u.entity]]);
		UPDATE roost.wake x SET due = u.due, number = u.number
			FROM unnest(w_op, w_entity, w_does, w_kind, w_name, w_due, w_number) AS u (op, entity, does, kind, name, due, number)
			WHERE u.does = 2 AND verdict[u.op] = 1 AND x.entity = ANY (ARRAY[h_id[u.entity]]) AND x.kind = u.kind AND x.name = u.name;
		INSERT INTO roost.wake AS x (entity, kind, name, number, due, period, seq, type, shard, hash)
			SELECT h_id[u.entity], u.kind, u.name, u.number, u.due, u.period, u.seq, s_type[o_shard[u.op]], s_shard[o_shard[u.op]], e_hash[u.entity]
			FROM unnest(w_op, w_entity, w_does, w_kind, w_name, w_due, w_number, w_period, w_seq) AS u (op, entity, does, kind, name, due, number, period, seq)
			WHERE u.does IN (3, 4) AND verdict[u.op] = 1
			ON CONFLICT (entity, kind, name) DO UPDATE
				SET number = excluded.number, due = CASE WHEN excluded.kind = 4 THEN least(x.due, excluded.due) ELSE excluded.due END, period = excluded.period, seq = excluded.seq, shard = excluded.shard;
	END IF;
	sent := 0;
	FOR i IN 1 .. cardinality(d_op) LOOP
		sent := sent + d_count[i];
		IF o_kind[d_op[i]] <> 6 AND verdict[d_op[i]] = 1 THEN
			PERFORM roost.deliver(h_id[d_entity[i]], d_seq[i], d_send[sent - d_count[i] + 1 : sent], d_as[i]);
		END IF;
	END LOOP;
	IF NOT true = ANY (h_changed) THEN
		RETURN;
	END IF;
	IF fresh > 0 THEN
		INSERT INTO roost.entity (id, type, name, last, dropped)
			SELECT h_id[u.i], u.type, u.name, 0, h_dropped[u.i] FROM unnest(e_type, e_name, h_fresh) WITH ORDINALITY AS u (type, name, fresh, i)
			WHERE u.fresh ORDER BY u.i
			ON CONFLICT DO NOTHING;
		GET DIAGNOSTICS written = ROW_COUNT;
		IF written <> fresh THEN
			PERFORM roost.number_entities(); -- the number may be in use, and not the name
			RAISE EXCEPTION 'an entity was made at the same time' USING ERRCODE = 'serialization_failure';
		END IF;
	END IF;
	UPDATE roost.entity x SET last = u.last, snapshot = u.snapshot, life = u.life, cut = u.cut, keys = u.keys, age = u.age, writer = of_writer,
		elapsed = CASE WHEN x.writer = of_writer THEN greatest(of_elapsed, x.elapsed) ELSE of_elapsed END
		FROM unnest(h_id, h_last, h_snap, h_life, h_cut, h_keys, h_age, h_changed) AS u (id, last, snapshot, life, cut, keys, age, changed)
		WHERE u.changed AND x.id = ANY (ARRAY[u.id]);
	FOREACH i IN ARRAY forgotten LOOP
		IF verdict[r_op[i]] = 1 THEN
			UPDATE roost.record x SET command = NULL WHERE x.entity = h_id[r_entity[i]] AND x.command = r_command[i];
		END IF;
	END LOOP;
	INSERT INTO roost.record (entity, seq, at, time, command, body, reply)
		SELECT h_id[u.entity], u.seq, CASE WHEN u.forever THEN NULL ELSE h_age[u.entity] END, u.time, u.command, u.body, u.reply
		FROM unnest(r_op, r_entity, r_seq, r_command, r_time, r_forever, r_body, r_reply) AS u (op, entity, seq, command, time, forever, body, reply)
		WHERE verdict[u.op] = 1;
	IF has_sends THEN
		INSERT INTO roost.send (entity, seq, done, type, shard, hash, sends, pending)
			SELECT h_id[u.entity], u.seq, decode(repeat('00', (u.sends + 3) / 4), 'hex'), s_type[o_shard[u.op]], s_shard[o_shard[u.op]], e_hash[u.entity], u.sends, u.sends
			FROM unnest(r_op, r_entity, r_seq, r_sends) AS u (op, entity, seq, sends)
			WHERE u.sends > 0 AND verdict[u.op] = 1;
	END IF;
	IF true = ANY (h_trim) THEN
		INSERT INTO roost.snapshot (entity, body)
			SELECT DISTINCT ON (u.entity) h_id[u.entity], u.body
			FROM unnest(o_kind, verdict, o_entity, o_body) WITH ORDINALITY AS u (kind, verdict, entity, body, i)
			WHERE u.kind = 4 AND u.verdict = 1 AND h_snap[u.entity] > 0
			ORDER BY u.entity, u.i DESC
			ON CONFLICT (entity) DO UPDATE SET body = excluded.body;
		FOR i IN 1 .. entities LOOP
			IF h_trim[i] THEN
				PERFORM roost.expire(h_id[i], h_age[i] - keep_for, key_old, keep);
			END IF;
		END LOOP;
	END IF;
	IF 0 < ANY (h_purged) THEN
		FOR i IN 1 .. entities LOOP
			IF h_purged[i] > 0 THEN
				s := o_shard[h_purged[i]];
				PERFORM roost.purge(h_id[i], o_seq[h_purged[i]], s_type[s], s_shard[s], h_age[i], key_old, keep_for, purge_most);
			END IF;
		END LOOP;
	END IF;
END $$;

-- append_records does what commit_batch does with appends that have nothing but records, each to an
-- entity of its own. It does so for all of them or for none: if one of
-- them is to be refused, or may be, it fails, and the caller lets commit_batch decide. Nearly
-- all appends are like that, and it needs a third of the time: it checks an entity in
-- the update that moves it on, or by the index into which a new one is inserted, and a command by the
-- index into which its record is inserted.
--
-- s_: the shards, sorted, without repetition, and the epoch at which all writes to a shard.
-- e_: the entities that have records already, sorted, without repetition; e_last: the sequence number of its last record
--     so far; e_count, e_keys and e_time are o_count, o_keys and o_time of commit_batch.
-- r_: their records, as there, in the order of the entities; r_entity counts from 1.
-- n_: the first records of new entities, one each, sorted by the entities; n_shard counts from 1.
--
-- It returns of_generation.
--
-- The arrays are unnested in a list of columns: as functions in FROM, each would be copied first.
CREATE FUNCTION roost.append_records(
	s_type text[], s_shard bigint[], s_epoch bigint[],
	e_type text[], e_name bytea[], e_last bigint[], e_count int[], e_keys int[], e_time bigint[],
	r_entity int[], r_seq bigint[], r_command bytea[], r_time bigint[], r_forever boolean[], r_body bytea[], r_reply bytea[],
	n_shard int[], n_name bytea[], n_command bytea[], n_time bigint[], n_forever boolean[], n_body bytea[], n_reply bytea[],
	of_generation bigint, of_writer bigint, of_elapsed bigint)
RETURNS bigint LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
-- Otherwise the server plans anew for each small batch, which takes longer than all else. The statements
-- leave no choice: each row is looked for by itself, with all columns of an index.
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
	ids  bigint[];
	ages bigint[];
	rows int;
BEGIN
	PERFORM FROM roost.meta m WHERE m.one AND m.generation = of_generation;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'the journal has another generation' USING ERRCODE = 'RO001';
	END IF;
	PERFORM roost.durable();
	-- In the order in which commit_batch locks them.
	PERFORM FROM (SELECT unnest(s_type) AS type, unnest(s_shard) AS shard, unnest(s_epoch) AS epoch) u
		CROSS JOIN LATERAL (SELECT FROM roost.fence f
			WHERE f.type = u.type AND f.shard = u.shard AND f.epoch = u.epoch AND f.epoch <> 0 LIMIT 1 FOR SHARE) x;
	GET DIAGNOSTICS rows = ROW_COUNT;
	IF rows <> cardinality(s_shard) THEN
		RAISE EXCEPTION 'a fence is another one' USING ERRCODE = 'RO002';
	END IF;
	-- A row that has been changed since it was found is looked at again: then it does not have this last record.
	IF cardinality(e_name) > 0 AND cardinality(r_seq) = cardinality(e_name) THEN -- one record each
		WITH moved AS (
			UPDATE roost.entity x SET last = u.last + 1, keys = x.keys + u.keys, writer = of_writer,
				elapsed = CASE WHEN x.writer = of_writer THEN greatest(of_elapsed, x.elapsed) ELSE of_elapsed END,
				-- journal.Stamp.Next
				age = x.age + CASE WHEN x.writer = of_writer THEN greatest(of_elapsed - x.elapsed, 0) ELSE 0 END
			FROM (SELECT unnest(e_type) AS type, unnest(e_name) AS name, unnest(e_last) AS last, unnest(e_keys) AS keys,
				unnest(r_seq) AS seq, unnest(r_command) AS command, unnest(r_time) AS time, unnest(r_forever) AS forever, unnest(r_body) AS body, unnest(r_reply) AS reply) u
			WHERE x.type = ANY (ARRAY[u.type]) AND x.name = u.name AND x.last = u.last AND coalesce(u.time > x.dropped, true)
			RETURNING x.id, x.age, u.seq, u.command, u.time, u.forever, u.body, u.reply)
		INSERT INTO roost.record (entity, seq, at, time, command, body, reply)
			SELECT m.id, m.seq, CASE WHEN m.forever THEN NULL ELSE m.age END, m.time, m.command, m.body, m.reply FROM moved m;
		GET DIAGNOSTICS rows = ROW_COUNT;
		IF rows <> cardinality(e_name) THEN
			RAISE EXCEPTION 'an entity is not as expected' USING ERRCODE = 'RO002';
		END IF;
	ELSIF cardinality(e_name) > 0 THEN
		WITH moved AS (
			UPDATE roost.entity x SET last = u.last + u.count, keys = x.keys + u.keys, writer = of_writer,
				elapsed = CASE WHEN x.writer = of_writer THEN greatest(of_elapsed, x.elapsed) ELSE of_elapsed END,
				age = x.age + CASE WHEN x.writer = of_writer THEN greatest(of_elapsed - x.elapsed, 0) ELSE 0 END
			FROM (SELECT unnest(e_type) AS type, unnest(e_name) AS name, unnest(e_last) AS last, unnest(e_count) AS count, unnest(e_keys) AS keys, unnest(e_time) AS time,
				generate_series(1, cardinality(e_name)) AS i) u
			WHERE x.type = ANY (ARRAY[u.type]) AND x.name = u.name AND x.last = u.last AND coalesce(u.time > x.dropped, true)
			RETURNING u.i, x.id, x.age)
		SELECT array_agg(m.id ORDER BY m.i), array_agg(m.age ORDER BY m.i) INTO ids, ages FROM moved m;
		IF cardinality(ids) IS DISTINCT FROM cardinality(e_name) THEN
			RAISE EXCEPTION 'an entity is not as expected' USING ERRCODE = 'RO002';
		END IF;
		INSERT INTO roost.record (entity, seq, at, time, command, body, reply)
			SELECT ids[u.entity], u.seq, CASE WHEN u.forever THEN NULL ELSE ages[u.entity] END, u.time, u.command, u.body, u.reply
			FROM (SELECT unnest(r_entity) AS entity, unnest(r_seq) AS seq, unnest(r_command) AS command, unnest(r_time) AS time, unnest(r_forever) AS forever,
				unnest(r_body) AS body, unnest(r_reply) AS reply) u;
	END IF;
	IF cardinality(n_name) > 0 THEN
		WITH fresh AS MATERIALIZED (
			SELECT nextval('roost.entity_id') AS id, s_type[u.shard] AS type, u.name, f.forgotten, u.command, u.time, u.forever, u.body, u.reply
			FROM (SELECT unnest(n_shard) AS shard, unnest(n_name) AS name, unnest(n_command) AS command, unnest(n_time) AS time, unnest(n_forever) AS forever,
				unnest(n_body) AS body, unnest(n_reply) AS reply) u
			CROSS JOIN LATERAL (SELECT x.forgotten FROM roost.fence x
				WHERE x.type = s_type[u.shard] AND x.shard = s_shard[u.shard] AND coalesce(u.time > x.forgotten, true) LIMIT 1) f),
		made AS (
			INSERT INTO roost.entity (id, type, name, last, keys, dropped, writer, elapsed)
			SELECT f.id, f.type, f.name, 1, CASE WHEN f.command IS NULL OR f.forever THEN 0 ELSE 1 END, f.forgotten, of_writer, of_elapsed FROM fresh f)
		INSERT INTO roost.record (entity, seq, at, time, command, body, reply)
			SELECT f.id, 1, CASE WHEN f.forever THEN NULL ELSE 0 END, f.time, f.command, f.body, f.reply FROM fresh f;
		GET DIAGNOSTICS rows = ROW_COUNT;
		IF rows <> cardinality(n_name) THEN
			RAISE EXCEPTION 'a command may have expired' USING ERRCODE = 'RO002';
		END IF;
	END IF;
	RETURN of_generation;
END $$;

-- declare_facts stores whose the journal is and its types, and says whether it could:
-- not if something else is stored.
CREATE FUNCTION roost.declare_facts(of_generation bigint, of_cluster text, names text[], numbers bigint[])
RETURNS boolean LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM roost.durable();
	-- One at a time from here on.
	PERFORM FROM roost.meta m WHERE m.one AND m.generation = of_generation AND coalesce(m.cluster, of_cluster) = of_cluster FOR UPDATE;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	UPDATE roost.meta m SET cluster = of_cluster WHERE m.cluster IS NULL;
	PERFORM FROM unnest(names, numbers) AS u (name, shards) JOIN roost.type t ON t.name = u.name WHERE t.shards <> u.shards;
	IF FOUND THEN
		RETURN false;
	END IF;
	INSERT INTO roost.type (name, shards) SELECT u.name, u.shards FROM unnest(names, numbers) AS u (name, shards) ON CONFLICT DO NOTHING;
	RETURN true;
END $$;

REVOKE ALL ON FUNCTION roost.durable, roost.number_entities, roost.expire, roost.purge, roost.deliver, roost.trim_records, roost.commit_batch, roost.append_records, roost.declare_facts FROM PUBLIC;
