/* pg_flashcache--1.0.sql */

\echo Use "CREATE EXTENSION pg_flashcache" to load this file. \quit

CREATE FUNCTION pg_flashcache_stat(
	OUT state text,
	OUT reason text,
	OUT verdict text,
	OUT state_since timestamptz,
	OUT next_probe timestamptz,
	OUT attached_by text,
	OUT waits_bounded boolean,
	OUT slots bigint,
	OUT used bigint,
	OUT hits bigint,
	OUT misses bigint,
	OUT hit_ratio double precision,
	OUT disk_reads bigint,
	OUT disk_read_time_us bigint,
	OUT os_cache_hits bigint,
	OUT stream_reads bigint,
	OUT prefetches bigint,
	OUT read_bytes bigint,
	OUT read_time_us bigint,
	OUT inserts bigint,
	OUT insert_skip_corrupt bigint,
	OUT insert_skip_exists bigint,
	OUT insert_skip_modification bigint,
	OUT insert_skip_not_current bigint,
	OUT insert_skip_not_useful bigint,
	OUT insert_skip_overloaded bigint,
	OUT insert_skip_pinned bigint,
	OUT insert_skip_write_limit bigint,
	OUT eviction_aged_out bigint,
	OUT eviction_invalidated bigint,
	OUT invalidation_overflows bigint,
	OUT writes bigint,
	OUT write_bytes bigint,
	OUT write_time_us bigint,
	OUT read_errors bigint,
	OUT write_errors bigint,
	OUT timeouts bigint,
	OUT reads_unbounded bigint,
	OUT switch_offs bigint,
	OUT probes bigint,
	OUT checksum_failures bigint,
	OUT slots_retired bigint,
	OUT slots_erased bigint,
	OUT verify_checks bigint,
	OUT verify_failures bigint,
	OUT memory_bytes bigint,
	OUT memory_per_slot double precision,
	OUT writer_pid integer,
	OUT writer_wait_event text,
	OUT stats_reset timestamptz)
AS 'MODULE_PATHNAME', 'fc_stat'
LANGUAGE C VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION pg_flashcache_stat() IS
	'state and counters of the flash cache; see view pg_stat_flashcache';

CREATE VIEW pg_stat_flashcache AS
	SELECT * FROM @extschema@.pg_flashcache_stat();

COMMENT ON VIEW pg_stat_flashcache IS
	'state and counters of the flash cache, one row';

COMMENT ON COLUMN pg_stat_flashcache.state IS
	'active, starting, disabled (by settings), paused (flash is slower than the disk), off (switched itself off), detached (no way into this server)';
COMMENT ON COLUMN pg_stat_flashcache.reason IS
	'why the cache is not active; NULL when it is';
COMMENT ON COLUMN pg_stat_flashcache.verdict IS
	'of what use the active cache was in the last ten minutes, in a few words';
COMMENT ON COLUMN pg_stat_flashcache.state_since IS
	'when it entered this state';
COMMENT ON COLUMN pg_stat_flashcache.next_probe IS
	'when a cache that is off or paused will be tried again';
COMMENT ON COLUMN pg_stat_flashcache.attached_by IS
	'how it gets into the server: interception; NULL if detached';
COMMENT ON COLUMN pg_stat_flashcache.waits_bounded IS
	'whether nobody waits for flash longer than io_timeout';
COMMENT ON COLUMN pg_stat_flashcache.slots IS
	'pages of 8 kB that the cache can hold';
COMMENT ON COLUMN pg_stat_flashcache.used IS
	'pages of 8 kB that it holds';
COMMENT ON COLUMN pg_stat_flashcache.hits IS
	'pages read from flash';
COMMENT ON COLUMN pg_stat_flashcache.misses IS
	'pages that flash could have held and that were not read from it while the cache was active';
COMMENT ON COLUMN pg_stat_flashcache.hit_ratio IS
	'hits / (hits + misses), 0 to 1; NULL before the first';
