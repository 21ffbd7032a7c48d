"""Connections to servers that are looked at: bounded in time, named without secrets, with errors that quote nothing.

What libpq says of an error may hold what it was given, a password in the wrong place among it. So nothing of its texts is
shown: each kind of error has a text of its own.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import Any, cast

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from pgflash import safe
from pgflash.errors import ArgumentError, PgflashError

Connection = psycopg.Connection[dict[str, Any]]
APPLICATION = "pgflash"
SECRETS = ("password", "sslpassword", "oauth_client_secret")
HIDDEN = "********"

# A peer that is gone is noticed within some 15 seconds, not after hours.
_KEEP_ALIVE = {"keepalives_idle": "5", "keepalives_interval": "3", "keepalives_count": "3", "tcp_user_timeout": "15000"}

_BY_STATE = {
    "28P01": "the server refuses the password",
    "28000": "the server refuses this user",
    "3D000": "no such database",
    "42501": "permission denied: the role needs pg_monitor, and USAGE on the schema of the extension",
    "53300": "the server has no connection left",
    "55P03": "a lock was not granted in time",
    "57014": "a query took too long",
    "57P01": "the server is shutting down",
    "57P02": "the server crashed",
    "57P03": "the server is starting up or shutting down",
}
ASKS = "the server asks for a password"
NOBODY = "nothing listens there"
# While connecting there is no SQLSTATE. Words of libpq and of the server, in English; other languages get the last text.
_BY_WORDS = (
    ("password authentication failed", "the server refuses the password"),
    ("no password supplied", ASKS),
    ("no pg_hba.conf entry", "the server refuses this user"),
    ("authentication failed", "the server refuses this user"),
    ("starting up", "the server is starting up or shutting down"),
    ("shutting down", "the server is starting up or shutting down"),
    ("not yet accepting connections", "the server is starting up or shutting down"),
    ("too many clients", "the server has no connection left"),
    ("remaining connection slots", "the server has no connection left"),
    ("timeout expired", "no answer in time"),
    ("connection refused", NOBODY),
    ("no such file or directory", NOBODY),
    ("could not translate host name", "no such host"),
    ("does not exist", "no such role or database"),
)


def reason(error: BaseException, places: bool = True) -> str:
    """What went wrong, in a text of ours. `places`: whoever reads it may know where the server should be."""
    if isinstance(error, PgflashError):
        return f"{error.message} ({error.hint})" if error.hint else error.message
    state = getattr(error, "sqlstate", None)
    if state in _BY_STATE:
        return _BY_STATE[state]
    if state:
        return f"the server reports SQLSTATE {state}"
    if isinstance(error, psycopg.OperationalError):
        said = str(error).lower()
        text = next((text for words, text in _BY_WORDS if words in said), "the connection failed")
        # Of several hosts only the last one would be known.
        return f"{text}: {place}" if text == NOBODY and places and "multiple connection" not in said and (place := _place(error)) else text
    return f"unexpected: {type(error).__name__}"


def _place(error: psycopg.OperationalError) -> str:
    """Where libpq has looked for the server: what the connection string does not name is its own, or that of PGHOST, PGPORT ..."""
    try:
        at = error.pgconn
        host, port = (at.host.decode(errors="replace"), at.port.decode(errors="replace")) if at else ("", "")
    except psycopg.Error:
        return ""
    if not host or not port:
        return ""
    return f"socket {host}/.s.PGSQL.{port}" if host.startswith("/") else f"{host}, port {port}"


def parsed(conninfo: str, number: int) -> dict[str, str]:
    """The parts of a connection string, number N of the command line. Nothing of a wrong one is quoted."""
    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(conninfo).items() if value is not None}
        if "@" in parts.get("host", "")[1:]:  # what was to be a password with an @; a first one is that of an abstract socket
            raise psycopg.ProgrammingError
        return parts
    except psycopg.Error:
        raise ArgumentError(
            f"connection string {number} is none",
            "allowed: key=value pairs, or postgresql://user@host:port/database, an @ in a password as %40; it is not quoted"
            " here, since it may hold a password",
        ) from None


def said(error: psycopg.Error) -> str:
    """What libpq or the server say, to be shown to people: libpq indents by tabs."""
    return str(error).strip().expandtabs(4)


def name_of(parts: dict[str, str]) -> str:
    """Where the server is: host, port and database, or the service; never a user's secret."""
    host = parts.get("host") or parts.get("hostaddr") or ""
    if not host and parts.get("service"):
        return f"service {parts['service']}"
    name = host or "local"
    if parts.get("port"):
        name += f":{parts['port']}"
    return f"{name}/{parts['dbname']}" if parts.get("dbname") else name


