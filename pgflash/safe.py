"""Connections on which nothing of a database's owner runs as the user of pgflash.

Who owns a database chooses its search_path (ALTER DATABASE ... SET), and owns its schema public: may rename that, and put code of
his into its place, between the moment a name is looked up and that in which it is used. So connections are made by `connect`, what
is in an extension is found as a member of it, and `require` refuses where that moment would give away a superuser's rights.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, cast

import psycopg
from psycopg import sql
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import tuple_row
from psycopg.types.json import set_json_loads

from pgflash.errors import MachineError, PgflashError

Connection = psycopg.Connection[tuple[Any, ...]]
OPTION = "-csearch_path=pg_catalog,pg_temp"
HINT = (
    "create the extension in a schema that belongs to a superuser, or in a database that does, such as postgres;"
    " or connect as a role that is only in pg_monitor"
)

# How values are written, and what statements mean, in every session of pgflash: whatever the database, the role or PGOPTIONS has set.
# Of DateStyle only the output: whether 1/2 is in January or in February is the user's.
_SETTINGS = {
    "search_path": "pg_catalog, pg_temp", "datestyle": "ISO", "intervalstyle": "postgres", "bytea_output": "hex",
    "extra_float_digits": "1", "quote_all_identifiers": "off", "standard_conforming_strings": "on", "transform_null_equals": "off",
    "client_min_messages": "notice", "default_transaction_isolation": "read committed", "default_transaction_deferrable": "off", "jit": "off",
}  # fmt: skip
# A database without an encoding has bytes, and as UTF8 the server would refuse to send those that are none.
_SET = """SELECT pg_catalog.set_config('client_encoding', CASE pg_catalog.current_setting('server_encoding')
    WHEN 'SQL_ASCII' THEN 'SQL_ASCII' ELSE 'UTF8' END, false), """ + ", ".join(
    f"pg_catalog.set_config('{name}', '{value}', false)" for name, value in _SETTINGS.items()
)
_EXTENSION = """
SELECT n.nspname, pg_catalog.quote_ident(n.nspname), e.extversion, s.rolname, s.rolsuper, o.rolname, o.rolsuper,
       EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolsuper
                  AND (pg_has_role(current_user, r.oid, 'MEMBER') OR pg_has_role(session_user, r.oid, 'MEMBER'))),
       has_schema_privilege(n.oid, 'USAGE'), pg_catalog.quote_ident(current_user)
  FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
  JOIN pg_catalog.pg_database d ON d.datname = current_database()
  JOIN pg_catalog.pg_roles own ON own.oid = n.nspowner
  JOIN pg_catalog.pg_roles s ON s.oid = CASE WHEN own.rolname = 'pg_database_owner' THEN d.datdba ELSE n.nspowner END
  JOIN pg_catalog.pg_roles o ON o.oid = e.extowner
 WHERE e.extname = %s
"""
_RELATION = """
SELECT c.oid::bigint FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
  JOIN pg_catalog.pg_extension e ON d.refclassid = 'pg_catalog.pg_extension'::regclass AND d.refobjid = e.oid
 WHERE e.extname = 'pg_flashcache' AND c.relname = %s AND c.relnamespace = e.extnamespace
"""
_FUNCTION = """
SELECT p.oid::bigint FROM pg_catalog.pg_proc p
  JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
  JOIN pg_catalog.pg_extension e ON d.refclassid = 'pg_catalog.pg_extension'::regclass AND d.refobjid = e.oid
 WHERE e.extname = 'pg_flashcache' AND p.proname = %s AND p.pronamespace = e.extnamespace
   AND pg_catalog.oidvectortypes(p.proargtypes) = %s
