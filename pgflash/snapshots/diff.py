"""Two intervals side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pgflash.pilot.report.model import Figure, Grid, Series
from pgflash.snapshots import report, verdict
from pgflash.snapshots.facts import TOP, Facts, blocks_written, facts
from pgflash.snapshots.interval import Interval, Row
from pgflash.snapshots.report import Report, share, table
from pgflash.snapshots.verdict import relative
from pgflash.snapshots.waits import CLASSES
from pgflash.units import show_bytes, show_ms, show_number, show_seconds

FROM_DISK = "pages read from disk"
Show = Callable[[float], str]


def make(a: Interval, b: Interval) -> tuple[Report, dict[str, Any]]:
    # What is among the first of one interval may be anywhere in the other.
    x, y = facts(a, None), facts(b, None)
    found = Report(
        f"Database {y.database}, A: snapshots {x.first} to {x.last}, B: {y.first} to {y.last}",
        f"A: {x.since} to {x.until}, {show_seconds(x.seconds)}. B: {y.since} to {y.until}, {show_seconds(y.seconds)}.",
        verdict.of_two(x, y),
    )
    for name, interval, one in (("A", a, x), ("B", b, y)):
        found.warnings += [f"{name}: {line}" for line in report.warnings(one)]
        found.notes += [f"{name}: {line}" for line in [*report.asked(interval), *one.notes, *report.missing(one)]]
    of_both = (_load, _waits, _cache, _latency, _relations, _writes, _statements)
    found.figures = [_settings(a, b), *(figure(x, y) for figure in of_both)]
    values = {"a": facts(a).as_json(), "b": facts(b).as_json(), "changes": changes(x, y)}
    return found, values


def changes(x: Facts, y: Facts) -> list[dict[str, Any]]:
    """For programs: what the first table shows."""
    return [{"name": name, "a": before, "b": after, "change": relative(before, after)} for name, before, after, _ in _compared(x, y)]


def has_cache(facts_: Facts) -> bool:
    return facts_.cache is not None and facts_.cache.flash_bytes > 0


def _compared(x: Facts, y: Facts) -> list[tuple[str, float | None, float | None, Show]]:
    """Name, A, B, and how such a number is shown."""
    rows: list[tuple[str, float | None, float | None, Show]] = []
    before, after = dict(report.profile_rows(x)), dict(report.profile_rows(y))
    if not (has_cache(x) and has_cache(y)):  # only the cache counts these: without one they are not known, and not 0
        for known in (before, after):
            known.pop(FROM_DISK, None)
    for name in dict.fromkeys([*before, *after]):
        show: Show = show_bytes if name.startswith("bytes") else show_number
        rows.append((f"{name} a second", before.get(name, 0.0) / x.seconds, after.get(name, 0.0) / y.seconds, show))
    rows.append(("database time of a transaction", x.time_per_transaction_ms, y.time_per_transaction_ms, show_ms))
    if x.transactions and y.transactions:
        for name in ("pages read into shared_buffers", FROM_DISK, "pages read from flash", "bytes of WAL"):
            if name in before or name in after:
                show = show_bytes if name.startswith("bytes") else show_number
                rows.append((f"{name} a transaction", before.get(name, 0.0) / x.transactions, after.get(name, 0.0) / y.transactions, show))
    if x.cpu_busy is not None and y.cpu_busy is not None:
        rows.append(("processors busy", x.cpu_busy, y.cpu_busy, verdict.percent))
    return rows


def _cell(value: float | None, show: Show) -> str:
    return "-" if value is None else show(value)


def _grid(rows: list[tuple[str, float | None, float | None, Show]]) -> Grid:
    return Grid(["", "A", "B", "change"], [[name, _cell(a, show), _cell(b, show), relative(a, b)] for name, a, b, show in rows])


def _settings(a: Interval, b: Interval) -> Figure:
    x, y = a.one("settings"), b.one("settings")
    before, after = (x.labels if x else {}), (y.labels if y else {})
    rows = [
        [name, str(before.get(name, "-")), str(after.get(name, "-"))]
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]
    versions = [report.version(facts_) for facts_ in (facts(a), facts(b))]
    if versions[0] != versions[1]:
        rows.insert(0, ["PostgreSQL", *versions])
    return table(
        "settings", "Settings that differ", "What was changed?", Grid(["setting", "A", "B"], rows), "None of those that snapshots hold."
    )


def _load(x: Facts, y: Facts) -> Figure:
    return table("load", "Load profile", "Is it the same load?", _grid(_compared(x, y)), "Nothing was counted.")


def _waits(x: Facts, y: Facts) -> Figure:
    figure = Figure("waits", "Database time by class", "What was it spent on?", kind="bar", y_title="% of database time")
    if x.time is None or y.time is None or not x.time.seconds or not y.time.seconds:
        figure.missing = "One of the intervals has no database time."
        return figure
    before, after = x.time.by_group(), y.time.by_group()
    names = [name for name in CLASSES if name in before or name in after]
    shares = [(name, before.get(name, 0.0) / x.time.seconds, after.get(name, 0.0) / y.time.seconds) for name in names]
    figure.series = [
        Series("A", list(names), [100 * share_ for _, share_, _ in shares]),
        Series("B", list(names), [100 * share_ for _, _, share_ in shares]),
    ]
    figure.grid = Grid(
        ["class", "A", "B", "points", "sessions in A", "sessions in B"],
        [[name, verdict.percent(a), verdict.percent(b), f"{100 * (b - a):+.0f}", show_number(before.get(name, 0.0) / x.seconds), show_number(after.get(name, 0.0) / y.seconds)]
         for name, a, b in shares],
    )  # fmt: skip
    figure.conditions = f"A: from {x.time.words}. B: from {y.time.words}."
    return figure


def _cache(x: Facts, y: Facts) -> Figure:
    before, after = dict(report.efficiency_rows(x)), dict(report.efficiency_rows(y))
    rows = [[name, before.get(name, "-"), after.get(name, "-")] for name in dict.fromkeys([*before, *after])]
    return table("cache", "Cache efficiency", "What did flash do?", Grid(["", "A", "B"], rows), report.why(y, "cache"))


def _latency(x: Facts, y: Facts) -> Figure:
    before = {(item.operation, name): us for item in x.latency for name, us in item.percentiles_us.items()}
    after = {(item.operation, name): us for item in y.latency for name, us in item.percentiles_us.items()}
    rows: list[tuple[str, float | None, float | None, Show]] = [
        (f"{key[0]}, {key[1][1:]} of 100 within", _ms(before.get(key)), _ms(after.get(key)), show_ms)
        for key in dict.fromkeys([*before, *after])
    ]
    return table("latency", "Latency", "Are the devices as fast?", _grid(rows), report.why(y, "flash_latency"))


def _ms(us: float | None) -> float | None:
    return None if us is None else us / 1000


def _union(before: list[Row], after: list[Row], weight: Callable[[Row], float]) -> list[tuple[Row | None, Row | None]]:
    """By key, those with most in either."""
    a, b = {row.key: row for row in before}, {row.key: row for row in after}
    keys = sorted({*a, *b}, key=lambda key: -max(weight(row) for row in (a.get(key), b.get(key)) if row))
    return [(a.get(key), b.get(key)) for key in keys[:TOP]]


def _per_second(row: Row | None, count: Callable[[Row], float], facts_: Facts, section: str) -> float | None:
    """Of a row that is not there nothing moved, unless the snapshots have not all of them."""
    if row is None:
        return None if section in facts_.cut or section in facts_.missing else 0.0
    return count(row) / facts_.seconds


def _relations(x: Facts, y: Facts) -> Figure:
    rows = []
    for a, b in _union(x.reads, y.reads, lambda row: row.get("blks_read")):
        one = b or a
        assert one is not None
        before, after = (_per_second(row, lambda row: row.get("blks_read"), facts_, "relations") for row, facts_ in ((a, x), (b, y)))
        rows.append([report.relation(one), _cell(before, show_number), _cell(after, show_number), relative(before, after)])
    head = ["relation", "pages read a second in A", "in B", "change"]
    return table(
        "segments-by-reads", "Segments by physical reads", "Which relations are read?", Grid(head, rows), report.why(y, "relations")
    )


def _writes(x: Facts, y: Facts) -> Figure:
    rows = []
    for a, b in _union(x.writes, y.writes, blocks_written):
        one = b or a
        assert one is not None
        before, after = (_per_second(row, blocks_written, facts_, "flash_relations") for row, facts_ in ((a, x), (b, y)))
        shares = ["-" if rate is None else share(rate * facts_.seconds, facts_.pages_written) for rate, facts_ in ((before, x), (after, y))]
        rows.append([report.flash_relation(one), _cell(before, show_number), _cell(after, show_number), relative(before, after), *shares])
    head = ["relation", "pages written a second in A", "in B", "change", "share in A", "in B"]
    figure = table(
        "segments-by-physical-writes",
        "Segments by physical writes",
        "Which relations are written to disk?",
        Grid(head, rows),
        report.why(y, "flash_relations"),
    )
    figure.conditions = report.NOT_IN_IT
    return figure


def _statements(x: Facts, y: Facts) -> Figure:
    rows = []
    for a, b in _union(x.statements, y.statements, lambda row: row.get("total_exec_time")):
        one = b or a
        assert one is not None
        before, after = (row.get("total_exec_time") / row.get("calls") if row and row.get("calls") else None for row in (a, b))
        shares = [
            share(row.get("total_exec_time") / 1000, facts_.time.seconds) if row and facts_.time else "-"
            for row, facts_ in ((a, x), (b, y))
        ]
        text = next((text for row in (b, a) if row and (text := report.query(row))), report.by_number(one))
        rows.append([text, _cell(before, show_ms), _cell(after, show_ms), relative(before, after), *shares])
    head = ["statement", "average in A", "in B", "change", "of database time in A", "in B"]
    return table("statements", "Top statements by time", "Which statements gained?", Grid(head, rows), report.why(y, "statements"))