COMMENT ON COLUMN pg_stat_flashcache.disk_reads IS
	'pages read from data files; hits are not among them';
COMMENT ON COLUMN pg_stat_flashcache.disk_read_time_us IS
	'microseconds that these reads took; on 18 and later only some of them are timed';
COMMENT ON COLUMN pg_stat_flashcache.os_cache_hits IS
	'misses, in pages, that were on flash but read from the page cache of the kernel, which held them';
COMMENT ON COLUMN pg_stat_flashcache.stream_reads IS
	'misses, in pages, that were on flash but left to the disk, in a stream of neighbouring blocks';
COMMENT ON COLUMN pg_stat_flashcache.prefetches IS
	'pages read from flash before they were asked for';
COMMENT ON COLUMN pg_stat_flashcache.read_bytes IS
	'bytes read from flash for hits';
COMMENT ON COLUMN pg_stat_flashcache.read_time_us IS
	'microseconds that reading hits took';
COMMENT ON COLUMN pg_stat_flashcache.inserts IS
	'pages written to flash and published';
COMMENT ON COLUMN pg_stat_flashcache.insert_skip_corrupt IS
	'pages not inserted: the header or the checksum is wrong, or damaged pages may be in shared buffers';
COMMENT ON COLUMN pg_stat_flashcache.insert_skip_exists IS
	'pages not inserted: already there';
COMMENT ON COLUMN pg_stat_flashcache.insert_skip_modification IS
	'pages not inserted: modified, truncated or dropped while being written';
COMMENT ON COLUMN pg_stat_flashcache.insert_skip_not_current IS
	'pages not inserted: evicted or modified before they could be copied';
COMMENT ON COLUMN pg_stat_flashcache.insert_skip_not_useful IS
	'pages not inserted: not evicted before, empty, or the page cache of the kernel answers faster';
COMMENT ON COLUMN pg_stat_flashcache.insert_skip_overloaded IS
	'pages not inserted: the writer did not keep up';
COMMENT ON COLUMN pg_stat_flashcache.insert_skip_pinned IS
	'pages not inserted now: in use at that moment';
COMMENT ON COLUMN pg_stat_flashcache.insert_skip_write_limit IS
	'pages not inserted: over write_limit';
COMMENT ON COLUMN pg_stat_flashcache.eviction_aged_out IS
	'pages removed to make room';
COMMENT ON COLUMN pg_stat_flashcache.eviction_invalidated IS
	'pages removed because they were modified, truncated or dropped, or the cache was emptied';
COMMENT ON COLUMN pg_stat_flashcache.invalidation_overflows IS
	'relations and databases of which too many were made or removed at once to be remembered one by one';
COMMENT ON COLUMN pg_stat_flashcache.writes IS
	'write calls to flash';
COMMENT ON COLUMN pg_stat_flashcache.write_bytes IS
	'bytes of these';
COMMENT ON COLUMN pg_stat_flashcache.write_time_us IS
	'microseconds of these';
COMMENT ON COLUMN pg_stat_flashcache.read_errors IS
	'reads from flash that failed, were short or not answered; each is a miss';
COMMENT ON COLUMN pg_stat_flashcache.write_errors IS
	'writes to flash that failed, were short or not answered';
COMMENT ON COLUMN pg_stat_flashcache.timeouts IS
	'read_errors and write_errors that were not answered within io_timeout';
COMMENT ON COLUMN pg_stat_flashcache.reads_unbounded IS
	'pages on flash that were read from the disk because the session got no io_uring';
COMMENT ON COLUMN pg_stat_flashcache.switch_offs IS
	'how often the cache went off or paused by itself';
COMMENT ON COLUMN pg_stat_flashcache.probes IS
	'how often it was tried again after that';
COMMENT ON COLUMN pg_stat_flashcache.checksum_failures IS
	'pages read from flash with wrong content; each is a miss';
COMMENT ON COLUMN pg_stat_flashcache.slots_retired IS
	'slots taken out of service for that, in total';
