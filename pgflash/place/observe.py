"""What a running server says of its objects: sizes, reads, their time, writes. Read only; pg_monitor is enough.

An object that can be moved as a whole is a unit: a table (or materialized view) with its TOAST, or an index. Counters are differences
over a window, or those since the statistics were reset.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pgflash import latency
from pgflash.errors import MachineError
from pgflash.pilot import db
from pgflash.place.temporary import names

TEMPORARY = "temporary files"
PHYSICAL = "writes are pages that were written and added, as pg_stat_flashcache_relation counts them"
ESTIMATED = "writes are estimated from changes of rows: which pages were written is not known"
ENOUGH = latency.ENOUGH
# Of times that are no setting's: what has measured them.
SOURCES = {
    "object": "by object (pg_stat_flashcache_relation)", "tablespace": "by tablespace (pg_stat_flashcache_relation)",
    "objects": "of all objects (pg_stat_flashcache_relation)", "server": "of the whole server (pg_stat_flashcache)",
    "advice": "by pg_flashcache_advice",
}  # fmt: skip

# Units, of this database. pg_stat_* count what was not yet seen by the reader as of its own transaction, which autocommit ends.
_OBJECTS = """
SELECT c.oid::bigint, n.nspname, c.relname, c.relkind::text, pg_relation_filenode(c.oid)::bigint,
       coalesce(i.indrelid, 0)::bigint, coalesce(ts.spcname, ''), coalesce(inh.inhparent::regclass::text, ''),
       CASE WHEN c.relkind = 'i' THEN pg_relation_size(c.oid) ELSE pg_table_size(c.oid) END AS bytes,
       coalesce(CASE WHEN c.relkind = 'i' THEN si.idx_blks_read ELSE st.heap_blks_read END, 0) AS reads,
       coalesce(st.toast_blks_read, 0) + coalesce(st.tidx_blks_read, 0) AS toast_reads,
       coalesce(s.n_tup_ins, 0), coalesce(s.n_tup_upd, 0), coalesce(s.n_tup_hot_upd, 0), coalesce(s.n_tup_del, 0),
       greatest(c.reltuples, 0)::float8, coalesce(c.reltoastrelid, 0)::bigint,
       CASE WHEN c.relkind <> 'i' AND pg_relation_size(c.oid) > pg_size_bytes(current_setting('shared_buffers')) / 4
            THEN coalesce(s.seq_tup_read, 0) / nullif(greatest(c.reltuples, 0), 0) * pg_relation_size(c.oid) / 8192 ELSE 0 END
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_index i ON i.indexrelid = c.oid
  LEFT JOIN pg_inherits inh ON inh.inhrelid = c.oid AND c.relispartition
  LEFT JOIN pg_tablespace ts ON ts.oid = coalesce(nullif(c.reltablespace, 0),
                                                 (SELECT dattablespace FROM pg_database WHERE datname = current_database()))
  LEFT JOIN pg_statio_all_tables st ON st.relid = c.oid
  LEFT JOIN pg_statio_all_indexes si ON si.indexrelid = c.oid
  LEFT JOIN pg_stat_all_tables s ON s.relid = coalesce(i.indrelid, c.oid)
 WHERE c.relkind IN ('r', 'm', 'i') AND c.relpersistence <> 't' AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
   AND n.nspname <> 'pgflash' AND (c.relkind <> 'i' OR i.indisvalid)
   AND NOT EXISTS (SELECT FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
                    WHERE d.classid = 'pg_class'::regclass AND d.objid IN (c.oid, i.indrelid)
                      AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND e.extname = 'pg_flashcache')
 ORDER BY 1
