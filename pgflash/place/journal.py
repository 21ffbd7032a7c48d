"""What was moved, from where, and how far a move is: the table pgflash.place_journal of the database itself.

In the database, since it then is as durable as the moves, and goes with it to another machine. It is used only if its schema has our
comment and both belong to the user or to a superuser: somebody else's table could have triggers that run as the user.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pgflash.errors import MachineError
from pgflash.pilot import db

SCHEMA = "pgflash"
TABLE = "place_journal"
MARK = "made by pgflash: what it has moved, and where from"

# planned, running, done, failed, cancelled, interrupted, skipped; a move that is put back: returning, back
OPEN = ("planned", "failed", "cancelled", "interrupted")
UNDER_WAY = ("running", "returning")

_CREATE = f"""
CREATE TABLE {SCHEMA}.{TABLE} (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  origin text NOT NULL,
  kind text NOT NULL,
  schema_name text NOT NULL,
  object_name text NOT NULL,
  object_oid bigint NOT NULL,
  relfilenode bigint NOT NULL,
  table_oid bigint NOT NULL,
  bytes bigint NOT NULL,
  from_place text NOT NULL,
  to_place text NOT NULL,
  state text NOT NULL,
  method text NOT NULL DEFAULT '',
  note text NOT NULL DEFAULT '',
  invalid_before text NOT NULL DEFAULT '[]',
  planned_at timestamptz NOT NULL DEFAULT now(),
  started_at timestamptz,
  ended_at timestamptz
)
"""
_COLUMNS = (
    "id, origin, kind, schema_name, object_name, object_oid, relfilenode, table_oid, bytes, from_place, to_place, state, method, note,"
    " invalid_before, started_at::text, ended_at::text"
)


@dataclass
class Row:
    id: int
    origin: str
    kind: str
    schema: str
    name: str
    oid: int
    filenode: int
    table: int
    bytes: int
    from_place: str
    to_place: str
    state: str
    method: str
    note: str
    invalid_before: list[int]
    started_at: str | None
    ended_at: str | None

    @property
    def label(self) -> str:
        return "temporary files" if self.kind == "temporary" else f"{self.kind} {self.schema}.{self.name}"

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id, "origin": self.origin, "kind": self.kind, "schema": self.schema, "name": self.name, "oid": self.oid,
            "bytes": self.bytes, "from": self.from_place, "to": self.to_place, "state": self.state, "method": self.method,
            "note": self.note, "started_at": self.started_at, "ended_at": self.ended_at,
        }  # fmt: skip


def _row(row: tuple[Any, ...]) -> Row:
    values = list(row)
    values[14] = json.loads(values[14])
    return Row(*values)


class Journal:
    def __init__(self, connection: db.Connection) -> None:
        self.connection = connection

    def exists(self) -> bool:
        """MachineError if the name is taken by somebody else's object."""
        schema = db.rows(
            self.connection,
            "SELECT n.nspowner::regrole::text, n.nspowner = (SELECT oid FROM pg_roles WHERE rolname = current_user) OR r.rolsuper,"
            " coalesce(obj_description(n.oid, 'pg_namespace'), ''), r.rolsuper, has_schema_privilege(n.oid, 'USAGE')"
            " FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner WHERE n.nspname = %s",
            SCHEMA,
        )
        if not schema:
            return False
        owner, trusted, comment, of_superuser, open_ = schema[0]
        if comment != MARK:
            raise MachineError(f"the schema {SCHEMA} of this database is not pgflash's", "rename it: pgflash keeps its journal there")
        if trusted and open_:
            table = db.rows(
                self.connection,
                "SELECT c.relkind = 'r', c.relowner = (SELECT oid FROM pg_roles WHERE rolname = current_user) OR r.rolsuper"
                " FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner WHERE c.oid = to_regclass(%s)",
                f"{SCHEMA}.{TABLE}",
            )
            if not table or all(table[0]):
                return bool(table)
        raise MachineError(
            f"the journal in the schema {SCHEMA} belongs to {owner}, not to {self.connection.info.user}",
            f"connect as {owner}" + (", or as another superuser" if of_superuser else ""),
        )

    def may_create(self) -> None:
        if not self.exists() and not db.value(self.connection, "SELECT has_database_privilege(current_database(), 'CREATE')"):
            raise MachineError(
                f"{self.connection.info.user} may not create a schema in this database, and the journal of moves needs one",
                "connect as the database's owner or as a superuser",
            )

    def create(self) -> None:
        if self.exists():
            return
        with self.connection.transaction():
            if not db.value(self.connection, "SELECT 1 FROM pg_namespace WHERE nspname = %s", SCHEMA):
                db.rows(self.connection, f"CREATE SCHEMA {SCHEMA}")
                db.rows(self.connection, f"COMMENT ON SCHEMA {SCHEMA} IS '{MARK}'")
            db.rows(self.connection, _CREATE)
            db.rows(self.connection, f"COMMENT ON TABLE {SCHEMA}.{TABLE} IS '{MARK}'")

    def rows(self) -> list[Row]:
        if not self.exists():
            return []
        found = db.rows(self.connection, f"SELECT {_COLUMNS} FROM {SCHEMA}.{TABLE} ORDER BY id")
        return [_row(row) for row in found]

    def add(
        self, origin: str, kind: str, schema: str, name: str, oid: int, filenode: int, table: int, size: int, source: str, target: str
    ) -> Row:
        identity = db.value(
            self.connection,
            f"INSERT INTO {SCHEMA}.{TABLE} (origin, kind, schema_name, object_name, object_oid, relfilenode, table_oid, bytes, from_place,"
            " to_place, state) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, 'planned') RETURNING id",
            origin, kind, schema, name, oid, filenode, table, size, source, target,
        )  # fmt: skip
        return Row(int(identity), origin, kind, schema, name, oid, filenode, table, size, source, target, "planned", "", "", [], None, None)

    def begin(self, row: Row, state: str, method: str, invalid_before: list[int]) -> None:
        row.state, row.method, row.invalid_before = state, method, invalid_before
        db.rows(
            self.connection,
            f"UPDATE {SCHEMA}.{TABLE} SET state = %s, method = %s, invalid_before = %s, note = '', started_at = clock_timestamp(),"
            " ended_at = NULL WHERE id = %s",
            state, method, json.dumps(invalid_before), row.id,
        )  # fmt: skip

    def end(
        self, row: Row, state: str, note: str = "", *, oid: int | None = None, name: str | None = None, filenode: int | None = None
    ) -> None:
        end_on(self.connection, row, state, note, oid=oid, name=name, filenode=filenode)


def end_on(
    connection: db.Connection,
    row: Row,
    state: str,
    note: str = "",
    *,
    oid: int | None = None,
    name: str | None = None,
    filenode: int | None = None,
) -> None:
    """On the connection that did the move: with it in one transaction where there is one."""
    row.state, row.note = state, note
    row.oid, row.name, row.filenode = oid or row.oid, name or row.name, filenode or row.filenode
    db.rows(
        connection,
        f"UPDATE {SCHEMA}.{TABLE} SET state = %s, note = %s, object_oid = %s, object_name = %s, relfilenode = %s,"
        " ended_at = clock_timestamp() WHERE id = %s",
        state, note, row.oid, row.name, row.filenode, row.id,
    )  # fmt: skip
