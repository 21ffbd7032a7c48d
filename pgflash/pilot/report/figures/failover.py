"""The first seconds of a standby that takes over."""

from __future__ import annotations

from pgflash.pilot.figures import Point
from pgflash.pilot.report import select
from pgflash.pilot.report.model import Figure, Grid, Series
from pgflash.pilot.report.parts import conditions_words, label_of, number, percent, unsure
from pgflash.pilot.scenario import Arms, Scenario

TITLE = "After a failover"
QUESTION = "How fast is the standby that takes over, in its first seconds?"
PUBLISHED = ""


def needs(arms: Arms) -> str:
    return "" if arms.failover and arms.there(lambda arm: bool(arm.cache)) else "cluster.failover = true, and an arm with a cache"


def label(point: Point) -> str:
    return f"{'follows' if point.arm.get('follow') else 'does not follow'}, cache of {label_of(point)}"


def draw(scenario: Scenario, points: list[Point]) -> Figure | None:
    points = select.failovers(points)
    if not points:
        return None
    before, after = Series("before, on the primary", [], []), Series("after, on the standby", [], [])
    rows = []
    for point in points:
        then, now = (point.failover(when, "tps") for when in ("before", "after"))
        before.add(label(point), then)
        after.add(label(point), now)
        rows.append([label(point), number(then), number(now), percent(point.kept), percent(point.failover("warm_share"))])
    seconds = points[0].runs[0]["failover"]["seconds"]
    figure = Figure(f"failover-{scenario.name}", TITLE, QUESTION, kind="bar", y_title="transactions a second", series=[before, after])
    header = [
        "the standby",
        f"a second, {seconds} s before",
        f"in the first {seconds} s after",
        "after / before",
        "of the primary's pages, before",
    ]
    figure.grid = Grid(header, rows)
    figure.conditions = conditions_words(scenario, points)
    figure.findings = [*sentences(points), "The proxy was told at once: the time that a cluster manager takes is not in this."]
    figure.findings += unsure(points)
    return figure


def sentences(points: list[Point]) -> list[str]:
    """What each kind of standby kept."""
    return [
        f"In its first {point.runs[0]['failover']['seconds']} s a standby that {label(point)}, had {percent(point.kept)} of the primary's"
        " transactions a second."
        for point in points
    ]
