"""Throughput by size of the cache, and where it stops to rise."""

from __future__ import annotations

from pgflash.pilot.figures import Point
from pgflash.pilot.report import evidence, select
from pgflash.pilot.report.model import Figure, Grid, Series
from pgflash.pilot.report.parts import conditions_words, label_of, number, size_tick, unsure
from pgflash.pilot.report.published import SOURCE
from pgflash.pilot.scenario import Arms, Scenario
from pgflash.units import show_times

TITLE = "Throughput, disk reads, flash reads and flash writes by size"
QUESTION = "Where is the knee?"
PUBLISHED = (
    f"Published for {SOURCE} (read-only OLTP, 72 GB of data, 8 GB memory): no gain beyond about 65 GB of flash (90% of the data),"
    " response almost 5 times faster; disk reads and flash writes both fall as the cache grows."
)


def needs(arms: Arms) -> str:
    return "" if arms.disk and arms.sizes >= 2 else "an arm on disk without cache, and one with at least two sizes of cache"


def draw(scenario: Scenario, points: list[Point]) -> Figure | None:
    points = select.of_clients(points, select.most_clients(points))
    base, caches = select.base(points), select.caches(points)
    if base is None or len(caches) < 2:
        return None
    names = ("transactions a second", "reads from the disk a second", "pages from flash a second", "pages written to flash a second")
    lines = [Series(name, [], [], second=i > 0) for i, name in enumerate(names)]
    rows = []
    for point in [base, *caches]:
        x = round(100 * select.share(point), 1)
        reads = point.device("disk", "reads_per_s")
        values = [point.tps, reads, point.rate("cache.hits"), point.rate("cache.inserts")]
        for line, value in zip(lines, values, strict=True):
            line.add(x, value)
        rows.append([label_of(point), *(number(value) for value in values), f"{point.tps.median / base.tps.median:.3g}"])
    knee = select.knee([base, *caches])
    figure = Figure(
        f"throughput-by-size-{scenario.name}", TITLE, QUESTION,
        x_title="size of the flash cache: share of the database, and bytes", y_title="transactions a second",
        y2_title="reads and pages a second", series=[line for line in lines if line.x],
        ticks=[size_tick(point) for point in [base, *caches]], grid=Grid(["flash", *names, "times"], rows), published=PUBLISHED,
        conditions=conditions_words(scenario, [base, *caches]),
    )  # fmt: skip
    best = max(caches, key=lambda point: point.tps.median)
    if knee is not None:
        figure.findings.append(
            f"The knee is at {label_of(knee)} of the database: the smallest size with at least 90% of the greatest throughput"
            f" ({number(best.tps)} a second, {show_times(best.tps.median / base.tps.median)} that without flash)."
        )
        figure.findings += unsure([base, *caches])
        more = evidence.more_flash(caches)
        if more.words:
            figure.findings.append(more.words)
    return figure
