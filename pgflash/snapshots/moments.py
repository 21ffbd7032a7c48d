"""Durations, and snapshots by number or time, as people write them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

import psycopg

from pgflash.errors import ArgumentError
from pgflash.pilot import db
from pgflash.pilot.db import Connection

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|h|d)")
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
DURATION_FORMS = "a number of s, min, h or d, as in 30s or 15min"
MOMENT_FORMS = "the number of a snapshot, or a time as PostgreSQL takes it: '2026-11-26 02:00', 'yesterday 02:00', now"
INTERVAL_FORMS = "FROM..TO, as 12..15 or 'yesterday 02:00..yesterday 03:00'"


def parse_duration(text: str) -> float | None:
    """Seconds; None if it is no duration, or none at all."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        return None
    return float(match[1]) * _SECONDS[match[2]] or None


@dataclass(frozen=True)
class Moment:
    """A snapshot that somebody asked for: by number, or the one nearest to a time."""

    id: int
    taken_at: datetime
    asked: datetime | None = None

    @property
    def away_s(self) -> float:
        return abs((self.taken_at - self.asked).total_seconds()) if self.asked else 0.0


def find(connection: Connection, schema: str, text: str) -> Moment:
    """The snapshot that the text means. Says what there is if there is no such one."""
    (there,) = db.rows(connection, f"SELECT min(id), max(id), min(taken_at), max(taken_at) FROM {schema}.pg_flashcache_snapshots")
    if there[0] is None:
        raise ArgumentError("there are no snapshots in this database", "take one: pgflash snapshot, or SELECT pg_flashcache_snapshot()")
    first, last, since, until = there
    hint = f"snapshots here go from {first} ({since:%Y-%m-%d %H:%M}) to {last} ({until:%Y-%m-%d %H:%M})"
    text = text.strip()
    if text.isdecimal() and len(text) < 19:
        found = db.rows(connection, f"SELECT id, taken_at FROM {schema}.pg_flashcache_snapshots WHERE id = %s", int(text))
        if not found:
            raise ArgumentError(f"there is no snapshot {text}", hint)
        return Moment(*found[0])
    try:
        asked = connection.execute("SELECT %s::text::timestamptz", (text,)).fetchone()
    except psycopg.errors.DataError as error:
        raise ArgumentError(f"{text!r} is neither a snapshot nor a time; allowed: {MOMENT_FORMS}", hint) from error
    assert asked is not None
    nearest = f"SELECT id, taken_at FROM {schema}.pg_flashcache_snapshots ORDER BY abs(extract(epoch FROM taken_at - %s)), id LIMIT 1"
    number, taken_at = db.rows(connection, nearest, asked[0])[0]
    return Moment(number, taken_at, asked[0])


def between(connection: Connection, schema: str, start: str, end: str) -> tuple[Moment, Moment]:
    first, last = find(connection, schema, start), find(connection, schema, end)
    if first.id == last.id:
        raise ArgumentError(
            f"{start!r} and {end!r} are the same snapshot, {first.id}", "an interval takes two: pgflash report --list shows what there is"
        )
    if first.id > last.id:
        raise ArgumentError(f"snapshot {first.id} is later than {last.id}", "the earlier one comes first")
    return first, last


def split(text: str) -> tuple[str, str]:
    """FROM..TO"""
    start, dots, end = text.partition("..")
    if not dots or not start.strip() or not end.strip():
        raise ArgumentError(f"{text!r} is no interval; allowed: {INTERVAL_FORMS}")
    return start, end
