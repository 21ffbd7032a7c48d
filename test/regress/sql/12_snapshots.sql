-- Snapshots: what is in them, exactly; how long they are kept; who may take, read and drop them; and that nobody gets his
-- own code run by a superuser who takes one.
\set SHOW_CONTEXT never
DROP EXTENSION pg_flashcache;
CREATE EXTENSION pg_flashcache;
-- statements are counted, too
SET compute_query_id = on;
SELECT keep, max_bytes, top_rows, last_snapshot FROM pg_flashcache_snapshot_settings;
INSERT INTO pg_flashcache_snapshot_settings DEFAULT VALUES;
UPDATE pg_flashcache_snapshot_settings SET only_row = false;
UPDATE pg_flashcache_snapshot_settings SET top_rows = 0;
-- each column is explained
SELECT attrelid::regclass AS unexplained, attname FROM pg_attribute
WHERE attrelid IN (SELECT oid FROM pg_class WHERE relname LIKE 'pg\_flashcache\_snapshot%' AND relkind = 'r')
  AND attnum > 0 AND col_description(attrelid, attnum) IS NULL;

-- the first has nothing to count from
CREATE TABLE fc_snap (v int);
SELECT pg_stat_force_next_flush();
SELECT pg_flashcache_snapshot('the first');
SELECT id, note, database = current_database() AS database, server_started = pg_postmaster_start_time() AS started,
  server_version_num = current_setting('server_version_num')::int AS version, resets, problems ->> 'relations' AS relations
FROM pg_flashcache_snapshots;
SELECT section FROM pg_flashcache_snapshot_data ORDER BY 1;

-- the second: what moved, to the row
INSERT INTO fc_snap SELECT generate_series(1, 10);
UPDATE fc_snap SET v = 0 WHERE v <= 3;
DELETE FROM fc_snap WHERE v = 10;
SELECT pg_stat_force_next_flush();
SELECT pg_flashcache_snapshot();
CREATE FUNCTION fc_moved(of bigint, "in" text, name text) RETURNS TABLE (labels jsonb, moved jsonb) AS $$
  SELECT r -> 'labels', r -> 'moved' FROM pg_flashcache_snapshot_data d CROSS JOIN jsonb_array_elements(d.data) r
  WHERE d.snapshot = of AND d.section = "in" AND (r -> 'labels' ->> 'name' = name OR r ->> 'key' = name)
$$ LANGUAGE sql;
SELECT labels - 'bytes' AS labels, moved - '{blks_hit,blks_read,scans}'::text[] AS moved FROM fc_moved(2, 'relations', 'fc_snap');
SELECT section FROM pg_flashcache_snapshot_data WHERE snapshot = 2
  AND section IN ('cache', 'database', 'relations', 'settings', 'wal') ORDER BY 1;
SELECT problems ->> 'kcache' AS kcache FROM pg_flashcache_snapshots WHERE id = 2;
SELECT labels ->> 'state' AS state, (labels ->> 'slots')::int > 0 AS slots FROM fc_moved(2, 'cache', '');
SELECT labels ? 'shared_buffers' AS setting, labels ? 'pg_flashcache.size' AS ours, labels ? 'pg_flashcache.file' AS path
FROM fc_moved(2, 'settings', '');
-- the third: nothing moved there
SELECT pg_flashcache_snapshot();
SELECT count(*) FROM fc_moved(3, 'relations', 'fc_snap') WHERE moved ? 'tup_changed';
-- counters that were reset count from zero, and it is said
SELECT pg_stat_reset_single_table_counters('fc_snap'::regclass);
INSERT INTO fc_snap VALUES (1), (2);
SELECT pg_stat_force_next_flush();
SELECT pg_flashcache_snapshot();
SELECT moved -> 'tup_inserted' AS inserted, moved ? 'tup_updated' AS updated FROM fc_moved(4, 'relations', 'fc_snap');
SELECT resets FROM pg_flashcache_snapshots WHERE id = 4;
-- those of the database were not
SELECT (moved ->> 'xact_commit')::bigint * 2 < (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()) AS not_from_zero
FROM fc_moved(4, 'database', (SELECT oid::text FROM pg_database WHERE datname = current_database()));
-- a counter that is as high again as it was is known by its stamp
SELECT pg_flashcache_reset_stats();
SELECT pg_flashcache_snapshot();
SELECT resets FROM pg_flashcache_snapshots WHERE id = 5;