COMMENT ON COLUMN pg_stat_flashcache.slots_erased IS
	'slots overwritten with zeros by pg_flashcache_scrub()';
COMMENT ON COLUMN pg_stat_flashcache.verify_checks IS
	'pages compared with the disk under verify';
COMMENT ON COLUMN pg_stat_flashcache.verify_failures IS
	'pages of these that differed: a bug if not 0';
COMMENT ON COLUMN pg_stat_flashcache.memory_bytes IS
	'bytes of shared memory, everything counted';
COMMENT ON COLUMN pg_stat_flashcache.memory_per_slot IS
	'bytes of shared memory for each slot';
COMMENT ON COLUMN pg_stat_flashcache.writer_pid IS
	'process ID of the background worker; NULL if it does not run';
COMMENT ON COLUMN pg_stat_flashcache.writer_wait_event IS
	'what that waits for; NULL if it is at work';
COMMENT ON COLUMN pg_stat_flashcache.stats_reset IS
	'since when the counters count';

CREATE FUNCTION pg_flashcache_session_stat(
	OUT hits bigint,
	OUT misses bigint,
	OUT disk_reads bigint,
	OUT disk_read_time_us bigint,
	OUT os_cache_hits bigint,
	OUT stream_reads bigint,
	OUT read_bytes bigint,
	OUT read_time_us bigint)
AS 'MODULE_PATHNAME', 'fc_session_stat'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_flashcache_session_stat() IS
	'what this session has read; see view pg_stat_flashcache_session';

CREATE VIEW pg_stat_flashcache_session AS
	SELECT * FROM @extschema@.pg_flashcache_session_stat();

COMMENT ON VIEW pg_stat_flashcache_session IS
	'what this session has read from flash and from disk since it began, one row';

COMMENT ON COLUMN pg_stat_flashcache_session.hits IS
	'pages read from flash';
COMMENT ON COLUMN pg_stat_flashcache_session.misses IS
	'pages that flash could have held and that were not read from it while the cache was active';
COMMENT ON COLUMN pg_stat_flashcache_session.disk_reads IS
	'pages read from data files; hits are not among them';
COMMENT ON COLUMN pg_stat_flashcache_session.disk_read_time_us IS
	'microseconds that these reads took; on 18 and later only some of them are timed';
COMMENT ON COLUMN pg_stat_flashcache_session.os_cache_hits IS
	'misses, in pages, that were on flash but read from the page cache of the kernel, which held them';
COMMENT ON COLUMN pg_stat_flashcache_session.stream_reads IS
	'misses, in pages, that were on flash but left to the disk, in a stream of neighbouring blocks';
COMMENT ON COLUMN pg_stat_flashcache_session.read_bytes IS
	'bytes read from flash for hits';
COMMENT ON COLUMN pg_stat_flashcache_session.read_time_us IS
	'microseconds that reading hits took, checking included';

-- Nobody sees more than the own session: open to all.
GRANT SELECT ON pg_stat_flashcache_session TO PUBLIC;

