"""Devices that were added to a cache and are in trouble: the state of the cache is that of the first one, and says nothing of them."""

from __future__ import annotations

from typing import Any

from pgflash.connection import Connection, members

VIEW = "pg_stat_flashcache_device"
OFF = f"SELECT device, path, reason FROM {{schema}}.{VIEW} WHERE device > 1 AND state = 'off' ORDER BY device"


def off(connection: Connection, schema: str) -> list[dict[str, Any]]:
    """Number, path and reason of each; none without the view. The schema is quoted."""
    if VIEW not in members(connection, (VIEW,)):
        return []
    return connection.execute(OFF.replace("{schema}", schema).encode()).fetchall()


def words(row: dict[str, Any]) -> str:
    return f"device {row['device']} of the cache is off, {row['path']}: {row['reason'] or 'no reason is known'}"