-- the top rows, and the rest summed up
CREATE TABLE fc_snap2 (v int);
CREATE TABLE fc_snap3 (v int);
SELECT pg_stat_force_next_flush();
SELECT pg_flashcache_snapshot();
UPDATE pg_flashcache_snapshot_settings SET top_rows = 1;
INSERT INTO fc_snap SELECT generate_series(1, 100000);
INSERT INTO fc_snap2 SELECT generate_series(1, 2000);
INSERT INTO fc_snap3 SELECT generate_series(1, 3000);
SELECT pg_stat_force_next_flush();
SELECT pg_flashcache_snapshot();
SELECT moved -> 'tup_inserted' AS inserted FROM fc_moved(7, 'relations', 'fc_snap');
SELECT count(*) FROM fc_moved(7, 'relations', 'fc_snap2');
SELECT (labels ->> 'rest')::int >= 2 AS rest, (moved -> 'tup_inserted')::int / 1000 AS thousands
FROM fc_moved(7, 'relations', 'rest/pg_default');
UPDATE pg_flashcache_snapshot_settings SET top_rows = DEFAULT;

-- views of the extension that this version may not have; one that fails is left out, and the others are not
CREATE TABLE fc_counted (schemaname name, relname name, relid oid, relkind "char", toast_of oid, index_of oid, disk_reads bigint, hits bigint);
CREATE VIEW fc_source AS SELECT * FROM fc_counted;
DO $$ BEGIN
  IF to_regclass('pg_stat_flashcache_relation') IS NOT NULL THEN
    ALTER VIEW pg_stat_flashcache_relation RENAME TO fc_hidden;
  END IF;
END $$;
ALTER VIEW fc_source RENAME TO pg_stat_flashcache_relation;
-- no part of the extension: whoever made it, it is not read
SELECT pg_flashcache_snapshot();
SELECT problems ->> 'flash_relations' AS flash_relations FROM pg_flashcache_snapshots WHERE id = 8;
ALTER EXTENSION pg_flashcache ADD VIEW pg_stat_flashcache_relation;
INSERT INTO fc_counted VALUES ('public', 'a', 1, 'r', NULL, NULL, 5, 7), (NULL, NULL, NULL, NULL, NULL, NULL, 1, 1);
SELECT pg_flashcache_snapshot();
UPDATE fc_counted SET disk_reads = disk_reads + 10;
SELECT pg_flashcache_snapshot();
SELECT labels, moved FROM fc_moved(10, 'flash_relations', '1');
SELECT labels, moved FROM fc_moved(10, 'flash_relations', '-');
-- a counter that fell, as after TRUNCATE, counts from zero; that is no reset
UPDATE fc_counted SET disk_reads = 2, hits = 0 WHERE relid = 1;
SELECT pg_flashcache_snapshot();
SELECT moved FROM fc_moved(11, 'flash_relations', '1');
SELECT resets FROM pg_flashcache_snapshots WHERE id = 11;
CREATE OR REPLACE VIEW pg_stat_flashcache_relation AS
  SELECT schemaname, relname, relid, relkind, toast_of, index_of, disk_reads / 0 AS disk_reads, hits FROM fc_counted;
SELECT pg_flashcache_snapshot();
SELECT problems ->> 'flash_relations' AS flash_relations,
  EXISTS (SELECT FROM pg_flashcache_snapshot_data WHERE snapshot = 12 AND section = 'cache') AS cache
