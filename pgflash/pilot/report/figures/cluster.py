"""Reads of several nodes behind a proxy, without caches and with one on each."""

from __future__ import annotations

from pgflash.pilot.figures import Point, spread
from pgflash.pilot.report import select
from pgflash.pilot.report.model import Figure
from pgflash.pilot.report.parts import bars, factor, faster, label_of, unsure
from pgflash.pilot.scenario import Arms, Scenario

TITLE = "A cluster, with a cache on each node"
QUESTION = "What do reads gain that a proxy spreads over all nodes?"
PUBLISHED = ""


def needs(arms: Arms) -> str:
    return "" if arms.nodes > 1 and arms.disk and arms.cache else "[cluster], an arm on disk, and one with a cache"


def draw(scenario: Scenario, points: list[Point]) -> Figure | None:
    points = select.of_clients(points, select.most_clients(points))
    disk, caches = select.base(points), select.caches(points)
    if disk is None or not caches or not disk.conditions.get("nodes"):
        return None
    chosen = [("no cache", disk), *((f"cache of {label_of(p)} on each node", p) for p in caches)]
    figure = Figure(f"cluster-{scenario.name}", TITLE, QUESTION)
    bars(scenario, figure, chosen, more={label: [_by_node(p)] for label, p in chosen})
    assert figure.grid is not None
    figure.grid.header[-1] = "transactions by node"
    gains = [f"{label_of(p)} of the database: {faster(factor(disk.average_ms, p.average_ms))}" for p in caches]
    figure.findings.append(f"{disk.conditions['nodes']} nodes, each with a cache of {'; '.join(gains)}.")
    figure.findings += unsure([disk, *caches])
    return figure


def _by_node(point: Point) -> str:
    """Shares, in percent; the median of the repetitions."""
    shares: dict[str, list[float]] = {}
    for run in point.runs:
        by = {node["name"]: int(node["counters"]["database.xact_commit"]) for node in run.get("nodes", [])}
        for name, count in by.items():
            shares.setdefault(name, []).append(100 * count / max(1, sum(by.values())))
    medians = {name: spread(found) for name, found in shares.items()}
    return ", ".join(f"{name} {found.median:.0f}%" for name, found in medians.items() if found is not None)
