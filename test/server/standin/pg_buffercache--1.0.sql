CREATE FUNCTION pg_buffercache_pages(
    OUT bufferid int, OUT relfilenode oid, OUT reltablespace oid, OUT reldatabase oid, OUT relforknumber smallint,
    OUT relblocknumber bigint, OUT isdirty boolean, OUT usagecount smallint, OUT pinning_backends int)
  RETURNS SETOF record AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
CREATE VIEW pg_buffercache AS SELECT * FROM pg_buffercache_pages();
