-- Who may read, and who may command: each from both sides.
CREATE ROLE fc_nobody;
CREATE ROLE fc_monitor;
GRANT pg_read_all_stats TO fc_monitor;
CREATE ROLE fc_operator;

SET ROLE fc_nobody;
-- the own session is everybody's to see
SELECT hits >= 0 AS may_read FROM pg_stat_flashcache_session;
SELECT hits >= 0 AS may_read FROM pg_flashcache_session_stat();
SELECT state FROM pg_stat_flashcache;
SELECT count(*) FROM pg_flashcache_pages;
SELECT state FROM pg_flashcache_stat();
SELECT count(*) FROM pg_flashcache_slots();
SELECT pg_flashcache_enable();
SELECT pg_flashcache_reset_stats();

SET ROLE fc_monitor;
SELECT state FROM pg_stat_flashcache;
SELECT bool_and(slot IS NOT NULL) AS may_read FROM pg_flashcache_pages;
SELECT state FROM pg_flashcache_stat();
SELECT bool_and(slot IS NOT NULL) AS may_read FROM pg_flashcache_slots();
SELECT pg_flashcache_enable();
SELECT pg_flashcache_reset_stats();

RESET ROLE;
GRANT EXECUTE ON FUNCTION pg_flashcache_enable(), pg_flashcache_reset_stats() TO fc_operator;
SET ROLE fc_operator;
SELECT pg_flashcache_enable();
SELECT pg_flashcache_reset_stats();
SELECT state FROM pg_stat_flashcache;
-- settings of a superuser
SET pg_flashcache.verify = off;
RESET ROLE;
REVOKE EXECUTE ON FUNCTION pg_flashcache_enable(), pg_flashcache_reset_stats() FROM fc_operator;

-- the entry points for tests ask for a superuser themselves
CREATE FUNCTION fc_failpoint(name text, action text) RETURNS void
  AS '$libdir/pg_flashcache', 'fc_failpoint_set' LANGUAGE C STRICT;
SET ROLE fc_nobody;
SELECT fc_failpoint('store_read', 'off');
RESET ROLE;
SELECT fc_failpoint('store_read', 'off');
SELECT fc_failpoint('no_such_point', 'off');
SELECT fc_failpoint('store_read', 'explode');
DROP FUNCTION fc_failpoint(text, text);

DROP ROLE fc_nobody, fc_monitor, fc_operator;