FROM pg_flashcache_snapshots WHERE id = 12;
ALTER EXTENSION pg_flashcache DROP VIEW pg_stat_flashcache_relation;
DROP VIEW pg_stat_flashcache_relation;
DROP TABLE fc_counted;

-- how long they are kept: never less than the newest
SELECT pg_flashcache_drop_snapshots();
UPDATE pg_flashcache_snapshots SET taken_at = taken_at - interval '20 days' WHERE id <= 4;
SELECT pg_flashcache_drop_snapshots(keep => '30 days');
-- mistakes that would drop them all: no unit, a sign
SELECT pg_flashcache_drop_snapshots(keep => '14');
SELECT pg_flashcache_snapshot(keep => '-1 day');
SELECT pg_flashcache_snapshot('x', '178000000 years');
SELECT pg_flashcache_snapshot(max_bytes => -5);
UPDATE pg_flashcache_snapshot_settings SET keep = '14';
UPDATE pg_flashcache_snapshot_settings SET keep = '178000000 years';
UPDATE pg_flashcache_snapshot_settings SET max_bytes = -1;
SELECT pg_flashcache_drop_snapshots();
SELECT min(id), max(id) FROM pg_flashcache_snapshots;
SELECT min(snapshot), max(snapshot) FROM pg_flashcache_snapshot_data;
-- an older one amidst takes along what is before it: the sums need all that follow
UPDATE pg_flashcache_snapshots SET taken_at = taken_at - interval '20 days' WHERE id = 6;
SELECT pg_flashcache_drop_snapshots();
SELECT pg_flashcache_drop_snapshots(max_bytes => 0);
SELECT array_agg(id) FROM pg_flashcache_snapshots;
SELECT pg_flashcache_drop_snapshots(keep => '0', max_bytes => 0);
SELECT pg_flashcache_snapshot(keep => '0');
SELECT array_agg(id) FROM pg_flashcache_snapshots;
UPDATE pg_flashcache_snapshot_settings SET max_bytes = 0;
SELECT pg_flashcache_snapshot();
SELECT array_agg(id) FROM pg_flashcache_snapshots;
UPDATE pg_flashcache_snapshot_settings SET max_bytes = DEFAULT;

-- the row of settings is lost, and put back: numbers go on
DELETE FROM pg_flashcache_snapshot_settings;
SELECT pg_flashcache_snapshot();
SELECT pg_flashcache_drop_snapshots(keep => '0');
INSERT INTO pg_flashcache_snapshot_settings DEFAULT VALUES;
SELECT pg_flashcache_snapshot() - max(id) AS next FROM pg_flashcache_snapshots;

-- who may: nobody, who may look, and who was granted to take them
CREATE ROLE fc_nobody;
CREATE ROLE fc_monitor;
GRANT pg_monitor TO fc_monitor;
CREATE ROLE fc_operator;
GRANT pg_monitor TO fc_operator;
SET ROLE fc_nobody;
SELECT pg_flashcache_snapshot();
SELECT pg_flashcache_drop_snapshots();
SELECT * FROM pg_flashcache_snapshot_collect('{}', 1);
SELECT count(*) FROM pg_flashcache_snapshots;
SELECT count(*) FROM pg_flashcache_snapshot_data;
SELECT count(*) FROM pg_flashcache_snapshot_state;
SELECT count(*) FROM pg_flashcache_snapshot_settings;
SET ROLE fc_monitor;
SELECT count(*) FROM pg_flashcache_snapshots;
SELECT count(*) > 0 AS may_read FROM pg_flashcache_snapshot_data;
SELECT count(*) FROM pg_flashcache_snapshot_settings;
SELECT count(*) FROM pg_flashcache_snapshot_state;
SELECT pg_flashcache_snapshot();
SELECT pg_flashcache_drop_snapshots();
DELETE FROM pg_flashcache_snapshots;
UPDATE pg_flashcache_snapshot_settings SET keep = '1 day';
RESET ROLE;
GRANT EXECUTE ON FUNCTION pg_flashcache_snapshot(text, interval, bigint), pg_flashcache_snapshot_collect(jsonb, integer),
  pg_flashcache_drop_snapshots(interval, bigint) TO fc_operator;
