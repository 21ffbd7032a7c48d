/* pg_flashcache--1.0--1.1.sql */

\echo Use "ALTER EXTENSION pg_flashcache UPDATE TO '1.1'" to load this file. \quit

/* ---- advice ---- */

CREATE FUNCTION pg_flashcache_advice_rows(
	OUT kind text,
	OUT factor double precision,
	OUT size bigint,
	OUT is_current boolean,
	OUT hit_ratio double precision,
	OUT disk_reads_per_s double precision,
	OUT read_time_us double precision,
	OUT write_bytes_per_day bigint,
	OUT sampled_reads bigint,
	OUT dropped bigint,
	OUT sample_rate double precision,
	OUT disk_read_time_us double precision,
	OUT since timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'fc_advice_rows'
LANGUAGE C VOLATILE PARALLEL SAFE ROWS 16;

COMMENT ON FUNCTION pg_flashcache_advice_rows() IS
	'what flash caches of other sizes, or more shared buffers, would have done in the last hour; see view pg_flashcache_advice';

CREATE VIEW pg_flashcache_advice AS
	SELECT * FROM @extschema@.pg_flashcache_advice_rows();

COMMENT ON VIEW pg_flashcache_advice IS
	'what flash caches of eight sizes, or more shared buffers, would have done in the last hour: estimates; empty unless pg_flashcache.advice is on';

COMMENT ON COLUMN pg_flashcache_advice.kind IS
	'what would have that size: flash or shared_buffers';
COMMENT ON COLUMN pg_flashcache_advice.factor IS
	'of the cache''s size, or of four times shared_buffers where there is no cache: the size of the cache, or what shared_buffers would be larger by';
COMMENT ON COLUMN pg_flashcache_advice.size IS
	'bytes of the cache, or of all shared buffers';
COMMENT ON COLUMN pg_flashcache_advice.is_current IS
	'whether it is the size that the cache has';
COMMENT ON COLUMN pg_flashcache_advice.hit_ratio IS
	'share of the pages read in the last hour that would have been found there; NULL if no page of the sample was read';
COMMENT ON COLUMN pg_flashcache_advice.disk_reads_per_s IS
	'pages a second that would have been read from disk';
COMMENT ON COLUMN pg_flashcache_advice.read_time_us IS
	'microseconds that reading a page would have taken, on average: from flash and disk, or from disk and, in no time, from shared buffers; NULL if no read from disk was measured';
COMMENT ON COLUMN pg_flashcache_advice.write_bytes_per_day IS
	'bytes that would be written to flash in a day; NULL for shared buffers';
COMMENT ON COLUMN pg_flashcache_advice.sampled_reads IS
	'pages of the sample that were read: the estimates rest on them';
COMMENT ON COLUMN pg_flashcache_advice.dropped IS
	'reads and writes of the sample that were not looked at, since another process was being';
COMMENT ON COLUMN pg_flashcache_advice.sample_rate IS
	'share of all pages that is in the sample';
COMMENT ON COLUMN pg_flashcache_advice.disk_read_time_us IS
	'microseconds that a page read from disk took on average, page cache included; NULL if none was measured';
COMMENT ON COLUMN pg_flashcache_advice.since IS
	'when the first of these reads may have been made';

CREATE FUNCTION pg_flashcache_reset_advice()
RETURNS void
AS 'MODULE_PATHNAME', 'fc_advice_reset_all'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_flashcache_reset_advice() IS
	'lets pg_flashcache_advice begin anew; what the estimated caches hold stays';

REVOKE ALL ON FUNCTION pg_flashcache_advice_rows() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pg_flashcache_advice_rows() TO pg_read_all_stats;
REVOKE ALL ON pg_flashcache_advice FROM PUBLIC;
GRANT SELECT ON pg_flashcache_advice TO pg_read_all_stats;
REVOKE ALL ON FUNCTION pg_flashcache_reset_advice() FROM PUBLIC;
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
