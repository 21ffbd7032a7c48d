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

-- Operators and functions that would be found before those of the server are not: the views have none, and what their
-- columns are was settled when they were made.
CREATE SCHEMA hostile;
CREATE FUNCTION hostile.lies(bigint, integer) RETURNS boolean AS $$ SELECT true $$ LANGUAGE sql;
CREATE OPERATOR hostile.= (LEFTARG = bigint, RIGHTARG = integer, FUNCTION = hostile.lies);
CREATE TYPE hostile.text AS (v int);
CREATE TYPE hostile.bigint AS (v int);
SET search_path = hostile, pg_catalog, public;
SELECT pg_get_viewdef('public.pg_flashcache_pages'::regclass) ~ '(WHERE|JOIN|=)' AS has_operators;
DROP EXTENSION pg_flashcache;
CREATE EXTENSION pg_flashcache SCHEMA public;
RESET search_path;
SELECT DISTINCT typnamespace::regnamespace AS types_from FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE attrelid IN ('pg_stat_flashcache'::regclass, 'pg_flashcache_pages'::regclass, 'pg_stat_flashcache_session'::regclass)
  AND attnum > 0;
DROP SCHEMA hostile CASCADE;

-- A schema that others may create in: what they have put there under our names is not adopted.
-- from 18 on the statement of the script would be shown
\set SHOW_CONTEXT never
CREATE ROLE fc_planter;
CREATE SCHEMA shared_schema;
GRANT ALL ON SCHEMA shared_schema TO fc_planter;
DROP EXTENSION pg_flashcache;
SET ROLE fc_planter;
CREATE FUNCTION shared_schema.pg_flashcache_stat(OUT state text) AS $$ SELECT 'hijacked' $$ LANGUAGE sql;
RESET ROLE;
CREATE EXTENSION pg_flashcache SCHEMA shared_schema;
SET ROLE fc_planter;
DROP FUNCTION shared_schema.pg_flashcache_stat();
CREATE VIEW shared_schema.pg_stat_flashcache AS SELECT 'hijacked' AS state;
RESET ROLE;
CREATE EXTENSION pg_flashcache SCHEMA shared_schema;
SET ROLE fc_planter;
DROP VIEW shared_schema.pg_stat_flashcache;
CREATE FUNCTION shared_schema.pg_flashcache_scrub(OUT slots_erased bigint) AS $$ SELECT 0::bigint $$ LANGUAGE sql;
RESET ROLE;
-- other arguments are another function: the extension is made, and the planter's is no part of it
CREATE EXTENSION pg_flashcache SCHEMA shared_schema;
SELECT p.oid::regprocedure, p.proowner::regrole = 'fc_planter'::regrole AS planted,
  EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e') AS of_extension
FROM pg_proc p WHERE proname = 'pg_flashcache_scrub' ORDER BY planted;
SET ROLE fc_planter;
-- nor may they change what is there now
CREATE OR REPLACE VIEW shared_schema.pg_stat_flashcache AS SELECT 'hijacked' AS state;
CREATE OR REPLACE FUNCTION shared_schema.pg_flashcache_enable() RETURNS boolean AS $$ SELECT true $$ LANGUAGE sql;
RESET ROLE;
DROP EXTENSION pg_flashcache;
DROP SCHEMA shared_schema CASCADE;
DROP ROLE fc_planter;
CREATE EXTENSION pg_flashcache;

-- Nothing that the script makes has a body which would look names up when it is used, by a path that is not its own.
SELECT p.proname, l.lanname, p.prosqlbody IS NOT NULL AS parsed, p.proconfig FROM pg_depend d
  JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
  JOIN pg_language l ON l.oid = p.prolang
  JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid
WHERE e.extname = 'pg_flashcache' ORDER BY 1;
