"""What there is to see of a catalog that contradicts itself, at once and from another session: whether the rows are gone, or only
not found; who has written them; and what each session had just done.
"""

from __future__ import annotations

import re

import pq
from cluster import Server

# What an index says, and what all pages of the table hold.
BY_INDEX = "SET enable_seqscan = off; SET enable_bitmapscan = off"
BY_PAGES = "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SET enable_seqscan = on"
ROWS = (
    "SELECT ctid, xmin, xmax, oid, relname, relkind, relfilenode, reltoastrelid, relnatts FROM pg_class WHERE oid = {0}",
    "SELECT ctid, xmin, xmax, attname, attnum FROM pg_attribute WHERE attrelid = {0}",
)
AROUND = (
    "SELECT transaction, gid, prepared FROM pg_prepared_xacts",
    "SELECT pid, application_name, state, wait_event, backend_xid, backend_xmin, left(query, 100) FROM pg_stat_activity"
    " WHERE backend_type = 'client backend'",
    "SELECT pid, mode, granted, virtualtransaction, relation::regclass FROM pg_locks WHERE relation IN (1249, 1259, {0})",
    "SELECT relfilenode, count(*) FROM pg_flashcache_pages JOIN (VALUES (1249), (1259), (2658), (2659), (2662)) c (oid)"
    " ON relfilenode = pg_relation_filenode(c.oid) GROUP BY 1",
    "SELECT name, setting FROM pg_settings WHERE name IN ('pg_flashcache.verify', 'pg_flashcache.extents', 'pg_flashcache.bypass',"
    " 'pg_flashcache.enabled')",
    "SELECT hits, verify_checks, verify_failures FROM pg_stat_flashcache",
)


def contradicts_itself(error: pq.SqlError) -> bool:
    return error.state in ("XX000", "XX001", "XX002") and re.search(r"OID \d+", error.message) is not None


def testimony(server: Server, database: str, error: pq.SqlError) -> list[str]:
    found = re.search(r"OID (\d+)", error.message)
    assert found is not None
    lines = []
    try:
        with server.connect(database, "witness") as conn:
            conn.run("SET statement_timeout = '5s'")
            for way in (BY_INDEX, BY_PAGES):
                conn.run(way)
                for sql in ROWS:
                    lines += _ask(conn, sql.format(found[1]))
            for sql in AROUND:
                lines += _ask(conn, sql.format(found[1]))
    except pq.Lost as lost:
        lines.append(f"lost: {lost}")
    return lines


def _ask(conn: pq.Connection, sql: str) -> list[str]:
    try:
        return [sql, *("  " + " | ".join(value or "" for value in row) for row in conn.run(sql))]
    except pq.SqlError as error:
        return [sql, f"  {error}"]
