"""What a driver of a load does, and what it hands back."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pgflash.pilot.target import Place

PERCENTILES = (50.0, 95.0, 99.0)


@dataclass
class LoadResult:
    """One run of a driver. Latencies in milliseconds; over_time has rows of second, p50, p95, p99, each None where unknown."""

    transactions: int
    tps: float
    average_ms: float
    percentiles: dict[str, float] = field(default_factory=dict)
    over_time: list[list[float | None]] = field(default_factory=list)
    errors: int = 0
    note: str = ""
    more: dict[str, Any] = field(default_factory=dict)


class Driver(Protocol):
    name: str

    def missing(self, bin_folder: str) -> str:
        """What has to be installed for it; empty if nothing."""

    def space_mb(self) -> int:
        """About how large its database is; 0 if nobody knows beforehand."""

    def prepare(self, place: Place, work: Path) -> None:
        """Loads its data into an empty database. For a load without data of its own: nothing."""

    def run(self, place: Place, clients: int, seconds: int, work: Path, *, measured: bool) -> LoadResult:
        """Puts the load on for some seconds. Without `measured` only the load matters."""

    def check(self, place: Place, work: Path) -> dict[str, Any] | None:
        """The driver's own consistency checks, after a run; None if it has none."""


def percentile(ordered: list[float], share: float) -> float:
    """Nearest rank, of values in ascending order."""
    if not ordered:
        return 0.0
    rank = int(-(-len(ordered) * share // 100))
    return ordered[min(len(ordered), max(1, rank)) - 1]


def percentiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {f"p{share:g}": round(percentile(ordered, share), 4) for share in PERCENTILES} if ordered else {}
