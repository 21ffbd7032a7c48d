"""The figures of a report, one file each: what it needs, how it is drawn, and what was published elsewhere, with its source."""

from __future__ import annotations

from typing import Protocol

from pgflash.pilot.figures import Point
from pgflash.pilot.report.figures import (
    cache_or_move,
    cluster,
    failover,
    front_of_flash,
    memory_or_flash,
    page_cache,
    response_by_size,
    three_ways,
    throughput_by_size,
    tps_by_users,
    tuning,
    versions,
)
from pgflash.pilot.report.model import Figure
from pgflash.pilot.scenario import Arms, Scenario


class Kind(Protocol):
    """A module here. PUBLISHED is shown beside the figure, and where nothing was measured for it."""

    TITLE: str
    QUESTION: str
    PUBLISHED: str

    def needs(self, arms: Arms) -> str:
        """What a scenario lacks for it; empty if nothing."""

    def draw(self, scenario: Scenario, points: list[Point]) -> Figure | None: ...


KINDS: dict[str, Kind] = {
    "response-by-size": response_by_size,
    "three-ways": three_ways,
    "throughput-by-size": throughput_by_size,
    "tps-by-users": tps_by_users,
    "cache-or-move": cache_or_move,
    "front-of-flash": front_of_flash,
    "tuning": tuning,
    "memory-or-flash": memory_or_flash,
    "versions": versions,
    "page-cache": page_cache,
    "cluster": cluster,
    "failover": failover,
}


def not_measured(name: str) -> Figure:
    """In place of a figure that no study has the data for. It draws nothing: what was published does not stand alone."""
    kind = KINDS[name]
    return Figure(name, kind.TITLE, kind.QUESTION, published=kind.PUBLISHED)
