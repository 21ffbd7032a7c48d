"""What a report says of an interval, as numbers: for programs as they are, for people by report.py."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from pgflash.snapshots.interval import Interval, Row, Taker
from pgflash.snapshots.waits import ALL_OF_IT, DatabaseTime, database_time

TOP = 20
EVERYTHING_ELSE = "-"  # its key, in flash_relations
PERCENTILES = (50, 95, 99)
ASYNCHRONOUS = 180000  # from this version on only some reads from disk are timed


@dataclass
class Cache:
    """Of the whole server. Rates and times of the interval, state at its end."""

    state: str
    reason: str
    hits: float
    misses: float
    disk_reads: float
    os_cache_hits: float
    hit_ratio: float | None  # hits / (hits + misses)
    flash_read_ms: float | None
    disk_read_ms: float | None
    inserts: float
    write_bytes: float
    write_amplification: float | None  # bytes written to flash for each byte of pages
    evictions: float
    invalidations: float
    errors: float
    filled: float | None
    flash_bytes: float
    verdict: str = ""  # the view's own, of the last ten minutes

    @property
    def slower(self) -> bool:
        """A page from flash took longer than one from the disk, or from the kernel's page cache in its place."""
        return self.flash_read_ms is not None and self.disk_read_ms is not None and self.flash_read_ms > self.disk_read_ms


@dataclass
class Latency:
    operation: str
    count: float
    percentiles_us: dict[str, float]


@dataclass
class Facts:
    """Everything of one interval. None, or an empty list: not known; Interval.problem() says why."""

    first: int
    last: int
    since: str
    until: str
    seconds: float
    database: str
    version: int
    transactions: float
    calls: float | None
    rates: dict[str, float]  # counts of the interval by name, for the load profile
    time: DatabaseTime | None
    cache: Cache | None
    latency: list[Latency]
    advice: list[Row]  # at the end: what is estimated of other sizes
    tablespaces: list[Row]
    reads: list[Row]
    changes: list[Row]
    unoptimized: list[Row]
    writes: list[Row]
    pages_written: float  # of the relations of the database and shared ones, those of `writes` and those that are not listed
    disk_reads: float  # likewise, pages read from disk
    others_written: bool  # pages of what has no counters of its own were written
    statements: list[Row]
    statements_lack: str  # their texts, and why; empty: nothing
    flash_statements: list[Row]
    flash_statements_why: str  # there are none, if that is because of the settings
    io: list[Row]
    reads_timed: bool  # by track_io_timing, at the end
    cpu_busy: float | None  # share of a local server's processors
    kcache_cpu_s: float | None
    restarted: bool
    servers: list[Taker]  # that took the snapshots
    standby: bool  # the report was asked of a standby: what is in it is others'
    resets: list[str]
    missing: dict[str, str]
    cut: list[str]  # sections of which the snapshots have only the first rows, and the sum of the rest
    notes: list[str] = field(default_factory=list)

    @property
    def time_per_transaction_ms(self) -> float | None:
        return 1000 * self.time.seconds / self.transactions if self.time and self.transactions else None

    def as_json(self) -> dict[str, Any]:
        values = asdict(self)
        values["user_io_share"] = self.time.user_io if self.time else None
        values["classes"] = self.time.by_group() if self.time else {}
        return values


SECTIONS = {
    "cache": "counters of the cache",
    "flash_relations": "reads from flash and disk, and writes to disk, by relation",
    "flash_statements": "reads from flash and disk by statement",
    "flash_latency": "latency histograms",
    "advice": "estimates of other sizes",
    "database": "pg_stat_database",
    "wal": "pg_stat_wal",
    "io": "pg_stat_io",
    "relations": "relations",
    "statements": "pg_stat_statements",
    "kcache": "pg_stat_kcache",
    "wait_sampling": "pg_wait_sampling",
    "sampled_waits": "waits sampled by pgflash",
    "host": "processors of the server",
}


def _why_no_statements(interval: Interval) -> str:
    """By the settings at the end. Empty: they are counted, or would be if there were any."""
    if interval.rows("flash_statements") or not (settings := interval.steps[-1].sections.get("settings")):
        return ""
    (row,) = settings.values()
    track, identifiers = row.label("pg_flashcache.track_statements"), row.label("compute_query_id")
    if track == "off":
        return "Statements were not counted: pg_flashcache.track_statements is off."
    if identifiers == "off" or (track == "auto" and identifiers != "on"):
        return (
            f"Statements were not counted: they had no query identifiers (compute_query_id is {identifiers})."
            " Set compute_query_id = on and reload; or, with auto, set pg_flashcache.track_statements = on and restart."
        )
    return ""


