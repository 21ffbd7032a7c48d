"""Devices of a cache that are in trouble: while it goes on with others, the state of the cache says nothing of them."""

from __future__ import annotations

from typing import Any

from pgflash.connection import Connection, exists, members

VIEW = "pg_stat_flashcache_device"
# Of a cache that is off as a whole, the first device is not one beside it.
OFF = (
    f"SELECT device, path, reason FROM {{schema}}.{VIEW} WHERE state = 'off' AND (device > 1 OR "
    "(SELECT state FROM {schema}.pg_stat_flashcache) IN ('active', 'paused')) ORDER BY device"
)


def off(connection: Connection, schema: str) -> list[dict[str, Any]] | None:
    """Number, path and reason of each; none without the view, None where this role may not read it. The schema is quoted."""
    if VIEW not in members(connection, (VIEW,)):
        return None if exists(connection, VIEW) else []
    return connection.execute(OFF.replace("{schema}", schema).encode()).fetchall()


def unasked(connection: Connection, role: str) -> str:
    """Why nothing is known of them, and what helps; empty where it is known, or the extension has no such view. The role is quoted."""
    if VIEW in members(connection, (VIEW,)) or not exists(connection, VIEW):
        return ""
    return closed(role)


def closed(role: str) -> str:
    return f"{VIEW}: this role may not read it, so nothing is known of a device that is off: GRANT pg_monitor TO {role}"


def words(row: dict[str, Any]) -> str:
    return f"device {row['device']} of the cache is off, {row['path']}: {row['reason'] or 'no reason is known'}"
