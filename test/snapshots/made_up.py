"""Intervals that no server has had."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from pgflash.snapshots.interval import Interval, Row, Step, added
from pgflash.snapshots.moments import Moment

START = datetime(2026, 11, 26, 2, 0, tzinfo=UTC)
STARTED = datetime(2026, 11, 1, tzinfo=UTC)
Sections = dict[str, list[dict[str, Any]]]


def row(key: str = "", labels: dict[str, Any] | None = None, **moved: float) -> dict[str, Any]:
    return {"key": key, "labels": labels or {}, "moved": moved}


def waits(**samples: float) -> list[dict[str, Any]]:
    """As sampled in 100 looks: cpu=20, DataFileRead=71."""
    types = {"cpu": "CPU", "DataFileRead": "IO", "FlashcacheSingleBlockRead": "Extension", "WALWrite": "LWLock", "relation": "Lock"}
    rows = [row(looks=100)]
    for event, count in samples.items():
        labels = {"event_type": types[event], "event": "" if event == "cpu" else event}
        rows.append(row(f"{types[event]}/{event}", labels, samples=count))
    return rows


def interval(
    *steps: Sections, seconds: float = 100, version: int = 150000, problems: dict[str, str] | None = None, first: int = 1
) -> Interval:
    made = [
        Step(
            first + number, START + timedelta(seconds=seconds * number), seconds, "", STARTED, version, [], problems or {},
            {name: {item["key"]: Row(item["key"], item["labels"], dict(item["moved"])) for item in rows} for name, rows in sections.items()},
        )
        for number, sections in enumerate(steps, 1)
    ]  # fmt: skip
    last = Moment(made[-1].id, made[-1].taken_at)
    return Interval(Moment(first, START), last, "shop", [], made, False, sections=added(made))