def without_secrets(name: str, value: str) -> str:
    """The value of a setting as it may be shown: a connection string without its passwords."""
    if not name.endswith("_conninfo"):
        return value
    try:
        parts = conninfo_to_dict(value)
    except psycopg.Error:
        return HIDDEN
    secret = [part for part in SECRETS if parts.get(part)]
    return make_conninfo("", **{**parts, **dict.fromkeys(secret, HIDDEN)}) if secret else value


class Bounded(psycopg.Connection[Any]):
    """Each of its statements is over in `answer_s`, also where the server says nothing, by which it ends none itself."""

    answer_s = 10.0

    def wait(self, *arguments: Any, **named: Any) -> Any:
        """What psycopg waits in. A second descriptor of the socket cannot be another file's when the time is up."""
        with socket.socket(fileno=os.dup(self.fileno())) as line:
            late = threading.Event()

            def cut() -> None:
                late.set()
                with contextlib.suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)

            timer = threading.Timer(self.answer_s, cut)
            timer.daemon = True
            timer.start()
            try:
                return super().wait(*arguments, **named)
            except psycopg.Error:
                if late.is_set():
                    raise psycopg.OperationalError("timeout expired") from None
                raise
            finally:
                timer.cancel()


def connect(parts: dict[str, str], timeout_s: float) -> Connection:
    """A connection that reads only, and whose queries end in time: by the server, and one that says nothing is left soon after."""
    settings = {**_KEEP_ALIVE, "application_name": APPLICATION, **parts}
    settings.setdefault("connect_timeout", str(max(2, round(timeout_s))))
    kind = type("Bounded", (Bounded,), {"answer_s": timeout_s + 2})
    connection = cast(Connection, safe.connect("", kind, **settings))
    try:
        connection.row_factory = dict_row
        milliseconds = max(1, round(timeout_s * 1000))
        connection.execute(
            "SELECT set_config('statement_timeout', %s, false), set_config('lock_timeout', %s, false),"
            " set_config('default_transaction_read_only', 'on', false)",
            (str(milliseconds), str(milliseconds)),
        )
    except BaseException:
        connection.close()
        raise
    return connection


def extension(connection: Connection) -> tuple[str, str] | None:
    """Schema, quoted, and version of the extension in this database; None if it is not there. MachineError if it may not be used."""
    found = safe.extension(connection)
    safe.require(found)
    return (found.schema, found.version) if found else None


def _oid(connection: Connection, name: str) -> int | None:
    plain, is_function, arguments = name.partition("(")
    return safe.function(connection, plain, arguments.rstrip(")")) if is_function else safe.relation(connection, plain)


def exists(connection: Connection, name: str) -> bool:
    """Is it in the extension? Whether it may be read is another question."""
    return _oid(connection, name) is not None


def members(connection: Connection, names: tuple[str, ...]) -> set[str]:
    """Those of the names that are in the extension and that this role may read. Functions are named with their arguments' types."""
    there = set()
    for name in names:
        oid = _oid(connection, name)
        if oid is not None:
            allowed = "has_function_privilege(%s::oid, 'EXECUTE')" if "(" in name else "has_table_privilege(%s::oid, 'SELECT')"
            row = connection.execute(f"SELECT {allowed} AS allowed", (oid,)).fetchone()
            if row and row["allowed"]:
                there.add(name)
    return there
