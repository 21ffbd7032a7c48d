/* pg_flashcache--1.0--1.1.sql */

\echo Use "ALTER EXTENSION pg_flashcache UPDATE TO '1.1'" to load this file. \quit

/*
 * Snapshots
 *
 * A snapshot has, by section, by how much each counter of each row moved since
 * the snapshot before it; an interval is the sum of its snapshots.  Where the
 * counters stood then is kept for the last one alone.
 *
 * Who owns the schema may rename it and put another of that name into its
 * place.  So what writes is bound to its objects when it is made (BEGIN
 * ATOMIC), and views of extensions are found as members of these, not by path.
 *
 * None of the tables is marked for pg_dump: their rows stay out of dumps, which
 * the owner of a database could not read.
 */
CREATE TABLE pg_flashcache_snapshots (
	id pg_catalog.int8 PRIMARY KEY,
	taken_at pg_catalog.timestamptz NOT NULL,
	database pg_catalog.text NOT NULL,
	note pg_catalog.text,
	server_started pg_catalog.timestamptz NOT NULL,
	server_version_num pg_catalog.int4 NOT NULL,
	resets pg_catalog.text[] NOT NULL,
	problems pg_catalog.jsonb NOT NULL);

COMMENT ON TABLE pg_flashcache_snapshots IS
	'snapshots of statistics, one row each; pgflash report reads them';
COMMENT ON COLUMN pg_flashcache_snapshots.id IS
	'number of the snapshot, from 1';
COMMENT ON COLUMN pg_flashcache_snapshots.taken_at IS
	'when it was taken';
COMMENT ON COLUMN pg_flashcache_snapshots.database IS
	'database in which it was taken: relations are those of this database';
COMMENT ON COLUMN pg_flashcache_snapshots.note IS
	'what whoever took it wrote to it';
COMMENT ON COLUMN pg_flashcache_snapshots.server_started IS
	'since when the server was running';
COMMENT ON COLUMN pg_flashcache_snapshots.server_version_num IS
	'version of the server, as in server_version_num';
COMMENT ON COLUMN pg_flashcache_snapshots.resets IS
	'sections with counters that were reset since the snapshot before it; these are counted from zero';
COMMENT ON COLUMN pg_flashcache_snapshots.problems IS
	'sections that are missing, and why';

CREATE TABLE pg_flashcache_snapshot_data (
	snapshot pg_catalog.int8,
	section pg_catalog.text,
	data pg_catalog.jsonb NOT NULL,
	PRIMARY KEY (snapshot, section));

COMMENT ON TABLE pg_flashcache_snapshot_data IS
	'what is in the snapshots, by section';
COMMENT ON COLUMN pg_flashcache_snapshot_data.snapshot IS
	'number of the snapshot';
COMMENT ON COLUMN pg_flashcache_snapshot_data.section IS
	'name of the section: cache, database, relations, statements and others';
COMMENT ON COLUMN pg_flashcache_snapshot_data.data IS
	'array of rows: key; labels, as they were when the snapshot was taken; moved, by how much counters moved since the one before it, in the units of their views';

CREATE TABLE pg_flashcache_snapshot_state (
	section pg_catalog.text PRIMARY KEY,
	data pg_catalog.jsonb NOT NULL);

COMMENT ON TABLE pg_flashcache_snapshot_state IS
	'where counters stood at the last snapshot, by section';
COMMENT ON COLUMN pg_flashcache_snapshot_state.section IS
	'name of the section';
COMMENT ON COLUMN pg_flashcache_snapshot_state.data IS
	'by key: c, the counters that are not 0; s, since when they count';

CREATE TABLE pg_flashcache_snapshot_settings (
	only_row pg_catalog.bool PRIMARY KEY DEFAULT true CHECK (only_row),
	keep pg_catalog.interval NOT NULL DEFAULT '14 days',
	max_bytes pg_catalog.int8 NOT NULL DEFAULT 1073741824,
	top_rows pg_catalog.int4 NOT NULL DEFAULT 200 CHECK (top_rows OPERATOR(pg_catalog.>) 0),
	last_snapshot pg_catalog.int8 NOT NULL DEFAULT 0);

