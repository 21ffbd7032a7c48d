-- Policies of objects: the rules, what they mean, who may set them.  The server of this suite has no place for policies
-- (pg_flashcache.max_policy_files is 0), so that nobody reads in the background; tap/145 has what they do.
\d pg_flashcache_policy_rules
\d pg_flashcache_policies
\d pg_stat_flashcache_policy
\d pg_stat_flashcache_policy_databases
SELECT attrelid::regclass AS view, count(*) AS columns, count(col_description(attrelid, attnum)) AS explained
FROM pg_attribute
WHERE attrelid IN ('pg_flashcache_policy_rules'::regclass, 'pg_flashcache_policies'::regclass,
  'pg_stat_flashcache_policy'::regclass, 'pg_stat_flashcache_policy_databases'::regclass)
  AND attnum > 0 AND NOT attisdropped
GROUP BY 1 ORDER BY 1;
SELECT * FROM pg_stat_flashcache_policy;
SELECT * FROM pg_stat_flashcache_policy_databases;
-- it is dumped
SELECT extconfig::regclass[] FROM pg_extension WHERE extname = 'pg_flashcache';
-- what may have a policy, and what that may be
CREATE SCHEMA "Sch.ema";
CREATE TABLE "Sch.ema"."Ta ble" (id int PRIMARY KEY, v text);
CREATE TABLE tree (k int, v text) PARTITION BY LIST (k);
CREATE TABLE tree1 PARTITION OF tree FOR VALUES IN (1);
CREATE TABLE tree2 PARTITION OF tree FOR VALUES IN (2) PARTITION BY LIST (k);
CREATE TABLE tree2a PARTITION OF tree2 DEFAULT;
CREATE INDEX tree_k ON tree (k);
CREATE TABLE alone (v text);
CREATE VIEW looking AS SELECT 1 AS n;
CREATE TEMPORARY TABLE fleeting (n int);
SELECT pg_flashcache_set_policy('alone', 'keep');
SET client_min_messages = error;
SELECT pg_flashcache_set_policy('alone', 'always');
SELECT pg_flashcache_set_policy('nothing', 'keep');
SELECT pg_flashcache_set_policy(1::regclass, 'keep');
SELECT pg_flashcache_set_policy('looking', 'keep');
SELECT pg_flashcache_set_policy('fleeting', 'keep');
SELECT pg_flashcache_set_policy('pg_database', 'keep');
SELECT pg_flashcache_set_policy('alone', NULL);
SET client_min_messages = notice;
CREATE UNLOGGED TABLE unlogged (n int);
SELECT pg_flashcache_set_policy('unlogged', 'keep');
SELECT pg_flashcache_set_policy('unlogged', 'default');
DROP TABLE unlogged;
SET client_min_messages = error;
SELECT pg_flashcache_set_policy('table', 'alone', 'keep');
SELECT pg_flashcache_set_policy('schema', 'nothing', 'keep');
SELECT pg_flashcache_set_policy('tablespace', 'nothing', 'keep');
SELECT pg_flashcache_set_policy('tablespace', 'pg_global', 'keep');
SELECT pg_flashcache_set_policy('database', 'nothing', 'keep');
SELECT pg_flashcache_set_policy('database', 'template1', 'keep');
SELECT pg_flashcache_set_policy('partition tree', 'tree', 'keep');
SELECT pg_flashcache_set_policy('partition tree', 'public.alone', 'keep');
SELECT pg_flashcache_set_policy('partition tree', 'public.nothing', 'keep');
SELECT * FROM pg_flashcache_policy_rules;
-- the rules, and what they mean; only the file numbers differ from run to run
CREATE VIEW policies AS
SELECT kind, schemaname, objname, policy, relid::regclass, in_force, flash_blocks, kept_blocks,
  relfilenode = pg_relation_filenode(relid) AS file
