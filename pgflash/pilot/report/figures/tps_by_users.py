"""Throughput by number of clients."""

from __future__ import annotations

from pgflash.pilot.figures import Point
from pgflash.pilot.report import published, select
from pgflash.pilot.report.model import Figure, Grid, Series
from pgflash.pilot.report.parts import conditions_words, number
from pgflash.pilot.report.published import SOURCE
from pgflash.pilot.scenario import Arms, Scenario
from pgflash.units import show_times

TITLE = "Transactions a second by users"
QUESTION = "How many users does each way of storage carry?"
PUBLISHED = f"Published for {SOURCE}: 1,024 transactions a second against more than 7,000, by number of users."
TPS_LOW = 1024.0
TPS_HIGH = 7000.0


def needs(arms: Arms) -> str:
    good = arms.disk and arms.cache and arms.all_flash and arms.clients >= 2
    return "" if good else 'arms on disk, with a cache, and with data = "flash", and two or more load.clients'


def draw(scenario: Scenario, points: list[Point]) -> Figure | None:
    counts = sorted({point.clients for point in points})
    if len(counts) < 2:
        return None
    lines = {name: Series(name, [], []) for name in ("disk", "disk and flash cache", "all on flash")}
    rows = []
    used: list[Point] = []
    for count in counts:
        there = select.of_clients(points, count)
        caches = select.caches(there)
        chosen = (select.base(there), caches[-1] if caches else None, select.all_flash(there))
        for line, point in zip(lines.values(), chosen, strict=True):
            if point is not None:
                line.add(count, point.tps)
                used.append(point)
        rows.append([str(count), *(number(point.tps) if point is not None else "-" for point in chosen)])
    if any(not line.x for line in lines.values()):
        return None
    spread_over = [float(counts[0]), float(counts[-1])]
    theirs = [
        Series(f"{words} a second, {published.LEGEND}", list(spread_over), [level, level], published=True)
        for words, level in (("1,024", TPS_LOW), ("over 7,000", TPS_HIGH))
    ]
    figure = Figure(
        f"tps-by-users-{scenario.name}", TITLE, QUESTION,
        x_title="clients", y_title="transactions a second", log_x=True, log_y=True, series=[*lines.values(), *theirs],
        grid=Grid(["clients", *lines], rows), published=PUBLISHED, conditions=conditions_words(scenario, used),
    )  # fmt: skip
    most = {name: max((y for y in line.y if y is not None), default=0.0) for name, line in lines.items()}
    figure.findings.append(
        f"At most {most['disk']:,.0f} a second on disk, {most['disk and flash cache']:,.0f} with the flash cache"
        f" ({show_times(most['disk and flash cache'] / most['disk'])} as many), {most['all on flash']:,.0f} all on flash."
    )
    return figure
