-- Counters to the last digit.  Measured within one plpgsql call that has been
-- made before, so that nothing but the pages of the test is read: the second
-- of two rounds counts.
CREATE EXTENSION pg_buffercache;
CREATE UNLOGGED TABLE filler (pad text);
ALTER TABLE filler ALTER pad SET STORAGE PLAIN;
INSERT INTO filler SELECT repeat('x', 5000) FROM generate_series(1, 1024);
CREATE TABLE t (v text);
ALTER TABLE t ALTER v SET STORAGE PLAIN;
INSERT INTO t SELECT n || repeat('x', 5000) FROM generate_series(1, 40) n;
CREATE UNLOGGED TABLE u (v text);
ALTER TABLE u ALTER v SET STORAGE PLAIN;
INSERT INTO u SELECT n || repeat('x', 5000) FROM generate_series(1, 40) n;
VACUUM t;
VACUUM u;
VACUUM filler;
CHECKPOINT;

-- moves the clock hand by n frames, a few at a time, with a round of the writer after each
CREATE FUNCTION fc_advance(n int) RETURNS void AS $$
DECLARE
  blk int;
  i int := 0;
BEGIN
  FOR blk IN
    SELECT b FROM generate_series(0, 1023) b
    WHERE b NOT IN (SELECT relblocknumber FROM pg_buffercache
                    WHERE relfilenode = pg_relation_filenode('filler') AND relforknumber = 0)
    ORDER BY b LIMIT n
  LOOP
    PERFORM 1 FROM filler WHERE ctid = format('(%s,1)', blk)::tid;
    i := i + 1;
    IF i % 16 = 0 THEN
      -- answered at the beginning of a round: after the second one a round is over
      PERFORM pg_flashcache_enable();
      PERFORM pg_flashcache_enable();
    END IF;
  END LOOP;
END $$ LANGUAGE plpgsql;

CREATE FUNCTION fc_in_buffers(rel regclass) RETURNS bigint AS $$
  SELECT count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode(rel) AND relforknumber = 0
$$ LANGUAGE sql;

CREATE FUNCTION fc_on_flash(rel regclass) RETURNS bigint AS $$
  SELECT count(*) FROM pg_flashcache_pages WHERE relfilenode = pg_relation_filenode(rel)
$$ LANGUAGE sql;

CREATE FUNCTION fc_evict(rel regclass) RETURNS void AS $$
BEGIN
  FOR i IN 1 .. 50 LOOP
    EXIT WHEN fc_in_buffers(rel) = 0;
    PERFORM fc_advance(128);
  END LOOP;
  IF fc_in_buffers(rel) > 0 THEN
    RAISE '% is still in shared buffers', rel;
  END IF;
END $$ LANGUAGE plpgsql;

-- reads all pages of a table, last one first: no stream
CREATE FUNCTION fc_read(rel regclass, pages int) RETURNS void AS $$
BEGIN
  FOR blk IN REVERSE pages - 1 .. 0 LOOP
    EXECUTE format('SELECT 1 FROM %s WHERE ctid = ''(%s,1)''', rel, blk);
  END LOOP;
END $$ LANGUAGE plpgsql;

-- what reading a table moves
CREATE FUNCTION fc_measure(rel regclass, pages int, OUT hits bigint, OUT misses bigint, OUT disk_reads bigint,
                           OUT read_bytes bigint, OUT verify_checks bigint, OUT stream_reads bigint,
                           OUT os_cache_hits bigint) AS $$
DECLARE
  a record;
  b record;
BEGIN
  FOR i IN 1 .. 2 LOOP
    PERFORM fc_evict(rel);
    SELECT * INTO a FROM pg_stat_flashcache;
    PERFORM fc_read(rel, pages);
    SELECT * INTO b FROM pg_stat_flashcache;
  END LOOP;
  hits := b.hits - a.hits;
  misses := b.misses - a.misses;
  disk_reads := b.disk_reads - a.disk_reads;
  read_bytes := b.read_bytes - a.read_bytes;
  verify_checks := b.verify_checks - a.verify_checks;
  stream_reads := b.stream_reads - a.stream_reads;
  os_cache_hits := b.os_cache_hits - a.os_cache_hits;
END $$ LANGUAGE plpgsql;

-- The second round of t finds all its pages on flash, and each hit is compared with the disk.
SELECT * FROM fc_measure('t', 40);
SELECT fc_on_flash('t');
-- Not compared: the disk is left alone.
SET pg_flashcache.verify = off;
SELECT * FROM fc_measure('t', 40);
RESET pg_flashcache.verify;

-- Unlogged pages never come to flash.
SELECT * FROM fc_measure('u', 40);
SELECT fc_on_flash('u'), fc_on_flash('filler');

-- Temporary pages neither, nor are they counted as misses: they are not looked for.
CREATE TEMP TABLE temp_t AS SELECT * FROM t;
SELECT count(*) FROM temp_t;
SELECT fc_on_flash('temp_t');

-- Only main forks: the free space map and the visibility map have pages with the same numbers.
SELECT pg_relation_size('t', 'vm') > 0 AS has_vm;
SELECT count(*) FROM pg_flashcache_pages WHERE relfilenode = pg_relation_filenode('t') AND relblocknumber >= 40;

-- Modified and written: gone from flash, page by page.
UPDATE t SET v = v WHERE ctid = '(7,1)';
CHECKPOINT;
SELECT count(*) FROM pg_flashcache_pages WHERE relfilenode = pg_relation_filenode('t') AND relblocknumber = 7;

-- Reset: exactly zero, then exactly what came after. (The writer may insert a page of a catalog meanwhile.)
CREATE FUNCTION fc_reset_and_read(OUT after_reset text, OUT after_read text) AS $$
DECLARE
  r record;
BEGIN
  PERFORM fc_evict('t');
  PERFORM pg_flashcache_reset_stats();
  SELECT format('%s %s %s %s %s %s', hits, misses, coalesce(hit_ratio::text, 'null'), disk_reads, inserts, verify_checks)
    INTO after_reset FROM pg_stat_flashcache;
  PERFORM fc_read('t', 5);
  SELECT format('%s %s %s %s %s', hits, misses, coalesce(hit_ratio::text, 'null'), disk_reads, verify_checks)
    INTO after_read FROM pg_stat_flashcache;
END $$ LANGUAGE plpgsql;
SELECT fc_reset_and_read() IS NOT NULL AS warm;
SELECT * FROM fc_reset_and_read();
SELECT stats_reset > now() - interval '1 minute' AS just_now FROM pg_stat_flashcache;
SELECT verify_failures, checksum_failures, read_errors, write_errors, slots_retired FROM pg_stat_flashcache;
