-- What this session has read, to the last digit.  Functions of 05_counters are
-- used; as there, the second of two rounds counts.

-- what reading a table by `query` moves: in this session, and in the whole server
CREATE FUNCTION fc_measure_session(rel regclass, query text, OUT hits bigint, OUT misses bigint, OUT disk_reads bigint,
                                   OUT read_bytes bigint, OUT os_cache_hits bigint, OUT stream_reads bigint,
                                   OUT read_time boolean, OUT as_server boolean) AS $$
DECLARE
  a pg_stat_flashcache_session;
  b pg_stat_flashcache_session;
  server_a pg_stat_flashcache;
  server_b pg_stat_flashcache;
BEGIN
  FOR i IN 1 .. 2 LOOP
    PERFORM fc_evict(rel);
    SELECT * INTO a FROM pg_stat_flashcache_session;
    SELECT * INTO server_a FROM pg_stat_flashcache;
    EXECUTE query;
    SELECT * INTO b FROM pg_stat_flashcache_session;
    SELECT * INTO server_b FROM pg_stat_flashcache;
  END LOOP;
  hits := b.hits - a.hits;
  misses := b.misses - a.misses;
  disk_reads := b.disk_reads - a.disk_reads;
  read_bytes := b.read_bytes - a.read_bytes;
  os_cache_hits := b.os_cache_hits - a.os_cache_hits;
  stream_reads := b.stream_reads - a.stream_reads;
  read_time := b.read_time_us > a.read_time_us;
  as_server := (hits, misses, disk_reads, read_bytes) =
    (server_b.hits - server_a.hits, server_b.misses - server_a.misses, server_b.disk_reads - server_a.disk_reads,
     server_b.read_bytes - server_a.read_bytes);
END $$ LANGUAGE plpgsql;

-- from flash and, to be compared, from disk; then from flash alone; then from disk alone
SELECT fc_measure_session('t', 'SELECT fc_read(''t'', 40)') IS NOT NULL AS warm;
SELECT * FROM fc_measure_session('t', 'SELECT fc_read(''t'', 40)');
SET pg_flashcache.verify = off;
SELECT * FROM fc_measure_session('t', 'SELECT fc_read(''t'', 40)');
SELECT * FROM fc_measure_session('u', 'SELECT fc_read(''u'', 40)');
RESET pg_flashcache.verify;

-- A reset is the server's matter: the session's counters go on.
CREATE FUNCTION fc_reset_and_look(OUT server bigint, OUT session boolean) AS $$
DECLARE
  before bigint := (SELECT hits FROM pg_stat_flashcache_session);
BEGIN
  PERFORM pg_flashcache_reset_stats();
  SELECT s.hits, before > 0 AND t.hits = before INTO server, session
  FROM pg_stat_flashcache s, pg_stat_flashcache_session t;
END $$ LANGUAGE plpgsql;
SELECT fc_reset_and_look() IS NOT NULL AS warm;
SELECT * FROM fc_reset_and_look();

-- Parallel workers' reads are their leader's.  Here they do all of the reading, of catalogs as well.
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET cpu_tuple_cost = 10;
SET parallel_leader_participation = off;
SET max_parallel_workers_per_gather = 2;
ALTER TABLE t SET (parallel_workers = 2);
EXPLAIN (COSTS OFF) SELECT count(v) FROM t;
SELECT hits >= 40 AS hits, as_server FROM fc_measure_session('t', 'SELECT count(v) FROM t');

-- A new session begins at zero.
SELECT hits AS hits_before, misses AS misses_before FROM pg_stat_flashcache \gset
\c
SELECT t.hits = s.hits - :hits_before AS hits, t.misses = s.misses - :misses_before AS misses
FROM pg_stat_flashcache s, pg_stat_flashcache_session t;
