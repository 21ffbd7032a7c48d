"""The server's side: connecting, what has to be there, taking snapshots."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import psycopg

from pgflash import safe
from pgflash.connection import said
from pgflash.errors import ArgumentError, BrokeOff, MachineError
from pgflash.pilot import db
from pgflash.pilot.db import Connection
from pgflash.snapshots import profile

TABLES = ("pg_flashcache_snapshots", "pg_flashcache_snapshot_data", "pg_flashcache_snapshot_state", "pg_flashcache_snapshot_settings")
READ = TABLES[:2]
LOCK_MS = 10000  # also for a snapshot that another one takes
FUNCTIONS = (
    ("pg_flashcache_snapshot", "text, interval, bigint"),
    ("pg_flashcache_snapshot_collect", "jsonb, integer"),
    ("pg_flashcache_drop_snapshots", "interval, bigint"),
)


@dataclass
class Extra:
    """A section that pgflash makes: its rows; where its counters stand now, if they go on counting."""

    section: str
    data: list[dict[str, Any]] | None
    state: dict[str, Any] | None = None
    problem: str = ""


@dataclass
class Taken:
    id: int
    dropped: int
    missing: dict[str, str]


def connect(dsn: str) -> Connection:
    """Taking a snapshot may take longer than the statements that a database's owner had in mind; but nobody's lock is waited for for good."""
    connection = db.connect(dsn, application_name="pgflash snapshot")
    db.rows(connection, "SELECT set_config('statement_timeout', '0', false)")
    db.bounded(connection, LOCK_MS)
    return connection


def schema_of(connection: Connection, *, take: bool) -> str:
    """Schema of the extension, quoted. Says what is missing: extension, version of its objects, privileges."""
    found = db.asked(safe.extension, connection)
    database, user = (str(item) for item in db.rows(connection, "SELECT current_database(), current_user")[0])
    if found is None:
        raise MachineError(
            f"the extension pg_flashcache is not in the database {database}",
            "name another database with --dsn, or run CREATE EXTENSION pg_flashcache there",
        )
    tables = [db.asked(safe.relation, connection, name) for name in TABLES]
    functions = [db.asked(safe.function, connection, *one) for one in FUNCTIONS]
    if None in tables or None in functions:
        raise MachineError(
            f"the extension in the database {database} has the objects of version {found.version}, which knows no snapshots",
            "run ALTER EXTENSION pg_flashcache UPDATE there",
        )
    safe.require(found)
    if not _allowed(connection, tables, functions, take=take):
        raise MachineError(
            f"{user} may not {'take' if take else 'read'} snapshots in the database {database}",
            "take them as superuser, or as a role with the privileges that docs/snapshots.md lists"
            if take
            else f"GRANT pg_monitor TO {user}, or connect as another role",
        )
    return found.schema


def _allowed(connection: Connection, tables: list[int | None], functions: list[int | None], *, take: bool) -> bool:
    """By OIDs, in the order of TABLES and FUNCTIONS."""
    wanted: list[tuple[str, int | None, str]] = [
        ("has_table_privilege", oid, "SELECT") for oid in (tables if take else tables[: len(READ)])
    ]
    if take:
        wanted += [("has_table_privilege", oid, what) for oid in tables[:3] for what in ("INSERT", "UPDATE", "DELETE")]
        wanted += [("has_any_column_privilege", tables[3], "UPDATE"), *(("has_function_privilege", oid, "EXECUTE") for oid in functions)]
    return all(db.value(connection, f"SELECT {test}(%s::oid, %s::text)", oid, what) is True for test, oid, what in wanted)


def _row(connection: Connection, statement: str, *parameters: Any) -> tuple[Any, ...] | None:
    found = db.rows(connection, statement, *parameters)
    return found[0] if found else None


def state_of(connection: Connection, schema: str, section: str) -> dict[str, Any] | None:
    """Where the counters of a section of pgflash's own stood at the last snapshot."""
    found = _row(connection, f"SELECT data FROM {schema}.pg_flashcache_snapshot_state WHERE section = %s", section)
    return dict(found[0]) if found else None


def take(
    connection: Connection,
    schema: str,
    note: str | None = None,
    keep_s: float | None = None,
    max_bytes: int | None = None,
    extras: list[Extra] | None = None,
    pg_profile: bool = False,
) -> Taken:
    """A snapshot, with sections of pgflash's own in the same transaction.

    The arguments have the types of the function, so that no other of that name is a better match.
    """
    extras = extras or []
    try:
        with connection.transaction():
            before = _count(connection, schema)
            found = _row(
                connection,
                f"SELECT {schema}.pg_flashcache_snapshot(%s::text, pg_catalog.make_interval(secs => %s)::interval, %s::bigint)", note, keep_s, max_bytes,
            )  # fmt: skip
            assert found is not None
            number = int(found[0])
            for extra in extras:
                _store(connection, schema, number, extra)
            if pg_profile:
                _store_sample(connection, schema, number)
            dropped = before + 1 - _count(connection, schema)
            problems = _row(connection, f"SELECT problems FROM {schema}.pg_flashcache_snapshots WHERE id = %s", number)
    except BrokeOff as error:
        refused = error.__cause__
        if isinstance(refused, psycopg.errors.InvalidParameterValue | psycopg.errors.ObjectNotInPrerequisiteState):
            raise ArgumentError(f"no snapshot was taken: {refused.diag.message_primary}", refused.diag.message_hint or "") from error
        raise
    except psycopg.Error as error:
        raise BrokeOff(f"no snapshot was taken: {said(error)}") from error
    assert problems is not None
    return Taken(number, dropped, dict(problems[0]))


def _count(connection: Connection, schema: str) -> int:
    found = _row(connection, f"SELECT count(*) FROM {schema}.pg_flashcache_snapshots")
    return int(found[0]) if found else 0


def _store(connection: Connection, schema: str, number: int, extra: Extra) -> None:
    if extra.data is not None:
        db.rows(
            connection,
            f"INSERT INTO {schema}.pg_flashcache_snapshot_data VALUES (%s, %s, %s::jsonb)", number, extra.section, json.dumps(extra.data),
        )  # fmt: skip
    if extra.state is not None:
        db.rows(
            connection,
            f"INSERT INTO {schema}.pg_flashcache_snapshot_state VALUES (%s, %s::jsonb) ON CONFLICT (section) DO UPDATE SET data = excluded.data",
            extra.section, json.dumps(extra.state),
        )  # fmt: skip
    if extra.problem:
        db.rows(
            connection,
            f"UPDATE {schema}.pg_flashcache_snapshots SET problems = problems || jsonb_build_object(%s::text, %s::text) WHERE id = %s",
            extra.section, extra.problem, number,
        )  # fmt: skip


def _store_sample(connection: Connection, schema: str, number: int) -> None:
    """Of pg_profile. What it resets then is counted from zero, and nobody needs to be warned of that."""
    sample, problems, emptied = profile.sample(connection)
    row = {"key": profile.LOCAL, "labels": {"sample": sample}, "moved": {}}
    _store(connection, schema, number, Extra(profile.SECTION, [row], problem="; ".join(problems)))
    db.rows(connection, f"UPDATE {schema}.pg_flashcache_snapshot_state SET data = '{{}}' WHERE section = ANY (%s)", emptied)
