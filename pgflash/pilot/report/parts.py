"""What figures are made with: words, numbers, bars."""

from __future__ import annotations

from pgflash.pilot.figures import Point, Spread
from pgflash.pilot.report import evidence, published, select
from pgflash.pilot.report.model import Figure, Grid, Series
from pgflash.pilot.scenario import Scenario
from pgflash.units import MB, show_bytes, show_ms, show_number, show_times

TELLING = 1.05  # a smaller factor is not called a gain
FASTER = {"p50": "half come within", "p95": "95 of 100 come within", "p99": "99 of 100 come within"}
AVERAGE = "average answer"
TAIL = f"answers: {FASTER['p95']}"


def conditions_words(scenario: Scenario, points: list[Point]) -> str:
    """What belongs under each chart."""
    first = points[0].conditions
    servers = sorted({str(point.conditions.get("server")) for point in points})
    buffers = sorted({int(point.conditions.get("shared_buffers_mb") or 0) for point in points})
    limits = sorted({str(point.conditions.get("memory_limit")) for point in points})
    load = scenario.load
    keys = (
        f", {load.keys} keys" + (f" ({load.skew:g})" if load.keys in ("gaussian", "zipfian") else "")
        if load.kind.startswith("pgbench")
        else ""
    )
    clients = "/".join(str(count) for count in sorted({point.clients for point in points}))
    runs = sorted({len(point.runs) for point in points})
    parts = [
        f"{', '.join(servers)}; {load.kind}{keys}; database {first.get('database_mb')} MB, shared_buffers {_several(buffers)} MB, memory limit {' or '.join(limits)}",
        f"disk: {first.get('disk')}; flash: {first.get('flash')}",
        f"{clients} client{'' if clients == '1' else 's'}; {scenario.duration_s} s a run after warming up to a plateau"
        + (
            " (modelled delays suspended)"
            if scenario.warmup.disk == "fast" and scenario.disk.kind == "lab" and scenario.own_cluster
            else ""
        )
        + f"; median of {_several(runs)}, bars from least to greatest",
    ]
    if nodes := first.get("nodes"):
        parts.append(
            f"{nodes} nodes behind a proxy ({first.get('proxy')}), each with memory, disk and flash of its own; counts are sums over all"
        )
    if scenario.own_cluster and scenario.disk.kind == "lab":
        parts.append("the disk is modelled: ratios can be carried over to other machines, absolute numbers cannot")
    return ". ".join(part[0].upper() + part[1:] for part in parts) + "."


def _several(numbers: list[int]) -> str:
    return "/".join(map(str, numbers))


def ms(value: Spread | None) -> str:
    if value is None:
        return "-"
    text = show_ms(value.median)
    return text if value.count < 2 else f"{text} ({show_number(value.least)}-{show_number(value.greatest)})"


def number(value: Spread | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value.median:,.{digits}f}"


def percent(value: Spread | None) -> str:
    return "-" if value is None else f"{100 * value.median:.1f}%"


def factor(before: Spread, after: Spread) -> float:
    return before.median / after.median if after.median else 0.0


def faster(ratio: float) -> str:
    return f"{show_times(ratio)} faster" if ratio >= TELLING else "no faster"


def label_of(point: Point) -> str:
    return "none" if not select.cached(point) else f"{100 * select.share(point):.0f}%"


def size_tick(point: Point) -> tuple[float, str]:
    """Where it is on the x axis, and what stands there: share and bytes."""
    x = round(100 * select.share(point), 1)
    return x, f"{x:g}%<br>{show_bytes(point.cache_mb * MB)}" if select.cached(point) else "no<br>flash"


def unsure(points: list[Point]) -> list[str]:
    found = [doubt for point in points for doubt in evidence.doubts(point)]
    return [f"Not conclusive: {'; '.join(found)}."] if found else []


def is_slower(point: Point, base: Point) -> bool:
    """Beyond what repetitions scatter; with one repetition each, beyond 5%."""
    if point.average_ms.count > 1 and base.average_ms.count > 1:
        return point.average_ms.least > base.average_ms.greatest
    return point.average_ms.median > TELLING * base.average_ms.median


def bars(
    scenario: Scenario,
    figure: Figure,
    chosen: list[tuple[str, Point]],
    theirs: dict[str, float] | None = None,
    more: dict[str, list[str]] | None = None,
) -> Figure:
    """Average, and what 95 of 100 keep to, of some points, with the factor against the first."""
    average, tail = Series(f"{AVERAGE}, measured", [], []), Series(f"{TAIL}, measured", [], [])
    rows = []
    first = chosen[0][1]
    for label, point in chosen:
        average.add(label, point.average_ms)
        tail.add(label, point.percentile("p95"))
        row = [
            label,
            ms(point.average_ms),
            ms(point.percentile("p95")),
            number(point.tps),
            f"{factor(first.average_ms, point.average_ms):.3g}",
        ]
        if theirs is not None:
            row += [show_ms(theirs[label]) if label in theirs else "-"]
        rows.append(row + (more or {}).get(label, []))
    figure.kind = "bar"
    figure.y_title = figure.y_title or "milliseconds"
    figure.log_y = True
    figure.series = [average] + ([tail] if tail.x else [])
    header = ["", AVERAGE, FASTER["p95"], "transactions a second", "times faster"]
    if theirs is not None:
        header.append("published elsewhere")
        known = [label for label, _ in chosen if label in theirs]
        figure.series.append(Series(f"average answer, {published.LEGEND}", list(known), [theirs[label] for label in known], published=True))
    figure.grid = Grid(header + ([""] * max((len(cells) for cells in (more or {}).values()), default=0)), rows)
    figure.conditions = conditions_words(scenario, [point for _, point in chosen])
    return figure
