"""Operations of the disk, which volumes of clouds are billed by. Drawn for every scenario with a cache and the disk alone."""

from __future__ import annotations

from pgflash.pilot.figures import Point, Spread, spread
from pgflash.pilot.report import select
from pgflash.pilot.report.model import Figure, Grid, Series
from pgflash.pilot.report.parts import conditions_words, number, unsure
from pgflash.pilot.scenario import Scenario
from pgflash.units import OperationPrice, show_number

TITLE = "Operations of the disk"
QUESTION = "How many provisioned operations would flash save?"


def draw(scenario: Scenario, points: list[Point], price: OperationPrice | None) -> Figure | None:
    """How many a transaction takes, and what the same throughput would need without a cache, and cost."""
    points = select.of_clients(points, select.most_clients(points))
    base, caches = select.base(points), select.caches(points)
    if base is None or (before := _a_transaction(base)) is None:
        return None
    known = [(point, taken) for point in caches if (taken := _a_transaction(point)) is not None]
    if not known:
        return None
    needed, used = Series("needed without flash, a second", [], []), Series("used with flash, a second", [], [])
    rows = [[base.variant, number(base.tps), show_number(before.median), number(_a_second(base)), "-", *([] if price is None else ["-"])]]
    for point, taken in known:
        without, with_flash = before.median * point.tps.median, taken.median * point.tps.median
        needed.add(point.variant, Spread(without, without, without, 1))
        used.add(point.variant, _a_second(point))
        row = [point.variant, number(point.tps), show_number(taken.median), f"{with_flash:,.0f}", f"{without:,.0f}"]
        rows.append(row if price is None else [*row, _money(price, without, with_flash)])
    header = ["", "transactions a second", "operations a transaction", "operations a second", "the same without flash"]
    figure = Figure(
        f"operations-{scenario.name}", TITLE, QUESTION, kind="bar", y_title="operations a second", log_y=True,
        series=[needed, used], conditions=conditions_words(scenario, [base, *(point for point, _ in known)]),
        grid=Grid(header if price is None else [*header, f"saved a month, {price.currency}"], rows),
    )  # fmt: skip
    point, taken = max(known, key=lambda pair: pair[0].tps.median)
    without, with_flash = before.median * point.tps.median, taken.median * point.tps.median
    text = (
        f"A transaction takes {show_number(taken.median)} operations with {point.variant}, {show_number(before.median)} without."
        f" The {number(point.tps)} transactions a second that were reached there would need {without:,.0f} operations a second without flash,"
        f" and took {with_flash:,.0f}: {abs(without - with_flash):,.0f} {'fewer' if without >= with_flash else 'more'}."
    )
    figure.findings += [text, _bill(price, without, with_flash), *unsure([base, point])]
    return figure


def _bill(price: OperationPrice | None, without: float, with_flash: float) -> str:
    if price is None:
        return 'What that is in money: `pgflash pilot report STUDY --operation-price "0.005 USD, 3000 included"`, with your price.'
    return (
        f"At {price.text} that is {show_number(price.a_month(without))} {price.currency} a month without flash, and"
        f" {show_number(price.a_month(with_flash))} with it, if just what is used is provisioned. The price of the flash is not in this."
    )


def _money(price: OperationPrice, without: float, with_flash: float) -> str:
    return show_number(price.a_month(without) - price.a_month(with_flash))


def _a_second(point: Point) -> Spread | None:
    """Reads and writes, as the block device counts them."""
    return point.value(_operations)


def _a_transaction(point: Point) -> Spread | None:
    return spread(
        operations / float(run["tps"]) for run in point.runs if (operations := _operations(run)) is not None and float(run["tps"]) > 0
    )


def _operations(run: dict[str, object]) -> float | None:
    devices = run.get("devices")
    disk = devices.get("disk") if isinstance(devices, dict) else None
    if not isinstance(disk, dict) or "reads_per_s" not in disk or "writes_per_s" not in disk:
        return None
    return float(disk["reads_per_s"]) + float(disk["writes_per_s"])
