"""A cache in front of storage that is flash itself."""

from __future__ import annotations

from pgflash.pilot.figures import Point
from pgflash.pilot.report import select
from pgflash.pilot.report.model import Figure
from pgflash.pilot.report.parts import bars, factor, is_slower, unsure
from pgflash.pilot.report.published import SOURCE
from pgflash.pilot.scenario import Arms, Scenario
from pgflash.units import show_ms, show_times

TITLE = "A flash cache in front of flash"
QUESTION = "Does a cache help storage that is itself flash?"
PUBLISHED = (
    f"Published for {SOURCE} (Texas Memory Systems, Flash on Flash, March 2012): in front of storage that is itself flash the effect of the"
    " cache was negligible."
)


def needs(arms: Arms) -> str:
    return "" if arms.all_flash and arms.cached_flash else 'arms with data = "flash", without and with a cache'


def draw(scenario: Scenario, points: list[Point]) -> Figure | None:
    points = select.of_clients(points, select.most_clients(points))
    without, with_cache = select.all_flash(points), select.all_flash(points, with_cache=True)
    if without is None or with_cache is None:
        return None
    figure = Figure(f"front-of-flash-{scenario.name}", TITLE, QUESTION)
    figure.published = PUBLISHED
    bars(scenario, figure, [("all on flash", without), ("the same with a cache", with_cache)])
    gain = factor(without.average_ms, with_cache.average_ms)
    words = "A loss" if is_slower(with_cache, without) else "No gain" if gain < 1.1 else f"A gain of {show_times(gain)}"
    figure.findings += unsure([without, with_cache])
    figure.findings.insert(
        0, f"{words}: {show_ms(without.average_ms.median)} without, {show_ms(with_cache.average_ms.median)} with the cache."
    )
    return figure