CREATE FUNCTION pg_flashcache_slots(
	OUT slot bigint,
	OUT reltablespace oid,
	OUT reldatabase oid,
	OUT relfilenode oid,
	OUT relblocknumber bigint,
	OUT refcount smallint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'fc_pages'
LANGUAGE C VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION pg_flashcache_slots() IS
	'pages in the flash cache; see view pg_flashcache_pages';

CREATE VIEW pg_flashcache_pages AS
	SELECT * FROM @extschema@.pg_flashcache_slots();

COMMENT ON VIEW pg_flashcache_pages IS
	'pages in the flash cache, one row each';

COMMENT ON COLUMN pg_flashcache_pages.slot IS
	'number of the slot, from 0';
COMMENT ON COLUMN pg_flashcache_pages.reltablespace IS
	'tablespace OID of the relation';
COMMENT ON COLUMN pg_flashcache_pages.reldatabase IS
	'database OID of the relation; 0 if it is shared';
COMMENT ON COLUMN pg_flashcache_pages.relfilenode IS
	'filenode number of the relation';
COMMENT ON COLUMN pg_flashcache_pages.relblocknumber IS
	'number of the page in the main fork';
COMMENT ON COLUMN pg_flashcache_pages.refcount IS
	'hits since the clock hand of the cache last came by, at most 3';

CREATE FUNCTION pg_flashcache_persistence_stat(
	OUT writing boolean,
	OUT loaded_at timestamptz,
	OUT load_time_us bigint,
	OUT restored bigint,
	OUT not_restored_touched bigint,
	OUT not_restored_removed bigint,
	OUT torn_blocks bigint,
	OUT refused text,
	OUT stamp_checkpoint pg_lsn,
	OUT stamped_at timestamptz,
	OUT log_bytes bigint,
	OUT restored_wrong bigint,
	OUT buffers_listed bigint,
	OUT buffers_copied bigint,
	OUT buffers_copy_time_us bigint,
	OUT buffers_state text,
	OUT buffers_loaded bigint,
	OUT buffers_load_time_us bigint)
AS 'MODULE_PATHNAME', 'fc_persistence'
LANGUAGE C VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION pg_flashcache_persistence_stat() IS
	'what survives an end of the server; see view pg_stat_flashcache_persistence';

CREATE VIEW pg_stat_flashcache_persistence AS
	SELECT * FROM @extschema@.pg_flashcache_persistence_stat();

COMMENT ON VIEW pg_stat_flashcache_persistence IS
	'what of the flash cache survives an end of the server, and what has survived the last one, one row';

COMMENT ON COLUMN pg_stat_flashcache_persistence.writing IS
	'whether the log is being written; NULL if persistence is off';
COMMENT ON COLUMN pg_stat_flashcache_persistence.loaded_at IS
	'when the log of an earlier run was loaded; NULL if the cache started empty';
COMMENT ON COLUMN pg_stat_flashcache_persistence.load_time_us IS
	'microseconds that this took';
COMMENT ON COLUMN pg_stat_flashcache_persistence.restored IS
	'pages that were restored';
COMMENT ON COLUMN pg_stat_flashcache_persistence.not_restored_touched IS
	'pages that were not, since recovery has changed them or may have';
COMMENT ON COLUMN pg_stat_flashcache_persistence.not_restored_removed IS
	'pages that were not, since they were no longer current when the server ended';
COMMENT ON COLUMN pg_stat_flashcache_persistence.torn_blocks IS
	'blocks of the log, of up to 406 pages each, that are missing, damaged or cannot be read';
COMMENT ON COLUMN pg_stat_flashcache_persistence.refused IS
	'why the cache started empty; NULL if it did not';
COMMENT ON COLUMN pg_stat_flashcache_persistence.stamp_checkpoint IS
	'checkpoint that the log is complete for; the cache starts empty after a crash if the server has made a later one';
COMMENT ON COLUMN pg_stat_flashcache_persistence.stamped_at IS
	'when it became that';
COMMENT ON COLUMN pg_stat_flashcache_persistence.log_bytes IS
	'bytes of the log written to flash since the server started';
COMMENT ON COLUMN pg_stat_flashcache_persistence.restored_wrong IS
	'pages restored after a crash that had wrong content when they were read, since the server started';
COMMENT ON COLUMN pg_stat_flashcache_persistence.buffers_listed IS
	'pages that were in shared buffers, or still to be loaded, and on flash, when the server was stopped; NULL if that is not known';
COMMENT ON COLUMN pg_stat_flashcache_persistence.buffers_copied IS
	'of these, pages that were copied to flash while it was stopped';
COMMENT ON COLUMN pg_stat_flashcache_persistence.buffers_copy_time_us IS
	'microseconds that this took';
COMMENT ON COLUMN pg_stat_flashcache_persistence.buffers_state IS
	'whether they are loaded into shared buffers again: waiting, loading, loaded, full, autoprewarm or stopped';
COMMENT ON COLUMN pg_stat_flashcache_persistence.buffers_loaded IS
	'pages that were loaded';
COMMENT ON COLUMN pg_stat_flashcache_persistence.buffers_load_time_us IS
	'microseconds that this took; NULL before it is over';

CREATE FUNCTION pg_flashcache_enable()
RETURNS boolean
AS 'MODULE_PATHNAME', 'fc_enable'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_flashcache_enable() IS
	'tries at once to bring back a flash cache that is off or paused; it keeps its pages if it can';

CREATE FUNCTION pg_flashcache_reset_stats()
RETURNS void
AS 'MODULE_PATHNAME', 'fc_reset_stats'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_flashcache_reset_stats() IS
	'sets the counters of the flash cache to zero';

CREATE FUNCTION pg_flashcache_scrub(
	everything boolean DEFAULT false,
	OUT slots_erased bigint,
	OUT bytes_erased bigint)
AS 'MODULE_PATHNAME', 'fc_scrub'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_flashcache_scrub(boolean) IS
	'writes zeros over what the flash cache holds of pages that are no longer cached, or over everything';

CREATE FUNCTION pg_flashcache_prewarm(
	relation regclass,
	indexes boolean DEFAULT false,
	toast boolean DEFAULT false,
	replace boolean DEFAULT false,
	first_block bigint DEFAULT NULL,
	last_block bigint DEFAULT NULL,
	OUT relations integer,
	OUT blocks bigint,
	OUT blocks_read bigint,
	OUT loaded bigint,
	OUT skip_exists bigint,
	OUT skip_modification bigint,
	OUT skip_dirty bigint,
	OUT skip_empty bigint,
	OUT skip_corrupt bigint,
	OUT skip_no_room bigint,
	OUT skip_write_error bigint)
AS 'MODULE_PATHNAME', 'fc_prewarm_relation'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_flashcache_prewarm(regclass, boolean, boolean, boolean, bigint, bigint) IS
	'loads a relation from its data files to flash';

CREATE FUNCTION pg_flashcache_export_map(
	database oid DEFAULT NULL,
	OUT reltablespace oid,
	OUT reldatabase oid,
	OUT relfilenode oid,
	OUT heat smallint,
	OUT first_block bigint,
	OUT pages integer,
	OUT bitmap bytea)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'fc_export_map'
LANGUAGE C VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION pg_flashcache_export_map(oid) IS
	'map of the pages in the flash cache, for pg_flashcache_import_map() of another server';

CREATE FUNCTION pg_flashcache_import_map(
	query text,
	replace boolean DEFAULT false,
	OUT rows bigint,
	OUT rows_skipped bigint,
	OUT pages bigint,
	OUT blocks_read bigint,
	OUT loaded bigint,
	OUT skip_exists bigint,
	OUT skip_modification bigint,
	OUT skip_dirty bigint,
	OUT skip_empty bigint,
	OUT skip_corrupt bigint,
	OUT skip_no_room bigint,
	OUT skip_write_error bigint,
	OUT skip_locked bigint)
AS 'MODULE_PATHNAME', 'fc_import_map'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_flashcache_import_map(text, boolean) IS
	'loads the pages of this database that a map names from their data files to flash';

CREATE FUNCTION pg_flashcache_compare_map(
	query text,
	OUT heat smallint,
	OUT pages bigint,
	OUT on_flash bigint,
	OUT share double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'fc_compare_map'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_flashcache_compare_map(text) IS
	'how many of the pages that a map names are on flash here, by heat';

CREATE FUNCTION pg_flashcache_prewarm_progress(
	OUT pid integer,
	OUT datid oid,
	OUT relid oid,
	OUT current_relid oid,
	OUT phase text,
	OUT relations_total bigint,
	OUT relations_done bigint,
	OUT blocks_total bigint,
	OUT blocks_done bigint,
	OUT blocks_read bigint,
	OUT loaded bigint,
	OUT skip_exists bigint,
	OUT skipped bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'fc_prewarm_progress'
LANGUAGE C VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION pg_flashcache_prewarm_progress() IS
	'sessions that load relations to flash; see view pg_stat_progress_flashcache_prewarm';

CREATE VIEW pg_stat_progress_flashcache_prewarm AS
	SELECT p.pid, p.datid, d.datname, p.relid, p.current_relid, p.phase,
		p.relations_total, p.relations_done, p.blocks_total, p.blocks_done,
		p.blocks_read, p.loaded, p.skip_exists, p.skipped
	FROM @extschema@.pg_flashcache_prewarm_progress() p
		LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) p.datid;

COMMENT ON VIEW pg_stat_progress_flashcache_prewarm IS
	'sessions that load relations to flash at the moment, one row each';

COMMENT ON COLUMN pg_stat_progress_flashcache_prewarm.pid IS
	'process ID of the session';
COMMENT ON COLUMN pg_stat_progress_flashcache_prewarm.datid IS
	'OID of its database';
COMMENT ON COLUMN pg_stat_progress_flashcache_prewarm.datname IS
	'name of that';
COMMENT ON COLUMN pg_stat_progress_flashcache_prewarm.relid IS
	'OID of the relation that it was asked to load; NULL if it loads from a map';
COMMENT ON COLUMN pg_stat_progress_flashcache_prewarm.current_relid IS
	'OID of the relation that it is reading: that one, an index, or a TOAST table; or one that the map names';
COMMENT ON COLUMN pg_stat_progress_flashcache_prewarm.phase IS
	'loading, or waiting for write_limit';
COMMENT ON COLUMN pg_stat_progress_flashcache_prewarm.relations_total IS
	'relations to be loaded; NULL for a map';
COMMENT ON COLUMN pg_stat_progress_flashcache_prewarm.relations_done IS
	'relations that have been read to the end; NULL for a map';
COMMENT ON COLUMN pg_stat_progress_flashcache_prewarm.blocks_total IS
	'blocks of all of these, or of the range that was asked for; NULL for a map';
COMMENT ON COLUMN pg_stat_progress_flashcache_prewarm.blocks_done IS
	'blocks that have been looked at';
COMMENT ON COLUMN pg_stat_progress_flashcache_prewarm.blocks_read IS
	'blocks that were read from data files';
COMMENT ON COLUMN pg_stat_progress_flashcache_prewarm.loaded IS
	'pages written to flash and published';
COMMENT ON COLUMN pg_stat_progress_flashcache_prewarm.skip_exists IS
	'pages that were on flash already';
COMMENT ON COLUMN pg_stat_progress_flashcache_prewarm.skipped IS
	'pages not loaded for any other reason';

-- Of the sessions of others, only who is at work.
GRANT SELECT ON pg_stat_progress_flashcache_prewarm TO PUBLIC;

REVOKE ALL ON FUNCTION pg_flashcache_prewarm(regclass, boolean, boolean, boolean, bigint, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_import_map(text, boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_export_map(oid) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_compare_map(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_stat() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_slots() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_persistence_stat() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_enable() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_reset_stats() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_flashcache_scrub(boolean) FROM PUBLIC;
REVOKE ALL ON pg_stat_flashcache FROM PUBLIC;
REVOKE ALL ON pg_flashcache_pages FROM PUBLIC;
REVOKE ALL ON pg_stat_flashcache_persistence FROM PUBLIC;

GRANT EXECUTE ON FUNCTION pg_flashcache_stat() TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_flashcache_slots() TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_flashcache_export_map(oid) TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_flashcache_compare_map(text) TO pg_read_all_stats;
GRANT SELECT ON pg_stat_flashcache TO pg_read_all_stats;
GRANT SELECT ON pg_flashcache_pages TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_flashcache_persistence_stat() TO pg_read_all_stats;
GRANT SELECT ON pg_stat_flashcache_persistence TO pg_read_all_stats;
