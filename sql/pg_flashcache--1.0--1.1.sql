/* pg_flashcache--1.0--1.1.sql */

\echo Use "ALTER EXTENSION pg_flashcache UPDATE TO '1.1'" to load this file. \quit

/* ---- filling by extents ---- */

CREATE FUNCTION pg_flashcache_extents_stat(
	OUT state text,
	OUT one_miss_in integer,
	OUT extent_reads bigint,
	OUT extent_inserts bigint,
	OUT extent_hits bigint,
	OUT unproven bigint,
	OUT stats_reset timestamptz)
AS 'MODULE_PATHNAME', 'fc_extents'
LANGUAGE C VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION pg_flashcache_extents_stat() IS
	'filling by extents; see view pg_stat_flashcache_extents';

CREATE VIEW pg_stat_flashcache_extents AS
	SELECT * FROM @extschema@.pg_flashcache_extents_stat();

COMMENT ON VIEW pg_stat_flashcache_extents IS
	'neighbours of pages read from disk that were taken to flash with them, one row';

COMMENT ON COLUMN pg_stat_flashcache_extents.state IS
	'filling, resting (it does not pay), full (hardly any slot is free), off, or why it is not done: direct I/O, disk is fast, cache not active';
COMMENT ON COLUMN pg_stat_flashcache_extents.one_miss_in IS
	'one extent in so many is read: 1 while filling; NULL if none is';
COMMENT ON COLUMN pg_stat_flashcache_extents.extent_reads IS
	'extents of 64 kB around a page that was read from disk, whose neighbours were looked at';
COMMENT ON COLUMN pg_stat_flashcache_extents.extent_inserts IS
	'neighbours that were written to flash; they are among inserts in pg_stat_flashcache';
COMMENT ON COLUMN pg_stat_flashcache_extents.extent_hits IS
	'neighbours that were asked for, the first time, and came from flash or the page cache: disk reads that this has saved';
COMMENT ON COLUMN pg_stat_flashcache_extents.unproven IS
	'neighbours that are on flash and have not been asked for yet; not reset';
COMMENT ON COLUMN pg_stat_flashcache_extents.stats_reset IS
	'when the counters began to count';

REVOKE ALL ON FUNCTION pg_flashcache_extents_stat() FROM PUBLIC;
REVOKE ALL ON pg_stat_flashcache_extents FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pg_flashcache_extents_stat() TO pg_read_all_stats;
GRANT SELECT ON pg_stat_flashcache_extents TO pg_read_all_stats;