COMMENT ON TABLE pg_flashcache_snapshot_settings IS
	'how long snapshots are kept, and how large they get; one row, for superusers to update';
COMMENT ON COLUMN pg_flashcache_snapshot_settings.only_row IS
	'true';
COMMENT ON COLUMN pg_flashcache_snapshot_settings.keep IS
	'snapshots that are older are dropped when the next one is taken';
COMMENT ON COLUMN pg_flashcache_snapshot_settings.max_bytes IS
	'bytes of all snapshots, compressed as in the table, beyond which the oldest are dropped';
COMMENT ON COLUMN pg_flashcache_snapshot_settings.top_rows IS
	'relations and statements of one snapshot, each by the greatest of several counters; the rest is summed up';
COMMENT ON COLUMN pg_flashcache_snapshot_settings.last_snapshot IS
	'number of the last snapshot; also what lets one be taken at a time';

INSERT INTO pg_flashcache_snapshot_settings DEFAULT VALUES;

CREATE FUNCTION pg_flashcache_snapshot_collect(
	before jsonb,
	top_rows integer,
	OUT section text,
	OUT data jsonb,
	OUT state jsonb,
	OUT reset boolean,
	OUT problem text)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $body$
DECLARE
	source record;
	relation oid;
	present text[];
	counters text[];
	labels text[];
	since text;
	known jsonb;
	statement text;
