-- Every object of the extension, who owns it, who may use it, and how it is made.  The lists come from the catalogs: an
-- object that is added shows here, and whoever adds it has to think about it.
CREATE ROLE fc_nobody;
CREATE ROLE fc_monitor;
GRANT pg_monitor TO fc_monitor;
CREATE ROLE fc_super SUPERUSER;
CREATE ROLE fc_operator;

CREATE FUNCTION fc_objects(class regclass) RETURNS SETOF oid AS $$
  SELECT d.objid FROM pg_depend d JOIN pg_extension e ON d.refobjid = e.oid AND d.refclassid = 'pg_extension'::regclass
  WHERE e.extname = 'pg_flashcache' AND d.deptype = 'e' AND d.classid = class
$$ LANGUAGE sql;

-- kinds of objects: nothing but functions, tables and views, and a trigger (and their row types, from 17 on)
SELECT DISTINCT d.classid::regclass AS kind FROM pg_depend d JOIN pg_extension e
  ON d.refobjid = e.oid AND d.refclassid = 'pg_extension'::regclass
WHERE e.extname = 'pg_flashcache' AND d.deptype = 'e' AND d.classid <> 'pg_type'::regclass ORDER BY 1;

-- functions: only what sets policies, and what concerns nodes, runs with its owner's rights; each is in C, where no search path matters, or has one of its own
SELECT p.oid::regprocedure AS function, l.lanname AS lang, p.prosecdef AS definer, p.proisstrict AS strict,
  p.proparallel AS parallel, r.rolsuper AS owner_super,
  l.lanname <> 'c' AS sql, coalesce('search_path=pg_catalog, pg_temp' = ANY (p.proconfig), false) AS path,
  has_function_privilege('fc_nobody', p.oid, 'EXECUTE') AS nobody,
  has_function_privilege('fc_monitor', p.oid, 'EXECUTE') AS monitor,
  has_function_privilege('fc_super', p.oid, 'EXECUTE') AS super
FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang JOIN pg_roles r ON r.oid = p.proowner
WHERE p.oid IN (SELECT fc_objects('pg_proc')) ORDER BY p.proname COLLATE "C", p.pronargs;

-- views and tables: to be read; not to be written to, by those who look
SELECT c.oid::regclass AS view, c.relkind AS kind, r.rolsuper AS owner_super,
  has_table_privilege('fc_nobody', c.oid, 'SELECT') AS nobody,
  has_table_privilege('fc_monitor', c.oid, 'SELECT') AS monitor,
  has_table_privilege('fc_super', c.oid, 'SELECT') AS super,
  has_table_privilege('fc_monitor', c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER') AS monitor_writes
FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner
WHERE c.oid IN (SELECT fc_objects('pg_class')) ORDER BY c.relname COLLATE "C";

-- That these are not just words: each is tried by each, a function with NULL for whatever it takes.
CREATE FUNCTION fc_try(statement text) RETURNS text AS $$
BEGIN
  EXECUTE statement;
  RETURN 'works';
EXCEPTION
  WHEN insufficient_privilege THEN RETURN 'refused';
  WHEN null_value_not_allowed THEN RETURN 'wants a value';
END $$ LANGUAGE plpgsql;
CREATE FUNCTION fc_try_all(OUT object text, OUT result text) RETURNS SETOF record AS $$
DECLARE
  statement text;
BEGIN
  FOR object, statement IN
    SELECT p.oid::regprocedure::text, format('SELECT * FROM %s(%s)', p.oid::regproc,
      (SELECT string_agg('NULL::' || t::regtype, ', ') FROM unnest(p.proargtypes::oid[]) t))
    FROM pg_proc p WHERE p.oid IN (SELECT fc_objects('pg_proc')) AND p.prorettype <> 'trigger'::regtype
    UNION ALL
    SELECT c.oid::regclass::text, format('SELECT * FROM %s', c.oid::regclass)
    FROM pg_class c WHERE c.oid IN (SELECT fc_objects('pg_class'))
    ORDER BY 1
  LOOP
    result := fc_try(statement);
    RETURN NEXT;
  END LOOP;
END $$ LANGUAGE plpgsql;
SET ROLE fc_nobody;
SELECT * FROM fc_try_all() ORDER BY object COLLATE "C";
SET ROLE fc_monitor;
SELECT * FROM fc_try_all() ORDER BY object COLLATE "C";
SET ROLE fc_super;
SELECT * FROM fc_try_all() ORDER BY object COLLATE "C";
RESET ROLE;

-- What changes something can be handed on.
SET ROLE fc_operator;
SELECT * FROM pg_flashcache_scrub();
RESET ROLE;
GRANT EXECUTE ON FUNCTION pg_flashcache_scrub(boolean) TO fc_operator;
SET ROLE fc_operator;
SELECT slots_erased >= 0 AS may_erase FROM pg_flashcache_scrub();
SELECT * FROM pg_flashcache_scrub(NULL);
SELECT state FROM pg_stat_flashcache;
RESET ROLE;
REVOKE EXECUTE ON FUNCTION pg_flashcache_scrub(boolean) FROM fc_operator;
-- a view needs its function
GRANT SELECT ON pg_stat_flashcache TO fc_operator;
SET ROLE fc_operator;
SELECT state FROM pg_stat_flashcache;
RESET ROLE;
GRANT EXECUTE ON FUNCTION pg_flashcache_stat() TO fc_operator;
SET ROLE fc_operator;
SELECT state FROM pg_stat_flashcache;
RESET ROLE;
REVOKE SELECT ON pg_stat_flashcache FROM fc_operator;
REVOKE EXECUTE ON FUNCTION pg_flashcache_stat() FROM fc_operator;

-- The settings: who may see the path, who may set what.
CREATE TEMP TABLE fc_settings AS SELECT name FROM pg_settings WHERE name LIKE 'pg\_flashcache.%';
GRANT SELECT ON fc_settings TO PUBLIC;
SET ROLE fc_nobody;
SELECT name AS hidden FROM fc_settings EXCEPT SELECT name FROM pg_settings;
-- the messages differ from version to version
\set VERBOSITY sqlstate
SHOW pg_flashcache.file;
SELECT current_setting('pg_flashcache.file');
SET pg_flashcache.verify = off;
ALTER SYSTEM SET pg_flashcache.size = 0;
\set VERBOSITY default
RESET ROLE;
SET ROLE fc_monitor;
SELECT current_setting('pg_flashcache.file') LIKE '/%' AS may_see;
RESET ROLE;

-- The extension itself: for superusers, since what is written in C runs with the server's rights.
SELECT DISTINCT superuser, trusted, relocatable FROM pg_available_extension_versions WHERE name = 'pg_flashcache';
CREATE DATABASE fc_own OWNER fc_nobody;
\c fc_own
SET ROLE fc_nobody;
\set VERBOSITY sqlstate
CREATE EXTENSION pg_flashcache;
\set VERBOSITY default
RESET ROLE;
\c fc_regress
DROP DATABASE fc_own;
SET ROLE fc_nobody;
DROP EXTENSION pg_flashcache;
CREATE FUNCTION pg_temp.fc_enable() RETURNS boolean AS '$libdir/pg_flashcache', 'fc_enable' LANGUAGE C STRICT;
RESET ROLE;

DROP FUNCTION fc_try_all(), fc_try(text), fc_objects(regclass);
DROP ROLE fc_nobody, fc_monitor, fc_super, fc_operator;
