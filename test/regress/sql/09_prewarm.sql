-- pg_flashcache_prewarm(): what it is asked for, by whom, and what it refuses.  What it does is in tap/132_prewarm.pl.
CREATE TABLE warm (id int PRIMARY KEY, body text);
INSERT INTO warm SELECT id, repeat('x', 100) FROM generate_series(1, 100) id;
CHECKPOINT;

-- what counts adds up
SELECT relations, blocks = pg_relation_size('warm') / 8192 AS all_blocks,
  blocks = loaded + skip_exists + skip_modification + skip_dirty + skip_empty + skip_corrupt + skip_no_room + skip_write_error AS adds_up
FROM pg_flashcache_prewarm('warm');
SELECT relations FROM pg_flashcache_prewarm('warm', indexes => true);
SELECT relations FROM pg_flashcache_prewarm('warm', toast => true);
SELECT relations FROM pg_flashcache_prewarm('warm', true, true);
SELECT relations, blocks FROM pg_flashcache_prewarm('warm', first_block => 1, last_block => 1);
SELECT relations, blocks FROM pg_flashcache_prewarm('warm_pkey');
SELECT relations FROM pg_flashcache_prewarm('pg_class', true, true);
-- shared, and mapped
SELECT relations FROM pg_flashcache_prewarm('pg_database', true);
CREATE SEQUENCE counted;
CREATE MATERIALIZED VIEW seen AS SELECT 1 AS one;
CREATE INDEX ON seen (one);
CREATE TABLE nothing ();
SELECT relations, blocks FROM pg_flashcache_prewarm('counted', true, true);
SELECT relations FROM pg_flashcache_prewarm('seen', true);
SELECT relations, blocks FROM pg_flashcache_prewarm('nothing');
SELECT count(*) FROM pg_stat_progress_flashcache_prewarm;

-- what has no pages of its own, or none that are kept on flash
CREATE VIEW a_view AS SELECT 1 AS one;
CREATE TABLE parts (id int) PARTITION BY RANGE (id);
CREATE INDEX parts_id ON parts (id);
CREATE FOREIGN DATA WRAPPER nowhere;
CREATE SERVER nowhere FOREIGN DATA WRAPPER nowhere;
CREATE FOREIGN TABLE far (id int) SERVER nowhere;
CREATE TYPE pair AS (a int, b int);
CREATE TEMP TABLE passing (id int PRIMARY KEY);
CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY);
SELECT pg_flashcache_prewarm('a_view');
SELECT pg_flashcache_prewarm('parts');
SELECT pg_flashcache_prewarm('parts_id');
SELECT pg_flashcache_prewarm('far');
SELECT pg_flashcache_prewarm('pair');
SELECT pg_flashcache_prewarm('passing');
SELECT pg_flashcache_prewarm('passing_pkey');
SELECT pg_flashcache_prewarm('unlogged', true);
SELECT pg_flashcache_prewarm('unlogged_pkey');
SELECT pg_flashcache_prewarm(0);
SELECT pg_flashcache_prewarm('absent');

-- values
SELECT pg_flashcache_prewarm(NULL);
SELECT pg_flashcache_prewarm('warm', NULL);
SELECT pg_flashcache_prewarm('warm', replace => NULL);
SELECT pg_flashcache_prewarm('warm', first_block => -1);
SELECT pg_flashcache_prewarm('warm', first_block => 2);
SELECT pg_flashcache_prewarm('warm', first_block => 9223372036854775807);
SELECT pg_flashcache_prewarm('warm', last_block => 2);
SELECT pg_flashcache_prewarm('warm', last_block => -1);
SELECT pg_flashcache_prewarm('warm', first_block => 1, last_block => 0);
SELECT pg_flashcache_prewarm('nothing', first_block => 0);
SELECT pg_flashcache_prewarm('warm', indexes => true, first_block => 0);
SELECT pg_flashcache_prewarm('warm', toast => true, last_block => 0);

-- rights: to call it, and to read the table, of an index as well
CREATE ROLE fc_warmer;
SET ROLE fc_warmer;
SELECT pg_flashcache_prewarm('warm');
RESET ROLE;
GRANT EXECUTE ON FUNCTION pg_flashcache_prewarm(regclass, boolean, boolean, boolean, bigint, bigint) TO fc_warmer;
SET ROLE fc_warmer;
SELECT pg_flashcache_prewarm('warm');
SELECT pg_flashcache_prewarm('warm_pkey');
SELECT pg_flashcache_prewarm('seen');
RESET ROLE;
GRANT SELECT ON warm TO fc_warmer;
SET ROLE fc_warmer;
SELECT relations FROM pg_flashcache_prewarm('warm', true, true);
SELECT relations FROM pg_flashcache_prewarm('warm_pkey');
RESET ROLE;

-- declared otherwise: an error
CREATE FUNCTION prewarm_few(regclass, OUT relations int) AS '$libdir/pg_flashcache', 'fc_prewarm_relation' LANGUAGE C;
SELECT prewarm_few('warm');
CREATE FUNCTION prewarm_text(text, boolean, boolean, boolean, bigint, bigint, OUT relations int, OUT blocks bigint)
  AS '$libdir/pg_flashcache', 'fc_prewarm_relation' LANGUAGE C;
SELECT prewarm_text('warm', false, false, false, 0, 0);
CREATE FUNCTION progress_one(OUT pid int, OUT datid oid) RETURNS SETOF record AS '$libdir/pg_flashcache', 'fc_prewarm_progress' LANGUAGE C;
SELECT progress_one();

DROP FUNCTION prewarm_few(regclass), prewarm_text(text, boolean, boolean, boolean, bigint, bigint), progress_one();
DROP TABLE warm, nothing, parts, unlogged;
DROP MATERIALIZED VIEW seen;
DROP SEQUENCE counted;
DROP VIEW a_view;
DROP TYPE pair;
DROP FOREIGN DATA WRAPPER nowhere CASCADE;
REVOKE EXECUTE ON FUNCTION pg_flashcache_prewarm(regclass, boolean, boolean, boolean, bigint, bigint) FROM fc_warmer;
DROP ROLE fc_warmer;
