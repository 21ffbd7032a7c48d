"""One look at a server: counters as they are. What the server does not have is left out, and said."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg

from pgflash import devices, safe
from pgflash.connection import Connection, exists, members
from pgflash.errors import ServerError

STAT = "pg_stat_flashcache"
RELATION = "pg_stat_flashcache_relation"
STATEMENTS = "pg_stat_flashcache_statements"
LATENCY = "pg_stat_flashcache_latency"
TRACKING = "pg_flashcache_tracking_stat()"
VIEWS = (STAT, RELATION, STATEMENTS, LATENCY)
TEXTS = "texts of statements "  # what the server says of them begins so
QUERY_LENGTH = 200
ROWS = 2000  # of relations and statements, those with the most reads, and writes of relations; other relations are with everything else

_SERVER = """
SELECT clock_timestamp() AS at, pg_is_in_recovery() AS standby, current_setting('server_version_num')::int / 10000 AS major,
       current_setting('cluster_name') AS cluster, current_database() AS database,
       total.*, current_setting('track_io_timing')::bool AS reads_timed,
       COALESCE(current_setting('io_method', true), 'sync') = 'sync' AS timed,
       pg_size_bytes(NULLIF(current_setting('pg_flashcache.write_limit', true), '')) AS write_limit
FROM (SELECT sum(xact_commit + xact_rollback)::bigint AS transactions, sum(blks_read)::bigint AS blks_read,
             (sum(blk_read_time) * 1000)::bigint AS blk_read_time_us FROM pg_stat_database) total
"""
_RELATIONS = """
SELECT relid, pg_relation_filenode(relid) AS file,
       EXISTS (SELECT FROM pg_class c WHERE c.oid = relid AND c.relisshared) AS shared, min(schema) AS schema, min(relation) AS relation, sum(hits)::bigint AS hits,
       sum(read_time_us)::bigint AS read_time_us, sum(disk_reads)::bigint AS disk_reads,
       sum(disk_read_time_us)::bigint AS disk_read_time_us, sum(os_cache_hits)::bigint AS os_cache_hits,
       sum(disk_writes + disk_extends)::bigint AS writes
FROM (SELECT CASE WHEN n <= {rows} THEN relid END AS relid, CASE WHEN n <= {rows} THEN schemaname::text END AS schema,
             CASE WHEN n <= {rows} THEN relname::text END AS relation,
             hits, read_time_us, disk_reads, disk_read_time_us, os_cache_hits, disk_writes, disk_extends
      FROM (SELECT *, row_number() OVER (ORDER BY disk_reads + hits + disk_writes + disk_extends DESC) AS n
            FROM {schema}.pg_stat_flashcache_relation) r) r
GROUP BY relid
"""
_STATEMENTS = """
SELECT userid, dbid, queryid, toplevel, calls, hits, read_time_us, disk_reads, disk_read_time_us, os_cache_hits,
       left(regexp_replace(query, '\\s+', ' ', 'g'), {length}) AS query
FROM {schema}.pg_stat_flashcache_statements ORDER BY disk_reads + hits DESC LIMIT {rows}
"""
_TRACKING = "SELECT statements_reason AS reason, statements_hint AS hint FROM {schema}.pg_flashcache_tracking_stat()"
_LATENCY = """
SELECT operation, bucket, from_us, to_us, sum(count)::bigint AS count FROM {schema}.pg_stat_flashcache_latency
GROUP BY operation, bucket, from_us, to_us
"""


@dataclass
class Sample:
    """Everything is as the server counts; times are the server's."""

    at: datetime
    role: str
    major: int
    cluster: str
    database: str
    transactions: int
    timed: bool
    write_limit: int | None
    server_reads: dict[str, Any]  # of pg_stat_database: what the cache counts better, if there is one
    stat: dict[str, Any] | None = None
    relations: list[dict[str, Any]] | None = None
    statements: list[dict[str, Any]] | None = None
    latency: list[dict[str, Any]] | None = None
    devices_off: list[dict[str, Any]] | None = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


@contextmanager
def _notices(connection: Connection) -> Iterator[list[str]]:
    """What the server says meanwhile beside its answers."""
    said: list[str] = []

    def note(diagnostic: psycopg.errors.Diagnostic) -> None:
        said.append(diagnostic.message_primary or "")

    connection.add_notice_handler(note)
    try:
        yield said
    finally:
        connection.remove_notice_handler(note)


def look(connection: Connection) -> Sample:
    row = connection.execute(_SERVER).fetchone()
    assert row is not None
    sample = Sample(
        row["at"], "standby" if row["standby"] else "primary", row["major"], row["cluster"], row["database"], int(row["transactions"] or 0),
        row["timed"], row["write_limit"],
        {"disk_reads": row["blks_read"], "disk_read_time_us": row["blk_read_time_us"] if row["reads_timed"] else None},
    )  # fmt: skip
    found = safe.extension(connection)
    if found is None:
        sample.missing.append(f"database {sample.database} has no extension pg_flashcache")
        return sample
    if found.lacking and not found.danger:
        sample.missing.append(f"{found.closed}: {found.lacking}")
        return sample
    safe.require(found, ServerError)
    schema = found.schema
    there = members(connection, (*VIEWS, TRACKING))
    for view in VIEWS:
        if view not in there:
            why = f"this role may not read it: GRANT pg_monitor TO {found.role}"
            if not exists(connection, view):
                why = f"not in version {found.version} of the extension: ALTER EXTENSION pg_flashcache UPDATE"
            sample.missing.append(f"{view}: {why}")

    def rows(view: str, text: str) -> list[dict[str, Any]] | None:
        if view not in there:
            return None
        query = text.replace("{schema}", schema).replace("{rows}", str(ROWS)).replace("{length}", str(QUERY_LENGTH))
        return connection.execute(query).fetchall()

    if stat := rows(STAT, "SELECT * FROM {schema}.pg_stat_flashcache"):
        sample.stat = stat[0]
        if not sample.stat["slots"]:
            sample.missing.append("without a cache, reads are those that pg_stat_database counts, and not by object and statement")
    sample.devices_off = devices.off(connection, schema)
    if sample.stat and (unasked := devices.unasked(connection, found.role)):
        sample.missing.append(unasked)
    sample.latency = rows(LATENCY, _LATENCY)
    sample.relations = rows(RELATION, _RELATIONS)
    with _notices(connection) as notices:
        sample.statements = rows(STATEMENTS, _STATEMENTS)
    sample.missing += [text for text in notices if text.startswith(TEXTS)]
    if sample.statements == [] and (tracking := rows(TRACKING, _TRACKING)) and tracking[0]["reason"]:
        sample.missing.append(f"{STATEMENTS}: not counted: {tracking[0]['reason']}. {tracking[0]['hint']}")
    return sample