"""


@dataclass(frozen=True)
class Counters:
    """Of a unit, at a moment."""

    bytes: int
    reads: int
    toast_reads: int
    touched: float  # pages that its changes can have made dirty
    scanned: float = 0.0  # pages that sequential scans of a large table have gone through, in or out of shared_buffers
    disk_reads: int | None = None  # by pg_stat_flashcache_relation, with their time
    disk_us: int | None = None
    written: int | None = None  # by the same view: pages written, and added


@dataclass(frozen=True)
class Unit:
    oid: int
    schema: str
    name: str
    kind: str  # table, index, materialized view, temporary
    filenode: int
    table: int  # of an index: its table
    tablespace: str
    parent: str
    now: Counters
    spaces: tuple[str, ...] = ()  # of temporary files: the tablespaces that take turns

    def on(self, fast: frozenset[str]) -> bool:
        """Is all of it in one of these tablespaces?"""
        return set(self.spaces or (self.tablespace,)) <= fast

    @property
    def key(self) -> str:
        return TEMPORARY if self.kind == "temporary" else f"{self.kind} {self.schema}.{self.name}"


@dataclass
class Snapshot:
    at: float
    units: dict[int, Unit]
    seconds_since_reset: float
    database: dict[str, float]
    written: float  # buffers that the server wrote, of all databases
    flash_us: float | None  # mean of a read of flash since the reset
    server: tuple[float, float] = (0.0, 0.0)  # reads from disk of all databases that the cache has timed, and their time in us
    reads_timed: bool = True  # by PostgreSQL: track_io_timing is on
    advice_us: float | None = None  # mean of a read from disk, as pg_flashcache_advice has measured it
    missing: list[str] = field(default_factory=list)
    moved: bool = False  # its counters begin at a moment that is the same for all of them


@dataclass(frozen=True)
class Rates:
    """Of a unit: pages a second; ms of one page; bytes a day."""

    unit: Unit
    reads: float
    toast_reads: float
    scans: float  # of the reads, those of large sequential scans, at most: they go past the cache
    writes: float
    disk_ms: float
    latency_from: str
    growth: float | None


@dataclass
class Observation:
    seconds: float
    window: bool
    rates: list[Rates]
    transactions: float
    flash_ms: float
    flash_from: str
    notes: list[str]


def _touched(row: tuple[Any, ...], kind: str) -> float:
    inserted, updated, hot, deleted = (float(number) for number in row[11:15])
    if kind == "index":
        return inserted + updated - hot
    a_page = max(1.0, row[15] / max(1.0, row[8] / 8192)) if row[15] else 1.0
    return inserted / a_page + updated + deleted


def snapshot(connection: db.Connection, temp_bytes: int | None = None) -> Snapshot:
    missing: list[str] = []
    timed = db.value(connection, "SELECT coalesce(current_setting('io_method', true), 'sync')") == "sync"
    seen: dict[int, tuple[int, int, int]] = {}
    view = db.cache_view(connection, "pg_stat_flashcache_relation")
    if view:
        seen = {
            int(oid): (int(reads) if timed else 0, int(us) if timed else 0, int(written))
            for oid, reads, us, written in db.rows(
                connection,
                f"SELECT relid::bigint, disk_reads, disk_read_time_us, disk_writes + disk_extends FROM {view} WHERE relid IS NOT NULL",
            )
        }
    else:
        missing.append("pg_stat_flashcache_relation is not in this database: times of reads are means of the database, not of each object")
    units: dict[int, Unit] = {}
    kinds = {"r": "table", "i": "index", "m": "materialized view"}
    for row in db.rows(connection, _OBJECTS):
        oid, kind = int(row[0]), kinds[row[3]]
        mine = [seen[other] for other in (oid, int(row[16])) if other in seen]
        units[oid] = Unit(
            oid, row[1], row[2], kind, int(row[4] or 0), int(row[5]), row[6], row[7],
            Counters(
                int(row[8] or 0), int(row[9]), int(row[10]), _touched(row, kind), float(row[17] or 0),
                *([sum(column) for column in zip(*mine, strict=True)] if mine else (None, None, None)),
            ),
        )  # fmt: skip
    counters = ("xact_commit", "blks_read", "blk_read_time", "temp_bytes", "temp_files")
    found = db.rows(
        connection,
        f"SELECT extract(epoch FROM now() - coalesce(stats_reset, pg_postmaster_start_time())), {', '.join(counters)}"
        " FROM pg_stat_database WHERE datname = current_database()",
    )[0]
    database = {name: float(number or 0) for name, number in zip(counters, found[1:], strict=True)}
    units[0] = temporary(connection, database, temp_bytes)
    return Snapshot(
        time.monotonic(), units, float(found[0]), database, _written(connection), _flash_us(connection), _timed_reads(connection, timed),
        db.value(connection, "SHOW track_io_timing") == "on", _advice_us(connection), missing,
    )  # fmt: skip


def temporary(connection: db.Connection, database: dict[str, float], temp_bytes: int | None) -> Unit:
    """Their size is what is there now, or ten files of the mean size, unless it is given."""
    if temp_bytes is None:
        there = int(
            db.value(connection, "SELECT coalesce(sum(size), 0) FROM pg_tablespace t, pg_ls_tmpdir(t.oid) WHERE spcname <> 'pg_global'")
        )
        mean = database["temp_bytes"] / database["temp_files"] if database["temp_files"] else 0.0
        temp_bytes = max(there, round(10 * mean))
    pages = int(database["temp_bytes"] / 8192)
    default = str(
        db.value(
            connection,
            "SELECT spcname FROM pg_tablespace t JOIN pg_database d ON d.dattablespace = t.oid WHERE datname = current_database()",
        )
    )
    # Without a list, and for an empty name in it, they are in the tablespace of the database.
    spaces = tuple(dict.fromkeys(name or default for name in names(str(db.value(connection, "SHOW temp_tablespaces"))))) or (default,)
    return Unit(0, "", TEMPORARY, "temporary", 0, 0, ", ".join(spaces), "", Counters(temp_bytes, pages, 0, pages), spaces)


def _written(connection: db.Connection) -> float:
    if int(db.value(connection, "SHOW server_version_num")) >= 160000:
        return float(db.value(connection, "SELECT coalesce(sum(writes), 0) FROM pg_stat_io WHERE object = 'relation'"))
    return float(db.value(connection, "SELECT buffers_checkpoint + buffers_clean + buffers_backend FROM pg_stat_bgwriter"))


def _flash_us(connection: db.Connection) -> float | None:
    row = db.cache_row(connection)
    hits = float(row.get("hits") or 0)
    return float(row["read_time_us"]) / hits if hits >= ENOUGH and row.get("read_time_us") is not None else None


def _timed_reads(connection: db.Connection, timed: bool) -> tuple[float, float]:
    """Of the whole server: by the totals where each read is timed, else by the histograms, which have those that are."""
    if timed:
        row = db.cache_row(connection)
        return float(row.get("disk_reads") or 0), float(row.get("disk_read_time_us") or 0)
    view = db.cache_view(connection, "pg_stat_flashcache_latency")
    if not view:
        return 0.0, 0.0
    found = db.rows(
        connection,
        f"SELECT from_us, to_us, sum(count)::float8 FROM {view} WHERE operation = ANY (%s) GROUP BY 1, 2", list(latency.READS),
    )  # fmt: skip
    return latency.totals((float(start), None if end is None else float(end), count) for start, end, count in found)


def _advice_us(connection: db.Connection) -> float | None:
    """It also measures without a cache."""
    view = db.cache_view(connection, "pg_flashcache_advice")
    found = db.value(connection, f"SELECT max(disk_read_time_us) FROM {view}") if view else None
    return float(found) if found else None


def observe(
    connection: db.Connection,
    window: float,
    *,
    disk_ms: float | None = None,
    flash_ms: float | None = None,
    temp_bytes: int | None = None,
    wait: Callable[[float], None] = time.sleep,
) -> Observation:
    """Over `window` seconds from now on; 0: since the statistics were reset."""
    may_look(connection)
    db.bounded(connection, 5000)  # sizes are not told while an object is locked
    first = snapshot(connection, temp_bytes)
    if window > 0:
        wait(window)
        last = snapshot(connection, temp_bytes)
        return compare(first, last, last.at - first.at, disk_ms, flash_ms)
    return compare(None, first, first.seconds_since_reset, disk_ms, flash_ms)


def may_look(connection: db.Connection) -> None:
    if not db.value(
        connection, "SELECT pg_has_role(current_user, 'pg_monitor', 'USAGE') OR rolsuper FROM pg_roles WHERE rolname = current_user"
    ):
        raise MachineError(
            f"{connection.info.user} may not see the statistics of this server", f"GRANT pg_monitor TO {connection.info.user}"
        )


def compare(first: Snapshot | None, last: Snapshot, seconds: float, disk_ms: float | None, flash_ms: float | None) -> Observation:
    seconds = max(seconds, 1e-3)
    notes = list(last.missing)

    def moved(then: float | None, now: float) -> float:
        """From zero where it was reset meanwhile."""
        return now - then if then is not None and now >= then else now

    before = first.database if first else {}
    database = {name: moved(before.get(name), number) for name, number in last.database.items()}
    deltas: list[tuple[Unit, dict[str, float]]] = []
    for oid, unit in last.units.items():
        old = first.units.get(oid) if first else None
        if first and old is None:
            notes.append(f"{unit.key} was created meanwhile, and is counted from its beginning")
        elif first and old and old.filenode != unit.filenode:
            notes.append(f"{unit.key} was rebuilt meanwhile")
        then = old.now if old else None
        deltas.append((unit, {
            name: moved(getattr(then, name) if then else None, getattr(unit.now, name) or 0)
            for name in ("reads", "toast_reads", "touched", "scanned")
        } | {
            name: moved((getattr(then, name) or 0) if then else None, getattr(unit.now, name) or 0) for name in ("disk_reads", "disk_us")
        } | {
            "written": moved((then.written or 0) if then and old and old.filenode == unit.filenode else None, unit.now.written or 0)
        }))  # fmt: skip
    if first:
        notes += [f"{unit.key} was dropped meanwhile" for oid, unit in first.units.items() if oid not in last.units]
    server = tuple(moved(then, now) for then, now in zip(first.server if first else (None, None), last.server, strict=True))
    general, source = _general_ms(database, deltas, (server[0], server[1]), last.advice_us, disk_ms)
    spaces = _by_tablespace(deltas)
    touched = sum(delta["touched"] for unit, delta in deltas if unit.kind != "temporary")
    written = moved(first.written if first else None, last.written)
    # A page that changed often is written once by a checkpoint: the changes are at most as many as the server wrote.
    scale = min(1.0, written / touched) if touched else 0.0
    # The view counts since the server's start, or its own reset: it says nothing of the time since that of the other statistics.
    physical = (first is not None or last.moved) and any(unit.now.written is not None for unit in last.units.values())
    if physical or touched:
        notes.insert(0, PHYSICAL if physical else ESTIMATED)
    rates: list[Rates] = []
    for unit, delta in deltas:
        ms, where = _unit_ms(unit, delta, spaces, general, source)
        old = first.units.get(unit.oid) if first else None
        writes = delta["touched"] if unit.kind == "temporary" else delta["written"] if physical else delta["touched"] * scale
        rates.append(
            Rates(
                unit, (delta["reads"] + delta["toast_reads"]) / seconds, delta["toast_reads"] / seconds,
                min(delta["reads"], delta["scanned"]) / seconds, writes / seconds, ms, where,
                (unit.now.bytes - old.now.bytes) * 86400 / seconds if old else None,
            )
        )  # fmt: skip
    known = list(
        dict.fromkeys(SOURCES[rate.latency_from] for rate in rates if rate.latency_from in SOURCES and rate.reads + rate.writes > 0)
    )
    if not last.reads_timed and known:
        notes.append(f"track_io_timing is off; times of reads are what the cache has measured itself: {', '.join(known)}")
    guessed = [rate.unit.key for rate in rates if rate.latency_from == "assumed" and rate.reads + rate.writes > 0]
    if guessed:
        whose = "" if len(guessed) == sum(rate.reads + rate.writes > 0 for rate in rates) else f" for {len(guessed)} of the objects"
        why = "" if last.reads_timed else ", and track_io_timing is off"
        notes.append(f"no time of a read was measured{whose}{why}: {general:g} ms are assumed (--disk-ms gives another)")
    flash, flash_from = (
        (flash_ms, "given") if flash_ms is not None else (last.flash_us / 1000, "measured") if last.flash_us else (0.1, "assumed")
    )
    return Observation(seconds, first is not None, rates, database["xact_commit"] / seconds, flash, flash_from, notes)


def _general_ms(
    database: dict[str, float],
    deltas: list[tuple[Unit, dict[str, float]]],
    server: tuple[float, float],
    advice_us: float | None,
    given: float | None,
) -> tuple[float, str]:
    """Of whatever has no time of its own: what is known of any reads, before something is assumed."""
    if given is not None:
        return given, "given"
    if database["blks_read"] >= ENOUGH and database["blk_read_time"] > 0:
        return database["blk_read_time"] / database["blks_read"], "database"
    reads, us = (sum(delta[name] for _, delta in deltas) for name in ("disk_reads", "disk_us"))
    if reads >= ENOUGH and us > 0:
        return us / reads / 1000, "objects"
    if (mean := latency.mean_ms(*server)) is not None:
        return mean, "server"
    if advice_us:
        return advice_us / 1000, "advice"
    return 5.0, "assumed"


def _by_tablespace(deltas: list[tuple[Unit, dict[str, float]]]) -> dict[str, float]:
    sums: dict[str, tuple[float, float]] = {}
    for unit, delta in deltas:
        reads, us = sums.get(unit.tablespace, (0.0, 0.0))
        sums[unit.tablespace] = (reads + delta["disk_reads"], us + delta["disk_us"])
    return {name: us / reads / 1000 for name, (reads, us) in sums.items() if reads >= ENOUGH}


def _unit_ms(unit: Unit, delta: dict[str, float], spaces: dict[str, float], general: float, source: str) -> tuple[float, str]:
    """Its own where enough of its reads were timed, else its tablespace's, else the database's."""
    if source == "given":
        return general, source
    if unit.kind != "temporary" and delta["disk_reads"] >= ENOUGH:
        return delta["disk_us"] / delta["disk_reads"] / 1000, "object"
    known = [spaces[name] for name in unit.spaces or (unit.tablespace,) if name in spaces]
    if known:
        return sum(known) / len(known), "tablespace"
    return general, source