BEGIN
	PERFORM pg_stat_clear_snapshot();
	/*
	 * rows: what is read, %s is the view.  keys: what tells its rows apart.  labels: what is shown of them; more: labels
	 * that are no columns of the view.  counted: the counters; NULL: all numbers of the view that are neither.  weights:
	 * the top rows are the first by each of these; NULL: all rows.  grp: what the rest is summed up by.
	 */
	FOR source IN
		SELECT * FROM (VALUES
			('cache', 'pg_flashcache', 'pg_stat_flashcache', '%s', '{}'::text[],
			 '{state,reason,verdict,slots,used,memory_bytes,hit_ratio,memory_per_slot,writer_pid}'::text[], '{}'::text[],
			 NULL::text[], NULL::text[], NULL::text),
			('flash_relations', 'pg_flashcache', 'pg_stat_flashcache_relation', '%s', '{relid}',
			 '{schemaname,relname,relkind,toast_of,index_of}', '{}', NULL, '{disk_reads,hits,inserts}', NULL),
			('flash_statements', 'pg_flashcache', 'pg_stat_flashcache_statements', '%s', '{userid,dbid,queryid,toplevel}',
			 '{query}', '{}', NULL, '{disk_read_time_us,disk_reads,hits}', NULL),
			('flash_latency', 'pg_flashcache', 'pg_stat_flashcache_latency', '%s', '{backend_type,operation,bucket}',
			 '{backend_type,operation,bucket,from_us,to_us}', '{}', NULL, NULL, NULL),
			('database', NULL, 'pg_stat_database', '%s', '{datid}', '{datname,numbackends}', '{}', NULL, NULL, NULL),
			('bgwriter', NULL, 'pg_stat_bgwriter', '%s', '{}', '{}', '{}', NULL, NULL, NULL),
			('checkpointer', NULL, 'pg_stat_checkpointer', '%s', '{}', '{}', '{}', NULL, NULL, NULL),
			('wal', NULL, 'pg_stat_wal', '%s', '{}', '{}', '{}', NULL, NULL, NULL),
			('io', NULL, 'pg_stat_io', '%s', '{backend_type,object,context}', '{backend_type,object,context,op_bytes}', '{}',
			 NULL, NULL, NULL),
			('relations', NULL, 'pg_class',
			 $q$(SELECT c.oid, n.nspname AS schema, c.relname AS name, c.relkind AS kind, t.spcname AS tablespace,
					coalesce(i.indrelid, m.oid)::regclass AS of, greatest(c.relpages, 0)::int8 * current_setting('block_size')::int8 AS bytes,
					pg_stat_get_blocks_fetched(c.oid) - pg_stat_get_blocks_hit(c.oid) AS blks_read,
					pg_stat_get_blocks_hit(c.oid) AS blks_hit, pg_stat_get_numscans(c.oid) AS scans,
					pg_stat_get_tuples_inserted(c.oid) AS tup_inserted, pg_stat_get_tuples_updated(c.oid) AS tup_updated,
					pg_stat_get_tuples_deleted(c.oid) AS tup_deleted,
					pg_stat_get_tuples_inserted(c.oid) + pg_stat_get_tuples_updated(c.oid) + pg_stat_get_tuples_deleted(c.oid) AS tup_changed
				FROM %s c JOIN pg_namespace n ON n.oid = c.relnamespace
					LEFT JOIN pg_index i ON i.indexrelid = c.oid
					LEFT JOIN pg_class m ON m.reltoastrelid = c.oid AND c.relkind = 't'
					JOIN pg_tablespace t ON t.oid = CASE WHEN c.reltablespace <> 0 THEN c.reltablespace
						ELSE (SELECT dattablespace FROM pg_database WHERE datname = current_database()) END
				WHERE c.relkind IN ('r', 'i', 't', 'm'))$q$,
			 '{oid}', '{}', '{schema,name,kind,tablespace,of,bytes}',
			 '{blks_read,blks_hit,scans,tup_inserted,tup_updated,tup_deleted,tup_changed}', '{blks_read,tup_changed}', 'tablespace'),
			('statements', 'pg_stat_statements', 'pg_stat_statements',
			 $q$(SELECT s.*, r.rolname, d.datname FROM %s s LEFT JOIN pg_roles r ON r.oid = s.userid
				LEFT JOIN pg_database d ON d.oid = s.dbid WHERE s.queryid IS NOT NULL)$q$,
			 '{userid,dbid,queryid,toplevel}', '{query}', '{rolname,datname}', NULL, '{total_exec_time,shared_blks_read}', NULL),
			('kcache', 'pg_stat_kcache', 'pg_stat_kcache', '%s', '{datname}', '{datname}', '{}', NULL, NULL, NULL),
			('wait_sampling', 'pg_wait_sampling', 'pg_wait_sampling_profile',
			 '(SELECT event_type, event, sum(count) AS count FROM %s GROUP BY 1, 2)', '{event_type,event}', '{event_type,event}', '{}',
			 '{count}', NULL, NULL)
		) AS s(section, extension, view, rows, keys, labels, more, counted, weights, grp)
	LOOP
		section := source.section;
		data := NULL;
		state := NULL;
		reset := false;
		problem := NULL;
		relation := NULL;
		BEGIN
			IF source.extension IS NULL THEN
				relation := to_regclass('pg_catalog.' || source.view);
			ELSE
				SELECT c.oid INTO relation
				FROM pg_extension e
					JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
					JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
				WHERE e.extname = source.extension AND c.relname = source.view;
			END IF;
			IF relation IS NULL THEN
				problem := CASE
					WHEN source.extension IS NULL THEN 'this version of the server does not have it'
					WHEN source.extension = 'pg_flashcache' THEN 'this version of the extension does not have it'
					ELSE format('the extension %s is not installed in this database', source.extension) END;
				RETURN NEXT;
				CONTINUE;
			END IF;
			SELECT array_agg(attname::text),
				array_agg(attname::text ORDER BY attnum) FILTER (WHERE
					atttypid = ANY ('{int2,int4,int8,float4,float8,numeric}'::regtype[])
					AND NOT attname = ANY (source.keys || source.labels)
					AND attname !~ '^(min|max|mean|stddev)_|_max$|_per_')
			INTO present, counters
			FROM pg_attribute WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped;
			counters := coalesce(source.counted, counters);
			labels := ARRAY(SELECT l FROM unnest(source.labels) l WHERE l = ANY (present)) || source.more;
			since := (SELECT format('v.%I::text', c) FROM unnest('{stats_since,stats_reset}'::text[]) c
				WHERE c = ANY (present) AND source.counted IS NULL LIMIT 1);
			known := before -> source.section;

			statement := format($q$
				WITH now AS MATERIALIZED (
					SELECT array_to_string(ARRAY[%1$s]::text[], '/', '-') AS key, %2$s AS grp, %3$s AS since,
						coalesce(jsonb_strip_nulls((SELECT to_jsonb(l) FROM (SELECT %4$s) l)), '{}') AS labels,
						coalesce((SELECT jsonb_object_agg(e.key, e.value) FROM jsonb_each((SELECT to_jsonb(c) FROM (SELECT %5$s) c)) e
							WHERE e.value NOT IN ('null', '0')), '{}') AS counters
					FROM %6$s v),
				compared AS (
					SELECT n.key, n.grp, n.labels, n.counters, k.value -> 'c' AS was,
						k.key IS NOT NULL AND (n.since IS DISTINCT FROM k.value ->> 's' OR EXISTS (
							SELECT FROM jsonb_each(k.value -> 'c') c
							WHERE c.value::numeric > coalesce((n.counters -> c.key)::numeric, 0))) AS reset
					FROM now n LEFT JOIN jsonb_each($1) k ON k.key = n.key
					WHERE $1 IS NOT NULL
						AND ($4 OR n.counters IS DISTINCT FROM coalesce(k.value -> 'c', '{}') OR n.since IS DISTINCT FROM k.value ->> 's')),
				moved AS (
					SELECT c.key, c.grp, c.labels, c.reset, (
						SELECT jsonb_object_agg(e.key, trim_scale(round(d.delta, 3))) FROM jsonb_each(c.counters) e
							CROSS JOIN LATERAL (SELECT e.value::numeric
								- CASE WHEN c.reset THEN 0 ELSE coalesce((c.was -> e.key)::numeric, 0) END AS delta) d
						WHERE d.delta <> 0) AS moved
					FROM compared c),
				ranks AS (
					SELECT r.key, min(r.rank) AS rank FROM (
						SELECT o.key, row_number() OVER (PARTITION BY w ORDER BY coalesce((o.moved ->> w)::numeric, 0) DESC, o.key) AS rank
						FROM moved o CROSS JOIN unnest($2) w WHERE o.moved IS NOT NULL) r
					GROUP BY 1),
				ranked AS (
					SELECT m.*, coalesce(k.rank, 1) AS rank FROM moved m LEFT JOIN ranks k ON k.key = m.key
					WHERE m.moved IS NOT NULL OR $4),
				rest AS (
					SELECT r.grp, e.key, sum(e.value::numeric) AS total FROM ranked r CROSS JOIN LATERAL jsonb_each(r.moved) e
					WHERE r.rank > $3 GROUP BY 1, 2)
				SELECT
					CASE WHEN $1 IS NOT NULL THEN coalesce((
						SELECT jsonb_agg(jsonb_build_object('key', r.key, 'labels', r.labels, 'moved', coalesce(r.moved, '{}')) ORDER BY r.rank, r.key)
						FROM ranked r WHERE r.rank <= $3), '[]')
					|| coalesce((
						SELECT jsonb_agg(jsonb_build_object('key', concat_ws('/', 'rest', g.grp), 'labels', jsonb_strip_nulls(jsonb_build_object(
							'tablespace', g.grp, 'rest', (SELECT count(*) FROM ranked r WHERE r.rank > $3 AND r.grp IS NOT DISTINCT FROM g.grp))),
							'moved', g.moved))
						FROM (SELECT grp, jsonb_object_agg(key, total) AS moved FROM rest GROUP BY 1) g), '[]') END,
					(SELECT coalesce(jsonb_object_agg(n.key, jsonb_strip_nulls(jsonb_build_object('s', n.since, 'c', n.counters))), '{}')
						FROM now n WHERE n.counters <> '{}'),
					coalesce((SELECT bool_or(m.reset) FROM moved m), false)$q$,
				(SELECT string_agg(format('v.%I::text', k), ', ' ORDER BY o) FROM unnest(source.keys) WITH ORDINALITY u(k, o)),
				CASE WHEN source.grp IS NULL THEN 'NULL::text' ELSE format('v.%I::text', source.grp) END,
				coalesce(since, 'NULL::text'),
				(SELECT string_agg(CASE WHEN l = 'query' THEN 'left(v.query, 2000) AS query' ELSE format('v.%I', l) END, ', ') FROM unnest(labels) l),
				(SELECT string_agg(format('v.%I', c), ', ') FROM unnest(counters) c),
				format(source.rows, relation::regclass));
			EXECUTE statement INTO data, state, reset
				USING known, source.weights, top_rows, source.section = 'cache';
			IF data IS NULL THEN
				problem := 'counted from this snapshot on';
			END IF;
		EXCEPTION WHEN OTHERS THEN
			data := NULL;
			state := NULL;
			reset := false;
			problem := SQLERRM;
		END;
		RETURN NEXT;
	END LOOP;

	section := 'settings';
	state := NULL;
	reset := false;
	problem := NULL;
	SELECT jsonb_build_array(jsonb_build_object('key', '', 'moved', '{}'::jsonb, 'labels', jsonb_object_agg(s.name, current_setting(s.name))))
	INTO data FROM pg_settings s
	WHERE s.name LIKE 'pg\_flashcache.%' AND s.name <> 'pg_flashcache.file'
		OR s.name LIKE 'pg\_wait\_sampling.%' OR s.name IN ('shared_buffers', 'effective_cache_size', 'max_connections', 'track_io_timing', 'block_size', 'io_method',
			'checkpoint_timeout', 'max_wal_size', 'work_mem', 'compute_query_id');
	RETURN NEXT;
