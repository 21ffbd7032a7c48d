"""How far what was measured can be trusted, and what it says of more flash. Tables and verdicts both ask here, and so agree."""

from __future__ import annotations

from dataclasses import dataclass

from pgflash.pilot.figures import Point
from pgflash.pilot.report import select
from pgflash.pilot.scenario import Scenario
from pgflash.units import MB, show_bytes

ENOUGH = 2  # repetitions, for a verdict
FULL = 0.95  # a cache that is filled so far is full
BUSY = 0.85
STEP = 1.1  # a step in size that brings less than this is flat
TOY_MB = 10 * 1024  # a smaller database is made for the test


def size(point: Point) -> str:
    each = f" on each of {nodes} nodes" if (nodes := point.conditions.get("nodes")) else ""
    return f"{show_bytes(point.cache_mb * MB)} ({100 * select.share(point):.0f}% of the database){each}"


LAB = "Lab in toy sizes"


def lab(scenario: Scenario, points: list[Point]) -> str:
    """What keeps its numbers from being those of a system in use; empty for real storage with a database of real size."""
    if not scenario.own_cluster:
        return ""
    what = [MODELLED] if scenario.disk.kind == "lab" else []
    sizes = _databases(points)
    toy = bool(sizes) and sizes[-1] < TOY_MB
    if toy:
        what.append(f"database of {show_bytes(sizes[-1] * MB)}")
    return f"{LAB if toy else 'Lab'}, not your system: {', '.join(what)}" if what else ""


MODELLED = "modelled disk"


def labs(labels: list[str], points: list[Point]) -> str:
    """The same of several."""
    what = ["modelled disks"] if any(MODELLED in label for label in labels) else []
    toys = [size for size in _databases(points) if size < TOY_MB]
    if toys:
        least, most = show_bytes(toys[0] * MB), show_bytes(toys[-1] * MB)
        what.append(f"databases of {least}" if least == most else f"databases of {least} to {most}")
    return " and ".join(what)


def _databases(points: list[Point]) -> list[int]:
    return sorted(int(point.conditions.get("database_mb") or 0) for point in points)


def doubts(point: Point) -> list[str]:
    """Why nothing should be concluded from it."""
    found = []
    if point.repetitions < ENOUGH:
        found.append(f"{point.variant} was measured once only")
    if point.warm < point.repetitions:
        found.append(f"{point.variant} was still warming up in {point.repetitions - point.warm} of {point.repetitions} repetitions")
    return found


@dataclass(frozen=True)
class More:
    """Whether more flash would bring more. kind: unfilled, processors, flat, rising, unknown."""

    kind: str
    words: str


def more_flash(caches: list[Point]) -> More:
    """By the largest cache that was measured."""
    last = caches[-1]
    filled, cpu, busy = last.filled, last.named("cpu"), last.device("disk", "busy")
    if last.warm < last.repetitions:
        return More("unknown", f"The largest cache, {size(last)}, was still warming up: whether more flash would bring more is not known.")
    if filled is not None and filled.median < FULL:
        return More("unfilled", f"Of {size(last)} only {100 * filled.median:.0f}% was filled: more flash would bring no more.")
    if cpu is not None and cpu.median >= BUSY:
        return More(
            "processors", f"With flash the processors are the limit now ({100 * cpu.median:.0f}% busy): more flash would bring little."
        )
    if len(caches) > 1:
        before = caches[-2]
        step = last.tps.median / before.tps.median
        if step < STEP:
            words = (
                f"From {size(before)} to {size(last)} throughput changed by {100 * (step - 1):+.0f}% only: more flash would bring little."
            )
            return More("flat", words)
    if busy is not None and busy.median >= BUSY:
        return More(
            "rising",
            f"With {size(last)}, which was full, the disk is still the limit ({100 * busy.median:.0f}% busy): more flash may bring more.",
        )
    return More("unknown", "")


def sureness(points: list[Point]) -> str:
    """In one sentence: repetitions, scatter, plateaus, how far flash was filled."""
    counts = sorted({point.repetitions for point in points})
    repeated = [point.average_ms.scatter for point in points if point.repetitions > 1]
    runs, warm = sum(point.repetitions for point in points), sum(point.warm for point in points)
    parts = [f"{' to '.join(map(str, sorted({counts[0], counts[-1]})))} repetition{'s' if counts[-1] > 1 else ''} of each measurement"]
    if repeated:
        parts.append(f"averages that differ by at most {100 * max(repeated):.0f}% between repetitions")
    parts.append(f"{warm} of {runs} runs on a plateau after warming up")
    filled = sorted(100 * point.filled.median for point in points if point.filled is not None and select.cached(point))
    if filled:
        low, high = f"{filled[0]:.0f}", f"{filled[-1]:.0f}"
        parts.append(f"caches filled to {low}%" if low == high else f"caches filled to between {low} and {high}%")
    return "How sure: " + "; ".join(parts) + "."
