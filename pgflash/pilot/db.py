"""SQL: connections, and the counters that a study takes differences of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import psycopg
from psycopg import sql

from pgflash import safe
from pgflash.connection import parsed, said
from pgflash.errors import BrokeOff, Locked, Refused, Unreachable
from pgflash.pilot.target import Place

# The columns of pg_stat_flashcache that are taken; one that a version does not have is left out.
CACHE_COUNTERS = (
    "slots", "used", "hits", "misses", "disk_reads", "disk_read_time_us", "os_cache_hits", "stream_reads", "read_bytes",
    "read_time_us", "inserts", "insert_skip_not_useful", "insert_skip_overloaded", "insert_skip_not_current",
    "eviction_aged_out", "eviction_invalidated", "writes", "write_bytes", "write_time_us", "read_errors", "write_errors",
    "checksum_failures", "memory_bytes",
)  # fmt: skip
DATABASE_COUNTERS = ("xact_commit", "blks_read", "blks_hit", "temp_bytes")

Connection = safe.Connection
T = TypeVar("T")


def connect(dsn: str, **changed: str) -> Connection:
    settings = {"application_name": "pgflash pilot", "connect_timeout": "10", **changed}
    parsed(dsn, 1)  # libpq would quote a part of it, which may be one of a password
    try:
        return safe.connect(dsn, **settings)
    except psycopg.Error as error:
        raise Unreachable(f"the server cannot be reached: {said(error)}") from error


def bounded(connection: Connection, lock_ms: int) -> None:
    """From now on no statement waits longer for a lock: sizes, for example, are not told while an object is locked."""
    rows(connection, "SELECT set_config('lock_timeout', %s, false)", str(lock_ms))


def connect_to(place: Place) -> Connection:
    """As the drivers do."""
    return connect(place.conninfo(), **({"password": place.password} if place.password else {}))


def _failed(error: psycopg.Error, statement: str = "") -> BrokeOff:
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return Locked(
            "another session has locked what is to be looked at",
            "try again when it is done: pg_locks, with mode AccessExclusiveLock, shows which one it is",
        )
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return Refused(str(error.diag.message_primary), "connect as the owner, or as a superuser")
    text = f"SQL failed: {said(error)}"
    return BrokeOff(f"{text}\n{statement}" if statement else text)


def value(connection: Connection, statement: str, *parameters: Any) -> Any:
    """The first column of the first row; None if there is no row."""
    row = rows(connection, statement, *parameters)
    return row[0][0] if row else None


def rows(connection: Connection, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    try:
        cursor = connection.execute(cast(Any, statement), parameters or None)
        return cursor.fetchall() if cursor.description else []
    except psycopg.Error as error:
        raise _failed(error, statement) from error


def asked(question: Callable[..., T], connection: Connection, *arguments: str) -> T:
    """One of pgflash.safe's."""
    try:
        return question(connection, *arguments)
    except psycopg.Error as error:
        raise _failed(error) from error


def execute(connection: Connection, statement: sql.Composed) -> None:
    try:
        connection.execute(statement)
    except psycopg.Error as error:
        raise _failed(error, statement.as_string(None)) from error


def cache_view(connection: Connection, name: str = "pg_stat_flashcache") -> str:
    """Qualified name of a view of the extension in this database; empty if it is not there. MachineError if it is not safe to use."""
    found = asked(safe.extension, connection)
    if found is None or asked(safe.relation, connection, name) is None:
        return ""
    safe.require(found)
    return f"{found.schema}.{name}"


def cache_row(connection: Connection) -> dict[str, Any]:
    """The row of pg_stat_flashcache; empty without the extension."""
    view = cache_view(connection)
    if not view:
        return {}
    found = value(connection, f"SELECT to_jsonb(s) FROM {view} s")
    return dict(found) if found else {}


def counters(connection: Connection) -> dict[str, int]:
    """cache.* and database.* counters now."""
    row = cache_row(connection)
    taken = {f"cache.{name}": int(row[name]) for name in CACHE_COUNTERS if row.get(name) is not None}
    found = rows(connection, f"SELECT {', '.join(DATABASE_COUNTERS)} FROM pg_stat_database WHERE datname = current_database()")
    if found:
        taken.update({f"database.{name}": int(number) for name, number in zip(DATABASE_COUNTERS, found[0], strict=True)})
    return taken


def delta(before: dict[str, int], after: dict[str, int], name: str) -> int:
    """How far a counter has moved; from zero where it was reset meanwhile."""
    then, now = before.get(name, 0), after.get(name, 0)
    return now - then if now >= then else now


def ratio(part: float, rest: float) -> float | None:
    return part / (part + rest) if part + rest > 0 else None


def hit_ratio(before: dict[str, int], after: dict[str, int]) -> float | None:
    """Of the cache where there is one; otherwise None."""
    if "cache.hits" not in after:
        return None
    return ratio(delta(before, after, "cache.hits"), delta(before, after, "cache.misses"))


def buffer_hit_ratio(before: dict[str, int], after: dict[str, int]) -> float | None:
    return ratio(delta(before, after, "database.blks_hit"), delta(before, after, "database.blks_read"))


# --- objects ----------------------------------------------------------------------------------------------

_RANKING = """
SELECT kind, name, reads FROM (
  SELECT 'TABLE' AS kind, format('%I.%I', schemaname, relname) AS name, heap_blks_read AS reads FROM pg_statio_user_tables
  UNION ALL
  SELECT 'INDEX', format('%I.%I', schemaname, indexrelname), idx_blks_read FROM pg_statio_user_indexes
) r WHERE reads > 0 ORDER BY reads DESC, name LIMIT """


def hottest_objects(connection: Connection, count: int) -> list[dict[str, Any]]:
    """Tables and indexes by pages read since the statistics were reset."""
    return [{"kind": kind, "name": name, "reads": int(reads)} for kind, name, reads in rows(connection, _RANKING + str(int(count)))]


def user_indexes(connection: Connection) -> list[dict[str, Any]]:
    found = rows(connection, "SELECT format('%I.%I', schemaname, indexrelname) FROM pg_stat_user_indexes ORDER BY 1")
    return [{"kind": "INDEX", "name": name, "reads": 0} for (name,) in found]


def tablespace_of(connection: Connection, name: str) -> str:
    """Empty: the database's own."""
    return str(
        value(
            connection,
            "SELECT coalesce(t.spcname, '') FROM pg_class c LEFT JOIN pg_tablespace t ON t.oid = c.reltablespace"
            " WHERE c.oid = %s::regclass",
            name,
        )
    )


def move(connection: Connection, kind: str, name: str, tablespace: str) -> None:
    """kind is TABLE or INDEX, name is quoted as it stands; tablespace empty: that of the database."""
    if not tablespace:
        tablespace = str(
            value(
                connection,
                "SELECT spcname FROM pg_tablespace t JOIN pg_database d ON d.dattablespace = t.oid WHERE datname = current_database()",
            )
        )
    execute(
        connection,
        sql.SQL("ALTER {} {} SET TABLESPACE {}").format(
            sql.SQL("TABLE" if kind == "TABLE" else "INDEX"), sql.SQL(cast(Any, name)), sql.Identifier(tablespace)
        ),
    )
