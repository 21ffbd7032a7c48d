/* pg_flashcache--1.0--1.1.sql */

\echo Use "ALTER EXTENSION pg_flashcache UPDATE TO '1.1'" to load this file. \quit

-- ---- objects: relations, statements, latency ----

CREATE FUNCTION pg_flashcache_relation_stat(
	OUT relid oid,
	OUT hits bigint,
	OUT read_time_us bigint,
	OUT disk_reads bigint,
	OUT disk_read_time_us bigint,
	OUT os_cache_hits bigint,
	OUT inserts bigint,
	OUT invalidations bigint,
	OUT evictions_without_hit bigint,
	OUT stats_reset timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'fc_relation_stat'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_flashcache_relation_stat() IS
	'what was read of each relation of this database; see view pg_stat_flashcache_relation';

CREATE VIEW pg_stat_flashcache_relation AS
	SELECT s.relid, n.nspname AS schemaname, c.relname, c.relkind,
		t.oid AS toast_of, i.indrelid AS index_of,
		s.hits OPERATOR(pg_catalog.+) s.disk_reads AS reads,
		s.hits, s.read_time_us, s.disk_reads, s.disk_read_time_us, s.os_cache_hits,
		s.inserts, s.invalidations, s.evictions_without_hit,
		s.hits AS optimized_reads, s.disk_reads AS unoptimized_reads,
		s.stats_reset
	FROM @extschema@.pg_flashcache_relation_stat() s
		LEFT JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) s.relid
		LEFT JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
		LEFT JOIN pg_catalog.pg_index i ON i.indexrelid OPERATOR(pg_catalog.=) s.relid
		LEFT JOIN pg_catalog.pg_class t ON t.reltoastrelid OPERATOR(pg_catalog.=)
				CASE WHEN c.relkind OPERATOR(pg_catalog.=) 't' THEN c.oid ELSE i.indrelid END
			AND t.reltoastrelid OPERATOR(pg_catalog.<>) 0;

COMMENT ON VIEW pg_stat_flashcache_relation IS
	'what was read of each relation of this database from flash and from disk, one row each; relid is NULL in the row of everything else';

COMMENT ON COLUMN pg_stat_flashcache_relation.relid IS
	'OID of the table, index, TOAST table or other relation; NULL: all reads of this database that belong to no row';
COMMENT ON COLUMN pg_stat_flashcache_relation.schemaname IS
	'its schema';
COMMENT ON COLUMN pg_stat_flashcache_relation.relname IS
	'its name';
COMMENT ON COLUMN pg_stat_flashcache_relation.relkind IS
	'its kind, as in pg_class';
COMMENT ON COLUMN pg_stat_flashcache_relation.toast_of IS
	'of a TOAST table, and of its index: OID of the table that it belongs to';
COMMENT ON COLUMN pg_stat_flashcache_relation.index_of IS
	'of an index: OID of its table';
COMMENT ON COLUMN pg_stat_flashcache_relation.reads IS
	'pages that were read, from flash or from disk';
COMMENT ON COLUMN pg_stat_flashcache_relation.hits IS
	'pages read from flash';
COMMENT ON COLUMN pg_stat_flashcache_relation.read_time_us IS
	'microseconds that these reads took';
COMMENT ON COLUMN pg_stat_flashcache_relation.disk_reads IS
	'pages read from data files, of all forks';
COMMENT ON COLUMN pg_stat_flashcache_relation.disk_read_time_us IS
	'microseconds that these reads took; on 18 and later only some of them are timed';
COMMENT ON COLUMN pg_stat_flashcache_relation.os_cache_hits IS
	'pages that were on flash but left to the page cache of the kernel, which held them; in disk_reads too';
COMMENT ON COLUMN pg_stat_flashcache_relation.inserts IS
	'pages written to flash and published';
COMMENT ON COLUMN pg_stat_flashcache_relation.invalidations IS
	'pages that left flash since they were changed or dropped';
COMMENT ON COLUMN pg_stat_flashcache_relation.evictions_without_hit IS
	'pages that left flash for others and had never been wanted: they were written for nothing';
COMMENT ON COLUMN pg_stat_flashcache_relation.optimized_reads IS
	'the same as hits';
