-- Objects of 1.0 with this library; an upgraded database has the same as a new one.
CREATE DATABASE fc_upgraded;
CREATE DATABASE fc_fresh;

-- everything that the extension owns, how it is defined, who may use it, and its comments
SELECT $q$
  WITH member AS (
    SELECT d.classid, d.objid FROM pg_depend d JOIN pg_extension e ON d.refobjid = e.oid AND d.refclassid = 'pg_extension'::regclass
    WHERE e.extname = 'pg_flashcache' AND d.deptype = 'e' AND d.classid IN ('pg_proc'::regclass, 'pg_class'::regclass))
  SELECT pg_describe_object(m.classid, m.objid, 0) AS object,
    concat_ws(' / ', pg_get_functiondef(p.oid), p.proacl::text, obj_description(p.oid, 'pg_proc'), pg_get_viewdef(c.oid), c.relacl::text,
      obj_description(c.oid, 'pg_class'),
      (SELECT string_agg(concat_ws(' ', a.attname, a.atttypid::regtype, a.attacl::text, col_description(c.oid, a.attnum)), ', ' ORDER BY a.attnum)
       FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0)) AS definition
  FROM member m LEFT JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND p.oid = m.objid
    LEFT JOIN pg_class c ON m.classid = 'pg_class'::regclass AND c.oid = m.objid
$q$ AS objects \gset

\c fc_upgraded
CREATE EXTENSION pg_flashcache VERSION '1.0';
SELECT extversion FROM pg_extension WHERE extname = 'pg_flashcache';
-- each view of 1.0
SELECT format('SELECT count(*) >= 0 AS %I FROM %s', c.relname, c.oid::regclass) FROM pg_class c
  JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
WHERE c.relkind = 'v' AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pg_flashcache')
ORDER BY c.relname COLLATE "C" \gexec
SELECT state FROM pg_stat_flashcache;
SELECT pg_flashcache_reset_stats();
SELECT count(*) AS objects_of_1_0 FROM (:objects) o \gset
ALTER EXTENSION pg_flashcache UPDATE TO '1.1';
SELECT count(*) > :objects_of_1_0 AS more, count(*) AS upgraded, md5(string_agg(object || definition, ';' ORDER BY object COLLATE "C")) AS upgraded_md5
FROM (:objects) o \gset
\echo :more

\c fc_fresh
CREATE EXTENSION pg_flashcache;
SELECT count(*) = :upgraded AS as_many, md5(string_agg(object || definition, ';' ORDER BY object COLLATE "C")) = :'upgraded_md5' AS the_same
FROM (:objects) o;
-- none is without a comment
SELECT object FROM (:objects) o WHERE object ~ '^(function|view)' AND coalesce(
  obj_description(CASE WHEN object LIKE 'function%' THEN to_regprocedure(substr(object, 10)) END, 'pg_proc'),
  obj_description(CASE WHEN object LIKE 'view%' THEN to_regclass(substr(object, 6)) END, 'pg_class')) IS NULL;

\c postgres
DROP DATABASE fc_upgraded;
DROP DATABASE fc_fresh;