SET ROLE fc_operator;
SELECT pg_flashcache_snapshot();
RESET ROLE;
GRANT SELECT, INSERT, UPDATE, DELETE ON pg_flashcache_snapshots, pg_flashcache_snapshot_data, pg_flashcache_snapshot_state TO fc_operator;
GRANT SELECT, UPDATE (last_snapshot) ON pg_flashcache_snapshot_settings TO fc_operator;
SET ROLE fc_operator;
SELECT pg_flashcache_snapshot('granted');
SELECT pg_flashcache_drop_snapshots(max_bytes => 0);
UPDATE pg_flashcache_snapshot_settings SET keep = '1 day';
RESET ROLE;

-- A trigger would run with the rights of whoever takes or drops snapshots: nobody else can have one there.
GRANT TRIGGER ON pg_flashcache_snapshot_state TO fc_nobody;
SELECT pg_flashcache_snapshot();
SELECT pg_flashcache_drop_snapshots();
CREATE FUNCTION fc_trap() RETURNS trigger AS $$ BEGIN RAISE 'trapped: %', current_user; END $$ LANGUAGE plpgsql;
ALTER FUNCTION fc_trap() OWNER TO fc_nobody;
SET ROLE fc_nobody;
CREATE TRIGGER fc_trap BEFORE INSERT OR UPDATE ON pg_flashcache_snapshot_state FOR EACH ROW EXECUTE FUNCTION fc_trap();
RESET ROLE;
REVOKE TRIGGER ON pg_flashcache_snapshot_state FROM fc_nobody;
SELECT pg_flashcache_snapshot();
DROP TRIGGER fc_trap ON pg_flashcache_snapshot_state;
DROP FUNCTION fc_trap();
-- So would one of a table that refers to ours, once a snapshot is dropped.
GRANT REFERENCES (id) ON pg_flashcache_snapshots TO fc_nobody;
SELECT pg_flashcache_snapshot();
CREATE TABLE fc_refers (id bigint REFERENCES pg_flashcache_snapshots ON DELETE CASCADE);
ALTER TABLE fc_refers OWNER TO fc_nobody;
REVOKE REFERENCES (id) ON pg_flashcache_snapshots FROM fc_nobody;
SELECT pg_flashcache_drop_snapshots();
DROP TABLE fc_refers;
-- What a view calls, it calls with the rights of whoever reads it: that of somebody else is left out.
ALTER VIEW pg_stat_flashcache OWNER TO fc_nobody;
SELECT pg_flashcache_snapshot() AS others \gset
SELECT problems ->> 'cache' AS cache, problems ->> 'flash_latency' AS latency FROM pg_flashcache_snapshots WHERE id = :others;
ALTER VIEW pg_stat_flashcache OWNER TO CURRENT_USER;
SELECT pg_flashcache_snapshot() AS ours \gset
SELECT problems ->> 'cache' AS cache, problems ->> 'flash_latency' AS latency FROM pg_flashcache_snapshots WHERE id = :ours;

-- The owner of the schema renames it, and puts a trap of the same name into its place.
DROP EXTENSION pg_flashcache;
CREATE ROLE fc_owner;
CREATE SCHEMA fc_place AUTHORIZATION fc_owner;
CREATE EXTENSION pg_flashcache SCHEMA fc_place;
SELECT fc_place.pg_flashcache_snapshot();
DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO fc_owner', current_database()); END $$;
SET ROLE fc_owner;
ALTER SCHEMA fc_place RENAME TO fc_moved;
CREATE SCHEMA fc_place;
CREATE FUNCTION fc_place.trap() RETURNS trigger AS $$ BEGIN RAISE 'trapped: %', current_user; END $$ LANGUAGE plpgsql;
CREATE FUNCTION fc_place.trap(text) RETURNS text AS $$ BEGIN RAISE 'trapped: %', current_user; END $$ LANGUAGE plpgsql;
CREATE TABLE fc_place.pg_flashcache_snapshots (id bigint, taken_at timestamptz, database text, note text, server_started timestamptz,
  server_version_num integer, resets text[], problems jsonb);
