"""What pgbench prints and logs, as numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pgflash.errors import BrokeOff

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


def percentile(ordered: list[float], share: float) -> float:
    """Nearest rank, of values in ascending order."""
    if not ordered:
        return 0.0
    rank = int(-(-len(ordered) * share // 100))
    return ordered[min(len(ordered), max(1, rank)) - 1]


def percentiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {f"p{share:g}": round(percentile(ordered, share), 4) for share in PERCENTILES} if ordered else {}


def parse_output(text: str) -> LoadResult | None:
    """The summary that pgbench prints; None if there is none."""
    tps = re.search(r"^tps = ([0-9.]+)", text, re.MULTILINE)
    average = re.search(r"^latency average = ([0-9.]+) ms", text, re.MULTILINE)
    count = re.search(r"^number of transactions actually processed: (\d+)", text, re.MULTILINE)
    failed = re.search(r"^number of failed transactions: (\d+)", text, re.MULTILINE)
    if tps is None or average is None or count is None:
        return None
    return LoadResult(int(count[1]), float(tps[1]), float(average[1]), errors=int(failed[1]) if failed else 0)


def latencies(logs: list[Path]) -> tuple[dict[str, float], list[list[float | None]]]:
    """Percentiles over all, and for each second, from pgbench's log of (sampled) transactions."""
    every: list[float] = []
    seconds: dict[int, list[float]] = {}
    for path in logs:
        for line in path.read_text("ascii", "replace").splitlines():
            fields = line.split()
            if len(fields) < 6 or not fields[2].isdigit():  # a failed transaction has a word in place of its time
                continue
            try:
                milliseconds, second = int(fields[2]) / 1000, int(fields[4])
            except ValueError as error:
                raise BrokeOff(f"{path.name} has a line that is not pgbench's: {line!r}") from error
            every.append(milliseconds)
            seconds.setdefault(second, []).append(milliseconds)
    if not every:
        return {}, []
    first = min(seconds)
    over_time: list[list[float | None]] = []
    for second in sorted(seconds):
        ordered = sorted(seconds[second])
        over_time.append([second - first, *(round(percentile(ordered, share), 3) for share in PERCENTILES)])
    return percentiles(every), over_time
