"""An observation from stored snapshots of `pgflash snapshot`: what moved between two of them, of the objects that there are now."""

from __future__ import annotations

from dataclasses import replace

from pgflash import latency
from pgflash.errors import ArgumentError
from pgflash.pilot import db
from pgflash.place import observe
from pgflash.place.observe import Counters, Observation, Snapshot, Unit
from pgflash.snapshots.interval import Interval, Row, load
from pgflash.snapshots.moments import between
from pgflash.snapshots.report import asked, elsewhere
from pgflash.snapshots.server import schema_of
from pgflash.units import counted, show_number

# By table: its TOAST table, the index of that, and how many rows are in a page.
_TABLES = """
SELECT c.oid::bigint, c.reltoastrelid::bigint, coalesce(i.indexrelid, 0)::bigint,
       CASE WHEN c.reltuples > 0 AND c.relpages > 0 THEN greatest(1, c.reltuples / c.relpages) ELSE 1 END::float8
  FROM pg_class c LEFT JOIN pg_index i ON i.indrelid = c.reltoastrelid AND c.reltoastrelid <> 0 WHERE c.relkind IN ('r', 'm')
"""
NONE = Row("", {}, {})


def observe_stored(
    connection: db.Connection,
    start: str,
    end: str,
    *,
    disk_ms: float | None = None,
    flash_ms: float | None = None,
    temp_bytes: int | None = None,
) -> Observation:
    """Between two snapshots, as `pgflash report` takes them: by number, or by time."""
    observe.may_look(connection)
    db.bounded(connection, 5000)
    schema = schema_of(connection, take=False)
    interval = load(connection, schema, *between(connection, schema, start, end))
    _usable(connection, interval)
    now = observe.snapshot(connection, temp_bytes)
    notes = [*([elsewhere(interval.takers)] if interval.standby else []), *asked(interval), *_notes(interval, now)]
    found = observe.compare(None, _moved(connection, interval, now, temp_bytes), interval.seconds, disk_ms, flash_ms)
    return replace(found, window=True, notes=[*notes, *found.notes])


def _usable(connection: db.Connection, interval: Interval) -> None:
    database = str(db.value(connection, "SELECT current_database()"))
    which = f"{interval.first.id} to {interval.last.id}"
    hint = "take others: pgflash report --list shows what there is"
    if interval.database != database:
        raise ArgumentError(f"the snapshots {which} are of the database {interval.database}, not of {database}", hint)
    for section in ("relations", "database"):
        if section not in interval.sections:
            why = interval.problem(section)
            raise ArgumentError(f"the snapshots {which} do not have what was read of {section}: {why}", hint)


def _notes(interval: Interval, now: Snapshot) -> list[str]:
    notes = [
        f"the snapshots {interval.first.id} to {interval.last.id} do not know: sequential scans, HOT updates, growth; sizes are those of now"
    ]
    notes += [
        f"in the snapshots, {name}: {why}" for name in ("relations", "flash_relations", "database") if (why := interval.problem(name))
    ]
    if interval.resets:
        notes.append(f"counters were reset meanwhile, and are counted from then on: {', '.join(interval.resets)}")
    rest = [row for row in interval.rows("relations") if row.key.startswith("rest")]
    if pages := sum(row.get("blks_read") for row in rest):
        notes.append(f"{show_number(pages)} pages were read of relations that the snapshots have in sum only, and are left out")
    gone = [
        row for row in interval.rows("relations")
        if row.key.isdecimal() and int(row.key) not in now.units and row.label("kind") in ("r", "m", "i") and row.get("blks_read")
        and row.label("schema") not in ("pg_catalog", "information_schema", "pg_toast", "pgflash")
        and not row.label("name").startswith("pg_flashcache_")  # the extension's own, which are no objects to be placed
    ]  # fmt: skip
    if gone:
        notes.append(
            f"{counted(len(gone), 'object')} that were read meanwhile have been dropped since, as {gone[0].label('schema')}.{gone[0].label('name')}"
        )
    return notes


def _moved(connection: db.Connection, interval: Interval, now: Snapshot, temp_bytes: int | None) -> Snapshot:
    """The objects of now, with counters that begin at the first snapshot."""
    relations = {row.key: row for row in interval.rows("relations")}
    timed = {row.key: row for row in interval.rows("flash_relations")}
    settings = interval.one("settings") or NONE
    each_timed = settings.labels.get("io_method", "sync") == "sync"
    counted = any(row.get("disk_writes") or row.get("disk_extends") for row in timed.values()) and not interval.problem("flash_relations")
    tables = {int(oid): (int(toast), int(index), float(rows)) for oid, toast, index, rows in db.rows(connection, _TABLES)}
    units: dict[int, Unit] = {}
    for oid, unit in now.units.items():
        if unit.kind == "temporary":
            continue
        toast, of_toast, a_page = tables.get(oid, (0, 0, 1.0))
        row, changed = relations.get(str(oid), NONE), relations.get(str(unit.table or oid), NONE)
        inserted, updated, deleted = (changed.get(f"tup_{what}") for what in ("inserted", "updated", "deleted"))
        mine = [timed[str(one)] for one in (oid, toast) if str(one) in timed]
        units[oid] = replace(unit, now=Counters(
            unit.now.bytes, round(row.get("blks_read")),
            round(sum(relations.get(str(one), NONE).get("blks_read") for one in (toast, of_toast) if one)),
            inserted + updated if unit.kind == "index" else inserted / a_page + updated + deleted, 0.0,
            round(sum(one.get("disk_reads") for one in mine)) if mine and each_timed else None,
            round(sum(one.get("disk_read_time_us") for one in mine)) if mine and each_timed else None,
            None if not counted else round(sum(one.get("disk_writes") + one.get("disk_extends") for one in mine)),
        ))  # fmt: skip
    totals = next((row for row in interval.rows("database") if row.label("datname") == interval.database), NONE)
    database = {name: totals.get(name) for name in now.database}
    units[0] = observe.temporary(connection, database, temp_bytes)
    cache = interval.one("cache") or NONE
    flash_us = cache.get("read_time_us") / cache.get("hits") if cache.get("hits") >= observe.ENOUGH else None
    # What is missing of now says nothing of then.
    return replace(
        now,
        units=units,
        seconds_since_reset=interval.seconds,
        database=database,
        written=_written(interval),
        flash_us=flash_us,
        server=_timed_reads(interval, cache, each_timed),
        reads_timed=settings.labels.get("track_io_timing", "on") == "on",
        missing=[],
        moved=True,
    )


def _timed_reads(interval: Interval, cache: Row, each: bool) -> tuple[float, float]:
    """As of what is observed now."""
    if each:
        return cache.get("disk_reads"), cache.get("disk_read_time_us")
    rows = [row for row in interval.rows("flash_latency") if row.label("operation") in latency.READS]
    limits = [(float(row.labels.get("from_us") or 0), row.labels.get("to_us"), row.get("count")) for row in rows]
    return latency.totals((start, None if end is None else float(end), count) for start, end, count in limits)


def _written(interval: Interval) -> float:
    """Pages that the server wrote, of all databases: as of 16 by pg_stat_io."""
    if "io" in interval.sections:
        return sum(row.get("writes") for row in interval.rows("io") if row.label("object") == "relation")
    row = interval.one("bgwriter") or NONE
    return row.get("buffers_checkpoint") + row.get("buffers_clean") + row.get("buffers_backend")
