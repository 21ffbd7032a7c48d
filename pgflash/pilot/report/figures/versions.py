"""The same on several major versions."""

from __future__ import annotations

from pgflash.pilot.figures import Point
from pgflash.pilot.report import select
from pgflash.pilot.report.model import Figure
from pgflash.pilot.report.parts import bars
from pgflash.pilot.scenario import Arms, Scenario

TITLE = "PostgreSQL's versions"
QUESTION = "Does the major version matter?"
PUBLISHED = ""


def needs(arms: Arms) -> str:
    return "" if len({arm.major for arm in arms.all}) >= 2 else "arms with different server"


def draw(scenario: Scenario, points: list[Point]) -> Figure | None:
    points = select.of_clients(points, select.most_clients(points))
    if len({point.arm["server"] for point in points}) < 2:
        return None
    chosen = [(f"{p.variant}, {p.arm['server']}", p) for p in points if select.usual(p) and p.arm["data"] == "disk"]
    figure = Figure(f"versions-{scenario.name}", TITLE, QUESTION)
    return bars(scenario, figure, chosen) if len(chosen) > 1 else None
