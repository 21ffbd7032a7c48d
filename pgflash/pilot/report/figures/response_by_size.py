"""Average response by size of the cache."""

from __future__ import annotations

from pgflash.pilot.figures import Point
from pgflash.pilot.report import published, select
from pgflash.pilot.report.model import Figure, Grid, Series
from pgflash.pilot.report.parts import (
    AVERAGE,
    FASTER,
    TAIL,
    conditions_words,
    factor,
    is_slower,
    label_of,
    ms,
    percent,
    size_tick,
    unsure,
)
from pgflash.pilot.report.published import SOURCE
from pgflash.pilot.scenario import Arms, Scenario
from pgflash.units import MB, show_bytes, show_ms, show_times

TITLE = "Average response time by size of flash"
QUESTION = "How much flash does it take?"
PUBLISHED = f"Published for {SOURCE} (300 GB database, 10 GB memory): 3,500 ms without flash, 77 ms with 140 GB (47%): 45 times faster."
# Average query response by size of the flash cache: 300 GB database, 10 GB memory (1 : 30).
DATABASE_GB = 300
RESPONSE_MS = {0: 3500.0, 20: 515.0, 40: 376.0, 60: 256.0, 80: 198.0, 100: 120.0, 120: 95.0, 140: 77.0}


def needs(arms: Arms) -> str:
    return "" if arms.disk and arms.sizes >= 2 else "an arm on disk without cache, and one with at least two sizes of cache"


def response_shares() -> list[tuple[float, float]]:
    """Share of the database, milliseconds."""
    return [(size / DATABASE_GB, ms) for size, ms in RESPONSE_MS.items()]


def response_near(share: float) -> float | None:
    """The published response at about this share of the database."""
    near = min(response_shares(), key=lambda pair: abs(pair[0] - share))
    return near[1] if abs(near[0] - share) <= 0.015 else None


def draw(scenario: Scenario, points: list[Point]) -> Figure | None:
    points = select.of_clients(points, select.most_clients(points))
    base, caches = select.base(points), select.caches(points)
    if base is None or len(caches) < 2:
        return None
    ours = Series(f"{AVERAGE}, measured", [], [])
    tail = Series(f"{TAIL}, measured", [], [])
    rows = []
    for point in [base, *caches]:
        x = round(100 * select.share(point), 1)
        ours.add(x, point.average_ms)
        tail.add(x, point.percentile("p95"))
        theirs = response_near(select.share(point))
        rows.append([
            label_of(point), show_bytes(point.cache_mb * MB) if point.cache_mb else "-", ms(point.average_ms), ms(point.percentile("p95")),
            f"{factor(base.average_ms, point.average_ms):.3g}", percent(point.named("hit_ratio")),
            show_ms(theirs) if theirs else "-", f"{RESPONSE_MS[0] / theirs:.3g}" if theirs else "-",
        ])  # fmt: skip
    figure = Figure(
        f"response-by-size-{scenario.name}", TITLE, QUESTION,
        x_title="size of the flash cache: share of the database, and bytes", y_title="milliseconds", log_y=True,
        series=[ours, tail, _published_response()], ticks=[size_tick(point) for point in [base, *caches]],
        grid=Grid(["flash", "", AVERAGE, FASTER["p95"], "times faster", "reads answered by flash", "published elsewhere",
                   "published elsewhere, times faster"], rows),
        published=PUBLISHED, conditions=conditions_words(scenario, [base, *caches]),
    )  # fmt: skip
    last = caches[-1]
    figure.findings.append(
        f"With {label_of(last)} of the database on flash the average response is {show_times(factor(base.average_ms, last.average_ms))} faster"
        f" ({show_ms(base.average_ms.median)} to {show_ms(last.average_ms.median)})."
    )
    figure.findings += unsure([base, *caches])
    slower = [point for point in caches if is_slower(point, base)]
    figure.findings.append(
        "At no size was the cache slower than no cache."
        if not slower
        else "Slower than no cache at: " + ", ".join(label_of(p) for p in slower) + "."
    )
    return figure


def _published_response() -> Series:
    return Series(
        f"average answer, {published.LEGEND}",
        [round(100 * share, 1) for share, _ in response_shares()],
        [value for _, value in response_shares()],
        published=True,
    )
