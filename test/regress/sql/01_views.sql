-- The views: their columns are an interface, and there is one row of counters.
CREATE EXTENSION pg_flashcache;
\d pg_stat_flashcache
\d pg_stat_flashcache_session
\d pg_flashcache_pages
\d pg_stat_flashcache_persistence
\d pg_stat_flashcache_extents
\d pg_flashcache_tablespaces
\d pg_stat_flashcache_device
\d pg_stat_flashcache_device_health
SELECT count(*) FROM pg_stat_flashcache;
SELECT count(*) FROM pg_stat_flashcache_session;
SELECT count(*), count(writing) FROM pg_stat_flashcache_persistence;
SELECT state, one_miss_in, extent_reads, extent_inserts, extent_hits, unproven, stats_reset <= now() AS reset FROM pg_stat_flashcache_extents;
-- tests have it off: nothing is looked at
SELECT DISTINCT state, since, disk_read_us, flash_read_us, windows, bypasses, bypassed_reads, next_trial FROM pg_flashcache_tablespaces;
SELECT state, reason, attached_by, slots, used BETWEEN 0 AND slots AS used,
  memory_per_slot = memory_bytes / slots::float8 AS per_slot, stats_reset <= now() AS reset,
  writer_pid > 0 AS writer
FROM pg_stat_flashcache;
-- of the time since a reset
SELECT verdict IS NOT NULL AS verdict FROM pg_stat_flashcache;
SELECT pg_flashcache_reset_stats();
SELECT verdict FROM pg_stat_flashcache;
SELECT obj_description('pg_stat_flashcache'::regclass), obj_description('pg_flashcache_pages'::regclass);
SELECT obj_description('pg_stat_flashcache_session'::regclass);
-- each slot once, none beyond the last one, only pages of main forks
SELECT count(*) = count(DISTINCT slot) AS distinct_slots,
  count(*) = count(DISTINCT (reltablespace, reldatabase, relfilenode, relblocknumber)) AS distinct_pages,
  bool_and(slot < (SELECT slots FROM pg_stat_flashcache)) AS in_range,
  bool_and(refcount BETWEEN 0 AND 7) AS refcount
FROM pg_flashcache_pages;
-- what the extension owns
SELECT pg_describe_object(classid, objid, 0) AS object FROM pg_depend
WHERE refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pg_flashcache') AND deptype = 'e'
  AND classid <> 'pg_type'::regclass -- the row types of the views, from 17 on
ORDER BY 1;
-- dropped and created again
DROP EXTENSION pg_flashcache;
SELECT * FROM pg_stat_flashcache;
CREATE EXTENSION pg_flashcache;
SELECT state FROM pg_stat_flashcache;
-- in another schema
DROP EXTENSION pg_flashcache;
CREATE SCHEMA elsewhere;
CREATE EXTENSION pg_flashcache SCHEMA elsewhere;
SELECT state FROM elsewhere.pg_stat_flashcache;
DROP EXTENSION pg_flashcache;
DROP SCHEMA elsewhere;
CREATE EXTENSION pg_flashcache;
-- \d+ explains each column, and \df+ each function
SELECT attrelid::regclass AS view, count(*) AS columns, count(col_description(attrelid, attnum)) AS explained
FROM pg_attribute
WHERE attrelid IN ('pg_stat_flashcache'::regclass, 'pg_stat_flashcache_session'::regclass, 'pg_flashcache_pages'::regclass,
  'pg_stat_flashcache_persistence'::regclass, 'pg_stat_flashcache_extents'::regclass, 'pg_flashcache_tablespaces'::regclass,
  'pg_stat_flashcache_device'::regclass, 'pg_stat_flashcache_device_health'::regclass)
  AND attnum > 0
GROUP BY 1 ORDER BY 1;
SELECT p.oid::regprocedure AS unexplained FROM pg_depend d JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pg_flashcache') AND d.deptype = 'e'
  AND obj_description(p.oid, 'pg_proc') IS NULL;
