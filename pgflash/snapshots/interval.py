"""The sum of the snapshots between two."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pgflash.pilot import db
from pgflash.pilot.db import Connection
from pgflash.snapshots.moments import Moment

LASTING = ("query",)  # labels that stay as they were where a later snapshot lacks them


@dataclass
class Row:
    """One row of a section: labels as they were last, counters by how much they moved."""

    key: str
    labels: dict[str, Any]
    moved: dict[str, float]

    def get(self, name: str) -> float:
        return self.moved.get(name, 0.0)

    def label(self, name: str) -> str:
        return str(self.labels.get(name, ""))


@dataclass
class Step:
    """One snapshot of the interval, with what moved since the one before."""

    id: int
    taken_at: datetime
    seconds: float
    note: str
    server_started: datetime
    version: int
    resets: list[str]
    problems: dict[str, str]
    sections: dict[str, dict[str, Row]]


@dataclass(frozen=True)
class Taker:
    """A server that took snapshots. Each failover is a new timeline."""

    name: str  # its cluster_name
    timeline: int  # 0: not known


@dataclass
class Interval:
    """From one snapshot to another: sections summed up, and the steps that they are the sum of."""

    first: Moment
    last: Moment
    database: str
    notes: list[str]
    steps: list[Step]
    restarted: bool
    before: list[dict[str, Row]] = field(default_factory=list)  # settings with the first snapshot
    standby: bool = False  # which was asked for it: others took the snapshots
    sections: dict[str, dict[str, Row]] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return (self.last.taken_at - self.first.taken_at).total_seconds()

    def rows(self, section: str) -> list[Row]:
        return list(self.sections.get(section, {}).values())

    def one(self, section: str) -> Row | None:
        """Of a section that has one row."""
        found = self.rows(section)
        return found[0] if found else None

    @property
    def resets(self) -> list[str]:
        return sorted({name for step in self.steps for name in step.resets})

    def problem(self, section: str) -> str:
        """Why it is not there, or not for all of the time; empty if it is."""
        with_it = sum(section in step.sections for step in self.steps)
        if with_it == len(self.steps):
            return ""
        reasons = list(dict.fromkeys(step.problems[section] for step in self.steps if section in step.problems))
        words = "; ".join(reasons) or "not in these snapshots"
        return words if not with_it else f"in {with_it} of {len(self.steps)} snapshots only: {words}"

    @property
    def takers(self) -> list[Taker]:
        """The servers that took its snapshots, in their order."""
        settings = [*self.before, *(step.sections.get("settings", {}) for step in self.steps)]
        labels = [row.labels for section in settings for row in section.values()]
        return list(dict.fromkeys(Taker(str(one.get("cluster_name") or ""), int(one.get("timeline") or 0)) for one in labels))

    def lacking(self, section: str) -> str:
        """What its rows do not have, and why; empty: nothing."""
        without = [step.problems[section] for step in self.steps if section in step.sections and section in step.problems]
        words = "; ".join(dict.fromkeys(without))
        return words if len(without) in (0, len(self.steps)) else f"in {len(without)} of {len(self.steps)} snapshots {words}"


def load(connection: Connection, schema: str, first: Moment, last: Moment) -> Interval:
    """Sections of all snapshots after the first, to the last."""
    heads = db.rows(
        connection,
        "SELECT id, taken_at, note, server_started, server_version_num, resets, problems, database"
        f" FROM {schema}.pg_flashcache_snapshots WHERE id BETWEEN %s AND %s ORDER BY id",
        first.id, last.id,
    )  # fmt: skip
    steps = []

    def stored(number: int) -> dict[str, dict[str, Row]]:
        data = db.rows(connection, f"SELECT section, data FROM {schema}.pg_flashcache_snapshot_data WHERE snapshot = %s", number)
        return {
            str(section): {
                str(row["key"]): Row(str(row["key"]), dict(row["labels"] or {}), {name: float(value) for name, value in row["moved"].items()})
                for row in rows
            }
            for section, rows in data
        }  # fmt: skip

    for before, head in itertools.pairwise(heads):
        sections = stored(head[0])
        seconds = (head[1] - before[1]).total_seconds()
        steps.append(Step(head[0], head[1], seconds, head[2] or "", head[3], head[4], list(head[5]), dict(head[6]), sections))
    notes = [f"snapshot {head[0]}: {head[2]}" for head in heads if head[2]]
    restarted = any(before[3] != after[3] for before, after in itertools.pairwise(heads))
    standby = bool(db.value(connection, "SELECT pg_catalog.pg_is_in_recovery()"))
    settings = [one for one in [stored(first.id).get("settings")] if one]
    return Interval(first, last, str(heads[0][7]), notes, steps, restarted, settings, standby, added(steps))


def added(steps: list[Step]) -> dict[str, dict[str, Row]]:
    total: dict[str, dict[str, Row]] = {}
    for step in steps:
        for section, rows in step.sections.items():
            there = total.setdefault(section, {})
            for key, row in rows.items():
                known = there.get(key)
                if known is None:
                    there[key] = Row(key, dict(row.labels), dict(row.moved))
                    continue
                known.labels = {name: known.labels[name] for name in LASTING if name in known.labels} | row.labels
                for name, value in row.moved.items():
                    known.moved[name] = known.moved.get(name, 0.0) + value
    return total
