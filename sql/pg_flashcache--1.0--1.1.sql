/* pg_flashcache--1.0--1.1.sql */

\echo Use "ALTER EXTENSION pg_flashcache UPDATE TO '1.1'" to load this file. \quit

/* ---- advice ---- */

CREATE FUNCTION pg_flashcache_advice_rows(
	OUT kind text,
	OUT factor double precision,
	OUT size bigint,
	OUT is_current boolean,
	OUT hit_ratio double precision,
	OUT disk_reads_per_s double precision,
	OUT read_time_us double precision,
	OUT write_bytes_per_day bigint,
	OUT sampled_reads bigint,
	OUT dropped bigint,
	OUT sample_rate double precision,
	OUT disk_read_time_us double precision,
	OUT since timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'fc_advice_rows'
LANGUAGE C VOLATILE PARALLEL SAFE ROWS 16;

COMMENT ON FUNCTION pg_flashcache_advice_rows() IS
	'what flash caches of other sizes, or more shared buffers, would have done in the last hour; see view pg_flashcache_advice';

CREATE VIEW pg_flashcache_advice AS
	SELECT * FROM @extschema@.pg_flashcache_advice_rows();

COMMENT ON VIEW pg_flashcache_advice IS
	'what flash caches of eight sizes, or more shared buffers, would have done in the last hour: estimates; empty unless pg_flashcache.advice is on';

COMMENT ON COLUMN pg_flashcache_advice.kind IS
	'what would have that size: flash or shared_buffers';
COMMENT ON COLUMN pg_flashcache_advice.factor IS
	'of the cache''s size, or of four times shared_buffers where there is no cache: the size of the cache, or what shared_buffers would be larger by';
COMMENT ON COLUMN pg_flashcache_advice.size IS
	'bytes of the cache, or of all shared buffers';
COMMENT ON COLUMN pg_flashcache_advice.is_current IS
	'whether it is the size that the cache has';
COMMENT ON COLUMN pg_flashcache_advice.hit_ratio IS
	'share of the pages read in the last hour that would have been found there; NULL if no page of the sample was read';
COMMENT ON COLUMN pg_flashcache_advice.disk_reads_per_s IS
	'pages a second that would have been read from disk';
COMMENT ON COLUMN pg_flashcache_advice.read_time_us IS
	'microseconds that reading a page would have taken, on average: from flash and disk, or from disk and, in no time, from shared buffers; NULL if no read from disk was measured';
COMMENT ON COLUMN pg_flashcache_advice.write_bytes_per_day IS
	'bytes that would be written to flash in a day; NULL for shared buffers';
COMMENT ON COLUMN pg_flashcache_advice.sampled_reads IS
	'pages of the sample that were read: the estimates rest on them';
COMMENT ON COLUMN pg_flashcache_advice.dropped IS
	'reads and writes of the sample that were not looked at, since another process was being';
COMMENT ON COLUMN pg_flashcache_advice.sample_rate IS
	'share of all pages that is in the sample';
COMMENT ON COLUMN pg_flashcache_advice.disk_read_time_us IS
	'microseconds that a page read from disk took on average, page cache included; NULL if none was measured';
COMMENT ON COLUMN pg_flashcache_advice.since IS
	'when the first of these reads may have been made';

CREATE FUNCTION pg_flashcache_reset_advice()
RETURNS void
AS 'MODULE_PATHNAME', 'fc_advice_reset_all'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_flashcache_reset_advice() IS
	'lets pg_flashcache_advice begin anew; what the estimated caches hold stays';

REVOKE ALL ON FUNCTION pg_flashcache_advice_rows() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pg_flashcache_advice_rows() TO pg_read_all_stats;
REVOKE ALL ON pg_flashcache_advice FROM PUBLIC;
GRANT SELECT ON pg_flashcache_advice TO pg_read_all_stats;
REVOKE ALL ON FUNCTION pg_flashcache_reset_advice() FROM PUBLIC;
/* ---- filling by extents ---- */

CREATE FUNCTION pg_flashcache_extents_stat(
	OUT state text,
	OUT one_miss_in integer,
	OUT extent_reads bigint,
	OUT extent_inserts bigint,
	OUT extent_hits bigint,
	OUT unproven bigint,
	OUT stats_reset timestamptz)
AS 'MODULE_PATHNAME', 'fc_extents'
LANGUAGE C VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION pg_flashcache_extents_stat() IS
	'filling by extents; see view pg_stat_flashcache_extents';

CREATE VIEW pg_stat_flashcache_extents AS
	SELECT * FROM @extschema@.pg_flashcache_extents_stat();

COMMENT ON VIEW pg_stat_flashcache_extents IS
	'neighbours of pages read from disk that were taken to flash with them, one row';

COMMENT ON COLUMN pg_stat_flashcache_extents.state IS
	'filling, resting (it does not pay), full (hardly any slot is free), off, or why it is not done: direct I/O, disk is fast, cache not active';
COMMENT ON COLUMN pg_stat_flashcache_extents.one_miss_in IS
	'one extent in so many is read: 1 while filling; NULL if none is';
COMMENT ON COLUMN pg_stat_flashcache_extents.extent_reads IS
	'extents of 64 kB around a page that was read from disk, whose neighbours were looked at';
COMMENT ON COLUMN pg_stat_flashcache_extents.extent_inserts IS
	'neighbours that were written to flash; they are among inserts in pg_stat_flashcache';
COMMENT ON COLUMN pg_stat_flashcache_extents.extent_hits IS
	'neighbours that were asked for, the first time, and came from flash or the page cache: disk reads that this has saved';
COMMENT ON COLUMN pg_stat_flashcache_extents.unproven IS
	'neighbours that are on flash and have not been asked for yet; not reset';
COMMENT ON COLUMN pg_stat_flashcache_extents.stats_reset IS
	'when the counters began to count';

REVOKE ALL ON FUNCTION pg_flashcache_extents_stat() FROM PUBLIC;
REVOKE ALL ON pg_stat_flashcache_extents FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pg_flashcache_extents_stat() TO pg_read_all_stats;
GRANT SELECT ON pg_stat_flashcache_extents TO pg_read_all_stats;
-- ---- policies of objects: keep, none ----

CREATE TABLE pg_flashcache_policy_rules (
	kind pg_catalog.text NOT NULL
		CONSTRAINT pg_flashcache_policy_rules_kind
		CHECK (kind OPERATOR(pg_catalog.=) ANY (ARRAY['relation', 'partition tree', 'schema', 'tablespace', 'database'])),
	schemaname pg_catalog.text NOT NULL,
	objname pg_catalog.text NOT NULL,
	policy pg_catalog.text NOT NULL
		CONSTRAINT pg_flashcache_policy_rules_policy
		CHECK (policy OPERATOR(pg_catalog.=) ANY (ARRAY['keep', 'none', 'normal'])),
	PRIMARY KEY (kind, schemaname, objname)
) USING heap;

SELECT pg_catalog.pg_extension_config_dump('@extschema@.pg_flashcache_policy_rules'::pg_catalog.regclass, '');

COMMENT ON TABLE pg_flashcache_policy_rules IS
	'policies of this database''s objects, set by pg_flashcache_set_policy()';
COMMENT ON COLUMN pg_flashcache_policy_rules.kind IS
	'what the rule is about: relation, partition tree, schema, tablespace, database';
COMMENT ON COLUMN pg_flashcache_policy_rules.schemaname IS
	'schema of the relation or partition tree; empty for the other kinds';
COMMENT ON COLUMN pg_flashcache_policy_rules.objname IS
	'name of the object; empty for the database, which is always this one';
COMMENT ON COLUMN pg_flashcache_policy_rules.policy IS
	'keep, none, or normal';

CREATE FUNCTION pg_flashcache_policy_changed()
RETURNS trigger
AS 'MODULE_PATHNAME', 'fc_policy_changed'
LANGUAGE C;

COMMENT ON FUNCTION pg_flashcache_policy_changed() IS
	'trigger: the policies take effect when the transaction commits';

-- for each row: a subscription runs no other triggers of these events
CREATE TRIGGER pg_flashcache_policy_changed
	AFTER INSERT OR UPDATE OR DELETE ON pg_flashcache_policy_rules
	FOR EACH ROW EXECUTE FUNCTION @extschema@.pg_flashcache_policy_changed();

CREATE TRIGGER pg_flashcache_policy_truncated
	AFTER TRUNCATE ON pg_flashcache_policy_rules
	FOR EACH STATEMENT EXECUTE FUNCTION @extschema@.pg_flashcache_policy_changed();

ALTER TABLE pg_flashcache_policy_rules ENABLE ALWAYS TRIGGER pg_flashcache_policy_changed;
ALTER TABLE pg_flashcache_policy_rules ENABLE ALWAYS TRIGGER pg_flashcache_policy_truncated;

CREATE FUNCTION pg_flashcache_set_policy(relation regclass, policy text)
RETURNS void
AS 'MODULE_PATHNAME', 'fc_set_policy_relation'
LANGUAGE C VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

COMMENT ON FUNCTION pg_flashcache_set_policy(regclass, text) IS
	'sets the policy of a table, index, or partition tree: keep, none, normal, or default, which removes the rule';

CREATE FUNCTION pg_flashcache_set_policy(kind text, name text, policy text)
RETURNS void
AS 'MODULE_PATHNAME', 'fc_set_policy_object'
LANGUAGE C VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

COMMENT ON FUNCTION pg_flashcache_set_policy(text, text, text) IS
	'sets the policy of a schema, tablespace, database, partition tree, or relation, by name: keep, none, normal, or default, which removes the rule';

CREATE FUNCTION pg_flashcache_policy_files(
	OUT rule_kind text,
	OUT rule_schema text,
	OUT rule_name text,
	OUT relid oid,
	OUT relfilenode oid,
	OUT reltablespace oid,
	OUT policy text,
	OUT in_force text,
	OUT flash_blocks bigint,
	OUT kept_blocks bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'fc_policy_files'
LANGUAGE C VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp SET jit = off;

COMMENT ON FUNCTION pg_flashcache_policy_files() IS
	'relations of this database that have a policy; see view pg_flashcache_policies';

CREATE VIEW pg_flashcache_policies AS
	SELECT r.kind, r.schemaname, r.objname, r.policy,
		f.relid, n.nspname AS relschema, c.relname, c.relkind,
		f.relfilenode, f.reltablespace, f.in_force, f.flash_blocks, f.kept_blocks
	FROM @extschema@.pg_flashcache_policy_rules r
		LEFT JOIN @extschema@.pg_flashcache_policy_files() f
			ON f.rule_kind OPERATOR(pg_catalog.=) r.kind
				AND f.rule_schema OPERATOR(pg_catalog.=) r.schemaname
				AND f.rule_name OPERATOR(pg_catalog.=) r.objname
		LEFT JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) f.relid
		LEFT JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace;

COMMENT ON VIEW pg_flashcache_policies IS
	'policies of this database, and the relations that have theirs from each';
COMMENT ON COLUMN pg_flashcache_policies.kind IS
	'what the rule is about: relation, partition tree, schema, tablespace, database';
COMMENT ON COLUMN pg_flashcache_policies.schemaname IS
	'schema of the relation or partition tree that the rule is about';
COMMENT ON COLUMN pg_flashcache_policies.objname IS
	'name of what the rule is about';
COMMENT ON COLUMN pg_flashcache_policies.policy IS
	'keep, none, or normal';
COMMENT ON COLUMN pg_flashcache_policies.relid IS
	'OID of a relation that has its policy from this rule; NULL if none has';
COMMENT ON COLUMN pg_flashcache_policies.relschema IS
	'schema of that relation';
COMMENT ON COLUMN pg_flashcache_policies.relname IS
	'name of that relation';
COMMENT ON COLUMN pg_flashcache_policies.relkind IS
	'its kind, as in pg_class';
COMMENT ON COLUMN pg_flashcache_policies.relfilenode IS
	'number of its file';
COMMENT ON COLUMN pg_flashcache_policies.reltablespace IS
	'OID of the tablespace of its file';
COMMENT ON COLUMN pg_flashcache_policies.in_force IS
	'policy by which the cache treats its file at the moment';
COMMENT ON COLUMN pg_flashcache_policies.flash_blocks IS
	'its blocks that are on flash';
COMMENT ON COLUMN pg_flashcache_policies.kept_blocks IS
	'those of them that are marked as kept';

CREATE FUNCTION pg_flashcache_policy_stat(
	OUT kept bigint,
	OUT kept_limit bigint,
	OUT skip_policy bigint,
	OUT eviction_policy bigint,
	OUT kept_passed bigint,
	OUT max_files bigint,
	OUT files bigint,
	OUT files_without_place bigint,
	OUT databases_without_place bigint,
	OUT last_look timestamptz)
RETURNS record
AS 'MODULE_PATHNAME', 'fc_policy_stat'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_flashcache_policy_stat() IS
	'what policies do; see view pg_stat_flashcache_policy';

CREATE VIEW pg_stat_flashcache_policy AS
	SELECT kept, kept_limit, skip_policy, eviction_policy, kept_passed,
		max_files, files, files_without_place, databases_without_place, last_look
	FROM @extschema@.pg_flashcache_policy_stat();

COMMENT ON VIEW pg_stat_flashcache_policy IS
	'what policies do, one row';
COMMENT ON COLUMN pg_stat_flashcache_policy.kept IS
	'slots that hold pages with the policy keep';
COMMENT ON COLUMN pg_stat_flashcache_policy.kept_limit IS
	'slots up to which such pages are not evicted: pg_flashcache.keep_limit percent of all';
COMMENT ON COLUMN pg_stat_flashcache_policy.skip_policy IS
	'pages not written to flash since their policy is none, or may be, of a file that is new';
COMMENT ON COLUMN pg_stat_flashcache_policy.eviction_policy IS
	'pages removed from flash since their policy had become none';
COMMENT ON COLUMN pg_stat_flashcache_policy.kept_passed IS
	'slots that were passed over in search of a victim, since their pages are kept';
COMMENT ON COLUMN pg_stat_flashcache_policy.max_files IS
	'files that can have a policy: pg_flashcache.max_policy_files';
COMMENT ON COLUMN pg_stat_flashcache_policy.files IS
	'files that have one, of all databases; a policy of a tablespace or a database counts as one';
COMMENT ON COLUMN pg_stat_flashcache_policy.files_without_place IS
	'files whose policy has no effect, since there was no place for it';
COMMENT ON COLUMN pg_stat_flashcache_policy.databases_without_place IS
	'databases that are not looked at now, since 256 others are; they take turns';
COMMENT ON COLUMN pg_stat_flashcache_policy.last_look IS
	'when rules were read last, in any database';

CREATE FUNCTION pg_flashcache_policy_databases(
	OUT datid oid,
	OUT state text,
	OUT reason text,
	OUT rules bigint,
	OUT files bigint,
	OUT files_without_place bigint,
	OUT last_look timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'fc_policy_databases'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_flashcache_policy_databases() IS
	'what is known of each database''s policies; see view pg_stat_flashcache_policy_databases';

CREATE VIEW pg_stat_flashcache_policy_databases AS
	SELECT p.datid, d.datname, p.state, p.reason, p.rules, p.files, p.files_without_place, p.last_look
	FROM @extschema@.pg_flashcache_policy_databases() p
		LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) p.datid;

COMMENT ON VIEW pg_stat_flashcache_policy_databases IS
	'what is known of each database''s policies, one row each';
COMMENT ON COLUMN pg_stat_flashcache_policy_databases.datid IS
	'OID of the database';
COMMENT ON COLUMN pg_stat_flashcache_policy_databases.datname IS
	'name of the database';
COMMENT ON COLUMN pg_stat_flashcache_policy_databases.state IS
	'waiting, known, locked or failed: how the last look at its rules ended';
COMMENT ON COLUMN pg_stat_flashcache_policy_databases.reason IS
	'of that state; what an earlier look has found stays in force';
COMMENT ON COLUMN pg_stat_flashcache_policy_databases.rules IS
	'rules that it has';
COMMENT ON COLUMN pg_stat_flashcache_policy_databases.files IS
	'files whose policy is in force';
COMMENT ON COLUMN pg_stat_flashcache_policy_databases.files_without_place IS
	'files whose policy has no effect, since there was no place for it';
COMMENT ON COLUMN pg_stat_flashcache_policy_databases.last_look IS
	'when the rules were read that are in force; NULL if they never were';

-- A dump needs the rules, whoever makes it; they are names, which the catalogs show to everybody.
GRANT SELECT ON pg_flashcache_policy_rules TO PUBLIC;

REVOKE ALL ON FUNCTION pg_flashcache_policy_changed() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_set_policy(regclass, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_set_policy(text, text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_policy_files() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_policy_stat() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_policy_databases() FROM PUBLIC;
REVOKE ALL ON pg_flashcache_policies FROM PUBLIC;
REVOKE ALL ON pg_stat_flashcache_policy FROM PUBLIC;
REVOKE ALL ON pg_stat_flashcache_policy_databases FROM PUBLIC;

GRANT EXECUTE ON FUNCTION pg_flashcache_policy_files() TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_flashcache_policy_stat() TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_flashcache_policy_databases() TO pg_read_all_stats;
GRANT SELECT ON pg_flashcache_policies TO pg_read_all_stats;
GRANT SELECT ON pg_stat_flashcache_policy TO pg_read_all_stats;
GRANT SELECT ON pg_stat_flashcache_policy_databases TO pg_read_all_stats;
-- ---- objects: relations, statements, latency ----

CREATE FUNCTION pg_flashcache_relation_stat(
	OUT relid oid,
	OUT hits bigint,
	OUT read_time_us bigint,
	OUT disk_reads bigint,
	OUT disk_read_time_us bigint,
	OUT os_cache_hits bigint,
	OUT disk_writes bigint,
	OUT disk_extends bigint,
	OUT inserts bigint,
	OUT invalidations bigint,
	OUT evictions_without_hit bigint,
	OUT stats_reset timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'fc_relation_stat'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_flashcache_relation_stat() IS
	'what was read and written of each relation of this database; see view pg_stat_flashcache_relation';

CREATE VIEW pg_stat_flashcache_relation AS
	SELECT s.relid, n.nspname AS schemaname, c.relname, c.relkind,
		t.oid AS toast_of, i.indrelid AS index_of,
		s.hits OPERATOR(pg_catalog.+) s.disk_reads AS reads,
		s.hits, s.read_time_us, s.disk_reads, s.disk_read_time_us, s.os_cache_hits,
		s.disk_writes, s.disk_extends,
		s.inserts, s.invalidations, s.evictions_without_hit,
		s.hits AS optimized_reads, s.disk_reads AS unoptimized_reads,
		s.stats_reset
	FROM @extschema@.pg_flashcache_relation_stat() s
		LEFT JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) s.relid
		LEFT JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
		LEFT JOIN pg_catalog.pg_index i ON i.indexrelid OPERATOR(pg_catalog.=) s.relid
		LEFT JOIN pg_catalog.pg_class t ON t.reltoastrelid OPERATOR(pg_catalog.=)
				CASE WHEN c.relkind OPERATOR(pg_catalog.=) 't' THEN c.oid ELSE i.indrelid END
			AND t.reltoastrelid OPERATOR(pg_catalog.<>) 0;

COMMENT ON VIEW pg_stat_flashcache_relation IS
	'what was read of each relation of this database from flash and from disk, and written to disk, one row each; relid is NULL in the row of everything else';

COMMENT ON COLUMN pg_stat_flashcache_relation.relid IS
	'OID of the table, index, TOAST table or other relation; NULL: all reads and writes of this database that belong to no row';
COMMENT ON COLUMN pg_stat_flashcache_relation.schemaname IS
	'its schema';
COMMENT ON COLUMN pg_stat_flashcache_relation.relname IS
	'its name';
COMMENT ON COLUMN pg_stat_flashcache_relation.relkind IS
	'its kind, as in pg_class';
COMMENT ON COLUMN pg_stat_flashcache_relation.toast_of IS
	'of a TOAST table, and of its index: OID of the table that it belongs to';
COMMENT ON COLUMN pg_stat_flashcache_relation.index_of IS
	'of an index: OID of its table';
COMMENT ON COLUMN pg_stat_flashcache_relation.reads IS
	'pages that were read, from flash or from disk';
COMMENT ON COLUMN pg_stat_flashcache_relation.hits IS
	'pages read from flash';
COMMENT ON COLUMN pg_stat_flashcache_relation.read_time_us IS
	'microseconds that these reads took';
COMMENT ON COLUMN pg_stat_flashcache_relation.disk_reads IS
	'pages read from data files, of all forks';
COMMENT ON COLUMN pg_stat_flashcache_relation.disk_read_time_us IS
	'microseconds that these reads took; on 18 and later only some of them are timed';
COMMENT ON COLUMN pg_stat_flashcache_relation.os_cache_hits IS
	'pages that were on flash but left to the page cache of the kernel, which held them; in disk_reads too';
COMMENT ON COLUMN pg_stat_flashcache_relation.disk_writes IS
	'pages of data files, of all forks, written again by whatever process';
COMMENT ON COLUMN pg_stat_flashcache_relation.disk_extends IS
	'pages that were added to data files, of all forks';
COMMENT ON COLUMN pg_stat_flashcache_relation.inserts IS
	'pages written to flash and published';
COMMENT ON COLUMN pg_stat_flashcache_relation.invalidations IS
	'pages that left flash since they were changed or dropped';
COMMENT ON COLUMN pg_stat_flashcache_relation.evictions_without_hit IS
	'pages that left flash for others and had never been wanted: they were written for nothing';
COMMENT ON COLUMN pg_stat_flashcache_relation.optimized_reads IS
	'the same as hits';
COMMENT ON COLUMN pg_stat_flashcache_relation.unoptimized_reads IS
	'the same as disk_reads';
COMMENT ON COLUMN pg_stat_flashcache_relation.stats_reset IS
	'since when is counted: the start of the server, or the last reset';

CREATE FUNCTION pg_flashcache_relation_pages(
	max_slots bigint DEFAULT 16777216,
	OUT relid oid,
	OUT flash_blocks bigint,
	OUT buffer_blocks bigint,
	OUT sampled integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'fc_relation_pages'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_flashcache_relation_pages(bigint) IS
	'pages of each relation of this database on flash and in shared buffers; of a cache with more slots than max_slots, one of every sampled slots is looked at';

CREATE FUNCTION pg_flashcache_relation_bytes(relid oid)
RETURNS bigint
AS 'MODULE_PATHNAME', 'fc_relation_bytes'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_flashcache_relation_bytes(oid) IS
	'bytes of the main fork of a relation of this database, without a lock on it; NULL if it has none';

CREATE VIEW pg_flashcache_relations AS
	SELECT c.oid AS relid, n.nspname AS schemaname, c.relname, c.relkind,
		z.bytes, z.bytes OPERATOR(pg_catalog./) z.block_size AS blocks,
		coalesce(p.flash_blocks, 0) AS flash_blocks,
		coalesce(p.buffer_blocks, 0) AS buffer_blocks,
		coalesce(p.flash_blocks, 0)::double precision OPERATOR(pg_catalog./)
			nullif(z.bytes OPERATOR(pg_catalog./) z.block_size, 0)::double precision AS flash_share,
		coalesce(r.reads, 0) AS reads,
		r.hits OPERATOR(pg_catalog./) nullif(r.reads, 0)::double precision AS flash_read_share,
		r.os_cache_hits OPERATOR(pg_catalog./) nullif(r.reads, 0)::double precision AS os_cache_read_share,
		(r.disk_reads OPERATOR(pg_catalog.-) r.os_cache_hits) OPERATOR(pg_catalog./) nullif(r.reads, 0)::double precision AS disk_read_share
	FROM pg_catalog.pg_class c
		JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
		LEFT JOIN @extschema@.pg_flashcache_relation_pages() p ON p.relid OPERATOR(pg_catalog.=) c.oid
		LEFT JOIN (SELECT s.relid, s.hits, s.os_cache_hits, s.disk_reads, s.hits OPERATOR(pg_catalog.+) s.disk_reads AS reads
			FROM @extschema@.pg_flashcache_relation_stat() s) r ON r.relid OPERATOR(pg_catalog.=) c.oid,
		LATERAL (SELECT @extschema@.pg_flashcache_relation_bytes(c.oid) AS bytes,
			pg_catalog.current_setting('block_size')::bigint AS block_size) z
	WHERE c.relkind OPERATOR(pg_catalog.=) ANY (ARRAY['r', 'i', 't', 'm', 'S']::"char"[])
		AND c.relpersistence OPERATOR(pg_catalog.<>) 't';

COMMENT ON VIEW pg_flashcache_relations IS
	'relations of this database, their size, how much of them is on flash and in shared buffers, and where they were read from';

COMMENT ON COLUMN pg_flashcache_relations.relid IS
	'OID of the table, index, TOAST table or other relation';
COMMENT ON COLUMN pg_flashcache_relations.schemaname IS
	'its schema';
COMMENT ON COLUMN pg_flashcache_relations.relname IS
	'its name';
COMMENT ON COLUMN pg_flashcache_relations.relkind IS
	'its kind, as in pg_class';
COMMENT ON COLUMN pg_flashcache_relations.bytes IS
	'bytes of its main fork';
COMMENT ON COLUMN pg_flashcache_relations.blocks IS
	'pages of its main fork';
COMMENT ON COLUMN pg_flashcache_relations.flash_blocks IS
	'of these, pages on flash; an estimate from a sample if the cache has more than 16777216 slots';
COMMENT ON COLUMN pg_flashcache_relations.buffer_blocks IS
	'of these, pages in shared buffers';
COMMENT ON COLUMN pg_flashcache_relations.flash_share IS
	'flash_blocks as a part of blocks, 0 to 1; NULL if it has none';
COMMENT ON COLUMN pg_flashcache_relations.reads IS
	'pages that were read, from wherever they came but shared buffers; counted by pg_stat_flashcache_relation';
COMMENT ON COLUMN pg_flashcache_relations.flash_read_share IS
	'part of the reads that flash answered, 0 to 1; NULL without reads';
COMMENT ON COLUMN pg_flashcache_relations.os_cache_read_share IS
	'part of the reads of pages that were on flash and left to the page cache of the kernel, which held them, 0 to 1; NULL without reads';
COMMENT ON COLUMN pg_flashcache_relations.disk_read_share IS
	'part of the reads that the storage answered, or a page cache that was not asked, 0 to 1; NULL without reads';

CREATE FUNCTION pg_flashcache_statement_stat(
	showtext boolean DEFAULT true,
	OUT userid oid,
	OUT dbid oid,
	OUT queryid bigint,
	OUT toplevel boolean,
	OUT calls bigint,
	OUT hits bigint,
	OUT misses bigint,
	OUT read_time_us bigint,
	OUT disk_reads bigint,
	OUT disk_read_time_us bigint,
	OUT os_cache_hits bigint,
	OUT query text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'fc_statement_stat'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_flashcache_statement_stat(boolean) IS
	'what statements have read; see view pg_stat_flashcache_statements';

CREATE VIEW pg_stat_flashcache_statements AS
	SELECT * FROM @extschema@.pg_flashcache_statement_stat();

COMMENT ON VIEW pg_stat_flashcache_statements IS
	'what statements have read from flash and from disk, one row for each user, database and query identifier';

COMMENT ON COLUMN pg_stat_flashcache_statements.userid IS
	'OID of the user who executed it';
COMMENT ON COLUMN pg_stat_flashcache_statements.dbid IS
	'OID of the database';
COMMENT ON COLUMN pg_stat_flashcache_statements.queryid IS
	'query identifier, as in pg_stat_statements';
COMMENT ON COLUMN pg_stat_flashcache_statements.toplevel IS
	'whether the client sent it; the reads of another one are also those of the statement that called it';
COMMENT ON COLUMN pg_stat_flashcache_statements.calls IS
	'how often it was executed, failures included';
COMMENT ON COLUMN pg_stat_flashcache_statements.hits IS
	'pages read from flash';
COMMENT ON COLUMN pg_stat_flashcache_statements.misses IS
	'pages that the cache was asked for and did not have';
COMMENT ON COLUMN pg_stat_flashcache_statements.read_time_us IS
	'microseconds that these reads took';
COMMENT ON COLUMN pg_stat_flashcache_statements.disk_reads IS
	'pages read from data files';
COMMENT ON COLUMN pg_stat_flashcache_statements.disk_read_time_us IS
	'microseconds that these reads took; on 18 and later only some of them are timed';
COMMENT ON COLUMN pg_stat_flashcache_statements.os_cache_hits IS
	'pages that were on flash but left to the page cache of the kernel, which held them; in disk_reads too';
COMMENT ON COLUMN pg_stat_flashcache_statements.query IS
	'its text, from pg_stat_statements; NULL where that is not installed, or does not show it, as with a text of another database that has no form in the encoding of this one';

CREATE FUNCTION pg_flashcache_latency_stat(
	OUT backend_type text,
	OUT operation text,
	OUT bucket integer,
	OUT from_us bigint,
	OUT to_us bigint,
	OUT count bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'fc_latency_stat'
LANGUAGE C VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION pg_flashcache_latency_stat() IS
	'how long requests took; see view pg_stat_flashcache_latency';

CREATE VIEW pg_stat_flashcache_latency AS
	SELECT * FROM @extschema@.pg_flashcache_latency_stat();

COMMENT ON VIEW pg_stat_flashcache_latency IS
	'how long requests to disk and flash took, as histograms';

COMMENT ON COLUMN pg_stat_flashcache_latency.backend_type IS
	'client backend, parallel worker, autovacuum worker or other';
COMMENT ON COLUMN pg_stat_flashcache_latency.operation IS
	'disk read, page cache read, flash read or flash write';
COMMENT ON COLUMN pg_stat_flashcache_latency.bucket IS
	'number of the bucket, from 0';
COMMENT ON COLUMN pg_stat_flashcache_latency.from_us IS
	'microseconds from which on requests are in this bucket';
COMMENT ON COLUMN pg_stat_flashcache_latency.to_us IS
	'microseconds from which on they are in the next one; NULL in the last';
COMMENT ON COLUMN pg_stat_flashcache_latency.count IS
	'requests, of one page or several, that took so long; only those that are timed';

CREATE FUNCTION pg_flashcache_tracking_stat(
	OUT relations integer,
	OUT max_relations integer,
	OUT statements integer,
	OUT max_statements integer,
	OUT statements_given_up bigint,
	OUT statements_reason text,
	OUT statements_hint text,
	OUT stats_reset timestamptz)
AS 'MODULE_PATHNAME', 'fc_tracking_stat'
LANGUAGE C VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION pg_flashcache_tracking_stat() IS
	'how many relations and statements have counters of their own, in all databases, the most that can have, how many statements have lost theirs since the last reset, and, if statements are not counted, why not and what to do';

REVOKE ALL ON FUNCTION pg_flashcache_relation_stat() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_relation_pages(bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_relation_bytes(oid) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_latency_stat() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_tracking_stat() FROM PUBLIC;
REVOKE ALL ON pg_stat_flashcache_relation FROM PUBLIC;
REVOKE ALL ON pg_flashcache_relations FROM PUBLIC;
REVOKE ALL ON pg_stat_flashcache_latency FROM PUBLIC;

GRANT EXECUTE ON FUNCTION pg_flashcache_relation_stat() TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_flashcache_relation_pages(bigint) TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_flashcache_relation_bytes(oid) TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_flashcache_latency_stat() TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_flashcache_tracking_stat() TO pg_read_all_stats;
GRANT SELECT ON pg_stat_flashcache_relation TO pg_read_all_stats;
GRANT SELECT ON pg_flashcache_relations TO pg_read_all_stats;
GRANT SELECT ON pg_stat_flashcache_latency TO pg_read_all_stats;

-- Of the statements of others, only who may see them.
GRANT SELECT ON pg_stat_flashcache_statements TO PUBLIC;
/*
 * Snapshots
 *
 * A snapshot has, by section, by how much each counter of each row moved since
 * the snapshot before it; an interval is the sum of its snapshots.  Where the
 * counters stood then is kept for the last one alone.
 *
 * Who owns the schema may rename it and put another of that name into its
 * place.  So what writes is bound to its objects when it is made (BEGIN
 * ATOMIC), and views of extensions are found as members of these, not by path.
 *
 * None of the tables is marked for pg_dump: their rows stay out of dumps, which
 * the owner of a database could not read.
 */
CREATE TABLE pg_flashcache_snapshots (
	id pg_catalog.int8 PRIMARY KEY,
	taken_at pg_catalog.timestamptz NOT NULL,
	database pg_catalog.text NOT NULL,
	note pg_catalog.text,
	server_started pg_catalog.timestamptz NOT NULL,
	server_version_num pg_catalog.int4 NOT NULL,
	resets pg_catalog.text[] NOT NULL,
	problems pg_catalog.jsonb NOT NULL);

COMMENT ON TABLE pg_flashcache_snapshots IS
	'snapshots of statistics, one row each; pgflash report reads them';
COMMENT ON COLUMN pg_flashcache_snapshots.id IS
	'number of the snapshot, from 1';
COMMENT ON COLUMN pg_flashcache_snapshots.taken_at IS
	'when it was taken';
COMMENT ON COLUMN pg_flashcache_snapshots.database IS
	'database in which it was taken: relations are those of this database';
COMMENT ON COLUMN pg_flashcache_snapshots.note IS
	'what whoever took it wrote to it';
COMMENT ON COLUMN pg_flashcache_snapshots.server_started IS
	'since when the server was running';
COMMENT ON COLUMN pg_flashcache_snapshots.server_version_num IS
	'version of the server, as in server_version_num';
COMMENT ON COLUMN pg_flashcache_snapshots.resets IS
	'sections with counters that were reset since the snapshot before it, by their stats_reset; these are counted from zero';
COMMENT ON COLUMN pg_flashcache_snapshots.problems IS
	'sections that are missing, and why';

CREATE TABLE pg_flashcache_snapshot_data (
	snapshot pg_catalog.int8,
	section pg_catalog.text,
	data pg_catalog.jsonb NOT NULL,
	PRIMARY KEY (snapshot, section));

COMMENT ON TABLE pg_flashcache_snapshot_data IS
	'what is in the snapshots, by section';
COMMENT ON COLUMN pg_flashcache_snapshot_data.snapshot IS
	'number of the snapshot';
COMMENT ON COLUMN pg_flashcache_snapshot_data.section IS
	'name of the section: cache, database, relations, statements and others';
COMMENT ON COLUMN pg_flashcache_snapshot_data.data IS
	'array of rows: key; labels, as they were when the snapshot was taken; moved, by how much counters moved since the one before it, in the units of their views';

CREATE TABLE pg_flashcache_snapshot_state (
	section pg_catalog.text PRIMARY KEY,
	data pg_catalog.jsonb NOT NULL);

COMMENT ON TABLE pg_flashcache_snapshot_state IS
	'where counters stood at the last snapshot, by section';
COMMENT ON COLUMN pg_flashcache_snapshot_state.section IS
	'name of the section';
COMMENT ON COLUMN pg_flashcache_snapshot_state.data IS
	'by key: c, the counters that are not 0; s and e, since when the row and its section count';

CREATE TABLE pg_flashcache_snapshot_settings (
	only_row pg_catalog.bool PRIMARY KEY DEFAULT true CHECK (only_row),
	keep pg_catalog.interval NOT NULL DEFAULT '14 days'
		CONSTRAINT pg_flashcache_snapshot_settings_keep
		CHECK (keep OPERATOR(pg_catalog.>=) '1 hour'::pg_catalog.interval
			AND keep OPERATOR(pg_catalog.<=) '100 years'::pg_catalog.interval),
	max_bytes pg_catalog.int8 NOT NULL DEFAULT 1073741824
		CONSTRAINT pg_flashcache_snapshot_settings_max_bytes CHECK (max_bytes OPERATOR(pg_catalog.>=) 0),
	top_rows pg_catalog.int4 NOT NULL DEFAULT 200 CHECK (top_rows OPERATOR(pg_catalog.>) 0),
	last_snapshot pg_catalog.int8 NOT NULL DEFAULT 0);

COMMENT ON TABLE pg_flashcache_snapshot_settings IS
	'how long snapshots are kept, and how large they get; one row, for superusers to update';
COMMENT ON COLUMN pg_flashcache_snapshot_settings.only_row IS
	'true';
COMMENT ON COLUMN pg_flashcache_snapshot_settings.keep IS
	'snapshots that are older are dropped when the next one is taken';
COMMENT ON COLUMN pg_flashcache_snapshot_settings.max_bytes IS
	'bytes of all snapshots, compressed as in the table, beyond which the oldest are dropped';
COMMENT ON COLUMN pg_flashcache_snapshot_settings.top_rows IS
	'relations and statements of one snapshot, each by the greatest of several counters; the rest is summed up';
COMMENT ON COLUMN pg_flashcache_snapshot_settings.last_snapshot IS
	'number of the last snapshot; also what lets one be taken at a time';

INSERT INTO pg_flashcache_snapshot_settings DEFAULT VALUES;

CREATE FUNCTION pg_flashcache_snapshot_collect(
	before jsonb,
	top_rows integer,
	OUT section text,
	OUT data jsonb,
	OUT state jsonb,
	OUT reset boolean,
	OUT problem text)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET client_min_messages = 'warning'
SET jit = off
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
AS $body$
DECLARE
	source record;
	relation oid;
	schema text;
	present text[];
	counters text[];
	labels text[];
	since text;
	epoch text;
	known jsonb;
	statement text;
	bare oid;
	writer integer;
	background integer[];
	timeline integer := CASE WHEN NOT pg_is_in_recovery() THEN
		('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer END;
	another boolean;
BEGIN
	/*
	 * A standby that was promoted has the state that its primary stored, and counters of its own: nothing is to be compared.  It is
	 * told by its timeline.
	 */
	another := coalesce((before #>> '{settings,timeline}')::integer <> timeline, false);
	IF another THEN
		before := '{}';
	END IF;
	PERFORM pg_stat_clear_snapshot();
	/*
	 * rows: what is read, %s is the view.  keys: what tells its rows apart.  labels: what is shown of them; more: labels
	 * that are no columns of the view.  counted: the counters; NULL: all numbers of the view that are neither.  weights:
	 * the top rows are the first by each of these; NULL: all rows.  grp: what the rest is summed up by.  epoch: what tells
	 * since when all rows of the section count, %s is the schema of the view; NULL: the stats_reset of each row does; empty:
	 * nothing does, only a counter that fell.  From 18 on the counters of the cache go on over a restart, those by statement
	 * and the histograms do not.
	 *
	 * A row counts from zero where it began anew: by its stats_since or stats_reset, by the epoch, or because a counter
	 * fell, as when its table was truncated or its statement evicted.  That counters were reset is said only where a stamp
	 * says so.  That of a database also moves when the counters of one table are reset: its own, and those of its other
	 * relations, were only where one of them fell.
	 */
	FOR source IN
		SELECT * FROM (VALUES
			('cache', 'pg_flashcache', 'pg_stat_flashcache', '%s', '{}'::text[],
			 '{state,reason,verdict,slots,used,memory_bytes,hit_ratio,memory_per_slot,writer_pid}'::text[], '{}'::text[],
			 NULL::text[], NULL::text[], NULL::text, NULL::text),
			('flash_relations', 'pg_flashcache', 'pg_stat_flashcache_relation', '%s', '{relid}',
			 '{schemaname,relname,relkind,toast_of,index_of}', '{}', NULL, '{disk_reads,hits,inserts,disk_writes,disk_extends}', NULL,
			 '(SELECT stats_reset::text FROM %s.pg_stat_flashcache)'),
			('flash_statements', 'pg_flashcache', 'pg_stat_flashcache_statements', '%s', '{userid,dbid,queryid,toplevel}',
			 '{query}', '{}', NULL, '{disk_read_time_us,disk_reads,hits}', NULL,
			 '(SELECT stats_reset::text FROM %s.pg_flashcache_tracking_stat())'),
			('flash_latency', 'pg_flashcache', 'pg_stat_flashcache_latency', '%s', '{backend_type,operation,bucket}',
			 '{backend_type,operation,bucket,from_us,to_us}', '{}', NULL, NULL, NULL,
			 '(SELECT stats_reset::text FROM %s.pg_flashcache_tracking_stat())'),
			('advice', 'pg_flashcache', 'pg_flashcache_advice', '%s', '{kind,factor}',
			 '{kind,size,is_current,hit_ratio,disk_reads_per_s,read_time_us,write_bytes_per_day,sampled_reads}', '{}', '{}', NULL, NULL, ''),
			('database', NULL, 'pg_stat_database', '%s', '{datid}', '{datname,numbackends}', '{}', NULL, NULL, NULL, NULL),
			('bgwriter', NULL, 'pg_stat_bgwriter', '%s', '{}', '{}', '{}', NULL, NULL, NULL, NULL),
			('checkpointer', NULL, 'pg_stat_checkpointer', '%s', '{}', '{}', '{}', NULL, NULL, NULL, NULL),
			('wal', NULL, 'pg_stat_wal', '%s', '{}', '{}', '{}', NULL, NULL, NULL, NULL),
			('io', NULL, 'pg_stat_io', '%s', '{backend_type,object,context}', '{backend_type,object,context,op_bytes}', '{}',
			 NULL, NULL, NULL, NULL),
			('relations', NULL, 'pg_class',
			 $q$(SELECT c.oid, n.nspname AS schema, c.relname AS name, c.relkind AS kind, t.spcname AS tablespace,
					coalesce(i.indrelid, m.oid)::regclass AS of, greatest(c.relpages, 0)::int8 * current_setting('block_size')::int8 AS bytes,
					pg_stat_get_blocks_fetched(c.oid) - pg_stat_get_blocks_hit(c.oid) AS blks_read,
					pg_stat_get_blocks_hit(c.oid) AS blks_hit, pg_stat_get_numscans(c.oid) AS scans,
					pg_stat_get_tuples_inserted(c.oid) AS tup_inserted, pg_stat_get_tuples_updated(c.oid) AS tup_updated,
					pg_stat_get_tuples_deleted(c.oid) AS tup_deleted,
					pg_stat_get_tuples_inserted(c.oid) + pg_stat_get_tuples_updated(c.oid) + pg_stat_get_tuples_deleted(c.oid) AS tup_changed
				FROM %s c JOIN pg_namespace n ON n.oid = c.relnamespace
					LEFT JOIN pg_index i ON i.indexrelid = c.oid
					LEFT JOIN pg_class m ON m.reltoastrelid = c.oid AND c.relkind = 't'
					JOIN pg_tablespace t ON t.oid = CASE WHEN c.reltablespace <> 0 THEN c.reltablespace
						ELSE (SELECT dattablespace FROM pg_database WHERE datname = current_database()) END
				WHERE c.relkind IN ('r', 'i', 't', 'm'))$q$,
			 '{oid}', '{}', '{schema,name,kind,tablespace,of,bytes}',
			 '{blks_read,blks_hit,scans,tup_inserted,tup_updated,tup_deleted,tup_changed}', '{blks_read,tup_changed}', 'tablespace',
			 '(SELECT stats_reset::text FROM pg_stat_database WHERE datname = current_database())'),
			('statements', 'pg_stat_statements', 'pg_stat_statements',
			 $q$(SELECT s.*, r.rolname, d.datname FROM %s s LEFT JOIN pg_roles r ON r.oid = s.userid
				LEFT JOIN pg_database d ON d.oid = s.dbid WHERE s.queryid IS NOT NULL)$q$,
			 '{userid,dbid,queryid,toplevel}', '{query}', '{rolname,datname}', NULL, '{total_exec_time,shared_blks_read}', NULL,
			 '(SELECT stats_reset::text FROM %s.pg_stat_statements_info)'),
			('kcache', 'pg_stat_kcache', 'pg_stat_kcache', '%s', '{datname}', '{datname}', '{}', NULL, NULL, NULL, NULL),
			('wait_sampling', 'pg_wait_sampling', 'pg_wait_sampling_profile',
			 $q$(SELECT event_type, event, sum(count) FILTER (WHERE pid <> ALL ($7)) AS count, sum(count) AS all_processes
				FROM %s GROUP BY 1, 2)$q$, '{event_type,event}', '{event_type,event}', '{}', '{count,all_processes}', NULL, NULL, '')
		) AS s(section, extension, view, rows, keys, labels, more, counted, weights, grp, epoch)
	LOOP
		section := source.section;
		data := NULL;
		state := NULL;
		reset := false;
		problem := NULL;
		relation := NULL;
		BEGIN
			IF source.extension IS NULL THEN
				relation := to_regclass('pg_catalog.' || source.view);
			ELSE
				SELECT c.oid INTO relation
				FROM pg_extension e
					JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
					JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
				WHERE e.extname = source.extension AND c.relname = source.view AND c.relnamespace = e.extnamespace;
			END IF;
			IF relation IS NULL THEN
				problem := CASE
					WHEN source.extension IS NULL THEN 'this version of the server does not have it'
					WHEN source.extension = 'pg_flashcache' THEN 'this version of the extension does not have it'
					ELSE format('the extension %s is not installed in this database', source.extension) END;
				RETURN NEXT;
				CONTINUE;
			END IF;
			/*
			 * Its name is looked up once more below: whoever owns the schema could have put something else there by then.
			 * And what a view calls, it calls with the rights of whoever reads it.
			 */
			SELECT CASE WHEN NOT o.rolsuper AND o.rolname <> current_user THEN
				format('schema %I belongs to %I, who is no superuser', n.nspname, o.rolname)
				ELSE format('%I belongs to %I, who is no superuser', v.name, w.rolname) END INTO problem
			FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
				JOIN pg_database d ON d.datname = current_database()
				JOIN pg_roles o ON o.oid = CASE n.nspowner WHEN 'pg_database_owner'::regrole THEN d.datdba ELSE n.nspowner END
				-- the last two say since when
				CROSS JOIN LATERAL (SELECT c.relname AS name, c.relowner AS owner
					UNION ALL SELECT v.relname, v.relowner FROM pg_class v
						WHERE v.relnamespace = n.oid AND v.relname = 'pg_stat_flashcache' AND source.extension = 'pg_flashcache'
					UNION ALL SELECT p.proname, p.proowner FROM pg_proc p
						WHERE p.pronamespace = n.oid AND p.proname = 'pg_flashcache_tracking_stat' AND p.pronargs = 0 AND source.extension = 'pg_flashcache') v
				JOIN pg_roles w ON w.oid = v.owner
			WHERE c.oid = relation AND (NOT o.rolsuper AND o.rolname <> current_user OR NOT w.rolsuper AND w.rolname <> current_user)
			LIMIT 1;
			IF problem IS NOT NULL THEN
				RETURN NEXT;
				CONTINUE;
			END IF;
			SELECT array_agg(attname::text),
				array_agg(attname::text ORDER BY attnum) FILTER (WHERE
					atttypid = ANY ('{int2,int4,int8,float4,float8,numeric}'::regtype[])
					AND NOT attname = ANY (source.keys || source.labels)
					AND attname !~ '^(min|max|mean|stddev)_|_max$|_per_')
			INTO present, counters
			FROM pg_attribute WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped;
			counters := coalesce(source.counted, counters);
			labels := ARRAY(SELECT l FROM unnest(source.labels) l WHERE l = ANY (present)) || source.more;
			since := (SELECT format('v.%I::text', c) FROM unnest('{stats_since,stats_reset}'::text[]) c
				WHERE c = ANY (present) AND source.counted IS NULL LIMIT 1);
			SELECT quote_ident(n.nspname) INTO schema FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation;
			epoch := nullif(format(source.epoch, schema), '');
			-- Old objects of that extension lack the view that says since when.
			IF source.section = 'statements' AND NOT EXISTS (
				SELECT FROM pg_depend d JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
				WHERE c.relname = 'pg_stat_statements_info' AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = relation)
					AND (SELECT rolsuper FROM pg_roles WHERE oid = c.relowner)
					AND d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
					AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = source.extension)) THEN
				epoch := NULL;
			END IF;
			known := before -> source.section;
			background := '{}';
			IF source.section = 'cache' THEN
				EXECUTE format('SELECT v.writer_pid FROM %s v', relation::regclass) INTO writer;
			ELSIF source.section = 'wait_sampling' THEN
				IF current_setting('pg_wait_sampling.profile_pid', true) = 'off' THEN
					problem := 'pg_wait_sampling.profile_pid is off: waits of sessions and of background processes cannot be told apart';
					RETURN NEXT;
					CONTINUE;
				END IF;
				/*
				 * Processes that are no sessions, nor parallel workers of sessions.  pg_stat_activity knows most that are there, but
				 * not those without a database, such as the writer.  Of those that are gone it knows nothing: what they were at an
				 * earlier snapshot is kept with the state.  The others are told by their waits: that of a main loop, or those of
				 * autovacuum, or nothing but waits of extensions, where a session has a query identifier or waits for its client.
				 * Any doubt is a session.  Process 0 stands for all, from a time when processes were not told apart.
				 */
				EXECUTE format($q$
					SELECT coalesce(array_agg(w.pid), '{}')
					FROM (SELECT v.pid, bool_or(v.event_type = 'Activity' OR v.event IN ('WalSenderWaitForWAL', 'WalSenderWaitForWal',
								'WalSenderWriteData', 'CheckpointWriteDelay', 'FlashcacheWriterMain', 'FlashcacheWrite',
								'FlashcacheFollowerMain')) AS never_of_session,
							bool_or(v.event = 'VacuumDelay') OR bool_and(v.event_type = 'Extension' AND v.event NOT LIKE 'Flashcache%%') AS as_background,
							bool_or(v.queryid <> 0 OR v.event = 'ClientRead') AS as_session
						FROM %s v GROUP BY 1) w
						LEFT JOIN pg_stat_activity a ON a.pid = w.pid
					WHERE CASE WHEN w.pid = 0 THEN true
						WHEN a.pid IS NOT NULL THEN a.backend_type NOT IN ('client backend', 'parallel worker')
						ELSE w.pid = $1 OR w.pid = ANY ($2) OR w.never_of_session OR w.as_background AND NOT w.as_session END$q$, relation::regclass)
				INTO background
				USING writer, ARRAY(SELECT e::integer FROM jsonb_array_elements_text(known #> '{background,pids}') e);
			END IF;

			statement := format($q$
				WITH epoch AS MATERIALIZED (SELECT %7$s AS at),
				now AS MATERIALIZED (
					SELECT array_to_string(ARRAY[%1$s]::text[], '/', '-') AS key, %2$s AS grp, %3$s AS since,
						coalesce(jsonb_strip_nulls((SELECT to_jsonb(l) FROM (SELECT %4$s) l)), '{}') AS labels,
						coalesce((SELECT jsonb_object_agg(e.key, e.value) FROM jsonb_each((SELECT to_jsonb(c) FROM (SELECT %5$s) c)) e
							WHERE e.value NOT IN ('null', '0')), '{}') AS counters
					FROM %6$s v),
				compared AS (
					SELECT n.key, n.grp, n.labels, n.counters, k.value -> 'c' AS was,
						k.key IS NOT NULL AND e.at IS DISTINCT FROM k.value ->> 'e' AS epoch,
						k.key IS NOT NULL AND n.since IS DISTINCT FROM k.value ->> 's' AND (NOT $5 OR f.fell) AS since, f.fell
					FROM epoch e CROSS JOIN now n LEFT JOIN jsonb_each($1) k ON k.key = n.key
						CROSS JOIN LATERAL (SELECT EXISTS (
							SELECT FROM jsonb_each(k.value -> 'c') c
							WHERE c.value::numeric > coalesce((n.counters -> c.key)::numeric, 0) AND NOT ($8 AND c.key = 'count')) AS fell) f
					WHERE $1 IS NOT NULL AND ($4 OR n.counters IS DISTINCT FROM coalesce(k.value -> 'c', '{}')
						OR n.since IS DISTINCT FROM k.value ->> 's' OR e.at IS DISTINCT FROM k.value ->> 'e')),
				moved AS (
					SELECT c.key, c.grp, c.labels, (
						SELECT jsonb_object_agg(e.key, trim_scale(round(d.delta, 3))) FROM jsonb_each(c.counters) e
							CROSS JOIN LATERAL (SELECT e.value::numeric
								- CASE WHEN c.since OR c.fell OR (c.epoch AND $6) THEN 0 ELSE coalesce((c.was -> e.key)::numeric, 0) END AS delta) d
						WHERE d.delta > 0 OR (d.delta < 0 AND NOT $8)) AS moved
					FROM compared c),
				ranks AS (
					SELECT r.key, min(r.rank) AS rank FROM (
						SELECT o.key, row_number() OVER (PARTITION BY w ORDER BY coalesce((o.moved ->> w)::numeric, 0) DESC, o.key) AS rank
						FROM moved o CROSS JOIN unnest($2) w WHERE o.moved IS NOT NULL) r
					GROUP BY 1),
				ranked AS (
					SELECT m.*, coalesce(k.rank, 1) AS rank FROM moved m LEFT JOIN ranks k ON k.key = m.key
					WHERE m.moved IS NOT NULL OR $4),
				rest AS (
					SELECT r.grp, e.key, sum(e.value::numeric) AS total FROM ranked r CROSS JOIN LATERAL jsonb_each(r.moved) e
					WHERE r.rank > $3 GROUP BY 1, 2)
				SELECT
					CASE WHEN $1 IS NOT NULL THEN coalesce((
						SELECT jsonb_agg(jsonb_build_object('key', r.key, 'labels', r.labels, 'moved', coalesce(r.moved, '{}')) ORDER BY r.rank, r.key)
						FROM ranked r WHERE r.rank <= $3), '[]')
					|| coalesce((
						SELECT jsonb_agg(jsonb_build_object('key', concat_ws('/', 'rest', g.grp), 'labels', jsonb_strip_nulls(jsonb_build_object(
							'tablespace', g.grp, 'rest', (SELECT count(*) FROM ranked r WHERE r.rank > $3 AND r.grp IS NOT DISTINCT FROM g.grp))),
							'moved', g.moved))
						FROM (SELECT grp, jsonb_object_agg(key, total) AS moved FROM rest GROUP BY 1) g), '[]') END,
					(SELECT coalesce(jsonb_object_agg(n.key, jsonb_strip_nulls(jsonb_build_object('s', n.since, 'e', e.at, 'c', n.counters))), '{}')
						FROM epoch e CROSS JOIN now n WHERE n.counters <> '{}'),
					coalesce((SELECT bool_or(c.%8$I) FROM compared c), false)$q$,
				(SELECT string_agg(format('v.%I::text', k), ', ' ORDER BY o) FROM unnest(source.keys) WITH ORDINALITY u(k, o)),
				CASE WHEN source.grp IS NULL THEN 'NULL::text' ELSE format('v.%I::text', source.grp) END,
				coalesce(since, 'NULL::text'),
				(SELECT string_agg(CASE WHEN l = 'query' THEN 'left(v.query, 2000) AS query' ELSE format('v.%I', l) END, ', ') FROM unnest(labels) l),
				(SELECT string_agg(format('v.%I', c), ', ') FROM unnest(counters) c),
				format(source.rows, relation::regclass),
				coalesce(epoch, 'NULL::text'),
				CASE source.epoch WHEN '' THEN 'fell' ELSE CASE WHEN epoch IS NULL THEN 'since' ELSE 'epoch' END END);
			BEGIN
				EXECUTE statement INTO data, state, reset
					USING known, source.weights, top_rows, source.section IN ('cache', 'advice'), source.section = 'database',
						source.section <> 'relations', background, source.section = 'wait_sampling';
			EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character OR undefined_function THEN
				/*
				 * pg_stat_statements has texts of all databases, and answers nobody while one of them has no form in the encoding of
				 * this one.  The function behind it gives counters without texts.
				 */
				problem := SQLERRM;
				SELECT p.oid INTO bare
				FROM pg_extension e
					JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
					JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
					JOIN pg_language l ON l.oid = p.prolang
				WHERE source.section = 'statements' AND e.extname = source.extension AND p.proname = 'pg_stat_statements'
					AND p.pronargs = 1 AND p.proargtypes[0] = 'bool'::regtype AND l.lanname = 'c' AND p.pronamespace = e.extnamespace;
				IF bare IS NULL THEN
					RAISE;
				END IF;
				EXECUTE replace(statement, format('FROM %s s LEFT JOIN', relation::regclass), format('FROM %s(false) s LEFT JOIN', bare::regproc))
					INTO data, state, reset
					USING known, source.weights, top_rows, false, false, true, background, false;
				problem := 'without texts: ' || problem;
			END;
			-- Its counts are of those that are taken for sessions: they may fall where a process is known better than before.
			IF source.section = 'wait_sampling' THEN
				state := state || jsonb_build_object('background', jsonb_build_object('pids', to_jsonb(background)));
			END IF;
			IF data IS NULL THEN
				problem := CASE WHEN another THEN 'counted from this snapshot on, the first after a failover'
					ELSE 'counted from this snapshot on' END;
			END IF;
		EXCEPTION WHEN OTHERS THEN
			data := NULL;
			state := NULL;
			reset := false;
			problem := SQLERRM;
		END;
		RETURN NEXT;
	END LOOP;

	section := 'settings';
	state := jsonb_build_object('timeline', timeline);
	reset := false;
	problem := NULL;
	SELECT jsonb_build_array(jsonb_build_object('key', '', 'moved', '{}'::jsonb, 'labels', jsonb_build_object('timeline', timeline)
		|| jsonb_object_agg(s.name, current_setting(s.name))))
	INTO data FROM pg_settings s
	WHERE s.name LIKE 'pg\_flashcache.%' AND s.name NOT IN ('pg_flashcache.file', 'pg_flashcache.follow_conninfo')
		OR s.name LIKE 'pg\_wait\_sampling.%' OR s.name IN ('cluster_name', 'shared_buffers', 'effective_cache_size', 'max_connections', 'track_io_timing', 'block_size', 'io_method',
			'checkpoint_timeout', 'max_wal_size', 'work_mem', 'compute_query_id');
	RETURN NEXT;
END
$body$;

COMMENT ON FUNCTION pg_flashcache_snapshot_collect(jsonb, integer) IS
	'by how much counters moved; for pg_flashcache_snapshot()';

CREATE FUNCTION pg_flashcache_check_retention(
	keep interval,
	max_bytes bigint,
	settings_lost boolean,
	tables regclass[])
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	stranger text;
BEGIN
	-- A trigger runs with the rights of whoever writes to its table, and one on a table that refers to it with those of whoever deletes
	-- from it: both are easily granted with ALL, and by default privileges.
	SELECT s.name INTO stranger FROM (
		SELECT coalesce(r.rolname, 'PUBLIC') FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
		WHERE c.oid = ANY (tables) AND a.privilege_type IN ('TRIGGER', 'REFERENCES') AND r.rolsuper IS NOT TRUE
		UNION ALL
		SELECT coalesce(r.rolname, 'PUBLIC') FROM pg_attribute c CROSS JOIN LATERAL aclexplode(c.attacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
		WHERE c.attrelid = ANY (tables) AND a.privilege_type = 'REFERENCES' AND r.rolsuper IS NOT TRUE
		UNION ALL
		SELECT r.rolname FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_roles r ON r.oid = c.relowner
		WHERE k.contype = 'f' AND k.confrelid = ANY (tables) AND NOT r.rolsuper
		UNION ALL
		SELECT r.rolname FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_roles r ON r.oid = p.proowner
		WHERE t.tgrelid = ANY (tables) AND NOT t.tgisinternal AND NOT r.rolsuper
		UNION ALL
		SELECT 'PUBLIC' FROM pg_trigger t WHERE t.tgrelid = ANY (tables) AND t.tgqual IS NOT NULL) s(name)
	ORDER BY 1 LIMIT 1;
	IF stranger IS NOT NULL THEN
		RAISE object_not_in_prerequisite_state USING MESSAGE = format('%s can have code run by whoever takes or drops snapshots', stranger),
			HINT = 'REVOKE TRIGGER, REFERENCES on the tables pg_flashcache_snapshot... from all who are no superusers, and drop triggers and foreign keys that are there.';
	END IF;
	IF settings_lost THEN
		RAISE object_not_in_prerequisite_state USING MESSAGE = 'the row of pg_flashcache_snapshot_settings is missing',
			HINT = 'INSERT INTO pg_flashcache_snapshot_settings DEFAULT VALUES, as a superuser, puts it back.';
	END IF;
	IF keep <> '0' AND (keep < '1 hour' OR keep > '100 years') THEN
		RAISE invalid_parameter_value USING MESSAGE = format('snapshots cannot be kept for %s', keep),
			HINT = 'Give an hour to 100 years, as in ''14 days'', or ''0'' to keep the newest one only. A number without a unit is in seconds.';
	END IF;
	IF max_bytes < 0 THEN
		RAISE invalid_parameter_value USING MESSAGE = format('snapshots cannot take %s bytes', max_bytes),
			HINT = 'Give a number of bytes from 0 on; 0 keeps the newest one only.';
	END IF;
END
$body$;

COMMENT ON FUNCTION pg_flashcache_check_retention(interval, bigint, boolean, regclass[]) IS
	'refuses what would drop snapshots by a mistake, or run code of others; for the functions that take and drop them';

CREATE FUNCTION pg_flashcache_drop_snapshots(
	keep interval DEFAULT NULL,
	max_bytes bigint DEFAULT NULL)
RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT @extschema@.pg_flashcache_check_retention(pg_flashcache_drop_snapshots.keep, pg_flashcache_drop_snapshots.max_bytes,
		NOT EXISTS (SELECT FROM @extschema@.pg_flashcache_snapshot_settings),
		ARRAY['@extschema@.pg_flashcache_snapshots'::pg_catalog.regclass, '@extschema@.pg_flashcache_snapshot_data'::pg_catalog.regclass,
			'@extschema@.pg_flashcache_snapshot_state'::pg_catalog.regclass, '@extschema@.pg_flashcache_snapshot_settings'::pg_catalog.regclass]);
	WITH sizes AS (
		SELECT d.snapshot, pg_catalog.sum(pg_catalog.pg_column_size(d.data)) AS bytes
		FROM @extschema@.pg_flashcache_snapshot_data d GROUP BY d.snapshot),
	ordered AS (
		SELECT s.id, s.taken_at, pg_catalog.max(s.id) OVER () AS newest,
			pg_catalog.sum(z.bytes) OVER (ORDER BY s.id DESC) AS bytes
		FROM @extschema@.pg_flashcache_snapshots s LEFT JOIN sizes z ON z.snapshot OPERATOR(pg_catalog.=) s.id),
	gone AS (
		DELETE FROM @extschema@.pg_flashcache_snapshots s
		WHERE s.id OPERATOR(pg_catalog.<=) (
			SELECT pg_catalog.max(o.id) FROM ordered o CROSS JOIN @extschema@.pg_flashcache_snapshot_settings t
			WHERE o.id OPERATOR(pg_catalog.<) o.newest
				AND (o.taken_at OPERATOR(pg_catalog.<) (pg_catalog.now() OPERATOR(pg_catalog.-)
						COALESCE(pg_flashcache_drop_snapshots.keep, t.keep))
					OR o.bytes OPERATOR(pg_catalog.>) COALESCE(pg_flashcache_drop_snapshots.max_bytes, t.max_bytes)::pg_catalog.numeric))
		RETURNING s.id),
	emptied AS (
		DELETE FROM @extschema@.pg_flashcache_snapshot_data d USING gone g WHERE d.snapshot OPERATOR(pg_catalog.=) g.id)
	SELECT pg_catalog.count(*) FROM gone;
END;

COMMENT ON FUNCTION pg_flashcache_drop_snapshots(interval, bigint) IS
	'drops the oldest snapshots, those older than keep and those beyond max_bytes, but never the newest; returns how many';

CREATE FUNCTION pg_flashcache_snapshot(
	note text DEFAULT NULL,
	keep interval DEFAULT NULL,
	max_bytes bigint DEFAULT NULL)
RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT @extschema@.pg_flashcache_check_retention(pg_flashcache_snapshot.keep, pg_flashcache_snapshot.max_bytes,
		NOT EXISTS (SELECT FROM @extschema@.pg_flashcache_snapshot_settings),
		ARRAY['@extschema@.pg_flashcache_snapshots'::pg_catalog.regclass, '@extschema@.pg_flashcache_snapshot_data'::pg_catalog.regclass,
			'@extschema@.pg_flashcache_snapshot_state'::pg_catalog.regclass, '@extschema@.pg_flashcache_snapshot_settings'::pg_catalog.regclass]);
	-- A row that was lost and put back begins at 0, though there are snapshots.
	UPDATE @extschema@.pg_flashcache_snapshot_settings t
		SET last_snapshot = GREATEST(t.last_snapshot, (SELECT pg_catalog.max(s.id) FROM @extschema@.pg_flashcache_snapshots s))
			OPERATOR(pg_catalog.+) 1::pg_catalog.int8;
	WITH collected AS MATERIALIZED (
		SELECT c.section, c.data, c.state, c.reset, c.problem
		FROM @extschema@.pg_flashcache_snapshot_settings t
			CROSS JOIN LATERAL @extschema@.pg_flashcache_snapshot_collect(
				COALESCE((SELECT pg_catalog.jsonb_object_agg(s.section, s.data) FROM @extschema@.pg_flashcache_snapshot_state s),
					'{}'::pg_catalog.jsonb), t.top_rows) c),
	stored AS (
		INSERT INTO @extschema@.pg_flashcache_snapshot_data
			SELECT t.last_snapshot, c.section, c.data
			FROM @extschema@.pg_flashcache_snapshot_settings t CROSS JOIN collected c WHERE c.data IS NOT NULL),
	stands AS (
		INSERT INTO @extschema@.pg_flashcache_snapshot_state
			SELECT c.section, c.state FROM collected c WHERE c.state IS NOT NULL
		ON CONFLICT (section) DO UPDATE SET data = excluded.data)
	INSERT INTO @extschema@.pg_flashcache_snapshots
		SELECT t.last_snapshot, pg_catalog.clock_timestamp(), pg_catalog.current_database(), pg_flashcache_snapshot.note,
			pg_catalog.pg_postmaster_start_time(), pg_catalog.current_setting('server_version_num')::pg_catalog.int4,
			COALESCE((SELECT pg_catalog.array_agg(c.section ORDER BY c.section) FROM collected c WHERE c.reset),
				'{}'::pg_catalog.text[]),
			COALESCE((SELECT pg_catalog.jsonb_object_agg(c.section, c.problem) FROM collected c WHERE c.problem IS NOT NULL),
				'{}'::pg_catalog.jsonb)
		FROM @extschema@.pg_flashcache_snapshot_settings t;
	SELECT @extschema@.pg_flashcache_drop_snapshots(pg_flashcache_snapshot.keep, pg_flashcache_snapshot.max_bytes);
	SELECT t.last_snapshot FROM @extschema@.pg_flashcache_snapshot_settings t;
END;

COMMENT ON FUNCTION pg_flashcache_snapshot(text, interval, bigint) IS
	'takes a snapshot of the statistics, drops those that are too old or too many, and returns its number';

REVOKE ALL ON FUNCTION pg_flashcache_snapshot(text, interval, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_snapshot_collect(jsonb, integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_drop_snapshots(interval, bigint) FROM PUBLIC;
REVOKE ALL ON pg_flashcache_snapshots, pg_flashcache_snapshot_data, pg_flashcache_snapshot_state,
	pg_flashcache_snapshot_settings FROM PUBLIC;
GRANT SELECT ON pg_flashcache_snapshots, pg_flashcache_snapshot_data, pg_flashcache_snapshot_settings TO pg_read_all_stats;
-- A standby that follows its primary's cache

CREATE FUNCTION pg_flashcache_warmth(
	OUT state text,
	OUT reason text,
	OUT pulled_at timestamptz,
	OUT age float8,
	OUT too_old boolean,
	OUT pages bigint,
	OUT here bigint,
	OUT share float8,
	OUT hot_pages bigint,
	OUT hot_here bigint,
	OUT hot_share float8,
	OUT missing_locked bigint,
	OUT missing_no_room bigint,
	OUT missing_database bigint,
	OUT missing_gone bigint,
	OUT missing_unreadable bigint,
	OUT rounds bigint,
	OUT loaded bigint)
RETURNS record
AS 'MODULE_PATHNAME', 'fc_warmth'
LANGUAGE C VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION pg_flashcache_warmth() IS
	'how much of the cache of the server that it follows is on a standby; see view pg_flashcache_warmth';

CREATE VIEW pg_flashcache_warmth AS
	SELECT * FROM @extschema@.pg_flashcache_warmth();

COMMENT ON VIEW pg_flashcache_warmth IS
	'how much of the cache of the server that it follows is on a standby';
COMMENT ON COLUMN pg_flashcache_warmth.state IS
	'what the follower does: off, pulling, loading, waiting, or failed, which waits as well';
COMMENT ON COLUMN pg_flashcache_warmth.reason IS
	'why it is off or has failed';
COMMENT ON COLUMN pg_flashcache_warmth.pulled_at IS
	'when the last map was received; NULL: none yet since the start of the server';
COMMENT ON COLUMN pg_flashcache_warmth.age IS
	'time since then, in seconds';
COMMENT ON COLUMN pg_flashcache_warmth.too_old IS
	'whether that is too long for pg_flashcache_is_warm(): more than five pauses between maps';
COMMENT ON COLUMN pg_flashcache_warmth.pages IS
	'pages that the last map names';
COMMENT ON COLUMN pg_flashcache_warmth.here IS
	'those of them that are on flash or in shared buffers here, when that was last compared';
COMMENT ON COLUMN pg_flashcache_warmth.share IS
	'here / pages';
COMMENT ON COLUMN pg_flashcache_warmth.hot_pages IS
	'pages that the last map names, and that were hit on the other server';
COMMENT ON COLUMN pg_flashcache_warmth.hot_here IS
	'those of them that are on flash or in shared buffers here';
COMMENT ON COLUMN pg_flashcache_warmth.hot_share IS
	'hot_here / hot_pages';
COMMENT ON COLUMN pg_flashcache_warmth.missing_locked IS
	'pages not loaded in the last round since their relation was locked, or in the way of recovery';
COMMENT ON COLUMN pg_flashcache_warmth.missing_no_room IS
	'pages not loaded in the last round since no slot was free, or unused';
COMMENT ON COLUMN pg_flashcache_warmth.missing_database IS
	'pages not loaded in the last round since their database could not be connected to';
COMMENT ON COLUMN pg_flashcache_warmth.missing_gone IS
	'pages not loaded in the last round since no relation here has them';
COMMENT ON COLUMN pg_flashcache_warmth.missing_unreadable IS
	'pages not loaded in the last round since they could not be read, or not be written to flash';
COMMENT ON COLUMN pg_flashcache_warmth.rounds IS
	'rounds of the follower since the start of the server';
COMMENT ON COLUMN pg_flashcache_warmth.loaded IS
	'pages that these have loaded';

CREATE FUNCTION pg_flashcache_is_warm(share float8 DEFAULT 0.9) RETURNS boolean
AS 'MODULE_PATHNAME', 'fc_is_warm'
LANGUAGE C VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION pg_flashcache_is_warm(float8) IS
	'whether that share of the cache of the server that it follows is on this standby, by a map that is not too old';

REVOKE ALL ON FUNCTION pg_flashcache_warmth() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_is_warm(float8) FROM PUBLIC;
REVOKE ALL ON pg_flashcache_warmth FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pg_flashcache_warmth() TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_flashcache_is_warm(float8) TO pg_read_all_stats;
GRANT SELECT ON pg_flashcache_warmth TO pg_read_all_stats;

-- ---- maps ----

CREATE FUNCTION pg_flashcache_export_map(
	database oid,
	buffers boolean,
	OUT reltablespace oid,
	OUT reldatabase oid,
	OUT relfilenode oid,
	OUT heat smallint,
	OUT first_block bigint,
	OUT pages integer,
	OUT bitmap bytea)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'fc_export_map_with'
LANGUAGE C VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION pg_flashcache_export_map(oid, boolean) IS
	'map of the pages in the flash cache and, if the second argument is true, in shared_buffers, for pg_flashcache_import_map() of another server';

REVOKE ALL ON FUNCTION pg_flashcache_export_map(oid, boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pg_flashcache_export_map(oid, boolean) TO pg_read_all_stats;

-- ---- devices ----

CREATE FUNCTION pg_flashcache_device_rows(
	OUT device integer,
	OUT path text,
	OUT state text,
	OUT reason text,
	OUT since timestamptz,
	OUT next_probe timestamptz,
	OUT size bigint,
	OUT used bigint,
	OUT reads bigint,
	OUT read_us double precision,
	OUT writes bigint,
	OUT write_bytes bigint,
	OUT write_us double precision,
	OUT read_errors bigint,
	OUT write_errors bigint,
	OUT timeouts bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'fc_devices_rows'
LANGUAGE C VOLATILE PARALLEL SAFE ROWS 8;

COMMENT ON FUNCTION pg_flashcache_device_rows() IS
	'devices of the flash cache; see view pg_stat_flashcache_device';

CREATE VIEW pg_stat_flashcache_device AS
	SELECT * FROM @extschema@.pg_flashcache_device_rows();

COMMENT ON VIEW pg_stat_flashcache_device IS
	'devices of the flash cache, one row each, with what was done with them since the start of the server';

COMMENT ON COLUMN pg_stat_flashcache_device.device IS
	'number of the device; 1 is that of pg_flashcache.file';
COMMENT ON COLUMN pg_stat_flashcache_device.path IS
	'file or block device';
COMMENT ON COLUMN pg_stat_flashcache_device.state IS
	'of the first device the state of the cache, or off while it alone is; of others starting, active, draining (it is being removed), off (in trouble, and tried again by itself) or disabled';
COMMENT ON COLUMN pg_stat_flashcache_device.reason IS
	'why it is in that state; NULL if it is active, but while it is not read from since another device did not answer';
COMMENT ON COLUMN pg_stat_flashcache_device.since IS
	'since when it has been in that state';
COMMENT ON COLUMN pg_stat_flashcache_device.next_probe IS
	'when a device that is off is tried again; NULL otherwise';
COMMENT ON COLUMN pg_stat_flashcache_device.size IS
	'bytes for pages';
COMMENT ON COLUMN pg_stat_flashcache_device.used IS
	'pages on it; of a device that is off, pages that it may bring back';
COMMENT ON COLUMN pg_stat_flashcache_device.reads IS
	'pages read from it';
COMMENT ON COLUMN pg_stat_flashcache_device.read_us IS
	'microseconds that a request of a session to read took on average, of one page or several; NULL if there was none';
COMMENT ON COLUMN pg_stat_flashcache_device.writes IS
	'pages written to it';
COMMENT ON COLUMN pg_stat_flashcache_device.write_bytes IS
	'bytes of these';
COMMENT ON COLUMN pg_stat_flashcache_device.write_us IS
	'microseconds that a request to write took on average, of one page or several; NULL if there was none';
COMMENT ON COLUMN pg_stat_flashcache_device.read_errors IS
	'requests to read that failed, or were not answered in time';
COMMENT ON COLUMN pg_stat_flashcache_device.write_errors IS
	'requests to write or flush that failed, or were not answered in time';
COMMENT ON COLUMN pg_stat_flashcache_device.timeouts IS
	'requests that were not answered within pg_flashcache.io_timeout';

CREATE FUNCTION pg_flashcache_add_device(path text, size bigint)
RETURNS void
AS 'MODULE_PATHNAME', 'fc_add_device'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_flashcache_add_device(text, bigint) IS
	'adds a file or block device, of so many bytes, to the flash cache; the file is made if it is not there';

CREATE FUNCTION pg_flashcache_remove_device(path text)
RETURNS void
AS 'MODULE_PATHNAME', 'fc_remove_device'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_flashcache_remove_device(text) IS
	'forgets the pages on a device of the flash cache, and lets go of it; the file stays';

CREATE FUNCTION pg_flashcache_resize_device(path text, size bigint)
RETURNS void
AS 'MODULE_PATHNAME', 'fc_resize_device'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_flashcache_resize_device(text, bigint) IS
	'makes a device of the flash cache larger or smaller, in bytes; pages on what is left stay';

CREATE FUNCTION pg_flashcache_disable_device(path text)
RETURNS void
AS 'MODULE_PATHNAME', 'fc_disable_device'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_flashcache_disable_device(text) IS
	'forgets the pages on a device of the flash cache, and does not use it until it is enabled, also after a restart';

CREATE FUNCTION pg_flashcache_enable_device(path text)
RETURNS void
AS 'MODULE_PATHNAME', 'fc_enable_device'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_flashcache_enable_device(text) IS
	'uses a device of the flash cache that was disabled, or tries at once one that is off';

REVOKE ALL ON FUNCTION pg_flashcache_device_rows() FROM PUBLIC;
REVOKE ALL ON pg_stat_flashcache_device FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_add_device(text, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_remove_device(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_resize_device(text, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_disable_device(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_enable_device(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pg_flashcache_device_rows() TO pg_monitor;
GRANT SELECT ON pg_stat_flashcache_device TO pg_monitor;

-- ---- drives below the devices ----

CREATE FUNCTION pg_flashcache_device_health_rows(
	OUT device integer,
	OUT path text,
	OUT drive text,
	OUT model text,
	OUT reported timestamptz,
	OUT health integer,
	OUT passed boolean,
	OUT used_percent integer,
	OUT spare_percent integer,
	OUT spare_threshold integer,
	OUT media_errors bigint,
	OUT temperature integer,
	OUT written bigint,
	OUT written_today bigint,
	OUT cache_written_today bigint,
	OUT rated_bytes_a_day bigint,
	OUT days_left bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'fc_device_health_rows'
LANGUAGE C VOLATILE PARALLEL SAFE ROWS 8;

COMMENT ON FUNCTION pg_flashcache_device_health_rows() IS
	'what was reported of the drives below the devices of the flash cache; see view pg_stat_flashcache_device_health';

CREATE VIEW pg_stat_flashcache_device_health AS
	SELECT h.*, pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) h.reported AS age
	FROM @extschema@.pg_flashcache_device_health_rows() AS h;

COMMENT ON VIEW pg_stat_flashcache_device_health IS
	'devices of the flash cache, one row each, with what pgflash drives has reported of the drive below it; NULL where nothing was reported since the start of the server, or the drive does not say';

COMMENT ON COLUMN pg_stat_flashcache_device_health.device IS
	'number of the device; 1 is that of pg_flashcache.file';
COMMENT ON COLUMN pg_stat_flashcache_device_health.path IS
	'file or block device';
COMMENT ON COLUMN pg_stat_flashcache_device_health.drive IS
	'the drive; if there are several below the device, the one that is worst';
COMMENT ON COLUMN pg_stat_flashcache_device_health.model IS
	'its model';
COMMENT ON COLUMN pg_stat_flashcache_device_health.reported IS
	'when it was reported last';
COMMENT ON COLUMN pg_stat_flashcache_device_health.health IS
	'from 100 down to 0, the smaller of: percent left of its rated life (100 - used_percent); percent left of its spare blocks above their threshold (100 * (spare_percent - spare_threshold) / (100 - spare_threshold), 0 from the threshold down, 100 while all are there); 0 if it does not pass its own assessment';
COMMENT ON COLUMN pg_stat_flashcache_device_health.passed IS
	'does it pass its own assessment?';
COMMENT ON COLUMN pg_stat_flashcache_device_health.used_percent IS
	'percent of its rated life that is used; may be over 100';
COMMENT ON COLUMN pg_stat_flashcache_device_health.spare_percent IS
	'percent of its spare blocks that is left';
COMMENT ON COLUMN pg_stat_flashcache_device_health.spare_threshold IS
	'percent of its spare blocks at which it is to be replaced';
COMMENT ON COLUMN pg_stat_flashcache_device_health.media_errors IS
	'errors of its medium that it could not correct, in its life';
COMMENT ON COLUMN pg_stat_flashcache_device_health.temperature IS
	'degrees Celsius';
COMMENT ON COLUMN pg_stat_flashcache_device_health.written IS
	'bytes written to it in its life, by whomever';
COMMENT ON COLUMN pg_stat_flashcache_device_health.written_today IS
	'bytes of these since the first report of the day (UTC) of the last report';
COMMENT ON COLUMN pg_stat_flashcache_device_health.cache_written_today IS
	'bytes of pages that the cache has written to the device on this day (UTC), or since the start of the server if that was later';
COMMENT ON COLUMN pg_stat_flashcache_device_health.rated_bytes_a_day IS
	'bytes a day that it is made for, as pgflash drives was told; a report that does not say leaves what the last one on the same drive said';
COMMENT ON COLUMN pg_stat_flashcache_device_health.days_left IS
	'days until its rated life is used, if it is written as much a day as since the first report, of the last eight days at most; NULL before there have been reports for an hour';
COMMENT ON COLUMN pg_stat_flashcache_device_health.age IS
	'time since the last report';

CREATE FUNCTION pg_flashcache_report_drive(
	path text,
	drive text,
	model text DEFAULT NULL,
	passed boolean DEFAULT NULL,
	used_percent integer DEFAULT NULL,
	spare_percent integer DEFAULT NULL,
	spare_threshold integer DEFAULT NULL,
	media_errors bigint DEFAULT NULL,
	temperature integer DEFAULT NULL,
	written bigint DEFAULT NULL,
	rated_bytes_a_day bigint DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'fc_report_drive'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_flashcache_report_drive(text, text, text, boolean, integer, integer, integer, bigint, integer, bigint, bigint) IS
	'keeps what the drive below a device says of itself, for pg_stat_flashcache_device_health; called by pgflash drives';

REVOKE ALL ON FUNCTION pg_flashcache_device_health_rows() FROM PUBLIC;
REVOKE ALL ON pg_stat_flashcache_device_health FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_report_drive(text, text, text, boolean, integer, integer, integer, bigint, integer, bigint, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pg_flashcache_device_health_rows() TO pg_monitor;
GRANT SELECT ON pg_stat_flashcache_device_health TO pg_monitor;

-- ---- tablespaces that are read without the cache ----

CREATE FUNCTION pg_flashcache_tablespace_rows(
	OUT spcoid oid,
	OUT state text,
	OUT since timestamptz,
	OUT disk_read_us double precision,
	OUT flash_read_us double precision,
	OUT windows bigint,
	OUT bypasses bigint,
	OUT bypassed_reads bigint,
	OUT next_trial timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'fc_tablespaces'
LANGUAGE C VOLATILE PARALLEL SAFE ROWS 8;

COMMENT ON FUNCTION pg_flashcache_tablespace_rows() IS
	'which tablespaces are read without the cache; see view pg_flashcache_tablespaces';

CREATE VIEW pg_flashcache_tablespaces AS
	SELECT s.spcoid, t.spcname, s.state, s.since, s.disk_read_us, s.flash_read_us,
		s.windows, s.bypasses, s.bypassed_reads, s.next_trial
	FROM @extschema@.pg_flashcache_tablespace_rows() s
		JOIN pg_catalog.pg_tablespace t ON t.oid OPERATOR(pg_catalog.=) s.spcoid;

COMMENT ON VIEW pg_flashcache_tablespaces IS
	'whether reads of a tablespace use the cache, one row for each that was read since the start of the server (64 at most); see pg_flashcache.bypass';

COMMENT ON COLUMN pg_flashcache_tablespaces.spcoid IS
	'OID of the tablespace';
COMMENT ON COLUMN pg_flashcache_tablespaces.spcname IS
	'its name';
COMMENT ON COLUMN pg_flashcache_tablespaces.state IS
	'cached; bypassed: its disk is about as fast as flash, and nothing of it is read from flash or written there; trial: a part of its pages is read either way';
COMMENT ON COLUMN pg_flashcache_tablespaces.since IS
	'since when it has been cached, or bypassed, trials within that time included; NULL: not looked at yet';
COMMENT ON COLUMN pg_flashcache_tablespaces.disk_read_us IS
	'microseconds that reading a page from the disk took on average, in the last comparison; NULL: none yet';
COMMENT ON COLUMN pg_flashcache_tablespaces.flash_read_us IS
	'the same from flash, at the same time';
COMMENT ON COLUMN pg_flashcache_tablespaces.windows IS
	'comparisons since the start of the server';
COMMENT ON COLUMN pg_flashcache_tablespaces.bypasses IS
	'how often it has become bypassed since the start of the server';
COMMENT ON COLUMN pg_flashcache_tablespaces.bypassed_reads IS
	'pages that were not looked for on flash, in trials, too, since the start of the server; they are no misses';
COMMENT ON COLUMN pg_flashcache_tablespaces.next_trial IS
	'when it is compared again, at the earliest; NULL: at present, or as soon as it is read';

REVOKE ALL ON FUNCTION pg_flashcache_tablespace_rows() FROM PUBLIC;
REVOKE ALL ON pg_flashcache_tablespaces FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pg_flashcache_tablespace_rows() TO pg_read_all_stats;
GRANT SELECT ON pg_flashcache_tablespaces TO pg_read_all_stats;
/*
 * ---- cluster: the caches of several servers in one view ----
 *
 * A node is a foreign server of dblink_fdw with the type pg_flashcache: so who may see and change where it is, what pg_dump
 * writes of it, and how it comes to standbys is the server's own affair, and its password is in a user mapping.  dblink is
 * needed for nodes only, not to create this extension.
 *
 * Nodes are asked as the owner of the extension.  So only servers of superusers count, and dblink is used only from a schema
 * that superusers alone may use: nobody else can put something in its place, and a connection that is left in the session,
 * since a query was canceled just then, is of no use to its user, who cannot name a function of dblink.
 *
 * Of this extension the functions below look up nothing by its name, neither a function nor a type: who owns its schema may
 * let that name mean something of his own at any moment.  So each of them has the check of dblink itself.  They refuse such
 * a schema all the same: whoever reads a view there gives his own rights away.
 */
CREATE FUNCTION pg_flashcache_add_node(
	name text,
	conninfo text,
	timeout interval DEFAULT '3 seconds')
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	rest text := btrim(conninfo, E' \t\n\r');
	part text[];
	value text;
	found record;
	given jsonb := '{}';
	secrets constant text[] := '{user,password,sslpassword}';
	own constant text := 'pg_flashcache_' || name;
	seconds numeric := extract(epoch FROM timeout);
	options text;
	mapped text;
BEGIN
	IF name IS NULL OR conninfo IS NULL OR timeout IS NULL THEN
		RAISE null_value_not_allowed USING MESSAGE = 'name, conninfo and timeout must not be NULL';
	END IF;
	IF name !~ '^[A-Za-z0-9_.:-]{1,40}$' THEN
		RAISE invalid_parameter_value USING MESSAGE = format('"%s" cannot be the name of a node', left(name, 80)),
			HINT = 'Give 1 to 40 letters, digits, or characters of "_.:-".';
	END IF;
	IF seconds < 1 OR seconds > 60 OR seconds <> trunc(seconds) THEN
		RAISE invalid_parameter_value USING MESSAGE = format('a node cannot be given %s to answer', timeout),
			HINT = 'Give whole seconds, 1 to 60.';
	END IF;
	-- Nothing of a connection string is quoted: it may hold a password.
	IF rest ~ '^postgres(ql)?://' THEN
		RAISE invalid_parameter_value USING MESSAGE = 'a URI cannot be the connection string of a node',
			HINT = 'Give key=value pairs, as in ''host=10.0.0.2 dbname=postgres user=flash_monitor''.';
	END IF;
	WHILE rest <> '' LOOP
		part := regexp_match(rest, $re$^([A-Za-z_]+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|((?:[^\s'\\]|\\.)*))(?:\s+|$)$re$);
		IF part IS NULL THEN
			RAISE invalid_parameter_value USING MESSAGE = 'the connection string of the node cannot be read',
				HINT = 'Give key=value pairs, as in ''host=10.0.0.2 dbname=postgres user=flash_monitor''; it is not quoted here, since it may hold a password.';
		END IF;
		rest := substr(rest, length((regexp_match(rest, $re$^[A-Za-z_]+\s*=\s*(?:'(?:[^'\\]|\\.)*'|(?:[^\s'\\]|\\.)*)(?:\s+|$)$re$))[1]) + 1);
		value := regexp_replace(coalesce(part[2], part[3]), $re$\\(.)$re$, $re$\1$re$, 'g');
		IF part[1] = 'connect_timeout' THEN
			RAISE invalid_parameter_value USING MESSAGE = 'connect_timeout cannot be in the connection string of a node',
				HINT = 'The third argument is the time that it may take to connect, and again to answer: timeout => ''2 seconds''.';
		END IF;
		IF value <> '' THEN
			given := given || jsonb_build_object(part[1], value);
		END IF;
	END LOOP;
	IF concat(given ->> 'host', given ->> 'hostaddr', given ->> 'port') ~ ',' THEN
		RAISE invalid_parameter_value USING MESSAGE = 'a node is one server: its connection string names several',
			HINT = 'Add each of them as a node of its own.';
	END IF;
	IF NOT given ?| '{host,hostaddr,service}' THEN
		RAISE invalid_parameter_value USING MESSAGE = 'the connection string of the node does not say where it is',
			HINT = 'Give host (a name, an address, or the folder of a Unix socket), hostaddr or service. All replicas have the same nodes: without a host, each would ask itself.';
	END IF;
	IF pg_is_in_recovery() THEN
		RAISE read_only_sql_transaction USING MESSAGE = 'nodes cannot be added on a standby',
			HINT = 'Add them on the primary: its standbys have the same nodes.';
	END IF;
	SELECT quote_ident(n.nspname) AS dblink, f.fault, CASE
			WHEN f.own THEN 'Create the extension in a schema of a superuser, or in a database of one, such as postgres.'
			WHEN f.fault IS NOT NULL THEN 'As a superuser: CREATE SCHEMA flash_nodes; ALTER EXTENSION dblink SET SCHEMA flash_nodes. Where others need dblink, have the nodes in another database.'
			ELSE 'CREATE SCHEMA flash_nodes; CREATE EXTENSION dblink SCHEMA flash_nodes; as a superuser.' END AS hint
	INTO found
	FROM pg_database d
		LEFT JOIN pg_extension m ON m.extname = 'pg_flashcache'
		LEFT JOIN pg_namespace h ON h.oid = m.extnamespace
		LEFT JOIN pg_roles i ON i.oid = CASE h.nspowner WHEN 'pg_database_owner'::regrole THEN d.datdba ELSE h.nspowner END
		LEFT JOIN pg_extension e ON e.extname = 'dblink'
		LEFT JOIN pg_namespace n ON n.oid = e.extnamespace
		LEFT JOIN pg_roles o ON o.oid = CASE n.nspowner WHEN 'pg_database_owner'::regrole THEN d.datdba ELSE n.nspowner END
		LEFT JOIN pg_roles x ON x.oid = e.extowner
		CROSS JOIN LATERAL (SELECT i.rolsuper IS NOT TRUE AS own, CASE
			WHEN i.rolsuper IS NOT TRUE THEN format('the extension is in schema %I, which belongs to %I, who is no superuser', h.nspname, i.rolname)
			WHEN NOT o.rolsuper THEN format('dblink is in schema %I, which belongs to %I, who is no superuser', n.nspname, o.rolname)
			WHEN NOT x.rolsuper THEN format('dblink belongs to %I, who is no superuser', x.rolname)
			WHEN EXISTS (SELECT FROM aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a
				LEFT JOIN pg_roles r ON r.oid = a.grantee WHERE r.rolsuper IS NOT TRUE) THEN
				format('dblink is in schema %I, which others than superusers may use', n.nspname) END AS fault) f
	WHERE d.datname = current_database();
	IF found.dblink IS NULL OR found.fault IS NOT NULL THEN
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = coalesce(found.fault, 'nodes are asked through the extension dblink, which is not in this database'),
			HINT = found.hint;
	END IF;
	IF EXISTS (SELECT FROM pg_foreign_server WHERE srvname = own) THEN
		RAISE duplicate_object USING MESSAGE = format('there is a node "%s" already', name),
			HINT = format('SELECT pg_flashcache_remove_node(%L) removes it; ALTER SERVER %I changes where it is.', name, own);
	END IF;
	/*
	 * From 16 on dblink does not heed connect_timeout: there tcp_user_timeout ends the waiting for a machine that is gone.
	 * The seconds also say how long the node may take to answer.
	 */
	given := jsonb_build_object('dbname', current_database(), 'application_name', 'pg_flashcache',
			'connect_timeout', seconds::integer, 'tcp_user_timeout', seconds::integer * 1000,
			'keepalives_idle', 5, 'keepalives_interval', 2, 'keepalives_count', 2)
		|| given;
	SELECT string_agg(format('%I %L', e.key, e.value), ', ' ORDER BY e.key) FILTER (WHERE e.key <> ALL (secrets)),
		string_agg(format('%I %L', e.key, e.value), ', ' ORDER BY e.key) FILTER (WHERE e.key = ANY (secrets))
	INTO options, mapped FROM jsonb_each_text(given) e;
	-- An error's context would have the statement, with the password; and so would pg_stat_statements.
	IF current_setting('pg_stat_statements.track_utility', true) IS NOT NULL THEN
		PERFORM set_config('pg_stat_statements.track_utility', 'off', true);
	END IF;
	BEGIN
		EXECUTE format('CREATE SERVER %I TYPE ''pg_flashcache'' FOREIGN DATA WRAPPER dblink_fdw OPTIONS (%s)', own, options);
		EXECUTE format('CREATE USER MAPPING FOR PUBLIC SERVER %I %s', own, 'OPTIONS (' || mapped || ')');
	EXCEPTION WHEN OTHERS THEN
		RAISE USING ERRCODE = SQLSTATE, MESSAGE = format('the node "%s" cannot be added: %s', name, SQLERRM),
			HINT = 'Its connection string may have what libpq knows, such as host, port, dbname, user, password, passfile, sslmode.';
	END;
END
$body$;

COMMENT ON FUNCTION pg_flashcache_add_node(text, text, interval) IS
	'adds a server to those that the views gv_... show, and sets how long it may take to answer';

CREATE FUNCTION pg_flashcache_remove_node(name text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	own constant text := 'pg_flashcache_' || name;
BEGIN
	IF name IS NULL THEN
		RAISE null_value_not_allowed USING MESSAGE = 'name must not be NULL';
	END IF;
	IF NOT EXISTS (SELECT FROM pg_foreign_server WHERE srvname = own AND srvtype = 'pg_flashcache') THEN
		RAISE undefined_object USING MESSAGE = format('there is no node "%s"', left(name, 80)),
			HINT = 'SELECT node FROM pg_flashcache_nodes lists them.';
	END IF;
	EXECUTE format('DROP USER MAPPING IF EXISTS FOR PUBLIC SERVER %I', own);
	EXECUTE format('DROP SERVER %I', own);
END
$body$;

COMMENT ON FUNCTION pg_flashcache_remove_node(text) IS
	'removes a server from those that the views gv_... show';

CREATE VIEW pg_flashcache_nodes AS
	SELECT CASE WHEN pg_catalog.starts_with(s.srvname::text, 'pg_flashcache_')
			THEN pg_catalog.substr(s.srvname::text, 15) ELSE s.srvname::text END AS node,
		s.srvname AS server,
		COALESCE(o.options OPERATOR(pg_catalog.->>) 'host', o.options OPERATOR(pg_catalog.->>) 'hostaddr') AS host,
		o.options OPERATOR(pg_catalog.->>) 'port' AS port,
		o.options OPERATOR(pg_catalog.->>) 'dbname' AS dbname,
		pg_catalog.make_interval(secs => (pg_catalog.substring(o.options OPERATOR(pg_catalog.->>) 'connect_timeout',
			'^([1-9]|[1-5][0-9]|60)$'))::pg_catalog.float8) AS timeout,
		r.rolsuper AS trusted
	FROM pg_catalog.pg_foreign_server s
		JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) s.srvowner
		CROSS JOIN LATERAL (SELECT pg_catalog.jsonb_object_agg(p.option_name, p.option_value) AS options
			FROM pg_catalog.pg_options_to_table(s.srvoptions) p) o
	WHERE s.srvtype OPERATOR(pg_catalog.=) 'pg_flashcache';

COMMENT ON VIEW pg_flashcache_nodes IS
	'servers that the views gv_... show, one row each';
COMMENT ON COLUMN pg_flashcache_nodes.node IS
	'name of the node';
COMMENT ON COLUMN pg_flashcache_nodes.server IS
	'name of the foreign server that says where it is';
COMMENT ON COLUMN pg_flashcache_nodes.host IS
	'host name, address, or folder of the socket';
COMMENT ON COLUMN pg_flashcache_nodes.port IS
	'port; NULL: the usual one';
COMMENT ON COLUMN pg_flashcache_nodes.dbname IS
	'database that is asked there: relations are those of this database';
COMMENT ON COLUMN pg_flashcache_nodes.timeout IS
	'time that it may take to connect, and again to answer; NULL: its foreign server has no connect_timeout of 1 to 60 seconds, and the node is not asked';
COMMENT ON COLUMN pg_flashcache_nodes.trusted IS
	'whether the foreign server belongs to a superuser; otherwise the node is not asked';

CREATE FUNCTION pg_flashcache_ask_nodes(
	view text,
	OUT node text,
	OUT node_state text,
	OUT node_reason text,
	OUT node_role text,
	OUT node_version text,
	OUT node_time_us bigint,
	OUT data jsonb)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $body$
DECLARE
	one record;
	found record;
	dblink text;
	fields text;		-- of the view, with their types
	pending int := 0;
	slept float8 := 0.001;
	code text;
	message text;
	detail text;
	began timestamptz[];
	answers jsonb[];
	stage int[];		-- 1: asked who it is, 2: and for the view, 3: rows are there, 4: failed
	nodes text[];
	connections text[];
	milliseconds bigint[];
	states text[];
	reasons text[];
	said text[];		-- by the node, or by libpq: maybe no text in this encoding, and with a password
	refusals text[];	-- SQLSTATE of a connection that was not made
	roles text[];
	versions text[];
	took bigint[];
	connecting text;
	password text;
	masked boolean;
BEGIN
	IF view IS NULL THEN
		RAISE null_value_not_allowed USING MESSAGE = 'view must not be NULL';
	END IF;
	IF view <> ALL ('{pg_stat_flashcache,pg_stat_flashcache_relation,pg_flashcache_advice,pg_flashcache_warmth}'::text[]) THEN
		RAISE invalid_parameter_value USING MESSAGE = format('nodes are not asked for "%s"', left(view, 80));
	END IF;
	IF NOT EXISTS (SELECT FROM pg_foreign_server WHERE srvtype = 'pg_flashcache') THEN
		RETURN;
	END IF;
	SELECT quote_ident(n.nspname) AS dblink, f.fault, CASE
			WHEN f.own THEN 'Create the extension in a schema of a superuser, or in a database of one, such as postgres.'
			WHEN f.fault IS NOT NULL THEN 'As a superuser: CREATE SCHEMA flash_nodes; ALTER EXTENSION dblink SET SCHEMA flash_nodes. Where others need dblink, have the nodes in another database.'
			ELSE 'CREATE SCHEMA flash_nodes; CREATE EXTENSION dblink SCHEMA flash_nodes; as a superuser.' END AS hint
	INTO found
	FROM pg_database d
		LEFT JOIN pg_extension m ON m.extname = 'pg_flashcache'
		LEFT JOIN pg_namespace h ON h.oid = m.extnamespace
		LEFT JOIN pg_roles i ON i.oid = CASE h.nspowner WHEN 'pg_database_owner'::regrole THEN d.datdba ELSE h.nspowner END
		LEFT JOIN pg_extension e ON e.extname = 'dblink'
		LEFT JOIN pg_namespace n ON n.oid = e.extnamespace
		LEFT JOIN pg_roles o ON o.oid = CASE n.nspowner WHEN 'pg_database_owner'::regrole THEN d.datdba ELSE n.nspowner END
		LEFT JOIN pg_roles x ON x.oid = e.extowner
		CROSS JOIN LATERAL (SELECT i.rolsuper IS NOT TRUE AS own, CASE
			WHEN i.rolsuper IS NOT TRUE THEN format('the extension is in schema %I, which belongs to %I, who is no superuser', h.nspname, i.rolname)
			WHEN NOT o.rolsuper THEN format('dblink is in schema %I, which belongs to %I, who is no superuser', n.nspname, o.rolname)
			WHEN NOT x.rolsuper THEN format('dblink belongs to %I, who is no superuser', x.rolname)
			WHEN EXISTS (SELECT FROM aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a
				LEFT JOIN pg_roles r ON r.oid = a.grantee WHERE r.rolsuper IS NOT TRUE) THEN
				format('dblink is in schema %I, which others than superusers may use', n.nspname) END AS fault) f
	WHERE d.datname = current_database();
	IF found.dblink IS NULL OR found.fault IS NOT NULL THEN
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = coalesce(found.fault, 'nodes are asked through the extension dblink, which is not in this database'),
			HINT = found.hint;
	END IF;
	dblink := found.dblink;
	SELECT string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY a.attnum) INTO fields
	FROM pg_extension e JOIN pg_class c ON c.relnamespace = e.extnamespace
		JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
			AND d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
		JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
	WHERE e.extname = 'pg_flashcache' AND c.relname = view;

	/*
	 * A connection that was left in this session is closed.  None is when this ends, but for a query that is canceled twice.
	 */
	FOR one IN
		SELECT s.oid, s.srvname, r.rolsuper, r.rolname,
			CASE WHEN starts_with(s.srvname, 'pg_flashcache_') THEN substr(s.srvname, 15) ELSE s.srvname END AS node,
			(SELECT substring(o.option_value, '^([1-9]|[1-5][0-9]|60)$')::bigint FROM pg_options_to_table(s.srvoptions) o
				WHERE o.option_name = 'connect_timeout') * 1000 AS ms
		FROM pg_foreign_server s JOIN pg_roles r ON r.oid = s.srvowner
		WHERE s.srvtype = 'pg_flashcache' ORDER BY 5
	LOOP
		pending := pending + 1;
		nodes[pending] := one.node;
		connections[pending] := format('pg_flashcache node %s', one.oid);
		milliseconds[pending] := one.ms;
		began[pending] := clock_timestamp();
		stage[pending] := 4;
		answers[pending] := '[]';
		IF NOT one.rolsuper THEN
			states[pending] := 'refused';
			reasons[pending] := format('the foreign server belongs to %I, who is no superuser', one.rolname);
			CONTINUE;
		END IF;
		IF one.ms IS NULL THEN
			states[pending] := 'refused';
			reasons[pending] := 'the foreign server has no connect_timeout of 1 to 60 seconds';
			CONTINUE;
		END IF;
		EXECUTE format('SELECT %s.dblink_disconnect($1) WHERE $1 = ANY (%1$s.dblink_get_connections())', dblink) USING connections[pending];
		connecting := one.node;
		BEGIN
			EXECUTE format('SELECT %s.dblink_connect($1, $2)', dblink) USING connections[pending], one.srvname::text;
			stage[pending] := 1;
		EXCEPTION
			WHEN OTHERS OR assert_failure THEN
				GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
				said[pending] := coalesce(nullif(detail, ''), SQLERRM);
				refusals[pending] := SQLSTATE;
		END;
		connecting := NULL;
		took[pending] := extract(epoch FROM clock_timestamp() - began[pending]) * 1000000;
	END LOOP;

	-- From here on all of them work at the same time.
	FOR i IN 1 .. cardinality(nodes) LOOP
		CONTINUE WHEN stage[i] > 2;
		began[i] := clock_timestamp();
		/*
		 * Two statements of one transaction, in which the settings end.  No column is named: a version that does not have it
		 * sends an object without it.  The second statement finds the view in the extension's schema only if it is the
		 * extension's there, and nobody but superusers can put another in its place; no other name is looked up by the path.
		 */
		EXECUTE format('SELECT %s.dblink_send_query($1, $2)', dblink) USING connections[i], format($q$
			SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN 'standby' ELSE 'primary' END, e.extversion, f.fault,
				pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog',
					CASE WHEN f.fault IS NULL AND c.oid IS NOT NULL THEN pg_catalog.quote_ident(n.nspname) END, 'pg_temp'), true),
				pg_catalog.set_config('statement_timeout', %2$L, true), pg_catalog.set_config('lock_timeout', %2$L, true),
				pg_catalog.set_config('datestyle', 'ISO', true)
			FROM pg_catalog.pg_database d
				LEFT JOIN pg_catalog.pg_extension e ON e.extname OPERATOR(pg_catalog.=) 'pg_flashcache'
				LEFT JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace
				LEFT JOIN pg_catalog.pg_roles o ON o.oid OPERATOR(pg_catalog.=) CASE
					WHEN n.nspowner OPERATOR(pg_catalog.=) 'pg_database_owner'::pg_catalog.regrole::pg_catalog.oid THEN d.datdba ELSE n.nspowner END
				LEFT JOIN pg_catalog.pg_class c ON c.relnamespace OPERATOR(pg_catalog.=) n.oid AND c.relname OPERATOR(pg_catalog.=) %1$L
					AND EXISTS (SELECT FROM pg_catalog.pg_depend p
						WHERE p.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass AND p.objid OPERATOR(pg_catalog.=) c.oid
							AND p.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
							AND p.refobjid OPERATOR(pg_catalog.=) e.oid AND p.deptype OPERATOR(pg_catalog.=) 'e')
				LEFT JOIN pg_catalog.pg_roles w ON w.oid OPERATOR(pg_catalog.=) c.relowner
				CROSS JOIN LATERAL (SELECT CASE
					WHEN NOT o.rolsuper THEN pg_catalog.format('the extension there is in schema %%I, which belongs to %%I, who is no superuser',
						n.nspname, o.rolname)
					WHEN NOT w.rolsuper THEN pg_catalog.format('%%I there belongs to %%I, who is no superuser', c.relname, w.rolname)
					WHEN NOT pg_catalog.has_schema_privilege(n.oid, 'USAGE') THEN pg_catalog.format('permission denied for schema %%I', n.nspname)
					END AS fault) f
			WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database();
			SELECT pg_catalog.to_jsonb(v) FROM %1$I v$q$, view, milliseconds[i]::text);
	END LOOP;
	LOOP
		pending := 0;
		FOR i IN 1 .. cardinality(nodes) LOOP
			CONTINUE WHEN stage[i] > 2;
			BEGIN
				EXECUTE format('SELECT %s.dblink_is_busy($1)', dblink) INTO STRICT code USING connections[i];
				IF code = '1' THEN
					IF clock_timestamp() > began[i] + make_interval(secs => milliseconds[i] / 1000.0) THEN
						stage[i] := 4;
						states[i] := 'slow';
						reasons[i] := format('no answer within %s ms', milliseconds[i]);
					ELSE
						pending := pending + 1;
					END IF;
				ELSIF stage[i] = 1 THEN
					-- Here as below, what is no text in this encoding is an error.
					EXECUTE format('SELECT r.role, r.version, r.fault FROM %s.dblink_get_result($1)
							r(role text, version text, fault text, a text, b text, c text, d text)
						WHERE length(convert_to(concat(r.role, r.version, r.fault), getdatabaseencoding())) >= 0', dblink)
						INTO STRICT code, message, detail USING connections[i];
					roles[i] := code;
					versions[i] := message;
					stage[i] := 2;
					IF detail IS NULL THEN
						pending := pending + 1;
					ELSE
						stage[i] := 4;
						states[i] := 'refused';
						said[i] := detail;
					END IF;
				ELSE
					EXECUTE format('SELECT coalesce(jsonb_agg(r.data::jsonb), ''[]'') FROM %s.dblink_get_result($1) r(data text)
						WHERE length(convert_to(concat(r.data), getdatabaseencoding())) >= 0', dblink)
						INTO STRICT data USING connections[i];
					-- What does not fit the view here must not keep the others' rows from being shown.
					IF EXISTS (SELECT FROM jsonb_array_elements(data) r WHERE jsonb_typeof(r) <> 'object') THEN
						RAISE datatype_mismatch USING MESSAGE = 'it has sent something that is no row';
					END IF;
					EXECUTE format('SELECT count(*) FROM jsonb_to_recordset($1) AS r(%s)', fields) INTO STRICT code USING data;
					answers[i] := data;
					stage[i] := 3;
					states[i] := 'up';
				END IF;
			EXCEPTION
				WHEN query_canceled THEN
					-- There, or here?
					GET STACKED DIAGNOSTICS message = PG_EXCEPTION_CONTEXT;
					IF replace(message, connections[i], '') = message THEN
						RAISE;
					END IF;
					stage[i] := 4;
					states[i] := 'slow';
					said[i] := 'the query was canceled there: ' || SQLERRM;
				WHEN OTHERS OR assert_failure THEN
					stage[i] := 4;
					states[i] := CASE
						WHEN SQLSTATE LIKE '08%' OR SQLSTATE LIKE '57P%' OR SQLSTATE = 'XX000' THEN 'down'
						WHEN SQLSTATE = '55P03' THEN 'slow'
						WHEN SQLSTATE IN ('42P01', '42883', '42703') THEN 'lacking'
						ELSE 'refused' END;
					IF states[i] <> 'lacking' THEN
						said[i] := SQLERRM;
					ELSIF versions[i] IS NULL THEN
						reasons[i] := 'the database that is asked has no extension pg_flashcache';
					ELSE
						reasons[i] := format('version %s of the extension there has no %s', versions[i], view);
					END IF;
			END;
			IF stage[i] > 2 THEN
				took[i] := took[i] + extract(epoch FROM clock_timestamp() - began[i]) * 1000000;
			END IF;
		END LOOP;
		EXIT WHEN pending = 0;
		PERFORM pg_sleep(slept);
		slept := least(slept * 1.5, 0.05);
	END LOOP;

	FOR i IN 1 .. cardinality(nodes) LOOP
		EXECUTE format('SELECT %s.dblink_disconnect($1) WHERE $1 = ANY (%1$s.dblink_get_connections())', dblink) USING connections[i];
	END LOOP;
	FOR i IN 1 .. cardinality(nodes) LOOP
		node := nodes[i];
		node_state := states[i];
		node_reason := reasons[i];
		IF said[i] IS NOT NULL THEN
			masked := false;
			BEGIN
				-- A server that is not what it should be may say what it was told.
				node_reason := said[i];
				FOR password IN SELECT o.option_value FROM pg_user_mappings m CROSS JOIN LATERAL pg_options_to_table(m.umoptions) o
					WHERE format('pg_flashcache node %s', m.srvid) = connections[i] AND o.option_name LIKE '%password' AND o.option_value <> ''
				LOOP
					node_reason := replace(node_reason, password, '***');
				END LOOP;
				masked := true;
				-- What it says before a login is in its own encoding: then all that is not ASCII is shown as \ooo.
				PERFORM convert_to(node_reason, getdatabaseencoding());
			EXCEPTION WHEN OTHERS THEN
				BEGIN
					node_reason := encode(decode(replace(node_reason, E'\\', E'\\\\'), 'escape'), 'escape');
				EXCEPTION WHEN OTHERS THEN
					masked := false;
				END;
				IF NOT masked THEN
					node_reason := 'what it says is no text in the encoding of this database';
				END IF;
			END;
			node_reason := split_part(btrim(node_reason, E'\n '), E'\n', 1);
			IF refusals[i] IS NOT NULL THEN
				node_state := CASE WHEN refusals[i] NOT LIKE '08%'
					OR node_reason ~ 'FATAL' AND node_reason !~ 'starting up|shutting down|recovery|accepting connections'
					THEN 'refused' ELSE 'down' END;
			END IF;
		END IF;
		node_role := roles[i];
		node_version := versions[i];
		node_time_us := took[i];
		FOR data IN SELECT r FROM jsonb_array_elements(answers[i]) r LOOP
			RETURN NEXT;
		END LOOP;
		IF answers[i] = '[]' THEN
			data := NULL;
			RETURN NEXT;
		END IF;
	END LOOP;
EXCEPTION WHEN OTHERS OR query_canceled OR assert_failure THEN
	GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_HINT;
	IF dblink IS NOT NULL THEN
		FOR i IN 1 .. coalesce(cardinality(connections), 0) LOOP
			EXECUTE format('SELECT %s.dblink_disconnect($1) WHERE $1 = ANY (%1$s.dblink_get_connections())', dblink) USING connections[i];
		END LOOP;
	END IF;
	IF connecting IS NOT NULL THEN
		detail := format('It was connecting to node "%s".', connecting);
	END IF;
	IF detail = '' THEN
		RAISE USING ERRCODE = code, MESSAGE = message;
	END IF;
	RAISE USING ERRCODE = code, MESSAGE = message, HINT = detail;
END
$body$;

COMMENT ON FUNCTION pg_flashcache_ask_nodes(text) IS
	'what a view shows on each node, all nodes at the same time; for the views gv_...';

CREATE VIEW gv_stat_flashcache AS
	SELECT a.node, a.node_state, a.node_reason, a.node_role, a.node_version, a.node_time_us, v.*
	FROM @extschema@.pg_flashcache_ask_nodes('pg_stat_flashcache') a
		LEFT JOIN LATERAL pg_catalog.jsonb_populate_record(NULL::@extschema@.pg_stat_flashcache, a.data) v ON true
	UNION ALL
	SELECT COALESCE(NULLIF(pg_catalog.current_setting('cluster_name'), ''), 'local'), 'up', NULL,
		CASE WHEN pg_catalog.pg_is_in_recovery() THEN 'standby' ELSE 'primary' END,
		(SELECT e.extversion FROM pg_catalog.pg_extension e WHERE e.extname OPERATOR(pg_catalog.=) 'pg_flashcache'), 0, v.*
	FROM @extschema@.pg_stat_flashcache v WHERE NOT EXISTS (SELECT FROM @extschema@.pg_flashcache_nodes);

CREATE VIEW gv_stat_flashcache_relation AS
	SELECT a.node, a.node_state, a.node_reason, a.node_role, a.node_version, a.node_time_us, v.*
	FROM @extschema@.pg_flashcache_ask_nodes('pg_stat_flashcache_relation') a
		LEFT JOIN LATERAL pg_catalog.jsonb_populate_record(NULL::@extschema@.pg_stat_flashcache_relation, a.data) v ON true
	UNION ALL
	SELECT COALESCE(NULLIF(pg_catalog.current_setting('cluster_name'), ''), 'local'), 'up', NULL,
		CASE WHEN pg_catalog.pg_is_in_recovery() THEN 'standby' ELSE 'primary' END,
		(SELECT e.extversion FROM pg_catalog.pg_extension e WHERE e.extname OPERATOR(pg_catalog.=) 'pg_flashcache'), 0, v.*
	FROM @extschema@.pg_stat_flashcache_relation v WHERE NOT EXISTS (SELECT FROM @extschema@.pg_flashcache_nodes);

CREATE VIEW gv_flashcache_advice AS
	SELECT a.node, a.node_state, a.node_reason, a.node_role, a.node_version, a.node_time_us, v.*
	FROM @extschema@.pg_flashcache_ask_nodes('pg_flashcache_advice') a
		LEFT JOIN LATERAL pg_catalog.jsonb_populate_record(NULL::@extschema@.pg_flashcache_advice, a.data) v ON true
	UNION ALL
	SELECT COALESCE(NULLIF(pg_catalog.current_setting('cluster_name'), ''), 'local'), 'up', NULL,
		CASE WHEN pg_catalog.pg_is_in_recovery() THEN 'standby' ELSE 'primary' END,
		(SELECT e.extversion FROM pg_catalog.pg_extension e WHERE e.extname OPERATOR(pg_catalog.=) 'pg_flashcache'), 0, v.*
	FROM @extschema@.pg_flashcache_advice v WHERE NOT EXISTS (SELECT FROM @extschema@.pg_flashcache_nodes);

CREATE VIEW gv_flashcache_warmth AS
	SELECT a.node, a.node_state, a.node_reason, a.node_role, a.node_version, a.node_time_us, v.*
	FROM @extschema@.pg_flashcache_ask_nodes('pg_flashcache_warmth') a
		LEFT JOIN LATERAL pg_catalog.jsonb_populate_record(NULL::@extschema@.pg_flashcache_warmth, a.data) v ON true
	UNION ALL
	SELECT COALESCE(NULLIF(pg_catalog.current_setting('cluster_name'), ''), 'local'), 'up', NULL,
		CASE WHEN pg_catalog.pg_is_in_recovery() THEN 'standby' ELSE 'primary' END,
		(SELECT e.extversion FROM pg_catalog.pg_extension e WHERE e.extname OPERATOR(pg_catalog.=) 'pg_flashcache'), 0, v.*
	FROM @extschema@.pg_flashcache_warmth v WHERE NOT EXISTS (SELECT FROM @extschema@.pg_flashcache_nodes);

COMMENT ON VIEW gv_stat_flashcache IS
	'pg_stat_flashcache of all nodes, one row each; of a node that does not answer, why';
COMMENT ON VIEW gv_stat_flashcache_relation IS
	'pg_stat_flashcache_relation of all nodes; of a node that does not answer one row, why';
COMMENT ON VIEW gv_flashcache_advice IS
	'pg_flashcache_advice of all nodes; of a node that does not answer, or has none, one row';
COMMENT ON VIEW gv_flashcache_warmth IS
	'pg_flashcache_warmth of all nodes, one row each; of a node that does not answer, why';

-- The first columns are the same in each of them; the others are those of the view that the node has, and explained as these.
DO $do$
DECLARE
	statement pg_catalog.text;
BEGIN
	FOR statement IN
		SELECT pg_catalog.format('COMMENT ON COLUMN %s.%I.%I IS %L', '@extschema@', v.gv, a.attname,
			COALESCE(k.words, pg_catalog.col_description(pg_catalog.to_regclass('@extschema@.' OPERATOR(pg_catalog.||) v.local),
				(SELECT b.attnum FROM pg_catalog.pg_attribute b
				WHERE b.attrelid OPERATOR(pg_catalog.=) pg_catalog.to_regclass('@extschema@.' OPERATOR(pg_catalog.||) v.local)
					AND b.attname OPERATOR(pg_catalog.=) a.attname))))
		FROM (VALUES ('gv_stat_flashcache', 'pg_stat_flashcache'), ('gv_stat_flashcache_relation', 'pg_stat_flashcache_relation'),
				('gv_flashcache_advice', 'pg_flashcache_advice'), ('gv_flashcache_warmth', 'pg_flashcache_warmth')) v(gv, local)
			JOIN pg_catalog.pg_attribute a
				ON a.attrelid OPERATOR(pg_catalog.=) pg_catalog.to_regclass('@extschema@.' OPERATOR(pg_catalog.||) v.gv)
				AND a.attnum OPERATOR(pg_catalog.>) 0
			LEFT JOIN (VALUES
				('node', 'name of the node; without nodes, cluster_name of this server, or local'),
				('node_state', 'up; down: no connection; slow: no answer in time; refused: an error or a lack of privileges; lacking: the extension, or its version there, does not have it'),
				('node_reason', 'why it is not up'),
				('node_role', 'primary or standby'),
				('node_version', 'version of the extension in the database that was asked; what it does not have is NULL'),
				('node_time_us', 'microseconds that the answer took, or the failure')) k(name, words)
				ON k.name OPERATOR(pg_catalog.=) a.attname
	LOOP
		EXECUTE statement;
	END LOOP;
END
$do$;

REVOKE ALL ON FUNCTION pg_flashcache_add_node(text, text, interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_remove_node(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_ask_nodes(text) FROM PUBLIC;
REVOKE ALL ON pg_flashcache_nodes, gv_stat_flashcache, gv_stat_flashcache_relation, gv_flashcache_advice, gv_flashcache_warmth FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pg_flashcache_ask_nodes(text) TO pg_read_all_stats;
GRANT SELECT ON pg_flashcache_nodes, gv_stat_flashcache, gv_stat_flashcache_relation, gv_flashcache_advice, gv_flashcache_warmth TO pg_read_all_stats;

-- ---- admission ----

COMMENT ON COLUMN pg_flashcache_pages.refcount IS
	'how often the page was wanted lately, at most 7: hits, and where pg_flashcache.admission counts them evictions from shared_buffers before; it is lowered from time to time';

CREATE FUNCTION pg_flashcache_admission_rows(
	OUT candidate text,
	OUT in_force boolean,
	OUT chosen boolean,
	OUT hit_ratio double precision,
	OUT writes_per_read double precision,
	OUT sampled_reads bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'fc_admission_rows'
LANGUAGE C VOLATILE PARALLEL SAFE ROWS 6;

COMMENT ON FUNCTION pg_flashcache_admission_rows() IS
	'the candidates of pg_flashcache.admission = auto; see view pg_flashcache_admission';

CREATE VIEW pg_flashcache_admission AS
	SELECT * FROM @extschema@.pg_flashcache_admission_rows();

COMMENT ON VIEW pg_flashcache_admission IS
	'the candidates among which pg_flashcache.admission = auto chooses, one row each, and what caches in miniature predict of them; empty without a cache';

COMMENT ON COLUMN pg_flashcache_admission.candidate IS
	'all: every page; ghost_half, ghost, ghost_two: pages evicted before, within half as many evictions as there are slots, as many, or one and a half times as many; page, region: pages, or regions of 32 pages, that are evicted more often than the one that they would replace';
COMMENT ON COLUMN pg_flashcache_admission.in_force IS
	'whether pages are admitted by it at present';
COMMENT ON COLUMN pg_flashcache_admission.chosen IS
	'whether pg_flashcache.admission = auto has chosen it, or would';
COMMENT ON COLUMN pg_flashcache_admission.hit_ratio IS
	'predicted share of hits, 0 to 1, of a cache that has been filled by it all the time; NULL: nothing was sampled yet';
COMMENT ON COLUMN pg_flashcache_admission.writes_per_read IS
	'predicted pages written to flash for each page read; NULL: nothing was sampled yet';
COMMENT ON COLUMN pg_flashcache_admission.sampled_reads IS
	'reads of pages that both rest on: the last 8,192 to 16,384 of the sample';

REVOKE ALL ON FUNCTION pg_flashcache_admission_rows() FROM PUBLIC;
REVOKE ALL ON pg_flashcache_admission FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pg_flashcache_admission_rows() TO pg_read_all_stats;
GRANT SELECT ON pg_flashcache_admission TO pg_read_all_stats;
