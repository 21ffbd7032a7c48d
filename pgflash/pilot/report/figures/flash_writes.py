"""How much is written to flash, and how long the drive lives. Drawn for every scenario with a cache."""

from __future__ import annotations

from pgflash.pilot.figures import Point
from pgflash.pilot.report import select
from pgflash.pilot.report.model import Figure, Grid, Series
from pgflash.pilot.report.parts import conditions_words, number
from pgflash.pilot.scenario import Scenario
from pgflash.units import Endurance, show_bytes, show_number, show_years

TITLE = "Writes to flash"
QUESTION = "How long will the drive live?"


def draw(scenario: Scenario, points: list[Point], drive: Endurance, assumed: bool) -> Figure | None:
    """How much is written, and how many years the drive stands that."""
    points = [
        p
        for p in select.of_clients(points, select.most_clients(points))
        if select.cached(p) and p.named("flash_write_bytes_per_s") is not None
    ]
    if not points:
        return None
    a_day = Series("written to flash, GB a day", [], [])
    rows = []
    for point in points:
        rate = point.named("flash_write_bytes_per_s")
        assert rate is not None
        a_day.add(point.variant, point.value(lambda run: run["flash_write_bytes_per_s"] * 86400 / 1e9))
        written = point.named("disk_write_bytes_per_transaction")
        rows.append([
            point.variant, show_bytes(rate.median), f"{show_number(rate.median * 86400 / 1e9)} GB", show_years(drive.years(rate.median)),
            number(point.named("flash_page_writes_per_miss"), 3), number(point.named("write_amplification"), 3),
            show_bytes(written.median) if written is not None else "-",
        ])  # fmt: skip
    worst = max(points, key=lambda p: _rate(p))
    figure = Figure(
        f"flash-writes-{scenario.name}", TITLE, QUESTION, kind="bar", y_title="GB a day (10^9 bytes)",
        series=[a_day], conditions=conditions_words(scenario, points),
        grid=Grid(["", "to flash, a second", "a day", "life of the drive, years", "pages written to flash for each page read in",
                   "bytes written for each byte kept", "to the disk, a transaction"], rows),
    )  # fmt: skip
    figure.findings.append(
        f"At these rates, day and night, a drive of {drive.text}{' (assumed: give yours with --endurance)' if assumed else ''},"
        f" {drive.bytes / 1e12:,.0f} TB in all, would live {show_years(drive.years(_rate(worst)))} years at worst ({worst.variant})."
        " Measured on a warm cache: filling it comes on top, once."
    )
    return figure


def _rate(point: Point) -> float:
    rate = point.named("flash_write_bytes_per_s")
    return rate.median if rate is not None else 0.0
