-- Relations, statements and latency: their columns are an interface; who may look.
\d pg_stat_flashcache_relation
\d pg_flashcache_relations
\d pg_stat_flashcache_statements
\d pg_stat_flashcache_latency
SELECT * FROM pg_flashcache_tracking_stat() LIMIT 0;
-- every column has a comment
SELECT c.relname, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE c.relname ~ '^pg_(stat_)?flashcache_(relation|relations|statements|latency)$' AND a.attnum > 0
  AND col_description(a.attrelid, a.attnum) IS NULL;
-- one row of everything else, and no relation twice
SELECT count(*) FILTER (WHERE relid IS NULL) AS rest, count(relid) = count(DISTINCT relid) AS once,
  bool_and(reads = hits + disk_reads) AS sums FROM pg_stat_flashcache_relation;
SELECT count(*) = count(DISTINCT relid) AS once, bool_and(flash_share IS NULL OR flash_blocks > 0 OR flash_share = 0) AS share,
  bool_and(reads = 0 OR abs(flash_read_share + os_cache_read_share + disk_read_share - 1) < 1e-9) AS parts,
  bool_and(reads > 0 OR flash_read_share IS NULL AND os_cache_read_share IS NULL AND disk_read_share IS NULL) AS none
FROM pg_flashcache_relations;
-- sizes, without a lock; none of what has no file, or is not there
SELECT bool_and(pg_flashcache_relation_bytes(oid) = pg_relation_size(oid, 'main')) AS same
FROM pg_class WHERE relkind IN ('r', 'i', 't') AND relname IN ('pg_class', 'pg_class_oid_index', 'pg_database', 'pg_proc');
SELECT pg_flashcache_relation_bytes('pg_views'::regclass) AS of_a_view, pg_flashcache_relation_bytes(0) AS of_nothing;
SELECT pg_flashcache_relation_bytes(NULL);
SELECT pg_flashcache_relation_pages(0);
SELECT pg_flashcache_relation_pages(NULL);

-- why statements are not counted
SHOW pg_flashcache.track_statements;
SELECT count(*) FROM pg_stat_flashcache_statements;
SELECT count(*) FROM pg_flashcache_statement_stat(false);
SELECT statements_reason, statements_hint FROM pg_flashcache_tracking_stat();
SET compute_query_id = off;
SELECT statements_reason, statements_hint FROM pg_flashcache_tracking_stat();
SET pg_flashcache.track_statements = off;
SELECT count(*) FROM pg_stat_flashcache_statements;
SELECT statements_reason, statements_hint FROM pg_flashcache_tracking_stat();
SET compute_query_id = on;
SELECT statements_reason, statements_hint FROM pg_flashcache_tracking_stat();
RESET pg_flashcache.track_statements;
SELECT statements_reason, statements_hint FROM pg_flashcache_tracking_stat();
SELECT count(*) > 0 AS counted FROM pg_stat_flashcache_statements;

CREATE ROLE fc_nobody;
CREATE ROLE fc_monitor;
GRANT pg_monitor TO fc_monitor;
SET ROLE fc_nobody;
SELECT count(*) FROM pg_stat_flashcache_relation;
SELECT count(*) FROM pg_flashcache_relations;
SELECT count(*) FROM pg_stat_flashcache_latency;
SELECT * FROM pg_flashcache_tracking_stat();
SELECT count(*) FROM pg_flashcache_relation_pages();
SELECT count(*) FROM pg_stat_flashcache_statements WHERE userid <> 'fc_nobody'::regrole;
SET pg_flashcache.track_relations = off;
SET pg_flashcache.track_statements = off;
SET ROLE fc_monitor;
SELECT count(*) > 0 AS may_read FROM pg_stat_flashcache_relation;
SELECT count(*) > 0 AS may_read FROM pg_flashcache_relations;
SELECT count(*) AS may_read FROM pg_stat_flashcache_latency;
SELECT max_relations, max_statements FROM pg_flashcache_tracking_stat();
SELECT count(*) > 0 AS of_others FROM pg_stat_flashcache_statements WHERE userid <> 'fc_monitor'::regrole;
RESET ROLE;
DROP ROLE fc_nobody, fc_monitor;

-- functions that somebody declared otherwise
CREATE FUNCTION fewer(OUT relid oid, OUT hits bigint) RETURNS SETOF record AS '$libdir/pg_flashcache', 'fc_relation_stat' LANGUAGE C;
SELECT * FROM fewer();
CREATE FUNCTION few_statements(boolean, OUT userid oid, OUT dbid oid) RETURNS SETOF record AS '$libdir/pg_flashcache', 'fc_statement_stat' LANGUAGE C;
SELECT * FROM few_statements(true);
CREATE FUNCTION few_pages(bigint, OUT relid oid, OUT flash_blocks bigint) RETURNS SETOF record AS '$libdir/pg_flashcache', 'fc_relation_pages' LANGUAGE C;
SELECT * FROM few_pages(1);
CREATE FUNCTION few_buckets(OUT a text) RETURNS SETOF text AS '$libdir/pg_flashcache', 'fc_latency_stat' LANGUAGE C;
SELECT * FROM few_buckets();
DROP FUNCTION fewer(), few_statements(boolean), few_pages(bigint), few_buckets();
