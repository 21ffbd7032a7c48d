"""Numbers out of a study's lines: medians over repetitions, with the least and the greatest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Spread:
    """Of the repetitions of one measurement."""

    median: float
    least: float
    greatest: float
    count: int

    @property
    def scatter(self) -> float:
        """Greatest minus least, as a share of the median."""
        return (self.greatest - self.least) / self.median if self.median else 0.0

    def overlaps(self, other: Spread) -> bool:
        return self.least <= other.greatest and other.least <= self.greatest


def spread(values: Iterable[float | None]) -> Spread | None:
    kept = [value for value in values if value is not None]
    return Spread(median(kept), min(kept), max(kept), len(kept)) if kept else None


@dataclass
class Point:
    """All repetitions of a variant with a number of clients."""

    scenario: str
    variant: str
    clients: int
    arm: dict[str, Any]
    conditions: dict[str, Any]
    runs: list[dict[str, Any]] = field(default_factory=list)
    plateaus: dict[int, bool] = field(default_factory=dict)  # by repetition: whether warming up had stopped to bring more

    @property
    def repetitions(self) -> int:
        return len(self.runs)

    @property
    def warm(self) -> int:
        """How many of the repetitions were measured on a plateau."""
        return sum(1 for run in self.runs if self.plateaus.get(int(run["repetition"]), False))

    @property
    def filled(self) -> Spread | None:
        """Share of the cache that was in use at the end of each run."""
        return self.value(lambda run: run["used"] / run["slots"] if run.get("slots") and run.get("used") is not None else None)

    def value(self, pick: Callable[[dict[str, Any]], float | None]) -> Spread | None:
        return spread(pick(run) for run in self.runs)

    def named(self, name: str) -> Spread | None:
        return self.value(lambda run: run.get(name))

    @property
    def average_ms(self) -> Spread:
        found = self.named("average_ms")
        assert found is not None  # every run has one
        return found

    @property
    def tps(self) -> Spread:
        found = self.named("tps")
        assert found is not None
        return found

    def percentile(self, name: str) -> Spread | None:
        return self.value(lambda run: run.get("percentiles", {}).get(name))

    def failover(self, *names: str) -> Spread | None:
        """Of what was measured at the failover after each run."""

        def pick(run: dict[str, Any]) -> float | None:
            found: Any = run.get("failover")
            for name in names:
                found = found.get(name) if found is not None else None
            return None if found is None else float(found)

        return self.value(pick)

    @property
    def kept(self) -> Spread | None:
        """Transactions a second in the first seconds after the failover, as a share of those before."""
        return self.failover("kept")

    def device(self, device: str, name: str) -> Spread | None:
        return self.value(lambda run: run.get("devices", {}).get(device, {}).get(name))

    def rate(self, counter: str) -> Spread | None:
        """Of a counter, a second."""

        def pick(run: dict[str, Any]) -> float | None:
            count = run.get("counters", {}).get(counter)
            return None if count is None else float(count) / float(run["elapsed_s"])

        return self.value(pick)

    @property
    def cache_mb(self) -> int:
        return int(self.conditions.get("flash_mb") or 0)


def points(runs: Iterable[dict[str, Any]], warmups: Iterable[dict[str, Any]] = ()) -> list[Point]:
    """In the order in which they were first measured."""
    found: dict[tuple[str, str, int], Point] = {}
    for run in runs:
        key = (run["scenario"], run["variant"], int(run["clients"]))
        if key not in found:
            found[key] = Point(*key, arm=run["arm"], conditions=run["conditions"])
        found[key].runs.append(run)
    for line in warmups:
        for point in found.values():
            if (point.scenario, point.variant) == (line["scenario"], line["variant"]):
                point.plateaus[int(line["repetition"])] = bool(line["plateau"])
    return list(found.values())