"""


_OTHERS = 0  # types that nothing else is registered for: regclass, int2vector ...


class Readable(Loader):
    """A text, whatever is in it: names of databases and roles, and paths, are of the encoding of whoever made them."""

    def load(self, data: Buffer) -> str:
        return bytes(data).decode(errors="replace")


class Written(psycopg.Cursor[Any]):
    """Statements are UTF-8 also where the server knows no encoding: there psycopg would allow only ASCII in them."""

    def execute(self, query: Any, *arguments: Any, **named: Any) -> Any:
        if self.connection.pgconn.parameter_status(b"client_encoding") == b"SQL_ASCII":
            text = query.as_string(None) if isinstance(query, sql.Composable) else query
            query = text.encode() if isinstance(text, str) else text
        return super().execute(query, *arguments, **named)


def _read_leniently(connection: psycopg.Connection[Any]) -> None:
    for name in ("text", "name", "varchar", "bpchar", '"char"', _OTHERS):
        connection.adapters.register_loader(name, Readable)
    connection.cursor_factory = Written
    set_json_loads(lambda data: json.loads(data if isinstance(data, str) else bytes(data).decode(errors="replace")), connection)


def connect(conninfo: str, kind: type[psycopg.Connection[Any]] = psycopg.Connection, /, **settings: str) -> Connection:
    """A connection, of autocommit, whose search_path is pg_catalog and, last, pg_temp: from the first statement on, and after RESET.

    Some connection poolers take no options: then the first statement, in which nothing is searched for, is what sets it. That also
    makes the server write dates and names as they are read here.
    """
    given = make_conninfo(conninfo, **settings)
    try:
        connection = kind.connect(_with_option(given), autocommit=True)
    except psycopg.OperationalError as error:
        if "unsupported startup parameter" not in str(error):
            raise
        connection = kind.connect(given, autocommit=True)
    try:
        _read_leniently(connection)
        connection.execute(_SET)
    except BaseException:
        connection.close()
        raise
    return connection


def _with_option(conninfo: str) -> str:
    """With ours behind the user's. Those of a service cannot be seen, and ours would replace them."""
    given = conninfo_to_dict(conninfo)
    if given.get("service") or (os.environ.get("PGSERVICE") and "options" not in given):
        return conninfo
    options = given.get("options", os.environ.get("PGOPTIONS"))
    return make_conninfo(conninfo, options=f"{options} {OPTION}" if options else OPTION)


def users_options(options: str) -> str:
    """Without ours: for programs that are not pgflash."""
    return options.removesuffix(OPTION).strip()


@dataclass(frozen=True)
class Extension:
    """Of this database. `danger`: why a superuser is not to use it; empty: may be used. `lacking`: what GRANT lets this role use it.
    `trusted`: it, and its schema, belong to superusers: what it says is not somebody else's word."""

    schema: str  # quoted
    version: str
    danger: str
    lacking: str = ""
    role: str = ""  # quoted
    trusted: bool = False

    @property
    def closed(self) -> str:
        """In words, where the role may not use it."""
        return f"this role may not use the schema {self.schema} of the extension" if self.lacking else ""


def extension(connection: psycopg.Connection[Any], name: str = "pg_flashcache") -> Extension | None:
    """None: not in this database."""
    row = connection.cursor(row_factory=tuple_row).execute(_EXTENSION, (name,)).fetchone()
    if row is None:
        return None
    plain, schema, version, schema_owner, schema_trusted, owner, trusted, super_, usable, role = row
    danger = ""
    if super_ and not schema_trusted:
        danger = (
            f'the extension {name} is in schema "{plain}", which belongs to "{schema_owner}", who is no superuser:'
            " who owns the schema could put other code into its place, which would run with a superuser's rights"
        )
    elif super_ and not trusted:
        danger = f'the extension {name} belongs to "{owner}", who is no superuser: its code would run with a superuser\'s rights'
    return Extension(
        schema, version, danger, "" if usable else f"GRANT USAGE ON SCHEMA {schema} TO {role}", str(role), schema_trusted and trusted
    )


def require(found: Extension | None, kind: type[PgflashError] = MachineError) -> None:
    """An error where who is connected has a superuser's rights, and somebody else could get them by it; or may not use the schema."""
    if found is not None and found.danger:
        raise kind(found.danger, HINT)
    if found is not None and found.lacking:
        raise kind(found.closed, found.lacking)


def relation(connection: psycopg.Connection[Any], name: str) -> int | None:
    """OID of a view or table of the extension; None: it has none of that name."""
    return _oid(connection, _RELATION, name)


def function(connection: psycopg.Connection[Any], name: str, arguments: str = "") -> int | None:
    """OID of a function of the extension with just these types of arguments, as in 'text, integer'."""
    return _oid(connection, _FUNCTION, name, arguments)


def _oid(connection: psycopg.Connection[Any], statement: str, *parameters: str) -> int | None:
    row = connection.cursor(row_factory=tuple_row).execute(cast(Any, statement), parameters).fetchone()
    return int(row[0]) if row else None
