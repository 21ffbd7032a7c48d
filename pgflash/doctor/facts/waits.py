"""What sessions wait for: pg_stat_activity, looked at many times a second for some seconds."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

QUERY = """SELECT coalesce(wait_event_type, 'CPU'), coalesce(wait_event, 'CPU') FROM pg_stat_activity
WHERE state = 'active' AND backend_type IN ('client backend', 'parallel worker') AND pid <> pg_backend_pid()"""
INTERVAL_S = 0.1
ENOUGH = 20


@dataclass
class Waits:
    seconds: float
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def share(self, *kinds: str, events: tuple[str, ...] = ()) -> float:
        """Of the samples of active sessions: those of a type, or of these events."""
        hit = sum(count for (kind, event), count in self.counts.items() if kind in kinds or event in events)
        return hit / self.total if self.total else 0.0


def take(rows: Callable[[str], list[tuple[Any, ...]]], seconds: float, sleep: Callable[[float], None] = time.sleep) -> Waits:
    found = Waits(seconds)
    for _ in range(max(1, round(seconds / INTERVAL_S))):
        found.counts.update((str(kind), str(event)) for kind, event in rows(QUERY))
        sleep(INTERVAL_S)
    return found
