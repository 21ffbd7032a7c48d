"""A report: the facts of one interval as figures and tables."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pgflash.pilot.report.model import Figure, Grid, Series, Verdict
from pgflash.snapshots import verdict
from pgflash.snapshots.facts import SECTIONS, Facts, blocks_written, facts
from pgflash.snapshots.interval import Interval, Row, Step, Taker, added
from pgflash.snapshots.verdict import percent
from pgflash.snapshots.waits import ALL_OF_IT, CLASSES, NAMED, DatabaseTime, database_time
from pgflash.units import show_bytes, show_ms, show_number, show_seconds

QUERY = 100  # characters of a statement in a table


@dataclass
class Report:
    """What both formats show. `figures` are charts or tables, in their order."""

    title: str
    subtitle: str
    verdict: Verdict
    made: str = field(default_factory=lambda: time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()))
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)


def make(interval: Interval) -> tuple[Report, Facts]:
    found = facts(interval)
    report = Report(
        f"Database {found.database}, snapshots {found.first} to {found.last}",
        f"{found.since} to {found.until}, {show_seconds(found.seconds)}, {len(interval.steps) + 1} snapshots, PostgreSQL {version(found)}{taken_by(found)}.",
        verdict.of_one(found),
        warnings=warnings(found),
        notes=[*asked(interval), *found.notes, *missing(found)],
    )
    report.figures = [
        _profile(found), _waits(found), _waits_over_time(interval), _efficiency(found), _reads_over_time(interval), _latency(found),
        _advice(found), _tablespaces(found), _reads(found), _unoptimized(found), _writes(found), _changes(found), _statements(found), _flash_statements(found), _io(found),
    ]  # fmt: skip
    return report, found


def taken_by(found: Facts) -> str:
    return f", taken by {named(found.servers)}" if named(found.servers) else ""


def version(found: Facts) -> str:
    return f"{found.version // 10000}.{found.version % 10000}"


def warnings(found: Facts) -> list[str]:
    told = [elsewhere(found.servers)] if found.standby else []
    if len(found.servers) > 1:
        told.append(
            f"There was a failover in this interval, and {named(found.servers) or 'more than one server'} took snapshots, each of its own load."
            " What the later server did before its first snapshot is left out."
        )
    elif found.restarted:
        told.append(
            "The server was started again in this interval: what counters had counted between the last snapshot and its end may be missing."
        )
    if found.resets:
        names = ", ".join(SECTIONS.get(name, name) for name in found.resets)
        told.append(f"Counters were reset in this interval, and are counted from zero there: {names}.")
    if found.time is not None and found.time.covered < ALL_OF_IT:
        told.append(
            f"What sessions waited for was sampled in {percent(found.time.covered)} of the interval:"
            " database time and its shares are taken to be the same in the rest."
        )
    return told


def named(takers: list[Taker]) -> str:
    """Those that took the snapshots, by their names; empty if they have none."""
    return " and ".join(dict.fromkeys(one.name for one in takers if one.name))


def elsewhere(takers: list[Taker]) -> str:
    """For who asks a standby."""
    which = f", {named(takers)}" if named(takers) else ""
    return f"This server is a standby: the snapshots, and the load in them, are those of its primary{which}, and not its own."


def asked(interval: Interval) -> list[str]:
    return [
        f"Snapshot {moment.id} is the nearest to the time asked for, {show_seconds(moment.away_s)} away."
        for moment in (interval.first, interval.last)
        if moment.away_s >= 1
    ]


def missing(found: Facts) -> list[str]:
    told = [f"Missing, {SECTIONS[name]}: {problem}." for name, problem in found.missing.items()]
    return [*told, f"{SECTIONS['statements']}: {found.statements_lack}."] if found.statements_lack else told


def count(value: float | None) -> str:
    return "-" if value is None else show_number(value)


def share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f}%" if whole > 0 else "-"


def table(name: str, title: str, question: str, grid: Grid | None, nothing: str) -> Figure:
    return Figure(name, title, question, grid=grid if grid and grid.rows else None, missing="" if grid and grid.rows else nothing)


def why(found: Facts, section: str, otherwise: str = "Nothing was counted.") -> str:
    return f"{found.missing[section][0].upper()}{found.missing[section][1:]}." if section in found.missing else otherwise


# --- load and waits -------------------------------------------------------------------------------------------


def profile_rows(found: Facts) -> list[tuple[str, float]]:
    """Name and count of the interval."""
    rows = [("seconds of database time", found.time.seconds)] if found.time else []
    rows += [("transactions", found.transactions)]
    rows += [("statements", found.calls)] if found.calls is not None else []
    return rows + list(found.rates.items())


def _profile(found: Facts) -> Figure:
    rows = [[name, amount(name, value / found.seconds), amount(name, value / found.transactions) if found.transactions else "-"]
            for name, value in profile_rows(found)]  # fmt: skip
    figure = table("load", "Load profile", "How much work was there?", Grid(["", "a second", "a transaction"], rows), "")
    if found.cpu_busy is not None:
        figure.findings.append(f"The processors of the server were busy {percent(found.cpu_busy)} of the time.")
    if found.kcache_cpu_s is not None:
        figure.findings.append(f"Statements used {show_number(found.kcache_cpu_s)} s of processor time (pg_stat_kcache).")
    return figure


def amount(name: str, value: float) -> str:
    return show_bytes(value) if name.startswith("bytes") else show_number(value)


def _waits(found: Facts) -> Figure:
    figure = Figure("waits", "Top waits", "What was database time spent on?", kind="bar", y_title="% of database time")
    if found.time is None or not found.time.seconds:
        figure.missing = why(found, "database", "No database time was counted.")
        return figure
    groups = found.time.by_group()
    figure.series = [Series("share of database time", list(groups), [100 * value / found.time.seconds for value in groups.values()])]
    rows = [[wait.event, wait.group, show_number(wait.seconds), share(wait.seconds, found.time.seconds)] for wait in found.time.waits[:15]]
    figure.grid = Grid(["wait", "class", "seconds", "of database time"], rows)
    figure.conditions = f"From {found.time.words}. {left_out(found)}"
    return figure


def left_out(found: Facts) -> str:
    """What database time is without, and how sure that is, by its source."""
    source = found.time.source if found.time else ""
    if source == "database":
        return "It counts sessions of clients, a statement when it ends."
    if source == "sampled":
        words = "Idle sessions and background processes are left out."
    else:
        words = (
            "Waits of idle sessions and of background processes are left out. What a process was that ended between two snapshots"
            " is told by its waits; in doubt it counts as a session."
        )
    if found.version < NAMED:
        words += " Before PostgreSQL 17 waits of extensions have no names: all of those of sessions count as reads from flash."
    return words


def _over_time(interval: Interval, figure: Figure, values: Callable[[Step, Interval], dict[str, float | None]]) -> Figure:
    """A point for each snapshot, at its end."""
    series: dict[str, Series] = {}
    for step in interval.steps:
        for name, value in values(step, single(interval, step)).items():
            one = series.setdefault(name, Series(name, [], []))
            one.x.append(f"{step.taken_at:%Y-%m-%d %H:%M:%S}")
            one.y.append(value)
    figure.dates = True
    figure.series = [one for one in series.values() if any(value for value in one.y)]
    if not figure.series:
        figure.missing = "Nothing was counted."
    return figure


def single(interval: Interval, step: Step) -> Interval:
    """The interval that ends with this snapshot."""
    from datetime import timedelta

    from pgflash.snapshots.moments import Moment

    first = Moment(step.id - 1, step.taken_at - timedelta(seconds=step.seconds))
    return Interval(first, Moment(step.id, step.taken_at), interval.database, [], [step], False, sections=added([step]))


def _waits_over_time(interval: Interval) -> Figure:
    whole = database_time(interval)

    def values(step: Step, one: Interval) -> dict[str, float | None]:
        found: DatabaseTime | None = database_time(one)
        if whole is not None and whole.source == "sampled" and (found is None or found.source != "sampled"):
            return dict.fromkeys(CLASSES)  # samples of this time, if any, are in the next snapshot that has them
        groups = found.by_group() if found else {}
        return {name: groups.get(name, 0.0) / step.seconds if step.seconds else None for name in CLASSES}

    figure = Figure(
        "waits-over-time", "Sessions at work", "When, and with what?", x_title="end of the snapshot's time", y_title="sessions, average"
    )
    return _over_time(interval, figure, values)


# --- the cache ------------------------------------------------------------------------------------------------


def efficiency_rows(found: Facts) -> list[tuple[str, str]]:
    cache = found.cache
    if cache is None:
        return []
    seconds = found.seconds or 1.0
    state = ("state at the end", cache.state + (f": {cache.reason}" if cache.reason else ""))
    if not cache.flash_bytes:
        return [state, ("pages read", "not counted without a cache; see the load profile and the tablespaces")]
    return [
        state,
        ("size, and how much is filled", f"{show_bytes(cache.flash_bytes)}, {percent(cache.filled)}"),
        ("pages read from flash (optimized)", f"{cache.hits:,.0f}"),
        ("pages read from disk (unoptimized)", f"{cache.disk_reads:,.0f}"),
        ("of these, on flash but in the kernel's page cache", f"{cache.os_cache_hits:,.0f}"),
        ("hit ratio", percent(cache.hit_ratio)),
        ("average read from flash", show_ms(cache.flash_read_ms) if cache.flash_read_ms is not None else "-"),
        ("average read from disk", show_ms(cache.disk_read_ms) if cache.disk_read_ms is not None else "-"),
        ("pages written to flash", f"{cache.inserts:,.0f}"),
        ("written to flash", f"{show_bytes(cache.write_bytes)}, {show_bytes(cache.write_bytes / seconds)} a second"),
        ("write amplification", count(cache.write_amplification)),
        ("pages removed to make room", f"{cache.evictions:,.0f}"),
        ("pages removed because they changed", f"{cache.invalidations:,.0f}"),
        ("errors of the device", f"{cache.errors:,.0f}"),
    ]


def _efficiency(found: Facts) -> Figure:
    rows = [[name, value] for name, value in efficiency_rows(found)]
    return table("cache", "Cache efficiency", "What did flash do?", Grid(["", ""], rows), why(found, "cache"))


def _reads_over_time(interval: Interval) -> Figure:
    def values(step: Step, one: Interval) -> dict[str, float | None]:
        cache = one.one("cache")
        if cache is None or not step.seconds or not float(cache.labels.get("slots") or 0):
            return {}  # without a cache nothing is counted here
        found: dict[str, float | None] = {
            "from flash": cache.get("hits") / step.seconds,
            "from disk": cache.get("disk_reads") / step.seconds,
        }
        return found

    figure = Figure(
        "reads-over-time",
        "Reads by source",
        "When did reads come from flash?",
        x_title="end of the snapshot's time",
        y_title="pages a second",
    )
    return _over_time(interval, figure, values)


def _latency(found: Facts) -> Figure:
    names = sorted({name for item in found.latency for name in item.percentiles_us}, key=lambda name: int(name[1:]))
    rows = [
        [item.operation, f"{item.count:,.0f}", *(show_ms(item.percentiles_us[name] / 1000) for name in names)] for item in found.latency
    ]
    heads = [f"{name[1:]} of 100 within" for name in names]
    return table("latency", "Latency", "How fast are the devices?", Grid(["operation", "count", *heads], rows), why(found, "flash_latency"))


def _advice(found: Facts) -> Figure:
    rows = [
        [row.label("kind"), show_bytes(float(row.labels["size"])) + (" (as it is)" if row.labels.get("is_current") else ""),
         percent(row.labels.get("hit_ratio")), count(row.labels.get("disk_reads_per_s")), _us(row.labels.get("read_time_us")),
         show_bytes(float(written)) if (written := row.labels.get("write_bytes_per_day")) is not None else "-"]
        for row in found.advice
    ]  # fmt: skip
    head = ["of what", "size", "hit ratio", "reads from disk a second", "average read", "written to flash a day"]
    figure = table(
        "advice",
        "Buffer and flash advice",
        "What would another size do?",
        Grid(head, rows),
        why(found, "advice", "pg_flashcache.advice is off, or nothing was read."),
    )
    if rows:
        figure.conditions = (
            "Estimates, of the hour before the last snapshot. The hit ratio is of pages that were not found in shared_buffers as they are."
        )
    return figure


def _us(value: float | None) -> str:
    return "-" if value is None else show_ms(value / 1000)


# --- objects and statements -----------------------------------------------------------------------------------


def relation(row: Row) -> str:
    kind = {"i": "index", "t": "TOAST", "m": "materialized view"}.get(row.label("kind"), "")
    words = f"{row.label('schema')}.{row.label('name')}"
    return f"{words} ({kind} of {row.label('of')})" if kind and row.label("of") else words


def _tablespaces(found: Facts) -> Figure:
    reads = sum(row.get("blks_read") for row in found.tablespaces)
    rows = [
        [row.key, show_number(row.get("blks_read")), share(row.get("blks_read"), reads), show_number(row.get("blks_read") / found.seconds),
         show_number(row.get("blks_hit")), show_number(row.get("tup_changed"))]
        for row in found.tablespaces
    ]  # fmt: skip
    head = ["tablespace", "pages read", "share", "a second", "found in shared_buffers", "rows changed"]
    figure = table("tablespaces", "I/O by tablespace", "Where is it read?", Grid(head, rows), why(found, "relations"))
    figure.conditions = "Relations of this database, and those that all databases share."
    return figure


def _reads(found: Facts) -> Figure:
    reads = sum(row.get("blks_read") for row in found.tablespaces)
    rows = [
        [relation(row), row.label("tablespace"), show_bytes(size) if (size := float(row.labels.get("bytes") or 0)) else "-", show_number(row.get("blks_read")),
         share(row.get("blks_read"), reads), share(row.get("blks_hit"), row.get("blks_hit") + row.get("blks_read"))]
        for row in found.reads
    ]  # fmt: skip
    head = ["relation", "tablespace", "size", "pages read", "share", "found in shared_buffers"]
    figure = table(
        "segments-by-reads", "Segments by physical reads", "Which relations are read?", Grid(head, rows), why(found, "relations")
    )
    figure.conditions = "Pages read into shared_buffers, from wherever they came; sizes are of the last VACUUM or ANALYZE."
    if found.version < EXTENDS_APART:
        figure.conditions += " Pages that were added are among them: before 16 PostgreSQL does not tell them apart."
    return figure


PAGE = 8192
EXTENDS_APART = 160000
BYTES_COUNTED = 180000
NOT_IN_IT = (
    "Temporary tables, relations that were dropped or rewritten meanwhile, those that found no place among"
    " pg_flashcache.max_tracked_relations, and transactions that had not ended are left out: what they did in an interval cannot be told"
    " from what had been done before."
)


def flash_relation(row: Row) -> str:
    return f"{row.label('schemaname')}.{row.label('relname')}"


def _unoptimized(found: Facts) -> Figure:
    total = sum(row.get("disk_reads") for row in found.unoptimized)
    rows = [
        [flash_relation(row), show_number(row.get("disk_reads")),
         share(row.get("disk_reads"), total), show_number(row.get("hits")), show_ms(row.get("disk_read_time_us") / 1000)]
        for row in found.unoptimized
    ]  # fmt: skip
    head = ["relation", "unoptimized reads", "share of these", "optimized reads", "time of reads from disk"]
    figure = table(
        "segments-by-unoptimized-reads",
        "Segments by unoptimized reads",
        "Which reads did flash not answer?",
        Grid(head, rows),
        why(found, "flash_relations"),
    )
    figure.conditions = NOT_IN_IT
    if found.cache is not None and found.cache.disk_reads:
        known = min(1.0, found.disk_reads / found.cache.disk_reads)
        figure.conditions += (
            f" Relations of this database that have counters of their own had {percent(known)} of the server's reads from disk."
        )
    return figure


def _writes(found: Facts) -> Figure:
    rows = [
        [flash_relation(row), show_number(blocks_written(row)), share(blocks_written(row), found.pages_written), show_number(row.get("disk_writes")),
         show_number(row.get("disk_extends")), show_number(blocks_written(row) / found.seconds)]
        for row in found.writes
    ]  # fmt: skip
    head = ["relation", "pages written", "share", "written again", "added", "a second"]
    nothing = "Nothing was written, or there is no cache: PostgreSQL itself does not count writes by relation."
    if found.others_written:
        nothing = "Of no relation of this database that has counters of its own. Pages of others were written."
    figure = table(
        "segments-by-physical-writes",
        "Segments by physical writes",
        "Which relations are written to disk?",
        Grid(head, rows),
        why(found, "flash_relations", nothing),
    )
    figure.conditions = (
        f"Pages of data files, by whatever process; relations of this database, and those that all databases share. {NOT_IN_IT}"
    )
    return figure


def _changes(found: Facts) -> Figure:
    total = sum(row.get("tup_changed") for row in found.tablespaces)
    rows = [
        [relation(row), show_number(row.get("tup_changed")), share(row.get("tup_changed"), total), show_number(row.get("tup_inserted")),
         show_number(row.get("tup_updated")), show_number(row.get("tup_deleted"))]
        for row in found.changes
    ]  # fmt: skip
    head = ["table", "rows changed", "share", "inserted", "updated", "deleted"]
    return table("segments-by-changes", "Segments by rows changed", "Which tables are changed?", Grid(head, rows), why(found, "relations"))


def query(row: Row) -> str:
    text = " ".join(row.label("query").split())
    return text if len(text) <= QUERY else text[: QUERY - 3] + "..."


def _statements(found: Facts) -> Figure:
    total = found.time.seconds * 1000 if found.time else 0.0
    rows = [
        [query(row) or by_number(row), row.label("datname"), show_number(row.get("calls")), show_number(row.get("total_exec_time") / 1000),
         share(row.get("total_exec_time"), total), show_ms(row.get("total_exec_time") / row.get("calls")) if row.get("calls") else "-",
         show_number(row.get("shared_blks_read"))]
        for row in found.statements
    ]  # fmt: skip
    head = ["statement", "database", "calls", "seconds", "of database time", "average", "pages read"]
    return table("statements", "Top statements by time", "Which statements pay?", Grid(head, rows), why(found, "statements"))


def is_nested(row: Row) -> bool:
    return row.key.endswith("/false")  # userid, dbid, queryid, toplevel


def by_number(row: Row) -> str:
    """A statement without a text."""
    parts = row.key.split("/")
    number = parts[2] if len(parts) == 4 else row.key
    return f"{'nested statement' if is_nested(row) else 'statement'}, query identifier {number}, text not known"


def flash_query(row: Row, known: dict[str, str]) -> str:
    """By the text, else by the identifier; of one that another statement has called, this is said."""
    text = query(row) or known.get(row.key, "")
    if text:
        return f"nested: {text}" if is_nested(row) else text
    return by_number(row)


def _flash_statements(found: Facts) -> Figure:
    known = {row.key: query(row) for row in found.statements}
    rows = [
        [flash_query(row, known), show_number(row.get("calls")), show_number(row.get("disk_reads")),
         show_number(row.get("disk_read_time_us") / 1e6), show_number(row.get("hits")), show_number(row.get("read_time_us") / 1e6)]
        for row in found.flash_statements
    ]  # fmt: skip
    head = ["statement", "calls", "pages from disk", "seconds", "pages from flash", "seconds"]
    figure = table(
        "statements-by-disk",
        "Top statements by reads from disk",
        "Which statements would flash help?",
        Grid(head, rows),
        why(found, "flash_statements", found.flash_statements_why or "Nothing was counted."),
    )
    if any(is_nested(row) for row in found.flash_statements):
        figure.conditions = "Reads of nested statements are also counted for the statement that called them: they do not add up."
    return figure


def _io(found: Facts) -> Figure:
    def pages(row: Row, operations: str, byte_counter: str) -> str:
        """From 18 on an operation may be of several pages, and bytes are counted."""
        return show_number(row.get(byte_counter) / PAGE if found.version >= BYTES_COUNTED else row.get(operations))

    rows = [
        [row.label("backend_type"), row.label("object"), row.label("context"), pages(row, "reads", "read_bytes"),
         show_ms(row.get("read_time")) if found.reads_timed else "-", pages(row, "writes", "write_bytes"),
         pages(row, "extends", "extend_bytes"), show_number(row.get("evictions"))]
        for row in found.io
    ]  # fmt: skip
    head = ["process", "object", "context", "pages read", "time of reads", "pages written", "added", "evictions"]
    return table("io", "I/O by process", "Who reads and writes?", Grid(head, rows), why(found, "io"))
