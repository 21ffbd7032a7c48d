"""More shared_buffers, or a cache on flash."""

from __future__ import annotations

from pgflash.pilot.figures import Point
from pgflash.pilot.report import select
from pgflash.pilot.report.model import Figure
from pgflash.pilot.report.parts import bars, factor, label_of
from pgflash.pilot.scenario import Arms, Scenario
from pgflash.units import show_ms, show_times

TITLE = "More memory, or flash"
QUESTION = "Would memory do it?"
PUBLISHED = ""


def needs(arms: Arms) -> str:
    memory = arms.there(lambda arm: arm.extra_memory is not None)
    return "" if arms.disk and arms.cache and memory else "arms on disk, with a cache, and with extra_memory"


def draw(scenario: Scenario, points: list[Point]) -> Figure | None:
    points = select.of_clients(points, select.most_clients(points))
    disk, caches = select.base(points), select.caches(points)
    memory = [p for p in points if p.arm["extra_memory"] and not select.cached(p)]
    if disk is None or not caches or not memory:
        return None
    free = select.free_memory(points)
    chosen = [("disk", disk)]
    chosen += [(f"{p.arm['extra_memory']} more memory", p) for p in memory]
    chosen += [(f"flash cache of {label_of(p)}", p) for p in caches]
    if free is not None:
        chosen.append(("no memory limit", free))
    figure = Figure(f"memory-or-flash-{scenario.name}", TITLE, QUESTION)
    bars(scenario, figure, chosen, more={label: [_memory_words(p)] for label, p in chosen})
    assert figure.grid is not None
    figure.grid.header[-1] = "memory with page cache"
    best = min(memory, key=lambda p: p.average_ms.median)
    last = caches[-1]
    better = "More memory" if best.average_ms.median < last.average_ms.median else "The flash cache"
    figure.findings.append(
        f"{better} is faster here: {show_ms(best.average_ms.median)} with {best.arm['extra_memory']} more memory,"
        f" {show_ms(last.average_ms.median)} with a flash cache of {label_of(last)}."
    )
    if free is not None:
        gain = factor(disk.average_ms, free.average_ms)
        words = (
            "faster than either"
            if free.average_ms.median < min(best, last, key=lambda p: p.average_ms.median).average_ms.median
            else "no faster"
        )
        figure.findings.append(
            f"With no limit on memory the kernel's page cache may hold the whole database: {show_ms(free.average_ms.median)}, {show_times(gain)}"
            f" faster than with the limit, {words}. A cache on flash is for databases that memory cannot hold."
        )
    else:
        figure.findings.append(
            'How fast the disk would be with all of the machine\'s memory as page cache was not measured: an arm with page_cache = "free" says it.'
        )
    return figure


def _memory_words(point: Point) -> str:
    limit = str(point.conditions.get("memory_limit", ""))
    return "no limit" if limit.startswith("none") else limit.split(" (")[0]
