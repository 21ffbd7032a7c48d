-- Functions of the library that somebody declared otherwise than the extension script does: an error, never a crash.
CREATE FUNCTION fewer(OUT state text, OUT reason text) AS '$libdir/pg_flashcache', 'fc_stat' LANGUAGE C;
SELECT * FROM fewer();
CREATE FUNCTION no_row() RETURNS text AS '$libdir/pg_flashcache', 'fc_stat' LANGUAGE C;
SELECT no_row();
CREATE FUNCTION many(OUT hits bigint, OUT misses bigint) RETURNS SETOF record
  AS '$libdir/pg_flashcache', 'fc_session_stat' LANGUAGE C;
SELECT * FROM many();
-- the right number of columns, one of another type
CREATE FUNCTION typed(OUT hits bigint, OUT misses bigint, OUT disk_reads text, OUT disk_read_time_us bigint,
  OUT os_cache_hits bigint, OUT stream_reads bigint, OUT read_bytes bigint, OUT read_time_us bigint)
  AS '$libdir/pg_flashcache', 'fc_session_stat' LANGUAGE C;
SELECT * FROM typed();
-- columns named by the caller: right and wrong
CREATE FUNCTION anything() RETURNS record AS '$libdir/pg_flashcache', 'fc_session_stat' LANGUAGE C;
SELECT hits >= 0 AS hits FROM anything()
  AS (hits bigint, b bigint, c bigint, d bigint, e bigint, f bigint, g bigint, h bigint);
SELECT * FROM anything() AS (hits bigint, b bigint, c bigint, d bigint, e bigint, f bigint, g bigint, h text);
SELECT anything();
CREATE FUNCTION with_argument(int, OUT hits bigint, OUT misses bigint)
  AS '$libdir/pg_flashcache', 'fc_session_stat' LANGUAGE C;
SELECT * FROM with_argument(1);
-- sets
CREATE FUNCTION slots_typed(OUT slot bigint, OUT spc oid, OUT db oid, OUT rel oid, OUT blk bigint, OUT refcount text)
  RETURNS SETOF record AS '$libdir/pg_flashcache', 'fc_pages' LANGUAGE C;
SELECT * FROM slots_typed();
CREATE FUNCTION slots_one(OUT slot bigint, OUT spc oid, OUT db oid, OUT rel oid, OUT blk bigint, OUT refcount smallint)
  AS '$libdir/pg_flashcache', 'fc_pages' LANGUAGE C;
SELECT * FROM slots_one();
SELECT slots_one();
CREATE FUNCTION slots_numbers() RETURNS SETOF bigint AS '$libdir/pg_flashcache', 'fc_pages' LANGUAGE C;
SELECT * FROM slots_numbers();
-- commands
CREATE FUNCTION enable_text() RETURNS text AS '$libdir/pg_flashcache', 'fc_enable' LANGUAGE C;
SELECT enable_text();
CREATE FUNCTION reset_text() RETURNS text AS '$libdir/pg_flashcache', 'fc_reset_stats' LANGUAGE C;
SELECT reset_text();
CREATE FUNCTION scrub_nothing(OUT erased bigint, OUT bytes bigint) AS '$libdir/pg_flashcache', 'fc_scrub' LANGUAGE C;
SELECT * FROM scrub_nothing();
CREATE FUNCTION scrub_text(text, OUT erased bigint, OUT bytes bigint)
  AS '$libdir/pg_flashcache', 'fc_scrub' LANGUAGE C;
SELECT * FROM scrub_text('yes');
CREATE FUNCTION scrub_null(boolean, OUT erased bigint, OUT bytes bigint)
  AS '$libdir/pg_flashcache', 'fc_scrub' LANGUAGE C;
SELECT * FROM scrub_null(NULL);
-- as what is called in other ways: a trigger, an event trigger, an aggregate, a cast
CREATE FUNCTION as_trigger() RETURNS trigger AS '$libdir/pg_flashcache', 'fc_reset_stats' LANGUAGE C;
CREATE TABLE triggered (n int);
CREATE TRIGGER t BEFORE INSERT ON triggered FOR EACH ROW EXECUTE FUNCTION as_trigger();
INSERT INTO triggered VALUES (1);
DROP TABLE triggered;
CREATE FUNCTION as_transition(bigint, int) RETURNS bigint AS '$libdir/pg_flashcache', 'fc_enable' LANGUAGE C;
CREATE AGGREGATE summed(int) (SFUNC = as_transition, STYPE = bigint);
SELECT summed(n) FROM generate_series(1, 2) n;
-- a procedure without a result is what it should be
CREATE PROCEDURE reset() AS '$libdir/pg_flashcache', 'fc_reset_stats' LANGUAGE C;
CALL reset();
-- not functions for SQL at all
CREATE FUNCTION writer() RETURNS void AS '$libdir/pg_flashcache', 'fc_writer_main' LANGUAGE C;
-- failpoints: null, numbers instead of names, another result
CREATE FUNCTION fp(name text, action text) RETURNS void AS '$libdir/pg_flashcache', 'fc_failpoint_set' LANGUAGE C;
SELECT fp(NULL, 'off');
SELECT fp('store_read', NULL);
CREATE FUNCTION fp_numbers(int, int) RETURNS void AS '$libdir/pg_flashcache', 'fc_failpoint_set' LANGUAGE C;
SELECT fp_numbers(1, 2);
CREATE FUNCTION fp_none() RETURNS void AS '$libdir/pg_flashcache', 'fc_failpoint_set' LANGUAGE C;
SELECT fp_none();
CREATE FUNCTION fp_text(text, text) RETURNS text AS '$libdir/pg_flashcache', 'fc_failpoint_set' LANGUAGE C;
SELECT fp_text('store_read', 'off');
CREATE FUNCTION fp_wait(text) RETURNS void AS '$libdir/pg_flashcache', 'fc_failpoint_wait' LANGUAGE C;
SELECT fp_wait(NULL);
DROP AGGREGATE summed(int);
DROP PROCEDURE reset();
DROP FUNCTION fewer(), no_row(), many(), typed(), anything(), with_argument(int), slots_typed(), slots_one(),
  slots_numbers(), enable_text(), reset_text(), scrub_nothing(), scrub_text(text), scrub_null(boolean), as_trigger(),
  as_transition(bigint, int), fp(text, text), fp_numbers(int, int), fp_none(), fp_text(text, text), fp_wait(text);
-- the server is still the one that all of this was tried on
SELECT state FROM pg_stat_flashcache;
