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


# Of an arm, what stands in the figure.
LABELS = {"none": "as it is", "before": "before", "after": "after", "doctor": "as the doctor proposes"}
SHOWN = 5  # of what it left to a person; the rest is counted


def needs(arms: Arms) -> str:
    before = arms.there(lambda arm: arm.tuning == "before")
    after = arms.there(lambda arm: arm.tuning == "after")
    doctor = arms.there(lambda arm: arm.tuning == "doctor")
    if (before and (after or doctor)) or (doctor and arms.there(lambda arm: arm.tuning == "none")):
        return ""
    return 'arms with tuning = "before" and "after"; or with "doctor", and one that is as it was'


def draw(scenario: Scenario, points: list[Point]) -> Figure | None:
    points = select.of_clients(points, select.most_clients(points))
    before = _first(points, "before") or _first(points, "none")
    if before is None:
        return None
    tuned = [point for how in ("after", "doctor") if (point := _first(points, how, before)) is not None]
    if not tuned:
        return None
    figure = Figure(f"tuning-{scenario.name}", TITLE, QUESTION)
    figure.published = PUBLISHED
    bars(scenario, figure, [(_label(point), point) for point in (before, *tuned)])
    figure.findings += [_effect(before, point) for point in tuned]
    figure.findings += [words for point in (before, *tuned) if (words := _applied(point))]
    for point in tuned:
        figure.findings += _by_doctor(point)
    if scenario.own_cluster:
        figure.findings.append("The lab's disk has no sectors: what misalignment costs a real drive does not show on it.")
    return figure


def _first(points: list[Point], tuning: str, like: Point | None = None) -> Point | None:
    """The first so tuned; with a cache, or enabled, as the other."""
    return next(
        (
            point
            for point in points
            if point.arm["tuning"] == tuning
            and (like is None or (select.cached(point), point.arm.get("enabled")) == (select.cached(like), like.arm.get("enabled")))
        ),
        None,
    )


def _label(point: Point) -> str:
    return LABELS[point.arm["tuning"]]


def _effect(before: Point, after: Point) -> str:
    whose = "What the doctor changed" if after.arm["tuning"] == "doctor" else "Tuning"
    times = f"{show_ms(before.average_ms.median)} {_label(before)}, {show_ms(after.average_ms.median)} {_label(after)}"
    p95 = before.percentile("p95"), after.percentile("p95")
    if p95[0] is not None and p95[1] is not None:
        times += f" (95 of 100 come within {show_ms(p95[0].median)}, {show_ms(p95[1].median)})"
    gain = factor(before.average_ms, after.average_ms)
    if is_slower(before, after) and gain >= TELLING:
        return f"{whose} makes it {show_times(gain)} faster: {times}."
    if is_slower(after, before) and gain <= 1 / TELLING:
        return f"{whose} makes it slower here: {times}. Leave these settings as they were."
    return f"{whose} makes no difference to speak of to the average: {times}."


def _applied(point: Point) -> str:
    if point.arm["tuning"] == "none":
        return ""
    applied = point.conditions.get("tuning") or {}
    label = "The doctor began with" if point.arm["tuning"] == "doctor" else _label(point).capitalize()
    if not applied and point.arm["tuning"] == "doctor":
        return ""
    return f"{label}: " + (", ".join(f"{name} {value}" for name, value in applied.items()) or "nothing could be set here") + "."


def _by_doctor(point: Point) -> list[str]:
    found = point.conditions.get("doctor")
    if not found:
        return []
    made, left = list(found["made"]), list(found["left"])
    words = ["The doctor changed: " + ("; ".join(made) if made else "nothing, it found nothing that it may change") + "."]
    if left:
        more = f"; and {len(left) - SHOWN} more" if len(left) > SHOWN else ""
        words.append("It also proposes, which was not done and is not in these figures: " + "; ".join(left[:SHOWN]) + more + ".")
    return words
