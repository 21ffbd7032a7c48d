"""What happened between two looks. A value that cannot be known is None: after a reset of the counters, or without the view."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from pgflash.latency import middle_us
from pgflash.top.sample import Sample

PAGE = 8192
ELSE = "(everything else)"  # than the relations of the database
OPERATIONS = {"disk read": "disk", "page cache read": "page_cache", "flash read": "flash"}
RELATION_ORDERS = ("disk_read_time_s", "disk_reads", "hits", "writes")
STATEMENT_ORDERS = ("disk_read_time_s", "disk_reads", "hits", "calls")


@dataclass(frozen=True)
class Source:
    """Reads from one place: pages a second, and the mean time of one."""

    reads_per_s: float | None = None
    mean_latency_s: float | None = None
    estimated: bool = False  # the mean, from a histogram


@dataclass(frozen=True)
class Relation:
    schema: str
    relation: str
    hits: int
    disk_reads: int
    os_cache_hits: int
    writes: int
    read_time_s: float
    disk_read_time_s: float
    shared: bool = False  # a catalog of the server, which each of its databases has, with the same counters


@dataclass(frozen=True)
class Statement:
    queryid: int | None
    query: str
    calls: int
    hits: int
    disk_reads: int
    read_time_s: float
    disk_read_time_s: float


@dataclass(frozen=True)
class Rates:
    """Of an interval."""

    at: datetime
    interval_s: float
    role: str
    cluster: str
    database: str
    state: str | None
    reason: str | None
    verdict: str | None
    tps: float | None
    flash: Source
    page_cache: Source
    disk: Source
    hit_ratio: float | None
    fill: float | None
    capacity_bytes: int | None
    write_bytes_per_s: float | None
    write_limit_bytes_per_s: int | None
    relations: list[Relation] | None
    statements: list[Statement] | None
    missing: list[str]
    devices_off: list[dict[str, Any]] | None

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "at": self.at.isoformat()}


def moved(before: dict[str, Any], after: dict[str, Any], name: str) -> int | None:
    """None if the counter is not there, or was reset."""
    if before.get(name) is None or after.get(name) is None:
        return None
    change = int(after[name]) - int(before[name])
    return change if change >= 0 else None


def _per(count: float | None, seconds: float) -> float | None:
    return None if count is None else count / seconds


def _mean(time_us: int | None, count: int | None) -> float | None:
    return time_us / count / 1e6 if time_us is not None and count else None


def rates(before: Sample, after: Sample) -> Rates:
    """The interval must be longer than nothing."""
    seconds = max((after.at - before.at).total_seconds(), 1e-6)
    old, new = before.stat or {}, after.stat or {}
    if old.get("stats_reset") != new.get("stats_reset"):
        old = {}
    hits, misses, reads = (moved(old, new, name) for name in ("hits", "misses", "disk_reads"))
    flash = Source(_per(hits, seconds), _mean(moved(old, new, "read_time_us"), hits))
    slots = new.get("slots")
    if slots:
        page_cache, disk = _other_sources(before, after, old, new, reads, seconds)
    else:
        page_cache, disk = Source(None), _server_reads(before, after, seconds)
    transactions = after.transactions - before.transactions
    return Rates(
        at=after.at, interval_s=seconds, role=after.role, cluster=after.cluster, database=after.database,
        state=new.get("state"), reason=new.get("reason"), verdict=new.get("verdict"),
        tps=transactions / seconds if transactions >= 0 else None,
        flash=flash, page_cache=page_cache, disk=disk,
        hit_ratio=hits / (hits + misses) if hits is not None and misses is not None and hits + misses else None,
        fill=new["used"] / slots if slots else None, capacity_bytes=slots * PAGE if slots is not None else None,
        write_bytes_per_s=_per(moved(old, new, "write_bytes"), seconds), write_limit_bytes_per_s=after.write_limit,
        relations=_relations(before, after), statements=_statements(before, after), missing=after.missing,
        devices_off=after.devices_off,
    )  # fmt: skip


def _server_reads(before: Sample, after: Sample, seconds: float) -> Source:
    """Without a cache; the page cache's answers are among them."""
    reads, time_us = (moved(before.server_reads, after.server_reads, name) for name in ("disk_reads", "disk_read_time_us"))
    return Source(_per(reads, seconds), _mean(time_us, reads))