END
$body$;

COMMENT ON FUNCTION pg_flashcache_snapshot_collect(jsonb, integer) IS
	'by how much counters moved; for pg_flashcache_snapshot()';

CREATE FUNCTION pg_flashcache_drop_snapshots(
	keep interval DEFAULT NULL,
	max_bytes bigint DEFAULT NULL)
RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	WITH sizes AS (
		SELECT d.snapshot, pg_catalog.sum(pg_catalog.pg_column_size(d.data)) AS bytes
		FROM @extschema@.pg_flashcache_snapshot_data d GROUP BY d.snapshot),
	ordered AS (
		SELECT s.id, s.taken_at, pg_catalog.max(s.id) OVER () AS newest,
			pg_catalog.sum(z.bytes) OVER (ORDER BY s.id DESC) AS bytes
		FROM @extschema@.pg_flashcache_snapshots s LEFT JOIN sizes z ON z.snapshot OPERATOR(pg_catalog.=) s.id),
	gone AS (
		DELETE FROM @extschema@.pg_flashcache_snapshots s
		WHERE s.id OPERATOR(pg_catalog.<=) (
			SELECT pg_catalog.max(o.id) FROM ordered o CROSS JOIN @extschema@.pg_flashcache_snapshot_settings t
			WHERE o.id OPERATOR(pg_catalog.<) o.newest
				AND (o.taken_at OPERATOR(pg_catalog.<) (pg_catalog.now() OPERATOR(pg_catalog.-)
						COALESCE(pg_flashcache_drop_snapshots.keep, t.keep))
					OR o.bytes OPERATOR(pg_catalog.>) COALESCE(pg_flashcache_drop_snapshots.max_bytes, t.max_bytes)::pg_catalog.numeric))
		RETURNING s.id),
	emptied AS (
		DELETE FROM @extschema@.pg_flashcache_snapshot_data d USING gone g WHERE d.snapshot OPERATOR(pg_catalog.=) g.id)
	SELECT pg_catalog.count(*) FROM gone;
