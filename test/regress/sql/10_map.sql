-- pg_flashcache_export_map(), _import_map() and _compare_map(): what they are asked for, by whom, and what they refuse.
-- What they do is in tap/134_map.pl.
CREATE TABLE warm (id int PRIMARY KEY, body text);
INSERT INTO warm SELECT id, repeat('x', 100) FROM generate_series(1, 100) id;
CHECKPOINT;
SELECT relations FROM pg_flashcache_prewarm('warm', indexes => true, replace => true);

-- the map has every page once, and says how many there are
SELECT bool_and(pages = (SELECT sum(get_bit(bitmap, n)) FROM generate_series(0, 8 * length(bitmap) - 1) n)) AS bits,
  bool_and(heat BETWEEN 0 AND 3) AS heat, bool_and(first_block % 8 = 0) AS first_block, bool_and(length(bitmap) BETWEEN 1 AND 1024) AS bytes
FROM pg_flashcache_export_map();
SELECT count(*) FROM pg_flashcache_export_map(4000000000);
SELECT DISTINCT reldatabase = (SELECT oid FROM pg_database WHERE datname = current_database()) AS this_one
FROM pg_flashcache_export_map((SELECT oid FROM pg_database WHERE datname = current_database()));
SELECT sum(pages) FROM pg_flashcache_export_map() WHERE relfilenode = pg_relation_filenode('warm');

CREATE TABLE map AS SELECT * FROM pg_flashcache_export_map() WHERE relfilenode = pg_relation_filenode('warm');
SELECT rows, rows_skipped, pages, blocks_read, loaded, skip_exists FROM pg_flashcache_import_map('SELECT * FROM map ORDER BY heat DESC');
SELECT * FROM pg_flashcache_import_map('SELECT * FROM map WHERE false');
SELECT rows, pages FROM pg_flashcache_import_map('TABLE map', replace => true);
SELECT * FROM pg_flashcache_compare_map('TABLE map') WHERE pages > 0;
SELECT * FROM pg_flashcache_compare_map('SELECT * FROM map WHERE false');
SELECT count(*) FROM pg_stat_progress_flashcache_prewarm;

-- not a query, not a map
SELECT pg_flashcache_import_map(NULL);
SELECT pg_flashcache_import_map('TABLE map', NULL);
SELECT pg_flashcache_import_map('');
SELECT pg_flashcache_import_map('DROP TABLE map');
SELECT pg_flashcache_import_map('TABLE map; TABLE map');
SELECT pg_flashcache_import_map('DELETE FROM map RETURNING *');
SELECT pg_flashcache_import_map('TABLE absent');
SELECT pg_flashcache_import_map('SELECT 1');
SELECT pg_flashcache_import_map('SELECT *, 1 FROM map');
SELECT pg_flashcache_import_map('SELECT reltablespace, reldatabase, relfilenode, heat::int, first_block, pages, bitmap FROM map');
SELECT pg_flashcache_compare_map(NULL);
SELECT pg_flashcache_compare_map('DROP TABLE map');
SELECT pg_flashcache_compare_map('SELECT 1');

