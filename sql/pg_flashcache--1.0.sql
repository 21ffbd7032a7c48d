/* pg_flashcache--1.0.sql */

\echo Use "CREATE EXTENSION pg_flashcache" to load this file. \quit

CREATE FUNCTION pg_flashcache_stat(
	OUT state text,
	OUT reason text,
	OUT verdict text,
	OUT state_since timestamptz,
	OUT next_probe timestamptz,
	OUT attached_by text,
	OUT waits_bounded boolean,
	OUT slots bigint,
	OUT used bigint,
	OUT hits bigint,
	OUT misses bigint,
	OUT hit_ratio double precision,
	OUT disk_reads bigint,
	OUT disk_read_time_us bigint,
	OUT os_cache_hits bigint,
	OUT stream_reads bigint,
	OUT prefetches bigint,
	OUT read_bytes bigint,
	OUT read_time_us bigint,
	OUT inserts bigint,
	OUT insert_skip_corrupt bigint,
	OUT insert_skip_exists bigint,
	OUT insert_skip_modification bigint,
	OUT insert_skip_not_current bigint,
	OUT insert_skip_not_useful bigint,
	OUT insert_skip_overloaded bigint,
	OUT insert_skip_pinned bigint,
	OUT insert_skip_write_limit bigint,
	OUT eviction_aged_out bigint,
	OUT eviction_invalidated bigint,
	OUT invalidation_overflows bigint,
	OUT writes bigint,
	OUT write_bytes bigint,
	OUT write_time_us bigint,
	OUT read_errors bigint,
	OUT write_errors bigint,
	OUT timeouts bigint,
	OUT reads_unbounded bigint,
	OUT switch_offs bigint,
	OUT probes bigint,
	OUT checksum_failures bigint,
	OUT slots_retired bigint,
	OUT slots_erased bigint,
	OUT verify_checks bigint,
	OUT verify_failures bigint,
	OUT memory_bytes bigint,
	OUT memory_per_slot double precision,
	OUT writer_pid integer,
	OUT writer_wait_event text,
	OUT stats_reset timestamptz)
AS 'MODULE_PATHNAME', 'fc_stat'
LANGUAGE C VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION pg_flashcache_stat() IS
	'state and counters of the flash cache; see view pg_stat_flashcache';

CREATE VIEW pg_stat_flashcache AS
	SELECT * FROM @extschema@.pg_flashcache_stat();

COMMENT ON VIEW pg_stat_flashcache IS
	'state and counters of the flash cache, one row';

CREATE FUNCTION pg_flashcache_session_stat(
	OUT hits bigint,
	OUT misses bigint,
	OUT disk_reads bigint,
	OUT disk_read_time_us bigint,
	OUT os_cache_hits bigint,
	OUT stream_reads bigint,
	OUT read_bytes bigint,
	OUT read_time_us bigint)
AS 'MODULE_PATHNAME', 'fc_session_stat'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_flashcache_session_stat() IS
	'what this session has read; see view pg_stat_flashcache_session';

CREATE VIEW pg_stat_flashcache_session AS
	SELECT * FROM @extschema@.pg_flashcache_session_stat();

COMMENT ON VIEW pg_stat_flashcache_session IS
	'what this session has read from flash and from disk since it began, one row';

-- Nobody sees more than the own session: open to all.
GRANT SELECT ON pg_stat_flashcache_session TO PUBLIC;

CREATE FUNCTION pg_flashcache_slots(
	OUT slot bigint,
	OUT reltablespace oid,
	OUT reldatabase oid,
	OUT relfilenode oid,
	OUT relblocknumber bigint,
	OUT refcount smallint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'fc_pages'
LANGUAGE C VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION pg_flashcache_slots() IS
	'pages in the flash cache; see view pg_flashcache_pages';

CREATE VIEW pg_flashcache_pages AS
	SELECT * FROM @extschema@.pg_flashcache_slots();

COMMENT ON VIEW pg_flashcache_pages IS
	'pages in the flash cache, one row each';

CREATE FUNCTION pg_flashcache_enable()
RETURNS boolean
AS 'MODULE_PATHNAME', 'fc_enable'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_flashcache_enable() IS
	'brings back a flash cache that switched itself off; it starts cold';

CREATE FUNCTION pg_flashcache_reset_stats()
RETURNS void
AS 'MODULE_PATHNAME', 'fc_reset_stats'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_flashcache_reset_stats() IS
	'sets the counters of the flash cache to zero';

CREATE FUNCTION pg_flashcache_scrub(
	everything boolean DEFAULT false,
	OUT slots_erased bigint,
	OUT bytes_erased bigint)
AS 'MODULE_PATHNAME', 'fc_scrub'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_flashcache_scrub(boolean) IS
	'writes zeros over what the flash cache holds of pages that are no longer cached, or over everything';

REVOKE ALL ON FUNCTION pg_flashcache_stat() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_slots() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_enable() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_reset_stats() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_scrub(boolean) FROM PUBLIC;
REVOKE ALL ON pg_stat_flashcache FROM PUBLIC;
REVOKE ALL ON pg_flashcache_pages FROM PUBLIC;

GRANT EXECUTE ON FUNCTION pg_flashcache_stat() TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_flashcache_slots() TO pg_read_all_stats;
GRANT SELECT ON pg_stat_flashcache TO pg_read_all_stats;
GRANT SELECT ON pg_flashcache_pages TO pg_read_all_stats;
