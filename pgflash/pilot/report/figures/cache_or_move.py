"""A cache, the hottest objects on flash, or both."""

from __future__ import annotations

from pgflash.pilot.figures import Point
from pgflash.pilot.report import select
from pgflash.pilot.report.model import Figure
from pgflash.pilot.report.parts import bars, factor, is_slower
from pgflash.pilot.report.published import SOURCE
from pgflash.pilot.scenario import Arms, Scenario
from pgflash.units import show_times

TITLE = "A cache, or the hottest objects on flash, or both"
QUESTION = "Cache, or move?"
PUBLISHED = f"Published for {SOURCE}, without numbers: moving the nine objects most read to flash beat the cache; using the cache as well made it worse."


def needs(arms: Arms) -> str:
    alone = arms.there(lambda arm: arm.moved == "hottest" and not arm.cache)
    both = arms.there(lambda arm: arm.moved == "hottest" and bool(arm.cache))
    good = arms.disk and arms.cache and alone and both
    return "" if good else 'arms on disk, with a cache, with moved = "hottest", and with both'


def draw(scenario: Scenario, points: list[Point]) -> Figure | None:
    points = select.of_clients(points, select.most_clients(points))
    disk, caches = select.base(points), select.caches(points)
    hottest, both = select.moved(points, "hottest"), select.moved(points, "hottest", with_cache=True)
    if disk is None or not caches or hottest is None or both is None:
        return None
    count = len(hottest.conditions.get("moved_objects", []))
    chosen = [("disk", disk), ("flash cache", caches[-1]), (f"{count} hottest objects on flash", hottest), ("both", both)]
    figure = Figure(
        f"cache-or-move-{scenario.name}",
        TITLE,
        QUESTION,
        published=PUBLISHED,
    )
    more = {label: [_flash_used(point)] for label, point in chosen}
    bars(scenario, figure, chosen, more=more)
    assert figure.grid is not None
    figure.grid.header[-1] = "flash used"
    best = min(chosen[1:], key=lambda pair: pair[1].average_ms.median)
    figure.findings.append(f"Fastest: {best[0]}, {show_times(factor(disk.average_ms, best[1].average_ms))} faster than disk alone.")
    alone = min(caches[-1], hottest, key=lambda point: point.average_ms.median)
    if is_slower(both, alone):
        figure.findings.append("Both together are slower than the better of the two alone.")
    figure.findings.append("Moved: " + ", ".join(hottest.conditions.get("moved_objects", [])) + ".")
    return figure


def _flash_used(point: Point) -> str:
    total = point.cache_mb + int(point.conditions.get("moved_mb") or 0)
    return f"{total} MB" if total else "-"
