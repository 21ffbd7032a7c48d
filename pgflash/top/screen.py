"""Tables of what was seen: the same for the live screen and for plain text."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pgflash import devices
from pgflash.shown import cell, visible
from pgflash.top.rates import RELATION_ORDERS, STATEMENT_ORDERS, Rates, Source, ordered
from pgflash.top.sample import TEXTS
from pgflash.top.watch import View
from pgflash.units import show_bytes, show_number

ORDER_NAMES = {
    "disk_read_time_s": "time of disk reads",
    "disk_reads": "disk reads",
    "hits": "flash hits",
    "writes": "disk writes",
    "calls": "calls",
}
NONE = "-"
NARROW = 120  # columns
BAD_STATES = ("off", "detached", "paused")


def number(value: float | None) -> str:
    return NONE if value is None else show_number(value)


def latency(source: Source) -> str:
    if source.mean_latency_s is None:
        return NONE
    ms = source.mean_latency_s * 1000
    return f"{'~' if source.estimated else ''}{show_number(ms)}"


def share(value: float | None) -> str:
    return NONE if value is None else f"{100 * value:.1f}"


def _rate_of_bytes(value: float | None) -> str:
    return NONE if value is None else f"{show_bytes(value)}"


def writes(found: Rates) -> str:
    limit = found.write_limit_bytes_per_s
    allowed = show_bytes(limit) if limit else "no limit"
    return f"{_rate_of_bytes(found.write_bytes_per_s)} of {allowed}"


def servers(views: list[View], selected: int | None, narrow: bool = False) -> RenderableType:
    """A line each, and below them what is to be said in words. A narrow screen has no space for some of the columns."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    heads = [("server", True), ("role", False), ("state", True), ("TPS", True), ("flash/s", True), ("ms", True), ("page cache/s", False),
             ("ms", False), ("disk/s", True), ("ms", True), ("hit %", True), ("fill %", False), ("written/s", False)]  # fmt: skip
    for head, always in heads:
        if always or not narrow:
            table.add_column(head, justify="left" if head in ("server", "role", "state") else "right", no_wrap=True, overflow="ellipsis")
    remarks = Text()
    for place, view in enumerate(views):
        cells = _cells(view)
        table.add_row(">" if place == selected else " ", *(text for text, head in zip(cells, heads, strict=True) if head[1] or not narrow))
        whose = f"{visible(view.name)}: " if len(views) > 1 else ""
        if remark := _remark(view):
            style = "red" if view.problem or (view.rates and view.rates.devices_off) else ""
            remarks.append(whose).append(f"{visible(remark)}\n", style)
        if view.rates and not view.problem:
            unseen = [text for text in view.rates.missing if text.startswith(devices.VIEW)]
            remarks.append("".join(f"{whose}{visible(text)}\n" for text in unseen), "yellow")
    return Group(table, remarks)


def _cells(view: View) -> list[Text]:
    found = view.rates
    if found is None:
        return [cell(view.name), Text(""), Text("down", style="red"), *[Text("")] * 10]
    state = Text(
        visible(found.state or NONE), style="green" if found.state == "active" else "red" if found.state in BAD_STATES else "yellow"
    )
    texts = (
        number(found.tps), number(found.flash.reads_per_s), latency(found.flash), number(found.page_cache.reads_per_s),
        latency(found.page_cache), number(found.disk.reads_per_s), latency(found.disk), share(found.hit_ratio), share(found.fill),
        writes(found),
    )  # fmt: skip
    return [cell(view.name), Text(found.role), Text("slow", style="red") if view.problem else state, *map(Text, texts)]


def _remark(view: View) -> str:
    found = view.rates
    if view.problem or found is None:
        return view.problem or ""
    off = "; ".join(devices.words(row) for row in found.devices_off or [])
    return found.reason or off or found.verdict or (found.missing[0] if found.state is None and found.missing else "")


def objects(found: Rates, order: str, rows: int, narrow: bool = False) -> RenderableType:
    if found.relations is None:
        return cell("objects: " + _why(found, "pg_stat_flashcache_relation"))
    table = Table(
        title=cell(f"Objects of {found.database} by {ORDER_NAMES[order]}"),
        title_justify="left",
        box=None,
        pad_edge=False,
        header_style="bold",
    )
    table.add_column("object", no_wrap=True)
    heads = ("disk reads/s", "disk ms/s", "page cache/s", "flash/s", "flash ms/s", "disk writes/s")
    shown = [head for head in heads if not (narrow and head == "page cache/s")]
    for head in shown:
        table.add_column(head, justify="right")
    for row in ordered(found.relations, RELATION_ORDERS, order)[:rows]:
        name = f"{row.schema}.{row.relation}" if row.schema else row.relation
        each = (row.disk_reads, row.disk_read_time_s * 1000, row.os_cache_hits, row.hits, row.read_time_s * 1000, row.writes)
        values = dict(zip(heads, each, strict=True))
        table.add_row(cell(name), *(number(values[head] / found.interval_s) for head in shown))
    return table


def statements(found: Rates, order: str, rows: int, fitted: bool = True) -> RenderableType:
    """`fitted`: to a terminal; otherwise each is whole."""
    view = "pg_stat_flashcache_statements"
    if not found.statements and (found.statements is None or any(text.startswith(view) for text in found.missing)):
        return cell("statements: " + _why(found, view))
    title = f"Statements by {ORDER_NAMES[order]}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold", expand=fitted)
    table.add_column("queryid", no_wrap=True)
    for head in ("calls/s", "disk reads/s", "disk ms/s", "flash/s", "flash ms/s"):
        table.add_column(head, justify="right")
    table.add_column("statement", no_wrap=True, overflow="ellipsis", ratio=1 if fitted else None)
    for row in ordered(found.statements, STATEMENT_ORDERS, order)[:rows]:
        each = (row.calls, row.disk_reads, row.disk_read_time_s * 1000, row.hits, row.read_time_s * 1000)
        table.add_row(str(row.queryid or NONE), *(number(value / found.interval_s) for value in each), cell(row.query or NONE))
    why = (Text(visible(text), no_wrap=fitted, overflow="ellipsis") for text in found.missing if text.startswith(TEXTS))
    return Group(table, *why)


def _why(found: Rates, view: str) -> str:
    return next((text for text in found.missing if text.startswith(view)), found.missing[0] if found.missing else "two looks are needed")


def page(
    views: list[View],
    selected: int,
    relation_order: str,
    statement_order: str,
    size: tuple[int, int] | None = None,
    keys: bool = False,
    head: str = "",
) -> RenderableType:
    """Everything; with a size, of width and height, as much as there is space for."""
    more = sum(2 for view in views for text in (view.rates.missing if view.rates else []) if text.startswith((devices.VIEW, TEXTS)))
    rows = 10 if size is None else max(1, (size[1] - 2 * len(views) - more - 11) // 2)
    narrow = size is not None and size[0] < NARROW
    parts: list[RenderableType] = [Text(head, style="bold")] if head else []
    parts += [servers(views, selected if len(views) > 1 else None, narrow)]
    found = views[selected].rates
    if found is not None:
        parts += [objects(found, relation_order, rows, narrow), Text(""), statements(found, statement_order, rows, size is not None)]
    if keys:
        parts += [Text(""), Text("q quit   n, p next and previous server   o order of objects   s order of statements", style="dim")]
    return Group(*parts)
