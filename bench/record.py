"""What was measured goes into a file of JSON lines; medians and tables are made from it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

Value = float | int | str
MANY = 8  # repetitions from which on the middle half of their ratios says something


@dataclass
class Record:
    """The lines of one figure. `server`: of which they are, "PostgreSQL 15.20"."""

    out: Path
    figure: str
    server: str
    _lines: dict[str, int] = field(default_factory=dict)  # by arm
    _values: dict[tuple[str, str], dict[int, float]] = field(default_factory=dict)  # numbers, by arm and key; then by repetition

    def also(self, figure: str) -> Record:
        """For another figure, into the same file."""
        return Record(self.out, figure, self.server)

    def line(self, **values: Value) -> None:
        with self.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(values, ensure_ascii=False) + "\n")

    def add(self, arm: str, rep: int, **values: Value) -> None:
        """One measurement."""
        self.line(figure=self.figure, arm=arm, rep=rep, server=self.server, **values)
        self._lines[arm] = self.count(arm) + 1
        for key, value in values.items():
            if not isinstance(value, str):
                self._values.setdefault((arm, key), {})[rep] = value
        words = " ".join(f"{key}={value}" for key, value in values.items())
        print(f"  {self.figure:<14} {arm:<16} run {rep}  {words}", flush=True)

    def count(self, arm: str) -> int:
        return self._lines.get(arm, 0)

    def _numbers(self, arm: str, key: str) -> dict[int, float]:
        return self._values.get((arm, key), {})

    def median(self, arm: str, key: str) -> str:
        found = self._numbers(arm, key)
        return f"{median(found.values()):.10g}" if found else ""

    def table(self, keys: Sequence[str], arms: Sequence[str]) -> None:
        """Medians, an arm a row."""
        print(f"\n  {'median':<18}" + "".join(f" {key:>16}" for key in keys))
        for arm in arms:
            print(f"  {arm:<18}" + "".join(f" {self.median(arm, key):>16}" for key in keys))
        print(flush=True)

    def result(self, name: str, value: str, goal: str, note: str = "") -> None:
        """A line of the summary; goal is text such as "at least 0.98"."""
        self.line(figure=self.figure, server=self.server, result=name, value=float(value) if value else "-", goal=goal, note=note)
        print(f"{self.figure}: {name} = {value or '-'} (goal: {goal})" + (f"; {note}" if note else ""), flush=True)

    def ratio(self, name: str, goal: str, key: str, above: str, below: str, note: str = "") -> None:
        """Of two arms, repetition by repetition: those were measured right after one another, so the ratio is free of drift."""
        x, y = self._numbers(above, key), self._numbers(below, key)
        ratios = [x[rep] / y[rep] for rep in x if y.get(rep, 0) > 0]
        notes = ([f"range {min(ratios):.4g} to {max(ratios):.4g}"] if ratios else []) + ([note] if note else [])
        if len(ratios) >= MANY:
            low, _, high = quantiles(ratios, n=4)
            notes.insert(0, f"{len(ratios)} pairs, half of them {low:.4g} to {high:.4g}")
        self.result(name, f"{median(ratios):.4g}" if ratios else "", goal, "; ".join(notes))