COMMENT ON COLUMN pg_stat_flashcache_relation.unoptimized_reads IS
	'the same as disk_reads';
COMMENT ON COLUMN pg_stat_flashcache_relation.stats_reset IS
	'since when is counted: the start of the server, or the last reset';

CREATE FUNCTION pg_flashcache_relation_pages(
	max_slots bigint DEFAULT 16777216,
	OUT relid oid,
	OUT flash_blocks bigint,
	OUT buffer_blocks bigint,
	OUT sampled integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'fc_relation_pages'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_flashcache_relation_pages(bigint) IS
	'pages of each relation of this database on flash and in shared buffers; of a cache with more slots than max_slots, one of every sampled slots is looked at';

CREATE VIEW pg_flashcache_relations AS
	SELECT c.oid AS relid, n.nspname AS schemaname, c.relname, c.relkind,
		z.bytes, z.bytes OPERATOR(pg_catalog./) z.block_size AS blocks,
		coalesce(p.flash_blocks, 0) AS flash_blocks,
		coalesce(p.buffer_blocks, 0) AS buffer_blocks,
		coalesce(p.flash_blocks, 0)::double precision OPERATOR(pg_catalog./)
			nullif(z.bytes OPERATOR(pg_catalog./) z.block_size, 0)::double precision AS flash_share
	FROM pg_catalog.pg_class c
		JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
		LEFT JOIN @extschema@.pg_flashcache_relation_pages() p ON p.relid OPERATOR(pg_catalog.=) c.oid,
		LATERAL (SELECT pg_catalog.pg_relation_size(c.oid, 'main') AS bytes,
			pg_catalog.current_setting('block_size')::bigint AS block_size) z
	WHERE c.relkind OPERATOR(pg_catalog.=) ANY (ARRAY['r', 'i', 't', 'm', 'S']::"char"[])
		AND c.relpersistence OPERATOR(pg_catalog.<>) 't';

COMMENT ON VIEW pg_flashcache_relations IS
	'relations of this database, their size, and how much of them is on flash and in shared buffers';

COMMENT ON COLUMN pg_flashcache_relations.relid IS
	'OID of the table, index, TOAST table or other relation';
COMMENT ON COLUMN pg_flashcache_relations.schemaname IS
	'its schema';
COMMENT ON COLUMN pg_flashcache_relations.relname IS
	'its name';
COMMENT ON COLUMN pg_flashcache_relations.relkind IS
	'its kind, as in pg_class';
COMMENT ON COLUMN pg_flashcache_relations.bytes IS
	'bytes of its main fork';
COMMENT ON COLUMN pg_flashcache_relations.blocks IS
	'pages of its main fork';
COMMENT ON COLUMN pg_flashcache_relations.flash_blocks IS
	'of these, pages on flash; an estimate from a sample if the cache has more than 16777216 slots';
COMMENT ON COLUMN pg_flashcache_relations.buffer_blocks IS
	'of these, pages in shared buffers';
COMMENT ON COLUMN pg_flashcache_relations.flash_share IS
	'flash_blocks as a part of blocks, 0 to 1; NULL if it has none';

CREATE FUNCTION pg_flashcache_statement_stat(
	showtext boolean DEFAULT true,
	OUT userid oid,
	OUT dbid oid,
	OUT queryid bigint,
	OUT toplevel boolean,
	OUT calls bigint,
	OUT hits bigint,
	OUT read_time_us bigint,
	OUT disk_reads bigint,
	OUT disk_read_time_us bigint,
	OUT os_cache_hits bigint,
	OUT query text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'fc_statement_stat'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_flashcache_statement_stat(boolean) IS
	'what statements have read; see view pg_stat_flashcache_statements';

CREATE VIEW pg_stat_flashcache_statements AS
	SELECT * FROM @extschema@.pg_flashcache_statement_stat();

COMMENT ON VIEW pg_stat_flashcache_statements IS
	'what statements have read from flash and from disk, one row for each user, database and query identifier';

COMMENT ON COLUMN pg_stat_flashcache_statements.userid IS
	'OID of the user who executed it';
COMMENT ON COLUMN pg_stat_flashcache_statements.dbid IS
	'OID of the database';
COMMENT ON COLUMN pg_stat_flashcache_statements.queryid IS
	'query identifier, as in pg_stat_statements';
COMMENT ON COLUMN pg_stat_flashcache_statements.toplevel IS
	'whether the client sent it; the reads of another one are also those of the statement that called it';
COMMENT ON COLUMN pg_stat_flashcache_statements.calls IS
	'how often it was executed, failures included';
COMMENT ON COLUMN pg_stat_flashcache_statements.hits IS
	'pages read from flash';
COMMENT ON COLUMN pg_stat_flashcache_statements.read_time_us IS
	'microseconds that these reads took';
COMMENT ON COLUMN pg_stat_flashcache_statements.disk_reads IS
	'pages read from data files';
COMMENT ON COLUMN pg_stat_flashcache_statements.disk_read_time_us IS
	'microseconds that these reads took; on 18 and later only some of them are timed';
COMMENT ON COLUMN pg_stat_flashcache_statements.os_cache_hits IS
	'pages that were on flash but left to the page cache of the kernel, which held them; in disk_reads too';
COMMENT ON COLUMN pg_stat_flashcache_statements.query IS
	'its text, from pg_stat_statements; NULL where that is not installed, or does not show it';

CREATE FUNCTION pg_flashcache_latency_stat(
	OUT backend_type text,
	OUT operation text,
	OUT bucket integer,
	OUT from_us bigint,
	OUT to_us bigint,
	OUT count bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'fc_latency_stat'
LANGUAGE C VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION pg_flashcache_latency_stat() IS
	'how long requests took; see view pg_stat_flashcache_latency';

CREATE VIEW pg_stat_flashcache_latency AS
	SELECT * FROM @extschema@.pg_flashcache_latency_stat();

COMMENT ON VIEW pg_stat_flashcache_latency IS
	'how long requests to disk and flash took, as histograms';

COMMENT ON COLUMN pg_stat_flashcache_latency.backend_type IS
	'client backend, parallel worker, autovacuum worker or other';
COMMENT ON COLUMN pg_stat_flashcache_latency.operation IS
	'disk read, page cache read, flash read or flash write';
COMMENT ON COLUMN pg_stat_flashcache_latency.bucket IS
	'number of the bucket, from 0';
COMMENT ON COLUMN pg_stat_flashcache_latency.from_us IS
	'microseconds from which on requests are in this bucket';
COMMENT ON COLUMN pg_stat_flashcache_latency.to_us IS
	'microseconds from which on they are in the next one; NULL in the last';
COMMENT ON COLUMN pg_stat_flashcache_latency.count IS
	'requests, of one page or several, that took so long; only those that are timed';

CREATE FUNCTION pg_flashcache_tracking_stat(
	OUT relations integer,
	OUT max_relations integer,
	OUT statements integer,
	OUT max_statements integer,
	OUT statements_given_up bigint,
	OUT stats_reset timestamptz)
AS 'MODULE_PATHNAME', 'fc_tracking_stat'
LANGUAGE C VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION pg_flashcache_tracking_stat() IS
	'how many relations and statements have counters of their own, in all databases, the most that can have, and how many statements have lost theirs since the last reset';

REVOKE ALL ON FUNCTION pg_flashcache_relation_stat() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_relation_pages(bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_latency_stat() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_tracking_stat() FROM PUBLIC;
REVOKE ALL ON pg_stat_flashcache_relation FROM PUBLIC;
REVOKE ALL ON pg_flashcache_relations FROM PUBLIC;
REVOKE ALL ON pg_stat_flashcache_latency FROM PUBLIC;

GRANT EXECUTE ON FUNCTION pg_flashcache_relation_stat() TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_flashcache_relation_pages(bigint) TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_flashcache_latency_stat() TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_flashcache_tracking_stat() TO pg_read_all_stats;
GRANT SELECT ON pg_stat_flashcache_relation TO pg_read_all_stats;
GRANT SELECT ON pg_flashcache_relations TO pg_read_all_stats;
GRANT SELECT ON pg_stat_flashcache_latency TO pg_read_all_stats;

-- Of the statements of others, only who may see them.
GRANT SELECT ON pg_stat_flashcache_statements TO PUBLIC;
