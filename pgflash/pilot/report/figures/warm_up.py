"""Hit ratios while caches warm up. Drawn for every scenario."""

from __future__ import annotations

from pgflash.pilot.report.model import Figure, Grid, Series
from pgflash.pilot.scenario import Scenario

TITLE = "Warming up"
QUESTION = "How soon does it help?"


def draw(scenario: Scenario, warmups: list[dict[str, object]]) -> Figure | None:
    """Of the first repetition of each variant."""
    figure = Figure(
        f"warm-up-{scenario.name}",
        TITLE,
        QUESTION,
        x_title="seconds of load on a cold cache",
        y_title="page reads found in the cache, %",
    )
    rows = []
    seen: set[str] = set()
    for line in warmups:
        variant, slices = str(line["variant"]), line["rows"]
        if variant in seen or not isinstance(slices, list) or not slices:
            continue
        seen.add(variant)
        name = "hit_ratio" if slices[-1]["hit_ratio"] is not None else "buffer_hit_ratio"
        pairs = [(row["t"], 100 * row[name]) for row in slices if row[name] is not None]
        words = "flash" if name == "hit_ratio" else "shared_buffers"
        figure.series.append(Series(f"{variant} ({words})", [x for x, _ in pairs], [y for _, y in pairs]))
        filled = slices[-1]["filled"]
        end = f"{pairs[-1][1]:.1f}%" if pairs else "-"
        rows.append(
            [
                variant,
                words,
                f"{line['seconds']} s",
                end,
                f"{100 * filled:.0f}%" if filled is not None else "-",
                "yes" if line["plateau"] else "no",
            ]
        )
    if not figure.series:
        return None
    figure.grid = Grid(["", "found in", "took", "share found at the end", "flash filled", "plateau reached"], rows)
    warm = scenario.warmup
    modelled = scenario.own_cluster and scenario.disk.kind == "lab"
    figure.conditions = (
        f"The load that is measured, cold cache, slices of {warm.slice_s} s, until {warm.flat} of them raise the share of page reads found by less"
        f" than {warm.step_points:g} points (the plateau), at most {warm.max_s} s. "
        + (
            f"The modelled disk's delays are {'suspended' if warm.disk == 'fast' else 'on'} meanwhile."
            if modelled
            else "Real storage at its own speed."
        )
    )
    if modelled and warm.disk == "fast":
        figure.findings.append('The time on a disk with its delays is longer by far: run with warmup.disk = "slow" to see it.')
    return figure
