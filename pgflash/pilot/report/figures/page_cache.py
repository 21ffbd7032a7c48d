"""The kernel's page cache, with and without a limit."""

from __future__ import annotations

from pgflash.pilot.figures import Point
from pgflash.pilot.report import select
from pgflash.pilot.report.model import Figure
from pgflash.pilot.report.parts import bars
from pgflash.pilot.scenario import Arms, Scenario

TITLE = "The kernel's page cache, limited and free"
QUESTION = "Does the page cache do the work of flash already?"
PUBLISHED = ""


def needs(arms: Arms) -> str:
    there = arms.there(lambda arm: arm.page_cache == "free") and arms.there(lambda arm: arm.page_cache == "limited")
    return "" if there else 'arms with page_cache = "limited" and "free"'


def draw(scenario: Scenario, points: list[Point]) -> Figure | None:
    points = select.of_clients(points, select.most_clients(points))
    if len({point.arm["page_cache"] for point in points}) < 2:
        return None
    chosen = [
        (f"{p.variant} (page cache {p.arm['page_cache']})", p)
        for p in points
        if p.arm["data"] == "disk" and p.arm["moved"] == "none" and not p.arm["extra_memory"]
    ]
    figure = Figure(f"page-cache-{scenario.name}", TITLE, QUESTION)
    bars(scenario, figure, chosen)
    figure.findings.append("Where the page cache holds what falls out of shared_buffers, there is nothing left for flash to gain.")
    return figure
