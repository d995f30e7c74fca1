-- What regions and coordinators may do with a Roost journal. Run it after
-- schema.sql, as its owner with the right to make roles, or as a superuser:
--
--     psql -v ON_ERROR_STOP=1 -1 -f schema.sql -f roles.sql 'postgres://owner@db/roost'
--
-- Then give each service a login of its own:
--
--     CREATE ROLE region_1 LOGIN PASSWORD '…' IN ROLE roost_service;
--
-- A service reads, and writes through functions that decide first: it adds
-- records under its fence, claims shards and declares types. It may not change
-- an event, nor delete one that neither a purge nor a trim removes, nor write past the
-- fence, nor change the schema.
--
-- roost_reader is for what only reads, such as roost journal check:
--
--     CREATE ROLE checker LOGIN PASSWORD '…' IN ROLE roost_reader;

DO $$
BEGIN
	CREATE ROLE roost_service NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
	NULL; -- of another database of this server
END $$;

DO $$
BEGIN
	CREATE ROLE roost_reader NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
	NULL; -- of another database of this server
END $$;

GRANT USAGE ON SCHEMA roost TO roost_service, roost_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA roost TO roost_service, roost_reader;
GRANT EXECUTE ON FUNCTION roost.durable, roost.number_entities, roost.commit_batch, roost.append_records, roost.trim_records, roost.declare_facts TO roost_service;
