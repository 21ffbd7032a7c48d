"""Temporary files: temp_tablespaces of this database. They may be on flash that vanishes; nothing that lasts is in them."""

from __future__ import annotations

import re

from psycopg import sql

from pgflash.errors import BrokeOff
from pgflash.pilot import db

_NAME = re.compile(r'"((?:[^"]|"")*)"|([^,\s]+)')


def names(text: str) -> list[str]:
    """Of a list of identifiers as the server writes it."""
    return [match[1].replace('""', '"') if match[1] is not None else match[2] for match in _NAME.finditer(text)]


def of_database(connection: db.Connection) -> str:
    """What ALTER DATABASE has set; empty: nothing."""
    found = db.value(
        connection,
        "SELECT substr(s, length('temp_tablespaces=') + 1) FROM pg_db_role_setting r, unnest(r.setconfig) s"
        " WHERE r.setrole = 0 AND s LIKE 'temp_tablespaces=%' AND r.setdatabase ="
        " (SELECT oid FROM pg_database WHERE datname = current_database())",
    )
    return str(found or "")


def set_for_database(connection: db.Connection, text: str) -> None:
    """`text` as of_database() gives it."""
    database = sql.Identifier(connection.info.dbname)
    if not text:
        db.execute(connection, sql.SQL("ALTER DATABASE {} RESET temp_tablespaces").format(database))
        return
    spaces = sql.SQL(", ").join(sql.Literal(name) for name in names(text))
    db.execute(connection, sql.SQL("ALTER DATABASE {} SET temp_tablespaces = {}").format(database, spaces))


def without_privilege(connection: db.Connection, tablespace: str) -> list[str]:
    """Roles whose sessions would go on with the default tablespace, silently: they may not create in it."""
    found = db.rows(
        connection,
        "SELECT rolname FROM pg_roles, pg_tablespace t WHERE rolcanlogin AND has_database_privilege(rolname, current_database(), 'CONNECT')"
        " AND spcname = %s AND NOT has_tablespace_privilege(rolname, t.oid, 'CREATE') ORDER BY 1",
        tablespace,
    )
    return [str(name) for (name,) in found]


def check(fresh: db.Connection, tablespace: str) -> None:
    """A new session has it, and its temporary files go there."""
    seen = names(str(db.value(fresh, "SHOW temp_tablespaces")))
    if tablespace not in seen:
        raise BrokeOff(
            f"temp_tablespaces of a new session is {', '.join(seen) or 'empty'}, not {tablespace}",
            "a setting of the role comes before that of the database: ALTER ROLE ... RESET temp_tablespaces",
        )
