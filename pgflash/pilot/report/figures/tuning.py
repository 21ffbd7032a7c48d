"""Scheduler, access times and alignment."""

from __future__ import annotations

from pgflash.pilot.figures import Point
from pgflash.pilot.report import select
from pgflash.pilot.report.model import Figure
from pgflash.pilot.report.parts import TELLING, bars, factor, is_slower
from pgflash.pilot.report.published import SOURCE
from pgflash.pilot.scenario import Arms, Scenario
from pgflash.units import show_ms, show_times

TITLE = "The operating system, before and after tuning"
QUESTION = "Do scheduler, access times and alignment matter?"
PUBLISHED = f"Published for {SOURCE}, without numbers: scheduler, access times and alignment were tuned before measuring."


def needs(arms: Arms) -> str:
    there = arms.there(lambda arm: arm.tuning == "before") and arms.there(lambda arm: arm.tuning == "after")
    return "" if there else 'arms with tuning = "before" and "after"'


def draw(scenario: Scenario, points: list[Point]) -> Figure | None:
    points = select.of_clients(points, select.most_clients(points))
    before = next((p for p in points if p.arm["tuning"] == "before"), None)
    after = next(
        (p for p in points if p.arm["tuning"] == "after" and select.cached(p) == (before is not None and select.cached(before))), None
    )
    if before is None or after is None:
        return None
    figure = Figure(f"tuning-{scenario.name}", TITLE, QUESTION)
    figure.published = PUBLISHED
    bars(scenario, figure, [("before", before), ("after", after)])
    times = f"{show_ms(before.average_ms.median)} before, {show_ms(after.average_ms.median)} after"
    p95 = before.percentile("p95"), after.percentile("p95")
    if p95[0] is not None and p95[1] is not None:
        times += f" (95 of 100 come within {show_ms(p95[0].median)}, {show_ms(p95[1].median)})"
    gain = factor(before.average_ms, after.average_ms)
    if is_slower(before, after) and gain >= TELLING:
        figure.findings.append(f"Tuning makes it {show_times(gain)} faster: {times}.")
    elif is_slower(after, before) and gain <= 1 / TELLING:
        figure.findings.append(f"Tuning makes it slower here: {times}. Leave these settings as they were.")
    else:
        figure.findings.append(f"Tuning makes no difference to speak of to the average: {times}.")
    for label, point in (("Before", before), ("After", after)):
        applied = point.conditions.get("tuning") or {}
        figure.findings.append(
            f"{label}: " + (", ".join(f"{name} {value}" for name, value in applied.items()) or "nothing could be set here") + "."
        )
    figure.findings.append("The lab's disk has no sectors: what misalignment costs a real drive does not show on it.")
    return figure