def facts(interval: Interval, top: int | None = TOP) -> Facts:
    """Of relations and statements so many, of each kind; None: all that the snapshots have."""
    databases = interval.rows("database")
    relations = [row for row in interval.rows("relations") if "rest" not in row.labels]
    statements = [row for row in interval.rows("statements") if "rest" not in row.labels]
    flash = [row for row in _flash_relations(interval) if "rest" not in row.labels]
    host, kcache = interval.one("host"), interval.rows("kcache")
    busy, idle = (host.get("cpu_busy_s"), host.get("cpu_idle_s")) if host else (0.0, 0.0)
    all_statements = interval.rows("statements")
    time = database_time(interval)
    missing = {name: problem for name in SECTIONS if (problem := interval.problem(name))}
    if time is not None and time.source == "sampled" and time.covered >= ALL_OF_IT:  # over snapshots of others, too
        missing.pop("sampled_waits", None)
    return Facts(
        first=interval.first.id,
        last=interval.last.id,
        since=f"{interval.first.taken_at:%Y-%m-%d %H:%M:%S %Z}",
        until=f"{interval.last.taken_at:%Y-%m-%d %H:%M:%S %Z}",
        seconds=interval.seconds,
        database=interval.database,
        version=interval.steps[-1].version,
        transactions=_sum(databases, "xact_commit") + _sum(databases, "xact_rollback"),
        calls=_sum(all_statements, "calls") if all_statements else None,
        rates=_rates(interval, databases),
        time=time,
        cache=_cache(interval.one("cache"), timed=interval.steps[-1].version < ASYNCHRONOUS),
        latency=_latency(interval.rows("flash_latency")),
        advice=sorted(interval.steps[-1].sections.get("advice", {}).values(), key=lambda row: (row.label("kind"), float(row.labels["size"]))),
        tablespaces=_tablespaces(interval.rows("relations")),
        reads=_top(relations, top, "blks_read"),
        changes=_top(relations, top, "tup_changed"),
        unoptimized=_top(flash, top, "disk_reads"),
        writes=sorted((row for row in flash if blocks_written(row) > 0), key=lambda row: (-blocks_written(row), row.key))[:top],
        pages_written=sum(blocks_written(row) for row in _flash_relations(interval)),
        disk_reads=_sum(_flash_relations(interval), "disk_reads"),
        others_written=any(blocks_written(row) > 0 for row in interval.rows("flash_relations") if row.key == EVERYTHING_ELSE),
        statements=_top(statements, top, "total_exec_time"),
        statements_lack=interval.lacking("statements"),
        flash_statements=_top([row for row in interval.rows("flash_statements") if "rest" not in row.labels], top, "disk_read_time_us", "disk_reads"),
        flash_statements_why=_why_no_statements(interval),
        io=sorted(interval.rows("io"), key=lambda row: -(row.get("reads") + row.get("writes")))[:TOP],
        reads_timed=(settings := interval.one("settings")) is not None and settings.label("track_io_timing") == "on",
        cpu_busy=busy / (busy + idle) if busy + idle > 0 else None,
        kcache_cpu_s=_sum(kcache, "exec_user_time") + _sum(kcache, "exec_system_time") if kcache else None,
        restarted=interval.restarted,
        servers=interval.takers,
        standby=interval.standby,
        resets=interval.resets,
        missing=missing,
        cut=[name for name in SECTIONS if any("rest" in row.labels for row in interval.rows(name))],
        notes=interval.notes,
    )  # fmt: skip


def _flash_relations(interval: Interval) -> list[Row]:
    """Without the row of everything else: it is no counter. It takes over all that dropped and rewritten relations ever had, and gives
    up what a transaction did when that commits, so what it moved by is not what happened."""
    return [row for row in interval.rows("flash_relations") if row.key != EVERYTHING_ELSE]


def blocks_written(row: Row) -> float:
    """Pages of data files: written again, or added."""
    return row.get("disk_writes") + row.get("disk_extends")


def _sum(rows: list[Row], name: str) -> float:
    return sum(row.get(name) for row in rows)


