"""Settings of one node: written by ALTER SYSTEM, and loaded. Where that ends in an error, what was there before is put back.

An error may come before the server has done what it was asked for, or after; where its connection is lost, nobody knows. So all that was
begun is put back, over a new connection if it must be, and loaded again if loading had begun. Either nothing is changed (PutBack, or
ServerError where the server was lost), or it is said what may be (BrokeOff).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from pgflash.connection import SECRETS, Connection, reason, without_secrets
from pgflash.errors import BrokeOff, PgflashError, Refused, ServerError
from pgflash.shown import visible

LOAD_S = 60.0
POLL_S = 0.5
AGAIN_S = 10.0  # for which a server whose connection was lost is tried again


class PutBack(Refused):
    """The server has refused something, and nothing is changed on the node."""


def alter(connection: Connection, name: str, value: str | None) -> None:
    parts = sql.SQL(".").join(map(sql.Identifier, name.split(".")))
    if value is None:
        connection.execute(sql.SQL("ALTER SYSTEM RESET {}").format(parts))
    else:
        connection.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(parts, sql.Literal(value)))


def load(connection: Connection, node: str) -> None:
    """Returns when the server has read its files."""
    asked = "SELECT pg_conf_load_time() AS at"
    before = connection.execute(asked).fetchone()
    connection.execute("SELECT pg_reload_conf()")
    end = time.monotonic() + LOAD_S
    while connection.execute(asked).fetchone() == before:
        if time.monotonic() > end:
            raise BrokeOff(f"{node} has not read its configuration within {LOAD_S:g} s")
        time.sleep(POLL_S)


def write(node: str, connect: Callable[[], Connection], settings: Mapping[str, str | None], was: Mapping[str, str | None]) -> None:
    """Each value is checked by the server before it is written; a wrong one changes nothing."""
    begun: list[str] = []
    loading = False
    connection = connect()
    try:
        for name, value in settings.items():
            begun.append(name)
            alter(connection, name, value)
        loading = True
        load(connection, node)
    except psycopg.Error as error:
        refused = bool(error.sqlstate) and not connection.broken and not str(error.sqlstate).startswith("57")  # not cut off in it
        if refused and not loading:
            begun.pop()
        loading = loading and error.sqlstate != "42501"  # a role that may not reload has not
        connection = _put_back(node, connection, connect, {name: was.get(name) for name in begun}, loading, said(error, settings))
        kind = PutBack if refused else ServerError
        raise kind(f"{node}: {said(error, settings)}", _hint(error, node)) from None
    finally:
        connection.close()


def _put_back(
    node: str, connection: Connection, connect: Callable[[], Connection], was: Mapping[str, str | None], loading: bool, why: str
) -> Connection:
    """The connection over which it was possible. `why`: of the error for which it is put back."""
    end = time.monotonic() + AGAIN_S
    while True:
        try:
            if connection.broken:
                connection = connect()
            for name, value in was.items():
                alter(connection, name, value)
            if loading:
                load(connection, node)
            return connection
        except (psycopg.Error, PgflashError) as second:
            if time.monotonic() < end and connection.broken and not isinstance(second, BrokeOff):
                time.sleep(POLL_S)
                continue
            connection.close()
            what = f"written and not put back: {', '.join(was)}" if was else "its files may have been loaded"
            raise BrokeOff(f"{node}: {why}; it may have been changed: {what} ({reason(second)})") from None


def said(error: psycopg.Error, settings: Mapping[str, str | None]) -> str:
    """All that the server says. It quotes a value that it refuses, or a part of it, which may hold a password."""
    primary = _masked(error.diag.message_primary or reason(error), settings)
    details = [(word, text) for word, text in (("DETAIL", error.diag.message_detail), ("HINT", error.diag.message_hint)) if text]
    if any(_secrets(name, value) == [value] for name, value in settings.items()):
        details = []  # what is secret in it is not known
    return visible("; ".join([primary, *(f"{word}: {_masked(text, settings)}" for word, text in details)]))


def _masked(text: str, settings: Mapping[str, str | None]) -> str:
    for name, value in settings.items():
        for secret in _secrets(name, value):
            text = text.replace(secret, "...")
    return text


def _secrets(name: str, value: str | None) -> list[str]:
    """What must not be shown of a value: itself, and the secret parts of a connection string, as far as it can be read."""
    if value is None or without_secrets(name, value) == value:
        return []
    try:
        parts = conninfo_to_dict(value)
    except psycopg.Error:
        return [value]
    return sorted((text for text in (value, *(str(parts.get(one) or "") for one in SECRETS)) if text), key=len, reverse=True)


def _hint(error: psycopg.Error, node: str) -> str:
    return f"{'ALTER SYSTEM takes a superuser; ' if error.sqlstate == '42501' else ''}nothing is changed on {node}"
