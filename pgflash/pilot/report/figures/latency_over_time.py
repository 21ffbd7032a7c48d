"""Latency, second by second. Drawn for every scenario."""

from __future__ import annotations

from pgflash.pilot.figures import Point
from pgflash.pilot.report import select
from pgflash.pilot.report.model import Figure, Grid, Series
from pgflash.pilot.report.parts import FASTER, conditions_words, ms
from pgflash.pilot.scenario import Scenario

TITLE = "Answers over time"
QUESTION = "Is it steady?"


def draw(scenario: Scenario, points: list[Point]) -> Figure | None:
    points = select.of_clients(points, select.most_clients(points))
    figure = Figure(
        f"latency-over-time-{scenario.name}",
        TITLE,
        QUESTION,
        x_title="seconds",
        y_title="milliseconds",
        log_y=True,
    )
    rows = []
    for point in points:
        run = point.runs[-1]
        for column, name in enumerate(("p50", "p95", "p99"), start=1):
            pairs = [(row[0], row[column]) for row in run["over_time"] if row[column]]
            if pairs:
                hidden = name != "p95" and len(points) > 2 and any(row[2] for row in run["over_time"])
                figure.series.append(
                    Series(f"{point.variant}: {FASTER[name]}", [x for x, _ in pairs], [y for _, y in pairs], hidden=hidden)
                )
        rows.append([point.variant, *(ms(point.percentile(name)) for name in ("p50", "p95", "p99"))])
    if not figure.series:
        return None
    figure.grid = Grid(["", *FASTER.values()], rows)
    figure.conditions = conditions_words(scenario, points) + " The last repetition of each, second by second."
    if any(series.hidden for series in figure.series):
        figure.findings.append(
            "Shown is the time within which 95 of 100 answers come; a click on the legend shows the same for half and for 99 of 100."
        )
    notes = sorted({run["note"] for point in points for run in point.runs if run["note"]})
    figure.findings += [note[0].upper() + note[1:] + "." for note in notes]
    return figure