FROM pg_flashcache_policies
WHERE relid IS NULL OR relschema IN ('public', 'Sch.ema')
ORDER BY kind, schemaname COLLATE "C", objname COLLATE "C", relid::regclass::text COLLATE "C";
SELECT pg_flashcache_set_policy('"Sch.ema"."Ta ble"', 'none');
SELECT pg_flashcache_set_policy('"Sch.ema"."Ta ble_pkey"', 'normal');
SELECT pg_flashcache_set_policy('tree', 'keep');
SELECT pg_flashcache_set_policy('partition tree', 'public.tree2', 'none');
SELECT pg_flashcache_set_policy('tree_k', 'none');
SELECT pg_flashcache_set_policy('tree1', 'normal');
SELECT * FROM policies;
-- set again, and removed
SELECT pg_flashcache_set_policy('alone', 'none');
SELECT pg_flashcache_set_policy('tree1', 'default');
SELECT pg_flashcache_set_policy('tree_k', 'default');
SELECT pg_flashcache_set_policy('looking', 'default');
SELECT pg_flashcache_set_policy('schema', 'Sch.ema', 'keep');
SELECT * FROM policies;
-- of what is not there, and has no rule; of what is there, and has none
SELECT pg_flashcache_set_policy('schema', 'nothing', 'default');
SELECT pg_flashcache_set_policy('tablespace', 'nothing', 'default');
SELECT pg_flashcache_set_policy('relation', 'public.nothing', 'default');
SELECT pg_flashcache_set_policy('relation', 'nothing.alone', 'default');
SELECT pg_flashcache_set_policy('partition tree', 'public.nothing', 'default');
SELECT pg_flashcache_set_policy('partition tree', 'public.alone', 'default');
SELECT pg_flashcache_set_policy('nothing', 'default');
SELECT pg_flashcache_set_policy('database', 'nothing', 'default');
SELECT pg_flashcache_set_policy('schema', 'pg_catalog', 'default');
SELECT pg_flashcache_set_policy('tablespace', 'pg_default', 'default');
SELECT pg_flashcache_set_policy('tree1', 'default');
SELECT pg_flashcache_set_policy('relation', 'public.tree1', 'default');
SELECT * FROM policies;
-- of a tree, that need not be called one
BEGIN;
SELECT pg_flashcache_set_policy('relation', 'public.tree', 'none');
SELECT kind, objname, policy FROM pg_flashcache_policy_rules WHERE objname = 'tree';
SELECT pg_flashcache_set_policy('relation', 'public.tree', 'default');
SELECT kind, objname, policy FROM pg_flashcache_policy_rules WHERE objname = 'tree';
ROLLBACK;
-- of a relation that is no longer there
DROP TABLE alone;
SELECT pg_flashcache_set_policy('relation', 'public.alone', 'none');
SELECT pg_flashcache_set_policy('relation', 'public.alone', 'default');
SELECT pg_flashcache_set_policy('relation', 'public.alone', 'default');
SELECT pg_flashcache_set_policy('relation', 'alone', 'default');
CREATE SCHEMA formerly;
SELECT pg_flashcache_set_policy('schema', 'formerly', 'keep');
ALTER SCHEMA formerly RENAME TO now;
SELECT pg_flashcache_set_policy('schema', 'formerly', 'default');
SELECT pg_flashcache_set_policy('schema', 'formerly', 'default');
DROP SCHEMA now;
SELECT pg_flashcache_set_policy('partition tree', 'public.tree2', 'default');
SELECT pg_flashcache_set_policy('relation', 'public.tree1', 'none');
SELECT * FROM policies;
CREATE TABLE alone (v text);
-- everything, and one tablespace
DELETE FROM pg_flashcache_policy_rules;
SELECT pg_flashcache_set_policy('tablespace', 'pg_default', 'none');
SELECT kind, objname, count(*) = (SELECT count(*) FROM pg_class c WHERE relkind IN ('r', 'i', 't', 'm', 'S') AND relpersistence = 'p' AND NOT relisshared) AS every_file
FROM pg_flashcache_policies GROUP BY 1, 2;
SELECT pg_flashcache_set_policy('database', current_database(), 'keep');
SELECT kind, objname, policy, count(relid) > 0 AS files FROM pg_flashcache_policies GROUP BY 1, 2, 3 ORDER BY 1;
SELECT pg_flashcache_set_policy('tablespace', 'pg_default', 'default');
SELECT kind, objname, policy, count(*) = (SELECT count(*) FROM pg_class c WHERE relkind IN ('r', 'i', 't', 'm', 'S') AND relpersistence = 'p' AND NOT relisshared) AS every_file
FROM pg_flashcache_policies GROUP BY 1, 2, 3;
-- by hand: the same, but nonsense is refused
INSERT INTO pg_flashcache_policy_rules VALUES ('relation', 'public', 'alone', 'perhaps');
INSERT INTO pg_flashcache_policy_rules VALUES ('column', 'public', 'alone', 'keep');
-- the path of whoever calls does not matter
CREATE SCHEMA hostile;
CREATE TABLE hostile.pg_flashcache_policy_rules (LIKE pg_flashcache_policy_rules);
CREATE FUNCTION hostile.lies(text, text) RETURNS boolean AS $$ SELECT false $$ LANGUAGE sql;
CREATE OPERATOR hostile.= (LEFTARG = text, RIGHTARG = text, FUNCTION = hostile.lies);
SET search_path = hostile, public, pg_catalog;
SELECT public.pg_flashcache_set_policy('database', current_database(), 'default');
SELECT public.pg_flashcache_set_policy('alone', 'keep');
RESET search_path;
SELECT kind, schemaname, objname, policy FROM pg_flashcache_policy_rules;
SELECT count(*) FROM hostile.pg_flashcache_policy_rules;
DROP SCHEMA hostile CASCADE;
-- who may
CREATE ROLE fc_owner;
CREATE ROLE fc_watcher;
GRANT pg_monitor TO fc_watcher;
CREATE ROLE fc_manager;
GRANT EXECUTE ON FUNCTION pg_flashcache_set_policy(regclass, text), pg_flashcache_set_policy(text, text, text) TO fc_manager;
ALTER TABLE alone OWNER TO fc_owner;
SET ROLE fc_owner;
SELECT pg_flashcache_set_policy('alone', 'none');
SELECT pg_flashcache_set_policy('schema', 'public', 'none');
INSERT INTO pg_flashcache_policy_rules VALUES ('relation', 'public', 'alone', 'keep');
DELETE FROM pg_flashcache_policy_rules;
TRUNCATE pg_flashcache_policy_rules;
SELECT count(*) FROM pg_flashcache_policies;
SELECT count(*) FROM pg_flashcache_policy_files();
SELECT count(*) FROM pg_stat_flashcache_policy;
SELECT count(*) FROM pg_stat_flashcache_policy_databases;
CREATE TABLE pg_temp.mine (n int);
CREATE TRIGGER t AFTER INSERT ON pg_temp.mine EXECUTE FUNCTION pg_flashcache_policy_changed();
SET ROLE fc_watcher;
SELECT pg_flashcache_set_policy('alone', 'none');
SELECT objname, policy, in_force FROM pg_flashcache_policies WHERE relid = 'alone'::regclass;
SELECT count(*) FROM pg_stat_flashcache_policy;
SELECT count(*) FROM pg_stat_flashcache_policy_databases;
SET ROLE fc_manager;
SELECT pg_flashcache_set_policy('alone', 'none');
SELECT pg_flashcache_set_policy('schema', 'public', 'keep');
DELETE FROM pg_flashcache_policy_rules;
RESET ROLE;
SELECT kind, schemaname, objname, policy FROM pg_flashcache_policy_rules ORDER BY 1;
-- declared otherwise
CREATE FUNCTION set_typed(text, text) RETURNS void AS '$libdir/pg_flashcache', 'fc_set_policy_relation' LANGUAGE C;
SELECT set_typed('alone', 'keep');
CREATE FUNCTION set_null(regclass, text) RETURNS void AS '$libdir/pg_flashcache', 'fc_set_policy_relation' LANGUAGE C;
SELECT set_null('alone', NULL);
CREATE FUNCTION stat_less(OUT kept bigint, OUT kept_limit bigint) AS '$libdir/pg_flashcache', 'fc_policy_stat' LANGUAGE C;
SELECT * FROM stat_less();
CREATE FUNCTION databases_less(OUT datid oid, OUT state text) RETURNS SETOF record AS '$libdir/pg_flashcache', 'fc_policy_databases' LANGUAGE C;
SELECT * FROM databases_less();
CREATE FUNCTION no_trigger() RETURNS void AS '$libdir/pg_flashcache', 'fc_policy_changed' LANGUAGE C;
SELECT no_trigger();
DROP FUNCTION set_typed, set_null, stat_less, databases_less, no_trigger;
-- rolled back with its transaction
BEGIN;
SELECT pg_flashcache_set_policy('alone', 'keep');
SAVEPOINT s;
SELECT pg_flashcache_set_policy('alone', 'default');
ROLLBACK TO s;
SELECT policy FROM pg_flashcache_policy_rules WHERE objname = 'alone';
ROLLBACK;
SELECT policy FROM pg_flashcache_policy_rules WHERE objname = 'alone';
RESET client_min_messages;
DELETE FROM pg_flashcache_policy_rules;
DROP VIEW looking, policies;
DROP SCHEMA "Sch.ema" CASCADE;
DROP TABLE tree, alone, fleeting;
DROP OWNED BY fc_owner, fc_manager;
DROP ROLE fc_owner, fc_watcher, fc_manager;