CREATE TABLE fc_place.pg_flashcache_snapshot_data (snapshot bigint, section text, data jsonb);
CREATE TABLE fc_place.pg_flashcache_snapshot_state (section text PRIMARY KEY, data jsonb);
CREATE TABLE fc_place.pg_flashcache_snapshot_settings (keep interval, max_bytes bigint, top_rows integer, last_snapshot bigint);
INSERT INTO fc_place.pg_flashcache_snapshot_settings VALUES ('1 day', 1, 1, 1);
CREATE TRIGGER trap BEFORE INSERT OR UPDATE ON fc_place.pg_flashcache_snapshots FOR EACH ROW EXECUTE FUNCTION fc_place.trap();
CREATE TRIGGER trap BEFORE INSERT OR UPDATE ON fc_place.pg_flashcache_snapshot_data FOR EACH ROW EXECUTE FUNCTION fc_place.trap();
CREATE TRIGGER trap BEFORE INSERT OR UPDATE ON fc_place.pg_flashcache_snapshot_state FOR EACH ROW EXECUTE FUNCTION fc_place.trap();
CREATE TRIGGER trap BEFORE INSERT OR UPDATE ON fc_place.pg_flashcache_snapshot_settings FOR EACH ROW EXECUTE FUNCTION fc_place.trap();
CREATE VIEW fc_place.pg_stat_flashcache AS SELECT fc_place.trap('state') AS state, 1::bigint AS hits;
CREATE VIEW fc_place.pg_stat_statements AS SELECT fc_place.trap('1')::bigint AS queryid;
CREATE FUNCTION fc_place.pg_flashcache_snapshot_collect(before jsonb, top_rows integer, OUT section text, OUT data jsonb, OUT state jsonb,
  OUT reset boolean, OUT problem text) RETURNS SETOF record AS $$ BEGIN RAISE 'trapped: %', current_user; END $$ LANGUAGE plpgsql;
CREATE FUNCTION fc_place.pg_flashcache_drop_snapshots(keep interval, max_bytes bigint) RETURNS bigint
  AS $$ BEGIN RAISE 'trapped: %', current_user; END $$ LANGUAGE plpgsql;
CREATE FUNCTION fc_place.less(numeric, numeric) RETURNS boolean AS $$ BEGIN RAISE 'trapped: %', current_user; END $$ LANGUAGE plpgsql;
CREATE OPERATOR fc_place.< (LEFTARG = numeric, RIGHTARG = numeric, FUNCTION = fc_place.less);
RESET ROLE;
SET search_path = fc_place, pg_catalog, public;
SELECT fc_moved.pg_flashcache_snapshot();
SELECT problems ->> 'cache' AS cache, problems ->> 'statements' AS statements FROM fc_moved.pg_flashcache_snapshots WHERE id = 2;
SELECT count(*) FROM fc_place.pg_flashcache_snapshots;
RESET search_path;
DROP EXTENSION pg_flashcache;
DROP SCHEMA fc_place, fc_moved CASCADE;
DO $$ BEGIN EXECUTE format('REVOKE CREATE ON DATABASE %I FROM fc_owner', current_database()); END $$;

DROP FUNCTION fc_moved(bigint, text, text);
DROP TABLE fc_snap, fc_snap2, fc_snap3;
DROP ROLE fc_nobody, fc_monitor, fc_operator, fc_owner;
CREATE EXTENSION pg_flashcache;
