"""Two studies side by side."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from rich.table import Table

from pgflash.pilot.figures import Point, Spread, points
from pgflash.pilot.store import Study
from pgflash.shown import cell, console
from pgflash.units import counted, show_number


@dataclass(frozen=True)
class Row:
    scenario: str
    variant: str
    clients: int
    a_ms: Spread
    b_ms: Spread
    a_tps: Spread
    b_tps: Spread
    a_p95: Spread | None
    b_p95: Spread | None

    @property
    def ratio(self) -> float:
        """Latency of B in units of A's: below 1 is faster."""
        return self.b_ms.median / self.a_ms.median

    @property
    def verdict(self) -> str:
        """A difference counts where the repetitions of both do not overlap; with one repetition each nobody can tell."""
        if self.a_ms.count < 2 or self.b_ms.count < 2:
            return "one repetition only"
        if self.a_ms.overlaps(self.b_ms):
            return "no clear difference"
        return "B is faster" if self.ratio < 1 else "B is slower"


@dataclass
class Comparison:
    a: str
    b: str
    rows: list[Row] = field(default_factory=list)
    only_a: list[str] = field(default_factory=list)
    only_b: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)

    def slower_than(self, percent: float) -> list[Row]:
        return [row for row in self.rows if row.ratio > 1 + percent / 100 and row.verdict != "no clear difference"]

    def as_json(self) -> dict[str, Any]:
        rows = [asdict(row) | {"ratio": round(row.ratio, 4), "verdict": row.verdict} for row in self.rows]
        return {
            "a": self.a,
            "b": self.b,
            "rows": rows,
            "only_a": self.only_a,
            "only_b": self.only_b,
            "conditions_that_differ": self.differences,
        }


def compare(a: Study, b: Study) -> Comparison:
    result = Comparison(str(a.folder), str(b.folder))
    ours, theirs = _by_key(a), _by_key(b)
    for key, point in ours.items():
        other = theirs.get(key)
        if other is None:
            result.only_a.append(_words(key))
            continue
        result.rows.append(
            Row(*key, point.average_ms, other.average_ms, point.tps, other.tps, point.percentile("p95"), other.percentile("p95"))
        )
        result.differences += [text for text in _differences(point, other) if text not in result.differences]
    result.only_b = [_words(key) for key in theirs if key not in ours]
    result.differences += _machines(a, b)
    return result


def _by_key(study: Study) -> dict[tuple[str, str, int], Point]:
    return {(point.scenario, point.variant, point.clients): point for point in points(study.runs)}


def _words(key: tuple[str, str, int]) -> str:
    return f"{key[0]}, {key[1]}, {counted(key[2], 'client')}"


def _differences(a: Point, b: Point) -> list[str]:
    left_out = {"moved_objects", "mount_options"}
    names = sorted((a.conditions.keys() | b.conditions.keys()) - left_out)
    return [
        f"{name}: {a.conditions.get(name)} / {b.conditions.get(name)}" for name in names if a.conditions.get(name) != b.conditions.get(name)
    ]


def _machines(a: Study, b: Study) -> list[str]:
    ours, theirs = ([line["machine"] for line in study.of("study")][-1:] for study in (a, b))
    if not ours or not theirs:
        return []
    return [
        f"machine, {name}: {ours[0].get(name)} / {theirs[0].get(name)}"
        for name in ("cpu", "cpus", "memory_mb", "kernel")
        if ours[0].get(name) != theirs[0].get(name)
    ]


def show(result: Comparison) -> None:
    out = console()
    table = Table("scenario", "variant", title=cell(f"A: {result.a}   B: {result.b}"), title_justify="left")
    for name in ("clients", "A ms", "B ms", "B/A", "A p95", "B p95", "A tps", "B tps"):
        table.add_column(name, justify="right")
    table.add_column("")
    for row in result.rows:
        p95 = [show_number(spread.median) if spread else "-" for spread in (row.a_p95, row.b_p95)]
        table.add_row(
            cell(row.scenario), cell(row.variant), str(row.clients), show_number(row.a_ms.median), show_number(row.b_ms.median), f"{row.ratio:.3f}", *p95,
            f"{row.a_tps.median:,.0f}", f"{row.b_tps.median:,.0f}", row.verdict,
        )  # fmt: skip
    out.print(table)
    for title, lines in (
        ("conditions that differ (A / B)", result.differences),
        ("only in A", result.only_a),
        ("only in B", result.only_b),
    ):
        if lines:
            out.print(f"{title}:\n  " + "\n  ".join(lines), markup=False)