def _top(rows: list[Row], top: int | None, *names: str) -> list[Row]:
    """By the first counter; where that is equal, by the next."""
    moved = (row for row in rows if any(row.get(name) > 0 for name in names))
    return sorted(moved, key=lambda row: [-row.get(name) for name in names])[:top]


def _rates(interval: Interval, databases: list[Row]) -> dict[str, float]:
    found = {
        "rows returned or fetched": _sum(databases, "tup_returned"),
        "rows inserted, updated or deleted": sum(_sum(databases, name) for name in ("tup_inserted", "tup_updated", "tup_deleted")),
        "pages found in shared_buffers": _sum(databases, "blks_hit"),
        "pages read into shared_buffers": _sum(databases, "blks_read"),
        "bytes of temporary files": _sum(databases, "temp_bytes"),
        "deadlocks": _sum(databases, "deadlocks"),
    }
    if wal := interval.one("wal"):
        found["bytes of WAL"] = wal.get("wal_bytes")
        found["full-page images"] = wal.get("wal_fpi")
    if (cache := interval.one("cache")) and float(cache.labels.get("slots") or 0):
        found["pages read from flash"] = cache.get("hits")
        found["pages read from disk"] = cache.get("disk_reads")
        found["bytes written to flash"] = cache.get("write_bytes")
    written = sum(row.get("buffers_clean") + row.get("buffers_checkpoint") for row in interval.rows("bgwriter"))
    written += _sum(interval.rows("checkpointer"), "buffers_written")
    if written:
        found["pages written by background writer and checkpoints"] = written
    return {name: value for name, value in found.items() if value}


def _cache(row: Row | None, *, timed: bool) -> Cache | None:
    if row is None:
        return None
    hits, misses, inserts = row.get("hits"), row.get("misses"), row.get("inserts")
    slots = float(row.labels.get("slots") or 0)
    return Cache(
        state=row.label("state"), reason=row.label("reason"), hits=hits, misses=misses, disk_reads=row.get("disk_reads"),
        os_cache_hits=row.get("os_cache_hits"), hit_ratio=_ratio(hits, hits + misses),
        flash_read_ms=_ratio(row.get("read_time_us") / 1000, hits), disk_read_ms=_ratio(row.get("disk_read_time_us") / 1000, row.get("disk_reads")) if timed else None,
        inserts=inserts, write_bytes=row.get("write_bytes"), write_amplification=_ratio(row.get("write_bytes"), inserts * 8192),
        evictions=row.get("eviction_aged_out"), invalidations=row.get("eviction_invalidated"),
        errors=sum(row.get(name) for name in ("read_errors", "write_errors", "checksum_failures")),
        filled=_ratio(float(row.labels.get("used") or 0), slots), flash_bytes=slots * 8192, verdict=row.label("verdict"),
    )  # fmt: skip


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def _tablespaces(rows: list[Row]) -> list[Row]:
    total: dict[str, Row] = {}
    for row in rows:
        name = row.label("tablespace")
        there = total.setdefault(name, Row(name, {"tablespace": name}, {}))
        for counter, value in row.moved.items():
            there.moved[counter] = there.moved.get(counter, 0.0) + value
    return sorted(total.values(), key=lambda row: -row.get("blks_read"))


def _latency(rows: list[Row]) -> list[Latency]:
    by_operation: dict[str, list[tuple[float, float | None, float]]] = {}
    for row in rows:
        limit = row.labels.get("to_us")
        bucket = (float(row.labels.get("from_us") or 0), None if limit is None else float(limit), row.get("count"))
        by_operation.setdefault(row.label("operation"), []).append(bucket)
    found = []
    for operation, buckets in sorted(by_operation.items()):
        count = sum(number for _, _, number in buckets)
        if count > 0:
            found.append(Latency(operation, count, {f"p{share}": percentile(buckets, share / 100) for share in PERCENTILES}))
    return found


def percentile(buckets: list[tuple[float, float | None, float]], share: float) -> float:
    """Within its bucket as if values were spread evenly there; of the last bucket, which has no limit, where it begins."""
    merged: dict[float, tuple[float | None, float]] = {}
    for start, end, count in buckets:
        merged[start] = (end, merged.get(start, (end, 0.0))[1] + count)
    wanted = share * sum(count for _, count in merged.values())
    passed = 0.0
    for start, (end, count) in sorted(merged.items()):
        if count and passed + count >= wanted:
            return start if end is None else start + (end - start) * (wanted - passed) / count
        passed += count
    return 0.0
