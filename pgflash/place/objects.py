"""Objects as the server has them now, by their OID: where they are, and what may be done with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import sql

from pgflash.errors import ArgumentError, MachineError
from pgflash.pilot import db

KINDS = {"r": "table", "i": "index", "m": "materialized view"}

_OBJECT = """
SELECT c.oid::bigint, n.nspname, c.relname, c.relkind::text, coalesce(pg_relation_filenode(c.oid), 0)::bigint,
       coalesce(i.indrelid, 0)::bigint, ts.spcname,
       CASE WHEN c.relkind = 'i' THEN pg_relation_size(c.oid) ELSE pg_table_size(c.oid) END,
       coalesce(i.indisvalid, true), coalesce(i.indisexclusion, false), c.relpersistence::text,
       pg_has_role(c.relowner, 'USAGE'),
       CASE WHEN c.relkind = 'r' THEN pg_indexes_size(c.oid) ELSE 0 END,
       EXISTS (SELECT FROM pg_index u WHERE u.indrelid = c.oid AND u.indisunique AND u.indisvalid AND u.indpred IS NULL
                  AND u.indexprs IS NULL
                  AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum = ANY (u.indkey) AND NOT a.attnotnull))
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_index i ON i.indexrelid = c.oid
  JOIN pg_tablespace ts ON ts.oid = coalesce(nullif(c.reltablespace, 0),
                                             (SELECT dattablespace FROM pg_database WHERE datname = current_database()))
 WHERE c.relkind IN ('r', 'i', 'm') AND c.relpersistence <> 't' AND
"""


@dataclass(frozen=True)
class Object:
    oid: int
    schema: str
    name: str
    kind: str
    filenode: int
    table: int
    tablespace: str
    bytes: int
    valid: bool
    exclusion: bool
    logged: bool
    mine: bool  # the user may alter it
    index_bytes: int
    keyed: bool  # has a unique key that pg_repack can use

    @property
    def label(self) -> str:
        return f"{self.kind} {self.schema}.{self.name}"

    @property
    def identifier(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)

    def quoted(self) -> str:
        return self.identifier.as_string(None)


def _object(row: tuple[Any, ...]) -> Object:
    return Object(
        int(row[0]), row[1], row[2], KINDS[row[3]], int(row[4]), int(row[5]), row[6], int(row[7] or 0), bool(row[8]), bool(row[9]),
        row[10] == "p", bool(row[11]), int(row[12] or 0), bool(row[13]),
    )  # fmt: skip


def by_oid(connection: db.Connection, oid: int) -> Object | None:
    found = db.rows(connection, _OBJECT + "c.oid = %s", oid)
    return _object(found[0]) if found else None


def index_of(connection: db.Connection, table: int, name: str) -> Object | None:
    """REINDEX CONCURRENTLY gives an index a new OID; table and name stay."""
    found = db.rows(connection, _OBJECT + "c.relkind = 'i' AND i.indrelid = %s AND c.relname = %s", table, name)
    return _object(found[0]) if found else None


def indexes_of(connection: db.Connection, table: int) -> list[Object]:
    return [_object(row) for row in db.rows(connection, _OBJECT + "c.relkind = 'i' AND i.indrelid = %s ORDER BY c.relname", table)]


def by_name(connection: db.Connection, text: str) -> Object:
    """As it would be written in SQL."""
    try:
        oid = db.value(connection, "SELECT to_regclass(%s)::oid::bigint", text)
    except Exception as error:
        raise ArgumentError(f"{text!r} is no name of an object", 'a name as in SQL, such as public."My Table"') from error
    found = by_oid(connection, int(oid)) if oid is not None else None
    if found is None:
        raise ArgumentError(
            f"there is no table, index or materialized view {text} in this database",
            "name it with its schema, as in SQL; of a partitioned table name the partitions",
        )
    return found


def invalid_indexes(connection: db.Connection, table: int) -> list[int]:
    found = db.rows(connection, "SELECT indexrelid::bigint FROM pg_index WHERE indrelid = %s AND NOT indisvalid ORDER BY 1", table)
    return [int(oid) for (oid,) in found]


def tablespace_oid(connection: db.Connection, name: str) -> int:
    found = db.value(connection, "SELECT oid::bigint FROM pg_tablespace WHERE spcname = %s", name)
    if found is None:
        there = ", ".join(
            row[0] for row in db.rows(connection, "SELECT spcname FROM pg_tablespace WHERE spcname <> 'pg_global' ORDER BY 1")
        )
        raise ArgumentError(f"there is no tablespace {name}", f"there are: {there}; CREATE TABLESPACE makes one")
    if name == "pg_global":
        raise ArgumentError("pg_global is for shared catalogs only")
    return int(found)


def require_rights(connection: db.Connection, objects: list[Object], tablespaces: set[str], *, database: bool = False) -> None:
    """Before anything is done: everything that is missing at once."""
    user = connection.info.user
    if db.value(connection, "SELECT pg_is_in_recovery()"):
        raise MachineError("this server is a standby: objects are moved on its primary")
    missing = [f"{item.label} belongs to somebody else" for item in objects if not item.mine]
    for name in sorted(tablespaces):
        oid = tablespace_oid(connection, name)
        default = db.value(connection, "SELECT dattablespace::bigint FROM pg_database WHERE datname = current_database()")
        if oid != default and not db.value(connection, "SELECT has_tablespace_privilege(%s::oid, 'CREATE')", oid):
            missing.append(f"tablespace {name}: no privilege CREATE")
    if database and not db.value(connection, "SELECT pg_has_role(datdba, 'USAGE') FROM pg_database WHERE datname = current_database()"):
        missing.append(f"database {connection.info.dbname} belongs to somebody else")
    if missing:
        raise MachineError(f"{user} may not do this:\n" + "\n".join(missing), "connect as the owner of all of them, or as a superuser")


def is_superuser(connection: db.Connection) -> bool:
    return bool(db.value(connection, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"))