END;

COMMENT ON FUNCTION pg_flashcache_drop_snapshots(interval, bigint) IS
	'drops the oldest snapshots, those older than keep and those beyond max_bytes, but never the newest; returns how many';

CREATE FUNCTION pg_flashcache_snapshot(
	note text DEFAULT NULL,
	keep interval DEFAULT NULL,
	max_bytes bigint DEFAULT NULL)
RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	UPDATE @extschema@.pg_flashcache_snapshot_settings t
		SET last_snapshot = t.last_snapshot OPERATOR(pg_catalog.+) 1::pg_catalog.int8;
	WITH collected AS MATERIALIZED (
		SELECT c.section, c.data, c.state, c.reset, c.problem
		FROM @extschema@.pg_flashcache_snapshot_settings t
			CROSS JOIN LATERAL @extschema@.pg_flashcache_snapshot_collect(
				COALESCE((SELECT pg_catalog.jsonb_object_agg(s.section, s.data) FROM @extschema@.pg_flashcache_snapshot_state s),
					'{}'::pg_catalog.jsonb), t.top_rows) c),
	stored AS (
		INSERT INTO @extschema@.pg_flashcache_snapshot_data
			SELECT t.last_snapshot, c.section, c.data
			FROM @extschema@.pg_flashcache_snapshot_settings t CROSS JOIN collected c WHERE c.data IS NOT NULL),
	stands AS (
		INSERT INTO @extschema@.pg_flashcache_snapshot_state
			SELECT c.section, c.state FROM collected c WHERE c.state IS NOT NULL
		ON CONFLICT (section) DO UPDATE SET data = excluded.data)
	INSERT INTO @extschema@.pg_flashcache_snapshots
		SELECT t.last_snapshot, pg_catalog.clock_timestamp(), pg_catalog.current_database(), pg_flashcache_snapshot.note,
			pg_catalog.pg_postmaster_start_time(), pg_catalog.current_setting('server_version_num')::pg_catalog.int4,
			COALESCE((SELECT pg_catalog.array_agg(c.section ORDER BY c.section) FROM collected c WHERE c.reset),
				'{}'::pg_catalog.text[]),
			COALESCE((SELECT pg_catalog.jsonb_object_agg(c.section, c.problem) FROM collected c WHERE c.problem IS NOT NULL),
				'{}'::pg_catalog.jsonb)
		FROM @extschema@.pg_flashcache_snapshot_settings t;
	SELECT @extschema@.pg_flashcache_drop_snapshots(pg_flashcache_snapshot.keep, pg_flashcache_snapshot.max_bytes);
	SELECT t.last_snapshot FROM @extschema@.pg_flashcache_snapshot_settings t;
END;

COMMENT ON FUNCTION pg_flashcache_snapshot(text, interval, bigint) IS
	'takes a snapshot of the statistics, drops those that are too old or too many, and returns its number';

REVOKE ALL ON FUNCTION pg_flashcache_snapshot(text, interval, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_snapshot_collect(jsonb, integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_drop_snapshots(interval, bigint) FROM PUBLIC;
REVOKE ALL ON pg_flashcache_snapshots, pg_flashcache_snapshot_data, pg_flashcache_snapshot_state,
	pg_flashcache_snapshot_settings FROM PUBLIC;
GRANT SELECT ON pg_flashcache_snapshots, pg_flashcache_snapshot_data, pg_flashcache_snapshot_settings TO pg_read_all_stats;
