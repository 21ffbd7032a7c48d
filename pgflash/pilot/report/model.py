"""What a report is made of, before it is HTML or Markdown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pgflash.pilot.figures import Spread


@dataclass
class Series:
    """Points of one colour. `published`: not ours, drawn apart. `second`: against the axis on the right."""

    name: str
    x: list[float | str]
    y: list[float | None]
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    published: bool = False
    second: bool = False
    hidden: bool = False

    def add(self, x: float | str, value: Spread | None) -> None:
        if value is None:
            return
        self.x.append(x)
        self.y.append(value.median)
        self.low.append(value.median - value.least)
        self.high.append(value.greatest - value.median)


@dataclass
class Grid:
    """A table: cells are texts, ready to be shown."""

    header: list[str]
    rows: list[list[str]]


@dataclass
class Figure:
    """One chart with what belongs to it. Without data of ours it says what would have to be run."""

    id: str
    title: str
    question: str
    kind: str = "line"
    x_title: str = ""
    y_title: str = ""
    y2_title: str = ""
    log_x: bool = False
    dates: bool = False  # x are times
    log_y: bool = False
    series: list[Series] = field(default_factory=list)
    grid: Grid | None = None
    published: str = ""
    conditions: str = ""
    findings: list[str] = field(default_factory=list)
    missing: str = ""
    lab: str = ""  # what makes its numbers those of a lab; empty: they are of real storage
    ticks: list[tuple[float, str]] = field(default_factory=list)  # of the x axis, where numbers alone say too little

    @property
    def measured(self) -> bool:
        return any(not series.published for series in self.series)


@dataclass
class Advice:
    """On one scenario. verdict: buy, little, no; open (measured, but too little to conclude from); unclear (not what was asked).

    `times`: how many times faster the cache is that the headline names. `lab`: as of a figure.
    """

    scenario: str
    verdict: str
    headline: str
    title: str = ""
    lab: str = ""
    front: str = ""  # a cache in front of flash, where it was measured
    times: float = 0.0
    again: str = ""  # the command that would make it conclusive
    instead: list[str] = field(default_factory=list)  # what is better than a cache
    reasons: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass
class Verdict:
    """On all of it: the first thing in the report."""

    verdict: str
    headline: str
    sentences: list[str] = field(default_factory=list)


@dataclass
class Report:
    title: str
    overall: Verdict
    made: str
    studies: list[dict[str, Any]]
    machines: list[str]
    advice: list[Advice]
    goals: Grid | None
    figures: list[Figure]
    runs: Grid
    checks: Grid | None
    failures: list[str]
    notes: list[str]