-- rows that were never exported
CREATE FUNCTION bad(n int, value text) RETURNS text AS $$
  SELECT format('SELECT %s, %s, %s, %s, %s, %s, %s',
    variadic a[1 : n - 1] || value || a[n + 1 : 7])
  FROM (SELECT ARRAY['1663::oid', '5::oid', '16384::oid', '0::int2', '0::int8', '1', '''\x01''::bytea']) v(a)
$$ LANGUAGE sql;
SELECT rows, rows_skipped, pages FROM pg_flashcache_import_map(bad(6, '1'));
SELECT pg_flashcache_import_map(bad(1, 'NULL::oid'));
SELECT pg_flashcache_import_map(bad(7, 'NULL::bytea'));
SELECT pg_flashcache_import_map(bad(3, '0::oid'));
SELECT pg_flashcache_import_map(bad(4, '-1::int2'));
SELECT pg_flashcache_import_map(bad(4, '4::int2'));
SELECT pg_flashcache_import_map(bad(5, '-1::int8'));
SELECT pg_flashcache_import_map(bad(5, '4294967296'));
SELECT pg_flashcache_import_map(bad(5, '9223372036854775807'));
SELECT pg_flashcache_import_map(bad(6, '2'));
SELECT pg_flashcache_import_map(bad(6, '-1'));
SELECT pg_flashcache_import_map(bad(7, 'decode(repeat(''ff'', 1025), ''hex'')'));
SELECT pg_flashcache_compare_map(bad(4, '4::int2'));
SELECT sum(pages), sum(on_flash) FROM pg_flashcache_compare_map(bad(5, '4294967288'));
-- the second one
SELECT pg_flashcache_import_map(bad(6, '1') || ' UNION ALL ' || bad(6, '7'));
-- the last block that there can be, and what has no page at all
SELECT rows, rows_skipped, pages FROM pg_flashcache_import_map(bad(5, '4294967288'));
SELECT rows, rows_skipped, pages FROM pg_flashcache_import_map('SELECT reltablespace, reldatabase, relfilenode, heat, first_block, 0, ''''::bytea FROM map LIMIT 1');

-- rights: to call it, and to read what the map names
CREATE ROLE fc_mapper;
GRANT SELECT ON map TO fc_mapper;
SET ROLE fc_mapper;
SELECT pg_flashcache_import_map('TABLE map');
SELECT count(*) FROM pg_flashcache_export_map();
SELECT pg_flashcache_compare_map('TABLE map');
RESET ROLE;
-- the query is the caller's
GRANT EXECUTE ON FUNCTION pg_flashcache_compare_map(text) TO fc_mapper;
SET ROLE fc_mapper;
SELECT sum(pages) FROM pg_flashcache_compare_map('TABLE map');
SELECT pg_flashcache_compare_map('SELECT map.* FROM map, warm');
RESET ROLE;
GRANT EXECUTE ON FUNCTION pg_flashcache_import_map(text, boolean) TO fc_mapper;
SET ROLE fc_mapper;
SELECT rows, rows_skipped, pages FROM pg_flashcache_import_map('TABLE map');
RESET ROLE;
GRANT SELECT ON warm TO fc_mapper;
INSERT INTO map SELECT * FROM pg_flashcache_export_map() WHERE relfilenode = pg_relation_filenode('warm_pkey');
SET ROLE fc_mapper;
SELECT rows, rows_skipped, pages FROM pg_flashcache_import_map('TABLE map');
RESET ROLE;

-- declared otherwise: an error
CREATE FUNCTION export_few(OUT reltablespace oid) RETURNS SETOF oid AS '$libdir/pg_flashcache', 'fc_export_map' LANGUAGE C;
SELECT export_few();
CREATE FUNCTION export_one(oid, OUT reltablespace oid, OUT reldatabase oid) RETURNS SETOF record
  AS '$libdir/pg_flashcache', 'fc_export_map' LANGUAGE C;
SELECT export_one(1);
CREATE FUNCTION import_few(text, boolean, OUT a bigint, OUT b bigint) AS '$libdir/pg_flashcache', 'fc_import_map' LANGUAGE C;
SELECT import_few('TABLE map', false);
CREATE FUNCTION compare_one(text) RETURNS bigint AS '$libdir/pg_flashcache', 'fc_compare_map' LANGUAGE C;
SELECT compare_one('TABLE map');

DROP FUNCTION export_few(), export_one(oid), import_few(text, boolean), compare_one(text), bad(int, text);
DROP TABLE warm, map;
REVOKE EXECUTE ON FUNCTION pg_flashcache_import_map(text, boolean), pg_flashcache_compare_map(text) FROM fc_mapper;
DROP ROLE fc_mapper;
