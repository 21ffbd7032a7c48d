"""A plan as text, and as a page with the curve."""

from __future__ import annotations

import html
from pathlib import Path

from rich.table import Table

from pgflash.errors import OutputError
from pgflash.place.advise import Plan
from pgflash.shown import cell, console, visible
from pgflash.units import show_bytes, show_number

ROWS = 40
WIDTH = 40


def show(plan: Plan) -> None:
    out = console()
    observation = plan.observation
    since = f"over {observation.seconds:.0f} s" if observation.window else "since the statistics were reset"
    table = Table(
        "object", "tablespace", "size", "reads/s", "of TOAST", "writes/s", "ms", "growth/day", "saved ms/s/GB", "place", "why",
        title=f"Objects by time on storage, {since}", title_justify="left",
    )  # fmt: skip
    for line in plan.lines[:ROWS]:
        rates = line.rates
        growth = "" if rates.growth is None else show_bytes(rates.growth) if rates.growth >= 0 else f"-{show_bytes(-rates.growth)}"
        table.add_row(
            cell(line.item.key), cell(rates.unit.tablespace), show_bytes(line.item.bytes), show_number(rates.reads),
            show_number(rates.toast_reads) if rates.toast_reads else "", show_number(rates.writes), show_number(rates.disk_ms), growth,
            show_number(line.item.density * 1024**3), line.place, line.why,
        )  # fmt: skip
    out.print(table)
    if len(plan.lines) > ROWS:
        out.print(f"and {len(plan.lines) - ROWS} more (--json has all)", markup=False)
    out.print("\nms for a page that is read or written, by flash bought:", markup=False)
    for split in plan.curve:
        value = plan.mean_ms(split)
        share = value / plan.mean_ms(None) if plan.nothing else 0.0
        out.print(
            f"{show_bytes(split.flash):>10}  {show_number(value):>8} ms {'#' * round(WIDTH * share):<{WIDTH}}"
            f"  {len(split.moved)} moved, cache {show_bytes(split.cache)}",
            markup=False,
        )
    out.print("")
    for text in plan.words():
        out.print(visible(text), markup=False, soft_wrap=True)
    for note in observation.notes:
        out.print(f"note: {visible(note)}", markup=False, soft_wrap=True)


def write_html(plan: Plan, path: Path) -> None:
    """One file that needs no network."""
    import plotly.graph_objects as go

    drawn = go.Figure()
    drawn.add_trace(
        go.Scatter(
            x=[split.flash / 1024**3 for split in plan.curve],
            y=[plan.mean_ms(split) for split in plan.curve],
            mode="lines+markers",
            text=[f"{len(split.moved)} moved, cache {show_bytes(split.cache)}" for split in plan.curve],
            name="best split",
        )
    )
    drawn.add_vline(x=plan.flash / 1024**3, line_dash="dot")
    drawn.update_layout(
        template="plotly_white", xaxis={"title": {"text": "flash, GB"}}, yaxis={"title": {"text": "ms for a page"}, "rangemode": "tozero"}
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td>{html.escape(visible(text))}</td>"
            for text in (
                line.item.key, line.rates.unit.tablespace, show_bytes(line.item.bytes), show_number(line.rates.reads),
                show_number(line.rates.writes), show_number(line.rates.disk_ms), line.place, line.why,
            )
        )
        + "</tr>\n"
        for line in plan.lines
    )  # fmt: skip
    words = "".join(
        f"<p>{html.escape(visible(text))}</p>\n" for text in [*plan.words(), *(f"Note: {note}" for note in plan.observation.notes)]
    )
    head = "".join(f"<th>{name}</th>" for name in ("object", "tablespace", "size", "reads/s", "writes/s", "ms", "place", "why"))
    page = (
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'><title>pgflash place</title><style>"
        "body{font-family:system-ui,sans-serif;margin:2em;max-width:75em}td,th{text-align:left;padding:.2em .8em;border-bottom:1px solid #ddd}"
        f"</style></head><body>\n<h1>What belongs on flash</h1>\n{words}"
        f"{drawn.to_html(full_html=False, include_plotlyjs=True)}\n<table><tr>{head}</tr>\n{rows}</table>\n</body></html>\n"
    )
    try:
        path.write_text(page, "utf-8")
    except OSError as error:
        raise OutputError(path, error) from error