def _other_sources(
    before: Sample, after: Sample, old: dict[str, Any], new: dict[str, Any], reads: int | None, seconds: float
) -> tuple[Source, Source]:
    """Page cache and disk. Pages are those that the counters have: the histograms have requests, which may be for several pages, and on 18
    and later only some of them. They tell how long a request of each kind takes, which the totals do not."""
    kept = moved(old, new, "os_cache_hits")
    rest = _rest(reads, kept)
    counted = _histogram(before, after)
    if counted is None:
        mean = _mean(moved(old, new, "disk_read_time_us"), reads) if after.timed else None
        return Source(_per(kept, seconds)), Source(_per(rest, seconds), mean)
    means = {name: _estimate(counted.get(name, [])) for name in ("page_cache", "disk")}
    return Source(_per(kept, seconds), means["page_cache"], True), Source(_per(rest, seconds), means["disk"], True)


def _rest(all_of_them: int | None, some: int | None) -> int | None:
    return None if all_of_them is None or some is None else max(0, all_of_them - some)


def _estimate(buckets: list[tuple[float, int]]) -> float | None:
    """The mean time of those in it."""
    total = sum(count for _, count in buckets)
    return sum(middle * count for middle, count in buckets) / total if total else None


def _histogram(before: Sample, after: Sample) -> dict[str, list[tuple[float, int]]] | None:
    """For each source, the middle of each bucket in seconds and how much it grew; None without the view, or after a reset."""
    if before.latency is None or after.latency is None:
        return None
    old = {(row["operation"], row["bucket"]): row["count"] for row in before.latency}
    found: dict[str, list[tuple[float, int]]] = {}
    for row in after.latency:
        grown = row["count"] - old.get((row["operation"], row["bucket"]), 0)
        if grown < 0:
            return None
        if grown and row["operation"] in OPERATIONS:
            middle = middle_us(row["from_us"], row["to_us"])
            found.setdefault(OPERATIONS[row["operation"]], []).append((middle / 1e6, grown))
    return found


def _pairs(
    before: list[dict[str, Any]], after: list[dict[str, Any]], key: tuple[str, ...], counters: tuple[str, ...]
) -> list[tuple[dict[str, Any], dict[str, int]]]:
    """Rows by how much they moved. A row that was not there, or was reset, counts from 0."""
    old = {tuple(row.get(name) for name in key): row for row in before}
    found = []
    for row in after:
        was = old.get(tuple(row.get(name) for name in key), {})
        if any(int(row[name] or 0) < int(was.get(name) or 0) for name in counters):
            was = {}
        change = {name: int(row[name] or 0) - int(was.get(name) or 0) for name in counters}
        if any(change.values()):
            found.append((row, change))
    return found


def _relations(before: Sample, after: Sample) -> list[Relation] | None:
    """The row of everything else is no counter: it takes over what dropped and rewritten relations had, and gives up what a transaction
    did when that ends. What moved there is what the sum of all moved, less what the others did; these are known by their files."""
    if before.relations is None or after.relations is None:
        return None
    old = before.relations if (before.stat or {}).get("stats_reset") == (after.stat or {}).get("stats_reset") else []
    counters = ("hits", "disk_reads", "os_cache_hits", "writes", "read_time_us", "disk_read_time_us")
    found = _pairs([row for row in old if row["relid"] is not None], [row for row in after.relations if row["relid"] is not None],
                   ("relid", "file"), counters)  # fmt: skip
    rest = {name: max(0, _total(after.relations, name) - _total(old, name) - sum(change[name] for _, change in found)) for name in counters}
    if any(rest.values()):
        found.append(({"relid": None, "schema": None, "relation": None}, rest))
    return [
        Relation(
            row["schema"] or "", row["relation"] or (ELSE if row["relid"] is None else str(row["relid"])),
            change["hits"], change["disk_reads"], change["os_cache_hits"], change["writes"], change["read_time_us"] / 1e6,
            change["disk_read_time_us"] / 1e6, bool(row.get("shared")),
        )
        for row, change in found
    ]  # fmt: skip


def _total(rows: list[dict[str, Any]], name: str) -> int:
    return sum(int(row[name] or 0) for row in rows)


def _statements(before: Sample, after: Sample) -> list[Statement] | None:
    if before.statements is None or after.statements is None:
        return None
    counters = ("calls", "hits", "disk_reads", "read_time_us", "disk_read_time_us")
    return [
        Statement(
            row["queryid"], row["query"] or "", change["calls"], change["hits"], change["disk_reads"], change["read_time_us"] / 1e6,
            change["disk_read_time_us"] / 1e6,
        )
        for row, change in _pairs(before.statements, after.statements, ("userid", "dbid", "queryid", "toplevel"), counters)
    ]  # fmt: skip


def ordered(rows: list[Any], orders: tuple[str, ...], by: str) -> list[Any]:
    """By this, then by the others of its orders, so that the order says something where times are not known."""
    names = [by, *(name for name in orders if name != by)]
    return sorted(rows, key=lambda row: tuple(-getattr(row, name) for name in names))
