"""Everything on disk, indexes on flash, everything on flash."""

from __future__ import annotations

from pgflash.pilot.figures import Point
from pgflash.pilot.report import select
from pgflash.pilot.report.model import Figure
from pgflash.pilot.report.parts import bars, factor, faster, label_of
from pgflash.pilot.report.published import SOURCE
from pgflash.pilot.scenario import Arms, Scenario

TITLE = "Traditional, hybrid, all-flash"
QUESTION = "What do the three ways of buying flash give?"
PUBLISHED = f"Published for {SOURCE} (1,000 users): 905 ms on disk, 156 ms with indexes and temporary files on flash (5.8 times), 15 ms all on flash (60 times)."
# A thousand users: everything on disk; indexes and temporary files on flash; everything on flash.
THREE_WAYS_MS = {"disk": 905.0, "hybrid": 156.0, "flash": 15.0}


def needs(arms: Arms) -> str:
    hybrid = arms.there(lambda arm: arm.moved == "indexes" and not arm.cache)
    return "" if arms.disk and arms.all_flash and hybrid else 'arms on disk, with moved = "indexes", and with data = "flash"'


def draw(scenario: Scenario, points: list[Point]) -> Figure | None:
    points = select.of_clients(points, select.most_clients(points))
    disk, hybrid, flash = select.base(points), select.moved(points, "indexes"), select.all_flash(points)
    if disk is None or hybrid is None or flash is None:
        return None
    labels = ("on disk", "indexes and temporary files on flash", "all on flash")
    chosen = list(zip(labels, (disk, hybrid, flash), strict=True))
    theirs = dict(zip(labels, THREE_WAYS_MS.values(), strict=True))
    caches = select.caches(points)
    if caches:
        chosen.insert(2, (f"flash cache of {label_of(caches[-1])}", caches[-1]))
    figure = Figure(
        f"three-ways-{scenario.name}",
        TITLE,
        QUESTION,
        published=PUBLISHED,
    )
    bars(scenario, figure, chosen, theirs)
    figure.findings.append(
        "; ".join(f"{label}: {faster(factor(disk.average_ms, point.average_ms))}" for label, point in chosen[1:]).capitalize() + "."
    )
    return figure
