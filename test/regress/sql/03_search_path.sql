-- Objects of other people on the search path do not get between a view and its function.
CREATE SCHEMA hostile;
CREATE FUNCTION hostile.pg_flashcache_stat(OUT state text) AS $$ SELECT 'hijacked' $$ LANGUAGE sql;
CREATE FUNCTION hostile.pg_flashcache_slots(OUT slot bigint) RETURNS SETOF bigint AS $$ SELECT -1::bigint $$ LANGUAGE sql;
SET search_path = hostile, pg_catalog, public;
SELECT state FROM public.pg_stat_flashcache;
SELECT count(*) FROM public.pg_flashcache_pages WHERE slot < 0;

-- The script itself, run with a hostile path.
DROP EXTENSION pg_flashcache;
CREATE EXTENSION pg_flashcache SCHEMA public;
SELECT state FROM public.pg_stat_flashcache;
SELECT count(*) FROM public.pg_flashcache_pages WHERE slot < 0;
RESET search_path;
DROP SCHEMA hostile CASCADE;

-- Nothing that the script makes has a body which would look names up when it is used.
SELECT p.proname, l.lanname FROM pg_depend d
  JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
  JOIN pg_language l ON l.oid = p.prolang
  JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid
WHERE e.extname = 'pg_flashcache' ORDER BY 1;
