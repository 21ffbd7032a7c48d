/* pg_flashcache--1.0--1.1.sql */

\echo Use "ALTER EXTENSION pg_flashcache UPDATE TO '1.1'" to load this file. \quit

-- A standby that follows its primary's cache

CREATE FUNCTION pg_flashcache_warmth(
	OUT state text,
	OUT reason text,
	OUT pulled_at timestamptz,
	OUT age float8,
	OUT too_old boolean,
	OUT pages bigint,
	OUT here bigint,
	OUT share float8,
	OUT hot_pages bigint,
	OUT hot_here bigint,
	OUT hot_share float8,
	OUT missing_locked bigint,
	OUT missing_no_room bigint,
	OUT missing_database bigint,
	OUT missing_gone bigint,
	OUT missing_unreadable bigint,
	OUT rounds bigint,
	OUT loaded bigint)
RETURNS record
AS 'MODULE_PATHNAME', 'fc_warmth'
LANGUAGE C VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION pg_flashcache_warmth() IS
	'how much of the cache of the server that it follows is on a standby; see view pg_flashcache_warmth';

CREATE VIEW pg_flashcache_warmth AS
	SELECT * FROM @extschema@.pg_flashcache_warmth();

COMMENT ON VIEW pg_flashcache_warmth IS
	'how much of the cache of the server that it follows is on a standby';
COMMENT ON COLUMN pg_flashcache_warmth.state IS
	'what the follower does: off, pulling, loading, waiting, or failed, which waits as well';
COMMENT ON COLUMN pg_flashcache_warmth.reason IS
	'why it is off or has failed';
COMMENT ON COLUMN pg_flashcache_warmth.pulled_at IS
	'when the last map was received; NULL: none yet since the start of the server';
COMMENT ON COLUMN pg_flashcache_warmth.age IS
	'time since then, in seconds';
COMMENT ON COLUMN pg_flashcache_warmth.too_old IS
	'whether that is too long for pg_flashcache_is_warm(): more than five pauses between maps';
COMMENT ON COLUMN pg_flashcache_warmth.pages IS
	'pages that the last map names';
COMMENT ON COLUMN pg_flashcache_warmth.here IS
	'those of them that are on flash or in shared buffers here, when that was last compared';
COMMENT ON COLUMN pg_flashcache_warmth.share IS
	'here / pages';
COMMENT ON COLUMN pg_flashcache_warmth.hot_pages IS
	'pages that the last map names, and that were hit on the other server';
COMMENT ON COLUMN pg_flashcache_warmth.hot_here IS
	'those of them that are on flash or in shared buffers here';
COMMENT ON COLUMN pg_flashcache_warmth.hot_share IS
	'hot_here / hot_pages';
COMMENT ON COLUMN pg_flashcache_warmth.missing_locked IS
	'pages not loaded in the last round since their relation was locked, or in the way of recovery';
COMMENT ON COLUMN pg_flashcache_warmth.missing_no_room IS
	'pages not loaded in the last round since no slot was free, or unused';
COMMENT ON COLUMN pg_flashcache_warmth.missing_database IS
	'pages not loaded in the last round since their database could not be connected to';
COMMENT ON COLUMN pg_flashcache_warmth.missing_gone IS
	'pages not loaded in the last round since no relation here has them';
COMMENT ON COLUMN pg_flashcache_warmth.missing_unreadable IS
	'pages not loaded in the last round since they could not be read, or not be written to flash';
COMMENT ON COLUMN pg_flashcache_warmth.rounds IS
	'rounds of the follower since the start of the server';
COMMENT ON COLUMN pg_flashcache_warmth.loaded IS
	'pages that these have loaded';

CREATE FUNCTION pg_flashcache_is_warm(share float8 DEFAULT 0.9) RETURNS boolean
AS 'MODULE_PATHNAME', 'fc_is_warm'
LANGUAGE C VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION pg_flashcache_is_warm(float8) IS
	'whether that share of the cache of the server that it follows is on this standby, by a map that is not too old';

REVOKE ALL ON FUNCTION pg_flashcache_warmth() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_is_warm(float8) FROM PUBLIC;
REVOKE ALL ON pg_flashcache_warmth FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pg_flashcache_warmth() TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_flashcache_is_warm(float8) TO pg_read_all_stats;
GRANT SELECT ON pg_flashcache_warmth TO pg_read_all_stats;
